//! Which tree a group gets: on small Clos networks, and on whatever people have.

use crate::site::{Site, config, host, request, set, switch, tree};
use quincunx_control::policy::{self, Policy, Spatial};
use quincunx_control::{
    Allowance, Allowances, Fallback, GroupRequest, Instruction, LinkReport, LockUse, ManagerConfig,
    NodeDescription, Phase, Report,
};
use quincunx_units::{BitRate, ByteCount, Duration};

pub(crate) fn by(name: &str) -> ManagerConfig {
    ManagerConfig { policy: policy::find(name).unwrap(), ..config() }
}

fn link(neighbour: String, rate: Option<u64>) -> LinkReport {
    LinkReport { interface: None, neighbour, parallel_links: 1, rate: rate.and_then(BitRate::new) }
}

/// Two leaves with two hosts each, joined by two spines: s0 and s1 are leaves, s2 and s3 spines.
pub(crate) fn clos() -> Vec<NodeDescription> {
    let leaf = |leaf: u8| {
        let links = [format!("r{}", leaf * 2), format!("r{}", leaf * 2 + 1), "s2".into(), "s3".into()];
        NodeDescription { links: links.map(|name| link(name, None)).into(), ..switch(leaf) }
    };
    [leaf(0), leaf(1), switch(2), switch(3), host(0), host(1), host(2), host(3)].into()
}

pub(crate) fn of(members: &[u8], design: &str) -> GroupRequest {
    let names = members.iter().map(|member| format!("r{member}")).collect();
    GroupRequest { members: names, ..request(members.len() as u16, design) }
}

/// The switches that a group gets, the root first.
pub(crate) fn switches(site: &mut Site, wanted: &GroupRequest) -> Vec<String> {
    let group = site.init(wanted);
    site.summary(group).switches.into_iter().map(|holding| holding.node).collect()
}

#[test]
fn hosts_at_one_leaf_get_that_leaf_alone() {
    for name in ["edge-disjoint", "spatial", "temporal"] {
        let mut site = Site::of(by(name), clos());
        assert_eq!(switches(&mut site, &of(&[2, 3], "epic-2")), ["s1"], "{name}");
    }
}

#[test]
fn hosts_at_two_leaves_get_a_spine_and_both_leaves_where_these_join_some() {
    let mut site = Site::of(by("spatial"), clos());
    assert_eq!(switches(&mut site, &of(&[0, 1, 2, 3], "epic-2")), ["s2", "s0", "s1"]);
    // A leaf with one member has nothing to add up: it forwards.
    assert_eq!(switches(&mut site, &of(&[0, 2], "epic-2")), ["s3"]);
    assert_eq!(switches(&mut site, &of(&[0, 2, 3], "epic-2")), ["s2", "s1"]);
}

#[test]
fn trees_spread_over_links_that_have_the_fewest() {
    let mut site = Site::of(by("spatial"), clos());
    let roots: Vec<_> =
        (0..4).map(|_| switches(&mut site, &of(&[0, 1, 2, 3], "epic-2"))[0].clone()).collect();
    assert_eq!(roots, ["s2", "s3", "s2", "s3"]);
}

