//! Ranks of one machine behind one address, beside a switch and a rank elsewhere: whoever comes and goes, each gets its own frames.

use crate::common;
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction, pattern,
    reference, wrong_elements,
};
use quincunx_control::{GroupRequest, NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ControlClient, ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_driver_net::TransportOptions;
use quincunx_runtime::{JoinedGroup, ProcessOptions, Rank, SwitchSnapshot, serve_switch};
use quincunx_sockets::UdpOptions;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Framing, Gid, Operation, Psn, QpNumber, RoceHeader, datagram_length, emit_datagram};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 24 << 10;

/// Ranks 0 to 2 are at one address, rank 3 at another.
const RANKS: u16 = 4;

const SWITCH: u16 = 9;

fn rank_process(manager: SocketAddr, number: u16, framing: Framing) -> ProcessOptions {
    let options = common::rank_process(manager, number);
    let address = common::address(if number == 3 { 1 } else { 0 });
    // Frames of RoCE v1 go to their switch.
    let via = (framing == Framing::RoceV1).then(|| SocketAddr::new(common::address(SWITCH), 4791));
    ProcessOptions {
        description: NodeDescription { address, ..options.description },
        framing,
        transport: TransportOptions::Udp(UdpOptions { via, ..UdpOptions::default() }),
        ..options
    }
}

fn switch_process(manager: SocketAddr, framing: Framing) -> ProcessOptions {
    let options = common::rank_process(manager, SWITCH);
    let designs = CATALOG.above_queue_pairs().filter(|design| design.about().framing == framing);
    let description = NodeDescription {
        role: Role::Switch,
        designs: designs.map(|design| design.name().to_string()).collect(),
        memory: ByteCount::new(8 << 20),
        ..NodeDescription::host("leaf".into(), options.description.address, 64)
    };
    ProcessOptions { description, framing, ..options }
}

fn members(ranks: &[u16]) -> Vec<String> {
    ranks.iter().map(|rank| format!("rank{rank}")).collect()
}

/// Joins a group of these ranks, which the first of them asks for.
fn join(rank: &mut Rank, (number, ranks): (u16, &[u16]), design: &str) -> JoinedGroup {
    let asked = (number == ranks[0]).then(|| {
        let parameters = [("group.mtu", 1024), ("group.message", 4), ("group.window", 4)];
        let parameters = parameters.map(|(key, value)| (key, Value::from(value)));
        let (design, settings) = common::design(design, FabricKind::Tree, &parameters);
        let wanted =
            GroupRequest { settings, ..GroupRequest::new(members(ranks), design, ByteCount::new(1 << 20)) };
        let client = rank.control().clone();
        client.wait_for_nodes(&wanted.members, 1, LIMIT).unwrap();
        thread::spawn(move || client.init_group(&wanted).unwrap())
    });
    let group = rank.join(LIMIT).unwrap();
    if let Some(asked) = asked {
        asked.join().unwrap();
    }
    assert_eq!(group.design, design);
    group
}

/// Runs a collective of all ranks of a group, whose result must be right.
fn run(rank: &mut Rank, group: &JoinedGroup, collective: Collective) {
    let parts = usize::from(group.ranks);
    let (brought, got) = match collective {
        Collective::AllGather => (BYTES / parts, BYTES),
        Collective::ReduceScatter => (BYTES, BYTES / parts),
        Collective::Barrier => (0, 0),
        _ => (BYTES, BYTES),
    };
    let inputs: Vec<_> =
        (0..group.ranks).map(|rank| pattern(RankNumber(rank), brought, SUM.data_type)).collect();
    let own = usize::from(group.rank.0);
    let (input, output) = (inputs[own].clone(), Numbers::zeroed(got));
    let ended = rank.run(group.id, collective, SUM, input, output, LIMIT).unwrap();
    let expected = &reference(collective, SUM, &inputs)[own];
    if expected.length() > 0 {
        let wrong = wrong_elements(expected, &ended.output, SUM.data_type);
        assert_eq!(wrong, 0, "{collective} by {} at rank {own}", group.design);
    }
}

fn leave(rank: &mut Rank, group: GroupId, leads: bool) {
    rank.serve(Duration::from_millis(50)).unwrap();
    if leads {
        rank.end_group(group).unwrap();
    }
    while rank.is_in(group) {
        rank.serve(Duration::from_millis(2)).unwrap();
    }
}

/// Has something done beside a manager and a switch.
fn beside_a_switch(framing: Framing, job: impl FnOnce(SocketAddr) + Send) {
    let _alone = common::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap();
    let stop = AtomicBool::new(false);
    let options = switch_process(server.address(), framing);
    thread::scope(|scope| {
        let switch = scope.spawn(|| serve_switch(CATALOG, &options, &stop, &SwitchSnapshot::default()));
        let done = thread::scope(|scope| scope.spawn(|| job(server.address())).join());
        stop.store(true, Ordering::Relaxed);
        switch.join().unwrap().unwrap();
        done.unwrap();
    });
}

