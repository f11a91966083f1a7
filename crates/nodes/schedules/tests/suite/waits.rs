//! What schedules wait for: all that a counter will ever count, so that nobody begins before the last of many has come.

use crate::{LAYER, machine};
use quincunx_accelerator::{CounterId, Output, Plan, Schedule, Send, Signal, To};
use quincunx_schedules::{ALL, find};
use std::collections::BTreeMap;

fn plans(schedule: &dyn Schedule) -> Vec<Plan> {
    (0..machine().ranks).map(|rank| schedule.plan(&LAYER, &machine(), rank).unwrap()).collect()
}

/// What the counters of each accelerator come to, times the number of accelerators, each of which has that share in a pushed sum.
fn totals(plans: &[Plan]) -> Vec<BTreeMap<CounterId, u64>> {
    let ranks = plans.len();
    let mut totals = vec![BTreeMap::new(); ranks];
    let mut add = |rank: usize, counter, amount: u64| *totals[rank].entry(counter).or_insert(0) += amount;
    for (rank, plan) in plans.iter().enumerate() {
        let tell = |signals: &[Signal], add: &mut dyn FnMut(usize, CounterId, u64)| {
            for signal in signals {
                match signal.to {
                    To::Own => add(rank, signal.counter, ranks as u64),
                    To::All => (0..ranks).for_each(|to| add(to, signal.counter, ranks as u64)),
                    To::Switches => {}
                }
            }
        };
        for kernel in &plan.program.kernels {
            tell(&kernel.signals, &mut add);
            for block in &kernel.blocks {
                tell(&block.signals, &mut add);
                for &Output { send, to, address, rows, .. } in &block.outputs {
                    let (homes, share) = match send {
                        Send::PushReduce => (0..ranks, 1),
                        Send::MulticastStore => (0..ranks, ranks),
                        _ => (usize::from(to)..usize::from(to) + 1, ranks),
                    };
                    for (home, start) in homes.flat_map(|home| {
                        (0..u64::from(rows.count)).map(move |row| (home, address + rows.pitch * row))
                    }) {
                        let regions = &plans[home].program.regions;
                        let inside = regions
                            .iter()
                            .find(|region| (region.address..region.address + region.length).contains(&start));
                        if let Some(region) = inside {
                            let part = ((start - region.address) / region.part) as u16;
                            let counter = CounterId(region.counter.0 + part);
                            add(home, counter, u64::from(rows.bytes) * share as u64);
                        }
                    }
                }
            }
        }
        // A switch that has run a collective stores one in its word.
        for offload in &plan.offloads {
            for switch in 0..machine().switches {
                add(rank, CounterId(offload.done.0 + switch), ranks as u64);
            }
        }
    }
    totals
}

#[test]
fn who_waits_for_a_counter_waits_for_all_that_it_counts() {
    for schedule in ALL {
        let plans = plans(*schedule);
        let totals = totals(&plans);
        for (rank, plan) in plans.iter().enumerate() {
            for kernel in &plan.program.kernels {
                let waits = kernel.blocks.iter().flat_map(|block| &block.waits).chain(&kernel.waits);
                for wait in waits {
                    let total = totals[rank].get(&wait.counter).copied().unwrap_or(0);
                    let (name, kernel) = (schedule.name(), &kernel.name);
                    assert_eq!(
                        wait.target * plans.len() as u64,
                        total,
                        "{name}, {kernel} on {rank}: {wait:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn kernel_by_kernel_a_normalisation_waits_for_all_rows_that_it_normalises() {
    for name in ["cais-base", "tp-nvls", "coconet", "fuselib", "coconet-nvls", "fuselib-nvls", "t3"] {
        let plan = find(name).unwrap().plan(&LAYER, &machine(), 1).unwrap();
        let norm = plan.program.kernels.iter().find(|kernel| kernel.name == "norm").unwrap();
        // Row blocks of 32 rows; those without a ReduceScatter normalise all of them, in four blocks of eight rows.
        let row_blocks = norm.blocks.len() / 4;
        let sums = plan.program.regions[0].counter.0;
        let waited = norm.waits.iter().filter(|wait| (sums..sums + 8).contains(&wait.counter.0)).count();
        assert_eq!(waited, row_blocks, "{name}");
    }
}

#[test]
fn merging_alone_normalises_when_the_first_product_has_ended() {
    let plan = find("cais-base").unwrap().plan(&LAYER, &machine(), 0).unwrap();
    let [first, norm, _] = &plan.program.kernels[..] else { panic!("three kernels") };
    let ended = first.signals[0].counter;
    assert!(norm.waits.iter().any(|wait| wait.counter == ended));
}
