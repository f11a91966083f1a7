//! Running a collective on a memory fabric.

use super::build::Built;
use super::watch::Watcher;
use super::{Design, MemoryFabric};
use crate::outputs::Outputs;
use crate::packet_fabric::{Data, LinkUse};
use crate::progress::{Progress, STEPS_A_REPORT, Watch, unwatched};
use quincunx_collective::{Collective, Payload};
use quincunx_driver_des::{Limits, NodeIndex, Observer, Stopped};
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_nodes::fabric::{FabricCommand, FabricConfigError, FabricEvent, FabricNode, FabricRejected};
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

/// Bytes that an instruction can be about, less a packet, to whose multiples shares are cut (SCIN figure 6: 32 bits).
const LONGEST_INSTRUCTION: usize = u32::MAX as usize - 4095;

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
    /// An instruction cannot say that many bytes.
    #[error(
        "expected less than 4 GiB for each of {switches} `switches` in one collective of SCIN, found a size of {length} bytes; reduce a part at a time"
    )]
    Length {
        /// Switches, which share the vector.
        switches: u16,
        /// Bytes of the vector.
        length: usize,
    },
    /// Traffic has nowhere to go.
    #[error("expected two `accelerators` or more for traffic, found one; add some")]
    OneAccelerator,
    /// The owner has stopped it.
    #[error("stopped after {after} of virtual time")]
    Stopped {
        /// When.
        after: Duration,
    },
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
///
/// # Errors
/// If the set-up makes no sense, a design cannot do the collective, or it does not end.
pub fn run<P: Payload>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
) -> Result<Outcome<P>, RunError> {
    run_observed(fabric, design, request, memories, (), &mut unwatched).map(|(outcome, ())| outcome)
}

/// The same, writing every packet to `outputs`, and telling how far it has come about every million steps; whoever is told
/// may stop it.
///
/// # Errors
/// As [`run`], if an output cannot be written, or if it was stopped.
pub fn run_watched<P: Data>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Outcome<P>, RunError> {
    if outputs.is_none() {
        return run_observed(fabric, design, request, memories, (), progress).map(|(outcome, ())| outcome);
    }
    let watcher = Watcher::new(outputs, fabric).map_err(RunError::output)?;
    let (outcome, watcher) = run_observed(fabric, design, request, memories, watcher, progress)?;
    watcher.finish().map_err(RunError::output)?;
    Ok(outcome)
}

fn run_observed<P: Payload, O: Observer<FabricNode<P>>>(
    fabric: &MemoryFabric,
    design: Design,
    request: InPlaceRequest,
    memories: Vec<P>,
    observer: O,
    progress: Watch<'_>,
) -> Result<(Outcome<P>, O), RunError> {
    assert_eq!(memories.len(), usize::from(fabric.accelerators), "one memory for each accelerator");
    if design == Design::ScinInq && request.collective != Collective::AllReduce {
        return Err(RunError::Quantized(request.collective));
    }
    let share = request.span.length.div_ceil(usize::from(fabric.switches));
    if matches!(design, Design::Scin | Design::ScinInq) && share > LONGEST_INSTRUCTION {
        return Err(RunError::Length { switches: fabric.switches, length: request.span.length });
    }
    let ends: Vec<usize> = memories.iter().map(Payload::length).collect();
    let mut built = Built::new(fabric, design, &request, observer)?;
    for (&accelerator, memory) in built.accelerators.iter().zip(memories) {
        let size = built.simulation.engine(accelerator).memory().map_or(0, Payload::length);
        let mut filled = P::zeroed(size);
        filled.write(0, memory.view(0..memory.length()));
        built.simulation.command(accelerator, FabricCommand::Fill(filled))?;
    }
    let mut traffic = match fabric.traffic {
        Some((offered, seed)) => Some(built.settle(offered, fabric, seed)?),
        None => None,
    };
    let start = built.simulation.now();
    for (&switch, index) in built.switches.iter().zip(0..) {
        if let Some(command) = fabric.preload(index, design, &request) {
            built.simulation.command(switch, command)?;
        }
    }
    for &accelerator in &built.accelerators {
        built.simulation.command(accelerator, FabricCommand::Start(request))?;
    }

    let (mut unfinished, mut begun, mut written) = (fabric.accelerators, None, None);
    let mut time = start;
    let mut limits = Limits { steps: built.simulation.steps() + STEPS_A_REPORT, ..Limits::NONE };
    loop {
        let stopped = match &mut traffic {
            // Traffic goes on when the collective is over.
            Some(_) if unfinished == 0 => break,
            Some(traffic) => traffic.run(&mut built, limits),
            None => built.simulation.run(limits),
        };
        match stopped {
            Stopped::Event(emitted) => match emitted.event {
                FabricEvent::Finished => {
                    unfinished -= 1;
                    time = emitted.at;
                }
                FabricEvent::Isa(IsaEvent::Started { .. }) => begun = begun.or(Some(emitted.at)),
                FabricEvent::Isa(IsaEvent::Written { .. }) => written = Some(emitted.at),
                FabricEvent::Isa(IsaEvent::WaveTaken { .. } | IsaEvent::WaveReleased { .. }) => {}
            },
            Stopped::StepLimit => {
                let simulation = &built.simulation;
                let at = Progress { now: simulation.now(), steps: simulation.steps() };
                if progress(at).is_break() {
                    return Err(RunError::Stopped { after: simulation.now().since(start) });
                }
                limits.steps += STEPS_A_REPORT;
            }
            Stopped::Idle | Stopped::TimeLimit => break,
        }
    }
    if unfinished > 0 {
        let expected = fabric.accelerators;
        return Err(RunError::Stalled { expected, found: expected - unfinished });
    }
    let simulation = &built.simulation;
    let time = time.since(start);
    let link_use = |direction| {
        let ([from, to], statistics) = (fabric.names(direction), simulation.direction(direction));
        let utilisation =
            if time == Duration::ZERO { 0.0 } else { statistics.busy.as_secs_f64() / time.as_secs_f64() };
        LinkUse { from, to, utilisation, statistics }
    };
    let links: Vec<LinkUse> = fabric.directions().map(link_use).collect();
    let buffers = built.switches.iter().map(|&switch| simulation.engine(switch).buffer_bytes());
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
        memories: built.accelerators.iter().zip(ends).map(memory).collect(),
    };
    Ok((outcome, built.simulation.into_observer()))
}
