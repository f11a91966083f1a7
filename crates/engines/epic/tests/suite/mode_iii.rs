//! What a Mode-III switch tells its neighbours, and when it gives one up (EPIC 4.4, algorithms 2 and 3, H.4).

use crate::common::{
    ACK, DATA, FIRST, FromRank, NAK, Sent, Switch, all_reduce, answer, arrive, config, control, deliver,
    switch,
};
use quincunx_collective::Rank;
use quincunx_design::{Datapath, DatapathTimer};
use quincunx_engine::verbs::UNLIMITED_RETRIES;
use quincunx_epic::{DropReason, EdgeConfig, GroupConfig, Mode, Pattern};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Endpoint, Gid, Operation, QpNumber, Syndrome};

const NOW: Instant = Instant::ZERO;

/// The timer that waits for the acknowledge of what went to a rank.
fn resend(rank: u16) -> DatapathTimer {
    DatapathTimer { kind: 0, edge: Some(rank) }
}

/// The timer of acknowledges that are put off.
const PUT_OFF: DatapathTimer = DatapathTimer { kind: 1, edge: None };

fn hear(switch: &mut Switch, rank: u16, number: u32, operation: Operation, length: usize) -> Sent {
    deliver(switch, NOW, rank, FIRST.plus(number), operation, length)
}

fn expire(switch: &mut Switch, timer: DatapathTimer) -> Sent {
    expire_at(switch, NOW, timer)
}

fn expire_at(switch: &mut Switch, now: Instant, timer: DatapathTimer) -> Sent {
    let mut sent = Sent::default();
    switch.handle_timer(now, timer, &mut sent);
    switch.assert_invariants();
    sent
}

/// What a rank is sent in transmit slots.
fn slots(switch: &mut Switch, rank: u16) -> Vec<(u16, char, u32)> {
    let mut sent = Sent::default();
    while switch.wants_transmit(rank) {
        switch.handle_transmit_slot(NOW, rank, &mut sent);
    }
    sent.told()
}

/// A switch that has sent both ranks the results of an AllReduce's control message and first packet.
fn two_results(config: GroupConfig) -> Switch {
    let mut switch = switch(config);
    for rank in 0..2 {
        hear(&mut switch, rank, 0, all_reduce(1), 0);
    }
    for rank in 0..2 {
        hear(&mut switch, rank, 1, DATA, 8);
    }
    switch
}

#[test]
fn a_time_out_runs_from_the_first_packet_until_all_are_acknowledged() {
    let mut switch = switch(config());
    assert_eq!(
        hear(&mut switch, 0, 0, all_reduce(0), 0).timers,
        [(PUT_OFF, Some(config().resend_timeout / 4))]
    );
    let results = hear(&mut switch, 1, 0, all_reduce(0), 0);
    let armed = [0, 1].map(|rank| (resend(rank), Some(config().resend_timeout)));
    assert_eq!(results.timers, armed);
    assert_eq!(hear(&mut switch, 0, 0, answer(ACK), 0).timers, [(resend(0), None)]);
    // Once more changes nothing.
    assert_eq!(hear(&mut switch, 0, 0, answer(ACK), 0).timers, vec![]);
}

#[test]
fn what_is_not_acknowledged_in_time_is_sent_again_in_slots_from_the_oldest_on() {
    let resend_timeout = Duration::from_secs(1);
    let mut switch = two_results(GroupConfig { resend_timeout, ..config() });
    assert!(!switch.may_want_transmit() && !switch.wants_transmit(0));
    let sent = expire(&mut switch, resend(0));
    assert_eq!((sent.told(), sent.timers), (vec![], vec![(resend(0), Some(resend_timeout))]));
    assert!(switch.may_want_transmit() && !switch.wants_transmit(1));
    assert_eq!(slots(&mut switch, 0), [(0, 'D', 0), (0, 'D', 1)]);
    assert!(!switch.may_want_transmit());
}

