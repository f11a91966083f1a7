//! Running a collective on a memory fabric.

use super::build::Built;
use super::error::RunError;
use super::observer::OutputObserver;
use super::{MemoryFabric, Stream};
use crate::outputs::Outputs;
use crate::packet_fabric::{Data, LinkUse};
use crate::progress::{ProgressFn, ignore_progress};
use crate::session::{Next, Runs, Session};
use crate::traffic::Carrying;
use quincunx_collective::Payload;
use quincunx_design::{AnyDesign, PayloadKind, Settings, UnitCounter, UnitEvent};
use quincunx_driver_des::{BusyOverTime, Limits, NodeIndex, Observer};
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_nodes::fabric::{FabricCommand, FabricEvent, FabricNode};
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
    /// How busy each of them was over time, until the last packet.
    pub busy_over_time: BusyOverTime,
    /// What the fullest switch needs for what computes in it: the tables of its units.
    pub switch_buffer: ByteCount,
    /// What the units of each switch have counted.
    pub counters: Vec<(u16, UnitCounter)>,
    /// Steps of the simulation.
    pub steps: u64,
    /// The accelerators' memories.
    pub memories: Vec<P>,
}

impl<P> Outcome<P> {
    /// From the start until the last stream is over.
    pub fn time(&self) -> Duration {
        self.streams.iter().map(|stream| stream.time).max().unwrap_or_default()
    }

    /// What the units of all switches have counted of one kind, together.
    pub fn counted(&self, name: &str) -> u64 {
        self.counters
            .iter()
            .filter(|(_, counter)| counter.name == name)
            .map(|(_, counter)| counter.value)
            .sum()
    }

    /// Bytes that went over the busiest direction of a link, headers among them.
    pub fn busiest_link(&self) -> ByteCount {
        self.links.iter().map(|link| link.statistics.bytes).max().unwrap_or_default()
    }
}

/// Runs a collective on accelerators that begin at the same time, with these memories, which end
/// where the vector ends, or what belongs to it and lies right behind it ([`Form::Codes`](quincunx_design::Form)).
///
/// # Errors
/// If the set-up makes no sense, the design cannot do the collective, or it does not end.
pub fn run<P: PayloadKind>(
    fabric: &MemoryFabric,
    design: &'static dyn AnyDesign,
    settings: &Settings,
    request: InPlaceRequest,
    memories: Vec<P>,
) -> Result<Outcome<P>, RunError> {
    run_streams(fabric, &[Stream { design, settings: settings.clone(), request }], memories)
}

/// The same for several streams side by side, which begin at the same time, too; the memories end where the last vector
/// ends.
///
/// # Errors
/// As [`run`], and if the streams cannot share the fabric.
pub fn run_streams<P: PayloadKind>(
    fabric: &MemoryFabric,
    streams: &[Stream],
    memories: Vec<P>,
) -> Result<Outcome<P>, RunError> {
    run_observed(fabric, streams, memories, (), &mut ignore_progress).map(|(outcome, ())| outcome)
}

