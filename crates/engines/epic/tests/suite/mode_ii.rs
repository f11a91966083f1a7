//! What a Mode-II switch passes on, answers itself and drops (EPIC 4.3, algorithm 1), at the root of a star of three ranks with
//! windows of two packets.

use crate::common::{
    ACK, DATA, FIRST, NAK, Sent, Switch, all_reduce, answer, config, control, deliver, switch,
};
use quincunx_collective::Rank;
use quincunx_design::Datapath;
use quincunx_epic::{ControlMessage, DropReason, EdgeConfig, GroupConfig, Mode, Pattern};
use quincunx_units::{Instant, Packets};
use quincunx_wire::{Endpoint, Gid, NakCode, Operation, Position, QpNumber, Syndrome};

fn star_of_three() -> GroupConfig {
    let third = EdgeConfig {
        local: Endpoint { ip: Gid::from([10, 0, 1, 1]), qp: QpNumber::new(0x102) },
        remote: Endpoint { ip: Gid::from([10, 0, 0, 3]), qp: QpNumber::new(0x11) },
        rank: Some(Rank(2)),
        mode: None,
    };
    let mut config = GroupConfig { mode: Mode::II, ranks: 3, toward: vec![0, 1, 2], ..config() };
    config.edges.push(third);
    config
}

fn hear(switch: &mut Switch, rank: u16, number: u32, operation: Operation, length: usize) -> Sent {
    deliver(switch, Instant::ZERO, rank, FIRST.plus(number), operation, length)
}

fn told(switch: &mut Switch, rank: u16, number: u32, operation: Operation) -> Vec<(u16, char, u32)> {
    let length = if operation == DATA { 8 } else { 0 };
    hear(switch, rank, number, operation, length).told()
}

fn dropped(switch: &mut Switch, rank: u16, number: u32, operation: Operation) -> Vec<&'static str> {
    let length = if operation == DATA { 8 } else { 0 };
    hear(switch, rank, number, operation, length).dropped
}

/// A switch that every rank that sends has told of a collective of a packet; nothing else has come.
fn announced(config: GroupConfig, pattern: Pattern) -> Switch {
    let mut switch = switch(config);
    for rank in 0..3 {
        let sends = match pattern {
            Pattern::AllReduce => true,
            Pattern::Reduce { root } => root != Rank(rank),
            Pattern::Broadcast { root } => root == Rank(rank),
        };
        if sends {
            hear(&mut switch, rank, 0, control(pattern, 1), 0);
        }
    }
    switch
}

const REDUCE: Pattern = Pattern::Reduce { root: Rank(0) };
const BROADCAST: Pattern = Pattern::Broadcast { root: Rank(0) };

#[test]
fn a_sum_leaves_when_all_have_sent_and_the_acknowledge_of_each_goes_back_to_itself() {
    let mut switch = announced(star_of_three(), Pattern::AllReduce);
    assert_eq!(told(&mut switch, 0, 1, DATA), []);
    assert_eq!(told(&mut switch, 2, 1, DATA), []);
    assert_eq!(told(&mut switch, 1, 1, DATA), [(0, 'D', 1), (1, 'D', 1), (2, 'D', 1)]);
    assert_eq!(told(&mut switch, 1, 0, answer(ACK)), [(1, 'A', 0)]);
    assert_eq!(told(&mut switch, 1, 1, answer(ACK)), [(1, 'A', 1)]);
    assert_eq!(told(&mut switch, 2, 0, answer(NAK)), [(2, 'N', 0)]);
}

#[test]
fn whoever_sends_again_is_answered_alone_and_among_other_traffic() {
    for selective in [false, true] {
        let mut switch = announced(GroupConfig { selective, ..star_of_three() }, Pattern::AllReduce);
        let again = hear(&mut switch, 2, 0, all_reduce(1), 0);
        assert_eq!(again.told(), [(2, 'D', 0)]);
        assert!(!again.frames[0].1.is_expedited(), "what it overtakes would be taken for lost");
    }
}

