//! Running a collective on a memory fabric.

use super::{Design, FlitMedium, MemoryFabric};
use quincunx_collective::{Collective, Payload};
use quincunx_driver_des::{Limits, LinkIndex, NodeIndex, Simulation, Stopped};
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_engine::{Engine, PortId};
use quincunx_nodes::fabric::{
    FabricCommand, FabricConfig, FabricConfigError, FabricEvent, FabricNode, FabricRejected,
};
use quincunx_scin::IsaEvent;
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// What a run has given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome<P> {
    /// From the start until the last accelerator knows that the collective is over: with synchronisation.
    pub time: Duration,
    /// Of designs whose switches issue the requests: from the first request to the last write response, without
    /// synchronisation (SCIN 4.3).
    pub unsynchronized: Option<Duration>,
    /// Packets on links, credits alone not counted.
    pub packets: u64,
    /// Bytes that went over the busiest direction of a link, headers among them.
    pub busiest_link: ByteCount,
    /// Steps of the simulation.
    pub steps: u64,
    /// The accelerators' memories.
    pub memories: Vec<P>,
}

/// Why a run has given nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The set-up makes no sense.
    #[error(transparent)]
    Config(#[from] FabricConfigError),
    /// The collective cannot be done so.
    #[error(transparent)]
    Rejected(#[from] FabricRejected),
    /// A collective that there is no quantised form of.
    #[error("expected all_reduce quantised in the network, found {0}; the paper has no other")]
    Quantized(Collective),
    /// Nothing more happens, and the collective is not over.
    #[error(
        "expected {expected} accelerators to finish, found {found} when nothing more could happen; this is a fault of the protocol"
    )]
    Stalled {
        /// Accelerators.
        expected: u16,
        /// Of them, those that did.
        found: u16,
    },
}

impl<P> Outcome<P> {
    /// Bytes of the vector over time (SCIN 4.3), with synchronisation.
    pub fn bandwidth(&self, length: ByteCount) -> Option<BitRate> {
        BitRate::of_transfer(length, self.time)
    }
}

/// Runs a collective on accelerators that begin at the same time, with these memories, which end
/// where the vector ends, or its scale factors if it is quantised.
pub fn run<P: Payload>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
) -> Result<Outcome<P>, RunError> {
    assert_eq!(memories.len(), usize::from(fabric.accelerators), "one memory for each accelerator");
    if design == Design::ScinInq && request.collective != Collective::AllReduce {
        return Err(RunError::Quantized(request.collective));
    }
    let ends: Vec<usize> = memories.iter().map(Payload::length).collect();
    let medium = FlitMedium { format: fabric.format, accelerators: fabric.accelerators };
    let mut simulation = Simulation::new(medium, 0);
    let mut add = |config: FabricConfig| -> Result<NodeIndex, RunError> {
        Ok(simulation.add_node(FabricNode::<P>::new(config)?))
    };
    let accelerators: Vec<NodeIndex> = (0..fabric.accelerators)
        .map(|rank| add(fabric.accelerator(rank, design, &request)))
        .collect::<Result<_, _>>()?;
    let switches: Vec<NodeIndex> = (0..fabric.switches)
        .map(|index| add(fabric.switch_config(index, design, &request)))
        .collect::<Result<_, _>>()?;
    let mut links: Vec<LinkIndex> = Vec::new();
    for (&accelerator, rank) in accelerators.iter().zip(0..) {
        for (&switch, index) in switches.iter().zip(0..) {
            let ends = ((accelerator, &[PortId(index)][..]), (switch, &[PortId(rank)][..]));
            links.push(simulation.connect(ends.0, ends.1, fabric.link));
        }
    }
    for (&accelerator, memory) in accelerators.iter().zip(memories) {
        let size = simulation.engine(accelerator).memory().map_or(0, Payload::length);
        let mut filled = P::zeroed(size);
        filled.write(0, memory.view(0..memory.length()));
        simulation.command(accelerator, FabricCommand::Fill(filled))?;
    }
    for (&switch, index) in switches.iter().zip(0..) {
        if let Some(command) = fabric.preload(index, design, &request) {
            simulation.command(switch, command)?;
        }
    }
    for &accelerator in &accelerators {
        simulation.command(accelerator, FabricCommand::Start(request))?;
    }

    let (mut finished, mut begun, mut written) = (0, None, None);
    let mut time = Instant::ZERO;
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        match emitted.event {
            FabricEvent::Finished => {
                finished += 1;
                time = emitted.at;
            }
            FabricEvent::Isa(IsaEvent::Started { .. }) => begun = begun.or(Some(emitted.at)),
            FabricEvent::Isa(IsaEvent::Written { .. }) => written = Some(emitted.at),
        }
    }
    if finished != fabric.accelerators {
        return Err(RunError::Stalled { expected: fabric.accelerators, found: finished });
    }
    let directions = links.iter().flat_map(|link| [link.forward(), link.backward()]);
    let statistics: Vec<_> = directions.map(|direction| simulation.direction(direction)).collect();
    let memory = |(node, end): (&NodeIndex, usize)| {
        let memory = simulation.engine(*node).memory().expect("accelerators have memory");
        P::from_view(memory.view(0..end))
    };
    Ok(Outcome {
        time: time.since(Instant::ZERO),
        unsynchronized: begun.zip(written).map(|(begun, written): (Instant, Instant)| written.since(begun)),
        packets: statistics.iter().map(|direction| direction.frames).sum(),
        busiest_link: statistics.iter().map(|direction| direction.bytes).max().unwrap_or_default(),
        steps: simulation.steps(),
        memories: accelerators.iter().zip(ends).map(memory).collect(),
    })
}
