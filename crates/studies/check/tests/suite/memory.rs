//! Designs on the memory fabric, two or three accelerators around one switch or two: right whatever order packets of different virtual
//! channels arrive in, and wrong in some run if a rule is broken.

use std::ops::ControlFlow;

use crate::common::{assert_right, full, lossy, run};
use quincunx_check::{
    Arguments, Exploration, Explored, Explorer, Fault, Finding, MemoryGroup, MemoryGroupSetup, Subject,
    replay,
};
use quincunx_collective::{Collective, Rank};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;

/// Nothing is lost there.
fn rules() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

fn setup(name: &str, collective: Collective, fabric: &str, packets: usize) -> MemoryGroupSetup {
    let scenario = Scenario::find_for(&Explorer, fabric, &[], CATALOG).unwrap();
    let design = CATALOG.find(name, FabricKind::Memory).unwrap();
    MemoryGroupSetup { packets, ..MemoryGroupSetup::new(design, scenario, collective) }
}

fn group(setup: &MemoryGroupSetup) -> MemoryGroup {
    MemoryGroup::new(setup).unwrap()
}

const DESIGNS: [&str; 4] = ["scin", "nvls", "ring", "direct"];

fn offered(name: &str) -> &'static [Collective] {
    CATALOG.find(name, FabricKind::Memory).unwrap().collectives(FabricKind::Memory)
}

/// That every collective of a design is right on two and on three accelerators.
#[track_caller]
fn assert_every_collective_is_right(name: &str) {
    for &collective in offered(name) {
        for fabric in ["memory-2", "memory-3"] {
            assert_right(&group(&setup(name, collective, fabric, 1)), rules());
        }
    }
}

#[test]
fn collectives_that_the_switch_runs_are_right_on_two_and_three_accelerators() {
    assert_every_collective_is_right("scin");
}

#[test]
fn collectives_by_reduced_loads_and_multicast_stores_are_right_on_two_and_three_accelerators() {
    assert_every_collective_is_right("nvls");
}

#[test]
fn quantised_all_reduces_are_right_to_the_scale_factor() {
    for name in ["scin-inq", "ring-rq"] {
        for (fabric, packets, times) in
            [("memory-2", 1, 1), ("memory-2", 1, 2), ("memory-2x2", 2, 1), ("memory-3", 1, 1)]
        {
            let kept = MemoryGroupSetup { times, ..setup(name, Collective::AllReduce, fabric, packets) };
            assert_right(&group(&kept), rules());
        }
    }
    // Two waves of two packets of codes, and the beginning of a third.
    assert_right(&group(&setup("scin-inq", Collective::AllReduce, "memory-2", 5)), rules());
}

/// AllReduce pushed through the switch, which has room for so many sums at once.
fn pushed(fabric: &str, packets: usize, sums: u16) -> MemoryGroupSetup {
    let mut pushed = setup("nvls", Collective::AllReduce, fabric, packets);
    pushed.scenario.set("nvls.all_reduce", "push".into());
    pushed.scenario.set("nvls.sums", sums.into());
    pushed
}

#[test]
fn an_all_reduce_that_is_pushed_is_right_on_two_and_three_accelerators_and_over_two_switches() {
    for (fabric, packets) in [("memory-2", 1), ("memory-2", 2), ("memory-3", 1), ("memory-2x2", 2)] {
        assert_right(&group(&pushed(fabric, packets, 2)), rules());
    }
    assert_right(&group(&MemoryGroupSetup { times: 2, ..pushed("memory-2", 1, 2) }), rules());
}

#[test]
fn pushes_that_find_no_entry_end_with_one_buffer_and_room_for_one_sum() {
    assert_right(&group(&pushed("memory-2", 3, 1)), rules());
    for buffers in [1, 2] {
        let tight = MemoryGroupSetup { buffers: Some(buffers), ..pushed("memory-2", 2, 1) };
        assert_right(&group(&tight), Exploration { persistent_sets: false, ..rules() });
    }
}

#[test]
fn collectives_of_accelerators_alone_are_right_on_two_and_three_of_them() {
    assert_every_collective_is_right("ring");
    assert_every_collective_is_right("direct");
}

#[test]
fn every_design_is_right_where_a_vector_is_split_over_two_switches() {
    for name in DESIGNS {
        for &collective in offered(name) {
            assert_right(&group(&setup(name, collective, "memory-2x2", 2)), rules());
        }
    }
    assert_right(&group(&setup("ring", Collective::AllReduce, "memory-3x2", 2)), rules());
}

#[test]
fn collectives_with_another_root_are_right() {
    for collective in [Collective::Reduce { root: Rank(2) }, Collective::Broadcast { root: Rank(1) }] {
        assert_right(&group(&setup("scin", collective, "memory-3", 1)), rules());
    }
}