#[test]
fn whoever_asks_is_asked_for_what_has_not_come() {
    let mut switch = announced(GroupConfig { selective: true, ..star_of_three() }, Pattern::AllReduce);
    let ask = |switch: &mut Switch, number| hear(switch, 0, number, Operation::QUESTION, 0).told();
    assert_eq!(ask(&mut switch, 1), [(0, 'N', 1)]);
    told(&mut switch, 0, 0, answer(ACK));
    assert_eq!(ask(&mut switch, 0), [(0, 'A', 0)]);
    assert_eq!(ask(&mut switch, 1), [(0, 'N', 1)]);
}

#[test]
fn no_question_asks_for_more_than_a_window() {
    let mut switch = switch(GroupConfig { selective: true, ..star_of_three() });
    hear(&mut switch, 0, 0, all_reduce(60), 0);
    // The first packet of the two has come.
    assert_eq!(hear(&mut switch, 0, 60, Operation::QUESTION, 0).told(), [(0, 'N', 1)]);
}

#[test]
fn whoever_asks_hears_nothing_while_others_are_late_and_then_the_newest_result_among_other_traffic() {
    let mut switch = announced(GroupConfig { selective: true, ..star_of_three() }, Pattern::AllReduce);
    told(&mut switch, 0, 0, answer(ACK));
    let ask = |switch: &mut Switch, newest| hear(switch, 0, newest, Operation::QUESTION, 0);
    for rank in 0..2 {
        told(&mut switch, rank, 1, DATA);
    }
    assert_eq!([(); 2].map(|()| ask(&mut switch, 1).told()), [[], []]);
    told(&mut switch, 2, 1, DATA);
    let newest = ask(&mut switch, 1);
    assert_eq!(newest.told(), [(0, 'D', 1)]);
    assert!(!newest.frames[0].1.is_expedited(), "other results may be on their way");
}

#[test]
fn the_newest_result_that_there_is_answers_a_question_about_a_later_packet() {
    let mut switch = switch(GroupConfig { selective: true, ..star_of_three() });
    for rank in 0..3 {
        told(&mut switch, rank, 0, all_reduce(3));
        told(&mut switch, rank, 1, DATA);
    }
    told(&mut switch, 0, 2, DATA);
    assert_eq!(hear(&mut switch, 0, 2, Operation::QUESTION, 0).told(), [(0, 'D', 1)]);
}

#[test]
fn a_result_that_is_asked_for_is_sent_once_more_to_the_one_who_asks_before_other_traffic() {
    let mut switch = announced(GroupConfig { selective: true, ..star_of_three() }, Pattern::AllReduce);
    let again = hear(&mut switch, 2, 0, answer(NAK), 0);
    assert_eq!(again.told(), [(2, 'D', 0)]);
    assert!(again.frames[0].1.is_expedited());
    // Of what is not summed up the rank's own part is asked for, where it has not come.
    told(&mut switch, 0, 1, DATA);
    assert_eq!(told(&mut switch, 2, 1, answer(NAK)), [(2, 'N', 1)]);
    assert_eq!(told(&mut switch, 0, 1, answer(NAK)), []);
}

#[test]
fn by_the_papers_rule_whoever_asks_for_a_result_sends_its_own_packet_again() {
    let config = GroupConfig { selective: true, resend_results: false, ..star_of_three() };
    let mut switch = announced(config, Pattern::AllReduce);
    assert_eq!(told(&mut switch, 2, 0, answer(NAK)), [(2, 'N', 0)]);
    let mut ask = || hear(&mut switch, 2, 0, Operation::QUESTION, 0).told();
    assert_eq!([ask(), ask()], [vec![], vec![(2, 'N', 0)]]);
}

/// A switch with a parent, two ranks and a sum of theirs on its way there.
fn leaf() -> Switch {
    let mut config = GroupConfig { selective: true, parent: Some(2), ..star_of_three() };
    (config.edges[2].rank, config.edges[2].mode) = (None, Some(Mode::II));
    let mut switch = switch(config);
    for rank in 0..2 {
        told(&mut switch, rank, 0, all_reduce(1));
        told(&mut switch, rank, 1, DATA);
    }
    switch
}

