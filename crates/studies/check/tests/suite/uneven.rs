//! Ranks at different depths: a switch has a rank and a switch below it, which no shape by name has. What passes it comes from neighbours of both
//! kinds, and goes to both.

use crate::common::{assert_right, group_setup, lossy};
use quincunx_check::{Exploration, GroupSetup, Network};
use quincunx_collective::{Collective, Rank};

const UNEVEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/fabrics/uneven.toml");
const MODES: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const ALL: [Collective; 8] = [
    Collective::AllReduce,
    Collective::Reduce { root: Rank(0) },
    Collective::Reduce { root: Rank(2) },
    Collective::Broadcast { root: Rank(0) },
    Collective::Broadcast { root: Rank(2) },
    Collective::Barrier,
    Collective::ReduceScatter,
    Collective::AllGather,
];

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

#[test]
fn every_collective_is_right_whichever_packet_is_lost() {
    for (mode, collective) in MODES.into_iter().flat_map(|mode| ALL.map(|collective| (mode, collective))) {
        // What is made of several takes minutes with more.
        let packets =
            if matches!(collective, Collective::ReduceScatter | Collective::AllGather) { 1 } else { 2 };
        assert_right(&group(&group_setup::<u32>(mode, &[collective], UNEVEN, packets, &[])), lossy());
    }
}

#[test]
fn modes_that_differ_at_the_root_and_at_the_leaf_are_right_whichever_packet_is_lost() {
    for modes in ["II/I", "II/III", "I/III", "III/I"] {
        for collective in [ALL[0], ALL[1], ALL[4], ALL[7]] {
            let setup = group_setup("epic-mixed", &[collective], UNEVEN, 1, &[("group.modes", modes)]);
            assert_right(&group(&setup), lossy());
        }
    }
}

/// Seed 41253 of whole clusters: the Broadcast was held back from a rank that had not begun the Reduce, until senders gave up.
#[test]
fn a_broadcast_passes_a_reduce_that_a_rank_has_not_begun() {
    for (reduce, broadcast) in [(0, 1), (1, 0), (1, 2)] {
        let both =
            [Collective::Reduce { root: Rank(reduce) }, Collective::Broadcast { root: Rank(broadcast) }];
        let keys = [("group.confirm", false), ("group.selective", false)];
        let setup = GroupSetup { in_flight: 2, late: true, ..group_setup("epic-2", &both, UNEVEN, 1, &keys) };
        assert_right(&group(&setup), Exploration { losses: 0, ..lossy() });
    }
}
