//! MultiWrite, explored whole: each destination gets each write once and whole in every run, and nobody else gets it; and not in some
//! run if a rule is broken.

use crate::common::{assert_right, assert_same_on_other_drivers, full, lossy, run, traced};
use quincunx_check::{
    Exploration, Fault, Network, Pattern, RelayError, RelayMutation, RelaySetup, Sequence, Topology,
};
use quincunx_driver_check::Action;
use quincunx_units::Packets;

const TOPOLOGIES: [Topology; 3] = [Topology::Mesh, Topology::Ring, Topology::Servers];

/// A packet a rank, two in flight on a queue pair.
fn setup(topology: Topology, pattern: Pattern, senders: u16) -> RelaySetup {
    RelaySetup {
        topology,
        pattern,
        senders,
        packets: 1,
        times: 1,
        window: Packets::new(2),
        slow: false,
        mutation: None,
    }
}

fn network(setup: RelaySetup) -> Network {
    Network::of_relays(setup).unwrap()
}

#[test]
fn every_write_of_two_ranks_arrives_once_whatever_is_lost_late_or_doubled() {
    for topology in TOPOLOGIES {
        let network = network(setup(topology, Pattern::Writes, 2));
        for rules in [
            lossy(),
            Exploration { losses: 0, delays: 1, ..lossy() },
            Exploration { losses: 0, early_timeouts: 1, ..lossy() },
        ] {
            assert_right(&network, rules);
        }
        let one = setup(topology, Pattern::Writes, 1);
        assert_right(&self::network(one), Exploration { losses: 0, duplicates: 1, ..lossy() });
    }
}

#[test]
fn every_write_of_four_ranks_arrives_once() {
    assert_right(&network(setup(Topology::Ring, Pattern::Writes, 4)), lossy());
    let rules = Exploration { losses: 0, ..lossy() };
    assert_right(&network(setup(Topology::Mesh, Pattern::Writes, 4)), rules);
}

#[test]
fn writes_for_one_rank_behind_relays_reach_that_rank_alone() {
    for topology in TOPOLOGIES {
        let setup = RelaySetup { packets: 2, ..setup(topology, Pattern::Writes, 1) };
        assert_right(&network(setup), Exploration { losses: 0, delays: 1, ..lossy() });
    }
}

#[test]
fn an_all_gather_gathers_whatever_is_lost_or_late() {
    for (topology, packets, senders) in [(Topology::Ring, 2, 2), (Topology::Servers, 1, 2)] {
        let setup = RelaySetup { packets, ..setup(topology, Pattern::AllGather, senders) };
        assert_right(&network(setup), Exploration { delays: 1, ..lossy() });
    }
}

#[test]
fn slots_are_used_again_by_the_next_all_gather() {
    for topology in [Topology::Ring, Topology::Servers] {
        let setup = RelaySetup { packets: 2, times: 2, ..setup(topology, Pattern::AllGather, 2) };
        assert_right(&network(setup), lossy());
    }
}

#[test]
fn relays_that_are_behind_make_their_peers_wait_and_lose_nothing() {
    for topology in TOPOLOGIES {
        let writes =
            RelaySetup { window: Packets::new(1), slow: true, ..setup(topology, Pattern::Writes, 1) };
        let writes = network(RelaySetup { packets: 3, ..writes });
        assert_right(&writes, lossy());
        assert_right(&writes, Exploration { losses: 0, early_timeouts: 2, ..lossy() });
        if topology != Topology::Mesh {
            let gather = RelaySetup { slow: true, packets: 2, ..setup(topology, Pattern::AllGather, 2) };
            assert_right(&network(gather), Exploration { early_timeouts: 1, ..lossy() });
        }
    }
}

#[test]
fn tables_that_contradict_each_other_end_in_an_error_and_never_in_a_wrong_result() {
    for topology in [Topology::ShortLoop, Topology::LongLoop] {
        let network = network(setup(topology, Pattern::Writes, 1));
        for rules in [lossy(), full(lossy()), Exploration { losses: 0, delays: 1, ..lossy() }] {
            assert_right(&network, rules);
        }
    }
}

/// A broken rule, and a small case in which it does harm.
fn cases() -> Vec<(RelaySetup, Exploration)> {
    use RelayMutation::{BitmapNotNarrowed, EndsUnacknowledged, ReceivesAhead};
    let loss = lossy();
    let none = Exploration { losses: 0, ..loss };
    let case = |mutation, setup: RelaySetup, rules| (RelaySetup { mutation: Some(mutation), ..setup }, rules);
    let behind = RelaySetup {
        window: Packets::new(1),
        slow: true,
        packets: 3,
        ..setup(Topology::Ring, Pattern::Writes, 1)
    };
    let gather = RelaySetup { packets: 2, ..setup(Topology::Ring, Pattern::AllGather, 2) };
    vec![
        case(BitmapNotNarrowed, setup(Topology::Mesh, Pattern::Writes, 1), none),
        case(BitmapNotNarrowed, setup(Topology::Ring, Pattern::Writes, 1), none),
        case(BitmapNotNarrowed, setup(Topology::Servers, Pattern::Writes, 1), none),
        case(EndsUnacknowledged, gather, loss),
        case(ReceivesAhead, behind, none),
    ]
}

