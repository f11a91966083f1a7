//! Running a collective on a memory fabric.

use super::watch::Watcher;
use super::{Design, FlitMedium, MemoryFabric};
use crate::outputs::Outputs;
use crate::packet_fabric::{Data, LinkUse};
use quincunx_collective::{Collective, Payload};
use quincunx_driver_des::{Limits, NodeIndex, Observer, Simulation, Stopped};
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_engine::{Engine, PortId};
use quincunx_nodes::fabric::{
    FabricCommand, FabricConfig, FabricConfigError, FabricEvent, FabricNode, FabricRejected,
};
use quincunx_scin::IsaEvent;
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// What a run has given.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<P> {
    /// From the start until the last accelerator knows that the collective is over: with synchronisation.
    pub time: Duration,
    /// Of designs whose switches issue the requests: from the first request to the last write response, without
    /// synchronisation (SCIN 4.3).
    pub unsynchronized: Option<Duration>,
    /// Packets on links, those of credits alone among them.
    pub packets: u64,
    /// Each direction of each link.
    pub links: Vec<LinkUse>,
    /// What the fullest switch needs for what computes in it: wave tables, or the entries of a multicast unit.
    pub switch_buffer: ByteCount,
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
    /// The trace or the capture cannot be written.
    #[error("expected to write every packet, found \"{0}\"; look at the place and its free space")]
    Output(String),
}

impl RunError {
    fn output(error: std::io::Error) -> Self {
        Self::Output(error.to_string())
    }
}

impl<P> Outcome<P> {
    /// Bytes of the vector over time (SCIN 4.3), with synchronisation.
    pub fn bandwidth(&self, length: ByteCount) -> Option<BitRate> {
        BitRate::of_transfer(length, self.time)
    }

    /// Bytes that went over the busiest direction of a link, headers among them.
    pub fn busiest_link(&self) -> ByteCount {
        self.links.iter().map(|link| link.statistics.bytes).max().unwrap_or_default()
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
    run_observed(fabric, design, request, memories, ()).map(|(outcome, ())| outcome)
}

/// The same, writing every packet to `outputs`.
///
/// # Errors
/// As [`run`], and if an output cannot be written.
pub fn run_watched<P: Data>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
    outputs: Outputs,
) -> Result<Outcome<P>, RunError> {
    let watcher = Watcher::new(outputs, fabric).map_err(RunError::output)?;
    let (outcome, watcher) = run_observed(fabric, design, request, memories, watcher)?;
    watcher.finish().map_err(RunError::output)?;
    Ok(outcome)
}

fn run_observed<P: Payload, O: Observer<FabricNode<P>>>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
    observer: O,
) -> Result<(Outcome<P>, O), RunError> {
    assert_eq!(memories.len(), usize::from(fabric.accelerators), "one memory for each accelerator");
    if design == Design::ScinInq && request.collective != Collective::AllReduce {
        return Err(RunError::Quantized(request.collective));
    }
    let ends: Vec<usize> = memories.iter().map(Payload::length).collect();
    let medium = FlitMedium { format: fabric.format, accelerators: fabric.accelerators };
    let mut simulation = Simulation::with_observer(medium, 0, observer);
    let mut add = |config: FabricConfig| -> Result<NodeIndex, RunError> {
        Ok(simulation.add_node(FabricNode::<P>::new(config)?))
    };
    let accelerators: Vec<NodeIndex> = (0..fabric.accelerators)
        .map(|rank| add(fabric.accelerator(rank, design, &request)))
        .collect::<Result<_, _>>()?;
    let switches: Vec<NodeIndex> = (0..fabric.switches)
        .map(|index| add(fabric.switch_config(index, design, &request)))
        .collect::<Result<_, _>>()?;
    for (&accelerator, rank) in accelerators.iter().zip(0..) {
        for (&switch, index) in switches.iter().zip(0..) {
            let ends = ((accelerator, &[PortId(index)][..]), (switch, &[PortId(rank)][..]));
            simulation.connect(ends.0, ends.1, fabric.link);
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
            FabricEvent::Isa(IsaEvent::WaveTaken { .. } | IsaEvent::WaveReleased { .. }) => {}
        }
    }
    if finished != fabric.accelerators {
        return Err(RunError::Stalled { expected: fabric.accelerators, found: finished });
    }
    let time = time.since(Instant::ZERO);
    let link_use = |direction| {
        let ([from, to], statistics) = (fabric.names(direction), simulation.direction(direction));
        let utilisation =
            if time == Duration::ZERO { 0.0 } else { statistics.busy.as_secs_f64() / time.as_secs_f64() };
        LinkUse { from, to, utilisation, statistics }
    };
    let links: Vec<LinkUse> = fabric.directions().map(link_use).collect();
    let buffers = switches.iter().map(|&switch| simulation.engine(switch).buffer_bytes());
    let memory = |(node, end): (&NodeIndex, usize)| {
        let memory = simulation.engine(*node).memory().expect("accelerators have memory");
        P::from_view(memory.view(0..end))
    };
    let outcome = Outcome {
        time,
        unsynchronized: begun.zip(written).map(|(begun, written): (Instant, Instant)| written.since(begun)),
        packets: links.iter().map(|link| link.statistics.frames).sum(),
        links,
        switch_buffer: ByteCount::new(buffers.max().unwrap_or(0) as u64),
        steps: simulation.steps(),
        memories: accelerators.iter().zip(ends).map(memory).collect(),
    };
    Ok((outcome, simulation.into_observer()))
}
