//! Flows on links: who gets how much, what is due when, and what holds of any network.

use proptest::prelude::*;
use quincunx_driver_flow::{Due, FlowSimulation, LinkId, Load};
use quincunx_units::{BitRate, Duration, Instant};

fn links(gigabits: &[u64]) -> FlowSimulation<u32> {
    FlowSimulation::new(gigabits.iter().map(|rate| BitRate::new(rate * 1_000_000_000).unwrap()))
}

fn over(links: &[u32]) -> Box<[Load]> {
    links.iter().map(|&link| Load { link: LinkId(link), weight: 1.0 }).collect()
}

fn at(seconds: f64) -> Instant {
    Instant::from_picos((seconds * 1e12).round() as u64)
}

/// What is due until all is over, with its time.
fn rest(simulation: &mut FlowSimulation<u32>) -> Vec<(Instant, Due<u32>)> {
    let mut all = Vec::new();
    while let Some(due) = simulation.go_on() {
        all.push((simulation.now(), due));
        simulation.assert_invariants();
    }
    all
}

#[test]
fn flows_share_a_link_and_who_stays_has_all_of_it() {
    let mut simulation = links(&[10]);
    simulation.start(over(&[0]), 10e9, 1);
    simulation.start(over(&[0]), 20e9, 2);
    // Five each until the first is over after 2 s; ten for the 10 Gbit that the other has left.
    assert_eq!(rest(&mut simulation), [(at(2.0), Due::Flow(1)), (at(3.0), Due::Flow(2))]);
    assert_eq!(simulation.carried(LinkId(0)), 30e9);
}

#[test]
fn who_comes_later_puts_off_the_end_of_who_was_there() {
    let mut simulation = links(&[10]);
    simulation.start(over(&[0]), 10e9, 1);
    simulation.set_timer(Duration::from_millis(500), 9);
    assert_eq!(simulation.go_on(), Some(Due::Timer(9)));
    simulation.start(over(&[0]), 10e9, 2);
    // Half of the first is left, and takes a second at half the rate.
    assert_eq!(rest(&mut simulation), [(at(1.5), Due::Flow(1)), (at(2.0), Due::Flow(2))]);
}

#[test]
fn who_is_stopped_leaves_the_link_to_others_and_tells_what_is_left() {
    let mut simulation = links(&[10]);
    let first = simulation.start(over(&[0]), 10e9, 1);
    let second = simulation.start(over(&[0]), 20e9, 2);
    simulation.set_timer(Duration::from_secs(1), 9);
    assert_eq!(simulation.go_on(), Some(Due::Timer(9)));
    assert_eq!(simulation.stop(first), Some(5e9));
    assert_eq!(simulation.stop(first), None, "it is gone");
    // Fifteen are left of the second; who comes into the first one's place is another.
    simulation.start(over(&[0]), 15e9, 3);
    assert_eq!(simulation.stop(first), None);
    assert_eq!(rest(&mut simulation), [(at(4.0), Due::Flow(2)), (at(4.0), Due::Flow(3))]);
    assert_eq!(simulation.carried(LinkId(0)), 40e9);
    assert_eq!(simulation.stop(second), None, "it has ended");
}

#[test]
fn what_one_cannot_use_is_for_others() {
    let mut simulation = links(&[10, 2]);
    let held = simulation.start(over(&[0, 1]), 1e9, 1);
    let free = simulation.start(over(&[0]), 1e9, 2);
    assert_eq!([simulation.rate(held), simulation.rate(free)], [Some(2e9), Some(8e9)]);
}

#[test]
fn a_flow_that_asks_a_link_for_twice_as_much_has_half_the_rate_there() {
    let mut simulation = links(&[9]);
    let load = |weight| Box::from([Load { link: LinkId(0), weight }]);
    let double = simulation.start(load(2.0), 1e9, 1);
    let single = simulation.start(load(1.0), 1e9, 2);
    assert_eq!([simulation.rate(double), simulation.rate(single)], [Some(3e9), Some(3e9)]);
}

#[test]
fn a_change_reaches_who_shares_a_link_with_who_shares_it_and_nobody_else() {
    let mut simulation = links(&[10, 10, 10]);
    let far = simulation.start(over(&[2]), 100e9, 0);
    let between = simulation.start(over(&[0, 1]), 100e9, 1);
    let end = simulation.start(over(&[1]), 100e9, 2);
    assert_eq!([far, between, end].map(|flow| simulation.rate(flow)), [Some(10e9), Some(5e9), Some(5e9)]);
    simulation.start(over(&[0]), 100e9, 3);
    simulation.start(over(&[0]), 100e9, 4);
    let third = 10e9 / 3.0;
    assert_eq!(
        [far, between, end].map(|flow| simulation.rate(flow)),
        [Some(10e9), Some(third), Some(10e9 - third)]
    );
}