/// Has all ranks run collectives of these designs.
fn all_are_right(framing: Framing, designs: &[&str], collectives: &[Collective]) {
    beside_a_switch(framing, |manager| {
        let done = Barrier::new(usize::from(RANKS));
        let job = &|number| {
            let mut rank = Rank::attach(CATALOG, &rank_process(manager, number, framing)).unwrap();
            for design in designs {
                let group = join(&mut rank, (number, &[0, 1, 2, 3]), design);
                for collective in collectives {
                    run(&mut rank, &group, *collective);
                }
                leave(&mut rank, group.id, number == 0);
            }
            assert!(!rank.drops().contains_key("foreign-queue-pair"), "{:?}", rank.drops());
            done.wait();
        };
        thread::scope(|scope| (0..RANKS).for_each(|number| drop(scope.spawn(move || job(number)))));
    });
}

const ROOT: RankNumber = RankNumber(2);

#[test]
fn ranks_behind_one_address_run_every_collective_of_every_design() {
    let collectives = [
        Collective::AllReduce,
        Collective::Reduce { root: ROOT },
        Collective::Broadcast { root: ROOT },
        Collective::Barrier,
        Collective::ReduceScatter,
        Collective::AllGather,
    ];
    let designs = ["epic-1", "epic-2", "epic-3", "ring", "tree", "direct"];
    all_are_right(Framing::RoceV2, &designs, &collectives);
}

#[test]
fn ranks_behind_one_address_send_frames_of_roce_v1_through_their_switch() {
    all_are_right(Framing::RoceV1, &["netreduce"], &[Collective::AllReduce; 3]);
}

#[test]
fn a_rank_that_takes_the_place_of_one_that_is_gone_disturbs_nobody_at_the_address() {
    beside_a_switch(Framing::RoceV2, |manager| {
        let come = Barrier::new(3);
        let attach = |number| Rank::attach(CATALOG, &rank_process(manager, number, Framing::RoceV2)).unwrap();
        let finish = |mut rank: Rank, number| {
            come.wait();
            let group = join(&mut rank, (number, &[1, 2, 0]), "direct");
            run(&mut rank, &group, Collective::AllReduce);
            rank.serve(Duration::from_millis(100)).unwrap();
            assert_eq!(rank.drops().get("foreign-queue-pair"), None);
            come.wait();
        };
        let stays = |number| {
            let mut rank = attach(number);
            let group = join(&mut rank, (number, &[1, 2]), "epic-3");
            for _ in 0..200 {
                run(&mut rank, &group, Collective::AllReduce);
            }
            finish(rank, number);
        };
        let comes_and_goes = || {
            let client = ControlClient::connect(manager, ClientConfig::default()).unwrap();
            for _ in 0..5 {
                drop(attach(0));
                // The manager hears of it a moment later.
                while client.list_nodes().unwrap().iter().any(|node| node.description.name == "rank0") {
                    thread::yield_now();
                }
            }
            finish(attach(0), 0);
        };
        thread::scope(|scope| {
            let (stays, comes_and_goes) = (&stays, &comes_and_goes);
            (1..3).for_each(|number| drop(scope.spawn(move || stays(number))));
            scope.spawn(comes_and_goes);
        });
    });
}

#[test]
fn a_rank_waits_until_the_manager_has_missed_who_had_its_share_before() {
    beside_a_switch(Framing::RoceV2, |manager| {
        let client = ControlClient::connect(manager, ClientConfig::default()).unwrap();
        let before = NodeDescription::host("before".into(), common::address(0), 64);
        let attachment = client.attach(&before).unwrap();
        let attach = || Rank::attach(CATALOG, &rank_process(manager, 0, Framing::RoceV2)).map(drop);
        // Of one that stays the manager's refusal is told.
        let error = attach().unwrap_err().to_string();
        assert!(error.contains("which \"before\" has"), "{error}");
        thread::scope(|scope| {
            let attached = scope.spawn(attach);
            thread::sleep(std::time::Duration::from_millis(30));
            drop(attachment);
            attached.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_frame_for_a_queue_pair_that_nobody_at_the_address_has_is_dropped_and_counted() {
    beside_a_switch(Framing::RoceV2, |manager| {
        let mut ranks: Vec<_> = (0..3)
            .map(|number| Rank::attach(CATALOG, &rank_process(manager, number, Framing::RoceV2)).unwrap())
            .collect();
        let stranger = UdpSocket::bind((common::address(2), 4791)).unwrap();
        let to = SocketAddr::new(common::address(0), 4791);
        // Of each of the three, of a share that is nobody's, and of one that nobody can have.
        for share in [0, 1, 2, 3, 200] {
            let (queue_pair, operation) = (QpNumber::new(share << 16 | 77), Operation::WriteMiddle);
            let ends = [2, 0].map(|rank| Gid::of(common::address(rank)));
            let header = RoceHeader::new(ends[0], ends[1], queue_pair, Psn::new(0), operation);
            let mut bytes = vec![0; datagram_length(&operation, 8)];
            emit_datagram(&header, b"8 bytes.", &mut bytes);
            stranger.send_to(&bytes, to).unwrap();
        }
        let counts: Vec<u64> = ranks
            .iter_mut()
            .map(|rank| {
                rank.serve(Duration::from_millis(20)).unwrap();
                rank.drops().get("foreign-queue-pair").copied().unwrap_or_default()
            })
            .collect();
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_eq!(counts.iter().sum::<u64>(), 5);
    });
}
