//! What the driver does with frames, slots and timers, to the picosecond.

use crate::common;
use crate::common::{Order, Toy, ToyEvent, Wire, nanos, slow_link, store_and_forward};
use quincunx_driver_des::{
    Departure, Emitted, Limits, LinkIndex, Medium, NodeIndex, Observer, QueueConfig, Simulation, Stopped,
};
use quincunx_engine::{Frame, PortId};
use quincunx_network::{Fate, FaultPlan, FaultRates, Hold};
use quincunx_units::{BitRate, ByteCount, Duration, Instant, Probability};
use std::hash::{DefaultHasher, Hash, Hasher};

const PORT: PortId = PortId(0);

fn send(frames: u64, length: usize) -> Order {
    Order::Send { port: PORT, frames, length }
}

/// Everything that is told until nothing is due.
fn finish<M: Medium<Toy>, O: Observer<Toy>>(
    simulation: &mut Simulation<Toy, M, O>,
) -> Vec<Emitted<ToyEvent>> {
    let next = || match simulation.run(Limits::NONE) {
        Stopped::Event(emitted) => Some(emitted),
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

fn times(emitted: &[Emitted<ToyEvent>]) -> Vec<Instant> {
    emitted.iter().map(|emitted| emitted.at).collect()
}

fn numbers(emitted: &[Emitted<ToyEvent>]) -> Vec<u64> {
    let number = |emitted: &Emitted<ToyEvent>| match emitted.event {
        ToyEvent::Arrived { number, .. } => Some(number),
        ToyEvent::Fired(_) => None,
    };
    emitted.iter().filter_map(number).collect()
}

/// Two ends on one link.
fn pair(seed: u64) -> (Simulation<Toy, Wire>, [NodeIndex; 2]) {
    let mut simulation = store_and_forward(seed);
    let nodes = [simulation.add_node(Toy::end()), simulation.add_node(Toy::end())];
    simulation.connect((nodes[0], &[PORT]), (nodes[1], &[PORT]), slow_link());
    (simulation, nodes)
}

/// Two ends with a relay between them.
fn line(medium: Wire) -> (Simulation<Toy, Wire>, [NodeIndex; 2]) {
    let mut simulation = Simulation::new(medium, 1);
    let a = simulation.add_node(Toy::end());
    let relay = simulation.add_node(Toy::Relay);
    let b = simulation.add_node(Toy::end());
    simulation.connect((a, &[PORT]), (relay, &[PortId(0)]), slow_link());
    simulation.connect((relay, &[PortId(1)]), (b, &[PORT]), slow_link());
    (simulation, [a, b])
}

#[test]
fn a_frame_arrives_when_its_last_bit_does() {
    let (mut simulation, [a, _]) = pair(1);
    simulation.command(a, send(1, 40)).unwrap();
    assert_eq!(times(&finish(&mut simulation)), [nanos(50 + 100)]);
}

#[test]
fn frames_leave_one_after_the_other() {
    let (mut simulation, [a, _]) = pair(1);
    simulation.command(a, send(3, 40)).unwrap();
    assert_eq!(times(&finish(&mut simulation)), [nanos(150), nanos(200), nanos(250)]);
}

#[test]
fn the_two_directions_of_a_link_do_not_share_its_rate() {
    let (mut simulation, [a, b]) = pair(1);
    simulation.command(a, send(2, 40)).unwrap();
    simulation.command(b, send(2, 40)).unwrap();
    assert_eq!(times(&finish(&mut simulation)), [nanos(150), nanos(150), nanos(200), nanos(200)]);
}

#[test]
fn a_store_and_forward_node_is_handed_the_whole_frame() {
    let (mut simulation, [a, _]) = line(Wire::default());
    simulation.command(a, send(1, 40)).unwrap();
    assert_eq!(times(&finish(&mut simulation)), [nanos(2 * 150)]);
}

#[test]
fn a_cut_through_node_is_handed_a_frame_when_the_header_is_there() {
    let (mut simulation, [a, _]) = line(Wire { cut_through: true, ..Wire::default() });
    simulation.command(a, send(2, 40)).unwrap();
    // Header at the relay at 110; from there another header's time and latency; the second frame 50 later.
    assert_eq!(times(&finish(&mut simulation)), [nanos(220), nanos(270)]);
}

#[test]
fn a_queued_frame_costs_one_step_and_a_slot_that_waits_another() {
    let (mut simulation, [a, _]) = line(Wire::default());
    simulation.command(a, send(3, 40)).unwrap();
    finish(&mut simulation);
    // Three arrivals at the relay, three behind it; the sender waits for its port twice.
    assert_eq!(simulation.steps(), 3 + 3 + 2);
}

#[test]
fn ports_that_share_a_link_take_turns() {
    let mut simulation = store_and_forward(1);
    let ports = [PortId(0), PortId(1)];
    let (a, b) = (simulation.add_node(Toy::end()), simulation.add_node(Toy::end()));
    simulation.connect((a, &ports), (b, &[PortId(1), PortId(0)]), slow_link());
    simulation.command(a, Order::Send { port: PortId(0), frames: 3, length: 40 }).unwrap();
    simulation.command(a, Order::Send { port: PortId(1), frames: 2, length: 40 }).unwrap();
    let ports: Vec<u16> = finish(&mut simulation)
        .iter()
        .map(|emitted| match emitted.event {
            ToyEvent::Arrived { port, .. } => port.0,
            ToyEvent::Fired(_) => panic!("no timer was armed"),
        })
        .collect();
    assert_eq!(ports, [1, 0, 1, 0, 1]);
}

#[test]
fn a_timer_fires_once_at_its_last_deadline() {
    let (mut simulation, [a, _]) = pair(1);
    for nanos in [50, 90, 70] {
        let after = Some(Duration::from_nanos(nanos));
        simulation.command(a, Order::Timer { name: 'x', after }).unwrap();
    }
    let told = finish(&mut simulation);
    assert_eq!(told, [Emitted { at: nanos(70), node: a, event: ToyEvent::Fired('x') }]);
}

#[test]
fn a_cancelled_timer_never_fires() {
    let (mut simulation, [a, _]) = pair(1);
    for after in [Some(Duration::from_nanos(50)), None] {
        simulation.command(a, Order::Timer { name: 'x', after }).unwrap();
    }
    assert_eq!(finish(&mut simulation), []);
}

#[test]
fn nodes_have_timers_of_the_same_name_apart() {
    let (mut simulation, nodes) = pair(1);
    for (node, nanos) in nodes.into_iter().zip([50, 40]) {
        let after = Some(Duration::from_nanos(nanos));
        simulation.command(node, Order::Timer { name: 'x', after }).unwrap();
    }
    let fired: Vec<NodeIndex> = finish(&mut simulation).iter().map(|emitted| emitted.node).collect();
    assert_eq!(fired, [nodes[1], nodes[0]]);
}

#[test]
fn a_run_stops_at_its_limits_and_goes_on_from_there() {
    let (mut simulation, [a, _]) = pair(1);
    simulation.command(a, send(2, 40)).unwrap();
    assert_eq!(simulation.run(Limits::until(nanos(149))), Stopped::TimeLimit);
    assert_eq!(simulation.now(), nanos(149));
    let steps = simulation.steps();
    assert_eq!(simulation.run(Limits { steps, ..Limits::NONE }), Stopped::StepLimit);
    assert_eq!(numbers(&finish(&mut simulation)), [0, 1]);
    assert_eq!(simulation.run(Limits::NONE), Stopped::Idle);
}

#[test]
fn a_full_queue_refuses_frames_and_counts_them() {
    let (mut simulation, [a, _]) = line(Wire::default());
    // The link behind the relay is half as fast: frames pile up before it.
    let (_, last) = simulation.statistics().nth(2).map(|(direction, _)| ((), direction)).unwrap();
    simulation.set_background(last, BitRate::new(4_000_000_000));
    simulation.set_queue(last, QueueConfig { limit: Some(ByteCount::new(100)), mark_above: None });
    simulation.command(a, send(10, 40)).unwrap();
    let arrived = finish(&mut simulation).len() as u64;
    let statistics = simulation.direction(last);
    assert!(statistics.refused > 0);
    assert_eq!(arrived + statistics.refused, 10);
    assert_eq!(statistics.peak_queue, ByteCount::new(100));
}

#[test]
fn a_frame_that_finds_a_long_queue_is_marked() {
    let (mut simulation, [a, _]) = line(Wire::default());
    let last = simulation.statistics().nth(2).unwrap().0;
    simulation.set_background(last, BitRate::new(4_000_000_000));
    simulation.set_queue(last, QueueConfig { limit: None, mark_above: Some(ByteCount::new(60)) });
    simulation.command(a, send(6, 40)).unwrap();
    let marked: Vec<bool> = finish(&mut simulation)
        .iter()
        .map(|emitted| matches!(emitted.event, ToyEvent::Arrived { marked: true, .. }))
        .collect();
    // Each frame finds 25 bytes more than the one before it.
    assert_eq!(marked, [false, false, false, true, true, true]);
    assert_eq!(simulation.direction(last).marked, 3);
}

/// A relay whose second link is half as fast as its first, and ten frames through it.
fn ten_through_a_bottleneck(faults: Option<FaultPlan>) -> Vec<Emitted<ToyEvent>> {
    let (mut simulation, [a, _]) = line(Wire { tenth_is_urgent: true, ..Wire::default() });
    let last = simulation.statistics().nth(2).unwrap().0;
    simulation.set_background(last, BitRate::new(4_000_000_000));
    if let Some(faults) = faults {
        simulation.set_faults(last, faults);
    }
    simulation.command(a, send(10, 40)).unwrap();
    finish(&mut simulation)
}

#[test]
fn an_urgent_frame_goes_before_all_that_wait_and_puts_them_off() {
    let told = ten_through_a_bottleneck(None);
    // The last frame meets the fifth on the wire and four that wait; a frame takes 100 there.
    assert_eq!(numbers(&told), [0, 1, 2, 3, 4, 9, 5, 6, 7, 8]);
    let expected: Vec<Instant> = (0..10).map(|index| nanos(150 + 200 + 100 * index)).collect();
    assert_eq!(times(&told), expected);
}

/// How many frames go through the bottleneck below: the queue grows, and twenty are urgent.
const CROWD: u64 = 200;

/// When a frame of the crowd begins to leave its sender: every thirteenth, from the sixth on, is late, so that queues grow and shrink.
fn leaves(number: u64, whole: u64) -> u64 {
    let late = |burst: u64| if burst == 0 { 0 } else { 50 + burst * 170 % 900 };
    number * whole + (0..=(number + 8) / 13).map(late).sum::<u64>()
}

/// A crowd of frames through a relay whose second link takes `slower` times as long as its first; what is told, after
/// `midway` has had its way with the simulation at half the time.
fn crowd_through_a_bottleneck(
    cut_through: bool,
    slower: u64,
    length: usize,
    midway: impl FnOnce(&mut Simulation<Toy, Wire>),
) -> Vec<Emitted<ToyEvent>> {
    let (mut simulation, [a, _]) = line(Wire { tenth_is_urgent: true, cut_through });
    let last = simulation.statistics().nth(2).unwrap().0;
    simulation.set_background(last, BitRate::new(8_000_000_000 / slower * (slower - 1)));
    let whole = length as u64 + common::HEADER;
    let mut told = Vec::new();
    let mut midway = Some(midway);
    for first in std::iter::once(0).chain((5..CROWD).step_by(13)) {
        let time = nanos(leaves(first, whole));
        while let Stopped::Event(emitted) = simulation.run(Limits { time, ..Limits::NONE }) {
            told.push(emitted);
        }
        if first > CROWD / 2 {
            midway.take().into_iter().for_each(|midway| midway(&mut simulation));
        }
        let frames = if first == 0 { 5 } else { 13.min(CROWD - first) };
        simulation.command(a, send(frames, length)).unwrap();
    }
    told.extend(finish(&mut simulation));
    told
}

/// The same by hand: a line that takes, whenever it is free, the first urgent frame that waits, or else the first.
fn served_by_priority(cut_through: bool, slower: u64, length: usize) -> Vec<(u64, Instant)> {
    let whole = length as u64 + common::HEADER;
    let needed = if cut_through { common::HEADER } else { whole };
    let queued = |number: u64| leaves(number, whole) + needed + 100;
    let (mut left, mut free_at, mut served) = ((0..CROWD).collect::<Vec<_>>(), 0, Vec::new());
    while let Some(&first) = left.first() {
        let start = free_at.max(queued(first));
        let is_next = |&number: &u64| number % 10 == 9 && (queued(number) < start || number == first);
        let place = left.iter().position(is_next).unwrap_or(0);
        served.push((left.remove(place), nanos(start + slower * needed + 100)));
        free_at = start + slower * whole;
    }
    served
}

#[test]
fn urgent_frames_of_a_long_queue_are_served_first_and_put_off_the_others() {
    for (cut_through, slower, length) in
        [(false, 2, 40), (false, 4, 40), (false, 20, 0), (true, 2, 40), (true, 16, 90), (true, 20, 90)]
    {
        let told = crowd_through_a_bottleneck(cut_through, slower, length, |_| ());
        let found: Vec<_> = numbers(&told).into_iter().zip(times(&told)).collect();
        assert_eq!(found, served_by_priority(cut_through, slower, length), "{cut_through} {slower} {length}");
    }
}

#[test]
fn faults_that_begin_where_frames_were_put_off_leave_them_so() {
    let expected = crowd_through_a_bottleneck(false, 4, 40, |_| ());
    let found = crowd_through_a_bottleneck(false, 4, 40, |simulation| {
        let last = simulation.statistics().nth(2).unwrap().0;
        simulation.set_faults(last, FaultPlan::listed([]));
    });
    assert_eq!((numbers(&found), times(&found)), (numbers(&expected), times(&expected)));
}

#[test]
fn an_urgent_frame_loses_none_of_those_that_were_held_back() {
    let faults = FaultRates {
        reordering: Probability::new(0.5).unwrap(),
        longest_hold: Hold::Time(Duration::from_nanos(700)),
        ..FaultRates::default()
    };
    let told = ten_through_a_bottleneck(Some(faults.into()));
    let mut order = numbers(&told);
    order.sort_unstable();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    assert!(times(&told).is_sorted());
}

#[test]
fn background_traffic_takes_its_share_of_the_rate() {
    let (mut simulation, [a, _]) = pair(1);
    let direction = simulation.statistics().next().unwrap().0;
    simulation.set_background(direction, BitRate::new(6_000_000_000));
    simulation.command(a, send(1, 40)).unwrap();
    assert_eq!(times(&finish(&mut simulation)), [nanos(4 * 50 + 100)]);
}

#[test]
fn a_lost_frame_takes_its_time_on_the_wire() {
    let (mut simulation, [a, _]) = pair(1);
    let direction = simulation.statistics().next().unwrap().0;
    simulation.set_faults(direction, FaultPlan::listed([0, 2].map(|frame| (frame, Fate::Lost))));
    simulation.command(a, send(4, 40)).unwrap();
    let told = finish(&mut simulation);
    assert_eq!(numbers(&told), [1, 3]);
    assert_eq!(times(&told), [nanos(200), nanos(300)]);
    let statistics = simulation.direction(direction);
    assert_eq!((statistics.frames, statistics.lost), (4, 2));
    assert_eq!(statistics.busy, Duration::from_nanos(200));
}

#[test]
fn a_duplicated_frame_arrives_twice() {
    let (mut simulation, [a, _]) = pair(1);
    let direction = simulation.statistics().next().unwrap().0;
    let duplication = Probability::new(1.0).unwrap();
    simulation.set_faults(direction, FaultRates { duplication, ..FaultRates::default() }.into());
    simulation.command(a, send(2, 40)).unwrap();
    assert_eq!(numbers(&finish(&mut simulation)), [0, 0, 1, 1]);
}

#[test]
fn a_frame_that_is_held_back_is_overtaken_and_none_is_lost() {
    let (mut simulation, [a, _]) = pair(5);
    let direction = simulation.statistics().next().unwrap().0;
    let faults = FaultRates {
        reordering: Probability::new(0.3).unwrap(),
        longest_hold: Hold::Time(Duration::from_nanos(500)),
        ..FaultRates::default()
    };
    simulation.set_faults(direction, faults.into());
    simulation.command(a, send(100, 40)).unwrap();
    let told = finish(&mut simulation);
    let mut order = numbers(&told);
    assert!(!order.is_sorted());
    order.sort_unstable();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
    assert!(times(&told).is_sorted());
}

#[test]
#[should_panic(expected = "expected a link at PortId(1) of node 1, found none")]
fn a_frame_for_a_port_without_a_link_is_an_error_of_the_owner() {
    let mut simulation = store_and_forward(1);
    let (a, relay) = (simulation.add_node(Toy::end()), simulation.add_node(Toy::Relay));
    simulation.connect((a, &[PORT]), (relay, &[PORT]), slow_link());
    simulation.command(a, send(1, 40)).unwrap();
    finish(&mut simulation);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "PortId(0) of node 0 wants a slot, and its node says that no port does")]
fn a_node_that_denies_that_its_port_wants_a_slot_breaks_its_contract() {
    let mut simulation = store_and_forward(1);
    let (a, b) = (simulation.add_node(Toy::contradictory_end()), simulation.add_node(Toy::end()));
    let ports = [PortId(0), PortId(1)];
    for port in ports {
        simulation.connect((a, &[port]), (b, &[port]), slow_link());
    }
    simulation.command(a, send(1, 40)).unwrap();
}

/// Hashes everything that can be seen.
#[derive(Default)]
struct Trace(DefaultHasher);

impl Observer<Toy> for Trace {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, common::Header, common::Payload>) {
        (departure, frame.header, frame.payload).hash(&mut self.0);
    }

    fn arrived(
        &mut self,
        at: Instant,
        node: NodeIndex,
        port: PortId,
        frame: Frame<'_, common::Header, common::Payload>,
    ) {
        (at, node, port, frame.header).hash(&mut self.0);
    }
}

