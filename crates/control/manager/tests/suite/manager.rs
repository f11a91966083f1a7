//! The manager as its nodes, callers and operators see it.

use crate::site::{Site, config, host, on_mesh, request, set, switch, told, tree};
use quincunx_collective::GroupId;
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_control::{
    Action, AttachError, Change, Encapsulation, Fallback, GroupState, InitGroupError, Instruction,
    ManagerConfig, ManagerTimer, NodeDescription, Report, ReportError, RequestId, Role, UnknownGroup,
};
use quincunx_design::{Demand, FabricKind, GroupContext, Node, Placement, Settings, Value};
use quincunx_designs::CATALOG;
use quincunx_fabric::IncTree;
use quincunx_units::ByteCount;
use quincunx_wire::QpNumber;
use std::collections::{BTreeMap, BTreeSet};

fn installed(instruction: &Instruction) -> &GroupContext {
    match instruction {
        Instruction::Install(context) => context,
        other => panic!("expected a context, found {other:?}"),
    }
}

#[test]
fn all_nodes_of_a_tree_are_told_to_install() {
    let mut site = Site::tree("tree-2x4");
    let told = site.begin(&request(8, "epic-3")).unwrap();
    let nodes: Vec<_> = told.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(nodes, ["s0", "s1", "s2", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"]);
}

#[test]
fn members_get_ranks_in_the_order_they_are_named() {
    let mut site = Site::new(1, 3);
    let mut wanted = request(3, "epic-1");
    wanted.members = ["r2", "r0", "r1"].map(String::from).to_vec();
    let told = site.begin(&wanted).unwrap();
    let ranks = told.iter().filter_map(|(node, instruction)| match installed(instruction).node {
        Node::Rank(rank) => Some((node.as_str(), rank.0)),
        Node::Switch => None,
    });
    assert!(ranks.eq([("r2", 0), ("r0", 1), ("r1", 2)]));
}

#[test]
fn contexts_carry_what_was_asked_for() {
    let mut site = Site::new(1, 2);
    let mut wanted = request(2, "epic-2");
    set(&mut wanted, "group.retry_timeout", "7ms");
    for (_, instruction) in site.begin(&wanted).unwrap() {
        let context = installed(&instruction);
        assert_eq!((context.design.as_str(), context.version), ("epic-2", 6));
        assert_eq!(context.settings, wanted.settings);
        assert_eq!((context.fabric, context.ranks, context.domains), (FabricKind::Tree, 2, 1));
    }
}

#[test]
fn what_nodes_are_told_is_what_the_design_plans() {
    let wanted = request(4, "epic-3");
    let tree = IncTree::from_shape(&"tree-2x2".parse().unwrap());
    let placement = Placement::new(4, Some(tree), ByteCount::new(1 << 20));
    let design = CATALOG.find("epic-3", FabricKind::Tree).unwrap();
    let plan = design.plan(&wanted.settings, &placement).unwrap();
    let mut site = Site::tree("tree-2x2");
    let told = site.begin(&wanted).unwrap();
    let roles: Vec<_> = told.iter().map(|(_, instruction)| installed(instruction).role.clone()).collect();
    let planned = plan.switches.iter().map(|switch| switch.role.clone()).chain(plan.ranks.iter().cloned());
    assert_eq!(roles, planned.collect::<Vec<_>>());
    for (switch, (name, instruction)) in plan.switches.iter().zip(&told) {
        let holding = &site.manager.holdings(name)[0].1;
        let context = installed(instruction);
        assert_eq!((context.memory, holding.memory), (switch.memory, switch.memory));
        assert_eq!(context.connections.len(), holding.endpoints as usize);
    }
}

#[test]
fn a_mesh_has_no_switches_and_its_ranks_know_the_domains() {
    let mut site = Site::new(1, 8);
    for design in ["multiwrite", "direct"] {
        let told = site.begin(&on_mesh(8, design, "mesh-2x4")).unwrap();
        assert_eq!(told.len(), 8);
        for (_, instruction) in &told {
            let context = installed(instruction);
            assert_eq!((context.fabric, context.domains), (FabricKind::Mesh, 2));
            assert_eq!((context.connections.len(), context.remote_write), (7, true));
        }
    }
    // The same name among hosts of a tree is another design.
    let told = Site::new(1, 8).begin(&request(8, "direct")).unwrap();
    assert!(told.iter().all(|(_, instruction)| !installed(instruction).remote_write));
}

#[test]
fn the_caller_is_answered_when_the_last_node_has_installed() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2"));
    assert_eq!(site.report("s0", group, Report::Installed), []);
    assert_eq!(site.report("r0", group, Report::Installed), []);
    assert_eq!(site.report("r0", group, Report::Installed), [], "twice is once");
    let actions = site.report("r1", group, Report::Installed);
    let ready =
        |node: &str| Action::Instruct { node: node.to_string(), instruction: Instruction::Ready(group) };
    assert_eq!(actions[0], Action::CancelTimer { timer: ManagerTimer::Install(group) });
    assert!(matches!(&actions[1], Action::Keep(Change::Put(record)) if record.group == group), "{actions:?}");
    assert_eq!(actions[2..5], ["r0", "r1", "s0"].map(ready));
    let Action::Answer { answer: Ok(summary), .. } = &actions[5] else { panic!("{actions:?}") };
    assert_eq!((summary.group, &summary.state), (group, &GroupState::Ready));
}

#[test]
fn a_node_that_is_late_is_named() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2"));
    site.report("s0", group, Report::Installed);
    site.report("r1", group, Report::Installed);
    let actions = site.expire(ManagerTimer::Install(group));
    let Some(Action::Answer { answer: Err(InitGroupError::Failed(failure)), .. }) = actions.last() else {
        panic!("{actions:?}")
    };
    assert_eq!(failure.to_string(), "node \"r0\": did not install the group within 5s");
}

