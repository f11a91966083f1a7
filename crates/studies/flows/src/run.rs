//! A run: jobs come, wait for accelerators, compute and communicate, and go.

mod failures;

use crate::cost::Designs;
use crate::fabric::{Cluster, ClusterError};
use crate::grants::{Grants, Tree};
use crate::job::{Iteration, Phase, groups};
use crate::measured::{Failed, JobOutcome, TenancyMeasurement};
use crate::outages::{Outages, share};
use crate::placement::Free;
use crate::sizes::{Sizes, sizes_of};
use crate::usage::Watch;
use crate::ways::Ways;
use quincunx_collective::{GroupId, SplitMix64};
use quincunx_control::map::MapNode;
use quincunx_design::{Catalog, Contention, Refusal};
use quincunx_driver_flow::{Due, FlowId, FlowSimulation, LinkId, Load};
use quincunx_scenario::{JobTrace, ScaleUp, Tenancy, TenancyPolicy};
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct TenancyRequest<'a> {
    /// Cluster and jobs.
    pub tenancy: &'a Tenancy,
    /// The network of the cluster.
    pub cluster: &'a Cluster,
    /// Where designs are found.
    pub catalog: Catalog,
    /// Who gets switches.
    pub policy: TenancyPolicy,
    /// Units of memory of each switch.
    pub units: u32,
    /// Seed of sizes, models, arrivals and hashes.
    pub seed: u64,
    /// One job of the list by itself, in place of all.
    pub only: Option<usize>,
    /// Whether what switches and links are used for is noted.
    pub watched: bool,
}

/// A run that was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stopped after {after} of the cluster's time")]
pub struct Stopped {
    /// The cluster's time.
    pub after: Duration,
}

/// Why there is no run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TenancyError {
    /// The network.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A design.
    #[error(transparent)]
    Design(#[from] Refusal),
    /// A job that the cluster has no room for.
    #[error(
        "expected jobs of at most {hosts} accelerators, which the cluster has, found {job} with {gpus}; make it smaller, or take a larger fabric"
    )]
    TooLarge {
        /// The job.
        job: String,
        /// What it asks for.
        gpus: u32,
        /// What there is.
        hosts: u32,
    },
    /// The file with a trace's sizes.
    #[error("{path}: {error}")]
    Sizes {
        /// The file.
        path: String,
        /// What was expected and found.
        error: String,
    },
    /// A job that loses an accelerator in each iteration.
    #[error(
        "expected accelerators that work for an iteration of {job}, found failures in {times} tries; make times to failure longer, or the job smaller"
    )]
    NeverEnds {
        /// The job.
        job: String,
        /// How often it began.
        times: u32,
    },
    /// Jobs that are not over at the end of time.
    #[error(
        "expected jobs that are over within 213 days, found some that are not; take fewer, or faster links"
    )]
    TooLong,
    /// Somebody stopped it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// What flows and timers are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Arrived(u32),
    Computed(Turn),
    /// A group's collective is over.
    Done(Turn, u32),
    /// A group that stood still goes on.
    GoesOn(Turn, u32),
    /// The latency behind a phase is over.
    Settled(Turn),
    /// What may fail has failed, by its number.
    Failed(u32),
    Mended(u32),
}

/// A job on the accelerators that it has, and no others that it had before or has later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turn {
    job: u32,
    turn: u32,
}

/// A job that does not run: it has not come, waits, or is over.
struct Planned {
    name: String,
    model: String,
    gpus: u32,
    /// Those that are left.
    iterations: u32,
    at: Duration,
    /// How often it began the iteration that is next.
    tries: u32,
}

