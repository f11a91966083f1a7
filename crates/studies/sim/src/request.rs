//! What is asked of a simulation: a scenario, a design and a collective.

use crate::traffic::Offered;
use quincunx_collective::{Collective, Reduction};
use quincunx_design::AnyDesign;
use quincunx_scenario::Scenario;
use quincunx_units::ByteCount;

/// One collective to simulate.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where, and under which circumstances.
    pub scenario: Scenario,
    /// How: a design of the scenario's kind of fabric.
    pub design: &'static dyn AnyDesign,
    /// Which.
    pub collective: Collective,
    /// How elements combine, and what an element is.
    pub reduction: Reduction,
    /// Bytes as nccl-tests count them: of a rank's vector; of a domain's whole one for ReduceScatter and AllGather. Of no account where
    /// the scenario has tokens.
    pub size: ByteCount,
    /// What memory holds.
    pub contents: Contents,
    /// What others send on the same network meanwhile.
    pub background: Option<Offered>,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// What memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contents {
    /// Nothing: only lengths. For large runs.
    LengthOnly,
    /// Numbers, and every result is held against the reference.
    Numbers,
}

impl Contents {
    /// The longest vector that holds numbers unless somebody says otherwise.
    const CHECKED: ByteCount = ByteCount::new(1 << 20);

    /// Numbers, and so a checked result, for vectors of up to 1 MiB, or where all ranks' tokens are no more; lengths alone for longer ones.
    pub fn on(scenario: &Scenario, size: ByteCount) -> Self {
        let size = match &scenario.workload {
            Some(batch) => batch.bytes() * u64::from(scenario.ranks()),
            None => size,
        };
        if size <= Self::CHECKED { Self::Numbers } else { Self::LengthOnly }
    }
}
