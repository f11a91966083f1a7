//! The manager beside the simulation: the same groups in the same order get switches from both, or from neither.

use quincunx_collective::SplitMix64;
use quincunx_control::policy::{Contended, EdgeDisjoint, Policy, Prefer, Spatial};
use quincunx_control::{
    Action, GroupRequest, Instruction, LinkReport, Manager, ManagerConfig, NodeDescription, Report,
    RequestId, Role,
};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_flows::{Admissions, Cluster};
use quincunx_scenario::{Slots, Tenancy, TenancyPolicy};
use quincunx_units::ByteCount;
use std::net::IpAddr;

/// All nodes of the cluster's map, attached to a manager.
fn manager(cluster: &Cluster, policy: &'static dyn Policy, memory: ByteCount, unit: ByteCount) -> Manager {
    let map = cluster.map();
    let config = ManagerConfig { policy, fallback: Some(FALLBACK), ..ManagerConfig::default() };
    let mut manager = Manager::new(CATALOG, config);
    for number in 0..map.size() as u32 {
        let node = quincunx_control::map::MapNode(number);
        let links = map.ports(node).iter().map(|&(link, to)| LinkReport {
            interface: None,
            neighbour: map.name(to).to_owned(),
            parallel_links: 1,
            rate: map.rate(link),
        });
        let address = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        let host = NodeDescription::host(map.name(node).to_owned(), address, 1 << 20);
        let links = links.collect();
        let node = match map.is_host(node) {
            true => NodeDescription { links, ..host },
            false => NodeDescription {
                role: Role::Switch,
                designs: ["epic-2".to_owned()].into(),
                memory,
                memory_unit: unit,
                links,
                ..host
            },
        };
        manager.attach(node, &[], &mut Vec::new()).unwrap();
    }
    manager
}

/// Makes a group; whether it is in the network.
fn asked(manager: &mut Manager, cluster: &Cluster, number: u64, hosts: &[u32]) -> bool {
    let members = hosts.iter().map(|&host| cluster.host_name(host).to_owned()).collect();
    let wanted = GroupRequest::new(members, CATALOG.named("epic-2").unwrap(), ByteCount::new(1 << 20));
    let mut out = Vec::new();
    manager.init_group(RequestId(number), &wanted, &mut out);
    let mut group = None;
    for action in std::mem::take(&mut out) {
        match action {
            Action::Begin { group: begun, .. } => group = Some(begun),
            Action::Instruct { node, instruction: Instruction::Install(context) } => {
                manager.handle_report(&node, context.group, Report::Installed, &mut out).unwrap();
            }
            _ => {}
        }
    }
    manager.group(group.unwrap()).unwrap().fallback.is_none()
}

#[test]
fn the_manager_and_the_simulation_give_switches_to_the_same_groups() {
    let changes = ["slots=sums", "unit=64KiB", "volume=plan", "design=epic-2", "fallback=ring"];
    let changes: Vec<_> = changes.iter().map(|change| change.parse().unwrap()).collect();
    let tenancy = Tenancy::find("epic-128", &changes).unwrap();
    assert_eq!(tenancy.slots, Slots::Sums);
    let cluster = Cluster::new("clos-2x2x4x2x2", &tenancy.link.unwrap()).unwrap();
    let policies: [(TenancyPolicy, &'static dyn Policy); 3] = [
        (TenancyPolicy::Edt, &EdgeDisjoint),
        (TenancyPolicy::Spatial, &Spatial { prefer: Prefer::Depth }),
        (TenancyPolicy::Contention, &Contended),
    ];
    for (policy, same) in policies {
        let (mut granted, mut refused) = (0, 0);
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            let units = 10 + (random.draw() % 100) as u32;
            let unit = tenancy.unit.unwrap();
            let mut manager = manager(&cluster, same, unit * u64::from(units), unit);
            let mut admissions = Admissions::new(&tenancy, &cluster, CATALOG, policy, units).unwrap();
            for number in 0..12 {
                let mut hosts: Vec<u32> =
                    (0..cluster.hosts()).filter(|_| random.draw().is_multiple_of(6)).collect();
                hosts.sort_by_key(|_| random.draw());
                if hosts.len() < 2 {
                    hosts = vec![0, 15];
                }
                let ours = admissions.grant(&hosts);
                let theirs = asked(&mut manager, &cluster, number, &hosts);
                assert_eq!(ours, theirs, "{policy:?}, seed {seed}, group {number}: {hosts:?}");
                if ours { granted += 1 } else { refused += 1 }
            }
        }
        assert!(granted > 15 && refused > 30, "{policy:?}: {granted} granted, {refused} refused");
    }
}

#[test]
fn a_leaf_without_memory_is_passed_by_who_adds_up_above_it() {
    let changes = ["slots=sums", "unit=64KiB", "volume=plan", "design=epic-2", "fallback=ring"];
    let changes: Vec<_> = changes.iter().map(|change| change.parse().unwrap()).collect();
    let tenancy = Tenancy::find("epic-128", &changes).unwrap();
    let cluster = Cluster::new("clos-2x2x4x2x2", &tenancy.link.unwrap()).unwrap();
    let of = |units| Admissions::new(&tenancy, &cluster, CATALOG, TenancyPolicy::Spatial, units).unwrap();
    // Just as much as a group of four at a leaf takes of it.
    let units = (1..1000).find(|&units| of(units).grant(&[0, 1, 2, 3])).unwrap();
    let mut admissions = of(units);
    assert!(admissions.grant(&[0, 1, 2, 3]) && admissions.grant(&[4, 5, 6, 7]));
    assert!(admissions.grant(&[0, 4]), "a spine adds up, and the leaves forward");
}
