//! The queue pair alone, explored whole: messages arrive once, in order and whole in every run; and not in some run if a rule is broken.

use crate::common::{assert_right, assert_same_on_other_drivers, full, lossy, run, traced};
use quincunx_check::{ExchangeError, ExchangeSetup, Exploration, Kind, Network, Sequence};
use quincunx_check::{QueuePairMutation as Mutation, Reliability};
use quincunx_driver_check::Action;
use quincunx_roce::RateConfig;
use quincunx_units::{BitRate, Packets};

const RELIABILITIES: [Reliability; 2] = [Reliability::GoBackN, Reliability::Selective];

/// Two messages of two packets, three packets in flight.
fn setup(kind: Kind, reliability: Reliability) -> ExchangeSetup {
    let (rate, mutation) = (None, None);
    ExchangeSetup {
        kind,
        reliability,
        asks_again: true,
        messages: 2,
        packets: 2,
        window: Packets::new(3),
        congestion_window: false,
        rate,
        mutation,
    }
}

fn setups() -> impl Iterator<Item = ExchangeSetup> {
    let kinds = [Kind::Send, Kind::Write];
    kinds.into_iter().flat_map(|kind| RELIABILITIES.map(|reliability| setup(kind, reliability)))
}

fn network(setup: ExchangeSetup) -> Network {
    Network::of_queue_pairs(setup).unwrap()
}

#[test]
fn messages_arrive_once_in_order_and_whole_whatever_is_lost_late_doubled_or_too_early() {
    for setup in setups() {
        for rules in [
            Exploration { losses: 2, ..lossy() },
            Exploration { duplicates: 1, delays: 1, ..lossy() },
            Exploration { early_timeouts: 2, delays: 1, ..lossy() },
        ] {
            assert_right(&network(setup), rules);
        }
    }
}

#[test]
fn one_packet_in_flight_and_more_than_there_are_do_no_harm() {
    for setup in setups() {
        for window in [1, 8].map(Packets::new) {
            assert_right(&network(ExchangeSetup { window, ..setup }), Exploration { delays: 1, ..lossy() });
        }
    }
}

#[test]
fn a_receiver_that_asks_once_for_what_is_missing_gets_it_too() {
    for kind in [Kind::Send, Kind::Write] {
        let setup = ExchangeSetup { asks_again: false, ..setup(kind, Reliability::Selective) };
        assert_right(&network(setup), Exploration { losses: 2, delays: 1, ..lossy() });
    }
}

#[test]
fn long_and_many_messages_wrap_the_numbers_and_arrive() {
    for setup in setups() {
        for (messages, packets) in [(1, 6), (6, 1), (3, 3)] {
            assert_right(&network(ExchangeSetup { messages, packets, ..setup }), lossy());
        }
    }
}

/// A broken rule, and a small case in which it does harm.
fn cases() -> Vec<(ExchangeSetup, Exploration)> {
    use Reliability::{GoBackN, Selective};
    let loss = lossy();
    let copy = Exploration { losses: 0, duplicates: 1, ..loss };
    let case = |mutation, reliability, rules| {
        (ExchangeSetup { mutation: Some(mutation), ..setup(Kind::Send, reliability) }, rules)
    };
    vec![
        case(Mutation::NoDuplicateCheck, GoBackN, copy),
        case(Mutation::NoSequenceCheck, GoBackN, loss),
        case(Mutation::AckOutOfOrder, GoBackN, loss),
        case(Mutation::NakAsAck, GoBackN, loss),
        case(Mutation::NakAcknowledges, Selective, Exploration { losses: 3, ..loss }),
        case(Mutation::PsnNoWrap, GoBackN, loss),
        case(Mutation::ResendsNext, GoBackN, loss),
        (
            ExchangeSetup {
                asks_again: false,
                mutation: Some(Mutation::AsksAgainByAck),
                ..setup(Kind::Send, Selective)
            },
            Exploration { losses: 2, jumps: 1, ..loss },
        ),
    ]
}

#[test]
fn every_broken_rule_is_noticed_whole_or_reduced_and_is_the_same_run_on_other_drivers() {
    for (setup, rules) in cases() {
        for setup in [setup, ExchangeSetup { kind: Kind::Write, ..setup }] {
            let mutated = network(setup);
            let (_, fault) = run(&mutated, rules);
            let (fault, path) = fault.unwrap_or_else(|| panic!("nothing is noticed: {setup:?}"));
            assert_same_on_other_drivers(&mutated, fault, &path);
            assert!(
                run(&mutated, full(rules)).1.is_some(),
                "nothing is noticed when all is explored: {setup:?}"
            );
            assert_right(&network(ExchangeSetup { mutation: None, ..setup }), rules);
        }
    }
}