#[test]
fn room_in_a_switch_is_used_again_in_a_longer_vector() {
    // Two waves of two packets; as many reduced loads as a link may have.
    assert_right(&group(&setup("scin", Collective::AllReduce, "memory-2", 5)), rules());
    assert_right(&group(&setup("nvls", Collective::AllReduce, "memory-2", 2)), rules());
}

#[test]
fn two_in_a_row_are_kept_apart_though_ranks_end_at_different_times() {
    for name in DESIGNS {
        for &collective in offered(name) {
            let twice = MemoryGroupSetup { times: 2, ..setup(name, collective, "memory-2", 1) };
            assert_right(&group(&twice), rules());
        }
    }
}

#[test]
fn a_ring_does_not_write_over_what_its_successor_has_not_added_up_yet() {
    // The exploration found it: a rank that was done wrote the next ReduceScatter's chunk over one of which a share was there and
    // the flag of the other switch was not; and the next AllGather's over a vector that was still used.
    for collective in [Collective::ReduceScatter, Collective::AllGather] {
        let two_switches = setup("ring", collective, "memory-2x2", 2);
        assert_right(&group(&MemoryGroupSetup { times: 2, ..two_switches }), rules());
        let three = setup("ring", collective, "memory-3", 1);
        assert_right(&group(&MemoryGroupSetup { times: 2, ..three }), rules());
    }
}

#[test]
fn direct_writes_gather_into_no_vector_that_is_still_used() {
    // The exploration found it, on three accelerators and two in a row.
    let twice = MemoryGroupSetup { times: 2, ..setup("direct", Collective::AllGather, "memory-3", 1) };
    assert_right(&group(&twice), rules());
}

#[test]
fn a_link_with_a_buffer_or_two_for_each_channel_is_enough() {
    for buffers in [1, 2] {
        for (name, packets) in [("scin", 2), ("nvls", 1), ("ring", 1), ("direct", 1)] {
            let tight = MemoryGroupSetup {
                buffers: Some(buffers),
                ..setup(name, Collective::AllReduce, "memory-2", packets)
            };
            assert_right(&group(&tight), Exploration { persistent_sets: false, ..rules() });
        }
    }
}

#[test]
fn what_is_left_out_makes_no_difference() {
    for (name, times) in [("scin", 2), ("nvls", 1), ("ring", 1), ("direct", 1)] {
        let setup = MemoryGroupSetup { times, ..setup(name, Collective::AllReduce, "memory-2", 1) };
        assert_right(&group(&setup), full(rules()));
    }
    let gathering = MemoryGroupSetup { times: 2, ..setup("ring", Collective::AllGather, "memory-2", 1) };
    assert_right(&group(&gathering), full(rules()));
}

#[test]
fn arithmetic_that_takes_its_time_changes_nothing() {
    for early_timeouts in [0, 1] {
        let mut slow = setup("scin", Collective::AllReduce, "memory-2", 3);
        slow.scenario.set("isa.compute_latency", "20ns".into());
        assert_right(&group(&slow), Exploration { early_timeouts, ..rules() });
    }
}

#[test]
fn switches_that_ask_do_not_rest_on_the_order_within_a_channel_and_a_ring_does() {
    // Accelerators answer in any order (SCIN 3.1). A flag of the ring must not overtake its data (4.1).
    let late = Exploration { delays: 1, ..rules() };
    for name in ["scin", "nvls"] {
        assert_right(&group(&setup(name, Collective::AllReduce, "memory-2", 1)), late);
    }
    assert!(run(&group(&setup("ring", Collective::AllReduce, "memory-2", 1)), late).1.is_some());
}

#[test]
fn how_many_states_there_are_is_known() {
    // Whoever changes what accelerators or switches do, or what is explored, sees it here.
    let states =
        |name| assert_right(&group(&setup(name, Collective::AllReduce, "memory-2", 1)), full(rules()));
    assert_eq!(DESIGNS.map(|name| states(name).distinct), [72, 948, 759, 1209]);
}

#[test]
fn broken_rules_are_noticed_by_what_is_in_memory_and_are_the_same_run_in_virtual_time() {
    for (name, mutation, fabric, packets, times) in [
        ("scin", "reads-out-early", "memory-2", 1, 1),
        ("scin", "reads-out-early", "memory-3", 1, 1),
        ("scin", "frees-wave-early", "memory-2", 5, 1),
        ("scin", "next-address", "memory-2", 2, 1),
        ("scin", "barrier-short", "memory-2", 1, 2),
        ("scin-inq", "reads-out-early", "memory-2", 1, 1),
        ("scin-inq", "first-scales", "memory-2", 3, 1),
        ("scin-inq", "scales-to-first", "memory-2", 3, 1),
        ("nvls", "answers-load-early", "memory-2", 1, 1),
        ("nvls", "answers-load-early", "memory-3", 1, 1),
        ("nvls", "reduces-one-less", "memory-2", 1, 1),
        ("nvls", "answers-store-early", "memory-2x2", 3, 1),
    ] {
        let kept = MemoryGroupSetup { times, ..setup(name, Collective::AllReduce, fabric, packets) };
        let rules = Exploration { persistent_sets: mutation != "barrier-short", ..rules() };
        let broken = group(&MemoryGroupSetup { mutation: Some(mutation.to_owned()), ..kept });
        let (fault, path) = run(&broken, rules).1.unwrap_or_else(|| panic!("{mutation} is not noticed"));
        assert!(matches!(fault, Fault::Wrong { .. } | Fault::Stuck), "{mutation}: {fault}");
        if mutation == "barrier-short" {
            // The switch reads before a rank has begun. Here the answer waits until it has, in virtual time it leaves at once.
            continue;
        }
        let seen = if fault == Fault::Stuck { None } else { Some(fault) };
        assert_eq!(replay(&broken, &path), Ok(seen), "{mutation}");
    }
}