#[test]
fn cores_above_other_spines_are_looked_at_before_idle_ones_above_the_same() {
    // Two pods of a leaf, s0 and s1, and four spines; below each place of a spine four cores, from s10 on. Eight roots are looked at.
    let at = |number: u8| link(format!("s{number}"), None);
    let leaf = |pod: u8| {
        let hosts = [2 * pod, 2 * pod + 1].map(|host| link(format!("r{host}"), None));
        let links = hosts.into_iter().chain((0..4).map(|spine| at(2 + 4 * pod + spine))).collect();
        NodeDescription { links, ..switch(pod) }
    };
    let spine = |pod: u8, spine: u8| {
        let links = (0..4).map(|core| at(10 + 4 * spine + core)).chain([at(pod)]).collect();
        NodeDescription { links, ..switch(2 + 4 * pod + spine) }
    };
    let core = |core: u8| NodeDescription {
        links: [2, 6].map(|first| at(first + core / 4)).into(),
        ..switch(10 + core)
    };
    let pods = (0..2).flat_map(|pod| (0..4).map(move |place| spine(pod, place)).chain([leaf(pod)]));
    let mut site = Site::of(by("spatial"), pods.chain((0..16).map(core)).chain((0..4).map(host)));
    let root = |site: &mut Site| switches(site, &of(&[0, 1, 2, 3], "epic-2"))[0][1..].parse::<u8>().unwrap();
    let mut places: Vec<u8> = (0..4).map(|_| (root(&mut site) - 10) / 4).collect();
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2, 3]);
}

#[test]
fn edge_disjoint_trees_share_no_link() {
    let mut site = Site::of(by("edge-disjoint"), clos());
    let first = site.init(&of(&[0, 1], "epic-2"));
    assert_eq!(site.summary(first).fallback, None);
    // The links of r0 and r1 are taken; those of r2 and r3 are not.
    let second = site.init(&of(&[1, 2], "epic-2"));
    let lack = site.summary(second).fallback.unwrap();
    assert_eq!(
        lack.to_string(),
        "expected a tree of switches that run epic-2 to reach \"r1\", found none by policy edge-disjoint; group 1 has \
         links until it is destroyed; destroy a group in the way, choose another policy, or start switches nearer to the members"
    );
    assert_eq!(site.summary(second).design, "ring");
    let third = site.init(&of(&[2, 3], "epic-2"));
    assert_eq!(site.summary(third).fallback, None);
    for link in site.manager.map().links() {
        assert!(site.manager.map().trees(link).len() <= 1);
    }
    site.remove(first);
    let fourth = site.init(&of(&[0, 1], "epic-2"));
    assert_eq!(site.summary(fourth).fallback, None, "its links are free again");
}

#[test]
fn cables_side_by_side_have_a_tree_each() {
    let mut nodes = clos();
    nodes[0].links.iter_mut().for_each(|link| link.parallel_links = 2);
    let mut site = Site::of(by("edge-disjoint"), nodes);
    for expected in [true, true, false] {
        let group = site.init(&of(&[0, 1], "epic-2"));
        assert_eq!(site.summary(group).fallback.is_none(), expected);
    }
}

#[test]
fn the_frontier_has_low_narrow_trees_and_deep_wide_ones_and_nothing_worse() {
    // The leaf of r0 and r1 has little memory; a spine above has more, and the other leaf is no better than that.
    let mut nodes = clos();
    nodes[0].memory = ByteCount::new(20_000);
    let wide = |name: &str| {
        let mut site = Site::of(by(name), nodes.clone());
        switches(&mut site, &of(&[0, 1], "epic-2"))
    };
    assert_eq!(wide("spatial"), ["s0"]);
    assert_eq!(wide("spatial-wide"), ["s2"]);
    let mut site = Site::of(by("spatial"), nodes.clone());
    let mut large = of(&[0, 1], "epic-2");
    set(&mut large, "group.window", 16);
    assert_eq!(switches(&mut site, &large), ["s2"], "what the lowest has no room for, the next one has");
}

#[test]
fn a_root_is_looked_at_however_many_are_emptier_if_its_tree_may_be_wider() {
    // Ten spines, of which the last has more memory, and a tree: all others come before it.
    let leaf = |leaf: u8| {
        let hosts = [2 * leaf, 2 * leaf + 1].map(|host| link(format!("r{host}"), None));
        let links = hosts.into_iter().chain((2..12).map(|spine| link(format!("s{spine}"), None))).collect();
        NodeDescription { links, memory: ByteCount::new(20_000), ..switch(leaf) }
    };
    let memory = |spine| ByteCount::new(if spine == 11 { 100_000 } else { 20_000 });
    let spines = (2..12).map(|spine| NodeDescription { memory: memory(spine), ..switch(spine) });
    let nodes = [leaf(0), leaf(1)].into_iter().chain(spines).chain((0..4).map(host));
    let mut site = Site::of(by("spatial-wide"), nodes);
    for _ in 0..3 {
        assert_eq!(switches(&mut site, &of(&[0, 2], "epic-2")), ["s11"]);
    }
}

