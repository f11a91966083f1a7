//! A run that is prescribed: what becomes of each frame, and when timers fire.

mod common;

use common::{Order, Told, Toy, Wire, nanos, slow_link, store_and_forward};
use quincunx_driver_des::{Direction, Fate, Faults, Limits, LinkIndex, NodeIndex, Simulation, Stopped};
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};

const PORT: PortId = PortId(0);
const FORWARD: Direction = LinkIndex(0).forward();

/// Two ends on one link, with these fates for the frames of the first.
fn pair(fates: &[(u64, Fate)]) -> (Simulation<Toy, Wire>, NodeIndex) {
    let mut simulation = store_and_forward(1);
    let nodes = [simulation.add_node(Toy::end()), simulation.add_node(Toy::end())];
    simulation.connect((nodes[0], &[PORT]), (nodes[1], &[PORT]), slow_link());
    let fates = fates.iter().copied().collect();
    simulation.set_faults(FORWARD, Faults { fates, ..Faults::default() });
    (simulation, nodes[0])
}

/// What is told, and when, until nothing is due: the number of a frame, or the name of a timer.
fn told(simulation: &mut Simulation<Toy, Wire>) -> Vec<(Instant, String)> {
    let mut all = Vec::new();
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        let what = match emitted.event {
            Told::Arrived { number, .. } => number.to_string(),
            Told::Fired(name) => name.to_string(),
        };
        all.push((emitted.at, what));
    }
    all
}

fn at(time: u64, what: &str) -> (Instant, String) {
    (nanos(time), what.to_owned())
}

fn send_40_bytes(simulation: &mut Simulation<Toy, Wire>, node: NodeIndex, frames: u64) {
    simulation.command(node, Order::Send { port: PORT, frames, length: 40 }).unwrap();
}

fn arm(simulation: &mut Simulation<Toy, Wire>, node: NodeIndex, after: Option<Duration>) {
    simulation.command(node, Order::Timer { name: 'x', after }).unwrap();
}

#[test]
fn a_frame_arrives_when_it_is_prescribed_to_and_the_others_when_they_can() {
    let (mut simulation, a) = pair(&[(0, Fate::ArrivesAt(nanos(900))), (2, Fate::ArrivesAt(nanos(160)))]);
    send_40_bytes(&mut simulation, a, 3);
    assert_eq!(told(&mut simulation), [at(160, "2"), at(200, "1"), at(900, "0")]);
}

#[test]
fn a_copy_arrives_at_its_own_time() {
    let fates = [
        (0, Fate::ArrivesTwiceAt(nanos(700), nanos(300))),
        (1, Fate::ArrivesTwiceAt(nanos(400), nanos(800))),
    ];
    let (mut simulation, a) = pair(&fates);
    send_40_bytes(&mut simulation, a, 2);
    assert_eq!(told(&mut simulation), [at(300, "0"), at(400, "1"), at(700, "0"), at(800, "1")]);
    assert_eq!(simulation.direction(FORWARD).duplicated, 2);
}

#[test]
fn a_frame_that_is_sent_after_its_time_arrives_as_it_is_sent() {
    let (mut simulation, a) = pair(&[(0, Fate::ArrivesAt(nanos(10)))]);
    simulation.pass(nanos(50));
    send_40_bytes(&mut simulation, a, 1);
    assert_eq!(told(&mut simulation), [at(50, "0")]);
}

#[test]
#[should_panic(expected = "a queue refuses frames")]
fn a_frame_is_not_prescribed_to_be_refused() {
    pair(&[(0, Fate::Refused)]);
}

#[test]
fn a_timer_fires_when_it_is_prescribed_to_and_not_when_its_time_is_over() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[(nanos(500), a, 'x')]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    assert_eq!(told(&mut simulation), [at(500, "x")]);
}

#[test]
fn a_timer_that_is_not_armed_when_its_time_comes_does_nothing() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[(nanos(500), a, 'x'), (nanos(600), a, 'x'), (nanos(700), a, 'y')]);
    arm(&mut simulation, a, Some(Duration::from_nanos(20)));
    // It is armed once and fires once.
    assert_eq!(told(&mut simulation), [at(500, "x")]);
    assert_eq!(simulation.now(), nanos(700));
}

#[test]
fn a_timer_that_was_disarmed_does_not_fire() {
    let (mut simulation, a) = pair(&[]);
    simulation.prescribe_timers(&[(nanos(500), a, 'x')]);
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