#[test]
fn a_switch_below_the_root_sends_its_sum_up_once_more_for_a_rank_that_asks_for_the_result() {
    assert_eq!(told(&mut leaf(), 1, 0, answer(NAK)), [(2, 'D', 0)]);
}

#[test]
fn a_switch_below_the_root_asks_once_more_for_what_it_is_asked_about_twice() {
    let mut switch = leaf();
    let mut ask = || hear(&mut switch, 0, 1, Operation::QUESTION, 0).told();
    assert_eq!(ask(), [], "the sum is on its way");
    assert_eq!(ask(), [(0, 'N', 0)]);
}

#[test]
fn a_switch_in_mode_iii_that_asks_hears_again_that_what_it_sent_in_the_collective_before_has_arrived() {
    for (mode, told_first) in [(Some(Mode::III), vec![(1, 'A', 1)]), (None, vec![])] {
        let mut config = GroupConfig { selective: true, ..star_of_three() };
        config.edges[1].mode = mode;
        let mut switch = switch(config);
        let broadcast = control(Pattern::Broadcast { root: Rank(1) }, 1);
        told(&mut switch, 1, 0, broadcast);
        told(&mut switch, 1, 1, DATA);
        for rank in [0, 2] {
            told(&mut switch, rank, 1, answer(ACK));
        }
        told(&mut switch, 1, 2, all_reduce(0));
        // Its acknowledge is lost, and rank 0 has not begun.
        assert_eq!(hear(&mut switch, 1, 2, Operation::QUESTION, 0).told(), told_first);
    }
}

#[test]
fn a_broadcast_waits_for_a_rank_that_asks_for_a_result_and_not_for_a_switch_that_keeps_what_comes_early() {
    for (mode, passed) in [(Some(Mode::III), vec![(1, 'D', 2), (2, 'D', 2)]), (None, vec![(1, 'D', 2)])] {
        let mut config = star_of_three();
        config.edges[2].mode = mode;
        let mut switch = announced(config, Pattern::AllReduce);
        for rank in 0..3 {
            told(&mut switch, rank, 1, DATA);
        }
        told(&mut switch, 2, 1, answer(NAK));
        assert_eq!(told(&mut switch, 0, 2, control(BROADCAST, 0)), passed);
    }
}

#[test]
fn who_sends_again_before_the_sum_is_complete_is_not_answered() {
    let mut switch = announced(star_of_three(), Pattern::AllReduce);
    told(&mut switch, 0, 1, DATA);
    assert_eq!(told(&mut switch, 0, 1, DATA), []);
}

#[test]
fn a_rank_that_has_acknowledged_a_later_collective_is_told_that_it_need_not_send_again() {
    let mut switch = announced(star_of_three(), Pattern::AllReduce);
    for number in 1..3 {
        let operation = if number == 1 { DATA } else { all_reduce(1) };
        for rank in 0..3 {
            told(&mut switch, rank, number, operation);
        }
    }
    told(&mut switch, 0, 2, answer(ACK));
    let again = hear(&mut switch, 0, 1, DATA, 8);
    assert_eq!((again.told(), again.dropped), (vec![(0, 'A', 1)], vec![DropReason::Duplicate.name()]));
    // Others have not, and get the sum.
    assert_eq!(told(&mut switch, 1, 1, DATA), [(1, 'D', 1)]);
}

