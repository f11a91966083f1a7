//! A switch of several cores: which of them a group is on. All else is the switch's.

use crate::site::{Site, config, host, request, set, switch};
use quincunx_collective::GroupId;
use quincunx_control::{
    Agent, AttachError, GroupRequest, Instruction, ManagerConfig, NodeDescription, Report, Role, policy,
};
use quincunx_design::GroupContext;
use quincunx_units::ByteCount;
use quincunx_wire::Endpoint;
use std::collections::BTreeSet;
use std::net::IpAddr;

fn core(number: u8) -> IpAddr {
    IpAddr::from([127, 0, 3, number])
}

/// The switch `s0` of two cores, and hosts.
fn two_cores(config: ManagerConfig, memory: u64) -> Site {
    let mut site = Site::with(config, 0, 3);
    let memory = ByteCount::new(memory);
    site.attach(NodeDescription { cores: vec![core(1)], address: core(0), memory, ..switch(0) });
    site
}

/// The ends of a new group's edges at the switch.
fn edges(site: &mut Site, ranks: u16) -> (GroupId, Vec<Endpoint>) {
    edges_of(site, &request(ranks, "epic-3"))
}

fn edges_of(site: &mut Site, wanted: &GroupRequest) -> (GroupId, Vec<Endpoint>) {
    let told = site.begin(wanted).unwrap();
    let mut group = (GroupId(0), Vec::new());
    for (node, instruction) in &told {
        let Instruction::Install(context) = instruction else { panic!("{instruction:?}") };
        let GroupContext { group: id, connections, .. } = &**context;
        site.report(node, *id, Report::Installed);
        if node == "s0" {
            group = (*id, connections.iter().map(|connection| connection.local).collect());
        }
    }
    group
}

/// Where they are: all at one address.
fn place(site: &mut Site, ranks: u16) -> (GroupId, IpAddr) {
    let (group, edges) = edges(site, ranks);
    let places: BTreeSet<IpAddr> = edges.iter().map(|edge| edge.ip.address()).collect();
    assert_eq!(places.len(), 1, "{edges:?}");
    (group, edges[0].ip.address())
}

#[test]
fn a_group_is_on_the_core_with_fewest_queue_pairs() {
    let mut site = two_cores(config(), 1 << 20);
    let (first, place_of_first) = place(&mut site, 3);
    assert_eq!(place_of_first, core(0));
    // Two groups of two are more than one of three.
    assert_eq!([place(&mut site, 2).1, place(&mut site, 2).1], [core(1), core(1)]);
    assert_eq!(place(&mut site, 2).1, core(0));
    site.remove(first);
    assert_eq!(place(&mut site, 2).1, core(0));
}

#[test]
fn of_a_queue_pair_s_number_everybody_knows_the_core() {
    let mut site = two_cores(config(), 1 << 20);
    for _ in 0..3 {
        for edge in edges(&mut site, 2).1 {
            assert_eq!(edge.ip.address(), core((edge.qp.value() % 2) as u8));
        }
    }
}

#[test]
fn memory_and_queue_pairs_are_the_switch_s_for_all_its_cores() {
    // Room for one group of this sort, whichever core it is on.
    let needed = {
        let mut site = two_cores(config(), 1 << 20);
        let (group, _) = place(&mut site, 2);
        site.summary(group).switches[0].memory.bytes()
    };
    let mut site = two_cores(config(), needed);
    let (group, _) = place(&mut site, 2);
    let summary = |site: &mut Site| {
        let other = site.init(&request(2, "epic-3"));
        site.summary(other)
    };
    let fallback = summary(&mut site).fallback.unwrap().to_string();
    assert!(fallback.contains("memory") && fallback.contains("s0"), "{fallback}");
    site.remove(group);
    assert_eq!(summary(&mut site).fallback, None);

    let mut site = Site::with(config(), 0, 3);
    let few = NodeDescription { max_endpoints: 3, cores: vec![core(1)], address: core(0), ..switch(0) };
    site.attach(few);
    place(&mut site, 2);
    let fallback = summary(&mut site).fallback.unwrap().to_string();
    assert!(fallback.contains("queue pairs"), "{fallback}");
}

#[test]
fn a_switch_that_drains_takes_groups_on_none_of_its_cores() {
    let mut site = two_cores(config(), 1 << 20);
    place(&mut site, 2);
    site.manager.drain("s0", true).unwrap();
    let group = site.init(&request(2, "epic-3"));
    let fallback = site.summary(group).fallback.unwrap().to_string();
    assert!(fallback.contains("found \"s0\" draining"), "{fallback}");
}

