//! Ranks whose queue pairs cannot skip PSNs: their first hop counts what passes each way and translates.

use crate::common::{
    ACK, DATA, FIRST, FromRank, NAK, Sent, Switch, all_reduce, answer, arrive, config, control, switch,
};
use quincunx_collective::Rank;
use quincunx_epic::{GroupConfig, Mode, Pattern};
use quincunx_units::{Instant, Packets};
use quincunx_wire::Operation;

const BROADCAST: Pattern = Pattern::Broadcast { root: Rank(0) };

fn standard(mode: Mode) -> Switch {
    switch(GroupConfig { mode, window: Packets::new(4), standard_verbs: true, run_ahead: true, ..config() })
}

/// Packet `number` of those that `rank` sends, or of those that it receives if it acknowledges.
fn from(switch: &mut Switch, rank: u16, number: u32, operation: Operation, length: usize) -> Sent {
    let frame = FromRank { rank, psn: FIRST.plus(number), operation, length, asks: true };
    arrive(switch, Instant::ZERO, &frame)
}

fn data(sent: &Sent) -> Vec<(u16, u32)> {
    let told = sent.told().into_iter().filter(|(_, kind, _)| *kind == 'D');
    told.map(|(edge, _, number)| (edge, number)).collect()
}

/// Rank 0 sends rank 1 a control message and a packet, and rank 1 has them.
fn broadcast(switch: &mut Switch) {
    assert_eq!(data(&from(switch, 0, 0, control(BROADCAST, 1), 0)), [(1, 0)]);
    assert_eq!(data(&from(switch, 0, 1, DATA, 8)), [(1, 1)]);
    from(switch, 1, 1, answer(ACK), 0);
}

#[test]
fn each_direction_of_each_edge_is_counted_by_itself() {
    for mode in [Mode::II, Mode::III] {
        let mut switch = standard(mode);
        broadcast(&mut switch);
        // Rank 0 has sent two packets, rank 1 none; rank 1 has received two, rank 0 none.
        assert_eq!(data(&from(&mut switch, 0, 2, all_reduce(1), 0)), [], "{mode:?}");
        assert_eq!(data(&from(&mut switch, 1, 0, all_reduce(1), 0)), [(0, 0), (1, 2)], "{mode:?}");
        assert_eq!(data(&from(&mut switch, 0, 3, DATA, 8)), []);
        assert_eq!(data(&from(&mut switch, 1, 1, DATA, 8)), [(0, 1), (1, 3)], "{mode:?}");
    }
}

#[test]
fn acknowledges_name_what_their_receiver_has_sent() {
    for mode in [Mode::II, Mode::III] {
        let mut switch = standard(mode);
        broadcast(&mut switch);
        from(&mut switch, 0, 2, all_reduce(0), 0);
        from(&mut switch, 1, 0, all_reduce(0), 0);
        // The result is the third that rank 1 receives, and answers the first that it has sent.
        let told = from(&mut switch, 1, 2, answer(ACK), 0).told();
        match mode {
            Mode::II => assert_eq!(told, [(1, 'A', 0)], "reflected"),
            _ => assert_eq!(told, [], "the switch has acknowledged it before"),
        }
    }
}

#[test]
fn a_lost_packet_is_asked_for_by_the_number_that_its_sender_knows() {
    let mut switch = standard(Mode::III);
    broadcast(&mut switch);
    from(&mut switch, 0, 2, all_reduce(2), 0);
    from(&mut switch, 1, 0, all_reduce(2), 0);
    // Packet 1 of rank 1 is lost.
    let told = from(&mut switch, 1, 2, DATA, 8).told();
    assert_eq!(told, [(1, 'N', 1)]);
}

#[test]
fn a_request_for_what_a_rank_misses_is_passed_on_by_the_number_that_its_sender_knows() {
    let mut switch = standard(Mode::II);
    broadcast(&mut switch);
    // Rank 1 sends its first ones; rank 0 misses the second of them.
    let back = Pattern::Broadcast { root: Rank(1) };
    assert_eq!(data(&from(&mut switch, 1, 0, control(back, 2), 0)), [(0, 0)]);
    from(&mut switch, 1, 1, DATA, 8);
    assert_eq!(data(&from(&mut switch, 1, 2, DATA, 8)), [(0, 2)]);
    assert_eq!(from(&mut switch, 0, 1, answer(NAK), 0).told(), [(1, 'A', 0), (1, 'N', 1)]);
}

#[test]
fn a_control_message_behind_a_lost_one_announces_nothing() {
    for mode in [Mode::II, Mode::III] {
        let mut switch = standard(mode);
        let sent = from(&mut switch, 0, 2, control(BROADCAST, 1), 0);
        assert_eq!(sent.dropped, ["no-collective"], "{mode:?}");
        assert_eq!(data(&sent), []);
        broadcast(&mut switch);
    }
}

#[test]
fn an_empty_packet_takes_the_place_of_no_data() {
    for mode in [Mode::II, Mode::III] {
        let mut switch = standard(mode);
        from(&mut switch, 0, 0, all_reduce(1), 0);
        from(&mut switch, 1, 0, all_reduce(1), 0);
        assert_eq!(from(&mut switch, 0, 1, DATA, 0).dropped, ["malformed"], "{mode:?}");
        from(&mut switch, 1, 1, DATA, 8);
        assert_eq!(data(&from(&mut switch, 0, 1, DATA, 8)), [(0, 1), (1, 1)], "{mode:?}");
    }
}

#[test]
fn what_is_announced_from_the_wrong_side_or_acknowledged_before_it_was_sent_is_dropped() {
    for mode in [Mode::II, Mode::III] {
        let mut switch = standard(mode);
        assert_eq!(from(&mut switch, 1, 0, control(BROADCAST, 1), 0).dropped, ["wrong-direction"]);
        assert_eq!(from(&mut switch, 1, 0, answer(ACK), 0).dropped, ["bad-acknowledge"], "{mode:?}");
        broadcast(&mut switch);
    }
}

#[test]
fn numbers_go_on_when_psns_wrap_and_old_collectives_are_forgotten() {
    for mode in [Mode::II, Mode::III] {
        let near_the_end = quincunx_wire::Psn::new(0x00ff_fff0);
        let config =
            GroupConfig { mode, window: Packets::new(4), standard_verbs: true, run_ahead: true, ..config() };
        let mut switch = switch(GroupConfig { initial_psn: near_the_end, ..config });
        let mut say = |rank, number: u32, operation| {
            let frame = FromRank { rank, psn: near_the_end.plus(number), operation, length: 0, asks: true };
            arrive(&mut switch, Instant::ZERO, &frame)
        };
        for number in 0..200 {
            // Of three collectives rank 0 sends two and receives one.
            let sent = say(0, 2 * number, control(BROADCAST, 0));
            assert_eq!(sent.frames[0].1.psn, near_the_end.plus(2 * number), "{mode:?}");
            say(1, 2 * number, answer(ACK));
            say(0, 2 * number + 1, all_reduce(0));
            let sent = say(1, number, all_reduce(0));
            let results = sent
                .frames
                .iter()
                .filter(|(_, header)| matches!(header.operation, Operation::SendOnlyImmediate(_)));
            let numbers: Vec<u32> = results.map(|(_, header)| header.psn.value()).collect();
            let expected = [number, 2 * number + 1].map(|number| near_the_end.plus(number).value());
            assert_eq!(numbers, expected, "{mode:?}");
            say(0, number, answer(ACK));
            say(1, 2 * number + 1, answer(ACK));
        }
    }
}
