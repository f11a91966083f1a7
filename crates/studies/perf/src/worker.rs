//! A rank process: joins a group for each design, runs its cases, and says what it measured, a line of JSON a case.

use quincunx_collective::{Collective, DataType, Numbers, Op, Payload, Rank as RankNumber, Reduction};
use quincunx_collective::{exact, pattern, wrong_elements};
use quincunx_comm::CommError;
use quincunx_control::Encapsulation;
use quincunx_control_grpc::ClientError;
use quincunx_design::{Catalog, FabricKind};
use quincunx_driver_net::{Profile, Traffic};
use quincunx_runtime::{Drops, Finished, JoinedGroup, ProcessOptions, Rank, RuntimeError, encapsulation};
use quincunx_wire::headers_below_bth;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Instant;

use crate::groups::{Groups, Joined};
use crate::library;
use crate::plan::{Case, Plan};
use crate::processor::Processors;

/// Bytes around what a node counts of a frame on an Ethernet link: Ethernet 14, and in a UDP datagram IPv4 20 or IPv6 40, and UDP 8.
pub(crate) const fn bytes_below(address: IpAddr, encapsulation: Encapsulation) -> u64 {
    match encapsulation {
        Encapsulation::Udp => headers_below_bth(address) as u64,
        Encapsulation::Ethernet => 14,
    }
}

/// What one rank measured of one case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Index of the case in the plan.
    pub case: usize,
    /// Mean time of a repetition, in microseconds.
    pub mean_us: f64,
    /// Median time, in microseconds.
    pub median_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// Wrong elements in the first warm-up and in the last repetition.
    pub wrong: u64,
    /// Elements that were compared.
    pub compared: u64,
    /// Ranks whose vectors a collective puts together: on a mesh those of a domain.
    pub ranks: u16,
    /// Bytes a repetition that left over the rank's link, or the busiest of its links, headers included.
    pub sent_bytes: f64,
    /// Bytes a repetition that came over the rank's link, headers included; zero on a mesh, where each is what another has sent.
    pub received_bytes: f64,
    /// What data is split by, on a mesh.
    pub split: Option<Split>,
    /// Payload and degree buffers of the switch that has most of them, in bytes (EPIC F.3); zero without a switch, nothing where ranks do not learn it.
    pub switch_buffer_bytes: Option<u64>,
    /// What the group runs: the design asked for, or what it fell back to.
    pub design: String,
    /// Why it fell back, if it did: what rank 0 has heard of the manager.
    pub fallback: Option<String>,
    /// By which ways the case's collectives ran, warm-ups and barriers included, if switches' memory was locked for each.
    pub ways: Option<Ways>,
    /// Frames that it has dropped since the case before, by reason.
    pub drops: Drops,
    /// Processor time a repetition, the kernel's on its behalf included, in microseconds.
    pub rank_processor_us: f64,
    /// The same of all switches together, where they run beside the ranks.
    pub switch_processor_us: Option<f64>,
    /// Seconds by phase over the timed repetitions: system calls, parse, engine, emit, waiting, other. Zero unless asked.
    pub profile_s: [f64; 6],
}

/// How an AllGather on a mesh divides data over ways, and why.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Split {
    /// What the slowest link within a domain carries, in bits a second.
    pub direct: u64,
    /// What the slowest link between domains carries.
    pub cross: u64,
    /// The share of the data that goes over relays.
    pub relayed: f64,
}

/// How often a group ran in its tree, and how often among its hosts because other groups had its switches' memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ways {
    /// In the tree.
    pub tree: u64,
    /// Among the hosts.
    pub hosts: u64,
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tree, hosts } = self;
        write!(
            f,
            "{tree} collectives ran in the tree, {hosts} among the hosts: others had the switches' memory"
        )
    }
}

/// `links carry 98.5Mbit/s within domains and 98.4Mbit/s between them: 50.0 % goes over relays`.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [direct, cross] = [self.direct, self.cross].map(|bits| bits as f64 / 1e6);
        let relayed = self.relayed * 100.0;
        write!(
            f,
            "links carry {direct:.1} Mbit/s within domains and {cross:.1} Mbit/s between them: {relayed:.1} % goes over relays"
        )
    }
}

