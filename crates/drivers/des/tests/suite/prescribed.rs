//! A run that is prescribed: what becomes of each frame, and when timers fire.

use crate::common::{Order, Toy, ToyEvent, Wire, nanos, slow_link, store_and_forward};
use quincunx_driver_des::{Direction, Limits, LinkIndex, NodeIndex, Simulation, Stopped};
use quincunx_engine::PortId;
use quincunx_network::{Delay, Fate, FaultList, FaultPlan, FaultRates, Firing, LinkDirection};
use quincunx_units::{Duration, Instant};

const PORT: PortId = PortId(0);
const FORWARD: Direction = LinkIndex(0).forward();

/// Two ends on one link, with these fates for the frames of the first.
fn pair(fates: &[(u64, Fate)]) -> (Simulation<Toy, Wire>, NodeIndex) {
    let mut simulation = store_and_forward(1);
    let nodes = [simulation.add_node(Toy::end()), simulation.add_node(Toy::end())];
    simulation.connect((nodes[0], &[PORT]), (nodes[1], &[PORT]), slow_link());
    simulation.set_faults(FORWARD, FaultPlan::listed(fates.iter().copied()));
    (simulation, nodes[0])
}

/// What is told, and when, until nothing is due: the number of a frame, or the name of a timer.
fn told(simulation: &mut Simulation<Toy, Wire>) -> Vec<(Instant, String)> {
    let mut all = Vec::new();
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        let what = match emitted.event {
            ToyEvent::Arrived { number, .. } => number.to_string(),
            ToyEvent::Fired(name) => name.to_string(),
        };
        all.push((emitted.at, what));
    }
    all
}

fn at(time: u64, what: &str) -> (Instant, String) {
    (nanos(time), what.to_owned())
}

fn until(time: u64) -> Fate {
    Fate::Late(Delay::Until(nanos(time)))
}

fn twice(first: u64, copy: u64) -> Fate {
    let until = |time| Some(Delay::Until(nanos(time)));
    Fate::Doubled { first: until(first), copy: until(copy) }
}

fn firing(time: u64, node: NodeIndex, timer: char) -> Firing<NodeIndex, char> {
    Firing { at: nanos(time), node, timer }
}

fn send_40_bytes(simulation: &mut Simulation<Toy, Wire>, node: NodeIndex, frames: u64) {
    simulation.command(node, Order::Send { port: PORT, frames, length: 40 }).unwrap();
}

fn arm(simulation: &mut Simulation<Toy, Wire>, node: NodeIndex, after: Option<Duration>) {
    simulation.command(node, Order::Timer { name: 'x', after }).unwrap();
}

#[test]
fn a_frame_arrives_when_it_is_prescribed_to_and_the_others_when_they_can() {
    let (mut simulation, a) = pair(&[(0, until(900)), (2, until(160))]);
    send_40_bytes(&mut simulation, a, 3);
    assert_eq!(told(&mut simulation), [at(160, "2"), at(200, "1"), at(900, "0")]);
}

#[test]
fn a_copy_arrives_at_its_own_time() {
    let fates = [(0, twice(700, 300)), (1, twice(400, 800))];
    let (mut simulation, a) = pair(&fates);
    send_40_bytes(&mut simulation, a, 2);
    assert_eq!(told(&mut simulation), [at(300, "0"), at(400, "1"), at(700, "0"), at(800, "1")]);
    assert_eq!(simulation.direction(FORWARD).duplicated, 2);
}

#[test]
fn a_frame_that_is_sent_after_its_time_arrives_as_it_is_sent() {
    let (mut simulation, a) = pair(&[(0, until(10))]);
    simulation.pass(nanos(50));
    send_40_bytes(&mut simulation, a, 1);
    assert_eq!(told(&mut simulation), [at(50, "0")]);
}

#[test]
#[should_panic(expected = "expected frames to be held back in time, found a number of frames")]
fn a_listed_frame_is_not_held_back_for_a_number_of_frames() {
    pair(&[(0, Fate::Late(Delay::OvertakenBy(1)))]);
}

#[test]
#[should_panic(expected = "expected frames to be held back in time, found a number of frames")]
fn no_frame_is_held_back_for_a_number_of_frames_by_chance() {
    let reordering = "10%".parse().unwrap();
    let (mut simulation, _) = pair(&[]);
    simulation.set_faults(FORWARD, FaultRates { reordering, ..FaultRates::default() }.into());
}

#[test]
fn a_list_prescribes_fates_by_port_and_by_neighbours_and_firings() {
    let (mut simulation, a) = pair(&[]);
    let b = NodeIndex(1);
    let mut list = FaultList::default();
    list.set_fate(LinkDirection::From(a, PORT), 0, Fate::Lost);
    list.set_fate(LinkDirection::Between(b, a), 0, until(400));
    list.firings.push(Firing { at: nanos(500), node: a, timer: 'x' });
    simulation.prescribe(&list);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    send_40_bytes(&mut simulation, a, 2);
    send_40_bytes(&mut simulation, b, 1);
    assert_eq!(told(&mut simulation), [at(200, "1"), at(400, "0"), at(500, "x")]);
}

#[test]
fn a_timer_fires_when_it_is_prescribed_to_and_not_when_its_time_is_over() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[firing(500, a, 'x')]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    assert_eq!(told(&mut simulation), [at(500, "x")]);
}

#[test]
fn a_timer_that_is_not_armed_when_its_time_comes_does_nothing() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[firing(500, a, 'x'), firing(600, a, 'x'), firing(700, a, 'y')]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    // It is armed once and fires once.
    assert_eq!(told(&mut simulation), [at(500, "x")]);
    assert_eq!(simulation.now(), nanos(700));
}

#[test]
fn a_timer_that_was_disarmed_does_not_fire() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[firing(500, a, 'x')]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    arm(&mut simulation, a, None);
    assert_eq!(told(&mut simulation), []);
}

#[test]
fn a_timer_that_nobody_prescribes_does_not_fire() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    assert_eq!(told(&mut simulation), []);
}

#[test]
#[should_panic(expected = "timers are prescribed before anything is done")]
fn timers_are_not_prescribed_when_some_are_armed() {
    let (mut simulation, a) = pair(&[]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    simulation.prescribe_timers(&[]);
}
