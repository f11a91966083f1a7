//! What simulations take from the hardware.

use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_units::Duration;
use std::path::Path;

/// What the benches of `rtl/allreduce_switch` have measured, and hold.
const LATENCIES: &str = "rtl/allreduce_switch/latency.toml";

/// A latency by its name there, in nanoseconds.
fn measured(name: &str) -> String {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|folder| folder.join(LATENCIES).exists());
    let text = std::fs::read_to_string(root.expect("the repository").join(LATENCIES)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
    line.unwrap_or_else(|| panic!("{LATENCIES} has no {name}")).to_owned()
}

#[test]
fn the_testbed_of_allreduce_switch_takes_as_long_as_the_hardware() {
    let scenario = Scenario::find("ars-star8", &[], CATALOG).unwrap();
    let settings = scenario.settings(scenario.design(CATALOG, "netreduce").unwrap()).unwrap();
    for (key, name) in [("sum_latency", "aggregated_floating_ns"), ("repeat_latency", "retransmitted_ns")] {
        let set = settings.value(&format!("aggregation.{key}")).and_then(|value| value.as_str()).unwrap();
        let expected: Duration = format!("{}ns", measured(name)).parse().unwrap();
        assert_eq!(set.parse::<Duration>().unwrap(), expected, "{key}");
    }
}
