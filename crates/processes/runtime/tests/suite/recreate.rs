//! Ranks whose switch is gone go on among themselves: each collective ends once, with the right result, also where a rank was ahead.

use crate::common;
use quincunx_collective::{
    Collective, DataType, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction, pattern, wrong_elements,
};
use quincunx_control::{GroupRequest, ManagerConfig, NodeDescription, Role};
use quincunx_control_grpc::{ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_runtime::{ProcessOptions, Rank, Recreation, SwitchSnapshot, serve_switch};
use quincunx_units::{ByteCount, Duration};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 64 << 10;
const RANKS: u16 = 2;
const COLLECTIVES: u32 = 200;

fn members() -> Vec<String> {
    (0..RANKS).map(|rank| format!("rank{rank}")).collect()
}

/// The input of a rank's collective: unlike that of any other one.
fn input(rank: u16, number: u32) -> Numbers {
    let mut input = pattern(RankNumber(rank), BYTES, SUM.data_type);
    for element in input.bytes_mut().chunks_exact_mut(4) {
        let value = i32::from_le_bytes(element.try_into().unwrap()).wrapping_add(number as i32);
        element.copy_from_slice(&value.to_le_bytes());
    }
    input
}

fn expected(number: u32) -> Numbers {
    let mut sum = input(0, number);
    for rank in 1..RANKS {
        sum.reduce(0, input(rank, number).view(0..BYTES), SUM);
    }
    sum
}

/// Runs all collectives, and says how the group was made anew; `done` counts rank 0's.
fn job(manager: SocketAddr, (number, channels): (u16, u16), done: &AtomicU32) -> Vec<Recreation> {
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
    for collective in 1..=COLLECTIVES {
        let output = Numbers::zeroed(BYTES);
        let given = input(number, collective);
        let ended = rank.run(group.id, Collective::AllReduce, SUM, given.clone(), output, LIMIT).unwrap();
        assert_eq!(ended.input, given, "the input comes back as it was");
        let wrong = wrong_elements(&expected(collective), &ended.output, SUM.data_type);
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

fn lose_the_switch(channels: u16) {
    let _alone = common::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let manager = ManagerConfig { fallback: Some(FALLBACK), recreates: true, ..ManagerConfig::default() };
    let config = ServerConfig { manager, ..ServerConfig::default() };
    let server = ManagerServer::start(listener, CATALOG, config).unwrap();
    let manager = server.address();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let switch = {
        let stop = Arc::clone(&stop);
        let options = common::rank_process(manager, 9);
        let description = NodeDescription {
            role: Role::Switch,
            designs: ["epic-3".to_string()].into(),
            memory: ByteCount::new(1 << 20),
            ..NodeDescription::host("leaf".into(), options.description.address, 64)
        };
        let options = ProcessOptions { description, ..options };
        thread::spawn(move || serve_switch(CATALOG, &options, &stop, &SwitchSnapshot::default()).unwrap())
    };
    let ranks = [0, 1].map(|number| {
        let done = Arc::clone(&done);
        thread::spawn(move || job(manager, (number, channels), &done))
    });
    while done.load(Ordering::Relaxed) < 20 {
        assert!(!ranks.iter().any(thread::JoinHandle::is_finished), "a rank has ended");
        thread::sleep(std::time::Duration::from_millis(1));
    }
    stop.store(true, Ordering::Relaxed);
    switch.join().unwrap();
    for rank in ranks {
        let recreations = rank.join().unwrap();
        let [recreation] = &recreations[..] else { panic!("{recreations:?}") };
        assert_eq!((recreation.design.as_str(), recreation.failure.node.as_str()), ("ring", "leaf"));
        assert!(recreation.first > 1 && recreation.first <= u64::from(COLLECTIVES), "{recreation:?}");
    }
}
