//! Runs jobs: starts each when it is due, again as often as it is asked to, and ends when all have ended.

use super::observer::{JobObserver, Troubled};
use super::prepare::Job;
use super::streams::{Stream, Streaming};
use super::{JobMeasurement, JobsError, JobsMeasurement, JobsRequest, SharedLink, StreamMeasurement, memory};
use crate::memory_fabric::MemoryFabric;
use crate::packet_fabric::{Built, Data, OutputObserver, Retransmissions, SimulationError, counts};
use crate::progress::ProgressFn;
use crate::session::{Next, Runs, Session};
use crate::traffic::Meter;
use crate::{Contents, Outputs};
use quincunx_collective::{GroupId, LengthOnly, Numbers, Rank};
use quincunx_driver_des::{Limits, NodeIndex};
use quincunx_engine::Terms;
use quincunx_engine::verbs::Outcome;
use quincunx_nodes::{HostCommand, HostEvent, Node, NodeCommand, NodeEvent};
use quincunx_scenario::Fabric;
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use std::collections::BTreeMap;

/// Runs all jobs of a request, and tells how far it has come about every million steps; whoever is told may stop it.
///
/// # Errors
/// If a line of the file cannot be carried out, a job fails or does not end in time, or if it was stopped.
pub fn measure_jobs(request: &JobsRequest, progress: ProgressFn<'_>) -> Result<JobsMeasurement, JobsError> {
    measure_jobs_with_outputs(request, Outputs::default(), progress)
}

