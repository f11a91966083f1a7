//! Traffic against queueing theory: what is known in closed form of queues, switches and trees. And collectives beside it.

use quincunx_collective::Collective;
use quincunx_scenario::Scenario;
use quincunx_sim::traffic::{
    Load, Offered, Pattern, TrafficError, TrafficMeasurement, TrafficRequest, measure_traffic,
};
use quincunx_sim::{Interrupted, MeasureError, Measurement, Outputs, Request, ignore_progress, measure};
use quincunx_units::Duration;
use std::ops::ControlFlow;

use crate::requests::{lengths, request};

/// Two accelerators at one switch; small, for every step is followed by a walk over all queues here.
const PAIR: (&str, &[&str]) = ("scin-dgx8", &["accelerators=2", "switches=1"]);
const QUAD: (&str, &[&str]) = ("scin-dgx8", &["accelerators=4", "switches=1"]);

fn scenario((name, set): (&str, &[&str])) -> Scenario {
    crate::requests::scenario(name, set)
}

fn offered(pattern: Pattern, load: f64) -> Offered {
    Offered { pattern, load: Load::new(load).unwrap() }
}

fn run(on: (&str, &[&str]), pattern: Pattern, load: f64, packets: u64) -> TrafficMeasurement {
    let request =
        TrafficRequest { scenario: scenario(on), offered: offered(pattern, load), packets, seed: 1 };
    measure_traffic(&request, &mut ignore_progress).unwrap()
}

/// Mean time in the queue of a server that takes a fixed time and is busy for a share `load` of it, with Poisson arrivals
/// (M/D/1, Pollaczek and Khinchine): as a multiple of that time.
fn wait(load: f64) -> f64 {
    load / (2.0 * (1.0 - load))
}

/// Holds the mean wait against [`wait`], when a packet takes `service` on a link and `empty` through an empty fabric.
fn assert_waits(measured: &TrafficMeasurement, load: f64, empty: Duration, service: Duration) {
    let waited = (measured.mean - empty).as_secs_f64() / service.as_secs_f64();
    let error = waited / wait(load) - 1.0;
    assert!(error.abs() < 0.04, "load {load}: {waited} services in the queue, not {}", wait(load));
}

/// Hosts at a switch whose frames have 73 bytes around them.
const STAR_2: (&str, &[&str]) = ("star-2", &["link.framing=73B"]);
const STAR_4: (&str, &[&str]) = ("star-4", &["link.framing=73B"]);

/// 4096 bytes and 73 around them at 100 Gbit/s; twice that and a microsecond, for the switch passes whole frames on.
const FRAME: Duration = Duration::from_picos(333_520);
const THROUGH_A_STAR: Duration = Duration::from_picos(2 * (333_520 + 1_000_000));

/// 128 bytes and a header of 16 at 112.5 GB/s; the switch passes a packet on when it has the header.
const PACKET: Duration = Duration::from_picos(1_280);
const THROUGH_A_SWITCH: Duration = Duration::from_picos(143 + 250_000 + 1_280 + 250_000);

#[test]
fn a_packet_that_meets_no_other_takes_the_time_of_links_and_switch_to_the_picosecond() {
    assert_eq!(run(STAR_2, Pattern::Neighbor, 0.001, 1000).p50, THROUGH_A_STAR);
    assert_eq!(run(PAIR, Pattern::Neighbor, 0.001, 1000).p50, THROUGH_A_SWITCH);
}

#[test]
fn one_link_is_a_queue_with_poisson_arrivals_and_fixed_service() {
    for (load, packets) in [(0.3, 100_000), (0.6, 200_000), (0.9, 1_000_000)] {
        let measured = run(STAR_2, Pattern::Neighbor, load, packets);
        assert_waits(&measured, load, THROUGH_A_STAR, FRAME);
    }
    for (load, packets) in [(0.3, 100_000), (0.6, 200_000), (0.9, 400_000)] {
        assert_waits(&run(PAIR, Pattern::Neighbor, load, packets), load, THROUGH_A_SWITCH, PACKET);
    }
}

/// Queues that lead into one queue of the same service delay as that one alone does.
#[test]
fn links_that_meet_in_one_output_are_one_queue_of_all_their_load() {
    for (load, packets) in [(0.3, 100_000), (0.6, 200_000), (0.9, 1_000_000)] {
        let measured = run(STAR_4, Pattern::Hotspot, load / 3.0, packets);
        assert_waits(&measured, load, THROUGH_A_STAR, FRAME);
    }
    assert_waits(&run(QUAD, Pattern::Hotspot, 0.2, 100_000), 0.6, THROUGH_A_SWITCH, PACKET);
}

