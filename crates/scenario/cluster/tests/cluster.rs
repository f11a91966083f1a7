//! Groups of several designs on several wirings: addresses, routes, and what is refused.

use quincunx_cluster::{Cluster, GroupSpec, ManagedCluster, ManagedSetup, Ports, Wiring, address};
use quincunx_collective::{LengthOnly, Rank};
use quincunx_design::{Demand, FabricKind};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_fabric::{LinkProperties, NodeKind, SwitchedShape, Topology};
use quincunx_nodes::{NodeCommand, SwitchCommand, way_of_flow};
use quincunx_scenario::{RankPlacement, Scenario};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::{Endpoint, Gid, QpNumber};
use std::collections::{BTreeMap, BTreeSet};

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
    let is_route = |command: &&NodeCommand<LengthOnly>| {
        matches!(command, NodeCommand::Switch(SwitchCommand::Route { .. }))
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
            assert_eq!(cluster.build_nodes::<LengthOnly>(ports, None).unwrap().len(), 15, "{name}");
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
    assert_eq!(context.connections[0].local.ip, Gid::from([10, 0, 0, 4]));
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

fn switched(shape: &str) -> Wiring {
    Wiring::switched(&shape.parse::<SwitchedShape>().unwrap().topology(link()))
}

/// Everybody speaks to everybody on a fabric.
fn open(shape: &str) -> Cluster {
    let mut cluster = Cluster::bare(switched(shape), address);
    cluster.forward_everything();
    cluster
}

/// The names of what a flow passes between two hosts.
fn passed(cluster: &Cluster, [from, to]: [u16; 2], qp: u32) -> Vec<String> {
    let wiring = cluster.wiring();
    let [from, to] = [from, to].map(|host| wiring.hosts()[usize::from(host)]);
    let destination = Endpoint { ip: cluster.address(to), qp: QpNumber::new(qp) };
    let path = cluster.path(from, destination).unwrap();
    let inner = &path[1..path.len() - 1];
    inner.iter().map(|&node| wiring.nodes()[node].name.clone()).collect()
}

#[test]
fn flows_between_two_leaves_take_every_spine_and_one_flow_keeps_to_one() {
    let cluster = open("leaf-spine-4x4x8");
    let mut spines: BTreeMap<String, u32> = BTreeMap::new();
    for qp in 0..2000 {
        let way = passed(&cluster, [0, 31], qp);
        assert_eq!(way, passed(&cluster, [0, 31], qp));
        assert_eq!((way.len(), way[0].as_str(), way[2].as_str()), (3, "leaf-0", "leaf-3"));
        *spines.entry(way[1].clone()).or_default() += 1;
    }
    // 500 each, with a deviation of 19.
    assert!(spines.len() == 4 && spines.values().all(|flows| (420..580).contains(flows)), "{spines:?}");
    assert_eq!(passed(&cluster, [0, 1], 7), ["leaf-0"]);
}

/// The cores that flows from one edge switch to other pods come to, where switches have these seeds.
fn cores(wiring: &Wiring, seed: impl Fn(usize) -> u64) -> BTreeSet<usize> {
    let from = wiring.hosts()[0];
    let core = |number: u32| {
        let to = wiring.hosts()[32 + number as usize % 96];
        let ways = wiring.ways_to(to);
        let destination = Endpoint { ip: address(to), qp: QpNumber::new(number) };
        let mut at = from;
        for _ in 0..3 {
            let ports = &ways[at];
            let port = ports[way_of_flow(seed(at), address(from), destination, ports.len())];
            at = wiring.neighbours(at).find(|(near, _)| *near == port).unwrap().1.node;
        }
        at
    };
    (0..2000).map(core).collect()
}

#[test]
fn tiers_do_not_polarise_for_each_switch_has_a_seed_of_its_own() {
    let cluster = open("fat-tree-8");
    let wiring = cluster.wiring();
    // What polarised hashing looks like: the second tier has but flows that the first one's hash has sent there.
    assert_eq!(cores(wiring, |_| 5).len(), 4, "one core for each aggregation switch");
    let from = wiring.hosts()[0];
    let reached: BTreeSet<_> = (0..2000)
        .map(|number: u32| {
            let to = wiring.hosts()[32 + number as usize % 96];
            let destination = Endpoint { ip: cluster.address(to), qp: QpNumber::new(number) };
            cluster.path(from, destination).unwrap()[3]
        })
        .collect();
    assert_eq!(reached.len(), 16, "every core");
}

#[test]
fn ways_of_a_dragonfly_are_minimal_over_one_link_between_groups() {
    let cluster = open("dragonfly-4x2x9");
    let mut longest = 0;
    for to in [1_u16, 3, 9, 40, 71] {
        for from in (0..72).filter(|from| *from != to) {
            let way = passed(&cluster, [from, to], 7);
            let groups: Vec<&str> = way.iter().map(|name| name.split('-').nth(1).unwrap()).collect();
            let crossings = groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(crossings, usize::from(from / 8 != to / 8), "{way:?}");
            longest = longest.max(way.len());
        }
    }
    assert_eq!(longest, 4, "a switch at either end of the link between groups, and the hosts'");
}

#[test]
fn another_seed_spreads_flows_another_way() {
    let mut cluster = open("leaf-spine-4x4x8");
    let ways = |cluster: &Cluster| (0..64).map(|qp| passed(cluster, [0, 31], qp)).collect::<Vec<_>>();
    let first = ways(&cluster);
    cluster.set_hash_seed(1);
    let same = ways(&cluster).iter().zip(&first).filter(|(a, b)| a == b).count();
    assert!((4..32).contains(&same), "16 of 64 by chance, found {same}");
}

#[test]
fn every_frame_of_a_tree_keeps_to_the_trees_links_and_a_rings_to_none() {
    let setup = ManagedSetup {
        catalog: CATALOG,
        policy: ManagedSetup::POLICY,
        patience: Duration::ZERO,
        memory: ManagedSetup::MEMORY,
        fallback: Some(FALLBACK),
    };
    let mut managed = ManagedCluster::new(switched("fat-tree-8"), &setup).unwrap();
    let demand = Demand::Vectors { longest: ByteCount::new(1 << 16) };
    // One host at each edge switch of some pods: these only forward.
    for (hosts, name) in [(0..32, "epic-3"), (32..64, "ring"), (64..128, "epic-1")] {
        let design = CATALOG.find(name, FabricKind::Tree).unwrap();
        let hosts: Vec<u16> = hosts.step_by(4).collect();
        let made = managed.add(&hosts, design, design.defaults(), demand).unwrap();
        assert_eq!((made.design.name(), made.fell_back), (name, None));
    }
    let cluster = managed.into_cluster();
    let wiring = cluster.wiring();
    let links: Vec<&BTreeSet<usize>> = cluster.tree_links().collect();
    assert!(links[1].is_empty() && links[0].is_disjoint(links[2]));
    let mut crossed = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for node in 0..wiring.nodes().len() {
        for (number, crossed) in (1..).zip(&mut crossed) {
            for connection in cluster.connections(node, quincunx_collective::GroupId(number)) {
                let path = cluster.path(node, connection.remote).expect("who is connected has a way");
                let pairs = path.windows(2).map(|pair| wiring.between([pair[0], pair[1]]).next().unwrap());
                crossed.extend(pairs);
            }
        }
    }
    assert_eq!([&crossed[0], &crossed[2]], [links[0], links[2]], "each link of a tree, and no other");
    assert!(crossed[1].len() > 3 * 8, "a ring takes ways between switches, too");
}

#[test]
fn a_policy_that_there_is_not_is_refused_with_those_that_there_are() {
    for policy in ["", "best"] {
        let setup = ManagedSetup {
            catalog: CATALOG,
            policy,
            patience: Duration::ZERO,
            memory: ManagedSetup::MEMORY,
            fallback: None,
        };
        let refused = ManagedCluster::new(switched("leaf-spine-2x2x2"), &setup).err().unwrap().to_string();
        assert_eq!(
            refused,
            format!(
                "expected one of the policies edge-disjoint, spatial, spatial-wide, temporal, contention, found \"{policy}\"; name one of them"
            )
        );
    }
}

#[test]
fn only_groups_that_lock_are_patient() {
    let of = |policy, patience| {
        let setup = ManagedSetup {
            catalog: CATALOG,
            policy,
            patience,
            memory: ManagedSetup::MEMORY,
            fallback: Some(FALLBACK),
        };
        ManagedCluster::new(switched("leaf-spine-2x2x2"), &setup).err().map(|refused| refused.to_string())
    };
    assert_eq!(of("contention", Duration::from_millis(1)), None);
    assert_eq!(of("spatial", Duration::ZERO), None);
    assert_eq!(
        of("spatial", Duration::from_millis(1)).unwrap(),
        "expected no patience with the policy spatial, whose groups lock nothing, found 1ms; leave it out, or take the policy contention"
    );
}

/// Two hosts, each at both of two switches, by links of these costs.
fn two_homed(costs: [u16; 2]) -> Wiring {
    let mut topology = Topology::default();
    let [a, b, left, right] = [
        ("a", NodeKind::Host),
        ("b", NodeKind::Host),
        ("left", NodeKind::Switch),
        ("right", NodeKind::Switch),
    ]
    .map(|(name, kind)| topology.add_node(name.into(), kind).unwrap());
    for (switch, cost) in [(left, costs[0]), (right, costs[1])] {
        for host in [a, b] {
            topology.connect_at_cost([host, switch], link(), cost).unwrap();
        }
    }
    Wiring::switched(&topology)
}

#[test]
fn a_host_of_several_links_takes_the_one_that_costs_least_and_is_refused_where_two_do() {
    let group = vectors("ring", FabricKind::Tree);
    for (costs, port) in [([1, 2], 0), ([2, 1], 1)] {
        let cluster = Cluster::new(two_homed(costs), address, &group).unwrap();
        assert_eq!([cluster.port(0, 1), cluster.port(1, 0)], [Some(port), Some(port)]);
    }
    let refused = Cluster::new(two_homed([1, 1]), address, &group).unwrap_err().to_string();
    assert_eq!(
        refused,
        "expected one way that costs least from host a to b, found one by its port 0 and one by its port 1; give a link another `cost`, or put a switch between"
    );
}

/// The hosts of a fabric by rank, as `placement` has them.
fn hosts_of_ranks(fabric: &str, placement: &str) -> Vec<String> {
    let change = format!("placement={placement}").parse().unwrap();
    let scenario = Scenario::find(fabric, &[change], CATALOG).unwrap();
    let wiring = Wiring::of(&scenario.fabric).unwrap();
    assert_eq!(wiring.ranks(), scenario.ranks(), "{fabric} {placement}");
    let name = |rank| wiring.nodes()[wiring.host(Rank(rank))].name.clone();
    (0..wiring.ranks()).map(name).collect()
}

#[test]
fn ranks_are_packed_spread_shuffled_or_where_a_list_has_them() {
    let hosts = |numbers: &[u16]| numbers.iter().map(|number| format!("host-{number}")).collect::<Vec<_>>();
    for (fabric, placement, order) in [
        ("leaf-spine-2x2x3", "packed", &[0, 1, 2, 3, 4, 5][..]),
        ("leaf-spine-2x2x3", "spread", &[0, 3, 1, 4, 2, 5]),
        ("tree-2x2x2", "spread", &[0, 2, 4, 6, 1, 3, 5, 7]),
        ("star-4", "spread", &[0, 1, 2, 3]),
        ("leaf-spine-2x2x3", "5,0-1", &[5, 0, 1]),
    ] {
        assert_eq!(hosts_of_ranks(fabric, placement), hosts(order), "{fabric} {placement}");
    }
    let [first, again, other] =
        ["7", "7", "8"].map(|seed| hosts_of_ranks("fat-tree-4", &format!("random:{seed}")));
    assert_eq!(first, again, "a seed decides");
    assert!(first != other && first != hosts_of_ranks("fat-tree-4", "packed"));
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(first), sorted(hosts_of_ranks("fat-tree-4", "packed")), "each host once");
}

