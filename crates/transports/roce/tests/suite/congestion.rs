//! The window of a queue pair as a specification, where congestion narrows it. The test plays the peer, and the way to it.

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, MTU, alice, send, slice};
use quincunx_roce::{DropReason, QueuePairConfig, QueuePairTimer, RateConfig, Reliability};
use quincunx_units::{BitRate, Duration, Packets};
use quincunx_wire::{NakCode, Operation, Psn, Syndrome};

const SHORT: u64 = 10;
const LONG: u64 = 50;

fn config(window: u32) -> QueuePairConfig {
    QueuePairConfig {
        reliability: Reliability::Selective,
        window: Packets::new(window),
        congestion_window: true,
        retry_timeout: Duration::from_millis(100),
        ..alice()
    }
}

/// A sender of one long message.
struct Sender {
    bench: Bench,
    /// Packets acknowledged.
    arrived: u32,
}

impl Sender {
    fn new(config: QueuePairConfig) -> Self {
        let mut bench = Bench::new(config);
        let region = bench.region(4_000 * MTU);
        bench.qp.post_send(send(1, slice(region, 0, 4_000 * MTU)), &bench.memory).unwrap();
        Self { bench, arrived: 0 }
    }

    /// With a window of 16 packets and round trips of 10 and of 50 us behind it, and another window on the wire.
    fn with_times() -> Self {
        let mut sender = Self::new(config(16));
        for micros in [SHORT, LONG] {
            sender.round_trip(micros);
        }
        sender.bench.transmit_all();
        sender
    }

    fn window(&self) -> u32 {
        self.bench.qp.window().get()
    }

    fn pass(&mut self, micros: u64) {
        self.bench.now = self.bench.now + Duration::from_micros(micros);
    }

    /// As many packets as may be on the wire leave, and are acknowledged so much later.
    fn round_trip(&mut self, micros: u64) {
        self.pass(1);
        let sent = self.bench.transmit_all().len() as u32;
        self.pass(micros);
        self.acknowledge(sent);
    }

    fn acknowledge(&mut self, packets: u32) {
        self.arrived += packets;
        self.bench.ack(self.psn(0).plus(0x00ff_ffff));
    }

    /// That many behind what is acknowledged.
    fn psn(&self, ahead: u32) -> Psn {
        ALICE_PSN.plus(self.arrived + ahead)
    }

    /// The peer asks for a packet so much later.
    fn lose(&mut self, ahead: u32, micros: u64) {
        self.pass(micros);
        self.bench.nak(self.psn(ahead), NakCode::SequenceError);
    }

    fn notify(&mut self) {
        self.bench.frame(Psn::new(0), Operation::CongestionNotification, &[]);
    }
}

#[test]
fn what_is_lost_while_the_round_trip_is_short_leaves_the_window() {
    let mut sender = Sender::with_times();
    sender.lose(3, SHORT);
    assert_eq!(sender.window(), 16);
}

#[test]
fn what_is_lost_while_the_round_trip_is_long_halves_it() {
    let mut sender = Sender::with_times();
    sender.lose(3, LONG);
    assert_eq!(sender.window(), 8);
    sender.lose(4, 0);
    sender.lose(15, 1);
    assert_eq!(sender.window(), 8, "once for all that was on the wire");
}

#[test]
fn the_upper_half_of_the_times_is_long() {
    for times in [[SHORT, LONG], [LONG, SHORT]] {
        for (took, window) in [(29, 16), (30, 8)] {
            let mut sender = Sender::new(config(16));
            times.into_iter().for_each(|micros| sender.round_trip(micros));
            sender.bench.transmit_all();
            sender.lose(3, took);
            assert_eq!(sender.window(), window, "{took} us");
        }
    }
}

#[test]
fn while_all_round_trips_take_as_long_nothing_is_long() {
    let mut sender = Sender::new(config(16));
    for _ in 0..3 {
        sender.round_trip(LONG);
    }
    sender.bench.transmit_all();
    sender.lose(3, LONG);
    assert_eq!(sender.window(), 16);
}

