//! Groups of several designs on several wirings: addresses, routes, and what is refused.

use quincunx_cluster::{Cluster, GroupSpec, Ports, Wiring, address};
use quincunx_collective::LengthOnly;
use quincunx_design::{Demand, FabricKind};
use quincunx_designs::CATALOG;
use quincunx_fabric::LinkProperties;
use quincunx_nodes::{StationCommand, SwitchCommand};
use quincunx_units::{BitRate, ByteCount, Duration};

fn link() -> LinkProperties {
    LinkProperties { rate: BitRate::new(100_000_000_000).unwrap(), latency: Duration::from_micros(1) }
}

fn vectors(name: &str, fabric: FabricKind) -> GroupSpec {
    let design = CATALOG.find(name, fabric).unwrap();
    GroupSpec::new(design, design.defaults(), Demand::Vectors { longest: ByteCount::new(1 << 20) })
}

fn tree(shape: &str) -> Wiring {
    Wiring::tree(&shape.parse().unwrap(), link())
}

fn routes(cluster: &Cluster, node: &str) -> usize {
    let node = cluster.wiring().find(node).unwrap();
    let commands = cluster.commands::<LengthOnly>(node, Ports::Links, None).unwrap();
    let is_route = |command: &&StationCommand<LengthOnly>| {
        matches!(command, StationCommand::Switch(SwitchCommand::Route { .. }))
    };
    commands.iter().filter(is_route).count()
}

#[test]
fn switches_forward_to_whom_hosts_speak_and_to_nobody_else() {
    let in_switches = Cluster::new(tree("tree-3-2"), address, &vectors("epic-3", FabricKind::Tree)).unwrap();
    let among_hosts = Cluster::new(tree("tree-3-2"), address, &vectors("direct", FabricKind::Tree)).unwrap();
    assert_eq!([routes(&in_switches, "switch-0"), routes(&in_switches, "switch-1")], [0, 0]);
    assert_eq!([routes(&among_hosts, "switch-0"), routes(&among_hosts, "switch-1")], [4, 4]);
    let mut all = in_switches;
    all.forward_everything();
    assert_eq!(routes(&all, "switch-2"), 4);
}

#[test]
fn every_node_takes_what_it_is_told() {
    for name in ["epic-1", "epic-2", "tree", "multiwrite"] {
        for ports in [Ports::Links, Ports::Socket] {
            let cluster =
                Cluster::new(tree("tree-2x2x2"), address, &vectors(name, FabricKind::Tree)).unwrap();
            assert_eq!(cluster.stations::<LengthOnly>(ports, None).unwrap().len(), 15, "{name}");
        }
    }
}

#[test]
fn queue_pairs_of_a_node_have_numbers_of_their_own_from_the_first_that_is_free() {
    let mesh = Wiring::mesh(2, 2, link(), "host-");
    let cluster = Cluster::new(mesh, address, &vectors("direct", FabricKind::Mesh)).unwrap();
    let context = cluster.context(3).unwrap();
    let numbers: Vec<u32> =
        context.connections.iter().map(|connection| connection.local.qp.value()).collect();
    assert_eq!(numbers, [0x10, 0x11, 0x12]);
    assert_eq!(context.connections[0].local.ip.octets(), [10, 0, 0, 4]);
    assert_eq!(cluster.node_at(context.connections[2].remote.ip), Some(2));
}

#[test]
fn a_design_that_needs_switches_is_refused_where_there_are_none() {
    for name in ["epic-3", "tree", "direct"] {
        let group = vectors(name, FabricKind::Tree);
        let refused = Cluster::new(Wiring::ring(4, link()), address, &group).unwrap_err().to_string();
        assert_eq!(
            refused,
            format!(
                "expected a fabric with switches for {name}, found hosts that are joined directly; choose a tree such as star-8"
            )
        );
    }
}