#[test]
fn a_slow_link_makes_a_narrow_tree() {
    let gigabit = Some(1_000_000_000);
    let leaf = |leaf: u8, rates: [Option<u64>; 2]| {
        let [a, b] = rates;
        let hosts = [0, 1].map(|index| link(format!("r{}", leaf * 2 + index), gigabit));
        let up = [link("s2".into(), a), link("s3".into(), b)];
        NodeDescription { links: hosts.into_iter().chain(up).collect(), ..switch(leaf) }
    };
    let slow = Some(100_000_000);
    let nodes = [leaf(0, [slow, gigabit]), leaf(1, [gigabit; 2]), switch(2), switch(3)];
    let mut site = Site::of(by("spatial-wide"), nodes.into_iter().chain((0..4).map(host)));
    assert_eq!(switches(&mut site, &of(&[0, 2], "epic-2")), ["s3"]);
}

/// A root above two leaves with two hosts each, whose switches have so much memory.
fn crossed_nodes(memory: u64) -> Vec<NodeDescription> {
    let mut nodes = tree("tree-3-2");
    for node in nodes.iter_mut().filter(|node| node.name.starts_with('s')) {
        node.memory = ByteCount::new(memory);
        node.max_endpoints = 64;
    }
    nodes
}

/// The same with memory for one group.
fn crossed() -> Site {
    Site::of(by("contention"), crossed_nodes(17_000))
}

#[test]
fn groups_that_contend_share_what_is_taken_and_are_told_how_to_lock_it() {
    let mut site = crossed();
    let [first, second] = [(); 2].map(|()| site.init(&of(&[0, 1, 2, 3], "epic-2")));
    for (group, other) in [(first, second), (second, first)] {
        let summary = site.summary(group);
        assert_eq!(summary.fallback, None);
        let shared = summary.shared.unwrap();
        let with: Vec<_> =
            shared.iter().map(|shared| (shared.switch.as_str(), shared.with.clone())).collect();
        assert_eq!(with, [("s0", vec![other]), ("s1", vec![other]), ("s2", vec![other])]);
    }
}

#[test]
fn what_a_group_falls_back_to_is_installed_with_it_and_edges_lead_along_the_tree() {
    let mut site = crossed();
    let told = site.begin(&of(&[0, 1, 2, 3], "epic-2")).unwrap();
    let installed = |(node, instruction): (String, Instruction)| match instruction {
        Instruction::Install(context) => (node, context),
        other => panic!("{node} is told {other:?}"),
    };
    let contexts: std::collections::BTreeMap<_, _> = told.into_iter().map(installed).collect();
    for (name, context) in &contexts {
        let contention = context.contention.as_ref().unwrap();
        let is_host = name.starts_with('r');
        assert_eq!(contention.fallback.is_some(), is_host, "{name}");
        if let Some(fallback) = &contention.fallback {
            assert_eq!(fallback.design, "ring");
            assert_ne!(fallback.group, context.group);
            assert_ne!(fallback.initial_psn, context.initial_psn);
        }
        let (edges, has_parent) = match name.as_str() {
            "s0" => (2, false),
            "s1" | "s2" => (3, true),
            _ => (1, true),
        };
        assert_eq!((contention.edges.len(), contention.has_parent), (edges, has_parent), "{name}");
        // Each end of an edge is the other end of the one at its neighbour.
        for edge in &contention.edges {
            let mut others = contexts.values().flat_map(|other| &other.contention.as_ref().unwrap().edges);
            assert!(others.any(|other| (other.local, other.remote) == (edge.remote, edge.local)), "{edge:?}");
        }
    }
    let numbers: Vec<_> =
        contexts.values().flat_map(|context| context.all_connections()).map(|end| end.local).collect();
    let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert_eq!(numbers.len(), distinct.len(), "no two connections have one end");
}