#[test]
fn hosts_with_several_links_are_spread_over_the_switches_that_cost_least() {
    let mut topology = Topology::default();
    let mut add = |name: &str, kind| topology.add_node(name.into(), kind).unwrap();
    let network = add("network", NodeKind::Switch);
    let servers = ["one", "other"].map(|name| add(name, NodeKind::Switch));
    let hosts = ["a", "b", "c", "d"].map(|name| add(name, NodeKind::Host));
    for (place, host) in hosts.into_iter().enumerate() {
        topology.connect_at_cost([host, network], link(), 8).unwrap();
        topology.connect(host, servers[place / 2], link()).unwrap();
    }
    let wiring = Wiring::switched(&topology).with_placement(&RankPlacement::Spread);
    let names = wiring.hosts().iter().map(|&host| wiring.nodes()[host].name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "c", "b", "d"]);
}

#[test]
fn a_tree_over_placed_ranks_reaches_each_on_its_host() {
    let scenario = Scenario::find("tree-2x2x2", &["placement=spread".parse().unwrap()], CATALOG).unwrap();
    let group = vectors("epic-3", FabricKind::Tree);
    let cluster = Cluster::with_settings(&scenario, &group).unwrap();
    // Rank 1 is on host 2, below the second leaf.
    let [host, leaf] = ["host-2", "switch-4"].map(|name| cluster.wiring().find(name).unwrap());
    let context = cluster.context(host).unwrap();
    assert_eq!(cluster.node_at(context.connections[0].remote.ip), Some(leaf));
}
