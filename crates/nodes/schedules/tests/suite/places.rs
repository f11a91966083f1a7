//! Where the blocks of a schedule run, in which order they go, and what of a product they load again.

use crate::{LAYER, machine, plan};
use quincunx_accelerator::{Kernel, KernelPlace, Output, Plan};
use quincunx_schedules::ALL;
use std::collections::BTreeSet;

fn named<'a>(plan: &'a Plan, name: &str) -> &'a Kernel {
    plan.program.kernels.iter().find(|kernel| kernel.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn communication_kernels_take_whole_sms_and_only_t3_has_engines_that_take_none() {
    let sms = KernelPlace::WholeSm(machine().communication_sms);
    let engines = KernelPlace::CopyEngine(machine().copy_engines);
    let expected = [
        ("tp-nvls", "all_reduce", sms),
        ("sp-nvls", "reduce_scatter", sms),
        ("sp-nvls", "all_gather", sms),
        ("coconet", "all_reduce", sms),
        ("coconet-nvls", "all_reduce", sms),
        ("fuselib", "all_reduce", KernelPlace::Sm),
        ("t3", "reduce_scatter", engines),
        ("t3", "all_gather", engines),
        ("t3-nvls", "reduce_scatter", engines),
        ("t3-nvls", "all_gather", engines),
    ];
    for (schedule, kernel, place) in expected {
        assert_eq!(named(&plan(schedule, 0), kernel).place, place, "{schedule}, {kernel}");
    }
}

#[test]
fn communication_goes_before_normalisations_and_those_before_products() {
    for schedule in ALL {
        let plan = schedule.plan(&LAYER, &machine(), 0).unwrap();
        let priority = |wanted: fn(&Kernel) -> bool| -> BTreeSet<u8> {
            let kernels = plan.program.kernels.iter().filter(|kernel| wanted(kernel));
            kernels.map(|kernel| kernel.priority).collect()
        };
        let products = priority(|kernel| kernel.name.starts_with("product"));
        let norms = priority(|kernel| kernel.name == "norm");
        let sends = priority(|kernel| kernel.name.starts_with("all_") && kernel.place != KernelPlace::Sm);
        let name = schedule.name();
        assert!(products.last() < norms.first(), "{name}: {products:?}, {norms:?}");
        assert!(sends.is_empty() || norms.last() < sends.first(), "{name}: {norms:?}, {sends:?}");
    }
}

/// Homes of the first sums that each accelerator sends.
fn first_homes(schedule: &str, kernel: &str) -> BTreeSet<u16> {
    (0..machine().ranks).map(|rank| named(&plan(schedule, rank), kernel).blocks[0].outputs[0].to).collect()
}

#[test]
fn accelerators_that_send_to_each_other_begin_with_different_homes() {
    for (schedule, kernel) in [("t3", "reduce_scatter"), ("coconet", "all_reduce"), ("fuselib", "product 1")]
    {
        assert_eq!(first_homes(schedule, kernel).len(), 4, "{schedule}");
    }
}

#[test]
fn accelerators_whose_sums_meet_in_the_switch_take_the_same_order() {
    let order = |schedule: &str, kernel: &str, rank: u16| -> Vec<u64> {
        let plan = plan(schedule, rank);
        let blocks = named(&plan, kernel).blocks.iter();
        blocks.flat_map(|block| &block.outputs).map(|output: &Output| output.address).collect()
    };
    for (schedule, kernel) in [("coconet-nvls", "all_reduce"), ("tp-nvls", "all_reduce")] {
        assert_eq!(order(schedule, kernel, 0), order(schedule, kernel, 3), "{schedule}");
    }
}

#[test]
fn a_communication_kernel_sends_a_chunk_when_its_own_tiles_are_computed() {
    for schedule in ["coconet", "coconet-nvls"] {
        let plan = plan(schedule, 0);
        // Eight chunks of eight row blocks, of four tiles each.
        let sends = &named(&plan, "all_reduce").blocks[..32];
        for (chunk, blocks) in sends.chunks(4).enumerate() {
            assert!(blocks.iter().all(|block| block.waits == blocks[0].waits), "{schedule}, chunk {chunk}");
            let [wait] = blocks[0].waits[..] else { panic!("{schedule}: one counter") };
            assert_eq!(wait.target, 4, "{schedule}");
            let computed = named(&plan, "product 1").blocks.iter();
            let tells = computed.filter(|block| block.signals.iter().any(|to| to.counter == wait.counter));
            assert_eq!(tells.count(), 4, "{schedule}, chunk {chunk}");
        }
    }
}

#[test]
fn what_blocks_of_one_round_load_in_common_is_loaded_once_and_again_in_the_next_round() {
    // Two SMs of two blocks: four blocks a round, which are the columns of a row block.
    let plan = plan("ladm", 0);
    let tiles: Vec<Vec<u32>> = named(&plan, "product 1")
        .blocks
        .chunks(4)
        .map(|round| {
            let stages = round.iter().flat_map(|block| &block.stages);
            stages.flat_map(|stage| &stage.tiles).map(|id| id.0).collect()
        })
        .collect();
    let [first, second] = &tiles[..] else { panic!("{} rounds", tiles.len()) };
    let [once, again] = [first, second].map(|round| round.iter().copied().collect::<BTreeSet<u32>>());
    assert!(once.len() < first.len(), "four columns have their rows in common");
    assert!(once.is_disjoint(&again));
    let address = |tiles: &BTreeSet<u32>| -> BTreeSet<u64> {
        tiles.iter().map(|&tile| plan.program.tiles[tile as usize].address).collect()
    };
    assert!(!address(&once).is_disjoint(&address(&again)), "the weights");
}