#[test]
fn a_group_that_contends_has_memory_alone_while_there_is_some() {
    let mut nodes = crossed_nodes(40_000);
    nodes.iter_mut().for_each(|node| node.max_endpoints = 64);
    let mut site = Site::of(by("contention"), nodes);
    let groups = [(); 3].map(|()| site.init(&of(&[0, 1], "epic-2")));
    let shared = groups.map(|group| site.summary(group).shared.unwrap()[0].with.len());
    assert_eq!(shared, [1, 0, 1]);
}

#[test]
fn locks_that_switches_count_are_told_with_the_group() {
    let mut site = crossed();
    let [first, second] = [(); 2].map(|()| site.init(&of(&[0, 1, 2, 3], "epic-2")));
    let held = Duration::from_millis(3);
    let uses = LockUse { granted: 5, refused: 2, in_vain: 1, held_by: Some(first), held };
    site.report("s1", second, Report::Locked(uses));
    let shared = site.summary(second).shared.unwrap();
    assert_eq!(shared.iter().map(|shared| shared.uses).collect::<Vec<_>>()[1], uses);
    assert_eq!(site.summary(first).shared.unwrap()[1].uses, LockUse::default());
}

#[test]
fn a_queue_pair_too_few_for_tree_ring_and_locks_is_one_too_few() {
    let mut nodes = crossed_nodes(17_000);
    for node in nodes.iter_mut().filter(|node| node.name.starts_with('r')) {
        // One to the switch, two of the ring, one of the locks.
        node.max_endpoints = 4;
    }
    let mut site = Site::of(by("contention"), nodes.clone());
    assert_eq!(site.begin(&of(&[0, 1, 2, 3], "epic-2")).map(|_| ()), Ok(()));
    nodes.last_mut().unwrap().max_endpoints = 3;
    let refused = Site::of(by("contention"), nodes).begin(&of(&[0, 1, 2, 3], "epic-2")).unwrap_err();
    assert!(refused.to_string().contains("expected 4 free queue pairs at host \"r3\""), "{refused}");
}

#[test]
fn who_is_cut_off_is_in_no_network_and_no_tree_leads_there() {
    let mut site = Site::of(by("spatial"), clos());
    let mut links = clos()[0].links.clone();
    links.iter_mut().filter(|link| link.neighbour == "r0").for_each(|link| link.parallel_links = 0);
    site.manager.update_links("s0", links, &mut Vec::new()).unwrap();
    let group = site.init(&of(&[0, 1], "epic-2"));
    let summary = site.summary(group);
    assert!(
        matches!(&summary.fallback, Some(Fallback::NoTree { members, .. }) if members == &["r0"]),
        "{summary:?}"
    );
    assert_eq!(summary.design, "ring", "how hosts reach each other nobody says");
}