#[test]
fn a_broken_rule_does_writes_no_harm_before_something_goes_wrong() {
    for (setup, rules) in cases() {
        let smooth = Exploration { losses: 0, duplicates: 0, ..rules };
        assert_right(&network(ExchangeSetup { kind: Kind::Write, ..setup }), smooth);
    }
}

#[test]
fn what_is_wrong_when_time_has_passed_is_not_seen_where_the_clock_stands_still() {
    let (setup, rules) = cases().pop().expect("there are some");
    assert!(setup.mutation == Some(Mutation::AsksAgainByAck) && rules.jumps > 0);
    assert_right(&network(setup), Exploration { jumps: 0, ..rules });
}

#[test]
fn messages_arrive_though_the_clock_moves_on_at_any_time() {
    for setup in setups() {
        for asks_again in [false, true] {
            let setup = ExchangeSetup { asks_again, ..setup };
            assert_right(&network(setup), Exploration { jumps: 2, ..lossy() });
        }
    }
}

#[test]
fn messages_arrive_at_whatever_rate_congestion_leaves_their_sender() {
    let line = BitRate::new(1_000_000_000).unwrap();
    // Few steps of the rate, so that there are few states.
    let rate =
        RateConfig { gain_shift: 1, additive: BitRate::new(100_000_000).unwrap(), ..RateConfig::dcqcn(line) };
    for setup in setups() {
        let setup = ExchangeSetup { rate: Some(rate), messages: 1, ..setup };
        let slowed = assert_right(&network(setup), Exploration { marks: 1, jumps: 1, ..lossy() });
        let free = assert_right(&network(setup), Exploration { jumps: 1, ..lossy() });
        assert!(slowed.distinct > 2 * free.distinct, "{slowed:?} {free:?}");
    }
}

#[test]
fn messages_arrive_whatever_congestion_leaves_of_the_window() {
    let (messages, packets, window) = (1, 5, Packets::new(4));
    let setup = ExchangeSetup { messages, packets, window, ..setup(Kind::Send, Reliability::Selective) };
    let rules = Exploration { jumps: 3, ..lossy() };
    let fixed = assert_right(&network(setup), rules);
    let narrowed = assert_right(&network(ExchangeSetup { congestion_window: true, ..setup }), rules);
    assert!(narrowed.distinct > fixed.distinct, "{narrowed:?} {fixed:?}");
}

#[test]
fn every_rule_that_can_be_broken_has_a_case() {
    for mutation in Mutation::all() {
        assert!(cases().iter().any(|(setup, _)| setup.mutation == Some(mutation)), "{mutation} has none");
        assert_eq!(mutation.to_string().parse(), Ok(mutation));
    }
}

#[test]
fn what_is_left_out_changes_no_verdict() {
    for setup in setups() {
        let rules = Exploration { delays: 1, ..lossy() };
        let reduced = assert_right(&network(setup), rules);

        let whole = assert_right(&network(setup), full(rules));

        assert!(reduced.distinct < whole.distinct, "{setup:?}: {reduced:?} {whole:?}");
    }
}

#[test]
fn how_many_states_there_are_is_known() {
    // Whoever changes what a queue pair does, or what is explored, sees it here.
    let found: Vec<u64> =
        setups().map(|setup| assert_right(&network(setup), full(lossy())).distinct).collect();
    assert_eq!(found, [264, 825, 292, 632]);
}

#[test]
fn a_path_reads_as_a_sequence_and_is_traced() {
    let mutated = network(cases()[3].0);
    let (fault, path) = run(&mutated, lossy()).1.expect("it is noticed");
    let lines = Sequence { network: &mutated, path: &path }.lines();
    assert!(lines[0].starts_with("sender    starts; sends send 0 [0:0] to receiver"), "{}", lines[0]);
    assert!(lines.iter().any(|line| line.starts_with("receiver  misses send")), "{lines:#?}");
    let tracks = traced(&mutated, &fault, &path);
    let frames = tracks.iter().filter(|track| track.parent.is_some()).map(|track| track.slices.len());
    assert_eq!(frames.sum::<usize>(), path.0.iter().map(|step| step.sent.len()).sum::<usize>());
    assert!(path.0.iter().any(|step| matches!(step.action, Action::Loss { .. })));
}

#[test]
fn packets_that_cannot_be_told_apart_are_refused() {
    let all = setup(Kind::Send, Reliability::GoBackN);
    for (messages, packets) in [(1, 4097), (4, 1025), (0, 3)] {
        let refused = Network::of_queue_pairs(ExchangeSetup { messages, packets, ..all }).unwrap_err();
        assert_eq!(refused, ExchangeError::Packets { found: packets * u32::from(messages) });
    }
}