#[test]
fn a_timer_that_fires_after_all_is_harmless() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    assert_eq!(site.expire(ManagerTimer::Install(group)), []);
    site.remove(group);
    assert_eq!(site.expire(ManagerTimer::Install(group)), []);
}

#[test]
fn a_refusal_ends_the_request_and_frees_everything() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2"));
    let actions = site.report("s0", group, Report::Refused { reason: "table full".to_string() });
    assert_eq!(actions[0], Action::CancelTimer { timer: ManagerTimer::Install(group) });
    assert_eq!(told(&actions).len(), 3);
    let Some(Action::Answer { answer: Err(InitGroupError::Failed(failure)), .. }) = actions.last() else {
        panic!("{actions:?}")
    };
    assert_eq!((failure.node.as_str(), failure.reason.as_str()), ("s0", "table full"));
    site.forget(&actions);
    assert_eq!(site.manager.holdings("s0"), []);
    assert!(site.manager.is_idle());
}

#[test]
fn when_a_node_goes_all_its_groups_fail_and_no_others() {
    let mut site = Site::new(2, 4);
    let first = site.init(&request(2, "epic-3"));
    let mut wanted = request(2, "ring");
    wanted.members = vec!["r1".to_string(), "r2".to_string()];
    let second = site.init(&wanted);
    wanted.members = vec!["r2".to_string(), "r3".to_string()];
    let third = site.init(&wanted);
    let actions = site.detach("r1");
    let failed = |(node, instruction): (String, Instruction)| match instruction {
        Instruction::Failed { group, failure } => {
            assert_eq!(failure.node, "r1");
            (node, group)
        }
        other => panic!("{other:?}"),
    };
    let told: Vec<_> = told(&actions).into_iter().map(failed).collect();
    assert_eq!(told, [("r0".to_string(), first), ("s0".to_string(), first), ("r2".to_string(), second)]);
    assert_eq!(site.state(third), GroupState::Ready);
}

#[test]
fn a_node_that_goes_while_a_group_installs_ends_the_request() {
    let mut site = Site::new(1, 2);
    site.begin_id(&request(2, "epic-2"));
    let actions = site.detach("s0");
    assert!(
        matches!(actions.last(), Some(Action::Answer { answer: Err(InitGroupError::Failed(failure)), .. }) if failure.node == "s0")
    );
}

