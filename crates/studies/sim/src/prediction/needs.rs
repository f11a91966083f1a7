//! What a design needs of switches.

use super::error::PredictionError;
use super::network::Network;
use crate::{Contents, Outputs, Request, ignore_progress, measure};
use quincunx_cluster::Cluster;
use quincunx_collective::{DataType, ReduceOp, Reduction};
use quincunx_design::AnyDesign;
use quincunx_fabric::NodeKind;
use quincunx_scenario::Fabric;
use quincunx_units::ByteCount;

/// Switches that take part in collectives, and what each of them must have for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchNeeds {
    /// Their names.
    pub switches: Vec<String>,
    /// Ports of all of them.
    pub ports: usize,
    /// Memory of the fullest: payload and degree buffers, wave tables, or entries of a multicast unit.
    pub memory: ByteCount,
    /// The unit that each has, on a memory fabric.
    pub unit: Option<&'static str>,
}

/// The longest vector that is one packet.
const PACKET: ByteCount = ByteCount::new(1 << 10);

impl Network {
    /// What a design needs of switches here; nothing if they forward only.
    pub(super) fn needs(
        &self,
        design: &'static dyn AnyDesign,
    ) -> Result<Option<SwitchNeeds>, PredictionError> {
        match &self.scenario.fabric {
            Fabric::Memory(fabric) => {
                let Some(unit) = design.about().unit else { return Ok(None) };
                let offered = design.about().collectives(self.scenario.kind());
                let Some(&collective) = offered.first() else { return Ok(None) };
                let request = Request {
                    scenario: self.scenario.clone(),
                    design,
                    collective,
                    reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F16 },
                    size: PACKET,
                    contents: Contents::LengthOnly,
                    background: None,
                    seed: 1,
                };
                let measured = measure(&request, Outputs::default(), &mut ignore_progress)
                    .map_err(|error| self.no_run(&request, PACKET, error))?;
                let switches: Vec<String> =
                    (0..fabric.switches).map(|number| format!("switch-{number}")).collect();
                let ports = switches.len() * usize::from(fabric.accelerators);
                Ok(Some(SwitchNeeds { switches, ports, memory: measured.switch_buffer, unit: Some(unit) }))
            }
            Fabric::Packet(_) => {
                let cluster = Cluster::of(&self.scenario, design, PACKET).map_err(|error| {
                    PredictionError::Deployment(format!("{} on {}: {error}", design.name(), self.fabric))
                })?;
                let wiring = cluster.wiring();
                let takes_part = |&(node, _): &(usize, &_)| cluster.context(node).is_some();
                let nodes = wiring.nodes().iter().enumerate();
                let switches: Vec<_> =
                    nodes.filter(|(_, node)| node.kind == NodeKind::Switch).filter(takes_part).collect();
                let ports = |node| {
                    wiring.links().iter().filter(move |link| link.ends.iter().any(|end| end.node == node))
                };
                let memory = |node| cluster.context(node).map(|context| context.memory).unwrap_or_default();
                if switches.is_empty() {
                    return Ok(None);
                }
                Ok(Some(SwitchNeeds {
                    ports: switches.iter().map(|&(node, _)| ports(node).count()).sum(),
                    memory: switches.iter().map(|&(node, _)| memory(node)).max().unwrap_or_default(),
                    switches: switches.into_iter().map(|(_, node)| node.name.clone()).collect(),
                    unit: None,
                }))
            }
            _ => Ok(None),
        }
    }
}
