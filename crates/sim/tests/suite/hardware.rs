//! What simulations take from the hardware.

use quincunx_collective::Collective;
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_sim::packet_fabric::simulate;
use quincunx_units::Duration;
use std::path::Path;

use crate::requests::{request, scenario};

/// What the benches of `rtl/allreduce_switch` have measured, and hold.
const LATENCIES: &str = "rtl/allreduce_switch/latency.toml";

/// A file of the repository.
fn read(name: &str) -> toml::Table {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|folder| folder.join(name).exists());
    let text = std::fs::read_to_string(root.expect("the repository").join(name)).unwrap();
    text.parse().unwrap()
}

/// A latency by its name there, in nanoseconds.
fn measured(name: &str) -> f64 {
    read(LATENCIES)["latency"][name].as_float().unwrap()
}

#[test]
fn figure_17_is_what_the_hardware_takes() {
    let figure = read("experiments/ars/fig17.toml");
    let number = |table: &str, key: &str| {
        let value = &figure[table][key];
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).unwrap()
    };
    for (key, name) in [
        ("forwarded", "forwarded_64_ns"),
        ("aggregated-fixed", "aggregated_fixed_ns"),
        ("aggregated-floating", "aggregated_floating_ns"),
    ] {
        assert_eq!(number("measured", key), measured(name), "{key}");
        let limit = number("published", key) * (1.0 + number("tolerance", "relative"));
        assert!(number("measured", key) <= limit, "{key}");
    }
}

#[test]
fn the_testbed_of_allreduce_switch_takes_as_long_as_the_hardware() {
    let scenario = Scenario::find("ars-star8", &[], CATALOG).unwrap();
    let settings = scenario.settings(scenario.design(CATALOG, "netreduce").unwrap()).unwrap();
    for (key, name) in [
        ("sum_latency", "aggregated_floating_ns"),
        ("repeat_latency", "retransmitted_ns"),
        ("forward_latency", "forwarded_64_ns"),
    ] {
        let set = settings.value(&format!("aggregation.{key}")).and_then(|value| value.as_str()).unwrap();
        let expected: Duration = format!("{}ns", measured(name)).parse().unwrap();
        assert_eq!(set.parse::<Duration>().unwrap(), expected, "{key}");
    }
}

#[test]
fn an_acknowledge_takes_the_switch_as_long_as_a_forwarded_frame() {
    // An AllReduce of one message is over when its Last is acknowledged.
    let time = |latency: &str| {
        let testbed = scenario("ars-star8", &[&format!("aggregation.forward_latency={latency}")]);
        simulate(&request(&testbed, "netreduce", Collective::AllReduce, 2048)).unwrap().time
    };
    assert_eq!(time("700ns"), time("0ns") + Duration::from_nanos(700));
}