#[test]
fn what_failed_stays_visible_until_it_is_destroyed() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    let over = site.break_group("r0", group, "no answer from switch s0");
    site.forget(&over);
    assert!(
        matches!(site.state(group), GroupState::Failed(failure) if failure.reason == "no answer from switch s0")
    );
    let done = Action::Destroyed { request: RequestId(2), silent: vec![] };
    assert_eq!(site.destroy(group), Ok(vec![done]), "nobody holds it any more");
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn reports_that_come_too_late_are_ignored() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    site.break_group("r0", group, "first");
    assert_eq!(site.report("r1", group, Report::DataPlaneFailed { reason: "second".to_string() }), []);
    site.remove(group);
    assert_eq!(site.report("r1", group, Report::Installed), []);
}

#[test]
fn only_nodes_of_a_group_report_on_it() {
    let mut site = Site::new(1, 3);
    let group = site.init(&request(2, "epic-2"));
    let mut report = |node: &str| site.manager.handle_report(node, group, Report::Installed, &mut Vec::new());
    assert_eq!(report("r2"), Err(ReportError::NotInGroup { name: "r2".to_string(), group }));
    assert_eq!(report("x"), Err(ReportError::NotAttached { name: "x".to_string() }));
}

#[test]
fn what_a_group_held_is_free_when_its_node_has_forgotten_it_and_not_before() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    let actions = site.destroy(group).unwrap();
    let remove = |node: &str| (node.to_string(), Instruction::Remove(group));
    assert_eq!(told(&actions), ["r0", "r1", "s0"].map(remove));
    assert_eq!(actions[0], Action::Keep(Change::Remove(group)));
    assert_eq!(site.manager.holdings("s0").len(), 1, "s0 still has it");
    assert_eq!(site.report("s0", group, Report::Removed), []);
    assert_eq!(site.manager.holdings("s0"), []);
    assert_eq!(site.report("r0", group, Report::Removed), []);
    let done = Action::Destroyed { request: site.last_request(), silent: vec![] };
    let cancelled = Action::CancelTimer { timer: ManagerTimer::End(group) };
    assert_eq!(site.report("r1", group, Report::Removed), [cancelled, done]);
    assert_eq!(site.destroy(group), Err(UnknownGroup { group }));
    assert!(site.manager.is_idle());
}

#[test]
fn who_ends_a_group_hears_which_nodes_do_not_answer() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    site.destroy(group).unwrap();
    site.report("r0", group, Report::Removed);
    let done = Action::Destroyed { request: site.last_request(), silent: vec!["r1".into(), "s0".into()] };
    let actions = site.expire(ManagerTimer::End(group));
    assert_eq!(actions[0], done);
    assert_eq!(told(&actions), ["r1", "s0"].map(|node| (node.to_string(), Instruction::Remove(group))));
    assert_eq!(site.manager.holdings("s0").len(), 1, "s0 may still have it");
    site.detach("s0");
    site.report("r1", group, Report::Removed);
    assert!(site.manager.is_idle());
}

#[test]
fn a_request_whose_caller_goes_away_is_taken_back() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2"));
    let mut actions = Vec::new();
    site.manager.abandon(site.last_request(), &mut actions);
    assert!(
        actions
            .contains(&Action::Instruct { node: "r0".to_string(), instruction: Instruction::Remove(group) })
    );
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn a_group_that_is_made_does_not_hang_on_its_caller() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    let mut actions = Vec::new();
    site.manager.abandon(site.last_request(), &mut actions);
    assert_eq!(actions, []);
    assert_eq!(site.state(group), GroupState::Ready);
}

#[test]
fn a_switch_without_room_makes_the_group_a_host_ring() {
    let mut site = Site::new(0, 3);
    let mut small = switch(0);
    small.memory = ByteCount::new(16 * (1024 + 4) - 1);
    site.attach(small);
    let group = site.init(&request(3, "epic-2"));
    let summary = site.summary(group);
    assert_eq!(summary.design, "ring");
    let fallback = summary.fallback.unwrap();
    assert_eq!(
        fallback.to_string(),
        "expected 16448B of free memory at switch \"s0\", found 16447B; destroy a group, or ask for less (group.window, group.message)"
    );
    assert_eq!(site.manager.holdings("s0"), [], "the switch has no part in it");
}

