//! A switch process of two cores, between ranks' real sockets: each core has groups of its own, and all results are right.

use crate::common;
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction, pattern,
    wrong_elements,
};
use quincunx_control::{GroupRequest, NodeDescription, Role};
use quincunx_control_grpc::{ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_driver_net::TransportOptions;
use quincunx_ports::PortsOptions;
use quincunx_runtime::{ProcessOptions, Rank, RuntimeError, SwitchCounts, SwitchSnapshot, serve_switch};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::Framing;
use std::net::{SocketAddr, TcpListener};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 64 << 10;

fn manager() -> ManagerServer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap()
}

/// A switch with a core at each of these of the tests' addresses.
fn switch(manager: SocketAddr, cores: &[u16]) -> ProcessOptions {
    let options = common::rank_process(manager, cores[0]);
    let description = NodeDescription {
        role: Role::Switch,
        designs: ["epic-3".to_string()].into(),
        memory: ByteCount::new(4 << 20),
        cores: cores[1..].iter().map(|core| common::address(*core)).collect(),
        ..NodeDescription::host("leaf".into(), options.description.address, 64)
    };
    ProcessOptions { description, ..options }
}

fn members(ranks: u16) -> Vec<String> {
    (0..ranks).map(|rank| format!("rank{rank}")).collect()
}

fn request(parameters: &[(&str, Value)], ranks: u16) -> GroupRequest {
    let base = [("group.mtu", 1024), ("group.message", 4), ("group.window", 4)];
    let mut all: Vec<(&str, Value)> = base.map(|(key, value)| (key, Value::from(value))).into();
    all.extend(parameters.iter().cloned());
    let (design, settings) = common::design("epic-3", FabricKind::Tree, &all);
    GroupRequest { settings, ..GroupRequest::new(members(ranks), design, ByteCount::new(1 << 20)) }
}

/// Joins a group that rank 0 asks for.
fn join(rank: &mut Rank, number: u16, wanted: &GroupRequest) -> GroupId {
    let asked = (number == 0).then(|| {
        let (client, wanted) = (rank.control().clone(), wanted.clone());
        client.wait_for_nodes(&wanted.members, 1, LIMIT).unwrap();
        thread::spawn(move || client.init_group(&wanted).unwrap())
    });
    let group = rank.join(LIMIT).unwrap();
    if let Some(asked) = asked {
        asked.join().unwrap();
    }
    group.id
}

fn all_reduce(rank: &mut Rank, (number, ranks): (u16, u16), group: GroupId) {
    let input = |rank| pattern(RankNumber(rank), BYTES, SUM.data_type);
    let output = Numbers::zeroed(BYTES);
    let ended = rank.run(group, Collective::AllReduce, SUM, input(number), output, LIMIT).unwrap();
    let mut expected = input(0);
    (1..ranks).for_each(|rank| expected.reduce(0, input(rank).view(0..BYTES), SUM));
    assert_eq!(wrong_elements(&expected, &ended.output, SUM.data_type), 0, "rank {number}, group {group}");
}

/// Has ranks do something beside a switch of two cores; what its cores have counted at the end, and how it has ended.
fn beside_two_cores(
    ranks: u16,
    job: impl Fn(Rank, u16) + Sync,
) -> (Vec<SwitchCounts>, Result<(), RuntimeError>) {
    let _alone = common::alone();
    let (server, snapshot, stop) = (manager(), SwitchSnapshot::default(), AtomicBool::new(false));
    let options = switch(server.address(), &[8, 9]);
    let ended = thread::scope(|scope| {
        let switch = scope.spawn(|| serve_switch(CATALOG, &options, &stop, &snapshot));
        let (job, address) = (&job, server.address());
        let ranks: Vec<_> = (0..ranks)
            .map(|number| {
                let attach = move || Rank::attach(CATALOG, &common::rank_process(address, number)).unwrap();
                scope.spawn(move || job(attach(), number))
            })
            .collect();
        let ranks: Vec<_> = ranks.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        let ended = switch.join().unwrap();
        ranks.into_iter().for_each(|rank| rank.unwrap());
        ended
    });
    (snapshot.cores(), ended)
}