/// The trace of a run with every fault there is.
fn trace_of(seed: u64) -> u64 {
    let mut simulation = Simulation::with_observer(Wire::default(), seed, Trace::default());
    let nodes = [simulation.add_node(Toy::end()), simulation.add_node(Toy::end())];
    let link = simulation.connect((nodes[0], &[PORT]), (nodes[1], &[PORT]), slow_link());
    let tenth = Probability::new(0.1).unwrap();
    for direction in [link.forward(), link.backward()] {
        let faults = FaultRates {
            loss: tenth,
            duplication: tenth,
            reordering: tenth,
            longest_hold: Hold::Time(Duration::from_nanos(300)),
        };
        simulation.set_faults(direction, faults.into());
    }
    for node in nodes {
        simulation.command(node, send(300, 40)).unwrap();
    }
    finish(&mut simulation);
    simulation.into_observer().0.finish()
}

#[test]
fn a_seed_replays_a_run_to_the_bit() {
    assert_eq!(trace_of(7), trace_of(7));
    assert_ne!(trace_of(7), trace_of(8));
}

#[test]
fn an_observer_sees_what_becomes_of_a_frame() {
    #[derive(Default)]
    struct Fates(Vec<Option<Fate>>);
    impl Observer<Toy> for Fates {
        fn departed(&mut self, departure: &Departure, _: Frame<'_, common::Header, common::Payload>) {
            self.0.push(departure.fate);
        }
    }
    let mut simulation = Simulation::with_observer(Wire::default(), 1, Fates::default());
    let nodes = [simulation.add_node(Toy::end()), simulation.add_node(Toy::end())];
    let link = simulation.connect((nodes[0], &[PORT]), (nodes[1], &[PORT]), slow_link());
    simulation.set_faults(link.forward(), FaultPlan::listed([(1, Fate::Lost)]));
    simulation.command(nodes[0], send(2, 40)).unwrap();
    finish(&mut simulation);
    assert_eq!(simulation.observer().0, [Some(Fate::Delivered), Some(Fate::Lost)]);
}

