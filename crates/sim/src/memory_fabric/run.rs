//! Running a collective on a memory fabric.

use super::stream::Layout;
use super::watch::Watcher;
use super::{Design, FlitMedium, MemoryFabric, Stream};
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
use quincunx_units::{ByteCount, Duration, Instant};

/// How long a collective took.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timing {
    /// From the start until the last accelerator knows that the collective is over: with synchronisation.
    pub time: Duration,
    /// Of designs whose switches issue the requests: from the first request to the last write response, without
    /// synchronisation (SCIN 4.3).
    pub unsynchronized: Option<Duration>,
}

/// What a run has given.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<P> {
    /// Of each stream.
    pub streams: Vec<Timing>,
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
    /// Several streams whose accelerators load, store or add: an accelerator has one fence.
    #[error(
        "expected at most one stream beside those that run in the switches, found {0}; run the others by themselves"
    )]
    Streams(usize),
    /// Streams that add differently, or none: a switch has one accumulator.
    #[error("expected streams of one operation and one type of elements, found several or no streams")]
    Reductions,
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
    /// From the start until the last stream is over.
    pub fn time(&self) -> Duration {
        self.streams.iter().map(|stream| stream.time).max().unwrap_or_default()
    }

    /// Bytes that went over the busiest direction of a link, headers among them.
    pub fn busiest_link(&self) -> ByteCount {
        self.links.iter().map(|link| link.statistics.bytes).max().unwrap_or_default()
    }
}

/// Runs a collective on accelerators that begin at the same time, with these memories, which end
/// where the vector ends, or its scale factors if it is quantised in the network.
pub fn run<P: Payload>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
) -> Result<Outcome<P>, RunError> {
    run_streams(fabric, &[Stream { design, request }], memories)
}

/// The same for several streams side by side, which begin at the same time, too; the memories end where the last vector
/// ends.
pub fn run_streams<P: Payload>(
    fabric: &MemoryFabric,
    streams: &[Stream],
    memories: Vec<P>,
) -> Result<Outcome<P>, RunError> {
    run_observed(fabric, streams, memories, ()).map(|(outcome, ())| outcome)
}

/// Runs one collective, writing every packet to `outputs`.
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
    let (outcome, watcher) = run_observed(fabric, &[Stream { design, request }], memories, watcher)?;
    watcher.finish().map_err(RunError::output)?;
    Ok(outcome)
}

/// What a stream has told so far.
#[derive(Clone, Copy, Default)]
struct Told {
    finished: u16,
    last: Instant,
    begun: Option<Instant>,
    written: Option<Instant>,
}

fn run_observed<P: Payload, O: Observer<FabricNode<P>>>(
    fabric: &MemoryFabric,
    streams: &[Stream],
    memories: Vec<P>,
    observer: O,
) -> Result<(Outcome<P>, O), RunError> {
    assert_eq!(memories.len(), usize::from(fabric.accelerators), "one memory for each accelerator");
    let quantized = |stream: &&Stream| stream.design == Design::ScinInq;
    if let Some(stream) =
        streams.iter().filter(quantized).find(|stream| stream.request.collective != Collective::AllReduce)
    {
        return Err(RunError::Quantized(stream.request.collective));
    }
    let layout = Layout::new(fabric, streams);
    if layout.worked() > 1 {
        return Err(RunError::Streams(layout.worked()));
    }
    let reduction = layout.reduction().ok_or(RunError::Reductions)?;
    let ends: Vec<usize> = memories.iter().map(Payload::length).collect();
    let medium = FlitMedium { format: fabric.format, accelerators: fabric.accelerators };
    let mut simulation = Simulation::with_observer(medium, 0, observer);
    let mut add = |config: FabricConfig| -> Result<NodeIndex, RunError> {
        Ok(simulation.add_node(FabricNode::<P>::new(config)?))
    };
    let accelerators: Vec<NodeIndex> =
        (0..fabric.accelerators).map(|rank| add(layout.accelerator(rank))).collect::<Result<_, _>>()?;
    let switches: Vec<NodeIndex> =
        (0..fabric.switches).map(|index| add(layout.switch(index, reduction))).collect::<Result<_, _>>()?;
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
        for command in layout.preload(index) {
            simulation.command(switch, command)?;
        }
    }
    for &accelerator in &accelerators {
        for (&Stream { request, .. }, kernel) in streams.iter().zip(0..) {
            simulation.command(accelerator, FabricCommand::Start { kernel, request })?;
        }
    }

    let mut told = vec![Told::default(); streams.len()];
    while let Stopped::Event(emitted) = simulation.run(Limits::NONE) {
        match emitted.event {
            FabricEvent::Finished { kernel } => {
                let stream = &mut told[usize::from(kernel)];
                stream.finished += 1;
                stream.last = emitted.at;
            }
            FabricEvent::Isa(IsaEvent::Started { controller, .. }) => {
                let stream = &mut told[layout.controlled(controller)];
                stream.begun = stream.begun.or(Some(emitted.at));
            }
            FabricEvent::Isa(IsaEvent::Written { controller, .. }) => {
                told[layout.controlled(controller)].written = Some(emitted.at);
            }
            FabricEvent::Isa(IsaEvent::WaveTaken { .. } | IsaEvent::WaveReleased { .. }) => {}
        }
    }
    if let Some(stream) = told.iter().find(|stream| stream.finished != fabric.accelerators) {
        return Err(RunError::Stalled { expected: fabric.accelerators, found: stream.finished });
    }
    let timing = |stream: &Told| Timing {
        time: stream.last.since(Instant::ZERO),
        unsynchronized: stream.begun.zip(stream.written).map(|(begun, written)| written.since(begun)),
    };
    let streams: Vec<Timing> = told.iter().map(timing).collect();
    let time = streams.iter().map(|stream| stream.time).max().unwrap_or_default();
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
        streams,
        packets: links.iter().map(|link| link.statistics.frames).sum(),
        links,
        switch_buffer: ByteCount::new(buffers.max().unwrap_or(0) as u64),
        steps: simulation.steps(),
        memories: accelerators.iter().zip(ends).map(memory).collect(),
    };
    Ok((outcome, simulation.into_observer()))
}