#[test]
fn broken_rules_of_pushes_are_noticed() {
    for (mutation, fabric, packets) in [
        ("sums-early", "memory-2", 1),
        ("sums-early", "memory-3", 1),
        ("reduces-one-less", "memory-2", 1),
        ("answers-push-early", "memory-2x2", 3),
    ] {
        let broken = MemoryGroupSetup { mutation: Some(mutation.to_owned()), ..pushed(fabric, packets, 2) };
        let (fault, _) =
            run(&group(&broken), rules()).1.unwrap_or_else(|| panic!("{mutation} is not noticed"));
        assert!(matches!(fault, Fault::Wrong { .. } | Fault::Stuck), "{mutation}: {fault}");
    }
}

#[test]
fn a_broken_rule_that_never_matters_is_told_apart_from_a_right_one() {
    // A wave of one packet has nothing behind its first.
    let mutation = Some("frees-wave-early".to_owned());
    let broken = MemoryGroupSetup { mutation, ..setup("scin", Collective::AllReduce, "memory-2", 1) };
    let (_, finding) = group(&broken).explore(rules(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(finding, Finding::NeverMattered);
}

fn subject(
    name: &str,
    collective: &str,
    tree: Option<&str>,
    change: impl Fn(&mut Arguments),
) -> Result<Subject, String> {
    let mut arguments = Arguments { tree: tree.map(str::to_owned), ..Arguments::default() };
    change(&mut arguments);
    Subject::find(CATALOG, name, collective, &arguments).map_err(|refusal| refusal.to_string())
}

#[test]
fn a_design_is_found_by_its_name_and_its_fabric() {
    for (name, collective, tree, known) in [
        ("scin", "all_reduce", Some("star-2"), "memory-2"),
        ("nvls", "all_gather", None, "memory-2"),
        ("ring", "all_reduce", Some("memory-3"), "memory-3"),
        ("direct", "all_gather", Some("memory-2x2"), "memory-2x2"),
    ] {
        let subject = subject(name, collective, tree, |_| {}).unwrap();
        assert_eq!(subject.tree.as_deref(), Some(known));
        let (_, finding) = subject.network.explore(rules(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(finding, Finding::Correct, "{name} {collective}");
    }
}

#[test]
fn what_is_not_explored_there_is_refused_in_a_line_that_says_why() {
    let lossless = subject("scin", "all_reduce", None, |_| {}).unwrap();
    assert_eq!(lossless.losses(None, 0).unwrap(), 0);
    let refusals = [
        (lossless.losses(Some(1), 0).unwrap_err().to_string(), "expected no --losses on a memory fabric"),
        (lossless.losses(None, 1).unwrap_err().to_string(), "expected no --duplicate on a memory fabric"),
    ];
    let find = |name, collective, tree, change: &dyn Fn(&mut Arguments)| match subject(
        name, collective, tree, change,
    ) {
        Ok(_) => panic!("{name} {collective} is explored"),
        Err(refusal) => refusal,
    };
    let mutate = |arguments: &mut Arguments| arguments.mutate = Some("nothing".to_owned());
    let found = [
        (find("nvls", "reduce", None, &|_| {}), "expected one of all_reduce, reduce_scatter, "),
        (find("scin", "reduce", None, &|arguments| arguments.roots = vec![2]), "expected a root below 2"),
        (find("scin", "all_reduce", None, &mutate), "expected one of reads-out-early, "),
        (find("ring", "all_reduce", Some("memory-2"), &mutate), "expected no rule of ring to break"),
        (find("epic-3", "all_reduce", Some("memory-2"), &|_| {}), "expected a design for a memory fabric"),
        (find("scin", "all_reduce", Some("memory-17"), &|_| {}), "expected at most 16 accelerators"),
        (find("scin", "all_reduce", Some("tree-2-2"), &|_| {}), "expected accelerators around switches"),
        (find("direct", "all_gather", Some("mesh8-memory"), &|_| {}), "accelerators without switches"),
    ];
    for (refusal, expected) in refusals.into_iter().chain(found) {
        assert!(refusal.contains(expected) && !refusal.contains('\n'), "{refusal}");
    }
}
