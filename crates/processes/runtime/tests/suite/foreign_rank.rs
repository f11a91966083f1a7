//! A rank that shares no line with ours beside ours: `examples/rank/rank.py`, which knows what docs/wire.md says. It attaches to our manager and
//! sends to our switch; what comes out of it and of our ranks is what the reference gives, to the bit.

use crate::common;
use quincunx_collective::{
    Collective, DataType, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction, exact, reference,
};
use quincunx_control::{GroupRequest, NodeDescription, Role};
use quincunx_control_grpc::{ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_driver_net::NodeOptions;
use quincunx_epic::MAX_DATA_PACKETS;
use quincunx_needs::{need, program};
use quincunx_network::FaultRates;
use quincunx_runtime::{ProcessOptions, Rank, SwitchSnapshot, serve_switch};
use quincunx_units::{ByteCount, Duration, Probability};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Instant;

const RANKS: u16 = 3;
/// The one in Python.
const FOREIGN: u16 = 1;
const LIMIT: Duration = Duration::from_secs(60);
/// Of a rank's vector: the last packet of a message and the last of all are no full ones.
const BYTES: usize = 33 * 1024 + 12;
/// Of one that begins in its control message, and of one that is all in it.
const SHORT: [usize; 2] = [2 * 1024 + 8, 12];
const ROUNDS: u16 = 4;

/// What all ranks run, one after the other, and what each has.
struct Job {
    collective: Collective,
    reduction: Reduction,
    inputs: Vec<Numbers>,
    outputs: Vec<Numbers>,
}

fn jobs() -> Vec<Job> {
    let roots = || (0..RANKS).map(RankNumber);
    let reduces = roots().map(|root| Collective::Reduce { root });
    let broadcasts = roots().map(|root| Collective::Broadcast { root });
    let collectives: Vec<_> = reduces.chain(broadcasts).chain([Collective::AllReduce]).collect();
    let mut jobs = Vec::new();
    for round in 0..ROUNDS {
        for &collective in &collectives {
            let data_type = [DataType::F32, DataType::I32][usize::from(round % 2)];
            let reduction = Reduction { op: ReduceOp::Sum, data_type };
            let bytes = [BYTES, SHORT[0], SHORT[1]][usize::from(round % 3)];
            let salt = jobs.len() as u16 % 16 * RANKS;
            let inputs: Vec<_> =
                (0..RANKS).map(|rank| exact(RankNumber(salt + rank), bytes, reduction)).collect();
            let outputs = reference(collective, reduction, &inputs);
            jobs.push(Job { collective, reduction, inputs, outputs });
        }
    }
    jobs
}

/// The line that says a job to the rank in Python.
fn line(job: &Job) -> String {
    let data: String =
        job.inputs[usize::from(FOREIGN)].bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = match job.collective.root() {
        Some(root) => format!("{} {}", job.collective.name(), root.0),
        None => job.collective.name().to_owned(),
    };
    format!("{name} {} {data}\n", job.reduction.data_type)
}

/// A process that does not outlive its test.
struct Foreign(Child);

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Foreign {
    fn start(manager: SocketAddr) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/rank/rank.py");
        let mut command = Command::new("python3");
        command.args(["-B", script, "--manager", &manager.to_string()]);
        command.args(["--name", &format!("rank{FOREIGN}")]);
        command.args(["--address", &common::address(FOREIGN).to_string()]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// A call that has it run all jobs and returns what it prints, a line each, as far as it comes.
    fn runs<'a>(&mut self, jobs: &'a [Job]) -> impl FnOnce() -> Vec<String> + use<'a> {
        let mut input = self.0.stdin.take().unwrap();
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        move || {
            thread::scope(|scope| {
                scope.spawn(move || {
                    for job in jobs {
                        // Of a rank that has ended nobody hears any more.
                        let _ = input.write_all(line(job).as_bytes());
                    }
                });
                lines.take(jobs.len()).map_while(Result::ok).collect()
            })
        }
    }
}

/// How far the test has come.
#[derive(Default)]
struct Progress {
    /// The rank in Python has printed all.
    foreign_is_done: AtomicBool,
    /// Ranks of ours that are done.
    done: AtomicU16,
    /// The group is over.
    is_over: AtomicBool,
}

/// Answers peers until something holds.
fn serve(rank: &mut Rank, holds: impl Fn() -> bool) {
    let end = Instant::now() + std::time::Duration::from(LIMIT);
    while !holds() {
        assert!(Instant::now() < end, "the others do not come to their end");
        rank.serve(Duration::from_millis(5)).unwrap();
    }
}

/// A group and what it runs, by switches that lose a part of all frames.
struct Case {
    design: &'static str,
    mtu: u16,
    loss: f64,
    jobs: Vec<Job>,
}

