//! Fabrics with several ways, by name: what they are made of, and which names are none.

use quincunx_fabric::{Clos, LinkProperties, NodeKind, PortRef, SwitchedShape, Topology};
use quincunx_units::{BitRate, Duration};

fn topology(name: &str) -> Topology {
    let link =
        LinkProperties { rate: BitRate::new(1_000_000_000).unwrap(), latency: Duration::from_micros(1) };
    let shape: SwitchedShape = name.parse().unwrap();
    let topology = shape.topology(link);
    let hosts = topology.nodes().iter().filter(|node| node.kind == NodeKind::Host).count();
    assert_eq!((shape.to_string(), usize::from(shape.hosts())), (name.into(), hosts));
    assert_eq!(topology.check_connected(), Ok(()));
    topology
}

/// The name of the switch that a host is at.
fn above(topology: &Topology, host: usize) -> String {
    let node = topology.find(&format!("host-{host}")).unwrap();
    topology.node(topology.across(PortRef { node, port: 0 }).node).name.clone()
}

fn ports(topology: &Topology, switch: &str) -> usize {
    topology.node(topology.find(switch).unwrap()).ports.len()
}

#[test]
fn every_leaf_is_joined_with_every_spine() {
    let fabric = topology("leaf-spine-8x4x16");
    assert_eq!((fabric.nodes().len(), fabric.links().len()), (8 + 4 + 128, 32 + 128));
    assert_eq!([ports(&fabric, "leaf-7"), ports(&fabric, "spine-3")], [4 + 16, 8]);
    assert_eq!([0, 15, 16, 127].map(|host| above(&fabric, host)), ["leaf-0", "leaf-0", "leaf-1", "leaf-7"]);
}

#[test]
fn a_leaf_and_a_spine_can_have_several_links() {
    let fabric = topology("leaf-spine-2x3x4x2");
    assert_eq!([ports(&fabric, "leaf-0"), ports(&fabric, "spine-0")], [3 * 2 + 4, 2 * 2]);
}

#[test]
fn a_fat_tree_has_switches_of_k_ports_in_three_tiers() {
    for (ports_of_each, hosts, cores) in [(2, 2, 1), (4, 16, 4), (8, 128, 16)] {
        let fabric = topology(&format!("fat-tree-{ports_of_each}"));
        let switches = fabric.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
        assert!(switches.clone().all(|switch| switch.ports.len() == ports_of_each));
        assert_eq!(switches.count(), cores + ports_of_each * ports_of_each);
        assert_eq!(fabric.nodes().len(), hosts + cores + ports_of_each * ports_of_each);
    }
    assert_eq!(above(&topology("fat-tree-4"), 15), "edge-3-1");
}

#[test]
fn an_accelerator_is_at_the_rail_of_its_place_in_its_server() {
    let fabric = topology("rail-4x8x2");
    assert_eq!([0, 7, 8, 31].map(|host| above(&fabric, host)), ["rail-0", "rail-7", "rail-0", "rail-7"]);
    assert_eq!([ports(&fabric, "rail-0"), ports(&fabric, "spine-1")], [4 + 2, 8]);
}

#[test]
fn any_two_groups_of_a_dragonfly_have_a_link_and_any_two_switches_of_a_group() {
    for (name, group, groups) in
        [("dragonfly-4x2x9", 4, 9), ("dragonfly-2x1x2", 2, 2), ("dragonfly-3x2x8", 3, 8)]
    {
        let fabric = topology(name);
        let mut global = std::collections::BTreeSet::new();
        for link in fabric.links() {
            let ends = link.ends.map(|end| usize::from(end.node.0));
            if ends.iter().any(|&end| end >= group * groups) {
                continue;
            }
            let of = ends.map(|end| end / group);
            assert_eq!(link.cost, if of[0] == of[1] { 1 } else { 3 });
            assert!(of[0] == of[1] || global.insert(of), "one link between two groups: {of:?}");
        }
        assert_eq!(global.len(), groups * (groups - 1) / 2);
        let most = (groups - 1).div_ceil(group);
        for switch in &fabric.nodes()[..group * groups] {
            let links = switch.ports.iter().map(|link| fabric.links()[link.0 as usize].cost);
            let global = links.filter(|cost| *cost == 3).count();
            assert!(global <= most && global + 1 >= (groups - 1) / group, "{}: {global}", switch.name);
        }
    }
}

#[test]
fn a_wrong_name_shows_the_notations_on_one_line() {
    for name in [
        "leaf-spine",
        "leaf-spine-8",
        "leaf-spine-8x4",
        "leaf-spine-8x0x4",
        "leaf-spine-8x4x8x2x2",
        "fat-tree-3",
        "fat-tree-0",
        "fat-tree-4x4",
        "rail-4x8",
        "dragonfly-4x2",
        "dragonfly-4x2x0",
        "rail-",
        "leaf-spine-8x4x",
    ] {
        let message = name.parse::<SwitchedShape>().unwrap_err().to_string();
        let known =
            ["leaf-spine-LxSxH", "fat-tree-K", "rail-VxAxS", "dragonfly-AxPxG", &format!("found \"{name}\"")];
        assert!(known.iter().all(|part| message.contains(part)) && !message.contains('\n'), "{message}");
    }
    for name in ["fat-tree-128", "leaf-spine-300x4x300"] {
        let message = name.parse::<SwitchedShape>().unwrap_err().to_string();
        assert!(message.contains("at most 65535"), "{message}");
    }
}

#[test]
fn a_clos_has_each_of_its_numbers() {
    // EPIC L.2: 4 pods of 4 leaves with 8 hosts, and 4 spines, each below 4 cores.
    let fabric = topology("clos-4x4x8x4x4");
    assert_eq!(["leaf-3-0", "spine-0-3", "core-15"].map(|switch| ports(&fabric, switch)), [8 + 4, 4 + 4, 4]);
    assert_eq!([0, 8, 127].map(|host| above(&fabric, host)), ["leaf-0-0", "leaf-0-1", "leaf-3-3"]);
    // The spines of a place in their pods share their cores.
    let core = |spine: &str| fabric.across(PortRef { node: fabric.find(spine).unwrap(), port: 0 }).node;
    assert_eq!(core("spine-0-1"), core("spine-3-1"));
    assert_ne!(core("spine-0-1"), core("spine-0-2"));
}

#[test]
fn a_clos_without_a_topology_may_have_more_nodes_than_one_can_number() {
    let shape: Clos = "clos-32x64x32x16x16".parse().unwrap();
    assert_eq!((shape.hosts(), shape.switches()), (65_536, 32 * (64 + 16) + 256));
    assert_eq!(shape.leaves_of_hosts().last().as_deref(), Some("leaf-31-63"));
    assert!("clos-32x64x32x16x16".parse::<SwitchedShape>().is_err());
}