/// Runs one collective, writing every packet to `outputs`, and telling how far it has come about every million steps;
/// whoever is told may stop it.
///
/// # Errors
/// As [`run`], if an output cannot be written, or if it was stopped.
pub fn run_with_outputs<P: Data + PayloadKind>(
    fabric: &MemoryFabric,
    stream: Stream,
    memories: Vec<P>,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Outcome<P>, RunError> {
    let streams = [stream];
    if outputs.is_none() {
        return run_observed(fabric, &streams, memories, (), progress).map(|(outcome, ())| outcome);
    }
    let observer = OutputObserver::of(outputs, fabric).map_err(RunError::output)?;
    let (outcome, observer) = run_observed(fabric, &streams, memories, observer, progress)?;
    observer.finish().map_err(RunError::output)?;
    Ok(outcome)
}

/// What a stream has told so far.
#[derive(Clone, Copy, Default)]
struct StreamProgress {
    finished: u16,
    last: Instant,
    begun: Option<Instant>,
    written: Option<Instant>,
}

fn run_observed<P: PayloadKind, O: Observer<FabricNode<P>>>(
    fabric: &MemoryFabric,
    streams: &[Stream],
    memories: Vec<P>,
    observer: O,
    progress: ProgressFn<'_>,
) -> Result<(Outcome<P>, O), RunError> {
    assert_eq!(memories.len(), usize::from(fabric.accelerators), "one memory for each accelerator");
    let ends: Vec<usize> = memories.iter().map(Payload::length).collect();
    let mut built = Built::new(fabric, streams, 1, observer)?;
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
    for &accelerator in &built.accelerators {
        for (&Stream { request, .. }, kernel) in streams.iter().zip(0..) {
            built.simulation.command(accelerator, FabricCommand::Start { kernel, request })?;
        }
    }

    let mut stream_progress = vec![StreamProgress::default(); streams.len()];
    let mut unfinished = usize::from(fabric.accelerators) * streams.len();
    let mut session = Session::new(built.progress(), progress);
    // Traffic goes on when the collectives are over.
    while traffic.is_none() || unfinished > 0 {
        let mut carrying = Carrying { source: traffic.as_mut(), carrier: &mut built };
        match session.next(&mut carrying, Limits::NONE.time)? {
            Next::Event(emitted) => match emitted.event {
                FabricEvent::Finished { kernel } => {
                    let stream = &mut stream_progress[usize::from(kernel)];
                    stream.finished += 1;
                    stream.last = emitted.at;
                    unfinished -= 1;
                }
                FabricEvent::Unit { unit, event: UnitEvent::Begun { stream, .. } } => {
                    let stream = &mut stream_progress[built.layout.stream_of(unit, stream)];
                    stream.begun = stream.begun.or(Some(emitted.at));
                }
                FabricEvent::Unit { unit, event: UnitEvent::Written { stream, .. } } => {
                    stream_progress[built.layout.stream_of(unit, stream)].written = Some(emitted.at);
                }
                FabricEvent::Unit {
                    event: UnitEvent::Taken { .. } | UnitEvent::Released { .. } | UnitEvent::Level { .. },
                    ..
                } => {}
            },
            Next::Idle | Next::TimeLimit => break,
        }
    }
    if let Some(stream) = stream_progress.iter().find(|stream| stream.finished < fabric.accelerators) {
        return Err(RunError::Stalled { expected: fabric.accelerators, found: stream.finished });
    }
    let simulation = &built.simulation;
    let timing = |stream: &StreamProgress| Timing {
        time: stream.last.since(start),
        unsynchronized: stream.begun.zip(stream.written).map(|(begun, written)| written.since(begun)),
    };
    let streams: Vec<Timing> = stream_progress.iter().map(timing).collect();
    let time = streams.iter().map(|stream| stream.time).max().unwrap_or_default();
    let link_use = |direction| {
        let ([from, to], statistics) = (fabric.names(direction), simulation.direction(direction));
        let utilisation =
            if time == Duration::ZERO { 0.0 } else { statistics.busy.as_secs_f64() / time.as_secs_f64() };
        LinkUse { from, to, joins_ranks: [!direction.backward, direction.backward], utilisation, statistics }
    };
    let links: Vec<LinkUse> = fabric.directions().map(link_use).collect();
    let buffers = built.switches.iter().map(|&switch| simulation.engine(switch).buffer_bytes());
    let mut counters = Vec::new();
    for (&switch, number) in built.switches.iter().zip(0..) {
        simulation.engine(switch).count(&mut |counter| counters.push((number, counter)));
    }
    let memory = |(node, end): (&NodeIndex, usize)| {
        let memory = simulation.engine(*node).memory().expect("accelerators have memory");
        P::from_view(memory.view(0..end))
    };
    let outcome = Outcome {
        streams,
        packets: links.iter().map(|link| link.statistics.frames).sum(),
        links,
        busy_over_time: simulation.busy_over_time(),
        switch_buffer: ByteCount::new(buffers.max().unwrap_or(0) as u64),
        counters,
        steps: simulation.steps(),
        memories: built.accelerators.iter().zip(ends).map(memory).collect(),
    };
    Ok((outcome, built.simulation.into_observer()))
}
