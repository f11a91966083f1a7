//! A rank process: joins a group for each design, runs its cases, and says what it measured, a line of JSON a case.

use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction};
use quincunx_collective::{pattern, wrong_elements};
use quincunx_control::{Design, GroupRequest, GroupSummary};
use quincunx_control_grpc::ClientError;
use quincunx_driver_net::{Profile, Statistics};
use quincunx_fabric::TreeShape;
use quincunx_runtime::{Finished, JoinedGroup, ProcessOptions, Rank, RuntimeError};
use quincunx_units::{ByteCount, Duration};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::thread;
use std::time::Instant;

use crate::plan::{Case, Plan, Setup};

/// Bytes around the UDP payload on an Ethernet link: Ethernet 14, IPv4 20, UDP 8.
const BYTES_BELOW_UDP: u64 = 42;

/// How long ranks wait for each other to form a group.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// How long a rank that is done answers peers that still miss an answer of its.
const LINGER: Duration = Duration::from_millis(50);

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
    /// Bytes a repetition that left over the rank's link, headers included.
    pub sent_bytes: f64,
    /// Bytes a repetition that came over the rank's link, headers included.
    pub received_bytes: f64,
    /// Payload and degree buffers of the switch that has most of them, in bytes (EPIC F.3); zero without a switch.
    pub switch_buffer_bytes: u64,
    /// What the group runs: the design asked for, or what it fell back to.
    pub design: String,
    /// Seconds by phase over the timed repetitions: system calls, parse, engine, emit, waiting, other. Zero unless asked.
    pub profile_s: [f64; 6],
}

/// What ends a rank process early.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its node, its group or the manager.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
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

