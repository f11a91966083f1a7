//! Ranks whose switch is gone go on among themselves: each collective ends once, with the right result, also where a rank was ahead.

use crate::common;
use quincunx_collective::{
    Collective, DataType, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction, pattern, wrong_elements,
};
use quincunx_control::{GroupRequest, ManagerConfig, NodeDescription, Role};
use quincunx_control_grpc::{ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_engine::Terms;
use quincunx_runtime::{
    Ended, Finished, JoinedGroup, ProcessOptions, Rank, Recreation, SwitchSnapshot, serve_switch,
};
use quincunx_units::{ByteCount, Duration};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 64 << 10;
const RANKS: u16 = 2;
const COLLECTIVES: u32 = 200;

fn members() -> Vec<String> {
    (0..RANKS).map(|rank| format!("rank{rank}")).collect()
}

/// The input of a rank's collective: unlike that of any other one.
fn input(rank: u16, number: u32, bytes: usize) -> Numbers {
    let mut input = pattern(RankNumber(rank), bytes, SUM.data_type);
    for element in input.bytes_mut().chunks_exact_mut(4) {
        let value = i32::from_le_bytes(element.try_into().unwrap()).wrapping_add(number as i32);
        element.copy_from_slice(&value.to_le_bytes());
    }
    input
}

fn expected(number: u32, bytes: usize) -> Numbers {
    let mut sum = input(0, number, bytes);
    for rank in 1..RANKS {
        sum.reduce(0, input(rank, number, bytes).view(0..bytes), SUM);
    }
    sum
}

/// A rank and its group, which rank 0 asks for.
fn join(manager: SocketAddr, (number, channels): (u16, u16)) -> (Rank, JoinedGroup) {
    let mut rank = Rank::attach(CATALOG, &common::rank_process(manager, number)).unwrap();
    let asked = (number == 0).then(|| {
        let client = rank.control().clone();
        client.wait_for_nodes(&members(), 1, LIMIT).unwrap();
        let parameters =
            [("group.mtu", 1024), ("group.message", 4), ("group.window", 4), ("group.channels", channels)];
        let parameters = parameters.map(|(key, value)| (key, Value::from(value)));
        let (design, settings) = common::design("epic-3", FabricKind::Tree, &parameters);
        let request =
            GroupRequest { settings, ..GroupRequest::new(members(), design, ByteCount::new(1 << 20)) };
        thread::spawn(move || client.init_group(&request).unwrap())
    });
    let group = rank.join(LIMIT).unwrap();
    if let Some(asked) = asked {
        asked.join().unwrap();
    }
    (rank, group)
}

/// Runs all collectives, and says how the group was made anew; `done` counts rank 0's.
fn job(manager: SocketAddr, (number, channels): (u16, u16), done: &AtomicU32) -> Vec<Recreation> {
    let (mut rank, group) = join(manager, (number, channels));
    for collective in 1..=COLLECTIVES {
        let output = Numbers::zeroed(BYTES);
        let given = input(number, collective, BYTES);
        let ended = rank.run(group.id, Collective::AllReduce, SUM, given.clone(), output, LIMIT).unwrap();
        assert_eq!(ended.input, given, "the input comes back as it was");
        let wrong = wrong_elements(&expected(collective, BYTES), &ended.output, SUM.data_type);
        assert_eq!(wrong, 0, "rank {number}, collective {collective}");
        if number == 0 {
            done.store(collective, Ordering::Relaxed);
        }
    }
    assert_eq!(rank.group(group.id).unwrap().design, "ring");
    // Others may lack what this rank has.
    rank.serve(Duration::from_millis(300)).unwrap();
    rank.take_recreations()
}

#[test]
fn a_job_goes_on_among_its_hosts_when_its_switch_is_gone() {
    lose_the_switch(1);
}

#[test]
fn a_job_with_channels_goes_on_as_one_group() {
    lose_the_switch(2);
}

/// A manager, and a switch that ends when it is told to.
struct Fabric {
    server: ManagerServer,
    stop: Arc<AtomicBool>,
    switch: thread::JoinHandle<()>,
}

impl Fabric {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let manager = ManagerConfig { fallback: Some(FALLBACK), recreates: true, ..ManagerConfig::default() };
        let config = ServerConfig { manager, ..ServerConfig::default() };
        let server = ManagerServer::start(listener, CATALOG, config).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let options = common::rank_process(server.address(), 9);
        let description = NodeDescription {
            role: Role::Switch,
            designs: ["epic-3".to_string()].into(),
            memory: ByteCount::new(1 << 20),
            ..NodeDescription::host("leaf".into(), options.description.address, 64)
        };
        let options = ProcessOptions { description, ..options };
        let told = Arc::clone(&stop);
        let switch = thread::spawn(move || {
            serve_switch(CATALOG, &options, &told, &SwitchSnapshot::default()).unwrap();
        });
        Self { server, stop, switch }
    }

    /// Ends the switch; the manager goes with what is returned.
    fn lose_the_switch(self) -> ManagerServer {
        self.stop.store(true, Ordering::Relaxed);
        self.switch.join().unwrap();
        self.server
    }
}