#[test]
fn groups_of_a_job_in_other_phases_have_memory_by_turns() {
    let phase = |number, duty| Some(Phase { job: "gpt".into(), number, duty });
    let room_for_one = |policy| {
        let small = NodeDescription { memory: ByteCount::new(17_000), ..switch(0) };
        Site::of(by(policy), [small, host(0), host(1)])
    };
    let shares = |site: &mut Site, phase: Option<Phase>| {
        let group = site.init(&GroupRequest { phase, ..of(&[0, 1], "epic-2") });
        site.summary(group).fallback.is_none()
    };
    let mut site = room_for_one("temporal");
    assert!(shares(&mut site, phase(1, 40)));
    assert!(shares(&mut site, phase(2, 50)), "another phase");
    assert!(!shares(&mut site, phase(2, 5)), "the same phase as the second");
    assert!(!shares(&mut site, phase(3, 20)), "more than all of the time");
    assert!(!shares(&mut site, None), "it may communicate at any time");
    let other = Phase { job: "bert".into(), number: 3, duty: 5 };
    assert!(!shares(&mut site, Some(other)), "nobody says when another job communicates");
    let theirs = site.init(&GroupRequest { phase: phase(3, 5), ..owned("red", &[0, 1]) });
    assert!(site.summary(theirs).fallback.is_some(), "the job of that name is another tenant's");
    let mut site = room_for_one("spatial");
    assert!(shares(&mut site, phase(1, 40)));
    assert!(!shares(&mut site, phase(2, 50)), "this policy gives memory for life");
}

#[test]
fn a_port_with_buffers_of_its_own_serves_one_group() {
    let mut nodes = tree("star-4");
    nodes[0].one_group_a_port = true;
    let mut site = Site::of(by("spatial"), nodes);
    let first = site.init(&of(&[0, 1], "epic-2"));
    let second = site.init(&of(&[1, 2], "epic-2"));
    let Some(Fallback::PortTaken { switch, link, holders }) = site.summary(second).fallback else {
        panic!("{:?}", site.summary(second))
    };
    assert_eq!((switch.as_str(), link.as_str(), holders[0].group), ("s0", "s0 - r1", first));
    let third = site.init(&of(&[2, 3], "epic-2"));
    assert_eq!(site.summary(third).fallback, None);
}

#[test]
fn a_switch_joins_no_more_neighbours_than_it_can() {
    let mut nodes = tree("star-4");
    nodes[0].max_fan_in = Some(3);
    let mut site = Site::of(by("spatial"), nodes);
    let group = site.init(&of(&[0, 1, 2, 3], "epic-2"));
    let expected = Fallback::FanIn { switch: "s0".into(), needed: 4, most: 3 };
    assert_eq!(site.summary(group).fallback, Some(expected));
}

#[test]
fn new_groups_pass_a_switch_by_that_is_to_be_stopped() {
    let mut site = Site::of(by("spatial"), clos());
    let before = site.init(&of(&[0, 1, 2, 3], "epic-2"));
    site.manager.drain("s2", true).unwrap();
    for _ in 0..3 {
        assert_eq!(switches(&mut site, &of(&[0, 1, 2, 3], "epic-2"))[0], "s3");
    }
    assert_eq!(site.state(before), quincunx_control::GroupState::Ready, "who is there stays");
    site.manager.drain("s2", false).unwrap();
    assert_eq!(switches(&mut site, &of(&[0, 1, 2, 3], "epic-2"))[0], "s2");
    assert!(site.manager.drain("nobody", true).is_err());
}

#[test]
fn where_all_that_could_do_it_drain_a_group_runs_among_its_hosts_and_says_so() {
    let mut site = Site::of(by("spatial"), clos());
    let reason = |site: &mut Site| {
        let group = site.init(&of(&[0, 1], "epic-2"));
        let summary = site.summary(group);
        (summary.design, summary.fallback.map(|lack| lack.to_string()).unwrap_or_default())
    };
    for switch in ["s0", "s1", "s2", "s3"] {
        assert_eq!(reason(&mut site), ("epic-2".into(), String::new()), "{switch} is left");
        site.manager.drain(switch, true).unwrap();
    }
    let expected = "expected a switch that runs epic-2 for \"r0\" and 1 others and takes new groups, found \"s0\", \"s1\", \"s2\", 1 \
                    others draining; wait, or `quincunx nodes undrain` one";
    assert_eq!(reason(&mut site), ("ring".into(), expected.into()));
    site.manager.drain("s0", false).unwrap();
    assert_eq!(reason(&mut site), ("epic-2".into(), String::new()));
}

