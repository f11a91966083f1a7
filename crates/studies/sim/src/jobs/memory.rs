//! Jobs on a memory fabric. Each has all accelerators, and is a stream of collectives with memory, words and a share of the switches' units of
//! its own: what may run side by side is what [`run_streams`](crate::memory_fabric::run_streams) takes.

use super::prepare::Job;
use super::{JobMeasurement, JobsError, JobsMeasurement, JobsRequest, SharedLink};
use crate::memory_fabric::{Built, MemoryFabric, OutputObserver, RunError, Stream, wrong_elements};
use crate::packet_fabric::Data;
use crate::progress::ProgressFn;
use crate::session::{Next, Runs, Session};
use crate::{Contents, Outputs};
use quincunx_collective::{LengthOnly, Numbers, Payload, Rank};
use quincunx_design::{FabricKind, Refusal};
use quincunx_driver_des::NodeIndex;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_nodes::fabric::{FabricCommand, FabricEvent};
use quincunx_units::{Duration, Instant};

/// Vectors begin at multiples of so many bytes.
const ALIGNMENT: usize = 4096;

/// A job, and how far it has come.
struct Progressed<P> {
    job: Job,
    request: InPlaceRequest,
    /// When its collective under way began, what was in the accelerators' memories then, and how many of them have not ended it.
    current: Option<(Instant, Vec<P>, u16)>,
    runs: Vec<[Instant; 2]>,
    wrong: Option<u64>,
}

struct MemoryJobs<'a, P: Data> {
    fabric: MemoryFabric,
    request: &'a JobsRequest,
    built: Built<P, OutputObserver>,
    jobs: Vec<Progressed<P>>,
}