fn lose_the_switch(channels: u16) {
    let _alone = common::alone();
    let fabric = Fabric::start();
    let manager = fabric.server.address();
    let done = Arc::new(AtomicU32::new(0));
    let ranks = [0, 1].map(|number| {
        let done = Arc::clone(&done);
        thread::spawn(move || job(manager, (number, channels), &done))
    });
    while done.load(Ordering::Relaxed) < 20 {
        assert!(!ranks.iter().any(thread::JoinHandle::is_finished), "a rank has ended");
        thread::sleep(std::time::Duration::from_millis(1));
    }
    let _manager = fabric.lose_the_switch();
    for rank in ranks {
        let recreations = rank.join().unwrap();
        let [recreation] = &recreations[..] else { panic!("{recreations:?}") };
        assert_eq!((recreation.design.as_str(), recreation.failure.node.as_str()), ("ring", "leaf"));
        assert!(recreation.first > 1 && recreation.first <= u64::from(COLLECTIVES), "{recreation:?}");
    }
}

/// Bytes of what a rank sends without an answer to anything.
const PACKET: usize = 1024;

/// Waits until a test has come so far.
fn wait_for(step: &AtomicU32, number: u32) {
    let end = Instant::now() + std::time::Duration::from(LIMIT);
    while step.load(Ordering::Relaxed) < number {
        assert!(Instant::now() < end, "step {number} does not come");
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Begins two collectives.
fn begin_two(rank: &mut Rank, group: &JoinedGroup) {
    for number in [1, 2] {
        let input = input(group.rank.0, number, PACKET);
        let buffers = Finished { input, output: Numbers::zeroed(PACKET) };
        rank.begin(group.id, Collective::AllReduce, SUM, Terms::WHOLE, buffers).unwrap();
    }
}

/// Steps until both have ended, which must be right.
fn end_two(rank: &mut Rank) {
    let (mut number, end) = (1, Instant::now() + std::time::Duration::from(LIMIT));
    while number <= 2 {
        let mut ended = rank.step(Duration::from_millis(1)).unwrap();
        ended.extend(rank.look().unwrap());
        for ended in ended {
            let Ended::Collective { buffers, .. } = ended else { panic!("{ended:?}") };
            assert_eq!(
                wrong_elements(&expected(number, PACKET), &buffers.output, SUM.data_type),
                0,
                "{number}"
            );
            number += 1;
        }
        assert!(Instant::now() < end, "collective {number} does not end");
    }
}

#[test]
fn two_that_a_rank_has_ended_are_run_again_for_one_that_lacks_both() {
    let _alone = common::alone();
    let fabric = Fabric::start();
    let manager = fabric.server.address();
    let step = AtomicU32::new(0);
    // It outlives both ranks.
    let mut server = None;
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut rank, group) = join(manager, (0, 1));
            wait_for(&step, 1);
            begin_two(&mut rank, &group);
            end_two(&mut rank);
            step.store(2, Ordering::Relaxed);
            let end = Instant::now() + std::time::Duration::from(LIMIT);
            while step.load(Ordering::Relaxed) < 3 && Instant::now() < end {
                rank.serve(Duration::from_millis(5)).unwrap();
            }
            assert!(rank.take_recreations().iter().all(|recreation| recreation.repeats));
        });
        let (mut rank, group) = join(manager, (1, 1));
        begin_two(&mut rank, &group);
        for _ in 0..20 {
            assert!(rank.step(Duration::from_millis(1)).unwrap().is_empty());
        }
        step.store(1, Ordering::Relaxed);
        wait_for(&step, 2);
        // From here on this rank hears the manager alone: the results lie in its socket, and their switch is gone.
        server = Some(fabric.lose_the_switch());
        let end = Instant::now() + std::time::Duration::from(LIMIT);
        let recreation = loop {
            let ended = rank.look().unwrap();
            assert!(ended.is_empty() && Instant::now() < end, "{ended:?}");
            if let Some(recreation) = rank.take_recreations().pop() {
                break recreation;
            }
            thread::sleep(std::time::Duration::from_millis(1));
        };
        assert_eq!((recreation.first, recreation.repeats), (1, false));
        end_two(&mut rank);
        step.store(3, Ordering::Relaxed);
    });
    drop(server);
}
