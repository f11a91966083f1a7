//! Collectives whose loads and reductions merge in the switches, with real numbers: right whatever the tables lose, and what they lose is
//! counted.

use quincunx_collective::*;
use quincunx_design::{FabricKind, Settings};
use quincunx_designs::CATALOG;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_memory::Scatter;
use quincunx_scenario::{Fabric, Scenario};
use quincunx_sim::memory_fabric::{MemoryFabric, Outcome, expected, run};
use quincunx_units::Duration;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// Five accelerators around two switches, whose responses come in any order.
fn fabric() -> MemoryFabric {
    let scenario = Scenario::find("scin-dgx8", &[], CATALOG).expect("a preset");
    let Fabric::Memory(fabric) = &scenario.fabric else { panic!("a memory fabric") };
    MemoryFabric {
        accelerators: 5,
        switches: 2,
        scatter: Some(Scatter { seed: 7, spread: Duration::from_nanos(400) }),
        ..MemoryFabric::from(fabric)
    }
}

fn settings(changes: &[(&str, &str)]) -> Settings {
    let mut scenario = Scenario::find("scin-dgx8", &[], CATALOG).expect("a preset");
    for (key, value) in changes {
        let value = match (value.parse::<u32>(), value.parse::<bool>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(truth)) => truth.into(),
            _ => (*value).into(),
        };
        scenario.set(key, value);
    }
    let design = CATALOG.find("cais", FabricKind::Memory).expect("a design of the catalog");
    scenario.settings(design).expect("settings of the design")
}

/// Runs a collective on numbers, and holds what is left against what must be.
#[track_caller]
fn right(fabric: &MemoryFabric, collective: Collective, changes: &[(&str, &str)]) -> Outcome<Numbers> {
    let length = usize::from(fabric.accelerators) * 4 * 1000;
    let inputs: Vec<Numbers> =
        (0..fabric.accelerators).map(|rank| noise(rank.into(), length, SUM.data_type)).collect();
    let request = InPlaceRequest { collective, reduction: SUM, span: Span { offset: 0, length } };
    let design = CATALOG.find("cais", FabricKind::Memory).expect("a design of the catalog");
    let outcome = run(fabric, design, &settings(changes), request, inputs.clone()).expect("a run");
    for (rank, memory) in outcome.memories.iter().enumerate() {
        let Some((span, right)) = expected(&request, rank, &inputs) else { continue };
        let found = Numbers::from_view(memory.view(span.offset..span.offset + span.length));
        assert!(found == right, "{collective} at rank {rank}, {changes:?}");
    }
    outcome
}

const ALL: [Collective; 3] = [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

#[test]
fn with_room_for_all_every_line_is_loaded_from_its_home_once_and_sent_there_once() {
    let fabric = fabric();
    let outcome = right(&fabric, Collective::AllReduce, &[]);
    // 157 lines of 128 bytes, the last of them shorter, from and to four others each.
    let lines = 157;
    let counted = |name| outcome.counted(name);
    assert_eq!([counted("loads"), counted("reductions")], [lines * 4; 2]);
    assert_eq!([counted("merged loads"), counted("merged reductions")], [lines * 3; 2]);
    assert_eq!([counted("whole sums"), counted("partial sums"), counted("bypassed")], [lines, 0, 0]);
    assert_eq!([counted("evicted"), counted("timed out"), counted("entries")], [0; 3]);
}

#[test]
fn small_tables_evict_and_let_requests_pass_and_all_is_right() {
    for entries in ["1", "2", "4"] {
        for collective in ALL {
            let changes = [("merge.entries", entries), ("sync.in_step", "false")];
            let outcome = right(&fabric(), collective, &changes);
            if collective != Collective::AllGather {
                assert!(outcome.counted("evicted") > 0 && outcome.counted("partial sums") > 0, "{entries}");
            }
            if collective != Collective::ReduceScatter {
                assert!(outcome.counted("bypassed") > 0, "{entries} {collective}");
            }
        }
    }
}

#[test]
fn what_waits_too_long_ends_and_all_is_right() {
    for collective in ALL {
        // Two lines at a time, so that loads of one line are far apart.
        let changes = [("merge.timeout", "1ns"), ("sync.in_step", "false"), ("loads.window", "2")];
        let outcome = right(&fabric(), collective, &changes);
        assert!(outcome.counted("timed out") > 0, "{collective}");
    }
}

#[test]
fn partial_sums_that_evictions_leave_behind_get_home_by_the_time_out() {
    let changes = [("merge.entries", "2"), ("sync.in_step", "false")];
    let outcome = right(&fabric(), Collective::ReduceScatter, &changes);
    assert!(outcome.counted("timed out") > 0);
    // Five microseconds after the last access, and no more for each than a few round trips.
    let time = outcome.time();
    assert!(time > Duration::from_micros(5) && time < Duration::from_micros(20), "{time}");
}

#[test]
fn a_unit_that_takes_its_time_and_accelerators_that_wait_for_each_other_change_no_number() {
    for collective in ALL {
        right(&fabric(), collective, &[("merge.latency", "20ns"), ("merge.entries", "2")]);
        let aligned = [("sync.pre_access", "true"), ("merge.entries", "2")];
        let outcome = right(&fabric(), collective, &aligned);
        assert!(outcome.counted("released groups") > 0, "{collective}");
        let full = [("sync.pre_access", "true"), ("sync.groups", "0")];
        assert!(right(&fabric(), collective, &full).counted("uncoordinated syncs") > 0, "{collective}");
    }
}

#[test]
fn one_accelerator_and_two_do_as_well_as_many() {
    for accelerators in [1, 2] {
        for collective in ALL {
            right(&MemoryFabric { accelerators, ..fabric() }, collective, &[("merge.entries", "1")]);
        }
    }
}

#[test]
fn a_table_without_a_bound_says_how_much_it_would_need() {
    let outcome = right(&fabric(), Collective::AllReduce, &[("merge.entries", "0")]);
    assert!(outcome.switch_buffer.bytes() > 0);
    assert_eq!(outcome.counted("evicted") + outcome.counted("bypassed"), 0);
}