#[test]
fn an_observer_that_does_not_see_departures_is_told_of_arrivals_alone() {
    #[derive(Default)]
    struct Arrivals(u32);
    impl Observer<Toy> for Arrivals {
        fn sees_departures(&self) -> bool {
            false
        }

        fn departed(&mut self, _: &Departure, _: Frame<'_, common::Header, common::Payload>) {
            panic!("it does not see departures");
        }

        fn arrived(
            &mut self,
            _: Instant,
            _: NodeIndex,
            _: PortId,
            _: Frame<'_, common::Header, common::Payload>,
        ) {
            self.0 += 1;
        }
    }
    let mut simulation = Simulation::with_observer(Wire::default(), 1, Arrivals::default());
    let nodes = [simulation.add_node(Toy::end()), simulation.add_node(Toy::end())];
    let link = simulation.connect((nodes[0], &[PORT]), (nodes[1], &[PORT]), slow_link());
    let limit = Some(ByteCount::new(50));
    simulation.set_queue(link.forward(), QueueConfig { limit, mark_above: None });
    simulation.command(nodes[0], send(2, 40)).unwrap();
    for _ in 0..2 {
        let header = common::Header { number: 9, marked: false };
        let frame = Frame { header: &header, payload: common::Payload::new(40) };
        simulation.send(nodes[0], PORT, frame);
    }
    finish(&mut simulation);
    assert_eq!((simulation.observer().0, simulation.direction(link.forward()).refused), (2, 2));
}

