//! The wiring of a scenario's fabric, and the group that a design plans on it.

use crate::{Cluster, GroupSpec, Wiring, address};
use quincunx_collective::Routing;
use quincunx_design::{AnyDesign, Demand, FabricKind, Refusal};
use quincunx_fabric::LinkProperties;
use quincunx_scenario::{Fabric, Scenario, ScenarioError, TokenBatch, TopologyName};
use quincunx_units::ByteCount;

/// Why a scenario gives no cluster.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClusterError {
    /// The scenario has a value that the design does not take.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The design refuses the fabric or its parameters.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Wiring {
    /// The hosts and switches of a fabric; for accelerators on a memory fabric those that have no switch between, as there the others have
    /// a wiring of their own.
    pub fn of(fabric: &Fabric) -> Option<Self> {
        let packets =
            |link: &quincunx_scenario::PacketLink| LinkProperties { rate: link.rate, latency: link.latency };
        Some(match fabric {
            Fabric::Packet(fabric) => {
                let wiring = match &fabric.topology {
                    TopologyName::Tree(shape) => Self::tree(shape, packets(&fabric.link)),
                    TopologyName::Ring(hosts) => Self::ring(*hosts, packets(&fabric.link)),
                    TopologyName::Switched(shape) => Self::switched(&shape.topology(packets(&fabric.link))),
                    TopologyName::Listed(topology) => Self::switched(topology),
                };
                wiring.with_placement(&fabric.placement).with_delays(fabric.delays)
            }
            Fabric::Mesh(fabric) => Self::mesh(fabric.groups, fabric.members, packets(&fabric.link), "host-"),
            Fabric::MemoryMesh(fabric) => {
                let link = LinkProperties { rate: fabric.link.rate, latency: fabric.link.latency };
                let mesh = Self::mesh(fabric.groups, fabric.members, link, "accelerator");
                mesh.of_kind(FabricKind::MemoryMesh)
            }
            Fabric::Servers(fabric) => {
                let network = &fabric.network;
                let network = LinkProperties { rate: network.rate, latency: network.latency };
                Self::servers(fabric.servers, fabric.members, packets(&fabric.link), network)
            }
            Fabric::Memory(_) => return None,
        })
    }
}

/// Bytes of a token as it travels: its values, and behind them its routing.
pub fn token_length(batch: &TokenBatch) -> ByteCount {
    batch.token + ByteCount::new(Routing::length(batch.top_k) as u64)
}

/// What a scenario asks of a group: its tokens, or vectors of which a rank's longest input has so many bytes.
pub fn demand(scenario: &Scenario, longest: ByteCount) -> Demand {
    match &scenario.workload {
        Some(batch) => Demand::Tokens { most: batch.most_tokens() as u32, length: token_length(batch) },
        None => Demand::Vectors { longest },
    }
}

impl Cluster {
    /// The group of a scenario: `design` on its fabric with its settings, for its tokens or for inputs of up to `longest` bytes.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the design does not take a value.
    ///
    /// # Panics
    /// If the fabric is one of accelerators around switches, which have no hosts.
    pub fn of(
        scenario: &Scenario,
        design: &'static dyn AnyDesign,
        longest: ByteCount,
    ) -> Result<Self, ClusterError> {
        let settings = scenario.settings(design)?;
        Self::with_settings(scenario, &GroupSpec::new(design, settings, demand(scenario, longest)))
    }

    /// The same with settings that somebody else has looked up.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// As [`of`](Self::of).
    pub fn with_settings(scenario: &Scenario, group: &GroupSpec) -> Result<Self, ClusterError> {
        let wiring = Wiring::of(&scenario.fabric).expect("designs above queue pairs run among hosts");
        Ok(Self::new(wiring, address, group)?)
    }
}
