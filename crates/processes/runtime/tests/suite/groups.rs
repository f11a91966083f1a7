//! A rank in several groups: what becomes of one is not the others' affair.

use crate::common;
use quincunx_collective::{Collective, DataType, GroupId, Numbers, Payload, ReduceOp, Reduction, pattern};
use quincunx_control::GroupRequest;
use quincunx_control_grpc::{AgentServer, ClientConfig, ControlClient, ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_runtime::{Rank, RuntimeError};
use quincunx_units::{ByteCount, Duration};
use std::net::{SocketAddr, TcpListener};
use std::thread;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 4096;

fn attach(manager: SocketAddr, number: u16) -> Rank {
    Rank::attach(CATALOG, &common::rank_process(manager, number)).unwrap()
}

/// Joins one group after the other, both with the same members; rank 0 asks for them.
fn join_two(rank: &mut Rank, leads: bool) -> [GroupId; 2] {
    [0, 1].map(|_| join(rank, leads))
}

/// Joins a group, which rank 0 asks for.
fn join(rank: &mut Rank, leads: bool) -> GroupId {
    let asked = leads.then(|| {
        let client = rank.control().clone();
        let members = vec!["rank0".to_string(), "rank1".to_string()];
        client.wait_for_nodes(&members, 0, LIMIT).unwrap();
        let parameters = [("group.mtu", 1024), ("group.message", 1), ("group.window", 4)];
        let parameters = parameters.map(|(key, value)| (key, Value::from(value)));
        let (ring, settings) = common::design("ring", FabricKind::Tree, &parameters);
        let request = GroupRequest { settings, ..GroupRequest::new(members, ring, ByteCount::new(1 << 20)) };
        thread::spawn(move || client.init_group(&request).unwrap())
    });
    let joined = rank.join(LIMIT).unwrap();
    if let Some(asked) = asked {
        asked.join().unwrap();
    }
    joined.id
}

fn all_reduce(rank: &mut Rank, group: GroupId, limit: Duration) -> Result<Numbers, RuntimeError> {
    let input = pattern(quincunx_collective::Rank(0), BYTES, SUM.data_type);
    let output = Numbers::zeroed(BYTES);
    rank.run(group, Collective::AllReduce, SUM, input, output, limit).map(|finished| finished.output)
}

#[test]
fn a_group_whose_collective_was_given_up_does_not_end_another_ones() {
    let _alone = common::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap();
    let manager = server.address();
    let other = thread::spawn(move || {
        let mut rank = attach(manager, 1);
        let [_, good] = join_two(&mut rank, false);
        let sum = all_reduce(&mut rank, good, LIMIT).unwrap();
        rank.serve(Duration::from_millis(50)).unwrap();
        sum
    });
    let mut rank = attach(manager, 0);
    let [given_up, good] = join_two(&mut rank, true);
    // The other rank never comes.
    let late = all_reduce(&mut rank, given_up, Duration::from_millis(1)).unwrap_err();
    assert!(matches!(late, RuntimeError::TimedOut { .. }), "{late}");
    let sum = all_reduce(&mut rank, good, LIMIT).unwrap();
    assert_eq!(sum, other.join().unwrap());
}

#[test]
fn a_rank_whose_agent_starts_again_stays_in_its_group_and_joins_the_next_one() {
    let _alone = common::alone();
    let bind = |address: SocketAddr| ManagerServer::bind(&address.into()).unwrap();
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = ManagerServer::start(bind(anywhere), CATALOG, ServerConfig::default()).unwrap();
    let watching = ControlClient::connect(server.address(), ClientConfig::default()).unwrap();
    let start = |address| AgentServer::start(bind(address), server.address().into(), None).unwrap();
    let agent = start(anywhere);
    let at = agent.address();
    let begin = std::sync::Barrier::new(3);
    thread::scope(|scope| {
        let run = |number: u16| {
            let mut process = common::rank_process(at, number);
            process.control.patience = LIMIT;
            let mut rank = Rank::attach(CATALOG, &process).unwrap();
            let leads = number == 0;
            let first = join(&mut rank, leads);
            let before = all_reduce(&mut rank, first, LIMIT).unwrap();
            begin.wait();
            // The agent is started again meanwhile.
            begin.wait();
            let second = join(&mut rank, leads);
            assert_ne!(first, second);
            for group in [first, second] {
                assert_eq!(all_reduce(&mut rank, group, LIMIT).unwrap(), before);
            }
            rank.serve(Duration::from_millis(50)).unwrap();
        };
        let ranks = [0, 1].map(|number| scope.spawn(move || run(number)));
        begin.wait();
        drop(agent);
        while !watching.list_nodes().unwrap().is_empty() {
            thread::sleep(std::time::Duration::from_millis(1));
        }
        let _agent = start(at);
        watching.wait_for_nodes(&["rank0".into(), "rank1".into()], 0, LIMIT).unwrap();
        begin.wait();
        for rank in ranks {
            rank.join().unwrap();
        }
    });
}