#[test]
fn before_anything_is_measured_a_loss_leaves_the_window() {
    let mut sender = Sender::new(config(16));
    sender.bench.transmit_all();
    sender.lose(3, LONG);
    assert_eq!(sender.window(), 16);
}

#[test]
fn a_loss_of_what_left_after_it_was_narrowed_narrows_it_again() {
    let mut sender = Sender::with_times();
    sender.lose(0, LONG);
    sender.acknowledge(16);
    assert_eq!(sender.window(), 9);
    sender.bench.transmit_all();
    sender.lose(0, LONG);
    assert_eq!(sender.window(), 4);
}

#[test]
fn no_congestion_narrows_it_below_two_packets_or_a_window_that_is_less() {
    for (most, least) in [(16, 2), (2, 2), (1, 1)] {
        let mut sender = Sender::new(config(most));
        for _ in 0..10 {
            sender.notify();
            sender.round_trip(SHORT);
        }
        sender.notify();
        assert_eq!(sender.window(), least, "of {most}");
    }
}

#[test]
fn a_window_of_acknowledged_packets_widens_it_by_one_until_it_is_what_it_was() {
    let mut sender = Sender::new(config(8));
    sender.bench.transmit_all();
    sender.notify();
    assert_eq!(sender.window(), 4);
    sender.acknowledge(3);
    assert_eq!(sender.window(), 4);
    sender.acknowledge(5);
    // Of the eight, four are left for the next one.
    assert_eq!(sender.window(), 5);
    sender.bench.transmit_all();
    sender.acknowledge(1);
    assert_eq!(sender.window(), 6);
    sender.acknowledge(4);
    let windows: Vec<u32> = (0..4)
        .map(|_| {
            sender.round_trip(SHORT);
            sender.window()
        })
        .collect();
    assert_eq!(windows, [7, 8, 8, 8]);
    // Nothing of that is left when it is narrowed again.
    sender.bench.transmit_all();
    sender.notify();
    sender.acknowledge(3);
    assert_eq!(sender.window(), 4);
}

#[test]
fn no_more_packets_are_on_the_wire_than_it_has() {
    let mut sender = Sender::with_times();
    sender.lose(0, LONG);
    assert_eq!(sender.bench.transmit_all(), [sender.psn(0)], "what was lost, and nothing new");
    sender.acknowledge(8);
    assert_eq!((sender.window(), sender.bench.transmit_all().len()), (9, 1));
    sender.acknowledge(2);
    assert_eq!((sender.window(), sender.bench.transmit_all().len()), (9, 2));
}

#[test]
fn a_notification_narrows_it_whatever_the_round_trip_and_once_in_one() {
    let mut sender = Sender::with_times();
    sender.notify();
    sender.notify();
    assert_eq!((sender.window(), &sender.bench.out.drops[..]), (8, &[][..]));
    // All that was on the wire has arrived, and nothing that has left since.
    sender.acknowledge(16);
    sender.notify();
    assert_eq!(sender.window(), 9);
    sender.round_trip(SHORT);
    sender.notify();
    assert_eq!(sender.window(), 5);
}

#[test]
fn a_queue_pair_with_a_rate_slows_down_both() {
    let line = BitRate::new(100_000_000_000).expect("a rate");
    let mut sender = Sender::new(QueuePairConfig { rate: Some(RateConfig::dcqcn(line)), ..config(16) });
    sender.notify();
    assert_eq!((sender.window(), sender.bench.qp.rate()), (8, BitRate::new(50_000_000_000)));
}

#[test]
fn without_it_losses_and_notifications_leave_the_window() {
    for other in [
        QueuePairConfig { congestion_window: false, ..config(16) },
        QueuePairConfig { reliability: Reliability::GoBackN, ..config(16) },
    ] {
        let mut sender = Sender::new(other);
        for micros in [SHORT, LONG] {
            sender.round_trip(micros);
        }
        sender.bench.transmit_all();
        sender.lose(3, LONG);
        sender.notify();
        assert_eq!(sender.window(), 16);
        assert_eq!(sender.bench.out.drops, [DropReason::NoRateControl]);
    }
}