#[test]
fn with_selective_reliability_a_time_out_asks_what_has_arrived_by_the_number_of_the_newest_packet() {
    let mut switch = two_results(GroupConfig { selective: true, ..config() });
    let asked = expire(&mut switch, resend(0));
    let [(0, header)] = &asked.frames[..] else { panic!("{:?}", asked.told()) };
    assert_eq!((header.psn, header.operation), (FIRST.plus(1), Operation::QUESTION));
    assert!(header.acknowledge_request && !switch.wants_transmit(0));
}

#[test]
fn a_neighbour_that_asks_is_asked_for_what_has_not_come() {
    let mut switch = switch(GroupConfig { selective: true, ..config() });
    let mut ask = |number| hear(&mut switch, 0, number, Operation::QUESTION, 0).told();
    assert_eq!(ask(0), [(0, 'N', 0)], "its control message");
    hear(&mut switch, 0, 0, all_reduce(3), 0);
    let mut ask = |number| hear(&mut switch, 0, number, Operation::QUESTION, 0).told();
    assert_eq!(ask(0), [], "its acknowledge is put off");
    assert_eq!(ask(2), [(0, 'N', 1)], "what lies beyond the range is called for when there is room");
}

#[test]
fn with_selective_reliability_the_time_out_of_an_edge_follows_its_round_trip_time() {
    let mut switch = switch(GroupConfig { selective: true, ..config() });
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    for rank in 0..2 {
        deliver(&mut switch, at(1), rank, FIRST, all_reduce(1), 0);
    }
    deliver(&mut switch, at(11), 0, FIRST, answer(ACK), 0);
    deliver(&mut switch, at(20), 0, FIRST.plus(1), DATA, 8);
    let results = deliver(&mut switch, at(20), 1, FIRST.plus(1), DATA, 8);
    assert!(results.timers.contains(&(resend(0), Some(Duration::from_micros(15)))), "{:?}", results.timers);
    let waits = expire_at(&mut switch, at(35), resend(0)).timers;
    assert_eq!(waits, [(resend(0), Some(Duration::from_micros(30)))]);
}

#[test]
fn time_outs_of_an_edge_are_silence_when_together_they_are_the_longest() {
    let mut switch = switch(GroupConfig { selective: true, retry_count: 0, ..config() });
    let at = |micros| Instant::ZERO + Duration::from_micros(micros);
    for rank in 0..2 {
        deliver(&mut switch, at(1), rank, FIRST, all_reduce(1), 0);
    }
    deliver(&mut switch, at(51), 0, FIRST, answer(ACK), 0);
    for rank in 0..2 {
        deliver(&mut switch, at(60), rank, FIRST.plus(1), DATA, 8);
    }
    // 75 us, and 150; the longest is 200.
    assert_eq!(expire_at(&mut switch, at(135), resend(0)).unreachable, [0u16; 0]);
    assert_eq!(expire_at(&mut switch, at(285), resend(0)).unreachable, [0]);
}

#[test]
fn a_timer_that_was_cancelled_does_nothing() {
    let mut switch = two_results(config());
    hear(&mut switch, 0, 1, answer(ACK), 0);
    for timer in [resend(0), resend(7), PUT_OFF] {
        let sent = expire(&mut switch, timer);
        assert_eq!((sent.told(), sent.timers.len(), sent.unreachable.len()), (vec![], 0, 0), "{timer:?}");
    }
}

#[test]
fn a_neighbour_that_is_silent_for_more_time_outs_than_allowed_is_given_up() {
    let mut switch = two_results(config());
    for _ in 0..config().retry_count {
        assert_eq!(expire(&mut switch, resend(0)).unreachable, [0u16; 0]);
    }
    assert_eq!(expire(&mut switch, resend(0)).unreachable, [0]);
    assert!(!switch.wants_transmit(0) && !switch.may_want_transmit());
    assert_eq!(hear(&mut switch, 0, 1, answer(ACK), 0).dropped, [DropReason::Unreachable.name()]);
}