#[test]
fn a_sum_for_one_goes_there_and_its_acknowledge_to_all_who_have_sent() {
    let mut switch = announced(star_of_three(), REDUCE);
    assert_eq!(told(&mut switch, 1, 1, DATA), []);
    assert_eq!(told(&mut switch, 2, 1, DATA), [(0, 'D', 1)]);
    // Not acknowledged: whoever sends again asks for the sum once more.
    assert_eq!(told(&mut switch, 1, 0, control(REDUCE, 1)), [(0, 'D', 0)]);
    assert_eq!(told(&mut switch, 0, 0, answer(ACK)), [(1, 'A', 0), (2, 'A', 0)]);
    let again = hear(&mut switch, 1, 0, control(REDUCE, 1), 0);
    assert_eq!((again.told(), again.dropped), (vec![(1, 'A', 0)], vec![DropReason::Duplicate.name()]));
    assert_eq!(told(&mut switch, 0, 1, answer(NAK)), [(1, 'N', 1), (2, 'N', 1)]);
    assert_eq!(told(&mut switch, 0, 1, answer(ACK)), [(1, 'A', 1), (2, 'A', 1)]);
}

#[test]
fn who_sends_again_for_a_sum_that_has_arrived_is_told_of_that_sum_and_not_of_later_ones() {
    let mut switch = announced(star_of_three(), REDUCE);
    for (number, operation) in [(1, DATA), (2, control(REDUCE, 0))] {
        for rank in 1..3 {
            told(&mut switch, rank, number, operation);
        }
    }
    assert_eq!(told(&mut switch, 0, 2, answer(ACK)), [(1, 'A', 2), (2, 'A', 2)]);
    assert_eq!(told(&mut switch, 1, 1, DATA), [(1, 'A', 1)]);
}

#[test]
fn a_broadcast_is_acknowledged_as_far_as_the_slowest_has_it() {
    let mut switch = announced(star_of_three(), BROADCAST);
    assert_eq!(told(&mut switch, 0, 1, DATA), [(1, 'D', 1), (2, 'D', 1)]);
    assert_eq!(told(&mut switch, 1, 1, answer(ACK)), []);
    assert_eq!(told(&mut switch, 2, 0, answer(ACK)), [(0, 'A', 0)]);
    assert_eq!(told(&mut switch, 2, 1, answer(ACK)), [(0, 'A', 1)]);
    let again = hear(&mut switch, 0, 0, control(BROADCAST, 1), 0);
    assert_eq!((again.told(), again.dropped), (vec![(0, 'A', 1)], vec![DropReason::Duplicate.name()]));
}

#[test]
fn what_a_receiver_of_a_broadcast_asks_for_is_no_later_than_what_the_slowest_misses() {
    let mut switch = announced(star_of_three(), BROADCAST);
    told(&mut switch, 0, 1, DATA);
    assert_eq!(told(&mut switch, 1, 1, answer(NAK)), [(0, 'N', 0)]);
    let mut switch = announced(GroupConfig { selective: true, ..star_of_three() }, BROADCAST);
    told(&mut switch, 0, 1, DATA);
    assert_eq!(told(&mut switch, 1, 1, answer(NAK)), [(0, 'N', 1)]);
}

#[test]
fn that_a_receiver_has_failed_is_passed_on_whatever_the_number() {
    let broken = answer(Syndrome::Nak(NakCode::RemoteOperational));
    let mut switch = announced(star_of_three(), REDUCE);
    let sent = hear(&mut switch, 0, 0, broken, 0);
    let operations: Vec<_> = sent.frames.iter().map(|(edge, header)| (*edge, header.operation)).collect();
    assert_eq!(operations, [(1, broken), (2, broken)]);
}

#[test]
fn what_comes_from_where_it_cannot_is_dropped() {
    let wrong = [DropReason::WrongDirection.name()];
    let mut switch = announced(star_of_three(), REDUCE);
    assert_eq!(dropped(&mut switch, 0, 1, DATA), wrong);
    assert_eq!(dropped(&mut switch, 1, 0, answer(ACK)), wrong);
    let mut switch = announced(star_of_three(), BROADCAST);
    assert_eq!(dropped(&mut switch, 1, 1, DATA), wrong);
    assert_eq!(dropped(&mut switch, 0, 0, answer(ACK)), wrong);
    let mut config = star_of_three();
    (config.edges[1].rank, config.edges[1].mode) = (None, Some(Mode::II));
    let mut switch = announced(config, Pattern::AllReduce);
    assert_eq!(dropped(&mut switch, 1, 0, answer(ACK)), wrong);
    let mut switch = crate::common::switch(star_of_three());
    assert_eq!(dropped(&mut switch, 1, 0, control(BROADCAST, 1)), wrong);
}

