//! What few packets, two groups, one root and one collective do not show: more than 32 pieces, numbers that wrap, three groups, roots that change
//! while both flows are under way, acknowledges that are late over two collectives, and writes as an application has them.

use crate::common::{assert_right, design, group_setup, lossy, run};
use quincunx_check::{Exploration, Fault, GroupSetup, Network};
use quincunx_collective::{Collective, Rank};

const ALL_REDUCE: Collective = Collective::AllReduce;
const MODES: [&str; 3] = ["epic-1", "epic-2", "epic-3"];

/// More than a word of 32 bits has.
const MANY: u32 = 33;

fn lossless() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

fn late() -> Exploration {
    Exploration { delays: 1, ..lossless() }
}

fn plain(name: &str, collectives: &[Collective], network: &str, packets: u32) -> GroupSetup {
    group_setup::<u32>(name, collectives, network, packets, &[])
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

#[test]
fn a_vector_of_more_than_32_pieces_is_right_whichever_is_lost() {
    for (name, network) in [
        ("epic-1", "star-2"),
        ("epic-2", "star-2"),
        ("switchml", "star-2"),
        ("tree", "star-2"),
        ("ring", "ring-2"),
    ] {
        assert_right(&group(&plain(name, &[ALL_REDUCE], network, MANY)), lossy());
    }
    // Whichever is lost takes these longer.
    for name in ["epic-3", "netreduce", "atp"] {
        assert_right(&group(&plain(name, &[ALL_REDUCE], "star-2", MANY)), lossless());
    }
}

#[test]
fn more_than_32_pieces_in_flight_are_right() {
    let in_flight = |name| {
        let broadcast = [Collective::Broadcast { root: Rank(0) }];
        group(&group_setup(name, &broadcast, "star-2", MANY + 1, &[("group.window", MANY)]))
    };
    assert_right(&in_flight("tree"), lossy());
    // Whichever is lost takes a switch's modes minutes.
    assert_right(&in_flight("epic-2"), lossless());
}

/// Coverage found it: with messages of one packet no vector is short enough, and these rules were never taken.
#[test]
fn a_reduce_scatter_or_all_gather_that_fits_in_a_message_is_one_all_reduce_and_right() {
    for mode in MODES {
        for collective in [Collective::ReduceScatter, Collective::AllGather] {
            let setup = group_setup(mode, &[collective], "star-2", 1, &[("group.message", 2)]);
            assert_right(&group(&setup), lossy());
        }
    }
}

/// Groups begin two packets before the PSN wraps, and packets of datagrams are numbered from there on.
#[test]
fn numbers_of_datagrams_wrap_while_a_packet_is_lost_or_late() {
    for name in ["switchml", "atp"] {
        for (packets, window) in [(4, 2), (4, 1)] {
            let setup = group_setup(name, &[ALL_REDUCE], "star-2", packets, &[("group.window", window)]);
            assert_right(&group(&setup), lossy());
            assert_right(&group(&setup), Exploration { early_timeouts: 1, ..late() });
        }
    }
}

#[test]
fn three_groups_at_one_switch_keep_their_data_apart() {
    for mode in MODES {
        let setup = GroupSetup { groups: 3, ..plain(mode, &[Collective::Barrier], "star-2", 0) };
        assert_right(&group(&setup), lossless());
    }
}

#[test]
fn a_root_changes_while_both_flows_are_under_way() {
    let [zero, one] = [0, 1].map(Rank);
    let pairs = [
        [Collective::Reduce { root: zero }, Collective::Reduce { root: one }],
        [Collective::Broadcast { root: zero }, Collective::Broadcast { root: one }],
        [Collective::Broadcast { root: one }, Collective::Reduce { root: zero }],
    ];
    for (mode, pair) in MODES.into_iter().flat_map(|mode| pairs.map(|pair| (mode, pair))) {
        let setup = group_setup(mode, &pair, "star-2", 1, &[("group.window", 4)]);
        assert_right(&group(&GroupSetup { in_flight: 2, ..setup }), lossy());
    }
}

#[test]
fn an_acknowledge_that_is_late_over_two_collectives_does_no_harm() {
    for mode in MODES {
        let collectives = [ALL_REDUCE, Collective::Barrier, ALL_REDUCE];
        assert_right(&group(&plain(mode, &collectives, "star-2", 1)), late());
    }
    for (name, network) in [("ring", "ring-2"), ("tree", "star-2"), ("netreduce", "star-2")] {
        assert_right(&group(&plain(name, &[ALL_REDUCE; 3], network, 1)), late());
    }
}

#[test]
fn ranks_that_begin_when_they_like_get_what_was_sent_before() {
    for mode in MODES {
        for collective in [ALL_REDUCE, Collective::Broadcast { root: Rank(0) }] {
            let setup = GroupSetup { late: true, ..plain(mode, &[collective], "star-2", 1) };
            assert_right(&group(&setup), lossy());
        }
    }
    let designs = ["tree", "direct", "netreduce", "switchml", "atp"].map(|name| (name, "star-2"));
    for (name, network) in designs.into_iter().chain([("ring", "ring-2")]) {
        let setup = GroupSetup { late: true, ..plain(name, &[ALL_REDUCE], network, 1) };
        assert_right(&group(&setup), lossy());
    }
}

/// Messages of a rank to all others, by the plan of the design for them.
fn writes(network: &str, messages: u32, senders: u16) -> GroupSetup {
    let setup = plain("writes", &[], network, messages);
    GroupSetup { writes: true, senders: Some(senders), ..setup }
}

#[test]
fn messages_to_several_arrive_once_each_by_the_ways_and_slots_of_the_plan() {
    assert_right(&group(&writes("mesh-2x2", 2, 1)), lossy());
    assert_right(&group(&writes("mesh-2x2", 1, 2)), lossy());
    assert_right(&group(&writes("mesh-2x2", 1, 1)), Exploration { duplicates: 1, ..late() });
}

#[test]
fn a_design_without_writes_is_not_asked_for_any() {
    let setup = GroupSetup { design: design("multiwrite"), ..writes("mesh-2x2", 1, 1) };
    let refusal = Network::of_group(&setup).unwrap_err().to_string();
    assert!(refusal.contains("expected one group that does nothing but write"), "{refusal}");
}

#[test]
fn a_relay_that_passes_on_to_whom_it_is_not_for_is_noticed() {
    let setup = GroupSetup { mutation: Some("bitmap-not-narrowed".to_owned()), ..writes("mesh-2x2", 1, 1) };
    let (fault, _) = run(&group(&setup), lossless()).1.expect("it is noticed");
    assert!(matches!(fault, Fault::Wrong { .. } | Fault::Panic { .. }), "{fault}");
}