struct Group {
    id: GroupId,
    phase: Phase,
    members: Vec<MapNode>,
    /// Whether all are in one server.
    is_inside: bool,
    /// What it has, or had: whether it has it now is `has_place`.
    tree: Option<Tree>,
    /// Whether the tree's switches have memory for it, which others may have, too, where there are locks.
    has_place: bool,
    /// Whether that is its own right now.
    holds: bool,
    /// Whether a failure took it, and it has had none since.
    has_lost: bool,
    /// Since when it holds it.
    since: Instant,
    /// Its collective.
    flow: Option<Flow>,
    /// Its collective where it stands still.
    halted: Option<Halted>,
    /// Links that its flow is pinned to.
    pinned: Vec<LinkId>,
    /// What links carry of its collective, in bits, and since when; noted only if they are watched.
    carried: Vec<(LinkId, f64)>,
    started: Instant,
}

/// A collective under way.
struct Flow {
    id: FlowId,
    /// On its fullest link.
    bits: f64,
    /// Of its vector.
    vector: f64,
}

/// A collective that stands still.
struct Halted {
    /// What is left of its vector.
    bits: f64,
    until: Until,
}

/// What a collective that stands still waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    /// Its group is ready to go on after a failure.
    Recovered,
    /// A repair: there is no way.
    Repaired,
    /// It has not begun: its group asks for its locks again, and has asked so often.
    Asked(u8),
}

struct Job {
    iteration: Iteration,
    turn: u32,
    left: u32,
    /// Since when the iteration runs.
    since: Instant,
    hosts: Vec<u32>,
    groups: Vec<Group>,
    phase: Phase,
    /// Groups of the phase that are not done.
    waiting: u32,
    /// What follows the last bit of the phase.
    latency: Duration,
}

/// Nothing comes later.
const END_OF_TIME: Instant = Instant::from_picos(u64::MAX);

/// How often whoever waits is told, in events.
const TELL_EVERY: u64 = 1024;

struct Run<'a> {
    request: &'a TenancyRequest<'a>,
    simulation: FlowSimulation<Token>,
    grants: Grants,
    designs: Designs,
    ways: Ways,
    outages: Outages,
    failed: Failed,
    free: Free,
    planned: Vec<Planned>,
    /// By number.
    running: BTreeMap<u32, Job>,
    queue: VecDeque<u32>,
    outcomes: Vec<JobOutcome>,
    done: usize,
    next_group: u32,
    next_turn: u32,
    asked: [u64; 2],
    watch: Option<Watch>,
}