#[test]
fn what_belongs_to_no_collective_is_dropped() {
    let mut switch = announced(star_of_three(), Pattern::AllReduce);
    assert_eq!(dropped(&mut switch, 0, 2, DATA), [DropReason::NoCollective.name()]);
    assert_eq!(dropped(&mut switch, 0, 2, answer(ACK)), [DropReason::BadAcknowledge.name()]);
    let write = Operation::WriteMiddle;
    assert_eq!(dropped(&mut switch, 0, 1, write), [DropReason::UnexpectedOperation.name()]);
}

#[test]
fn a_collective_is_known_before_the_one_before_it_up_to_two_windows_ahead() {
    for (number, expected) in [(7, vec![]), (8, vec![DropReason::NoCollective.name()])] {
        let mut switch = switch(GroupConfig { window: Packets::new(4), ..star_of_three() });
        assert_eq!(dropped(&mut switch, 0, number, all_reduce(0)), expected, "number {number}");
    }
}

#[test]
fn slots_are_left_for_what_is_not_known_yet() {
    let mut switch = switch(star_of_three());
    // Three numbers before it are nobody's so far: with its own they would take all four slots.
    assert_eq!(dropped(&mut switch, 0, 3, all_reduce(1)), [""; 0]);
    assert_eq!(dropped(&mut switch, 0, 4, DATA), [DropReason::AheadOfRange.name()]);
}

#[test]
fn collectives_that_are_over_are_forgotten() {
    let mut switch = switch(star_of_three());
    for number in 0..40 {
        told(&mut switch, 0, number, all_reduce(0));
        told(&mut switch, 1, number, all_reduce(0));
        let results = [0, 1, 2].map(|rank| (rank, 'D', number));
        assert_eq!(told(&mut switch, 2, number, all_reduce(0)), results);
    }
}

#[test]
fn a_switch_that_has_acknowledged_what_comes_later_still_gets_the_sum_that_it_asks_for() {
    let mut config = star_of_three();
    (config.edges[1].rank, config.edges[1].mode) = (None, Some(Mode::II));
    let mut switch = announced(config, Pattern::AllReduce);
    for rank in 0..3 {
        told(&mut switch, rank, 1, DATA);
    }
    told(&mut switch, 0, 2, control(BROADCAST, 0));
    told(&mut switch, 1, 2, answer(ACK));
    assert_eq!(told(&mut switch, 1, 1, DATA), [(1, 'D', 1)]);
}

#[test]
fn control_messages_and_packets_that_make_no_sense_are_dropped() {
    let malformed = [DropReason::Malformed.name()];
    let mut switch = switch(star_of_three());
    let nobody = control(Pattern::Reduce { root: Rank(3) }, 1);
    assert_eq!(dropped(&mut switch, 0, 0, nobody), malformed);
    assert_eq!(dropped(&mut switch, 0, 0, Operation::SendOnlyImmediate(u32::MAX >> 2)), malformed);
    // Half an element, more than a packet holds, and a confirmation with data.
    assert_eq!(hear(&mut switch, 0, 0, all_reduce(1), 6).dropped, malformed);
    assert_eq!(hear(&mut switch, 0, 0, all_reduce(1), 12).dropped, malformed);
    let confirmation = Operation::SendOnlyImmediate(ControlMessage::confirmation(5).encode());
    assert_eq!(hear(&mut switch, 0, 0, confirmation, 4).dropped, malformed);
    // The second is known first; the first would reach into it.
    assert_eq!(hear(&mut switch, 0, 2, all_reduce(1), 0).dropped, [""; 0]);
    assert_eq!(hear(&mut switch, 0, 0, all_reduce(2), 0).dropped, malformed);
    assert_eq!(hear(&mut switch, 0, 0, all_reduce(1), 0).dropped, [""; 0]);
    // Not what was announced, a packet that is too long, and a control message in the middle.
    assert_eq!(hear(&mut switch, 1, 0, all_reduce(0), 0).dropped, [DropReason::Disagreement.name()]);
    assert_eq!(hear(&mut switch, 1, 1, DATA, 12).dropped, malformed);
    assert_eq!(hear(&mut switch, 1, 1, all_reduce(1), 0).dropped, malformed);
    // Half an element.
    assert_eq!(hear(&mut switch, 1, 1, DATA, 6).dropped, malformed);
    assert_eq!(hear(&mut switch, 1, 0, Operation::Send(Position::Only), 0).dropped, malformed);
}

