//! Pauses: where queues would drop, senders wait, and as little as they must.

use crate::common::{HEADER, Order, Toy, ToyEvent, Wire, nanos, slow_link, store_and_forward};
use quincunx_driver_des::{
    DirectionStatistics, Emitted, Limits, LinkConfig, LinkIndex, PauseConfig, QueueConfig, Simulation,
    Stopped,
};
use quincunx_engine::PortId;
use quincunx_network::{FaultPlan, FaultRates, Hold};
use quincunx_units::{BitRate, ByteCount, Duration, Instant, Probability};

const PORT: PortId = PortId(0);
const FRAMES: u64 = 60;
const LENGTH: u64 = 50;

fn bytes(bytes: u64) -> ByteCount {
    ByteCount::new(bytes)
}

/// A tenth of the others' rate.
fn bottleneck() -> LinkConfig {
    LinkConfig { rate: BitRate::new(800_000_000).unwrap(), ..slow_link() }
}

/// Two ends with so many relays between them; the last link is the bottleneck.
fn chain(relays: usize, seed: u64) -> Simulation<Toy, Wire> {
    let mut simulation = store_and_forward(seed);
    let mut before = (simulation.add_node(Toy::end()), PORT);
    for _ in 0..relays {
        let relay = simulation.add_node(Toy::Relay);
        simulation.connect((before.0, &[before.1]), (relay, &[PortId(0)]), slow_link());
        before = (relay, PortId(1));
    }
    let end = simulation.add_node(Toy::end());
    simulation.connect((before.0, &[before.1]), (end, &[PORT]), bottleneck());
    simulation
}

/// The first end sends; what arrives until nothing is due.
fn run(simulation: &mut Simulation<Toy, Wire>) -> Vec<Emitted<ToyEvent>> {
    let (first, _) = simulation.engines().next().unwrap();
    let send = Order::Send { port: PORT, frames: FRAMES, length: (LENGTH - HEADER) as usize };
    simulation.command(first, send).unwrap();
    let mut told = Vec::new();
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        told.push(emitted);
    }
    told
}

fn arrived(told: &[Emitted<ToyEvent>]) -> Vec<(u64, Instant)> {
    let one = |emitted: &Emitted<ToyEvent>| match emitted.event {
        ToyEvent::Arrived { number, .. } => Some((number, emitted.at)),
        ToyEvent::Fired(_) => None,
    };
    told.iter().filter_map(one).collect()
}

fn limit_queues(simulation: &mut Simulation<Toy, Wire>, limit: u64) {
    let directions: Vec<_> = simulation.statistics().map(|(direction, _)| direction).collect();
    for direction in directions {
        simulation.set_queue(direction, QueueConfig { limit: Some(bytes(limit)), mark_above: None });
    }
}

/// Each relay pauses what comes from the first end's side.
fn pause(simulation: &mut Simulation<Toy, Wire>, relays: u32, xoff: u64, xon: u64) {
    for link in 0..relays {
        simulation.set_pause(LinkIndex(link).forward(), PauseConfig { xoff: bytes(xoff), xon: bytes(xon) });
    }
}

fn refused(simulation: &Simulation<Toy, Wire>) -> u64 {
    simulation.statistics().map(|(_, statistics)| statistics.refused).sum()
}

fn of(simulation: &Simulation<Toy, Wire>, link: u32) -> DirectionStatistics {
    simulation.direction(LinkIndex(link).forward())
}

#[test]
fn no_frame_is_lost_where_a_full_queue_would_have_dropped() {
    let mut dropping = chain(1, 1);
    limit_queues(&mut dropping, 700);
    assert!((arrived(&run(&mut dropping)).len() as u64) < FRAMES && refused(&dropping) > 0);
    let mut pausing = chain(1, 1);
    limit_queues(&mut pausing, 700);
    pause(&mut pausing, 1, 300, 150);
    let numbers: Vec<u64> = arrived(&run(&mut pausing)).iter().map(|(number, _)| *number).collect();
    assert_eq!((numbers, refused(&pausing)), ((0..FRAMES).collect(), 0));
    assert!(of(&pausing, 0).pauses > 1);
}