#[test]
fn a_neighbour_that_is_heard_of_is_given_all_time_outs_anew() {
    let mut switch = two_results(config());
    for _ in 0..2 * config().retry_count {
        expire(&mut switch, resend(0));
        assert_eq!(expire(&mut switch, resend(0)).unreachable, [0u16; 0]);
        hear(&mut switch, 0, 0, answer(NAK), 0);
    }
}

#[test]
fn without_a_limit_nobody_is_given_up() {
    let mut switch = two_results(GroupConfig { retry_count: UNLIMITED_RETRIES, ..config() });
    for _ in 0..1000 {
        assert_eq!(expire(&mut switch, resend(0)).unreachable, [0u16; 0]);
    }
}

#[test]
fn a_neighbour_that_is_not_ready_is_left_alone_for_as_long_as_it_says_and_is_not_silent_then() {
    let mut switch = two_results(GroupConfig { retry_count: 0, ..config() });
    let not_ready = Syndrome::ReceiverNotReady(1);
    let sent = hear(&mut switch, 0, 0, answer(not_ready), 0);
    let pause = quincunx_wire::aeth::receiver_not_ready_delay(1);
    assert_eq!((sent.told(), sent.timers), (vec![], vec![(resend(0), Some(pause))]));
    assert!(!switch.wants_transmit(0));
    let sent = expire(&mut switch, resend(0));
    assert_eq!((sent.unreachable, slots(&mut switch, 0)), (vec![], vec![(0, 'D', 0), (0, 'D', 1)]));
}

#[test]
fn a_nak_goes_back_to_what_it_asks_for_and_a_selective_one_asks_for_that_alone() {
    let mut switch = two_results(config());
    assert_eq!(hear(&mut switch, 0, 0, answer(NAK), 0).told(), []);
    assert_eq!(slots(&mut switch, 0), [(0, 'D', 0), (0, 'D', 1)]);

    let mut switch = two_results(GroupConfig { selective: true, ..config() });
    let sent = hear(&mut switch, 0, 0, answer(NAK), 0);
    assert_eq!((sent.told(), slots(&mut switch, 0)), (vec![(0, 'D', 0)], vec![]));
}

#[test]
fn a_selective_nak_for_what_was_acknowledged_or_never_sent_is_not_answered() {
    let mut switch = two_results(GroupConfig { selective: true, ..config() });
    hear(&mut switch, 0, 0, answer(ACK), 0);
    assert_eq!(hear(&mut switch, 0, 0, answer(NAK), 0).told(), []);
    let sent = hear(&mut switch, 0, 3, answer(NAK), 0);
    assert_eq!((sent.told(), sent.dropped), (vec![], vec![DropReason::BadAcknowledge.name()]));
}

#[test]
fn a_selective_nak_of_a_neighbour_that_is_not_ready_waits_with_it() {
    let mut switch = two_results(GroupConfig { selective: true, ..config() });
    hear(&mut switch, 0, 0, answer(Syndrome::ReceiverNotReady(1)), 0);
    assert_eq!(hear(&mut switch, 0, 1, answer(NAK), 0).told(), []);
}

#[test]
fn an_acknowledge_that_is_put_off_is_sent_when_its_timer_has_fired_twice() {
    let mut switch = switch(config());
    hear(&mut switch, 0, 0, all_reduce(0), 0);
    let first = expire(&mut switch, PUT_OFF);
    assert_eq!((first.told(), first.timers), (vec![], vec![(PUT_OFF, Some(config().resend_timeout / 4))]));
    let second = expire(&mut switch, PUT_OFF);
    assert_eq!((second.told(), second.timers), (vec![(0, 'A', 0)], vec![]));
}