/// Runs all jobs of a request on a memory fabric.
pub(super) fn measure(
    fabric: &MemoryFabric,
    request: &JobsRequest,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<JobsMeasurement, JobsError> {
    // In place a second run adds up sums, which soon are more than a type holds.
    let is_once = request.chosen().all(|(_, _, job)| job.times == 1);
    match request.contents() {
        Contents::Numbers if is_once => MemoryJobs::<Numbers>::new(fabric, request, outputs)?.run(progress),
        _ => MemoryJobs::<LengthOnly>::new(fabric, request, outputs)?.run(progress),
    }
}

impl JobsRequest {
    /// Refuses what a file says that means nothing on a memory fabric.
    fn check_for_memory(&self) -> Result<(), JobsError> {
        let said = [
            ("policy", self.jobs.policy.is_some()),
            ("patience", self.jobs.patience.is_some()),
            ("memory", self.jobs.memory.is_some()),
            ("[[traffic]]", self.only.is_none() && self.jobs.traffic().next().is_some()),
        ];
        match said.iter().find(|(_, is_said)| *is_said) {
            Some((key, _)) => Err(Refusal::new(
                format!("no {key} for jobs on a memory fabric"),
                format!("some for {}", self.scenario.place()),
                "leave it out, or choose a fabric of hosts such as leaf-spine-8x4x8",
            )
            .into()),
            None => Ok(()),
        }
    }

    /// The streams that the jobs are on a memory fabric.
    fn streams_on(&self, fabric: &MemoryFabric) -> Result<Vec<(Stream, Job)>, JobsError> {
        self.check_for_memory()?;
        self.jobs.check_hosts(fabric.accelerators)?;
        let (mut streams, mut designs, mut offset) = (Vec::new(), Vec::new(), 0_usize);
        for (place, line, job) in self.chosen() {
            let (design, settings) = self.design_of(line, job, FabricKind::Memory)?;
            if !job.hosts.numbers().iter().copied().eq(0..fabric.accelerators) {
                let expected = format!(
                    "all accelerators of {} in order, 0-{}",
                    self.scenario.place(),
                    fabric.accelerators - 1
                );
                let remedy = "name them all: a job has all of a memory fabric";
                let found: Vec<String> = job.hosts.numbers().iter().map(u16::to_string).collect();
                return Err(self.jobs.wrong_at(line, expected, found.join(","), remedy).into());
            }
            if !design.about().is_exact {
                let remedy = "name a design that adds up what it is given";
                let expected = "a design that changes no result";
                return Err(self.jobs.wrong_at(line, expected, design.name(), remedy).into());
            }
            designs.push(design);
            let length = job.collective.counted_size(job.size).as_usize();
            let span = Span { offset: offset.next_multiple_of(ALIGNMENT), length };
            offset = span.offset + length;
            let made =
                self.job(place, line, job, design.name(), (0..usize::from(fabric.accelerators)).collect());
            let switches = (0..fabric.switches).map(|switch| format!("switch{switch}"));
            let switches = if design.about().runs_in_switches { switches.collect() } else { Vec::new() };
            let request = InPlaceRequest { collective: made.collective, reduction: made.reduction, span };
            streams.push((Stream { design, settings, request }, Job { switches, ..made }));
        }
        if self.only.is_none() {
            self.scenario.refuse_unused(&designs)?;
        }
        Ok(streams)
    }
}

impl<'a, P: Data> MemoryJobs<'a, P> {
    fn new(fabric: &MemoryFabric, request: &'a JobsRequest, outputs: Outputs) -> Result<Self, JobsError> {
        let (streams, jobs): (Vec<Stream>, Vec<Job>) = request.streams_on(fabric)?.into_iter().unzip();
        let times = jobs.iter().map(|job| job.times).max().unwrap_or(1);
        let times = u16::try_from(times).unwrap_or(u16::MAX);
        let mut built = Built::new(
            fabric,
            &streams,
            times,
            OutputObserver::of(outputs, fabric).map_err(RunError::output)?,
        )?;
        for (&accelerator, rank) in built.accelerators.clone().iter().zip(0..) {
            let size = built.simulation.engine(accelerator).memory().map_or(0, Payload::length);
            let mut memory = P::zeroed(size);
            for Stream { request: InPlaceRequest { reduction, span, .. }, .. } in &streams {
                let input = P::input(Rank(rank), span.length, reduction.data_type);
                memory.write(span.offset, input.view(0..span.length));
            }
            built.simulation.command(accelerator, FabricCommand::Fill(memory)).map_err(RunError::from)?;
        }
        let jobs = jobs.into_iter().zip(&streams);
        let jobs = jobs.map(|(job, stream)| Progressed {
            job,
            request: stream.request,
            current: None,
            runs: Vec::new(),
            wrong: Some(0),
        });
        Ok(Self { fabric: *fabric, request, jobs: jobs.collect(), built })
    }

    fn run(mut self, progress: ProgressFn<'_>) -> Result<JobsMeasurement, JobsError> {
        let end = Instant::ZERO + self.request.scenario.measure.virtual_limit();
        let runs: u32 = self.jobs.iter().map(|entry| entry.job.times).sum();
        let mut done = 0;
        let mut session = Session::new(self.built.progress(), progress);
        while done < runs {
            self.start_due()?;
            let waiting = self.jobs.iter().filter(|entry| entry.waits()).map(|entry| entry.job.at);
            let time = waiting.min().unwrap_or(end).min(end);
            match session.next(&mut self.built, time)? {
                Next::Event(emitted) => {
                    if let FabricEvent::Finished { kernel } = emitted.event {
                        done += u32::from(self.has_ended(usize::from(kernel), emitted.at)?);
                    }
                }
                Next::Idle if time < end => self.built.simulation.pass(time),
                Next::TimeLimit if time < end => {}
                Next::Idle | Next::TimeLimit => {
                    let running =
                        self.jobs.iter().filter(|entry| entry.runs.len() < entry.job.times as usize);
                    let (running, jobs) = (running.count(), self.jobs.len());
                    let after = self.built.simulation.now().since(Instant::ZERO);
                    return Err(JobsError::Unfinished { running, jobs, after });
                }
            }
        }
        let (measured, outputs) = self.measured();
        outputs.finish().map_err(RunError::output)?;
        Ok(measured)
    }

    /// Starts the jobs whose time has come.
    fn start_due(&mut self) -> Result<(), JobsError> {
        let now = self.built.simulation.now();
        for number in 0..self.jobs.len() {
            if self.jobs[number].waits() && self.jobs[number].job.at <= now {
                self.start(number)?;
            }
        }
        Ok(())
    }

    /// Starts a job's next collective, now.
    fn start(&mut self, number: usize) -> Result<(), JobsError> {
        let entry = &self.jobs[number];
        let (request, line, begin) = (entry.request, entry.job.line, self.built.simulation.now());
        let inputs = self.vectors(request.span);
        self.jobs[number].current = Some((begin, inputs, self.fabric.accelerators));
        for accelerator in self.built.accelerators.clone() {
            let start = FabricCommand::Start { kernel: number as u16, request };
            let told = self.built.simulation.command(accelerator, start);
            told.map_err(|rejected| self.request.jobs.refused_at(line, rejected))?;
        }
        Ok(())
    }

    /// What is in a span of each accelerator's memory.
    fn vectors(&self, Span { offset, length }: Span) -> Vec<P> {
        let vector = |&accelerator: &NodeIndex| {
            let memory =
                self.built.simulation.engine(accelerator).memory().expect("accelerators have memory");
            P::from_view(memory.view(offset..offset + length))
        };
        self.built.accelerators.iter().map(vector).collect()
    }

    /// An accelerator has ended a job's collective; whether that was the last one.
    fn has_ended(&mut self, number: usize, at: Instant) -> Result<bool, JobsError> {
        let entry = &mut self.jobs[number];
        let (_, _, unfinished) = entry.current.as_mut().expect("what ends has begun");
        *unfinished -= 1;
        if *unfinished > 0 {
            return Ok(false);
        }
        let (begin, inputs, _) = entry.current.take().expect("it has just ended");
        let request = entry.request;
        let found = self.vectors(request.span);
        // The vectors alone, from their beginning on.
        let alone = InPlaceRequest { span: Span { offset: 0, ..request.span }, ..request };
        let wrong = wrong_elements(&alone, &inputs, &found);
        let entry = &mut self.jobs[number];
        entry.wrong = entry.wrong.zip(wrong).map(|(all, more)| all + more);
        entry.runs.push([begin, at]);
        if entry.runs.len() < entry.job.times as usize {
            self.start(number)?;
        }
        Ok(true)
    }

    fn measured(self) -> (JobsMeasurement, OutputObserver) {
        let simulation = &self.built.simulation;
        let time = simulation.now().since(Instant::ZERO);
        let link = |direction| {
            let statistics = simulation.direction(direction);
            let busy = statistics.busy.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE);
            SharedLink {
                name: self.fabric.names(direction).join(" > "),
                is_access: true,
                utilisation: if time == Duration::ZERO { 0.0 } else { busy },
                bytes: statistics.bytes,
                peak_queue: statistics.peak_queue,
                trees: Vec::new(),
            }
        };
        let links: Vec<SharedLink> = self.fabric.directions().map(link).collect();
        let frames = self.fabric.directions().map(|direction| simulation.direction(direction).frames).sum();
        let steps = simulation.steps();
        let jobs = self
            .jobs
            .into_iter()
            .map(|Progressed { job, runs, wrong, .. }| JobMeasurement::of(job, runs, wrong, [0; 3]));
        let jobs = jobs.collect();
        let measured = JobsMeasurement { jobs, traffic: Vec::new(), links, time, steps, frames };
        (measured, self.built.simulation.into_observer())
    }
}

impl<P> Progressed<P> {
    /// Whether it has not begun.
    fn waits(&self) -> bool {
        self.current.is_none() && self.runs.is_empty()
    }
}