#[test]
fn every_broken_rule_is_noticed_whole_or_reduced_and_is_the_same_run_on_other_drivers() {
    for (setup, rules) in cases() {
        let mutated = network(setup);
        let (_, fault) = run(&mutated, rules);
        let (fault, path) = fault.unwrap_or_else(|| panic!("nothing is noticed: {setup:?}"));
        assert_same_on_other_drivers(&mutated, fault, &path);
        assert!(run(&mutated, full(rules)).1.is_some(), "nothing is noticed when all is explored: {setup:?}");
        assert_right(&network(RelaySetup { mutation: None, ..setup }), rules);
    }
}

#[test]
fn every_rule_that_can_be_broken_has_a_case() {
    // Where all writes go one way, nobody overtakes anybody: what the barrier is for is seen on a mesh (designs.rs). And what it says is
    // compared where ranks disagree (disagreement.rs).
    let elsewhere = [RelayMutation::NoBarrier, RelayMutation::IgnoresDisagreement];
    for mutation in RelayMutation::all().filter(|mutation| !elsewhere.contains(mutation)) {
        assert!(cases().iter().any(|(setup, _)| setup.mutation == Some(mutation)), "{mutation} has none");
        assert_eq!(mutation.to_string().parse(), Ok(mutation));
    }
}

#[test]
fn what_is_left_out_changes_no_verdict() {
    let mut setups: Vec<_> = TOPOLOGIES.iter().map(|topology| setup(*topology, Pattern::Writes, 2)).collect();
    setups.push(setup(Topology::Ring, Pattern::AllGather, 2));
    for setup in setups {
        let reduced = assert_right(&network(setup), lossy());
        let symmetric = assert_right(&network(setup), Exploration { symmetry: false, ..lossy() });
        let alike = setup.topology == Topology::Ring && setup.pattern == Pattern::AllGather;
        assert!(reduced.distinct < symmetric.distinct || alike, "{setup:?}: {reduced:?} {symmetric:?}");
        // Of writes those of one rank, to whom no other is alike.
        let senders = if setup.pattern == Pattern::Writes { 1 } else { 2 };
        let few = network(RelaySetup { senders, ..setup });
        let reduced = assert_right(&few, lossy());
        let whole = assert_right(&few, full(lossy()));
        assert!(reduced.distinct < whole.distinct, "{setup:?}: {reduced:?} {whole:?}");
    }
}

#[test]
fn how_many_states_there_are_is_known() {
    // Whoever changes what hosts do, or what is explored, sees it here.
    let states = |topology, pattern, senders| {
        assert_right(&network(setup(topology, pattern, senders)), full(lossy())).distinct
    };
    assert_eq!(TOPOLOGIES.map(|topology| states(topology, Pattern::Writes, 1)), [1_938, 6_571, 14_153]);
    let gathering =
        [Topology::Ring, Topology::Servers].map(|topology| states(topology, Pattern::AllGather, 2));
    assert_eq!(gathering, [1504, 7693]);
}

#[test]
fn a_path_reads_as_a_sequence_and_is_traced() {
    // Which of several shortest ways is shown, and so which rank it is, is not fixed.
    let (setup, rules) = cases()[3];
    let mutated = network(setup);
    let (fault, path) = run(&mutated, rules).1.expect("it is noticed");
    assert!(matches!(fault, Fault::Panic { .. }), "{fault}");
    let lines = Sequence { network: &mutated, path: &path }.lines();
    assert!(lines.iter().any(|line| line.contains("sends write 0 [0:0] for 3 to rank 1")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("misses ACK")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("retransmission timer toward rank")), "{lines:#?}");
    let tracks = traced(&mutated, &fault, &path);
    let frames = tracks.iter().filter(|track| track.parent.is_some()).map(|track| track.slices.len());
    assert_eq!(frames.sum::<usize>(), path.0.iter().map(|step| step.sent.len()).sum::<usize>());
    assert!(path.0.iter().any(|step| matches!(step.action, Action::Loss { .. })));
}

#[test]
fn set_ups_that_make_no_sense_are_refused() {
    let writes = setup(Topology::Mesh, Pattern::Writes, 1);
    let gather = setup(Topology::Ring, Pattern::AllGather, 2);
    for (setup, refusal) in [
        (RelaySetup { packets: 4097, ..writes }, RelayError::Packets { found: 4097 }),
        (RelaySetup { packets: 0, ..writes }, RelayError::Packets { found: 0 }),
        (RelaySetup { times: 2, ..writes }, RelayError::Times { found: 2 }),
        (RelaySetup { senders: 3, ..writes }, RelayError::Senders { expected: "1, 2 or 4", found: 3 }),
        (RelaySetup { senders: 1, ..gather }, RelayError::Senders { expected: "2 or 4", found: 1 }),
        (
            RelaySetup { topology: Topology::ShortLoop, ..gather },
            RelayError::NotGathered { found: Topology::ShortLoop },
        ),
        (
            RelaySetup { topology: Topology::Mesh, ..gather },
            RelayError::NotGathered { found: Topology::Mesh },
        ),
    ] {
        assert_eq!(Network::of_relays(setup).unwrap_err(), refusal);
        assert!(!refusal.to_string().contains('\n'));
    }
}