#[test]
fn a_packet_that_asks_for_nothing_is_not_acknowledged_but_for_one_that_closes_a_gap() {
    let mut switch = switch(GroupConfig { window: Packets::new(4), run_ahead: true, ..config() });
    let mut quiet = |number, operation, length| {
        let frame = FromRank { rank: 0, psn: FIRST.plus(number), operation, length, asks: false };
        arrive(&mut switch, NOW, &frame).told()
    };
    assert_eq!(quiet(0, all_reduce(3), 0), []);
    assert_eq!(quiet(2, DATA, 8), [(0, 'N', 1)]);
    // One that is asked for already is not asked for twice.
    assert_eq!(quiet(3, DATA, 8), []);
    assert_eq!(quiet(1, DATA, 8), [(0, 'A', 3)]);
}

#[test]
fn packets_before_their_control_message_are_refused_and_it_is_called_for_once() {
    let mut switch = switch(config());
    let refused = [0, 1].map(|_| hear(&mut switch, 0, 1, DATA, 8));
    for sent in &refused {
        assert_eq!(sent.dropped, [DropReason::NoCollective.name()]);
    }
    assert_eq!(refused.map(|sent| sent.told()), [vec![(0, 'N', 0)], vec![]]);
}

#[test]
fn who_sends_nothing_in_a_collective_is_expected_in_the_next() {
    let mut switch = switch(config());
    let reduce = control(Pattern::Reduce { root: Rank(0) }, 0);
    assert_eq!(hear(&mut switch, 1, 0, reduce, 0).told(), [(0, 'D', 0)]);
    assert_eq!(hear(&mut switch, 0, 1, all_reduce(0), 0).told(), []);
    let results = hear(&mut switch, 1, 1, all_reduce(0), 0).told();
    assert!(results.contains(&(0, 'D', 1)) && results.contains(&(1, 'D', 1)), "{results:?}");
}

#[test]
fn who_has_sent_before_a_collective_in_which_it_sends_nothing_is_expected_behind_that() {
    let mut switch = switch(GroupConfig { window: Packets::new(4), run_ahead: true, ..config() });
    hear(&mut switch, 1, 0, all_reduce(0), 0);
    hear(&mut switch, 1, 1, control(Pattern::Reduce { root: Rank(0) }, 0), 0);
    assert_eq!(hear(&mut switch, 0, 0, all_reduce(0), 0).told()[0], (0, 'A', 0));
    assert_eq!(hear(&mut switch, 0, 2, all_reduce(0), 0).told(), [(0, 'A', 2)]);
}

#[test]
fn what_flows_one_way_is_taken_from_there_alone() {
    let mut switch = switch(config());
    let broadcast = control(Pattern::Broadcast { root: Rank(0) }, 1);
    assert_eq!(hear(&mut switch, 1, 0, broadcast, 0).dropped, [DropReason::WrongDirection.name()]);
    hear(&mut switch, 0, 0, broadcast, 0);
    assert_eq!(hear(&mut switch, 1, 1, DATA, 8).dropped, [DropReason::WrongDirection.name()]);
    assert_eq!(hear(&mut switch, 0, 1, DATA, 8).told(), [(1, 'D', 1)]);
}

#[test]
fn a_switch_that_was_ahead_is_answered_as_soon_as_what_comes_before_is_known() {
    let mut config = GroupConfig { ranks: 3, toward: vec![0, 1, 2], ..config() };
    config.edges.push(EdgeConfig {
        local: Endpoint { ip: config.edges[0].local.ip, qp: QpNumber::new(0x102) },
        remote: Endpoint { ip: Gid::from([10, 0, 0, 3]), qp: QpNumber::new(0x11) },
        rank: None,
        mode: Some(Mode::III),
    });
    let mut switch = switch(config);
    // Behind that edge is the root of the second collective, which sends nothing in the first.
    let root = |rank| control(Pattern::Broadcast { root: Rank(rank) }, 0);
    let early = deliver(&mut switch, Instant::ZERO, 2, FIRST.plus(1), root(2), 0);
    assert!(!early.told().iter().any(|(edge, ..)| *edge == 2), "{:?}", early.told());
    let known = deliver(&mut switch, Instant::ZERO, 0, FIRST, root(0), 0);
    assert!(known.told().contains(&(2, 'A', 1)), "{:?}", known.told());
}