#[test]
fn contributions_of_different_lengths_are_not_added() {
    let mut switch = announced(star_of_three(), Pattern::AllReduce);
    hear(&mut switch, 0, 1, DATA, 8);
    assert_eq!(hear(&mut switch, 1, 1, DATA, 4).dropped, [DropReason::Mismatch.name()]);
}

#[test]
fn what_lies_two_windows_behind_is_stale_and_what_lies_ahead_of_the_range_too_early() {
    let mut switch = switch(star_of_three());
    for rank in 0..3 {
        told(&mut switch, rank, 0, all_reduce(8));
    }
    // Everything up to here is aggregated: the range is the window before it, and the one behind.
    for number in 1..4 {
        for rank in 0..3 {
            told(&mut switch, rank, number, DATA);
        }
    }
    let reasons = [1, 2, 5, 6].map(|number| dropped(&mut switch, 0, number, DATA));
    let (stale, early) = (vec![DropReason::Stale.name()], vec![DropReason::AheadOfRange.name()]);
    assert_eq!(reasons, [stale, vec![], vec![], early]);
}

#[test]
fn a_broadcast_behind_a_sum_is_held_for_ranks_until_the_sum_has_passed() {
    let mut switch = switch(GroupConfig { window: Packets::new(4), ..star_of_three() });
    for rank in 0..2 {
        told(&mut switch, rank, 0, all_reduce(0));
    }
    // Rank 0 has sent its part of the barrier, and broadcasts.
    assert_eq!(told(&mut switch, 0, 1, control(BROADCAST, 1)), []);
    assert_eq!(told(&mut switch, 0, 2, DATA), []);
    assert_eq!(dropped(&mut switch, 0, 2, DATA), [DropReason::Duplicate.name()]);
    let passed = told(&mut switch, 2, 0, all_reduce(0));
    let expected =
        [(0, 'D', 0), (1, 'D', 0), (2, 'D', 0), (1, 'D', 1), (2, 'D', 1), (1, 'D', 2), (2, 'D', 2)];
    assert_eq!(passed, expected);
}

#[test]
fn a_switch_in_mode_ii_has_no_timers_and_wants_no_slots() {
    let switch = announced(star_of_three(), Pattern::AllReduce);
    assert!(switch.timers().is_empty() && !switch.may_want_transmit() && !switch.wants_transmit(0));
}

/// Broadcasts of rank 0, packets 0 and 1, and of rank 1, packets 2 and 3; all of the first has passed.
fn two_roots() -> Switch {
    let mut switch = announced(GroupConfig { window: Packets::new(8), ..star_of_three() }, BROADCAST);
    assert_eq!(told(&mut switch, 0, 1, DATA), [(1, 'D', 1), (2, 'D', 1)]);
    switch
}

const NEXT: Pattern = Pattern::Broadcast { root: Rank(1) };

