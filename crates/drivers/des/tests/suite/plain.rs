//! Links without limits, faults, pauses or an observer go a shorter way, and so does a node of whose ports one alone is offered slots. Here
//! the same frames go both ways, and everything must come out the same.

use crate::common::{self, Header, Order, Toy, ToyEvent};
use common::slow_link;
use proptest::prelude::*;
use quincunx_driver_des::{
    Direction, DirectionStatistics, Emitted, Limits, LinkConfig, Medium, QueueConfig, Simulation, Stopped,
};
use quincunx_engine::PortId;
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// Frames of as many bytes as their payload, so that there are some that take no time.
#[derive(Clone, Copy, Debug)]
struct Bare {
    cut_through: bool,
    third_is_urgent: bool,
}

impl Medium<Toy> for Bare {
    fn wire_length(&self, _: &Header, payload: usize) -> ByteCount {
        ByteCount::new(payload as u64)
    }

    fn needed_length(&self, _: Direction, _: &Header, whole: ByteCount) -> ByteCount {
        if self.cut_through { whole.min(ByteCount::new(10)) } else { whole }
    }

    fn is_urgent(&self, header: &Header) -> bool {
        self.third_is_urgent && header.number % 3 == 2
    }
}

/// Who is asked to send, and when: after so many nanoseconds, at which end and port, so many frames of so many bytes.
type Orders = Vec<(u64, usize, u16, u64, usize)>;

/// What is told, what each direction has carried, and the steps that it took.
type PlainRun = (Vec<Emitted<ToyEvent>>, Vec<DirectionStatistics>, u64);

/// Two ends, each with one port on a link of its own and one behind a relay whose second link is `slower`; or both ports on one link.
fn run(medium: Bare, shared: bool, slower: u64, plain: bool, orders: &Orders) -> PlainRun {
    let mut simulation = Simulation::new(medium, 0);
    let end = || Toy::End { left: vec![0; 3], next: 0, length: 0, says_so: true };
    let ends = [(); 2].map(|()| simulation.add_node(end()));
    let (one, other) = ([PortId(0)], [PortId(1)]);
    if shared {
        let both = [PortId(0), PortId(1)];
        simulation.connect((ends[0], &both), (ends[1], &both), slow_link());
    } else {
        let relay = simulation.add_node(Toy::Relay);
        let rate = BitRate::new(slow_link().rate.bits_per_second() / slower).expect("not zero");
        simulation.connect((ends[0], &one), (ends[1], &one), slow_link());
        simulation.connect((ends[0], &other), (relay, &one), slow_link());
        simulation.connect((relay, &other), (ends[1], &other), LinkConfig { rate, ..slow_link() });
    }
    let directions: Vec<Direction> = simulation.statistics().map(|(direction, _)| direction).collect();
    if !plain {
        let queue = QueueConfig { limit: Some(ByteCount::new(1 << 40)), mark_above: None };
        directions.iter().for_each(|&direction| simulation.set_queue(direction, queue));
        // An idle link besides, so that there is always another port to ask.
        let idle = [PortId(2)];
        simulation.connect((ends[0], &idle), (ends[1], &idle), slow_link());
    }
    let (mut told, mut at) = (Vec::new(), Instant::ZERO);
    for &(after, end, port, frames, length) in orders {
        at = at + Duration::from_nanos(after);
        while let Stopped::Event(emitted) = simulation.run(Limits::until(at)) {
            told.push(emitted);
        }
        simulation.pass(at);
        let Ok(()) = simulation.command(ends[end], Order::Send { port: PortId(port), frames, length });
    }
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        told.push(emitted);
    }
    let carried = directions.into_iter().map(|direction| simulation.direction(direction)).collect();
    (told, carried, simulation.steps())
}

proptest! {
    #[test]
    fn the_shorter_way_gives_what_the_longer_one_does(
        // Gaps so long that queues run empty, and so short that they grow; frames of no byte and of several.
        orders in proptest::collection::vec(
            (0_u64..300, 0_usize..2, 0_u16..2, 0_u64..6, prop_oneof![Just(0), 0_usize..40]),
            1..30,
        ),
        cut_through in any::<bool>(),
        third_is_urgent in any::<bool>(),
        shared in any::<bool>(),
        slower in 1_u64..5,
    ) {
        let medium = Bare { cut_through, third_is_urgent };
        let [shorter, longer] = [true, false].map(|plain| run(medium, shared, slower, plain, &orders));
        let sent: u64 = orders.iter().map(|order| order.3).sum();
        prop_assert_eq!(shorter.0.len() as u64, sent, "every frame arrives");
        prop_assert_eq!(shorter, longer);
    }
}

/// The second link is the faster one, and idle when the first is free again: only who has just sent by that knows that it may be used.
#[test]
fn a_frame_that_leaves_by_one_port_may_let_another_send() {
    let mut simulation = Simulation::new(Bare { cut_through: false, third_is_urgent: false }, 0);
    let sender = simulation.add_node(Toy::Alternating { left: 0, next: 0, length: 0 });
    let receiver = simulation.add_node(Toy::end());
    for (port, faster) in [(PortId(0), 1), (PortId(1), 2)] {
        let rate = BitRate::new(slow_link().rate.bits_per_second() * faster).expect("not zero");
        simulation.connect((sender, &[port]), (receiver, &[port]), LinkConfig { rate, ..slow_link() });
    }
    let Ok(()) = simulation.command(sender, Order::Send { port: PortId(0), frames: 6, length: 20 });
    let mut arrived = Vec::new();
    while let Stopped::Event(Emitted { at, event: ToyEvent::Arrived { port, number, .. }, .. }) =
        simulation.run(Limits::NONE)
    {
        arrived.push((at.as_picos() / 1000, port.0, number));
    }
    assert_eq!(arrived, [(110, 1, 1), (120, 0, 0), (130, 1, 3), (140, 0, 2), (150, 1, 5), (160, 0, 4)]);
}

/// On one link with one port the times are known: a frame leaves when it may and the port is free.
#[test]
fn a_port_that_was_idle_sends_at_once_and_one_that_was_not_when_it_is_free() {
    let medium = Bare { cut_through: false, third_is_urgent: false };
    let orders = vec![(0, 0, 0, 2, 30), (500, 0, 0, 1, 20), (10, 0, 0, 2, 5), (500, 0, 0, 2, 0)];
    let (told, ..) = run(medium, false, 1, true, &orders);
    let times: Vec<u64> = told.iter().map(|emitted| emitted.at.as_picos() / 1000).collect();
    assert_eq!(times, [130, 160, 620, 625, 630, 1110, 1110]);
}
