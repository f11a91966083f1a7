//! Loads and reductions that merge in a switch, two or three accelerators around it: whatever the tables lose, whenever time-outs come, and
//! whatever order packets of different virtual channels arrive in, no request is unanswered, none is answered twice, no contribution is
//! lost or doubled, and every run ends; and some run is wrong if a rule is broken.

use crate::common::{assert_right, full, lossy, run};
use quincunx_check::{Exploration, Explorer, Fault, MemoryGroup, MemoryGroupSetup, replay};
use quincunx_collective::Collective;
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;

const ALL: [Collective; 3] = [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

/// Nothing is lost there. On three accelerators to look for what may be left out takes longer than to look at all of it.
fn rules(fabric: &str) -> Exploration {
    Exploration { losses: 0, persistent_sets: fabric != "memory-3", ..lossy() }
}

/// Time-outs come when they like, once.
fn early(fabric: &str) -> Exploration {
    Exploration { early_timeouts: 1, ..rules(fabric) }
}

/// Tables of so many entries.
fn setup(collective: Collective, fabric: &str, entries: u32, packets: usize) -> MemoryGroupSetup {
    let mut scenario = Scenario::find_for(&Explorer, fabric, &[], CATALOG).unwrap();
    scenario.set("merge.entries", entries.into());
    let design = CATALOG.find("cais", FabricKind::Memory).unwrap();
    MemoryGroupSetup { packets, ..MemoryGroupSetup::new(design, scenario, collective) }
}

fn group(setup: &MemoryGroupSetup) -> MemoryGroup {
    MemoryGroup::new(setup).unwrap()
}

#[test]
fn every_collective_is_right_on_two_and_three_accelerators() {
    for collective in ALL {
        for fabric in ["memory-2", "memory-3"] {
            assert_right(&group(&setup(collective, fabric, 2, 1)), rules(fabric));
        }
    }
}

#[test]
fn where_more_is_to_be_learnt_than_explored_all_is_explored() {
    // As the command has it; to learn which frames commute at the merge unit took minutes and did not end.
    let setup = setup(Collective::AllReduce, "memory-3", 2, 1);
    let as_asked = assert_right(&group(&setup), Exploration { persistent_sets: true, ..rules("memory-3") });
    let whole = assert_right(&group(&setup), rules("memory-3"));
    assert_eq!((as_asked.distinct, as_asked.states), (whole.distinct, whole.states));
}

#[test]
fn it_is_right_where_tables_have_one_entry_and_requests_go_past_them_or_throw_others_out() {
    for collective in ALL {
        assert_right(&group(&setup(collective, "memory-2", 1, 2)), rules("memory-2"));
    }
    for collective in [Collective::AllReduce, Collective::ReduceScatter] {
        assert_right(&group(&setup(collective, "memory-3", 1, 2)), rules("memory-3"));
    }
}

#[test]
fn it_is_right_whenever_a_time_out_comes() {
    for collective in ALL {
        assert_right(&group(&setup(collective, "memory-2", 1, 2)), early("memory-2"));
        assert_right(&group(&setup(collective, "memory-3", 1, 1)), early("memory-3"));
    }
}

#[test]
fn two_in_a_row_are_kept_apart_though_a_switch_has_data_of_the_first() {
    for collective in ALL {
        let twice = |fabric| MemoryGroupSetup { times: 2, ..setup(collective, fabric, 1, 1) };
        assert_right(&group(&twice("memory-2")), early("memory-2"));
        assert_right(&group(&twice("memory-3")), rules("memory-3"));
    }
    // A time-out lets an entry end between two loads: what is cached for the second is there when the next collective begins.
    let twice = MemoryGroupSetup { times: 2, ..setup(Collective::AllReduce, "memory-3", 2, 1) };
    assert_right(&group(&twice), early("memory-3"));
}

#[test]
fn lines_of_two_switches_are_right_together() {
    for collective in ALL {
        assert_right(&group(&setup(collective, "memory-2x2", 1, 2)), rules("memory-2x2"));
    }
}

#[test]
fn a_link_with_a_buffer_or_two_for_each_channel_is_enough() {
    for buffers in [1, 2] {
        let tight =
            MemoryGroupSetup { buffers: Some(buffers), ..setup(Collective::AllReduce, "memory-2", 1, 2) };
        assert_right(&group(&tight), Exploration { persistent_sets: false, ..rules("memory-2") });
    }
}

#[test]
fn what_is_left_out_makes_no_difference() {
    for collective in ALL {
        assert_right(&group(&setup(collective, "memory-2", 1, 1)), full(rules("memory-2")));
    }
}

#[test]
fn nothing_rests_on_the_order_within_a_channel() {
    for collective in ALL {
        let late = Exploration { delays: 1, ..rules("memory-2") };
        assert_right(&group(&setup(collective, "memory-2", 1, 2)), late);
    }
}

/// Accelerators that wait for each other before they access a part, with room for so many groups in a switch.
fn aligned(collective: Collective, fabric: &str, groups: u32) -> MemoryGroupSetup {
    let mut setup = setup(collective, fabric, 2, 1);
    setup.scenario.set("sync.pre_access", true.into());
    setup.scenario.set("sync.groups", groups.into());
    setup
}

#[test]
fn accelerators_that_wait_for_each_other_all_go_on() {
    for collective in ALL {
        assert_right(&group(&aligned(collective, "memory-2", 4)), early("memory-2"));
    }
    assert_right(&group(&aligned(Collective::ReduceScatter, "memory-3", 4)), rules("memory-3"));
}

#[test]
fn a_release_that_comes_before_all_have_begun_is_not_lost() {
    // The exploration found it: a rank that knew of one ready part but not of all others' beginning took no release.
    assert_right(&group(&aligned(Collective::AllReduce, "memory-3", 4)), rules("memory-3"));
}

#[test]
fn where_a_sync_table_is_full_nobody_waits_for_ever() {
    for groups in [0, 1] {
        for collective in ALL {
            assert_right(&group(&aligned(collective, "memory-2", groups)), early("memory-2"));
        }
        assert_right(&group(&aligned(Collective::ReduceScatter, "memory-3", groups)), rules("memory-3"));
    }
}

#[test]
fn broken_rules_are_noticed_and_are_the_same_run_in_virtual_time() {
    use Collective::{AllGather, AllReduce, ReduceScatter};
    for (mutation, collective, fabric, packets, times, timeouts) in [
        ("evicts-waiting", AllGather, "memory-2", 2, 1, 0),
        ("bypass-evicts", AllGather, "memory-2", 2, 1, 0),
        ("sum-counts-one", ReduceScatter, "memory-3", 1, 1, 0),
        ("partial-counts-all", ReduceScatter, "memory-3", 1, 1, 1),
        ("releases-early", ReduceScatter, "memory-3", 1, 1, 0),
        ("eviction-drops-partial", ReduceScatter, "memory-3", 2, 1, 0),
        ("timeout-drops-partial", ReduceScatter, "memory-3", 1, 1, 1),
        ("keeps-sum", ReduceScatter, "memory-3", 1, 2, 0),
        ("answers-first-again", AllGather, "memory-3", 1, 1, 0),
        ("answers-before-data", AllGather, "memory-3", 1, 1, 0),
        ("boundary-short", AllGather, "memory-2", 1, 2, 0),
        ("boundary-keeps-data", AllReduce, "memory-3", 1, 2, 1),
    ] {
        // One entry would be taken from the old data by the next collective's sum.
        let entries = if mutation == "boundary-keeps-data" { 2 } else { 1 };
        let kept = MemoryGroupSetup { times, ..setup(collective, fabric, entries, packets) };
        let broken = MemoryGroupSetup { mutation: Some(mutation.to_owned()), ..kept };
        assert_noticed(mutation, &group(&broken), Exploration { early_timeouts: timeouts, ..rules(fabric) });
    }
    let forgets = Some("group-forgets".to_owned());
    let broken = MemoryGroupSetup { mutation: forgets, ..aligned(AllGather, "memory-2", 4) };
    assert_noticed("group-forgets", &group(&broken), rules("memory-2"));
}

/// That a broken rule is wrong in some run, which is the same in virtual time.
#[track_caller]
fn assert_noticed(mutation: &str, broken: &MemoryGroup, rules: Exploration) {
    let (fault, path) = run(broken, rules).1.unwrap_or_else(|| panic!("{mutation} is not noticed"));
    assert!(matches!(fault, Fault::Wrong { .. } | Fault::Stuck), "{mutation}: {fault}");
    // That nothing can end any more is not seen as it happens; and time-outs come late in virtual time.
    if matches!(fault, Fault::Wrong { .. }) && rules.early_timeouts == 0 {
        assert_eq!(replay(broken, &path), Ok(Some(fault)), "{mutation}");
    }
}

#[test]
fn how_many_states_there_are_is_known() {
    // Whoever changes what accelerators or switches do, or what is explored, sees it here.
    let states = ALL.map(|collective| {
        assert_right(&group(&setup(collective, "memory-2", 1, 2)), full(rules("memory-2"))).distinct
    });
    assert_eq!(states, [416, 528, 6977]);
}
