//! Requests of tests: a preset with keys changed, a design of the catalog, a collective of binary32 values.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_designs::CATALOG;
use quincunx_scenario::{Override, Scenario};
use quincunx_sim::{Contents, Request};
use quincunx_units::ByteCount;

pub const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

/// How lost packets are sent again in EPIC's model of loss (7.4): `experiments/epic/table31.toml` has it, with the reason.
pub const IDEALISED: [&str; 3] =
    ["group.selective=true", "group.retry_timeout=10us", "group.retry_count=200"];

/// A scenario with keys changed: `group.window=2`.
pub fn scenario(name: &str, changes: &[&str]) -> Scenario {
    let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::find(name, &changes, CATALOG).unwrap()
}

/// A collective of numbers, with seed 1.
pub fn request(scenario: &Scenario, design: &str, collective: Collective, size: u64) -> Request {
    Request {
        scenario: scenario.clone(),
        design: scenario.design(CATALOG, design).unwrap(),
        collective,
        reduction: SUM,
        size: ByteCount::new(size),
        contents: Contents::Numbers,
        background: None,
        seed: 1,
    }
}

/// The same of lengths alone.
pub fn lengths(request: Request) -> Request {
    Request { contents: Contents::LengthOnly, ..request }
}