#[test]
fn a_switch_that_drains_and_could_not_run_the_design_is_not_to_blame() {
    let mut nodes = clos();
    nodes[3].designs = ["netreduce".to_string()].into();
    let mut site = Site::of(by("spatial"), nodes);
    for switch in ["s0", "s1", "s2", "s3"] {
        site.manager.drain(switch, true).unwrap();
    }
    let group = site.init(&of(&[0, 1], "epic-2"));
    let lack = site.summary(group).fallback.unwrap().to_string();
    assert!(lack.contains("found \"s0\", \"s1\", \"s2\" draining"), "{lack}");
}

/// A group of somebody's hosts at one leaf.
fn owned(owner: &str, members: &[u8]) -> GroupRequest {
    GroupRequest { owner: owner.into(), ..of(members, "epic-2") }
}

#[test]
fn an_owner_with_all_the_groups_in_switches_that_he_may_have_gets_the_next_among_hosts() {
    let mut site = Site::of(by("spatial"), clos());
    let blue = Allowance { groups: Some(1), switch_memory: None };
    site.manager.allow(Allowances { owners: [("blue".into(), blue)].into(), ..Allowances::default() });
    let among_hosts = site.init(&GroupRequest { owner: "blue".into(), ..of(&[0, 1], "ring") });
    assert_eq!(site.summary(among_hosts).fallback, None, "it counts for nothing");
    let first = site.init(&owned("blue", &[0, 1]));
    assert_eq!(site.summary(first).fallback, None);
    let second = site.init(&owned("blue", &[0, 1]));
    assert_eq!(site.summary(second).design, "ring");
    let lack = site.summary(second).fallback.unwrap().to_string();
    let expected = format!(
        "expected tenant blue to have at most 1 groups in switches, found another asked for; group {first} has {} until it is destroyed; \
         end one, make it smaller, or ask the operator for more",
        site.summary(first).switches[0].memory
    );
    assert_eq!(lack, expected);
    // Others have limits of their own, and nobody's groups have none.
    for owner in ["red", ""] {
        let group = site.init(&owned(owner, &[0, 1]));
        assert_eq!(site.summary(group).fallback, None, "{owner}");
    }
    site.remove(first);
    let third = site.init(&owned("blue", &[0, 1]));
    assert_eq!(site.summary(third).fallback, None);
}

#[test]
fn an_owner_who_holds_all_the_memory_that_he_may_gets_the_next_group_among_hosts() {
    let mut site = Site::of(by("spatial"), clos());
    let first = site.init(&owned("blue", &[0, 1]));
    let taken = site.summary(first).switches[0].memory;
    let default = Allowance { groups: None, switch_memory: Some(taken) };
    site.manager.allow(Allowances { default, ..Allowances::default() });
    // What he holds stays, and what is as large is refused.
    let second = site.init(&owned("blue", &[0, 1]));
    let Some(Fallback::MemoryQuota { limit, wanted, .. }) = site.summary(second).fallback else {
        panic!("{:?}", site.summary(second).fallback)
    };
    assert_eq!((limit, wanted), (taken, taken + taken));
    let others = site.init(&owned("red", &[0, 1]));
    assert_eq!(site.summary(others).fallback, None);
}

#[test]
fn a_link_that_one_end_says_is_down_is_down() {
    let mut nodes = clos();
    // s2 has links of its own account, and none to s0.
    nodes[2].links = vec![link("s1".into(), None)];
    let mut site = Site::of(by("spatial"), nodes);
    assert_eq!(switches(&mut site, &of(&[0, 2], "epic-2")), ["s3"]);
    site.manager
        .update_links("s2", ["s0", "s1"].map(|name| link(name.into(), None)).into(), &mut Vec::new())
        .unwrap();
    assert_eq!(switches(&mut site, &of(&[0, 2], "epic-2")), ["s2"], "it is up again, and has no tree");
}