#[test]
fn two_groups_run_on_two_cores_and_each_core_counts_its_own() {
    let all_done = Barrier::new(2);
    let (cores, ended) = beside_two_cores(2, |mut rank, number| {
        let groups = [(); 2].map(|()| join(&mut rank, number, &request(&[], 2)));
        for _ in 0..3 {
            groups.iter().for_each(|group| all_reduce(&mut rank, (number, 2), *group));
        }
        // Peers may lack an answer still.
        rank.serve(Duration::from_millis(100)).unwrap();
        all_done.wait();
    });
    ended.unwrap();
    assert_eq!(cores.len(), 2);
    for core in cores {
        assert_eq!((core.installed, core.refused), (1, 0), "{core:?}");
        // Three vectors of 64 packets from each of two ranks.
        assert!(core.received.frames >= 3 * 64 * 2, "{core:?}");
        assert!(core.sent.frames >= 3 * 64 * 2, "{core:?}");
    }
}

#[test]
fn a_group_that_ends_is_forgotten_on_its_core_and_the_next_one_takes_its_place() {
    let all_done = Barrier::new(2);
    let (cores, ended) = beside_two_cores(2, |mut rank, number| {
        let _kept = join(&mut rank, number, &request(&[], 2));
        for _ in 0..3 {
            let group = join(&mut rank, number, &request(&[], 2));
            all_reduce(&mut rank, (number, 2), group);
            rank.serve(Duration::from_millis(50)).unwrap();
            if number == 0 {
                rank.end_group(group).unwrap();
            }
            while rank.is_in(group) {
                rank.serve(Duration::from_millis(5)).unwrap();
            }
        }
        all_done.wait();
    });
    ended.unwrap();
    assert_eq!(cores.iter().map(|core| core.installed).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((cores[1].removed, cores[1].groups, cores[1].memory_held), (3, 0, 0));
}

#[test]
fn several_cores_are_refused_in_one_line_where_frames_are_for_others() {
    let _alone = common::alone();
    let server = manager();
    let several = switch(server.address(), &[8, 9]);
    let ports = TransportOptions::Ports(PortsOptions::new(vec!["eth1".into()], 24));
    let options = [
        ProcessOptions { framing: Framing::RoceV1, ..several.clone() },
        ProcessOptions { transport: ports, ..several },
    ];
    for (options, of) in options.into_iter().zip(["RoCE v1", "ports"]) {
        let stop = AtomicBool::new(false);
        let error = serve_switch(CATALOG, &options, &stop, &SwitchSnapshot::default()).unwrap_err();
        assert!(matches!(error, RuntimeError::Cores { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(of) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn the_channels_of_one_group_run_on_as_many_cores() {
    let all_done = Barrier::new(3);
    let channels = [("group.channels", Value::from(2))];
    let (cores, ended) = beside_two_cores(3, |mut rank, number| {
        let group = join(&mut rank, number, &request(&channels, 3));
        for _ in 0..3 {
            all_reduce(&mut rank, (number, 3), group);
        }
        rank.serve(Duration::from_millis(100)).unwrap();
        if number == 0 {
            rank.end_group(group).unwrap();
        }
        while rank.is_in(group) {
            rank.serve(Duration::from_millis(5)).unwrap();
        }
        all_done.wait();
    });
    ended.unwrap();
    for core in &cores {
        assert_eq!((core.installed, core.removed, core.groups, core.memory_held), (1, 1, 0, 0), "{core:?}");
        // Three times half a vector of 64 packets from each of three ranks, in each channel.
        assert!(core.received.frames >= 3 * 32 * 3, "{core:?}");
    }
    let [a, b] = [0, 1].map(|core: usize| cores[core].received.frames);
    assert!(a < 2 * b && b < 2 * a, "{a} and {b} frames");
}
