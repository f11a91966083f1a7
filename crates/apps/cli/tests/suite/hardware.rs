//! Real ranks, and in the place of their switch simulated hardware: their sums are right to the bit, and what it cannot be in is refused.

use crate::processes::{Ending, eventually, listens_at, quincunx, rows, start};
use quincunx_needs::{hardware_simulator, need};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::Path;

/// What the simulated window asks for, and time for a run of it.
const SHAPE: &str = "--set group.selective=false --set group.window=4 --set group.message=1 --payload 1024 --retry-timeout 5s";

/// A manager, and a switch whose hardware is simulated.
struct Simulated {
    at: String,
    _nodes: [Ending; 2],
}

impl Simulated {
    fn start(simulator: &Path, number: u8) -> Self {
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 208 | high & 7, low, number);
        let mut manager = start("manager --listen 127.0.0.1:0", None);
        let at = listens_at(&mut manager);
        let program = simulator.display();
        let switch =
            start(&format!("switch --name s0 --address {address} --manager {at} --hardware {program}"), None);
        let nodes = || {
            let listed = quincunx(&format!("nodes --manager {at} --json"));
            let json: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            json["nodes"].as_array().map_or(0, Vec::len)
        };
        eventually("a switch", || nodes() == 1);
        Self { at, _nodes: [manager, switch] }
    }

    /// A row of a measurement.
    fn perf(&self, arguments: &str) -> Value {
        let run = format!("perf {arguments} --size 8KiB --iterations 2 --json --manager {}", self.at);
        rows(&quincunx(&run)).remove(0)
    }
}

#[test]
fn ranks_of_ours_get_the_right_numbers_from_hardware() {
    let simulated = Simulated::start(&need!(hardware_simulator()), 1);
    for run in ["all_reduce -g 3", "all_reduce -g 2 --dtype bf16", "broadcast -g 3 --root 1", "reduce -g 2"] {
        let row = simulated.perf(&format!("{run} --design epic-2 {SHAPE}"));
        assert_eq!((&row["wrong"], &row["design"]), (&0.into(), &"epic-2".into()), "{run}: {row}");
    }
}

#[test]
fn a_group_that_hardware_cannot_be_in_ends_with_what_would_let_it() {
    let simulated = Simulated::start(&need!(hardware_simulator()), 2);
    let refused = [
        ("epic-3", SHAPE.to_string(), "expected a group in Mode-II, found one in Mode-III"),
        ("epic-2", SHAPE.replace("selective=false", "selective=true"), "set group.selective=false"),
        ("epic-2", SHAPE.replace("window=4", "window=8"), "a window of 4 packets"),
        ("epic-1", SHAPE.to_string(), "expected a group whose frames are for the switch"),
    ];
    for (design, shape, expected) in refused {
        let run =
            format!("perf all_reduce -g 2 --design {design} {shape} --size 8KiB --manager {}", simulated.at);
        let said = String::from_utf8(quincunx(&run).stderr).expect("text");
        assert!(said.contains(expected), "{design}: {said}");
    }
}

#[test]
fn a_program_that_is_no_simulator_ends_the_switch_at_once() {
    let refused = quincunx("switch --name s0 --address 127.0.0.1 --hardware /absent");
    let said = String::from_utf8(refused.stderr).expect("text");
    assert!(said.starts_with("error: expected a simulator of hardware at /absent"), "{said}");
    assert_eq!(refused.status.code(), Some(2), "{said}");
}