/// The same, writing every frame to `outputs`.
///
/// # Errors
/// As [`measure_jobs`], or if an output cannot be written.
pub fn measure_jobs_with_outputs(
    request: &JobsRequest,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<JobsMeasurement, JobsError> {
    if let Fabric::Memory(fabric) = &request.scenario.fabric {
        return memory::measure(&MemoryFabric::from(fabric), request, outputs, progress);
    }
    match request.contents() {
        Contents::LengthOnly => JobsRun::<LengthOnly>::new(request, outputs)?.run(request, progress),
        Contents::Numbers => JobsRun::<Numbers>::new(request, outputs)?.run(request, progress),
    }
}

/// A job's collective under way.
struct Current<P> {
    begin: Instant,
    /// When the last rank so far ended whose end counts.
    end: Instant,
    unfinished: usize,
    /// By rank, of those that have ended.
    buffers: Vec<Option<[P; 2]>>,
}

/// How far a job has come.
struct Progressed<P> {
    job: Job,
    current: Option<Current<P>>,
    runs: Vec<[Instant; 2]>,
    wrong: Option<u64>,
}

struct JobsRun<P: Data> {
    built: Built<P, (JobObserver, OutputObserver)>,
    jobs: Vec<Progressed<P>>,
    /// By group and host: which job and which rank of it.
    ranks: BTreeMap<(GroupId, usize), (usize, usize)>,
    streams: Vec<Stream>,
    /// Lines and names of the streams.
    named: Vec<(usize, String)>,
}

impl<P: Data> JobsRun<P> {
    fn new(request: &JobsRequest, outputs: Outputs) -> Result<Self, JobsError> {
        let (cluster, jobs) = request.groups()?;
        let congestion = &request.scenario.faults.congestion;
        let loses = congestion.queue.is_some() || request.scenario.faults.loss.is_some();
        let mut observer = JobObserver {
            sees_departures: loses || congestion.mark_above.is_some(),
            troubled: vec![Troubled::default(); jobs.len()],
            retransmissions: Retransmissions::of(
                &cluster,
                &jobs.iter().map(|job| job.group).collect::<Vec<_>>(),
            ),
            ..JobObserver::default()
        };
        for (number, job) in jobs.iter().enumerate() {
            for node in 0..cluster.wiring().nodes().len() {
                let ends = cluster.connections(node, job.group);
                let owned = ends.map(|connection| (connection.local, number));
                observer.owners.extend(owned);
            }
        }
        let outputs = OutputObserver::new(outputs, &cluster).map_err(SimulationError::output)?;
        let mut built = Built::new(&request.scenario, cluster, request.seed, (observer, outputs))?;
        let population = built.population()?;
        let streams = request.streams(built.link().rate, population.packet)?;
        built.simulation.observer_mut().0.meters =
            vec![Meter::new(Instant::ZERO..Limits::NONE.time); streams.len()];
        let mut ranks = BTreeMap::new();
        for (number, job) in jobs.iter().enumerate() {
            ranks.extend(
                job.hosts.iter().enumerate().map(|(rank, &host)| ((job.group, host), (number, rank))),
            );
        }
        let jobs =
            jobs.into_iter().map(|job| Progressed { job, current: None, runs: Vec::new(), wrong: Some(0) });
        let (named, streams) = streams.into_iter().map(|(line, name, stream)| ((line, name), stream)).unzip();
        Ok(Self { built, jobs: jobs.collect(), ranks, streams, named })
    }

    fn run(mut self, request: &JobsRequest, progress: ProgressFn<'_>) -> Result<JobsMeasurement, JobsError> {
        let end = Instant::ZERO + request.scenario.measure.virtual_limit();
        let runs: u32 = self.jobs.iter().map(|entry| entry.job.times).sum();
        let mut done = 0;
        let mut session = Session::new(self.built.progress(), progress);
        while done < runs {
            self.start_due(request)?;
            let waiting = self.jobs.iter().filter(|entry| entry.waits()).map(|entry| entry.job.at);
            let time = waiting.min().unwrap_or(end).min(end);
            let share = Some(f64::from(done) / f64::from(runs));
            let mut streaming = Streaming { streams: &mut self.streams, built: &mut self.built, share };
            match session.next(&mut streaming, time)? {
                Next::Event(emitted) => done += u32::from(self.hear(request, emitted.node, emitted.event)?),
                Next::Idle if time < end => self.built.simulation.pass(time),
                Next::TimeLimit if time < end => {}
                Next::Idle | Next::TimeLimit => {
                    let running =
                        self.jobs.iter().filter(|entry| entry.runs.len() < entry.job.times as usize);
                    let after = self.built.simulation.now().since(Instant::ZERO);
                    return Err(JobsError::Unfinished {
                        running: running.count(),
                        jobs: self.jobs.len(),
                        after,
                    });
                }
            }
        }
        let outputs = std::mem::take(&mut self.built.simulation.observer_mut().1);
        let measured = self.measured(request);
        outputs.finish().map_err(SimulationError::output)?;
        Ok(measured)
    }

    /// Starts the jobs whose time has come.
    fn start_due(&mut self, request: &JobsRequest) -> Result<(), JobsError> {
        let now = self.built.simulation.now();
        for number in 0..self.jobs.len() {
            let entry = &self.jobs[number];
            if entry.waits() && entry.job.at <= now {
                let Job { lengths: [input, _], reduction, ref hosts, .. } = entry.job;
                let inputs =
                    (0..hosts.len()).map(|rank| P::input(Rank(rank as u16), input, reduction.data_type));
                let inputs = inputs.collect();
                self.start(request, number, inputs)?;
            }
        }
        Ok(())
    }

    /// Starts a job's next collective, now.
    fn start(&mut self, request: &JobsRequest, number: usize, inputs: Vec<P>) -> Result<(), JobsError> {
        let begin = self.built.simulation.now();
        let entry = &mut self.jobs[number];
        let Job { group, collective, reduction, lengths: [_, output], line, ref hosts, .. } = entry.job;
        let buffers = hosts.iter().map(|_| None).collect();
        entry.current = Some(Current { begin, end: begin, unfinished: hosts.len(), buffers });
        for (&host, input) in hosts.iter().zip(inputs) {
            let output = P::zeroed(output);
            let order =
                HostCommand::Start { group, collective, reduction, input, output, terms: Terms::WHOLE };
            let told = self.built.simulation.command(NodeIndex(host as u32), NodeCommand::Host(order));
            told.map_err(|rejected| request.jobs.refused_at(line, rejected))?;
        }
        Ok(())
    }

    /// A node has told something; whether a collective of a job has ended by that.
    fn hear(
        &mut self,
        request: &JobsRequest,
        node: NodeIndex,
        event: NodeEvent<P>,
    ) -> Result<bool, JobsError> {
        let NodeEvent::Host(HostEvent::Finished { group, outcome, input, output }) = event else {
            // A switch has lost a neighbour: its ranks will find out by themselves.
            return Ok(false);
        };
        let now = self.built.simulation.now();
        let (number, rank) = self.ranks[&(group, node.0 as usize)];
        let entry = &mut self.jobs[number];
        if outcome != Outcome::Done {
            let after = now.since(Instant::ZERO);
            let failed = SimulationError::Failed { rank: rank as u16, outcome, after };
            return Err(request.jobs.refused_at(entry.job.line, failed).into());
        }
        let current = entry.current.as_mut().expect("what ends has begun");
        current.buffers[rank] = Some([input, output]);
        current.unfinished -= 1;
        if counts(&request.scenario, entry.job.collective, rank) {
            current.end = now;
        }
        if current.unfinished > 0 {
            return Ok(false);
        }
        let Current { begin, end, buffers, .. } = entry.current.take().expect("it has just ended");
        let (inputs, outputs): (Vec<P>, Vec<P>) = buffers.into_iter().flatten().map(|[a, b]| (a, b)).unzip();
        let wrong = P::wrong(entry.job.collective, entry.job.reduction, &inputs, &outputs);
        entry.wrong = entry.wrong.zip(wrong).map(|(all, more)| all + more);
        entry.runs.push([begin, end]);
        if entry.runs.len() < entry.job.times as usize {
            self.start(request, number, inputs)?;
        }
        Ok(true)
    }

    fn measured(mut self, request: &JobsRequest) -> JobsMeasurement {
        let now = self.built.simulation.now();
        let time = now.since(Instant::ZERO);
        let mut trees: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (entry, links) in self.jobs.iter().zip(self.built.cluster.tree_links()) {
            links.iter().for_each(|&link| trees.entry(link).or_default().push(entry.job.place));
        }
        let links = self.built.links(time);
        // Two directions a link.
        let shared = links.iter().enumerate().map(|(direction, link)| SharedLink {
            name: format!("{} > {}", link.from, link.to),
            is_access: link.joins_ranks.contains(&true),
            utilisation: link.utilisation,
            bytes: link.statistics.bytes,
            peak_queue: link.statistics.peak_queue,
            trees: trees.get(&(direction / 2)).cloned().unwrap_or_default(),
        });
        let shared = shared.collect();
        let frames = links.iter().map(|link| link.statistics.frames).sum();
        let steps = self.built.simulation.steps();
        let observer = std::mem::take(&mut self.built.simulation.observer_mut().0);
        let troubles = observer.troubled.into_iter().zip(observer.retransmissions.frames);
        let simulation = &self.built.simulation;
        let ways = |job: &Job| match simulation.engine(NodeIndex(job.hosts[0] as u32)) {
            Node::Host(host) => host.ways(job.group),
            Node::Switch(_) => None,
        };
        let jobs = self.jobs.into_iter().zip(troubles).map(|(entry, (troubled, retransmitted))| {
            let (Troubled { marked, lost }, ways) = (troubled, ways(&entry.job));
            let measured =
                JobMeasurement::of(entry.job, entry.runs, entry.wrong, [marked, lost, retransmitted]);
            JobMeasurement { ways, ..measured }
        });
        let starts = request.jobs.traffic().map(|(_, traffic)| Instant::ZERO + traffic.at);
        let payload = request.scenario.packet;
        let streams = self.streams.iter().zip(self.named).zip(observer.meters).zip(starts);
        let traffic = streams.map(|(((stream, named), meter), start)| {
            stream_measured(stream, named, meter, payload, now.since(start.min(now)))
        });
        JobsMeasurement {
            jobs: jobs.collect(),
            traffic: traffic.collect(),
            links: shared,
            time,
            steps,
            frames,
        }
    }
}

impl<P> Progressed<P> {
    /// Whether it has not begun.
    fn waits(&self) -> bool {
        self.current.is_none() && self.runs.is_empty()
    }
}

fn stream_measured(
    stream: &Stream,
    (line, name): (usize, String),
    meter: Meter,
    payload: ByteCount,
    time: Duration,
) -> StreamMeasurement {
    let arrived = meter.accepted();
    StreamMeasurement {
        name,
        line,
        sent: stream.sent,
        arrived,
        rate: BitRate::of_transfer(payload * arrived, time),
        latencies: meter.latencies().map(|found| [found.mean, found.p50, found.p99]),
    }
}