/// Runs a plan as one of its ranks, `members[me]`. Rank 0 makes the groups.
///
/// # Errors
/// The first that any collective meets.
pub fn work(
    plan: &Plan,
    options: &ProcessOptions,
    members: &[String],
    out: &mut impl Write,
) -> Result<(), WorkerError> {
    let mut rank = Rank::attach(options)?;
    let leads = members.first() == Some(&options.description.name);
    if leads {
        rank.control().wait_for_nodes(members, plan.setup.switches, JOIN_LIMIT)?;
    }
    let mut group: Option<(String, JoinedGroup, u64)> = None;
    for (index, case) in plan.cases.iter().enumerate() {
        if group.as_ref().is_none_or(|(design, ..)| *design != case.design) {
            if let Some((_, old, _)) = group.take() {
                leave(&mut rank, leads, &old)?;
            }
            let (joined, buffers) = join(&mut rank, leads, &plan.setup, &case.design, members)?;
            group = Some((case.design.clone(), joined, buffers));
        }
        let Some((_, joined, buffers)) = &group else { unreachable!("joined above") };
        let measured = Measured {
            case: index,
            switch_buffer_bytes: *buffers,
            ..measure(&mut rank, joined, case, plan)?
        };
        serde_json::to_writer(&mut *out, &measured).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if let Some((_, old, _)) = group.take() {
        leave(&mut rank, leads, &old)?;
    }
    Ok(())
}

fn join(
    rank: &mut Rank,
    leads: bool,
    setup: &Setup,
    design: &str,
    members: &[String],
) -> Result<(JoinedGroup, u64), WorkerError> {
    let wrong = |error: &dyn std::fmt::Display| WorkerError::Plan(error.to_string());
    let request = GroupRequest {
        members: members.to_vec(),
        design: design.parse::<Design>().map_err(|error| wrong(&error))?,
        tree: TreeShape::for_ranks(&setup.tree, setup.ranks).map_err(|error| wrong(&error))?,
        mtu: ByteCount::new(setup.mtu),
        message_packets: setup.message,
        window_messages: setup.window,
        reproducible: setup.reproducible,
    };
    // The manager answers when all have installed, this rank among them: it must go on turning meanwhile.
    let made = leads.then(|| {
        let client = rank.control().clone();
        thread::spawn(move || client.init_group(&request))
    });
    let joined = rank.join(JOIN_LIMIT);
    let buffers = match made.map(|made| made.join().expect("the control client does not panic")) {
        Some(Ok(GroupSummary { switches, .. })) => {
            switches.iter().map(|held| held.memory.bytes()).max().unwrap_or(0)
        }
        // A refusal says more than the time-out that it leads to.
        Some(Err(refused)) => return Err(refused.into()),
        None => 0,
    };
    Ok((joined?, buffers))
}

fn leave(rank: &mut Rank, leads: bool, group: &JoinedGroup) -> Result<(), WorkerError> {
    rank.serve(LINGER)?;
    if leads {
        rank.control().destroy_group(group.id)?;
    }
    Ok(())
}

/// A case with its names understood.
struct Job {
    collective: Collective,
    reduction: Reduction,
    input: usize,
    output: usize,
}

impl Job {
    fn new(case: &Case, ranks: u16) -> Result<Self, WorkerError> {
        let wrong = |error: &dyn std::fmt::Display| WorkerError::Plan(error.to_string());
        let collective: Collective = case.collective.parse().map_err(|error| wrong(&error))?;
        let collective = collective.with_root(RankNumber(case.root));
        let reduction = Reduction {
            op: case.op.parse::<ReduceOp>().map_err(|error| wrong(&error))?,
            data_type: case.data_type.parse::<DataType>().map_err(|error| wrong(&error))?,
        };
        let element = reduction.data_type.size();
        let whole = case.bytes as usize / element * element;
        let part = whole / usize::from(ranks) / element * element;
        let (input, output) = match collective {
            Collective::Barrier => (0, 0),
            Collective::ReduceScatter => (part * usize::from(ranks), part),
            Collective::AllGather => (part, part * usize::from(ranks)),
            _ => (whole, whole),
        };
        Ok(Self { collective, reduction, input, output })
    }

    /// What this rank must get; computed vector by vector, so that memory stays at a few vectors. `None`: nothing.
    fn expected(&self, me: RankNumber, ranks: u16) -> Option<Numbers> {
        let data_type = self.reduction.data_type;
        let sum = |from: usize, length: usize| {
            let mut sum = Numbers::zeroed(length);
            for rank in 0..ranks {
                let vector = pattern(RankNumber(rank), self.input, data_type);
                let piece = vector.view(from..from + length);
                if rank == 0 {
                    sum.write(0, piece);
                } else {
                    sum.reduce(0, piece, self.reduction);
                }
            }
            sum
        };
        match self.collective {
            Collective::AllReduce => Some(sum(0, self.input)),
            Collective::Reduce { root } => (root == me).then(|| sum(0, self.input)),
            Collective::Broadcast { root } => Some(pattern(root, self.input, data_type)),
            Collective::Barrier | Collective::Dispatch | Collective::Combine => None,
            Collective::ReduceScatter => Some(sum(me.index() * self.output, self.output)),
            Collective::AllGather => {
                let mut all = Numbers::zeroed(self.output);
                for rank in 0..ranks {
                    let vector = pattern(RankNumber(rank), self.input, data_type);
                    all.write(usize::from(rank) * self.input, vector.view(0..self.input));
                }
                Some(all)
            }
        }
    }
}

fn measure(rank: &mut Rank, group: &JoinedGroup, case: &Case, plan: &Plan) -> Result<Measured, WorkerError> {
    let job = Job::new(case, group.ranks)?;
    let limit = Duration::from_secs(plan.setup.limit_seconds);
    let expected = job.expected(group.rank, group.ranks);
    let data_type = job.reduction.data_type;
    let mut buffers =
        Finished { input: pattern(group.rank, job.input, data_type), output: Numbers::zeroed(job.output) };
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
        Ok::<_, RuntimeError>(())
    };
    for repetition in 0..case.warm_up.max(1) {
        once(rank, &mut buffers)?;
        if repetition == 0 {
            check(&buffers.output);
            buffers.output = Numbers::zeroed(job.output);
        }
    }
    // All start together.
    rank.run(group.id, Collective::Barrier, job.reduction, Numbers::zeroed(0), Numbers::zeroed(0), limit)?;
    let before = *rank.statistics();
    let mut times = Vec::with_capacity(case.iterations as usize);
    let start = Instant::now();
    for _ in 0..case.iterations {
        let begun = Instant::now();
        once(rank, &mut buffers)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let repetitions = f64::from(case.iterations.max(1));
    let mean_us = start.elapsed().as_secs_f64() * 1e6 / repetitions;
    let after = *rank.statistics();
    check(&buffers.output);
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        times.get((times.len() as f64 * share) as usize).or(times.last()).copied().unwrap_or(0.0)
    };
    Ok(Measured {
        case: 0,
        mean_us,
        median_us: at(0.5),
        p99_us: at(0.99),
        wrong,
        compared,
        sent_bytes: link_bytes(&before, &after, |statistics| statistics.sent) / repetitions,
        received_bytes: link_bytes(&before, &after, |statistics| statistics.received) / repetitions,
        switch_buffer_bytes: 0,
        design: group.design.to_string(),
        profile_s: Profile::PHASES.map(|phase| {
            after.profile.spent(phase).as_secs_f64() - before.profile.spent(phase).as_secs_f64()
        }),
    })
}

fn link_bytes(
    before: &Statistics,
    after: &Statistics,
    way: impl Fn(&Statistics) -> quincunx_driver_net::Traffic,
) -> f64 {
    let (before, after) = (way(before), way(after));
    let frames = after.frames - before.frames;
    (after.bytes - before.bytes + frames * BYTES_BELOW_UDP) as f64
}