#[test]
fn frames_of_others_share_the_link_and_not_the_node() {
    let (mut simulation, [a, _]) = pair(1);
    let header = common::Header { number: 77, marked: false };
    let frame = || Frame { header: &header, payload: common::Payload::new(40) };
    simulation.send(a, PORT, frame());
    simulation.command(a, send(1, 40)).unwrap();
    simulation.send(a, PORT, frame());
    let emitted = finish(&mut simulation);
    // The node's own frame waits for a slot, when both of the others are queued.
    assert_eq!(numbers(&emitted), [77, 77, 0]);
    assert_eq!(times(&emitted), [nanos(150), nanos(200), nanos(250)]);
}

#[test]
fn time_can_pass_in_which_nothing_is_due() {
    let (mut simulation, [a, _]) = pair(1);
    simulation.pass(nanos(1000));
    simulation.command(a, send(1, 40)).unwrap();
    assert_eq!(times(&finish(&mut simulation)), [nanos(1150)]);
}

#[test]
#[should_panic(expected = "what is due before is done first")]
fn time_does_not_pass_what_is_due() {
    let (mut simulation, [a, _]) = pair(1);
    simulation.command(a, send(1, 40)).unwrap();
    simulation.pass(nanos(1000));
}

#[test]
fn a_link_has_been_busy_until_now_and_not_with_what_waits() {
    let (mut simulation, [a, _]) = line(Wire::default());
    let direction = LinkIndex(1).forward();
    simulation.command(a, send(2, 40)).unwrap();
    // The relay has sent on the first frame for 10 of the 50 that it takes.
    simulation.run(Limits::until(nanos(160)));
    assert_eq!(simulation.direction(direction).busy, Duration::from_nanos(10));
    simulation.reset_statistics();
    simulation.run(Limits::until(nanos(180)));
    let statistics = simulation.direction(direction);
    assert_eq!((statistics.busy, statistics.frames), (Duration::from_nanos(20), 0));
    finish(&mut simulation);
    let statistics = simulation.direction(direction);
    assert_eq!((statistics.busy, statistics.frames), (Duration::from_nanos(40 + 50), 1));
}