/// One of our ranks: the first makes the group, and ends it when all are done.
fn run_ours(manager: SocketAddr, number: u16, Case { design, mtu, jobs, .. }: &Case, progress: &Progress) {
    let mut rank = Rank::attach(CATALOG, &common::rank_process(manager, number)).unwrap();
    let members: Vec<String> = (0..RANKS).map(|rank| format!("rank{rank}")).collect();
    let asked = (number == 0).then(|| {
        let client = rank.control().clone();
        client.wait_for_nodes(&members, 1, LIMIT).unwrap();
        let parameters = [("group.mtu", *mtu), ("group.message", 4), ("group.window", 4)];
        let parameters = parameters.map(|(key, value)| (key, Value::from(value)));
        let (design, settings) = common::design(design, FabricKind::Tree, &parameters);
        let request =
            GroupRequest { settings, ..GroupRequest::new(members, design, ByteCount::new(1 << 20)) };
        thread::spawn(move || client.init_group(&request).unwrap())
    });
    let group = rank.join(LIMIT).unwrap();
    if let Some(asked) = asked {
        asked.join().unwrap();
    }
    for (index, job) in jobs.iter().enumerate() {
        let Job { collective, reduction, .. } = *job;
        let given = job.inputs[usize::from(number)].clone();
        let expected = &job.outputs[usize::from(number)];
        let output = Numbers::zeroed(expected.length());
        let ended = rank.run(group.id, collective, reduction, given, output, LIMIT).unwrap();
        assert_eq!(ended.output.bytes(), expected.bytes(), "rank {number}, job {index}: {collective}");
    }
    progress.done.fetch_add(1, Ordering::Relaxed);
    if number == 0 {
        serve(&mut rank, || {
            progress.foreign_is_done.load(Ordering::Relaxed)
                && progress.done.load(Ordering::Relaxed) == RANKS - 1
        });
        rank.end_group(group.id).unwrap();
        progress.is_over.store(true, Ordering::Relaxed);
    }
    serve(&mut rank, || progress.is_over.load(Ordering::Relaxed));
}

/// How a switch of a design starts that loses a part of all frames, there and back.
fn switch(manager: SocketAddr, design: &str, loss: f64) -> ProcessOptions {
    let options = common::rank_process(manager, 9);
    let description = NodeDescription {
        role: Role::Switch,
        designs: [design.to_owned()].into(),
        memory: ByteCount::new(1 << 20),
        ..NodeDescription::host("leaf".into(), options.description.address, 64)
    };
    let faults = FaultRates { loss: Probability::new(loss).unwrap(), ..FaultRates::default() };
    let node = NodeOptions { faults, spin: Duration::ZERO, ..NodeOptions::default() };
    ProcessOptions { description, node, lose_sent: true, ..options }
}

/// Three ranks run all jobs, one of them in Python, and all results are right.
fn take_part(case: &Case) {
    let Case { design, loss, ref jobs, .. } = *case;
    let _alone = common::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap();
    let manager = server.address();
    let (stop, progress) = (AtomicBool::new(false), Progress::default());
    let (mut foreign, snapshot) = (Foreign::start(manager), SwitchSnapshot::default());
    thread::scope(|scope| {
        let switch = switch(manager, design, loss);
        let (stop, snapshot) = (&stop, &snapshot);
        let running = scope.spawn(move || serve_switch(CATALOG, &switch, stop, snapshot).unwrap());
        let ours = [0, 2].map(|number| {
            let progress = &progress;
            scope.spawn(move || run_ours(manager, number, case, progress))
        });
        let runs = foreign.runs(jobs);
        let printing = scope.spawn(|| {
            let printed = runs();
            progress.foreign_is_done.store(true, Ordering::Relaxed);
            printed
        });
        let ended: Vec<_> = ours.map(|rank| rank.join()).into();
        if ended.iter().any(Result::is_err) {
            // It might wait for a group that it can take part in.
            let _ = foreign.0.kill();
        }
        let printed = printing.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap();
        ended.into_iter().for_each(|rank| rank.unwrap());
        for (index, (job, printed)) in jobs.iter().zip(&printed).enumerate() {
            let expected = job.outputs[usize::from(FOREIGN)].bytes();
            let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(*printed == expected, "job {index}: {} in Python", job.collective);
        }
        assert_eq!(printed.len(), jobs.len(), "lines that the rank in Python has printed");
    });
    assert!(foreign.0.wait().unwrap().success(), "the rank in Python ends with its group");
    let lost = snapshot.counts().dropped.get("injected-loss").copied().unwrap_or(0);
    assert_eq!(lost > 0, loss > 0.0, "{lost} frames were lost on their way to the switch");
}

#[test]
fn a_rank_in_python_takes_part_in_mode_ii() {
    need!(program("python3", "python3"));
    take_part(&Case { design: "epic-2", mtu: 1024, loss: 0.0, jobs: jobs() });
}

#[test]
fn a_rank_in_python_takes_part_in_mode_iii() {
    need!(program("python3", "python3"));
    take_part(&Case { design: "epic-3", mtu: 1024, loss: 0.0, jobs: jobs() });
}

#[test]
fn a_rank_in_python_repairs_what_mode_ii_loses() {
    need!(program("python3", "python3"));
    take_part(&Case { design: "epic-2", mtu: 1024, loss: 0.01, jobs: jobs() });
}

#[test]
fn a_rank_in_python_repairs_what_mode_iii_loses() {
    need!(program("python3", "python3"));
    take_part(&Case { design: "epic-3", mtu: 1024, loss: 0.01, jobs: jobs() });
}

#[test]
fn a_rank_in_python_cuts_a_long_vector_as_ours_do() {
    need!(program("python3", "python3"));
    // More packets than a control message can announce.
    let mtu = 4;
    assert!(BYTES > usize::from(mtu) * usize::from(MAX_DATA_PACKETS));
    let is_meant = |job: &Job| {
        let whole = [Collective::AllReduce, Collective::Reduce { root: RankNumber(FOREIGN) }];
        whole.contains(&job.collective)
    };
    let jobs = jobs().into_iter().filter(is_meant).take(2).collect();
    take_part(&Case { design: "epic-3", mtu, loss: 0.0, jobs });
}