#[test]
fn memory_is_shared_among_groups_until_it_is_full() {
    let mut site = Site::new(0, 2);
    let mut small = switch(0);
    small.memory = ByteCount::new(2 * 16 * (1024 + 4));
    site.attach(small);
    let wanted = request(2, "epic-2");
    let first = site.init(&wanted);
    let second = site.init(&wanted);
    let third = site.init(&wanted);
    assert!([first, second].map(|group| site.summary(group).fallback).iter().all(Option::is_none));
    assert!(
        matches!(site.summary(third).fallback, Some(Fallback::SwitchMemory { free, .. }) if free == ByteCount::new(0))
    );
    let lack = site.summary(third).fallback.unwrap().to_string();
    let who = "; group 1 has 16448B until it is destroyed, group 2 has 16448B until it is destroyed; destroy a group";
    assert!(lack.contains(who), "{lack}");
    site.remove(first);
    let fourth = site.init(&wanted);
    assert_eq!(site.summary(fourth).fallback, None);
}

#[test]
fn memory_in_pieces_is_moved_together_where_the_switch_can() {
    for can_move in [true, false] {
        let mut site = Site::new(0, 2);
        let mut small = switch(0);
        small.memory = ByteCount::new(4 * 16 * (1024 + 4));
        let epic = CATALOG.find("epic-2", FabricKind::Tree).unwrap();
        site.attach(if can_move { small.offering([epic]) } else { small });
        let wanted = request(2, "epic-2");
        let groups = [(); 4].map(|()| site.init(&wanted));
        site.remove(groups[0]);
        site.remove(groups[2]);
        let mut twice = request(2, "epic-2");
        let window = twice.settings.value("group.window").unwrap().as_u64().unwrap();
        set(&mut twice, "group.window", 2 * window);
        let told = site.begin(&twice).unwrap();
        let of_switch: Vec<_> = told
            .iter()
            .filter(|(node, _)| node == "s0")
            .map(|(_, instruction)| instruction.clone())
            .collect();
        if !can_move {
            assert!(of_switch.is_empty(), "it runs among the hosts: {of_switch:?}");
            continue;
        }
        let block = ByteCount::new(16 * (1024 + 4));
        let from = Region { offset: block, length: block };
        let [Instruction::MoveMemory(moved), Instruction::Install(context)] = of_switch.as_slice() else {
            panic!("{of_switch:?}")
        };
        assert_eq!(*moved, MovedBlock { from, to: ByteCount::new(0) });
        assert_eq!((context.memory_offset, context.memory), (block, block * 2));
    }
}

#[test]
fn a_switch_without_queue_pairs_makes_the_group_a_host_ring() {
    let mut site = Site::new(0, 3);
    let mut small = switch(0);
    small.max_endpoints = 2;
    site.attach(small);
    let group = site.init(&request(3, "epic-2"));
    let expected =
        Fallback::SwitchEndpoints { switch: "s0".to_string(), needed: 3, free: 2, holders: vec![] };
    assert_eq!(site.summary(group).fallback, Some(expected));
}

#[test]
fn a_host_without_queue_pairs_is_an_error() {
    let mut site = Site::new(0, 2);
    let mut small = host(2);
    small.max_endpoints = 1;
    site.attach(small);
    let error = site.begin(&request(3, "ring")).unwrap_err();
    assert_eq!(error, InitGroupError::HostEndpoints { name: "r2".to_string(), needed: 2, free: 1 });
}