/// As long as the buffer does not run dry while the order to resume is on its way.
#[test]
fn the_bottleneck_stays_busy() {
    let free = arrived(&run(&mut chain(1, 1)));
    let mut simulation = chain(1, 1);
    pause(&mut simulation, 1, 300, 150);
    assert_eq!(arrived(&run(&mut simulation)), free);
}

#[test]
fn what_arrives_after_the_order_is_two_latencies_and_two_frames() {
    for (xoff, xon) in [(50, 0), (300, 150), (400, 400), (1000, 50)] {
        let mut simulation = chain(1, 1);
        pause(&mut simulation, 1, xoff, xon);
        run(&mut simulation);
        // A byte takes a nanosecond, and the order 84 of them.
        let most = xoff + 2 * 100 + 84 + 2 * LENGTH;
        let found = of(&simulation, 0).peak_buffer;
        assert!(found > bytes(xoff) && found <= bytes(most), "{found} with {xoff}, at most {most}");
    }
}

/// Frames of 50 ns, all links alike but the last, which takes 500 ns for each.
#[test]
fn a_pause_begins_and_ends_to_the_nanosecond() {
    let mut simulation = chain(1, 1);
    pause(&mut simulation, 1, 50, 0);
    let told = arrived(&run(&mut simulation));
    // The second frame arrives at 200 and fills the buffer; the order takes 84 and 100. By then, at 384, the eighth frame is being
    // sent: eight are through. They have left at 150 + 8 * 500, and the order to resume is there 184 later; the ninth
    // frame takes 150 to the relay, and 600 from there.
    assert_eq!(told[7].1, nanos(150 + 8 * 500 + 100));
    assert_eq!(told[8].1, nanos(150 + 8 * 500 + 184 + 150 + 600));
    assert_eq!(of(&simulation, 0).pauses, FRAMES.div_ceil(8));
}

#[test]
fn a_pause_goes_on_up_the_chain() {
    let mut simulation = chain(3, 1);
    limit_queues(&mut simulation, 800);
    pause(&mut simulation, 3, 200, 100);
    assert_eq!(arrived(&run(&mut simulation)).len() as u64, FRAMES);
    for link in 0..3 {
        assert!(of(&simulation, link).pauses > 0, "link {link}");
    }
    assert_eq!(refused(&simulation), 0);
    assert_eq!(simulation.paused().count(), 0, "all are resumed in the end");
}

#[test]
fn urgent_frames_losses_and_frames_held_back_go_with_pauses() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(Wire { tenth_is_urgent: true, ..Wire::default() }, seed);
        let (a, relay, b) = (
            simulation.add_node(Toy::end()),
            simulation.add_node(Toy::Relay),
            simulation.add_node(Toy::end()),
        );
        simulation.connect((a, &[PORT]), (relay, &[PortId(0)]), slow_link());
        simulation.connect((relay, &[PortId(1)]), (b, &[PORT]), bottleneck());
        pause(&mut simulation, 1, 200, 100);
        let share = |value| Probability::new(value).unwrap();
        for link in 0..2 {
            let faults = FaultRates {
                loss: share(0.1),
                duplication: share(0.1),
                reordering: share(0.2),
                longest_hold: Hold::Time(Duration::from_micros(2)),
            };
            simulation.set_faults(LinkIndex(link).forward(), faults.into());
        }
        let found = arrived(&run(&mut simulation)).len() as u64;
        let sum = |count: fn(&DirectionStatistics) -> u64| {
            (0..2).map(|link| count(&of(&simulation, link))).sum::<u64>()
        };
        // One copy that is lost on the second link was counted once, however often its frame was doubled on the first.
        assert_eq!(found, FRAMES + sum(|link| link.duplicated) - sum(|link| link.lost), "seed {seed}");
        assert_eq!((simulation.paused().count(), simulation.frames_under_way()), (0, 0));
    }
}