#[test]
fn at_the_same_time_flows_come_before_timers_and_each_in_its_order() {
    let mut simulation = links(&[1, 1]);
    simulation.set_timer(Duration::from_secs(1), 10);
    simulation.set_timer(Duration::from_secs(1), 11);
    simulation.start(over(&[0]), 1e9, 20);
    simulation.start(over(&[1]), 1e9, 21);
    let due: Vec<_> = rest(&mut simulation).into_iter().map(|(_, due)| due).collect();
    assert_eq!(due, [Due::Flow(20), Due::Flow(21), Due::Timer(10), Due::Timer(11)]);
}

#[test]
fn of_a_flow_that_is_over_there_is_no_rate_also_when_another_has_its_place() {
    let mut simulation = links(&[1]);
    let first = simulation.start(over(&[0]), 1e9, 1);
    assert_eq!(simulation.go_on(), Some(Due::Flow(1)));
    let second = simulation.start(over(&[0]), 1e9, 2);
    assert_eq!((simulation.rate(first), simulation.rate(second)), (None, Some(1e9)));
}

#[test]
#[should_panic(expected = "leads over a link")]
fn a_flow_without_a_link_would_have_no_rate() {
    links(&[1]).start(Box::from([]), 1.0, 1);
}

/// Rates, flows with the time at which each begins, its links and its size, in ms, by number and in Mbit.
type Network = (Vec<u64>, Vec<(u64, Vec<(u32, u8)>, u32)>);

fn network() -> impl Strategy<Value = Network> {
    let rates = prop::collection::vec(1_u64..100, 1..8);
    rates.prop_flat_map(|rates| {
        let links = rates.len() as u32;
        let flow = (0_u64..50, prop::collection::vec((0..links, 1_u8..4), 1..5), 1_u32..500);
        (Just(rates), prop::collection::vec(flow, 1..24))
    })
}

/// What is due when, with rates that are fair after each step.
fn run(network: &Network) -> (Vec<(Instant, Due<u32>)>, Vec<f64>) {
    let (rates, flows) = network;
    let mut simulation = links(rates);
    for (number, (begin, ..)) in (0..).zip(flows) {
        simulation.set_timer(Duration::from_millis(*begin), number);
    }
    let mut all = Vec::new();
    while let Some(due) = simulation.go_on() {
        all.push((simulation.now(), due));
        if let Due::Timer(number) = due {
            let (_, loads, megabits) = &flows[number as usize];
            let loads =
                loads.iter().map(|&(link, weight)| Load { link: LinkId(link), weight: weight.into() });
            simulation.start(loads.collect(), f64::from(*megabits) * 1e6, number);
        }
        simulation.assert_invariants();
    }
    let carried = (0..rates.len() as u32).map(|link| simulation.carried(LinkId(link)));
    let carried = carried.collect();
    (all, carried)
}

proptest! {
    /// Each flow ends, each link has carried what was asked of it and no more than it can in that time, and nobody could have had more without taking it from one with less.
    #[test]
    fn in_any_network_rates_are_fair_and_every_flow_ends(network in network()) {
        let (all, carried) = run(&network);
        let ended = all.iter().filter(|(_, due)| matches!(due, Due::Flow(_))).count();
        prop_assert_eq!(ended, network.1.len());
        for (link, carried) in carried.into_iter().enumerate() {
            let asked: f64 = network.1.iter().flat_map(|(_, loads, megabits)| {
                let on = loads.iter().filter(move |(on, _)| *on as usize == link);
                on.map(move |(_, weight)| f64::from(*weight) * f64::from(*megabits) * 1e6)
            }).sum();
            prop_assert!((carried - asked).abs() <= asked * 1e-9);
            let end = all.last().map_or(0.0, |(at, _)| at.since(Instant::ZERO).as_secs_f64());
            prop_assert!(carried <= network.0[link] as f64 * 1e9 * end * (1.0 + 1e-9));
        }
    }

    #[test]
    fn the_same_network_runs_alike_to_the_bit(network in network()) {
        prop_assert_eq!(run(&network), run(&network));
    }
}