/// Runs all jobs, and tells the share of them that are done now and then; whoever is told may stop it.
///
/// # Errors
/// If there is no such design, a job is larger than the cluster, or it was stopped.
pub fn measure_tenancy(
    request: &TenancyRequest<'_>,
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<TenancyMeasurement, TenancyError> {
    let tenancy = request.tenancy;
    let (planned, left_out) = planned(request)?;
    let hosts = request.cluster.hosts();
    if let Some(job) = planned.iter().find(|job| job.gpus > hosts) {
        return Err(TenancyError::TooLarge { job: job.name.clone(), gpus: job.gpus, hosts });
    }
    let unit = tenancy.unit.unwrap_or(ByteCount::new(1));
    let mut simulation = FlowSimulation::new(request.cluster.rates());
    for (number, job) in (0..).zip(&planned) {
        simulation.set_timer(job.at, Token::Arrived(number));
    }
    let outcome = |job: &Planned| JobOutcome {
        name: job.name.clone(),
        model: job.model.clone(),
        gpus: job.gpus,
        arrived: Instant::ZERO + job.at,
        began: Instant::ZERO,
        ended: Instant::ZERO,
        collectives: [0; 2],
        restarts: 0,
        lost: Duration::ZERO,
    };
    let mut run = Run {
        request,
        simulation,
        grants: Grants::new(request.cluster, request.policy, tenancy.slots, request.units, unit),
        designs: Designs::new(tenancy, request.catalog)?,
        ways: Ways::new(request.cluster, tenancy.routing),
        outages: Outages::new(request.cluster, tenancy.failures.as_ref(), tenancy.scale_up, request.seed),
        failed: Failed::default(),
        free: Free::all(request.cluster, tenancy, request.seed),
        outcomes: planned.iter().map(outcome).collect(),
        planned,
        running: BTreeMap::new(),
        queue: VecDeque::new(),
        done: 0,
        next_group: 1,
        next_turn: 0,
        asked: [0; 2],
        watch: request.watched.then(Watch::new),
    };
    run.outages.numbers().for_each(|number| run.expect_failure(number));
    Ok(TenancyMeasurement { left_out, ..run.run(progress)? })
}

/// The jobs of the file, and then those by chance; and how many of a data set are not among those that sizes are drawn from.
fn planned(request: &TenancyRequest<'_>) -> Result<(Vec<Planned>, u64), TenancyError> {
    let tenancy = request.tenancy;
    let mut all: Vec<Planned> = tenancy
        .job
        .iter()
        .map(|job| Planned {
            name: job.name.clone().unwrap_or_else(|| job.model.clone()),
            model: job.model.clone(),
            gpus: job.gpus,
            iterations: job.iterations,
            at: job.at,
            tries: 0,
        })
        .collect();
    let mut left_out = 0;
    if let Some(trace) = &tenancy.trace {
        let mut random = SplitMix64::new(request.seed);
        let mut share = || share(&mut random);
        let listed = trace.sizes_of.as_ref().map(|path| listed(request, trace, path)).transpose()?;
        left_out = listed.as_ref().map_or(0, |listed| listed.left_out);
        let mut at = 0.0;
        for number in 1..=trace.jobs {
            let drawn = share();
            let gpus = match &listed {
                Some(Sizes { jobs, .. }) => jobs[((drawn * jobs.len() as f64).ceil() as usize).max(1) - 1],
                None => {
                    let mut below = 0.0;
                    let found = trace.size.iter().find(|size| {
                        below += size.share;
                        drawn <= below
                    });
                    found.or(trace.size.last()).expect("a trace has a size").gpus
                }
            };
            let model = ((share() * trace.models.len() as f64).ceil() as usize).max(1) - 1;
            at -= share().ln() * trace.apart.as_secs_f64();
            all.push(Planned {
                name: format!("job-{number}"),
                model: trace.models[model].clone(),
                gpus,
                iterations: trace.iterations,
                at: Duration::from_picos((at * 1e12) as u64),
                tries: 0,
            });
        }
    }
    if let Some(only) = request.only {
        all = all.into_iter().skip(only).take(1).collect();
    }
    Ok((all, left_out))
}

/// The sizes of the file at `path`: multiples of what shares a layer of any model of the trace.
fn listed(request: &TenancyRequest<'_>, trace: &JobTrace, path: &str) -> Result<Sizes, TenancyError> {
    let models = trace.models.iter().filter_map(|model| request.tenancy.model(model));
    let together = models.map(|model| u32::from(model.tp)).fold(1, least_common_multiple);
    sizes_of(path, together, request.cluster.hosts())
        .map_err(|error| TenancyError::Sizes { path: path.into(), error })
}

fn least_common_multiple(one: u32, other: u32) -> u32 {
    let (mut greatest, mut rest) = (one, other);
    while rest > 0 {
        (greatest, rest) = (rest, greatest % rest);
    }
    one / greatest * other
}

impl Run<'_> {
    fn run(
        mut self,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<TenancyMeasurement, TenancyError> {
        let jobs = self.planned.len();
        while self.done < jobs {
            let due =
                self.simulation.go_on().expect("whoever waits, waits for a job that runs, or for a repair");
            if self.simulation.now() == END_OF_TIME {
                return Err(TenancyError::TooLong);
            }
            if self.simulation.events().is_multiple_of(TELL_EVERY)
                && progress(self.done as f64 / jobs as f64).is_break()
            {
                return Err(Stopped { after: self.simulation.now().since(Instant::ZERO) }.into());
            }
            let (Due::Flow(token) | Due::Timer(token)) = due;
            match token {
                Token::Arrived(number) => {
                    self.queue.push_back(number);
                    self.admit()?;
                }
                Token::Failed(number) => self.fail(number)?,
                Token::Mended(number) => self.mend(number)?,
                Token::Computed(turn)
                | Token::Done(turn, _)
                | Token::GoesOn(turn, _)
                | Token::Settled(turn)
                    if self.running.get(&turn.job).is_none_or(|job| job.turn != turn.turn) => {}
                Token::Computed(Turn { job, .. }) => self.begin_phase(job, Phase::Tensor)?,
                Token::Done(Turn { job, .. }, group) => self.end_collective(job, group)?,
                Token::GoesOn(Turn { job, .. }, group) => self.go_on(job, group)?,
                Token::Settled(Turn { job, .. }) => self.end_phase(job)?,
            }
        }
        self.grants.assert_invariants();
        assert!(self.grants.are_none(), "all jobs are over, and somebody has switches");
        assert!(self.ways.are_free(), "all jobs are over, and something is pinned to a link");
        let mut measured = TenancyMeasurement {
            jobs: self.outcomes,
            events: self.simulation.events(),
            busiest: Vec::new(),
            grants: self.asked,
            failed: self.failed,
            usage: None,
            left_out: 0,
        };
        let end = Instant::ZERO + measured.makespan();
        measured.usage =
            self.watch.map(|watch| watch.finish(self.request.cluster, self.grants.memory(), end));
        let seconds = measured.makespan().as_secs_f64();
        let rates = self.request.cluster.rates();
        let mut busy: Vec<(LinkId, f64)> = (0..)
            .map(LinkId)
            .zip(rates)
            .map(|(link, rate)| {
                (link, self.simulation.carried(link) / rate.bits_per_second() as f64 / seconds)
            })
            .collect();
        busy.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        busy.truncate(16);
        measured.busiest =
            busy.into_iter().map(|(link, share)| (self.request.cluster.name(link), share)).collect();
        Ok(measured)
    }

    /// Begins jobs in the order in which they came, as far as there are accelerators.
    fn admit(&mut self) -> Result<(), TenancyError> {
        while let Some(&number) = self.queue.front() {
            let wanted = self.planned[number as usize].gpus;
            let model = self.request.tenancy.model(&self.planned[number as usize].model);
            let tp = model.expect("models have been checked").tp;
            let is_reached = |host| self.outages.is_reached(self.request.cluster, host);
            let Some(hosts) = self.free.take(wanted, tp.into(), &is_reached) else { break };
            self.queue.pop_front();
            if self.outcomes[number as usize].restarts == 0 {
                self.outcomes[number as usize].began = self.simulation.now();
            }
            self.begin(number, hosts)?;
        }
        Ok(())
    }

    fn begin(&mut self, number: u32, hosts: Vec<u32>) -> Result<(), TenancyError> {
        let planned = &self.planned[number as usize];
        let model = self.request.tenancy.model(&planned.model).expect("models have been checked");
        let (iteration, left, tp) = (Iteration::of(model), planned.iterations, model.tp);
        let restart = match (planned.tries, &self.request.tenancy.failures) {
            (1.., Some(failures)) => failures.restart,
            _ => Duration::ZERO,
        };
        let servers = self.request.tenancy.scale_up;
        let server = |host: u32| servers.map_or(host, |ScaleUp { members, .. }| host / u32::from(members));
        let mut made = Vec::new();
        for (phase, places) in groups(hosts.len() as u32, tp) {
            let members: Vec<u32> = places.iter().map(|&place| hosts[place as usize]).collect();
            let is_inside = members.iter().all(|&host| server(host) == server(members[0]));
            let id = GroupId(self.next_group);
            self.next_group += 1;
            made.push(Group {
                id,
                phase,
                members: members.iter().map(|&host| self.request.cluster.host(host)).collect(),
                is_inside,
                tree: None,
                has_place: false,
                holds: false,
                has_lost: false,
                since: Instant::ZERO,
                flow: None,
                halted: None,
                pinned: Vec::new(),
                carried: Vec::new(),
                started: Instant::ZERO,
            });
        }
        if !self.is_by_use() {
            for group in made.iter_mut().filter(|group| !group.is_inside) {
                self.grant(group);
            }
        }
        self.next_turn += 1;
        let job = Job {
            iteration,
            turn: self.next_turn,
            left,
            since: self.simulation.now(),
            hosts,
            groups: made,
            phase: Phase::Data,
            waiting: 0,
            latency: Duration::ZERO,
        };
        self.running.insert(number, job);
        self.compute(number, restart);
        Ok(())
    }

    /// What tells a job on the accelerators that it has now.
    fn turn(&self, number: u32) -> Turn {
        Turn { job: number, turn: self.running[&number].turn }
    }

    fn is_by_use(&self) -> bool {
        self.request.policy == TenancyPolicy::Temporal
    }

    /// Switches for a group, if there are any: those that it had, or else by the policy. With locks it has to lock them before it uses them.
    fn grant(&mut self, group: &mut Group) {
        if self.request.policy == TenancyPolicy::Ring {
            return;
        }
        let (cluster, outages, now) = (self.request.cluster, &self.outages, self.simulation.now());
        let tree = group.tree.as_ref();
        let again = tree.is_some_and(|tree| self.grants.grant_again(outages, group.id, tree, now));
        if !again {
            group.tree = self.grants.grant(cluster, outages, &self.designs, group.id, &group.members, now);
        }
        group.has_place = group.tree.is_some();
        self.asked[0] += 1;
        if group.has_place {
            self.asked[1] += 1;
            self.failed.regained += u64::from(std::mem::take(&mut group.has_lost));
            if !self.grants.has_locks() {
                self.hold(group);
            }
        }
    }

    /// All locks of a group's tree, if it has one and nobody else has any of them.
    fn lock(&mut self, group: &mut Group) {
        if let Some(tree) = group.tree.as_ref().filter(|_| group.has_place)
            && self.grants.lock(group.id, tree, self.simulation.now())
        {
            self.hold(group);
        }
    }

    fn hold(&mut self, group: &mut Group) {
        let tree = group.tree.as_ref().expect("a group that has a place has a tree");
        assert!(tree.is_whole(&self.outages), "nobody has a place in a broken tree");
        tree.links.iter().flat_map(|&link| Cluster::both(link)).for_each(|link| self.ways.pin(link));
        (group.holds, group.since) = (true, self.simulation.now());
    }

    /// A group's tree is its own no more; with locks it still has its place there.
    fn yield_tree(&mut self, number: u32, group: &mut Group) {
        let Some(tree) = group.tree.as_ref().filter(|_| group.holds) else { return };
        if let Some(watch) = &mut self.watch {
            let span = [group.since, self.simulation.now()];
            tree.needs.iter().for_each(|&(switch, memory)| watch.held(switch, memory, number, span));
        }
        if self.grants.has_locks() {
            self.grants.unlock(group.id, tree, self.simulation.now());
        }
        tree.links.iter().flat_map(|&link| Cluster::both(link)).for_each(|link| self.ways.unpin(link));
        group.holds = false;
    }

    fn release(&mut self, number: u32, group: &mut Group) {
        self.yield_tree(number, group);
        if let Some(tree) = group.tree.as_ref().filter(|_| group.has_place) {
            self.grants.release(group.id, tree);
            group.has_place = false;
        }
    }

    fn compute(&mut self, number: u32, restart: Duration) {
        let after = restart + self.running[&number].iteration.compute;
        self.simulation.set_timer(after, Token::Computed(self.turn(number)));
    }

    fn begin_phase(&mut self, number: u32, phase: Phase) -> Result<(), TenancyError> {
        let turn = self.turn(number);
        let mut job = self.running.remove(&number).expect("it runs");
        (job.phase, job.waiting, job.latency) = (phase, 0, Duration::ZERO);
        let volume = match phase {
            Phase::Tensor => job.iteration.tensor,
            Phase::Data => job.iteration.data,
        };
        for (place, group) in (0..).zip(&mut job.groups) {
            if group.phase != phase {
                continue;
            }
            job.waiting += 1;
            if group.is_inside {
                let servers = self.request.tenancy.scale_up.expect("a group is inside a server");
                let seconds = volume * self.designs.on_tree() / servers.rate.bits_per_second() as f64;
                let after = Duration::from_picos((seconds * 1e12).round() as u64);
                self.simulation.set_timer(after, Token::Done(turn, place));
                continue;
            }
            let latency = self.begin_collective(turn, place, group, volume, 0)?;
            job.latency = job.latency.max(latency);
        }
        let is_empty = job.waiting == 0;
        self.running.insert(number, job);
        if is_empty { self.end_phase(number) } else { Ok(()) }
    }

    /// Whether a group asks for switches before its next collective.
    fn asks(&self, group: &Group) -> bool {
        let is_adaptive = self.request.tenancy.failures.is_some_and(|failures| failures.adaptive);
        (self.is_by_use() && !group.has_place) || (group.has_lost && is_adaptive)
    }

    /// A group's collective begins, once it has its locks or no patience left.
    fn begin_collective(
        &mut self,
        turn: Turn,
        place: u32,
        group: &mut Group,
        volume: f64,
        asked: u8,
    ) -> Result<Duration, TenancyError> {
        let latency = self.communicate(turn, place, group, volume, asked)?;
        let until = group.halted.as_ref().map(|halted| halted.until);
        if !matches!(until, Some(Until::Asked(_))) {
            self.failed.interrupted += u64::from(until.is_some());
            let outcome = &mut self.outcomes[turn.job as usize];
            outcome.collectives[0] += 1;
            outcome.collectives[1] += u64::from(group.holds);
        }
        Ok(latency)
    }

    /// Starts a group's collective of so many bits, in switches if it has some; it stands still where there is no way, and while a group that has
    /// asked `asked` times for its locks has patience left. What is to be waited for behind its last bit.
    fn communicate(
        &mut self,
        turn: Turn,
        place: u32,
        group: &mut Group,
        volume: f64,
        asked: u8,
    ) -> Result<Duration, TenancyError> {
        if self.asks(group) {
            self.grant(group);
        }
        let mut latency = Duration::ZERO;
        if self.grants.has_locks() {
            self.lock(group);
            // To the root and back, whatever the answer.
            let depth = group.tree.as_ref().filter(|_| group.has_place).map_or(0, |tree| tree.depth);
            latency = self.request.cluster.latency() * 2 * u64::from(depth);
            let patience = self.request.tenancy.patience;
            if group.has_place && !group.holds && patience > Duration::ZERO && asked < Contention::TRIES {
                group.halted = Some(Halted { bits: volume, until: Until::Asked(asked + 1) });
                let pause = latency + patience / u64::from(Contention::TRIES);
                self.simulation.set_timer(pause, Token::GoesOn(turn, place));
                return Ok(Duration::ZERO);
            }
        }
        match self.start(turn, place, group, volume)? {
            Some(own) => latency += own,
            None => group.halted = Some(Halted { bits: volume, until: Until::Repaired }),
        }
        Ok(latency)
    }

    /// The same where it has switches, or there is a way.
    fn start(
        &mut self,
        turn: Turn,
        place: u32,
        group: &mut Group,
        volume: f64,
    ) -> Result<Option<Duration>, TenancyError> {
        let cluster = self.request.cluster;
        let mut weights: BTreeMap<LinkId, f64> = BTreeMap::new();
        let links = match group.tree.as_ref().filter(|_| group.holds) {
            Some(tree) => {
                let weight = self.designs.on_tree();
                for link in tree.links.iter().flat_map(|&link| Cluster::both(link)) {
                    weights.insert(link, weight);
                }
                2 * u64::from(tree.depth)
            }
            None => {
                let exchange = self.designs.among_hosts(group.members.len() as u16)?;
                let mut passed = 0;
                for &(from, to, weight) in &exchange.hops {
                    let ends = [from, to].map(|rank| group.members[usize::from(rank)]);
                    let flow = self.request.seed ^ (u64::from(group.id.0) << 20) ^ u64::from(from);
                    let Some(way) = self.ways.way(cluster, &self.outages, ends, flow) else {
                        group.pinned.drain(..).for_each(|link| self.ways.unpin(link));
                        return Ok(None);
                    };
                    passed += way.len() as u64;
                    for link in way {
                        let entry = weights.entry(link).or_insert(0.0);
                        if *entry == 0.0 {
                            self.ways.pin(link);
                            group.pinned.push(link);
                        }
                        *entry += weight;
                    }
                }
                // What is added up in a ring passes all hops, and so the mean of them in each step.
                passed * u64::from(exchange.steps) / exchange.hops.len() as u64
            }
        };
        // A flow's bits are those on its fullest link: who shares a link has as many there as the others.
        let most = weights.values().copied().fold(0.0, f64::max);
        if self.watch.is_some() {
            group.carried = weights.iter().map(|(&link, &weight)| (link, weight * volume)).collect();
            group.started = self.simulation.now();
        }
        let loads = weights.into_iter().map(|(link, weight)| Load { link, weight: weight / most }).collect();
        let flow = self.simulation.start(loads, volume * most, Token::Done(turn, place));
        group.flow = Some(Flow { id: flow, bits: volume * most, vector: volume });
        Ok(Some(cluster.latency() * links))
    }

    fn end_collective(&mut self, number: u32, place: u32) -> Result<(), TenancyError> {
        let mut job = self.running.remove(&number).expect("it runs");
        let group = &mut job.groups[place as usize];
        group.flow = None;
        self.leave_links(group, 1.0);
        if self.is_by_use() {
            self.release(number, group);
        } else if self.grants.has_locks() {
            self.yield_tree(number, group);
        }
        job.waiting -= 1;
        let (waiting, latency) = (job.waiting, job.latency);
        self.running.insert(number, job);
        match (waiting, latency) {
            (0, Duration::ZERO) => self.end_phase(number),
            (0, latency) => {
                self.simulation.set_timer(latency, Token::Settled(self.turn(number)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A group's flow, of which that share has been sent, is on its links no more.
    fn leave_links(&mut self, group: &mut Group, sent: f64) {
        group.pinned.drain(..).for_each(|link| self.ways.unpin(link));
        if let Some(watch) = &mut self.watch {
            let span = [group.started, self.simulation.now()];
            group.carried.drain(..).for_each(|(link, bits)| watch.carried(link, bits * sent, span));
        }
    }

    fn end_phase(&mut self, number: u32) -> Result<(), TenancyError> {
        let job = self.running.get_mut(&number).expect("it runs");
        if job.phase == Phase::Tensor {
            return self.begin_phase(number, Phase::Data);
        }
        job.left -= 1;
        job.since = self.simulation.now();
        self.planned[number as usize].tries = 0;
        if job.left > 0 {
            self.compute(number, Duration::ZERO);
            return Ok(());
        }
        let mut job = self.running.remove(&number).expect("it runs");
        job.groups.iter_mut().for_each(|group| self.release(number, group));
        self.free.give_back(job.hosts);
        self.outcomes[number as usize].ended = self.simulation.now();
        self.done += 1;
        self.admit()
    }
}