#[test]
fn a_host_whose_hardware_numbers_its_queue_pairs_gets_those_by_turns() {
    let mut site = Site::new(1, 1);
    let own = [41, 17, 29, 17].map(QpNumber::new);
    site.attach(NodeDescription { queue_pairs: own.into(), ..host(1) });
    let mut given = Vec::new();
    for _ in 0..4 {
        let all = site.begin(&request(2, "epic-1")).unwrap();
        let group = site.manager.groups().map(|group| group.group).max().unwrap();
        for (node, instruction) in all {
            if let (Instruction::Install(context), "r1") = (instruction, node.as_str()) {
                given.push(context.connections[0].local.qp.value());
            }
            site.report(&node, group, Report::Installed);
        }
        site.remove(group);
    }
    given.sort_unstable();
    assert_eq!(given.len(), 4);
    assert!([17, 29, 41].iter().all(|number| given.contains(number)), "{given:?}");
}

#[test]
fn a_host_has_no_more_queue_pairs_than_its_hardware() {
    let mut site = Site::new(0, 2);
    site.attach(NodeDescription { queue_pairs: vec![QpNumber::new(17); 3], ..host(2) });
    let error = site.begin(&request(3, "ring")).unwrap_err();
    assert_eq!(error, InitGroupError::HostEndpoints { name: "r2".to_string(), needed: 2, free: 1 });
}

#[test]
fn a_switch_that_cannot_run_the_design_has_no_part_in_it() {
    let mut nodes = tree("tree-2x2");
    nodes[1].designs = ["epic-2".to_string()].into();
    let mut site = Site::of(config(), nodes);
    // The hosts behind s1 hang on the root itself.
    let group = site.init(&request(4, "epic-1"));
    let switches: Vec<_> = site.summary(group).switches.into_iter().map(|holding| holding.node).collect();
    assert_eq!((switches, site.summary(group).conflicts), (vec!["s0".to_string(), "s2".to_string()], 1));
    let mut site = Site::new(0, 2);
    site.attach(NodeDescription { designs: ["epic-2".to_string()].into(), ..switch(0) });
    assert_eq!(
        site.begin(&request(2, "epic-1")).unwrap_err().to_string(),
        "expected an attached switch that can run epic-1, found one switch that cannot; start one, or choose another design"
    );
}

#[test]
fn queue_pairs_are_not_used_again_at_once_even_by_a_node_that_comes_back() {
    let mut site = Site::new(0, 2);
    let pairs = |site: &mut Site| -> Vec<_> {
        let told = site.begin(&request(2, "ring")).unwrap();
        let ends = told.iter().flat_map(|(_, instruction)| &installed(instruction).connections);
        ends.map(|end| end.local).collect()
    };
    let before = pairs(&mut site);
    site.detach("r0");
    site.attach(host(0));
    let after = pairs(&mut site);
    assert!(before.iter().all(|endpoint| !after.contains(endpoint)), "{before:?} {after:?}");
}

#[test]
fn groups_start_at_psns_far_apart() {
    let mut site = Site::new(1, 2);
    let mut psn = || {
        let told = site.begin(&request(2, "epic-2")).unwrap();
        installed(&told[0].1).initial_psn
    };
    let (first, second) = (psn(), psn());
    assert!(first.distance_from(second).unsigned_abs() > 1 << 20);
}

