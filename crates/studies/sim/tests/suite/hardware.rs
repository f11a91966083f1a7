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

/// How many frames leave there of those that come back to back.
const LINE_RATE: &str = "rtl/allreduce_switch/line_rate.toml";
/// What synthesis has counted there.
const RESOURCES: &str = "rtl/allreduce_switch/resources.toml";
/// LUTs, flip-flops and RAMB36 of the paper's device, XCVU190.
const DEVICE: [(&str, &str, f64); 3] = [
    ("luts", "luts", 1_074_240.0),
    ("flip-flops", "flip-flops", 2_148_480.0),
    ("block-ram", "block-rams", 3_780.0),
];

/// A list of numbers.
fn numbers(table: &toml::Table, key: &str) -> Vec<f64> {
    let number = |value: &toml::Value| {
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).unwrap()
    };
    table[key].as_array().unwrap().iter().map(number).collect()
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
        ("retransmitted", "retransmitted_ns"),
    ] {
        assert_eq!(number("measured", key), measured(name), "{key}");
        let limit = number("published", key) * (1.0 + number("tolerance", "relative"));
        assert!(number("measured", key) <= limit, "{key}");
    }
}

#[test]
fn line_rate_is_what_the_hardware_passes() {
    let figure = read("experiments/ars/line-rate.toml");
    let file = read(LINE_RATE);
    let passed = file["line_rate"].as_table().unwrap();
    assert_eq!(figure["measured"]["loss"], passed["lost"]);
    assert_eq!(figure["measured"]["loss"], figure["published"]["loss"]);
    let paces =
        || passed.iter().filter(|(name, _)| *name != "lost").map(|(_, pace)| pace.as_float().unwrap());
    assert_eq!(figure["measured"]["slowest"].as_float().unwrap(), paces().fold(100.0, f64::min));
    for wanted in ["forwarded_64", "forwarded_1518", "aggregated_fixed", "aggregated_floating"] {
        assert!(passed[wanted].as_float().unwrap() >= 99.0, "{wanted}");
    }
}

#[test]
fn figure_16_is_what_synthesis_has_counted() {
    let figure = read("experiments/ars/fig16.toml");
    let counted = read(RESOURCES);
    assert_eq!(numbers(&figure, "ports"), (2..=8).map(f64::from).collect::<Vec<_>>());
    assert_eq!(numbers(&figure, "ports"), numbers(&counted, "ports"));
    for (key, name, of_device) in DEVICE {
        let shares = numbers(figure["measured"].as_table().unwrap(), key);
        let expected: Vec<f64> =
            numbers(&counted, name).iter().map(|number| (number / of_device * 1e4).round() / 100.0).collect();
        assert_eq!(shares, expected, "{key}");
    }
}

#[test]
fn figure_16_has_the_published_shape_with_block_ram_scarcest_and_linear_in_ports() {
    let figure = read("experiments/ars/fig16.toml");
    let [luts, flip_flops, block_ram] =
        DEVICE.map(|(key, _, _)| numbers(figure["measured"].as_table().unwrap(), key));
    for (place, share) in block_ram.iter().enumerate() {
        assert!(*share > luts[place] && *share > flip_flops[place], "{} ports", place + 2);
    }
    // No number of ports is off the line from the fewest to the most by more than a fiftieth.
    let step = (block_ram[6] - block_ram[0]) / 6.0;
    for (place, share) in block_ram.iter().enumerate() {
        let line = block_ram[0] + step * place as f64;
        assert!((share / line - 1.0).abs() < 0.02, "{} ports: {share} beside {line}", place + 2);
    }
}

#[test]
fn figure_16_is_drawn_as_its_file_has_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|folder| folder.join(RESOURCES).exists())
        .unwrap();
    let drawing = std::fs::read_to_string(root.join("rtl/allreduce_switch/resources.svg")).unwrap();
    let figure = read("experiments/ars/fig16.toml");
    for (key, _, _) in DEVICE {
        let shares = numbers(figure["measured"].as_table().unwrap(), key);
        let list = shares.iter().map(|share| format!("{share:?}")).collect::<Vec<_>>().join(", ");
        let said = format!("\"{key}\": [{list}]");
        assert!(
            drawing.replace("&quot;", "\"").contains(&said),
            "expected {said} in the drawing's description; run `make draw-rtl`"
        );
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
