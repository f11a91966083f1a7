//! Ranks of a mesh on real sockets: one-sided writes, what relays do to them, and what is said when one dies.

use crate::common;
use quincunx_collective::{Collective, DataType, Numbers, Rank as RankNumber, ReduceOp, Reduction};
use quincunx_control::GroupRequest;
use quincunx_control_grpc::{ManagerServer, ServerConfig};
use quincunx_design::{Demand, FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_engine::writes::{Target, WriteError};
use quincunx_fabric::MeshShape;
use quincunx_nodes::HostRejected;
use quincunx_runtime::{JoinedGroup, Rank, RuntimeError};
use quincunx_units::{ByteCount, Duration};
use std::net::{SocketAddr, TcpListener};
use std::sync::Barrier;
use std::thread;

const LIMIT: Duration = Duration::from_secs(20);
const RANKS: u16 = 4;
const PIECE: ByteCount = ByteCount::new(2048);
/// The way over the partner in the next domain.
const RELAYED: usize = 1;

fn attach(manager: SocketAddr, number: u16) -> Rank {
    Rank::attach(CATALOG, &common::rank_process(manager, number)).unwrap()
}

/// Two domains of two.
fn request(design: &str) -> GroupRequest {
    let parameters = [
        ("group.mtu", Value::from(1024)),
        ("group.message", Value::from(2)),
        ("group.window", Value::from(4)),
        ("group.retry_timeout", Value::from("5ms")),
        ("group.retry_count", Value::from(20)),
        ("relay.piece", Value::from(PIECE.bytes())),
    ];
    let (design, settings) = common::design(design, FabricKind::Mesh, &parameters);
    let members = (0..RANKS).map(|rank| format!("rank{rank}")).collect();
    let mesh = MeshShape::new(2, 2);
    let demand = if design.about().writes {
        Rank::measuring_demand(RANKS, PIECE)
    } else {
        Demand::Vectors { longest: ByteCount::new(1 << 16) }
    };
    GroupRequest { settings, demand, mesh, ..GroupRequest::new(members, design, ByteCount::new(1 << 16)) }
}

/// Every rank in a thread of its own, in one group; what each came to.
fn on_mesh<T: Send>(design: &'static str, work: impl Fn(&mut Rank, &JoinedGroup) -> T + Sync) -> Vec<T> {
    let _alone = common::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap();
    let (manager, work) = (server.address(), &work);
    // Whoever leaves before another one has heard that the group is ready takes it from there.
    let all_joined = &Barrier::new(RANKS.into());
    thread::scope(|scope| {
        let one = |number: u16| {
            move || {
                let mut rank = attach(manager, number);
                let asked = (number == 0).then(|| {
                    let client = rank.control().clone();
                    let request = request(design);
                    client.wait_for_nodes(&request.members, 0, LIMIT).unwrap();
                    thread::spawn(move || client.init_group(&request).unwrap())
                });
                let joined = rank.join(LIMIT).unwrap();
                if let Some(asked) = asked {
                    asked.join().unwrap();
                }
                all_joined.wait();
                work(&mut rank, &joined)
            }
        };
        let threads: Vec<_> = (0..RANKS).map(|number| scope.spawn(one(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn target(rank: u16, slot: usize) -> Target {
    Target { rank: RankNumber(rank), slot }
}

fn data(byte: u8) -> Numbers {
    Numbers::from(vec![byte; PIECE.as_usize()])
}

#[test]
fn what_one_rank_writes_the_others_are_told_whichever_way_it_takes() {
    on_mesh("writes", |rank, group| {
        for way in [0, RELAYED] {
            if group.rank.0 == 0 {
                rank.write(group.id, way, target(3, 1), data(1), LIMIT).unwrap();
                let to = [target(1, 0), target(2, 2), target(3, 2)];
                rank.multi_write(group.id, way, &to, data(2), LIMIT).unwrap();
            } else {
                let expected: &[(usize, u8)] = match group.rank.0 {
                    1 => &[(0, 2)],
                    2 => &[(2, 2)],
                    _ => &[(1, 1), (2, 2)],
                };
                for &(slot, byte) in expected {
                    let delivered = rank.next_delivered(group.id, LIMIT).unwrap();
                    assert_eq!((delivered.source, delivered.slot), (RankNumber(0), slot));
                    assert_eq!(delivered.data, data(byte));
                }
            }
        }
        rank.serve(Duration::from_millis(100)).unwrap();
    });
}

#[test]
fn a_write_that_makes_no_sense_is_refused_where_it_is_asked_for() {
    on_mesh("writes", |rank, group| {
        let me = group.rank.0;
        let long = Numbers::from(vec![0; PIECE.as_usize() + 4]);
        for (to, data, error) in [
            (target(RANKS, 0), data(1), WriteError::UnknownRank { ranks: RANKS, found: RANKS }),
            (target(me, 0), data(1), WriteError::SelfAddressed { rank: me }),
            (target((me + 1) % RANKS, 0), long, WriteError::Source { limit: 2048, found: 2052 }),
        ] {
            match rank.write(group.id, 0, to, data, LIMIT) {
                Err(RuntimeError::Rejected(HostRejected::Write(found))) => assert_eq!(found, error),
                other => panic!("expected {error}, found {other:?}"),
            }
        }
    });
}

#[test]
fn all_ranks_come_to_the_same_rates() {
    let rates = on_mesh("writes", |rank, group| {
        let rates = rank.measure(group, PIECE, LIMIT).unwrap();
        rank.serve(Duration::from_millis(100)).unwrap();
        rates
    });
    assert!(rates.iter().all(|found| *found == rates[0]), "{rates:?}");
    // Slower than any link, faster than none.
    for rate in [rates[0].direct, rates[0].cross] {
        assert!((1_000_000..1_000_000_000_000).contains(&rate.bits_per_second()), "{rate}");
    }
}

/// What ranks are told when one of them dies under a multi_write by way of it, or under an AllGather that it relays for.
fn ends_with_the_relay(design: &'static str, work: impl Fn(&mut Rank, &JoinedGroup) -> RuntimeError + Sync) {
    let ends = on_mesh(design, |rank, group| {
        // Rank 2 is rank 0's partner. It leaves its socket and the manager as a process that is killed does.
        (group.rank.0 != 2).then(|| work(rank, group).to_string())
    });
    for error in ends.into_iter().flatten() {
        assert!(error.starts_with("expected ") && !error.contains('\n'), "{error}");
        assert!(error.contains("rank 2") || error.contains("rank2"), "it says who died: {error}");
    }
}

#[test]
fn a_relay_that_dies_ends_the_writes_of_those_it_relays_for() {
    ends_with_the_relay("writes", |rank, group| {
        let to: Vec<_> = (0..RANKS).filter(|to| ![2, group.rank.0].contains(to)).collect();
        for round in 0.. {
            let targets: Vec<Target> = to.iter().map(|to| target(*to, round % 2)).collect();
            if let Err(error) = rank.multi_write(group.id, RELAYED, &targets, data(1), LIMIT) {
                return error;
            }
        }
        unreachable!("rounds do not end")
    });
}

#[test]
fn a_relay_that_dies_ends_the_collectives_of_all_and_none_is_taken_for_whole() {
    let sum = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    ends_with_the_relay("multiwrite", |rank, group| {
        let (input, output) = (Numbers::from(vec![1; 8192]), Numbers::from(vec![0; 2 * 8192]));
        let first = rank.run(group.id, Collective::AllGather, sum, input, output, LIMIT);
        match first {
            Err(error) => error,
            // Nobody waits for a relay that had nothing of this rank's left to do; it is missed at the next barrier.
            Ok(_) => {
                let nothing = || Numbers::from(Vec::new());
                rank.run(group.id, Collective::Barrier, sum, nothing(), nothing(), LIMIT).unwrap_err()
            }
        }
    });
}