#[test]
fn senseless_requests_are_refused_and_leave_nothing_behind() {
    let mut site = Site::new(1, 2);
    site.attach(switch(9));
    let good = request(2, "epic-2");
    let with = |change: &dyn Fn(&mut quincunx_control::GroupRequest)| {
        let mut wanted = good.clone();
        change(&mut wanted);
        wanted
    };
    let cases = [
        (with(&|w| w.members.clear()), "expected members, found none"),
        (with(&|w| w.members[1] = "r0".into()), "expected each member once, found \"r0\" twice"),
        (with(&|w| w.members[1] = "r7".into()), "expected an attached host \"r7\", found none"),
        (with(&|w| w.members[1] = "s9".into()), "expected a host as member \"s9\", found a switch"),
        (with(&|w| set(w, "group.mtu", 0)), "expected `group.mtu` of a multiple of 4 bytes"),
        (with(&|w| set(w, "group.mtu", 1022)), "expected `group.mtu` of a multiple of 4 bytes"),
        (with(&|w| set(w, "group.mtu", 8192)), "expected `group.mtu` of a multiple of 4 bytes up to 4096"),
        (
            with(&|w| set(w, "group.window", 0)),
            "expected `group.message` times `group.window` of 1 to 4194304",
        ),
        (
            with(&|w| set(w, "group.message", u32::MAX)),
            "expected `group.message` times `group.window` of 1 to 4194304 packets",
        ),
        (
            with(&|w| w.settings = Settings::parse("{\"group\":{\"windows\":3}}").unwrap()),
            "expected one of the keys group.acknowledge_every, ",
        ),
        (
            with(&|w| w.settings = Settings::parse("{\"group\":{\"window\":1099511627776}}").unwrap()),
            "expected u32, found integer `1099511627776` in `group.window`",
        ),
        (
            with(&|w| w.version = 1),
            "expected version 6 of the parameters of epic-2, found version 1; the program that asks is older than the manager: upgrade it",
        ),
        (
            with(&|w| w.version = 7),
            "expected version 6 of the parameters of epic-2, found version 7; the manager is older than the program that asks: upgrade it",
        ),
        (
            with(&|w| w.design = "epic-4".into()),
            "expected a design for this kind of fabric (epic-1, epic-2, ",
        ),
        (request(1, "epic-2"), "expected a tree with at least two branches at the root, found one"),
        (on_mesh(2, "multiwrite", "mesh-2x4"), "expected a mesh of 2 ranks, found mesh-2x4 with 8"),
        (on_mesh(6, "multiwrite", "mesh-2x4"), "expected an attached host \"r2\", found none"),
        (on_mesh(2, "ring", "mesh-1x2"), "expected a design for this kind of fabric (multiwrite, "),
        (on_mesh(2, "multiwrite", "mesh-1x2"), "expected two domains at least for multiwrite, found 1"),
        (
            {
                let mut wanted = on_mesh(2, "writes", "mesh-1x2");
                wanted.demand = Demand::Writes { slots: u32::MAX, length: ByteCount::new(u64::MAX) };
                wanted
            },
            "expected windows of up to 64GiB with a slot at least, found 2 ranks with ",
        ),
    ];
    for (wanted, expected) in cases {
        let error = site.begin(&wanted).unwrap_err().to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
    assert_eq!(site.manager.groups().count(), 0);
}

/// A host that shares the address of `r0`.
fn sharer(number: u8, share: u8) -> NodeDescription {
    NodeDescription { address: host(0).address, share, ..host(number) }
}

#[test]
fn hosts_with_shares_of_one_address_get_queue_pairs_of_their_own() {
    let mut site = Site::new(1, 1);
    [1, 7].into_iter().zip(1..).for_each(|(share, number)| site.attach(sharer(number, share)));
    let mut given = BTreeMap::new();
    for _ in 0..3 {
        for (node, instruction) in site.begin(&request(3, "epic-3")).unwrap() {
            if let (Instruction::Install(context), true) = (instruction, node.starts_with('r')) {
                let numbers = given.entry(node).or_insert_with(Vec::new);
                numbers.push(context.connections[0].local.qp.value());
                assert_eq!(context.connections[0].local.ip, host(0).address.into());
            }
        }
    }
    let numbers = |share: u32| (16..19).map(|number| share << 16 | number).collect::<Vec<_>>();
    let expected = [("r0", 0), ("r1", 1), ("r2", 7)];
    assert_eq!(given, expected.map(|(name, share)| (name.to_string(), numbers(share))).into());
}

#[test]
fn a_share_s_numbers_come_again_when_all_have_been_given_away() {
    let mut site = Site::new(0, 0);
    [(0, 1), (1, 2)].into_iter().for_each(|(number, share)| {
        site.attach(NodeDescription { max_endpoints: 1 << 20, ..sharer(number, share) });
    });
    let (mut wanted, mut seen) = (request(2, "ring"), BTreeSet::new());
    // One queue pair at each rank and in each channel.
    set(&mut wanted, "group.channels", 8);
    for _ in 0..=(0x1_0000 - 16) / 8 {
        let told = site.begin(&wanted).unwrap();
        let group = installed(&told[0].1).group;
        for (node, instruction) in &told {
            let share = if node == "r0" { 1 } else { 2 };
            let held = installed(instruction).connections.iter().map(|own| own.local.qp);
            let held: Vec<QpNumber> = held.collect();
            assert_eq!(held.len(), 8);
            assert!(held.iter().all(|qp| qp.share() == share && qp.value() & 0xffff >= 16), "{held:?}");
            seen.extend(held);
            site.report(node, group, Report::Installed);
        }
        site.remove(group);
    }
    assert_eq!(seen.len(), 2 * (0x1_0000 - 16));
}

#[test]
fn an_address_is_shared_by_hosts_of_different_shares_alone() {
    let mut site = Site::new(0, 1);
    let taken = |node| matches!(site.try_attach(node), Err(AttachError::AddressTaken { holder, .. }) if holder == "r0");
    let own = vec![QpNumber::new(17)];
    let address = host(0).address;
    let refused = [
        sharer(1, 0),
        NodeDescription { queue_pairs: own, ..sharer(1, 1) },
        NodeDescription { address, share: 1, ..switch(0) },
        NodeDescription { cores: vec![address], ..switch(0) },
    ];
    assert!(refused.map(taken).iter().all(|taken| *taken));
    site.attach(sharer(1, 1));
}

#[test]
fn names_and_addresses_are_unique() {
    let mut site = Site::new(0, 1);
    assert_eq!(site.try_attach(host(0)), Err(AttachError::NameTaken { name: "r0".to_string() }));
    let mut other = host(0);
    other.name = "other".to_string();
    assert!(
        matches!(site.try_attach(other), Err(AttachError::AddressTaken { holder, .. }) if holder == "r0")
    );
    let mut nameless = host(5);
    nameless.name = String::new();
    assert_eq!(site.try_attach(nameless), Err(AttachError::NoName));
}

#[test]
fn a_stranger_that_leaves_is_no_matter() {
    let mut site = Site::new(1, 1);
    assert_eq!(site.detach("nobody"), []);
}

#[test]
fn failed_groups_are_remembered_up_to_a_limit() {
    let mut site = Site::new(0, 1);
    let mut last = GroupId(0);
    for _ in 0..100 {
        last = site.init(&request(1, "ring"));
        let over = site.report("r0", last, Report::DataPlaneFailed { reason: "test".to_string() });
        site.forget(&over);
    }
    let kept: Vec<_> = site.manager.groups().map(|group| group.group).collect();
    assert_eq!(kept.len(), 64);
    assert_eq!(kept.last(), Some(&last));
}

/// Of two hosts and a switch without any memory.
fn without_room(config: ManagerConfig) -> Site {
    let mut site = Site::with(config, 0, 2);
    let mut small = switch(0);
    small.memory = ByteCount::new(0);
    site.attach(small);
    site
}

#[test]
fn a_group_that_falls_back_keeps_the_parameters_that_both_designs_have() {
    let mut site = without_room(config());
    let mut wanted = request(2, "epic-3");
    for (key, value) in [("group.retry_timeout", Value::from("3ms")), ("group.slots", Value::from(64))] {
        set(&mut wanted, key, value);
    }
    for (_, instruction) in site.begin(&wanted).unwrap() {
        let context = installed(&instruction);
        assert_eq!(context.design, "ring");
        for key in ["group.mtu", "group.message", "group.window", "group.retry_timeout"] {
            assert_eq!(context.settings.value(key), wanted.settings.value(key), "{key}");
        }
        assert!(!context.settings.has("group.slots"));
        let defaults = CATALOG.named("ring").unwrap().defaults();
        assert_eq!(context.settings.value("hosts.chunk"), defaults.value("hosts.chunk"));
    }
}

#[test]
fn without_a_fallback_a_switch_without_room_is_an_error_that_says_what_it_lacks() {
    let mut site = without_room(ManagerConfig::default());
    let wanted = request(2, "epic-2");
    let error = site.begin(&wanted).unwrap_err();
    let InitGroupError::NoRoom(Fallback::SwitchMemory { switch, .. }) = &error else { panic!("{error}") };
    assert_eq!(switch, "s0");
    let line = error.to_string();
    assert!(line.starts_with("expected 16448B of free memory at switch \"s0\", found 0B"), "{line}");
    assert!(line.ends_with("and no design is set up to fall back to; set one up"), "{line}");
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn a_fallback_that_needs_switches_itself_is_none() {
    let mut site = without_room(ManagerConfig { fallback: Some("epic-1"), ..ManagerConfig::default() });
    assert!(matches!(site.begin(&request(2, "epic-2")), Err(InitGroupError::NoRoom(_))));
}

#[test]
fn a_fallback_whose_frames_nodes_would_not_understand_is_none() {
    let config = ManagerConfig { fallback: Some("ring"), ..ManagerConfig::default() };
    let mut site = Site::with(config, 0, 2);
    let designs = ["netreduce".to_string()].into();
    site.attach(NodeDescription { designs, memory: ByteCount::new(0), ..switch(0) });
    let error = site.begin(&request(2, "netreduce")).unwrap_err();
    assert!(matches!(error, InitGroupError::NoRoom(_)), "{error}");
}

#[test]
fn a_group_of_nodes_whose_frames_travel_differently_is_refused_in_one_line() {
    let ethernet = |node| NodeDescription { encapsulation: Encapsulation::Ethernet, ..node };
    let designs = ["netreduce".to_string()].into();
    let able = NodeDescription { designs, memory: ByteCount::new(1 << 30), ..switch(0) };
    let mut site = Site::new(0, 0);
    // The bridge at the switch would hand on what nobody has added up.
    for node in [ethernet(host(0)), ethernet(host(1)), host(2), able] {
        site.attach(node);
    }
    let error = site.begin(&request(2, "netreduce")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected frames of all nodes of a group to travel alike, found Ethernet frames of their own type at \"r0\" and \
         UDP datagrams at \"s0\"; start both with the same --transport"
    );
    // So is one of hosts alone.
    let error = site.begin(&request(3, "ring")).unwrap_err();
    assert!(matches!(error, InitGroupError::MixedEncapsulation { other, .. } if other == "r2"));
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn a_group_of_nodes_with_addresses_of_two_families_is_refused_in_one_line() {
    let over_ipv6 = |node| NodeDescription { address: "fd77::7".parse().expect("an address"), ..node };
    let mut site = Site::new(0, 0);
    for node in [host(0), host(1), over_ipv6(host(2))] {
        site.attach(node);
    }
    let error = site.begin(&request(3, "ring")).unwrap_err();
    let expected = format!(
        "expected addresses of one IP family in a group, found {} of \"r0\" and fd77::7 of \"r2\"; start both with --address of \
         the same family",
        host(0).address
    );
    assert_eq!(error.to_string(), expected);
    assert!(site.begin(&request(2, "ring")).is_ok(), "the others can go on");
}

#[test]
fn a_group_runs_where_frames_of_all_its_nodes_are_ethernet_frames_of_their_own_type() {
    let ethernet = |node| NodeDescription { encapsulation: Encapsulation::Ethernet, ..node };
    let designs = ["netreduce".to_string()].into();
    let mut site = Site::new(0, 0);
    for node in [host(0), host(1), NodeDescription { designs, memory: ByteCount::new(1 << 30), ..switch(0) }]
    {
        site.attach(ethernet(node));
    }
    // Others do not matter to it.
    site.attach(host(2));
    site.begin(&request(2, "netreduce")).unwrap();
}

#[test]
fn roles_have_names() {
    assert_eq!([Role::Host, Role::Switch].map(|role| role.to_string()), ["host", "switch"]);
}

#[test]
fn requests_are_answered_by_their_own_number() {
    let mut site = Site::new(0, 1);
    let mut actions = Vec::new();
    site.manager.init_group(RequestId(42), &request(2, "ring"), &mut actions);
    assert!(matches!(actions[..], [Action::Answer { request: RequestId(42), answer: Err(_) }]));
}