#[test]
fn a_switch_that_only_forwards_is_part_of_an_edge() {
    // r0, r1 - s0 (forwards) - s1 - r2
    let plain = NodeDescription {
        designs: [].into(),
        links: ["r0", "r1", "s1"].map(|name| link(name.into(), None)).into(),
        ..switch(0)
    };
    let able = NodeDescription { links: vec![link("s0".into(), None), link("r2".into(), None)], ..switch(1) };
    let mut site = Site::of(by("spatial"), [plain, able, host(0), host(1), host(2)]);
    let group = site.init(&of(&[0, 1, 2], "epic-3"));
    let summary = site.summary(group);
    assert_eq!(summary.switches.iter().map(|held| held.node.as_str()).collect::<Vec<_>>(), ["s1"]);
    assert_eq!(summary.switches[0].endpoints, 3);
    assert_eq!(summary.conflicts, 1, "two edges cross the link between both");
}

#[test]
fn nodes_without_known_links_are_in_one_network() {
    let mut site = Site::of(by("spatial"), [switch(0), host(0), host(1)]);
    let group = site.init(&of(&[0, 1], "epic-2"));
    assert_eq!(site.summary(group).conflicts, 1, "both edges go through the switch's only link");
}

#[test]
fn when_a_switch_dies_its_links_are_free_and_others_take_over() {
    let mut site = Site::of(by("edge-disjoint"), clos());
    let first = site.init(&of(&[0, 2], "epic-2"));
    let root = site.summary(first).switches[0].node.clone();
    let over = site.detach(&root);
    site.forget(&over);
    let second = site.init(&of(&[0, 2], "epic-2"));
    let summary = site.summary(second);
    assert_ne!(summary.switches[0].node, root);
    assert_eq!(summary.fallback, None);
}

#[test]
fn a_request_waits_for_what_a_group_that_is_over_still_holds() {
    let small = NodeDescription { memory: ByteCount::new(17_000), ..switch(0) };
    let mut site = Site::of(by("spatial"), [small, host(0), host(1)]);
    let first = site.init(&of(&[0, 1], "epic-2"));
    let over = site.destroy(first).unwrap();
    let told = site.begin(&of(&[0, 1], "epic-2")).unwrap();
    assert_eq!(told, [], "nobody is told anything yet");
    site.forget(&over);
    let second = site.manager.groups().last().unwrap();
    assert_eq!((second.fallback, second.design.as_str()), (None, "epic-2"));
    for node in ["s0", "r0", "r1"] {
        site.report(node, second.group, Report::Installed);
    }
}

#[test]
fn policies_have_names_and_the_frontier_is_never_empty() {
    let names: Vec<_> = policy::ALL.iter().map(|policy| policy.name()).collect();
    assert_eq!(names, ["edge-disjoint", "spatial", "spatial-wide", "temporal", "contention"]);
    assert!(policy::ALL.iter().all(|policy| !policy.summary().is_empty()));
    assert!(policy::find("greedy").is_none());
    assert_eq!(Spatial { prefer: policy::Prefer::Depth }.name(), "spatial");
}

#[test]
fn switches_with_a_mode_each_are_one_tree_of_a_design_that_uses_their_parts() {
    let mut nodes = clos();
    for (node, offered) in [(0, "epic-1"), (1, "epic-3"), (2, "epic-2"), (3, "epic-2")] {
        nodes[node].designs = [offered.to_owned()].into();
    }
    let mut site = Site::of(by("spatial"), nodes);
    let mixed = site.init(&of(&[0, 1, 2, 3], "epic-mixed"));
    let summary = site.summary(mixed);
    assert_eq!(summary.fallback, None);
    assert_eq!(summary.switches.iter().map(|at| &at.node).collect::<Vec<_>>(), ["s2", "s0", "s1"]);
    // Of one mode alone, a switch is the whole tree, and others forward.
    assert_eq!(switches(&mut site, &of(&[0, 1, 2, 3], "epic-3")), ["s1"]);
}
