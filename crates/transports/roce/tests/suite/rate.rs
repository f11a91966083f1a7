//! How a queue pair reacts to congestion: DCQCN's two ends, notification and reaction.

use crate::common::bench::Bench;
use crate::common::{alice, send, slice};
use quincunx_roce::{QueuePairConfig, QueuePairTimer, RateConfig};
use quincunx_units::BitRate;
use quincunx_wire::{Operation, Position, Psn};

const ONLY: Operation = Operation::Send(Position::Only);

fn reacting() -> Bench {
    let line = BitRate::new(100_000_000_000).expect("a rate");
    Bench::new(QueuePairConfig { rate: Some(RateConfig::dcqcn(line)), ..alice() })
}

fn notifications(bench: &Bench) -> usize {
    bench
        .out
        .frames
        .iter()
        .filter(|(header, _)| header.operation == Operation::CongestionNotification)
        .count()
}

#[test]
fn a_marked_frame_is_answered_with_one_notification_an_interval() {
    let mut bench = reacting();
    for psn in [0, 1] {
        let mut header = bench.peer_header(Psn::new(psn), ONLY);
        header.allow_marks();
        assert!(header.mark_congestion());
        bench.header(header, &[]);
    }
    assert_eq!(notifications(&bench), 1);
}

#[test]
fn an_unmarked_frame_is_not() {
    let mut bench = reacting();
    bench.frame(Psn::new(0), ONLY, &[]);
    assert_eq!(notifications(&bench), 0);
}

#[test]
fn a_notified_sender_sends_packet_by_packet_as_its_rate_allows() {
    let mut bench = reacting();
    let region = bench.region(12);
    bench.qp.post_send(send(1, slice(region, 0, 12)), &bench.memory).expect("a good post");
    bench.frame(Psn::new(0), Operation::CongestionNotification, &[]);
    assert_eq!(bench.transmit_all().len(), 1, "the next packet waits for its time");
    assert!(bench.out.armed.contains_key(&QueuePairTimer::Pace));
    bench.fire(QueuePairTimer::Pace);
    assert_eq!(bench.transmit_all().len(), 1);
}

#[test]
fn the_rate_rises_again_while_no_notification_comes() {
    let mut bench = reacting();
    bench.frame(Psn::new(0), Operation::CongestionNotification, &[]);
    let slow = bench.qp.rate();
    while bench.out.armed.contains_key(&QueuePairTimer::Raise) {
        bench.fire(QueuePairTimer::Raise);
    }
    assert!(bench.qp.rate() > slow);
    assert_eq!(bench.qp.rate(), BitRate::new(100_000_000_000));
    bench.fire(QueuePairTimer::Alpha);
    assert!(
        !bench.out.armed.contains_key(&QueuePairTimer::Alpha),
        "an uncongested queue pair holds no timer"
    );
}

#[test]
fn the_longer_no_notification_comes_the_less_the_next_one_cuts() {
    let cut_after = |quiet: usize| {
        let mut bench = reacting();
        bench.frame(Psn::new(0), Operation::CongestionNotification, &[]);
        for _ in 0..quiet {
            bench.fire(QueuePairTimer::Alpha);
            assert!(bench.out.armed.contains_key(&QueuePairTimer::Alpha), "it runs on");
        }
        bench.frame(Psn::new(0), Operation::CongestionNotification, &[]);
        bench.qp.rate()
    };
    assert!(cut_after(100) > cut_after(10) && cut_after(10) > cut_after(0));
}

#[test]
fn frames_of_a_queue_pair_that_reacts_may_be_marked_and_others_may_not() {
    for (mut bench, may) in [(reacting(), true), (Bench::default_alice(), false)] {
        let region = bench.region(4);
        bench.qp.post_send(send(1, slice(region, 0, 4)), &bench.memory).expect("a good post");
        bench.transmit_all();
        let mut header = bench.out.frames[0].0;
        assert_eq!(header.mark_congestion(), may);
    }
}
