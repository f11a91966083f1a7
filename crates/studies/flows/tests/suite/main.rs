//! Clusters by flows: EPIC's tables 36 to 42, the manager beside the simulation, and what must hold of any run.

mod failures;
mod files;
mod locks;
mod manager;
mod refusals;
mod tables;
mod tenants;
mod usage;

use quincunx_designs::CATALOG;
use quincunx_flows::{Cluster, TenancyError, TenancyMeasurement, TenancyRequest, measure_tenancy};
use quincunx_scenario::{Tenancy, TenancyPolicy};
use std::ops::ControlFlow;

/// A preset with keys changed.
fn preset(name: &str, changes: &[&str]) -> Tenancy {
    let changes: Vec<_> = changes.iter().map(|change| change.parse().unwrap()).collect();
    Tenancy::find(name, &changes).unwrap()
}

fn tried(
    tenancy: &Tenancy,
    policy: TenancyPolicy,
    units: u32,
    only: Option<usize>,
) -> Result<TenancyMeasurement, TenancyError> {
    seeded(tenancy, policy, units, only, 1)
}

fn seeded(
    tenancy: &Tenancy,
    policy: TenancyPolicy,
    units: u32,
    only: Option<usize>,
    seed: u64,
) -> Result<TenancyMeasurement, TenancyError> {
    let cluster = Cluster::of(tenancy, CATALOG)?;
    let request = TenancyRequest {
        tenancy,
        cluster: &cluster,
        catalog: CATALOG,
        policy,
        units,
        seed,
        only,
        watched: true,
    };
    measure_tenancy(&request, &mut |_| ControlFlow::Continue(()))
}

/// A run to its end.
fn measured(tenancy: &Tenancy, policy: TenancyPolicy, units: u32, only: Option<usize>) -> TenancyMeasurement {
    tried(tenancy, policy, units, only).unwrap()
}
