//! Nodes of one process: what becomes of each frame, and when timers fire, is as the list says.

use crate::support::{Command, Config, Event, Retry, ToyCodec, Transfer};
use quincunx_driver_net::{Interposed, LinkEnd, end_address};
use quincunx_engine::PortId;
use quincunx_network::{Delay, Fate, FaultList, Firing, LinkDirection};
use quincunx_units::{Duration, Instant};

const PORT: PortId = PortId(0);
const A: LinkEnd = (0, PORT);
const B: LinkEnd = (1, PORT);
const LATENCY: Duration = Duration::from_micros(10);

type Faults = FaultList<usize, Retry>;

fn micros(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// Two nodes on a link, the first of which sends so many frames at once.
fn sending(frames: u32, faults: Faults) -> Interposed<Transfer, ToyCodec> {
    let config = Config { ports: 1, window: 100, ack_every: 1, retry: Duration::from_secs(1) };
    let node = |peer| {
        let engine = <Transfer as quincunx_engine::Engine>::new(config).expect("a valid set-up");
        (engine, 1, ToyCodec { peers: vec![end_address(peer)], tos: 0 })
    };
    let mut network = Interposed::new([node(B), node(A)], &[[A, B]], LATENCY, faults).expect("descriptors");
    network.command(0, Command::Send { port: PORT, count: frames, length: 7 }).expect("a port");
    network
}

/// What is told by then, and by whom.
fn told(network: &mut Interposed<Transfer, ToyCodec>, time: Instant) -> Vec<(usize, Event)> {
    network.run(time).expect("nothing fails");
    std::iter::from_fn(|| network.next_event()).collect()
}

fn received(frames: u32) -> (usize, Event) {
    (1, Event::Received { port: PORT, frames, bytes: 7 * u64::from(frames) })
}

const SENT: (usize, Event) = (0, Event::Sent(PORT));

fn fates(fates: &[(u64, Fate)]) -> Faults {
    let mut list = Faults::default();
    for &(frame, fate) in fates {
        list.set_fate(LinkDirection::From(0, PORT), frame, fate);
    }
    list
}

#[test]
fn frames_travel_as_bytes_and_take_as_long_as_the_link() {
    let mut network = sending(3, Faults::default());
    let bytes: Vec<usize> = network.take_sent().iter().map(|frame| frame.bytes.len()).collect();
    assert_eq!(bytes, [12, 12, 12]);
    assert_eq!(told(&mut network, micros(9)), []);
    assert_eq!(told(&mut network, micros(10)), [received(3)]);
    assert_eq!(network.take_sent().first().map(|frame| frame.from), Some(B));
    assert_eq!(told(&mut network, micros(20)), [SENT]);
    assert_eq!((network.unreadable(0), network.unreadable(1)), (0, 0));
}

#[test]
fn a_listed_frame_is_lost_and_a_listed_timer_sends_it_again() {
    let mut faults = Faults::default();
    faults.set_fate(LinkDirection::Between(0, 1), 2, Fate::Lost);
    faults.firings.push(Firing { at: micros(500), node: 0, timer: Retry(0) });
    let mut network = sending(3, faults);
    assert_eq!(told(&mut network, micros(509)), []);
    assert_eq!(told(&mut network, micros(510)), [received(3)]);
    assert_eq!(network.engine(0).retries, 1);
}

#[test]
fn a_timer_that_is_not_listed_does_not_fire() {
    let mut network = sending(1, fates(&[(0, Fate::Lost)]));
    assert_eq!(told(&mut network, Instant::ZERO + Duration::from_secs(100)), []);
    assert_eq!(network.engine(0).retries, 0);
}

#[test]
fn a_late_frame_arrives_when_the_list_says() {
    let arrival = |fate| {
        let mut network = sending(2, fates(&[(1, fate)]));
        let mut times = (0..1000).map(micros);
        times.find(|&time| !told(&mut network, time).is_empty()).expect("it arrives")
    };
    assert_eq!(arrival(Fate::Late(Delay::Until(micros(77)))), micros(77));
    assert_eq!(arrival(Fate::Late(Delay::HeldBack(Duration::from_micros(5)))), micros(15));
    // Nothing overtakes the last frame: it waits for the longest that a frame is held.
    assert_eq!(arrival(Fate::Late(Delay::OvertakenBy(1))), micros(310));
}

#[test]
fn a_frame_is_overtaken_by_as_many_as_the_list_says() {
    let mut network = sending(4, fates(&[(0, Fate::Late(Delay::OvertakenBy(2)))]));
    network.run(micros(10)).expect("nothing fails");
    // Frames 1 and 2 find that 0 is missing, 0 comes behind them, and 3 finds that 1 is.
    let acknowledged: Vec<u8> = network.take_sent().iter().skip(4).map(|frame| frame.bytes[4]).collect();
    assert_eq!(acknowledged, [0, 0, 1, 1]);
}

#[test]
fn a_doubled_frame_arrives_twice() {
    let copy = Some(Delay::Until(micros(90)));
    let mut network = sending(1, fates(&[(0, Fate::Doubled { first: None, copy })]));
    assert_eq!(told(&mut network, micros(50)), [received(1), SENT]);
    network.take_sent();
    network.run(micros(90)).expect("nothing fails");
    assert_eq!(network.take_sent().len(), 1, "the copy is answered, too");
}