/// What ends a rank process early.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its node, its group or the manager.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The library that programs use.
    #[error(transparent)]
    Library(#[from] CommError),
    /// The manager.
    #[error(transparent)]
    Control(#[from] ClientError),
    /// The plan.
    #[error("expected a plan that makes sense, found {0}; use the same build for all processes")]
    Plan(String),
    /// Nobody listens to the results.
    #[error("expected to print results, found \"{0}\"; keep the parent process running")]
    Output(#[from] std::io::Error),
}

impl WorkerError {
    pub(crate) fn plan(error: &dyn fmt::Display) -> Self {
        Self::Plan(error.to_string())
    }
}

/// Runs a plan as one of its ranks, `members[me]`, with the designs of a catalog. Rank 0 makes the groups.
///
/// # Errors
/// The first that any collective meets.
pub fn work(
    catalog: Catalog,
    plan: &Plan,
    options: &ProcessOptions,
    members: &[String],
    out: &mut impl Write,
) -> Result<(), WorkerError> {
    if plan.cases.iter().any(Case::is_for_the_library) {
        return library::work(catalog, plan, options, members, out);
    }
    let mut rank = Rank::attach(catalog, options)?;
    let leads = members.first() == Some(&options.description.name);
    if leads {
        rank.control().wait_for_nodes(members, plan.setup.switches, plan.setup.join)?;
    }
    let mut groups = Groups::new(catalog, plan, members, leads);
    let mut group: Option<(String, Joined)> = None;
    for (index, case) in plan.cases.iter().enumerate() {
        if group.as_ref().is_none_or(|(design, _)| *design != case.design) {
            if let Some((_, old)) = group.take() {
                groups.leave(&mut rank, &old.group)?;
            }
            group = Some((case.design.clone(), groups.join(&mut rank, &case.design)?));
        }
        let Some((_, joined)) = &group else { unreachable!("joined above") };
        let measured = Measured {
            case: index,
            switch_buffer_bytes: Some(joined.switch_buffer),
            split: joined.split,
            fallback: joined.fallback.clone(),
            ..measure(
                &mut rank,
                &joined.group,
                case,
                plan,
                bytes_below(options.description.address, encapsulation(&options.transport)),
            )?
        };
        say(&measured, out)?;
    }
    if let Some((_, old)) = group.take() {
        groups.leave(&mut rank, &old.group)?;
    }
    Ok(())
}

/// Says what was measured, on a line.
pub(crate) fn say(measured: &Measured, out: &mut impl Write) -> Result<(), WorkerError> {
    serde_json::to_writer(&mut *out, measured).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// A case with its names understood.
pub(crate) struct Job {
    collective: Collective,
    /// What was asked for ...
    pub(crate) op: Op,
    /// ... and what is done on the way to it.
    pub(crate) reduction: Reduction,
    /// Whose vectors it puts together.
    ranks: Range<u16>,
    pub(crate) input: usize,
    pub(crate) output: usize,
}

impl Job {
    pub(crate) fn new(case: &Case, ranks: Range<u16>) -> Result<Self, WorkerError> {
        let wrong = |error: &dyn fmt::Display| WorkerError::plan(error);
        let collective: Collective = case.collective.parse().map_err(|error| wrong(&error))?;
        let collective = collective.with_root(RankNumber(case.root));
        let op = case.op.parse::<Op>().map_err(|error| wrong(&error))?;
        let reduction = Reduction {
            op: op.on_the_way(),
            data_type: case.data_type.parse::<DataType>().map_err(|error| wrong(&error))?,
        };
        let element = reduction.data_type.size();
        let whole = case.bytes as usize / element * element;
        let part = whole / ranks.len() / element * element;
        let (input, output) = match collective {
            Collective::Barrier => (0, 0),
            Collective::ReduceScatter => (part * ranks.len(), part),
            Collective::AllGather => (part, part * ranks.len()),
            _ => (whole, whole),
        };
        Ok(Self { collective, op, reduction, ranks, input, output })
    }

    /// What a rank brings in.
    pub(crate) fn vector(&self, rank: RankNumber) -> Numbers {
        if self.collective.reduces() {
            exact(rank, self.input, self.reduction)
        } else {
            pattern(rank, self.input, self.reduction.data_type)
        }
    }

    /// What is left to do with a result: ranks divide an average.
    fn finish(&self, output: &mut Numbers) {
        if self.op == Op::Average && self.collective.reduces() {
            output.divide(self.ranks.len() as u16, self.reduction.data_type);
        }
    }

    /// What this rank must get; computed vector by vector, so that memory stays at a few vectors. `None`: nothing.
    pub(crate) fn expected(&self, me: RankNumber) -> Option<Numbers> {
        let sum = |from: usize, length: usize| {
            let mut sum = Numbers::zeroed(length);
            for rank in self.ranks.clone() {
                let vector = self.vector(RankNumber(rank));
                let piece = vector.view(from..from + length);
                if rank == self.ranks.start {
                    sum.write(0, piece);
                } else {
                    sum.reduce(0, piece, self.reduction);
                }
            }
            self.finish(&mut sum);
            sum
        };
        match self.collective {
            Collective::AllReduce => Some(sum(0, self.input)),
            Collective::Reduce { root } => (root == me).then(|| sum(0, self.input)),
            Collective::Broadcast { root } => Some(self.vector(root)),
            Collective::Barrier | Collective::Dispatch | Collective::Combine => None,
            Collective::ReduceScatter => Some(sum(me.index() * self.output, self.output)),
            Collective::AllGather => {
                let mut all = Numbers::zeroed(self.output);
                for (place, rank) in self.ranks.clone().enumerate() {
                    let vector = self.vector(RankNumber(rank));
                    all.write(place * self.input, vector.view(0..self.input));
                }
                Some(all)
            }
        }
    }
}

/// Measures a case; around what the node counts of a frame, `below` bytes are on the link.
fn measure(
    rank: &mut Rank,
    group: &JoinedGroup,
    case: &Case,
    plan: &Plan,
    below: u64,
) -> Result<Measured, WorkerError> {
    let job = Job::new(case, group.together())?;
    let drops_before = rank.drops();
    let ways_before = rank.ways(group.id);
    let limit = plan.setup.limit;
    let expected = job.expected(group.rank);
    let data_type = job.reduction.data_type;
    let mut buffers = Finished { input: job.vector(group.rank), output: Numbers::zeroed(job.output) };
    let (mut wrong, mut compared) = (0, 0);
    let mut check = |output: &Numbers| {
        if let Some(expected) = &expected {
            wrong += wrong_elements(expected, output, data_type) as u64;
            compared += (expected.length() / data_type.size()) as u64;
        }
    };
    let once = |rank: &mut Rank, buffers: &mut Finished| {
        let Finished { input, output } =
            std::mem::replace(buffers, Finished { input: Numbers::zeroed(0), output: Numbers::zeroed(0) });
        *buffers = rank.run(group.id, job.collective, job.reduction, input, output, limit)?;
        job.finish(&mut buffers.output);
        let recreations = rank.take_recreations();
        if group.rank == RankNumber(0) {
            // Results go to the standard output: this is for people.
            recreations.iter().for_each(|recreation| eprintln!("{recreation}"));
        }
        Ok::<_, RuntimeError>(())
    };
    for repetition in 0..case.warm_up.max(1) {
        once(rank, &mut buffers)?;
        if repetition == 0 {
            check(&buffers.output);
            buffers.output = Numbers::zeroed(job.output);
        }
    }
    let barrier = |rank: &mut Rank| {
        let nothing = || Numbers::zeroed(0);
        rank.run(group.id, Collective::Barrier, job.reduction, nothing(), nothing(), limit)
    };
    // All start together.
    barrier(rank)?;
    let (before, before_to) = (*rank.statistics(), rank.sent_to().clone());
    let mut times = Vec::with_capacity(case.iterations as usize);
    let processors = Processors::new(&plan.setup.switch_processes);
    let spent = processors.now();
    let start = Instant::now();
    for _ in 0..case.iterations {
        let begun = Instant::now();
        once(rank, &mut buffers)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let repetitions = f64::from(case.iterations.max(1));
    let mean_us = start.elapsed().as_secs_f64() * 1e6 / repetitions;
    let spent = processors.now().since(spent, repetitions);
    let (after, after_to) = (*rank.statistics(), rank.sent_to().clone());
    // Nobody goes on to another group while somebody is not done: it may need this rank to answer, or to relay.
    barrier(rank)?;
    check(&buffers.output);
    let link_bytes = |before: &Traffic, after: &Traffic| link_bytes(before, after, below);
    let [sent, received] = if group.fabric == FabricKind::Mesh {
        let nothing = Traffic::default();
        let links = after_to.iter().map(|(peer, after)| (before_to.get(peer).unwrap_or(&nothing), after));
        [links.map(|(before, after)| link_bytes(before, after)).fold(0.0, f64::max), 0.0]
    } else {
        [link_bytes(&before.sent, &after.sent), link_bytes(&before.received, &after.received)]
    };
    let [median_us, p99_us] = times_of(&mut times);
    Ok(Measured {
        case: 0,
        mean_us,
        median_us,
        p99_us,
        wrong,
        compared,
        ranks: group.together().len() as u16,
        sent_bytes: sent / repetitions,
        received_bytes: received / repetitions,
        split: None,
        fallback: None,
        switch_buffer_bytes: None,
        // Another one, if the group was made anew meanwhile.
        design: rank.group(group.id).unwrap_or(group).design.clone(),
        ways: rank.ways(group.id).zip(ways_before).map(|(after, before)| Ways {
            // A group that was made anew counts from zero.
            tree: after.tree.checked_sub(before.tree).unwrap_or(after.tree),
            hosts: after.hosts.checked_sub(before.hosts).unwrap_or(after.hosts),
        }),
        drops: since(&drops_before, rank.drops()),
        rank_processor_us: spent.own,
        switch_processor_us: spent.switches,
        profile_s: Profile::PHASES.map(|phase| {
            after.profile.spent(phase).as_secs_f64() - before.profile.spent(phase).as_secs_f64()
        }),
    })
}

/// The median and the 99th percentile.
pub(crate) fn times_of(times: &mut [f64]) -> [f64; 2] {
    times.sort_unstable_by(f64::total_cmp);
    [0.5, 0.99].map(|share| {
        times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or(0.0)
    })
}

/// What was dropped after `before`.
pub(crate) fn since(before: &Drops, mut after: Drops) -> Drops {
    for (reason, frames) in &mut after {
        *frames -= before.get(reason).unwrap_or(&0);
    }
    after.retain(|_, frames| *frames > 0);
    after
}

pub(crate) fn link_bytes(before: &Traffic, after: &Traffic, below: u64) -> f64 {
    let frames = after.frames - before.frames;
    (after.bytes - before.bytes + frames * below) as f64
}