/// Two ends send to each other through a relay whose links out are slow, every tenth frame urgent; from `since` on the relay pauses what comes
/// in from the first, or from both. What arrives.
fn crossing(pausing_links: u32, since: Instant, faults: Option<FaultPlan>) -> Vec<(u64, Instant)> {
    let mut simulation = Simulation::new(Wire { tenth_is_urgent: true, ..Wire::default() }, 1);
    let (a, relay, b) =
        (simulation.add_node(Toy::end()), simulation.add_node(Toy::Relay), simulation.add_node(Toy::end()));
    let links = [(a, PortId(0)), (b, PortId(1))].map(|(end, port)| {
        let link = simulation.connect((end, &[PORT]), (relay, &[port]), slow_link());
        simulation.set_background(link.backward(), BitRate::new(7_500_000_000));
        link
    });
    for link in links {
        for direction in [link.forward(), link.backward()] {
            faults.iter().for_each(|faults| simulation.set_faults(direction, faults.clone()));
        }
    }
    for end in [a, b] {
        let send = Order::Send { port: PORT, frames: FRAMES, length: (LENGTH - HEADER) as usize };
        simulation.command(end, send).unwrap();
    }
    let mut told = Vec::new();
    while let Stopped::Event(emitted) = simulation.run(Limits { time: since, ..Limits::NONE }) {
        told.push(emitted);
    }
    for &link in &links[..pausing_links as usize] {
        simulation.set_pause(link.forward(), PauseConfig { xoff: bytes(200), xon: bytes(100) });
    }
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        told.push(emitted);
    }
    assert!(of(&simulation, 0).pauses > 0);
    arrived(&told)
}

/// With a plan of faults, though none, each frame that is overtaken is put off by itself; without, all at once.
#[test]
fn pauses_begin_and_end_alike_however_frames_were_put_off() {
    for links in [1, 2] {
        for since in [0, 610, 1_300, 2_450] {
            let each = crossing(links, nanos(since), Some(FaultPlan::listed([])));
            assert_eq!(each.len() as u64, 2 * FRAMES);
            assert_eq!(crossing(links, nanos(since), None), each, "{links} links pause from {since} ns on");
        }
    }
}

/// Three nodes in a circle pass everything on: no frame ever leaves, and three ends send more.
#[test]
fn buffers_that_wait_for_each_other_end_a_run_and_say_who_waits() {
    let mut simulation = store_and_forward(1);
    let nodes: Vec<_> = (0..3).map(|_| simulation.add_node(Toy::Onward)).collect();
    let mut ends = Vec::new();
    for (place, &node) in nodes.iter().enumerate() {
        let round =
            simulation.connect((node, &[PortId(1)]), (nodes[(place + 1) % 3], &[PortId(0)]), slow_link());
        let end = simulation.add_node(Toy::end());
        let access = simulation.connect((end, &[PORT]), (node, &[PortId(2)]), slow_link());
        for link in [round, access] {
            simulation.set_pause(link.forward(), PauseConfig { xoff: bytes(300), xon: bytes(100) });
        }
        ends.push(end);
    }
    for end in ends {
        simulation.command(end, Order::Send { port: PORT, frames: FRAMES, length: 40 }).unwrap();
    }
    assert_eq!(simulation.run(Limits { time: nanos(1_000_000), steps: 100_000 }), Stopped::Idle);
    assert!(simulation.frames_under_way() > 0);
    assert_eq!(simulation.paused().count(), 6);
}

#[test]
fn a_seed_replays_pauses_to_the_bit() {
    let trace = || {
        let mut simulation = chain(2, 5);
        pause(&mut simulation, 2, 200, 100);
        let told = run(&mut simulation);
        (told, simulation.steps(), simulation.statistics().map(|(_, found)| found).collect::<Vec<_>>())
    };
    assert_eq!(trace(), trace());
}

#[test]
#[should_panic(expected = "a pause ends at")]
fn thresholds_the_wrong_way_round_are_an_error_of_the_owner() {
    pause(&mut chain(1, 1), 1, 100, 200);
}