#[test]
fn groups_that_lock_the_same_memory_meet_on_the_first_core() {
    let policy = policy::find("contention").unwrap();
    let mut site = two_cores(ManagerConfig { policy, ..config() }, 1 << 20);
    for _ in 0..3 {
        assert_eq!(place(&mut site, 2).1, core(0));
    }
}

/// A request of so many channels.
fn in_channels(ranks: u16, channels: u16) -> GroupRequest {
    let mut wanted = request(ranks, "epic-3");
    set(&mut wanted, "group.channels", channels);
    wanted
}

/// Where each channel of a new group is, of which each has an edge for each rank.
fn places(site: &mut Site, ranks: u16, channels: u16) -> Vec<IpAddr> {
    let edges = edges_of(site, &in_channels(ranks, channels)).1;
    assert_eq!(edges.len(), usize::from(ranks * channels));
    let channel = |edges: &[Endpoint]| {
        assert!(edges.iter().all(|edge| edge.ip == edges[0].ip), "a channel is on one core: {edges:?}");
        edges[0].ip.address()
    };
    edges.chunks(usize::from(ranks)).map(channel).collect()
}

#[test]
fn channels_are_spread_over_the_cores() {
    let mut site = two_cores(config(), 1 << 20);
    assert_eq!(places(&mut site, 3, 2), [core(0), core(1)]);
    place(&mut site, 2);
    assert_eq!(places(&mut site, 2, 2), [core(1), core(0)], "the first core has a group more");
}

#[test]
fn channels_have_numbers_of_their_own_after_the_group_s() {
    let mut site = two_cores(config(), 1 << 20);
    let first = edges_of(&mut site, &in_channels(2, 3)).0;
    assert_eq!(place(&mut site, 2).0, GroupId(first.0 + 3));
}

#[test]
fn each_channel_takes_as_much_memory_as_a_group_and_no_wider_switch() {
    let mut site = Site::with(config(), 0, 3);
    site.attach(NodeDescription { max_fan_in: Some(2), ..switch(0) });
    let memory = |site: &mut Site, wanted: &GroupRequest| {
        let group = site.init(wanted);
        assert_eq!(site.summary(group).fallback, None);
        site.summary(group).switches[0].memory
    };
    let alone = memory(&mut site, &in_channels(2, 1));
    assert_eq!(memory(&mut site, &in_channels(2, 3)), alone * 3);
    let group = site.init(&in_channels(3, 2));
    let fallback = site.summary(group).fallback.unwrap().to_string();
    assert!(fallback.contains('3'), "three children a channel: {fallback}");
}

#[test]
fn a_group_with_channels_locks_no_memory_and_has_its_own() {
    let policy = policy::find("contention").unwrap();
    let mut site = two_cores(ManagerConfig { policy, ..config() }, 1 << 20);
    let [locks, has_channels] = [1, 2].map(|channels| site.init(&in_channels(2, channels)));
    assert!(site.summary(locks).shared.is_some());
    assert_eq!(site.summary(has_channels).shared, None);
}

#[test]
fn an_address_is_one_core_s_alone() {
    let taken = |site: &mut Site, node| match site.try_attach(node) {
        Err(AttachError::AddressTaken { address, holder, .. }) => (address, holder),
        other => panic!("{other:?}"),
    };
    let mut site = two_cores(config(), 1 << 20);
    let another = |address, cores| NodeDescription { address, cores, ..switch(1) };
    assert_eq!(taken(&mut site, another(core(1), vec![])), (core(1), "s0".into()));
    assert_eq!(taken(&mut site, another(core(2), vec![core(0)])), (core(0), "s0".into()));
    assert_eq!(taken(&mut site, another(core(2), vec![core(3), core(3)])), (core(3), "s1".into()));
    site.attach(another(core(2), vec![core(3)]));
}

#[test]
fn a_switch_that_comes_back_says_what_each_of_its_cores_has() {
    let description = NodeDescription { cores: vec![core(1)], address: core(0), ..switch(0) };
    let mut agent = Agent::new(&description);
    let mut site = Site::with(config(), 0, 3);
    site.attach(description);
    for _ in 0..2 {
        for (node, instruction) in site.begin(&request(2, "epic-3")).unwrap() {
            if node == "s0" {
                agent.handle(instruction, &mut Vec::new());
            }
        }
    }
    let held: Vec<usize> = agent.held().iter().map(|held| held.endpoints.len()).collect();
    assert_eq!(held, [2, 2]);
}

#[test]
fn a_host_has_one_core_and_all_its_queue_pairs_there() {
    let description = host(1);
    assert_eq!(description.role, Role::Host);
    assert_eq!(description.addresses().collect::<Vec<_>>(), [description.address]);
}
