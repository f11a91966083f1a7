//! A rank in several groups: what becomes of one is not the others' affair.

use quincunx_collective::{Collective, DataType, GroupId, Numbers, Payload, ReduceOp, Reduction, pattern};
use quincunx_control::{GroupRequest, NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ManagerServer, ServerConfig};
use quincunx_driver_net::{NodeOptions, TransportOptions, UdpOptions};
use quincunx_fabric::TreeShape;
use quincunx_runtime::{ProcessOptions, Rank, RuntimeError};
use quincunx_units::{ByteCount, Duration};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LIMIT: Duration = Duration::from_secs(20);
const BYTES: usize = 4096;

fn attach(manager: SocketAddr, number: u8) -> Rank {
    let [.., high, low] = std::process::id().to_be_bytes();
    let description = NodeDescription {
        name: format!("rank{number}"),
        role: Role::Host,
        address: Ipv4Addr::new(127, high, low, 1 + number),
        modes: [].into(),
        max_endpoints: 64,
        memory: ByteCount::new(0),
    };
    Rank::attach(&ProcessOptions {
        description,
        manager,
        control: ClientConfig::default(),
        transport: TransportOptions::Udp(UdpOptions::default()),
        node: NodeOptions::default(),
        capture: None,
    })
    .unwrap()
}

/// Joins one group after the other, both with the same members; rank 0 asks for them.
fn join_two(rank: &mut Rank, leads: bool) -> [GroupId; 2] {
    [0, 1].map(|_| {
        let asked = leads.then(|| {
            let client = rank.control().clone();
            let members = vec!["rank0".to_string(), "rank1".to_string()];
            client.wait_for_nodes(&members, 0, LIMIT).unwrap();
            let request = GroupRequest {
                members,
                design: "ring".parse().unwrap(),
                tree: TreeShape::star(2).unwrap(),
                mesh: None,
                mtu: ByteCount::new(1024),
                message_packets: 1,
                window_messages: 4,
                reproducible: false,
            };
            thread::spawn(move || client.init_group(&request).unwrap())
        });
        let joined = rank.join(LIMIT).unwrap();
        if let Some(asked) = asked {
            asked.join().unwrap();
        }
        joined.id
    })
}

fn all_reduce(rank: &mut Rank, group: GroupId, limit: Duration) -> Result<Numbers, RuntimeError> {
    let input = pattern(quincunx_collective::Rank(0), BYTES, SUM.data_type);
    let output = Numbers::zeroed(BYTES);
    rank.run(group, Collective::AllReduce, SUM, input, output, limit).map(|finished| finished.output)
}

#[test]
fn a_group_whose_collective_was_given_up_does_not_end_another_ones() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, ServerConfig::default()).unwrap();
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
