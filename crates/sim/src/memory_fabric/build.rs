//! From a fabric to nodes on links.

use super::{Design, FlitMedium, MemoryFabric};
use quincunx_collective::Payload;
use quincunx_driver_des::{NodeIndex, Observer, Simulation};
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_engine::{Engine, PortId};
use quincunx_nodes::fabric::{FabricConfig, FabricConfigError, FabricNode};

/// Nodes on links, set up for a collective by a design.
pub(crate) struct Built<P: Payload, O> {
    pub(crate) simulation: Simulation<FabricNode<P>, FlitMedium, O>,
    pub(crate) accelerators: Vec<NodeIndex>,
    pub(crate) switches: Vec<NodeIndex>,
    /// Bytes of a full packet.
    pub(super) packet: usize,
}

impl<P: Payload, O: Observer<FabricNode<P>>> Built<P, O> {
    pub(crate) fn new(
        fabric: &MemoryFabric,
        design: Design,
        request: &InPlaceRequest,
        observer: O,
    ) -> Result<Self, FabricConfigError> {
        let medium = FlitMedium { format: fabric.format, accelerators: fabric.accelerators };
        let mut simulation = Simulation::with_observer(medium, 0, observer);
        let mut add = |config: FabricConfig| Ok(simulation.add_node(FabricNode::<P>::new(config)?));
        let accelerators: Vec<NodeIndex> = (0..fabric.accelerators)
            .map(|rank| add(fabric.accelerator(rank, design, request)))
            .collect::<Result<_, FabricConfigError>>()?;
        let switches: Vec<NodeIndex> = (0..fabric.switches)
            .map(|index| add(fabric.switch_config(index, design, request)))
            .collect::<Result<_, FabricConfigError>>()?;
        for (&accelerator, rank) in accelerators.iter().zip(0..) {
            for (&switch, index) in switches.iter().zip(0..) {
                let ends = ((accelerator, &[PortId(index)][..]), (switch, &[PortId(rank)][..]));
                simulation.connect(ends.0, ends.1, fabric.link);
            }
        }
        Ok(Self { simulation, accelerators, switches, packet: fabric.format.max_payload })
    }
}
