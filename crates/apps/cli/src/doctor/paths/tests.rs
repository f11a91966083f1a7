//! What is told of nodes that say this or that: each fault is told, with the place where it is, and nothing else.

use super::*;
use quincunx_control_grpc::FRAMES_OF_SIZE;

const VERSION: &str = "1.2.3";

/// What is told of it, and how it is made.
type Fault<T> = (&'static str, fn(&mut T));

fn node(number: u8) -> Node {
    let description = NodeDescription::host(format!("n{number}"), [10, 0, 0, number].into(), 1);
    let path = |peer: u32| PathCounts {
        peer,
        sizes: [FRAMES_OF_SIZE; PATH_SIZES.len()],
        stream: 1000,
        doubled: 0,
        late: 0,
        bytes: 1_000_000,
        time: Duration::from_millis(1),
        sent: 1000,
        answers: [FRAMES_OF_SIZE; PATH_SIZES.len()],
        round_trip: Some(Duration::from_micros(50)),
        neighbour: Some(0x0200_0000_0000 + u64::from(peer)),
    };
    let paths = NodePaths {
        version: VERSION.into(),
        receive_buffer: Some(RECEIVE_BUFFER),
        mtu: Some(9000),
        mac: Some(0x0200_0000_0000 + u64::from(number)),
        cores: 8,
        is_offloaded: false,
        pending: 0,
        paths: (0..4).filter(|peer| *peer != u32::from(number)).map(path).collect(),
    };
    let answer = NodeAnswer { paths, machine: u64::from(number) + 1, ahead: 1000, error: 2000 };
    Node { description, answer: Some(answer) }
}

/// Four nodes without a fault, and then with what `spoil` does to them: what is told of them, as place and check.
fn told(spoil: impl FnOnce(&mut [Node])) -> Vec<(String, &'static str)> {
    let mut nodes: Vec<Node> = (0..4).map(node).collect();
    spoil(&mut nodes);
    let ways = ways(&nodes);
    let findings = judge_nodes(&nodes, VERSION).into_iter().chain(judge_ways(&nodes, &ways, None));
    findings.filter(Finding::is_fault).map(|finding| (finding.place, finding.check)).collect()
}

fn paths(node: &mut Node) -> &mut NodePaths {
    &mut node.answer.as_mut().unwrap().paths
}

/// What the first node has found out of the second.
fn first(nodes: &mut [Node]) -> &mut PathCounts {
    &mut paths(&mut nodes[0]).paths[0]
}

#[test]
fn of_a_fabric_without_faults_nothing_is_told() {
    assert_eq!(told(|_| {}), []);
}

#[test]
fn each_fault_of_a_node_is_told_with_its_name() {
    let faults: [Fault<Node>; 5] = [
        ("node", |node| node.answer = None),
        ("version", |node| paths(node).version = "1.2.2".into()),
        ("receive buffer", |node| paths(node).receive_buffer = Some(ByteCount::new(212_992))),
        ("clock", |node| node.answer.as_mut().unwrap().ahead = -2_000_000_000),
        ("address", |node| paths(node).mac = Some(7)),
    ];
    for (check, spoil) in faults {
        let found = told(|nodes| spoil(&mut nodes[2]));
        assert!(
            !found.is_empty() && found.iter().all(|told| *told == ("n2".into(), check)),
            "{check}: {found:?}"
        );
    }
}

#[test]
fn a_router_that_stands_for_several_nodes_is_no_stranger_and_nor_is_another_node() {
    let router = |mac: u64| {
        move |nodes: &mut [Node]| {
            paths(&mut nodes[0]).paths.iter_mut().for_each(|path| path.neighbour = Some(mac))
        }
    };
    assert_eq!(told(router(7)), []);
    assert_eq!(told(router(0x0200_0000_0003)), []);
}

#[test]
fn each_fault_of_a_path_is_told_with_its_way() {
    // What the first node counts is what came from the second.
    let faults: [Fault<PathCounts>; 6] = [
        ("reach", |path| (path.sizes, path.stream) = ([0; 6], 0)),
        ("MTU", |path| path.sizes[5] = 0),
        ("loss", |path| path.stream = 990),
        ("doubled", |path| path.doubled = 10),
        ("order", |path| path.late = 10),
        ("rate", |path| path.time = Duration::from_millis(200)),
    ];
    for (check, spoil) in faults {
        assert_eq!(told(|nodes| spoil(first(nodes))), [("n1 -> n0".into(), check)]);
    }
}

#[test]
fn a_path_that_carries_as_much_as_its_interfaces_is_well_and_one_that_carries_no_packet_of_groups_is_not() {
    let short = |nodes: &mut [Node]| {
        for node in nodes {
            let paths = paths(node);
            paths.mtu = Some(1500);
            paths.paths.iter_mut().for_each(|path| path.sizes[4..].fill(0));
        }
    };
    assert_eq!(told(short), []);
    let shorter = |nodes: &mut [Node]| {
        short(nodes);
        first(nodes).sizes[3] = 0;
    };
    assert_eq!(told(shorter), [("n1 -> n0".into(), "MTU")]);
}

#[test]
fn a_rate_that_was_asked_for_is_held_to() {
    let nodes: Vec<Node> = (0..2).map(node).collect();
    let ways = ways(&nodes);
    let told = |text: &str| judge_ways(&nodes, &ways, Some(text.parse().unwrap())).len();
    // A megabyte in a millisecond.
    assert_eq!((told("15Gbit/s"), told("17Gbit/s")), (0, 2));
}

#[test]
fn one_way_that_is_lost_is_told_from_two() {
    let mut nodes: Vec<Node> = (0..2).map(node).collect();
    let found = |nodes: &[Node]| {
        judge_ways(nodes, &ways(nodes), None).into_iter().map(|it| it.found).collect::<Vec<_>>()
    };
    first(&mut nodes).sizes = [0; 6];
    assert_eq!(found(&nodes), ["nothing arrives; the way back carries"]);
    paths(&mut nodes[1]).paths[0].sizes = [0; 6];
    assert_eq!(found(&nodes), ["nothing arrives, either way"; 2]);
}

#[test]
fn more_nodes_on_a_machine_than_it_has_cores_are_noted() {
    let mut nodes: Vec<Node> = (0..4).map(node).collect();
    for node in &mut nodes {
        node.answer.as_mut().unwrap().machine = 1;
        paths(node).cores = 2;
    }
    let noted = judge_nodes(&nodes, VERSION).into_iter().filter(|it| it.verdict == Verdict::Note);
    let noted: Vec<_> = noted.map(|it| (it.check, it.place)).collect();
    assert_eq!(noted, [("cores", "machine of n0".into())]);
}
