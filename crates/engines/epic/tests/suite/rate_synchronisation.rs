//! Ranks that run ahead of the others at a Mode-III switch, and what the switch does about it (EPIC 4.4).

use crate::common::{FIRST, Sent, Switch, all_reduce, config, deliver, switch};
use quincunx_epic::{DropReason, GroupConfig};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Operation, Position};

const INTERVAL: Duration = Duration::from_micros(50);

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// Packet `number` of an AllReduce of five, of which 0 is the control message.
fn packet(switch: &mut Switch, now: Instant, rank: u16, number: u32) -> Sent {
    let (operation, length) =
        if number == 0 { (all_reduce(5), 0) } else { (Operation::Send(Position::Only), 8) };
    deliver(switch, now, rank, FIRST.plus(number), operation, length)
}

/// Rank 0 has filled the range of two; rank 1 has not begun.
fn outrun(config: GroupConfig) -> Switch {
    let mut switch = switch(config);
    for number in 0..2 {
        packet(&mut switch, at(0), 0, number);
    }
    switch
}

fn told(sent: &Sent) -> Vec<(u16, char, u32)> {
    sent.told()
}

#[test]
fn a_rank_that_outruns_the_range_is_notified_once_in_an_interval() {
    let mut switch = outrun(GroupConfig { notification_interval: Some(INTERVAL), ..config() });
    let answers = [0, 49, 50].map(|micros| {
        let sent = packet(&mut switch, at(micros), 0, 2);
        assert_eq!(sent.dropped, [DropReason::AheadOfRange.name()]);
        told(&sent)
    });
    assert_eq!(answers, [vec![(0, 'C', 0)], vec![], vec![(0, 'C', 0)]]);
}

#[test]
fn what_was_turned_away_is_called_for_when_the_range_opens() {
    let mut switch = outrun(GroupConfig { notification_interval: Some(INTERVAL), ..config() });
    packet(&mut switch, at(0), 0, 2);
    // The first sum is complete and handed on: one slot of the aggregation pipe is free.
    let answers = told(&packet(&mut switch, at(0), 1, 0));
    assert!(answers.contains(&(0, 'N', 2)), "{answers:?}");
}

#[test]
fn without_rate_synchronisation_what_lies_ahead_of_the_range_is_dropped_in_silence() {
    let mut switch = outrun(config());
    let sent = packet(&mut switch, at(0), 0, 2);
    assert_eq!((told(&sent), sent.dropped), (vec![], vec![DropReason::AheadOfRange.name()]));
}

#[test]
fn ranks_that_may_run_ahead_are_acknowledged_at_once_and_others_with_the_result() {
    for (run_ahead, expected) in [(true, vec![(0, 'A', 0)]), (false, vec![])] {
        let mut switch = switch(GroupConfig { run_ahead, ..config() });
        assert_eq!(told(&packet(&mut switch, at(0), 0, 0)), expected, "run_ahead: {run_ahead}");
    }
}

#[test]
fn only_ranks_are_notified() {
    let mut config = GroupConfig { notification_interval: Some(INTERVAL), ..config() };
    config.edges[0].rank = None;
    let mut switch = outrun(config);
    assert_eq!(told(&packet(&mut switch, at(0), 0, 2)), []);
}