#[test]
fn what_was_answered_after_a_question_is_not_measured() {
    let mut sender = Sender::with_times();
    sender.bench.fire(QueuePairTimer::Retry);
    sender.bench.transmit_all();
    sender.pass(10 * LONG);
    sender.acknowledge(16);
    sender.bench.transmit_all();
    // The longest is 50 us, not 500.
    sender.lose(3, LONG);
    assert_eq!(sender.window(), 8);
}

#[test]
fn a_loss_of_what_was_sent_twice_is_judged_by_what_is_known_of_others() {
    let mut sender = Sender::with_times();
    sender.lose(3, SHORT);
    sender.bench.transmit_all();
    sender.lose(3, LONG);
    assert_eq!(sender.window(), 16, "the last one was 10 us");
    sender.lose(4, 0);
    assert_eq!(sender.window(), 8, "and this one 60");
}

#[test]
fn what_a_question_brings_to_light_is_judged_by_what_was_measured_before() {
    for (newest, window) in [(SHORT, 16), (LONG, 8)] {
        let mut sender = Sender::new(config(16));
        for micros in [SHORT, LONG, newest] {
            sender.round_trip(micros);
        }
        sender.bench.transmit_all();
        sender.bench.fire(QueuePairTimer::Retry);
        sender.bench.transmit_all();
        sender.lose(3, LONG - newest);
        assert_eq!(sender.window(), window, "{newest} us");
    }
}

#[test]
fn what_leaves_again_as_the_peer_was_not_ready_is_judged_by_what_was_measured_before() {
    let mut sender = Sender::new(config(16));
    for micros in [LONG, SHORT] {
        sender.round_trip(micros);
    }
    sender.bench.transmit_all();
    sender.bench.answer(sender.psn(0), Syndrome::ReceiverNotReady(1));
    sender.bench.fire(QueuePairTimer::ReceiverNotReady);
    sender.bench.transmit_all();
    sender.lose(3, LONG);
    assert_eq!(sender.window(), 16);
}

#[test]
fn a_time_that_was_long_once_is_forgotten_and_not_at_once() {
    for (others, window) in [(10, 4), (400, 2)] {
        let mut sender = Sender::new(config(4));
        sender.round_trip(SHORT);
        sender.round_trip(1_000);
        for _ in 0..others {
            sender.round_trip(LONG);
        }
        sender.bench.transmit_all();
        sender.lose(0, LONG);
        assert_eq!(sender.window(), window, "{others} later");
    }
}

#[test]
fn the_packets_that_a_narrowed_window_has_room_for_ask_for_an_acknowledge_twice() {
    let mut sender = Sender::with_times();
    sender.lose(0, LONG);
    sender.acknowledge(16);
    let before = sender.bench.out.frames.len();
    sender.bench.transmit_all();
    let asks = sender.bench.out.frames[before..].iter().map(|(header, _)| header.acknowledge_request);
    // Each fourth of the message, and the one that fills the window.
    let asks: Vec<bool> = asks.collect();
    assert_eq!(asks, [false, false, false, true, false, false, false, true, true]);
}

#[test]
fn where_nothing_on_the_wire_asks_one_packet_beyond_a_narrowed_window_does() {
    let mut sender = Sender::new(config(16));
    for _ in 0..10 {
        sender.bench.qp.transmit(sender.bench.now, &sender.bench.memory, &mut sender.bench.out);
    }
    sender.notify();
    assert_eq!((sender.window(), sender.bench.transmit_all().len()), (8, 1));
    assert!(sender.bench.out.frames.last().is_some_and(|(header, _)| header.acknowledge_request));
}

#[test]
fn a_question_is_about_what_a_narrowed_window_has_let_out_again() {
    let mut sender = Sender::with_times();
    sender.notify();
    sender.bench.answer(sender.psn(0), Syndrome::ReceiverNotReady(1));
    sender.bench.fire(QueuePairTimer::ReceiverNotReady);
    assert_eq!(sender.bench.transmit_all().len(), 8, "of 16 that had left");
    sender.bench.fire(QueuePairTimer::Retry);
    let asked = sender.psn(7);
    assert_eq!(sender.bench.transmit_all(), [asked]);
}