#[test]
fn the_next_root_is_asked_for_what_a_rank_has_dropped_that_missed_a_packet_of_the_one_before() {
    for missed in [NAK, Syndrome::ReceiverNotReady(1)] {
        let mut switch = two_roots();
        assert_eq!(told(&mut switch, 1, 2, control(NEXT, 1)), [(0, 'D', 2), (2, 'D', 2)]);
        assert_eq!(told(&mut switch, 1, 3, DATA), [(0, 'D', 3), (2, 'D', 3)]);
        assert_eq!(told(&mut switch, 1, 1, answer(ACK)), []);
        let asked = hear(&mut switch, 2, 0, answer(missed), 0);
        assert_eq!(asked.frames.iter().map(|(edge, _)| *edge).collect::<Vec<_>>(), [0]);
        // Who has acknowledged it does not get it again.
        assert_eq!(told(&mut switch, 0, 0, control(BROADCAST, 1)), [(2, 'D', 0)]);
        assert_eq!(told(&mut switch, 0, 1, DATA), [(2, 'D', 1), (1, 'N', 2)]);
        assert_eq!(told(&mut switch, 1, 2, control(NEXT, 1)), [(0, 'D', 2), (2, 'D', 2)]);
    }
}

#[test]
fn what_comes_while_a_rank_waits_for_an_earlier_packet_is_held_until_that_has_passed() {
    let mut switch = two_roots();
    told(&mut switch, 1, 1, answer(ACK));
    assert_eq!(told(&mut switch, 2, 1, answer(NAK)), [(0, 'A', 0), (0, 'N', 1)]);
    assert_eq!(told(&mut switch, 1, 2, control(NEXT, 1)), [(0, 'D', 2)]);
    assert_eq!(told(&mut switch, 0, 1, DATA), [(2, 'D', 1), (2, 'D', 2)]);
    assert_eq!(told(&mut switch, 1, 3, DATA), [(0, 'D', 3), (2, 'D', 3)]);
}

#[test]
fn the_rest_of_what_has_passed_in_part_is_held_too() {
    let mut switch = two_roots();
    told(&mut switch, 1, 1, answer(ACK));
    assert_eq!(told(&mut switch, 1, 2, control(NEXT, 1)), [(0, 'D', 2), (2, 'D', 2)]);
    told(&mut switch, 2, 1, answer(NAK));
    assert_eq!(told(&mut switch, 1, 3, DATA), [(0, 'D', 3)]);
    // The rank asks by itself for the packet before it.
    assert_eq!(told(&mut switch, 0, 1, DATA), [(2, 'D', 1), (2, 'D', 3)]);
}

#[test]
fn a_request_for_what_has_been_acknowledged_meanwhile_holds_nothing_back() {
    let mut switch = two_roots();
    told(&mut switch, 2, 1, answer(ACK));
    told(&mut switch, 2, 0, answer(NAK));
    assert_eq!(told(&mut switch, 1, 2, control(NEXT, 1)), [(0, 'D', 2), (2, 'D', 2)]);
}

#[test]
fn what_several_ranks_miss_is_asked_for_once_until_it_comes_again() {
    let mut switch = two_roots();
    assert_eq!(told(&mut switch, 1, 0, answer(NAK)), [(0, 'N', 0)]);
    assert_eq!(told(&mut switch, 2, 0, answer(NAK)), []);
    assert_eq!(told(&mut switch, 0, 0, control(BROADCAST, 1)), [(1, 'D', 0), (2, 'D', 0)]);
    assert_eq!(told(&mut switch, 2, 0, answer(NAK)), [(0, 'N', 0)]);
}

#[test]
fn a_rank_that_acknowledges_what_it_had_asked_for_is_not_held_up() {
    let mut switch = two_roots();
    told(&mut switch, 2, 0, answer(NAK));
    assert_eq!(told(&mut switch, 1, 2, control(NEXT, 1)), [(0, 'D', 2)]);
    // The request was late; the rank has everything.
    assert_eq!(told(&mut switch, 2, 1, answer(ACK)), [(2, 'D', 2)]);
}

#[test]
fn a_broadcast_waits_only_toward_ranks_that_are_to_receive_something_before_it() {
    let mut switch = announced(GroupConfig { window: Packets::new(8), ..star_of_three() }, REDUCE);
    assert_eq!(told(&mut switch, 1, 2, control(NEXT, 0)), [(2, 'D', 2)]);
    assert_eq!(told(&mut switch, 1, 1, DATA), []);
    assert_eq!(told(&mut switch, 2, 1, DATA), [(0, 'D', 1), (0, 'D', 2)]);
}
