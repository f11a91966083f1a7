//! From a fabric to nodes on links.

use super::stream::layout;
use super::{FlitMedium, MemoryFabric, RunError, Stream};
use quincunx_cluster::MemoryLayout;
use quincunx_collective::Payload;
use quincunx_design::PayloadKind;
use quincunx_driver_des::{NodeIndex, Observer, Simulation};
use quincunx_engine::{Engine, PortId};
use quincunx_nodes::fabric::{FabricConfig, FabricNode};

/// Nodes on links, set up for streams of collectives.
pub(crate) struct Built<P: Payload, O> {
    pub(crate) simulation: Simulation<FabricNode<P>, FlitMedium, O>,
    pub(crate) accelerators: Vec<NodeIndex>,
    pub(crate) switches: Vec<NodeIndex>,
    /// Where the streams have what.
    pub(super) layout: MemoryLayout,
    /// Bytes of a full packet.
    pub(super) packet: usize,
}

impl<P: PayloadKind, O: Observer<FabricNode<P>>> Built<P, O> {
    /// Nodes that run each stream so many times at most.
    pub(crate) fn new(
        fabric: &MemoryFabric,
        streams: &[Stream],
        times: u16,
        observer: O,
    ) -> Result<Self, RunError> {
        let layout = layout(fabric, streams, times)?;
        let medium = FlitMedium { format: fabric.format, accelerators: fabric.accelerators, gap: fabric.gap };
        let mut simulation = Simulation::with_observer(medium, 0, observer);
        let mut add = |config: FabricConfig<P>| {
            let Ok(node) = FabricNode::new(config);
            simulation.add_node(node)
        };
        let accelerators: Vec<NodeIndex> = (0..fabric.accelerators)
            .map(|rank| Ok(add(layout.accelerator(rank)?)))
            .collect::<Result<_, RunError>>()?;
        let switches: Vec<NodeIndex> = (0..fabric.switches)
            .map(|index| Ok(add(layout.switch(index)?)))
            .collect::<Result<_, RunError>>()?;
        for (&accelerator, rank) in accelerators.iter().zip(0..) {
            for (&switch, index) in switches.iter().zip(0..) {
                let ends = ((accelerator, &[PortId(index)][..]), (switch, &[PortId(rank)][..]));
                simulation.connect(ends.0, ends.1, fabric.link);
            }
        }
        Ok(Self { simulation, accelerators, switches, layout, packet: fabric.format.max_payload })
    }
}
