//! The physical fabric: what can be plugged together.

use quincunx_fabric::{
    IncTree, LinkProperties, NodeId, NodeKind, PortRef, Topology, TopologyError, TreeRole, TreeShape,
};
use quincunx_units::{BitRate, Duration};

fn link() -> LinkProperties {
    LinkProperties { rate: BitRate::new(100_000_000_000).unwrap(), latency: Duration::from_micros(1) }
}

fn pair() -> (Topology, NodeId, NodeId) {
    let mut topology = Topology::default();
    let host = topology.add_node("h".into(), NodeKind::Host).unwrap();
    let switch = topology.add_node("s".into(), NodeKind::Switch).unwrap();
    (topology, host, switch)
}

#[test]
fn a_shape_makes_the_fabric_that_its_tree_covers() {
    let shape: TreeShape = "tree-2x4".parse().unwrap();
    let (topology, tree) = (Topology::from_shape(&shape, link()), IncTree::from_shape(&shape));
    assert_eq!(topology.check_connected(), Ok(()));
    assert_eq!(topology.find("host-7"), Some(NodeId(10)));
    let kinds = topology.nodes().iter().map(|node| node.kind == NodeKind::Switch);
    assert!(kinds.eq(tree.nodes().map(|(_, node)| node.role() == TreeRole::Switch)));
    let links = topology.links().iter().map(|link| link.ends.map(|end| end.node.0));
    assert!(links.eq(tree.edges().iter().map(|edge| [edge.child.node.0, edge.parent.node.0])));
}

#[test]
fn a_link_leads_from_port_to_port_and_back() {
    let (mut topology, host, switch) = pair();
    topology.connect(host, switch, link()).unwrap();
    let port = PortRef { node: switch, port: 0 };
    assert_eq!(topology.across(port).node, host);
    assert_eq!(topology.across(topology.across(port)), port);
}

#[test]
fn names_are_unique() {
    let (mut topology, ..) = pair();
    let again = topology.add_node("s".into(), NodeKind::Host);
    assert_eq!(again, Err(TopologyError::DuplicateName { name: "s".into() }));
}

#[test]
fn a_link_joins_two_nodes() {
    let (mut topology, _, switch) = pair();
    assert_eq!(topology.connect(switch, switch, link()), Err(TopologyError::SelfLink { name: "s".into() }));
}

#[test]
fn a_host_may_have_several_links_and_is_no_way_for_others() {
    let (mut topology, host, switch) = pair();
    topology.connect(host, switch, link()).unwrap();
    let other = topology.add_node("t".into(), NodeKind::Switch).unwrap();
    topology.connect_at_cost([host, other], link(), 2).unwrap();
    assert_eq!((topology.node(host).ports.len(), topology.links()[1].cost), (2, 2));
    assert_eq!(topology.check_connected(), Ok(()));
    let ends = [("a", switch), ("b", other)].map(|(name, at)| {
        let end = topology.add_node(name.into(), NodeKind::Host).unwrap();
        topology.connect(end, at, link()).unwrap();
    });
    assert_eq!((ends.len(), topology.check_connected()), (2, Ok(())), "h reaches both");
    // Without h, a and b would be apart; in front of it they are.
    let mut apart = Topology::default();
    let [a, left, h, right, b] = ["a", "left", "h", "right", "b"].map(|name| {
        let kind = if name.len() == 1 { NodeKind::Host } else { NodeKind::Switch };
        apart.add_node(name.into(), kind).unwrap()
    });
    for ends in [[a, left], [left, h], [h, right], [right, b]] {
        apart.connect(ends[0], ends[1], link()).unwrap();
    }
    let error = apart.check_connected().unwrap_err();
    assert_eq!(error, TopologyError::Unconnected { from: "a".into(), to: "b".into() });
}

#[test]
fn a_fabric_in_two_pieces_is_found() {
    let (topology, ..) = pair();
    let error = topology.check_connected().unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected a path from \"h\" to \"s\", found none that leads through switches alone; add a link"
    );
    assert_eq!(Topology::default().check_connected(), Err(TopologyError::Empty));
}