#[test]
fn what_is_offered_below_saturation_is_accepted() {
    for pattern in [Pattern::Uniform, Pattern::Neighbor] {
        for load in [0.2, 0.8] {
            for on in [("star-8", &[][..]), QUAD] {
                let accepted = run(on, pattern, load, 50_000).accepted;
                assert!((accepted / load - 1.0).abs() < 0.02, "{pattern} on {}: {accepted} of {load}", on.0);
            }
        }
    }
}

#[test]
fn a_switch_with_queues_at_its_outputs_takes_all_uniform_traffic() {
    assert!(run(("star-8", &[]), Pattern::Uniform, 1.0, 200_000).accepted > 0.98);
    assert!(run(QUAD, Pattern::Uniform, 1.0, 50_000).accepted > 0.97);
}

#[test]
fn a_hot_port_takes_what_one_link_carries() {
    // Seven hosts, three accelerators share it.
    let accepted = run(("star-8", &[]), Pattern::Hotspot, 0.5, 50_000).accepted;
    assert!((accepted * 7.0 - 1.0).abs() < 0.001, "{accepted}");
    let accepted = run(QUAD, Pattern::Hotspot, 0.5, 5_000).accepted;
    assert!((accepted * 3.0 - 1.0).abs() < 0.01, "{accepted}");
}

#[test]
fn a_tree_takes_what_its_uplinks_carry() {
    // Four of seven packets leave their leaf switch, whose four hosts share one uplink; the others do not.
    let load = 0.9;
    let expected = load * 3.0 / 7.0 + 1.0 / 4.0;
    let accepted = run(("tree-2x4", &[]), Pattern::Uniform, load, 200_000).accepted;
    assert!((accepted / expected - 1.0).abs() < 0.02, "{accepted}, not {expected}");
}

#[test]
fn one_seed_is_one_run_of_traffic() {
    let of = |seed| {
        let request = TrafficRequest {
            scenario: scenario(QUAD),
            offered: offered(Pattern::Uniform, 0.7),
            packets: 2000,
            seed,
        };
        measure_traffic(&request, &mut ignore_progress).unwrap()
    };
    assert!(of(1) == of(1) && of(1) != of(2));
}

#[test]
fn traffic_needs_somebody_to_send_to_and_a_way() {
    for (name, key) in [("star-1", "topology"), ("ring-4", "star-8")] {
        let request = TrafficRequest {
            scenario: scenario((name, &[])),
            offered: offered(Pattern::Uniform, 0.5),
            packets: 100,
            seed: 1,
        };
        let message = measure_traffic(&request, &mut ignore_progress).unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
    }
}

#[test]
fn whoever_watches_can_stop_it() {
    let request = TrafficRequest {
        scenario: scenario(("star-8", &[])),
        offered: offered(Pattern::Uniform, 0.9),
        packets: u64::MAX,
        seed: 1,
    };
    let stopped = measure_traffic(&request, &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(TrafficError::Stopped(Interrupted { after })) if after > Duration::ZERO));
}

fn all_reduce(on: (&str, &[&str]), design: &str, background: Option<Offered>) -> Measurement {
    let request = Request { background, ..request(&scenario(on), design, Collective::AllReduce, 128 << 10) };
    measure(&request, Outputs::default(), &mut ignore_progress).unwrap()
}

#[test]
fn a_collective_beside_traffic_is_right_and_takes_longer_the_more_there_is() {
    let packet = ["epic-2", "epic-3", "ring"].map(|design| (("tree-2x2", &[][..]), design));
    let memory = ["scin", "nvls", "ring"].map(|design| (QUAD, design));
    for (on, design) in packet.into_iter().chain(memory) {
        let loads = [0.2, 0.6].map(|load| Some(offered(Pattern::Uniform, load)));
        let [alone, some, much] =
            [None, loads[0], loads[1]].map(|background| all_reduce(on, design, background));
        for measured in [&alone, &some, &much] {
            assert_eq!(measured.wrong, Some(0), "{design}");
        }
        let times = [alone.time, some.time, much.time];
        assert!(times.is_sorted_by(|less, more| less < more), "{design} on {}: {times:?}", on.0);
    }
}

#[test]
fn a_collective_can_be_stopped_on_either_fabric() {
    for (on, design) in [(("star-8", &[][..]), "ring"), (("scin-dgx8", &[][..]), "scin")] {
        let request = lengths(request(&scenario(on), design, Collective::AllReduce, 1 << 30));
        let stopped = measure(&request, Outputs::default(), &mut |_| ControlFlow::Break(()));
        assert!(
            matches!(stopped, Err(MeasureError::Stopped(Interrupted { after })) if after > Duration::ZERO),
            "{design}"
        );
    }
}