#[test]
fn an_edge_that_has_a_collective_before_it_waits_for_that_while_others_skip_it() {
    let third = EdgeConfig {
        local: Endpoint { qp: QpNumber::new(0x102), ..config().edges[0].local },
        remote: Endpoint { ip: Gid::from([10, 0, 0, 3]), ..config().edges[0].remote },
        rank: Some(Rank(2)),
        mode: None,
    };
    let edges = config().edges.into_iter().chain([third]).collect();
    let mut switch = switch(GroupConfig { ranks: 3, edges, toward: vec![0, 1, 2], ..config() });
    let reduce = control(Pattern::Reduce { root: Rank(2) }, 0);
    hear(&mut switch, 0, 0, reduce, 0);
    // That of rank 1 is lost; the next collective of all three is whole.
    for rank in [0, 1] {
        hear(&mut switch, rank, 1, all_reduce(0), 0);
    }
    let data =
        |sent: Sent| -> Vec<_> { sent.told().into_iter().filter(|(_, kind, _)| *kind == 'D').collect() };
    assert_eq!(data(hear(&mut switch, 2, 1, all_reduce(0), 0)), [(0, 'D', 1), (1, 'D', 1)]);
    // All stand at one number no longer: the root gets what it has waited for, and then the rest.
    assert_eq!(data(hear(&mut switch, 1, 0, reduce, 0)), [(2, 'D', 0), (2, 'D', 1)]);
}

/// A switch of ranks 0 and 1 below the one that leads to rank 2.
fn leaf(mode_above: Mode) -> Switch {
    let above = EdgeConfig {
        local: Endpoint { qp: QpNumber::new(0x102), ..config().edges[0].local },
        remote: Endpoint { ip: Gid::from([10, 0, 0, 3]), ..config().edges[0].remote },
        rank: None,
        mode: Some(mode_above),
    };
    let edges = config().edges.into_iter().chain([above]).collect();
    switch(GroupConfig {
        ranks: 3,
        edges,
        toward: vec![0, 1, 2],
        parent: Some(2),
        selective: true,
        window: Packets::new(4),
        ..config()
    })
}

#[test]
fn results_answer_for_contributions_and_not_for_what_flows_one_way_before_them() {
    let mut switch = leaf(Mode::III);
    for rank in 0..2 {
        hear(&mut switch, rank, 0, control(Pattern::Reduce { root: Rank(2) }, 0), 0);
    }
    // What goes to the switch above is lost; the AllReduce behind it is not.
    for rank in 0..2 {
        hear(&mut switch, rank, 1, all_reduce(0), 0);
    }
    hear(&mut switch, 2, 1, all_reduce(0), 0);
    assert_eq!(hear(&mut switch, 2, 0, answer(NAK), 0).told(), [(2, 'D', 0)]);
}

#[test]
fn a_result_that_a_switch_in_mode_ii_sends_again_behind_a_question_has_what_is_missing_asked_for_again() {
    for (mode_above, told) in [(Mode::II, vec![(2, 'N', 1)]), (Mode::III, vec![])] {
        let mut switch = leaf(mode_above);
        for rank in 0..2 {
            hear(&mut switch, rank, 0, all_reduce(2), 0);
            hear(&mut switch, rank, 1, DATA, 8);
            hear(&mut switch, rank, 2, DATA, 8);
        }
        hear(&mut switch, 2, 0, all_reduce(2), 0);
        assert_eq!(hear(&mut switch, 2, 2, DATA, 8).told(), [(2, 'N', 1)]);
        assert_eq!(hear(&mut switch, 2, 2, DATA, 8).told(), [], "it is on its way");
        // It asks what has arrived, and says to who sends no result again by itself what has come here.
        let says = if mode_above == Mode::II { vec![(2, 'A', 0), (2, 'D', 2)] } else { vec![(2, 'D', 2)] };
        assert_eq!(expire(&mut switch, resend(2)).told(), says);
        assert_eq!(hear(&mut switch, 2, 2, DATA, 8).told(), told);
    }
}
