//! The manager as its nodes, callers and operators see it.

use crate::site::{Site, config, host, request, set, switch};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, AttachError, Encapsulation, Fallback, GroupState, InitGroupError, Instruction, ManagerConfig,
    NodeDescription, Report, ReportError, RequestId, Role, UnknownGroup,
};
use quincunx_design::{Demand, FabricKind, GroupContext, Node, Peer, Placement, Settings, Value};
use quincunx_designs::CATALOG;
use quincunx_fabric::IncTree;
use quincunx_units::ByteCount;

fn installed(instruction: &Instruction) -> &GroupContext {
    match instruction {
        Instruction::Install(context) => context,
        other => panic!("expected a context, found {other:?}"),
    }
}

#[test]
fn all_nodes_of_a_tree_are_told_to_install() {
    let mut site = Site::new(3, 8);
    let told = site.begin(&request(8, "epic-3", "tree-2x4")).unwrap();
    let nodes: Vec<_> = told.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(nodes, ["s0", "s1", "s2", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"]);
}

#[test]
fn switches_fill_the_tree_in_the_order_of_their_addresses() {
    let mut site = Site::new(0, 4);
    for (name, address) in [("z", 1), ("a", 3), ("m", 2)] {
        let mut node = switch(address);
        node.name = name.to_string();
        site.manager.attach(node).unwrap();
    }
    let told = site.begin(&request(4, "epic-2", "tree-3-2")).unwrap();
    // Switches come first, the root before the others.
    let (name, context) = (&told[0].0, installed(&told[0].1));
    let children: Vec<_> = context.connections.iter().map(|edge| edge.peer.clone()).collect();
    assert_eq!(name, "z");
    assert_eq!(children, ["m", "a"].map(|name| Peer::Switch(name.to_string())));
}

#[test]
fn members_get_ranks_in_the_order_they_are_named() {
    let mut site = Site::new(1, 3);
    let mut wanted = request(3, "epic-1", "star");
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
    let mut wanted = request(2, "epic-2", "star");
    set(&mut wanted, "group.retry_timeout", "7ms");
    for (_, instruction) in site.begin(&wanted).unwrap() {
        let context = installed(&instruction);
        assert_eq!((context.design.as_str(), context.version), ("epic-2", 1));
        assert_eq!(context.settings, wanted.settings);
        assert_eq!((context.fabric, context.ranks, context.domains), (FabricKind::Tree, 2, 1));
    }
}

#[test]
fn what_nodes_are_told_is_what_the_design_plans() {
    let wanted = request(4, "epic-3", "tree-2x2");
    let tree = IncTree::from_shape(&"tree-2x2".parse().unwrap());
    let placement = Placement::new(4, Some(tree), ByteCount::new(1 << 20));
    let design = CATALOG.find("epic-3", FabricKind::Tree).unwrap();
    let plan = design.plan(&wanted.settings, &placement).unwrap();
    let mut site = Site::new(3, 4);
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
        let told = site.begin(&request(8, design, "mesh-2x4")).unwrap();
        assert_eq!(told.len(), 8);
        for (_, instruction) in &told {
            let context = installed(instruction);
            assert_eq!((context.fabric, context.domains), (FabricKind::Mesh, 2));
            assert_eq!((context.connections.len(), context.remote_write), (7, true));
        }
    }
    // The same name among hosts of a tree is another design.
    let told = Site::new(1, 8).begin(&request(8, "direct", "star")).unwrap();
    assert!(told.iter().all(|(_, instruction)| !installed(instruction).remote_write));
}

#[test]
fn the_caller_is_answered_when_the_last_node_has_installed() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2", "star"));
    assert_eq!(site.report("s0", group, Report::Installed), []);
    assert_eq!(site.report("r0", group, Report::Installed), []);
    assert_eq!(site.report("r0", group, Report::Installed), [], "twice is once");
    let actions = site.report("r1", group, Report::Installed);
    let ready =
        |node: &str| Action::Instruct { node: node.to_string(), instruction: Instruction::Ready(group) };
    assert_eq!(actions[0], Action::CancelInstallTimer { group });
    assert_eq!(actions[1..4], ["r0", "r1", "s0"].map(ready));
    let Action::Answer { answer: Ok(summary), .. } = &actions[4] else { panic!("{actions:?}") };
    assert_eq!((summary.group, &summary.state), (group, &GroupState::Ready));
}

#[test]
fn a_node_that_is_late_is_named() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2", "star"));
    site.report("s0", group, Report::Installed);
    site.report("r1", group, Report::Installed);
    let actions = site.expire(group);
    let Some(Action::Answer { answer: Err(InitGroupError::Failed(failure)), .. }) = actions.last() else {
        panic!("{actions:?}")
    };
    assert_eq!(failure.to_string(), "node \"r0\": did not install the group within 2s");
}

#[test]
fn a_timer_that_fires_after_all_is_harmless() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2", "star"));
    assert_eq!(site.expire(group), []);
    site.destroy(group).unwrap();
    assert_eq!(site.expire(group), []);
}

#[test]
fn a_refusal_ends_the_request_and_frees_everything() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2", "star"));
    let actions = site.report("s0", group, Report::Refused { reason: "table full".to_string() });
    assert!(
        matches!(&actions[..], [
        Action::Instruct { .. }, Action::Instruct { .. }, Action::Instruct { .. },
        Action::CancelInstallTimer { .. },
        Action::Answer { answer: Err(InitGroupError::Failed(failure)), .. },
    ] if failure.node == "s0" && failure.reason == "table full"),
        "{actions:?}"
    );
    assert_eq!(site.manager.holdings("s0"), []);
}

#[test]
fn when_a_node_goes_all_its_groups_fail_and_no_others() {
    let mut site = Site::new(2, 4);
    let first = site.init(&request(2, "epic-3", "star"));
    let mut wanted = request(2, "ring", "star");
    wanted.members = vec!["r1".to_string(), "r2".to_string()];
    let second = site.init(&wanted);
    wanted.members = vec!["r2".to_string(), "r3".to_string()];
    let third = site.init(&wanted);
    let told = site.detach("r1");
    let failed = |action: &Action| match action {
        Action::Instruct { node, instruction: Instruction::Failed { group, failure } } => {
            assert_eq!(failure.node, "r1");
            (node.clone(), *group)
        }
        other => panic!("{other:?}"),
    };
    let told: Vec<_> = told.iter().map(failed).collect();
    assert_eq!(told, [("r0".to_string(), first), ("s0".to_string(), first), ("r2".to_string(), second)]);
    assert_eq!(site.state(third), GroupState::Ready);
}

#[test]
fn a_node_that_goes_while_a_group_installs_ends_the_request() {
    let mut site = Site::new(1, 2);
    site.begin_id(&request(2, "epic-2", "star"));
    let actions = site.detach("s0");
    assert!(
        matches!(actions.last(), Some(Action::Answer { answer: Err(InitGroupError::Failed(failure)), .. }) if failure.node == "s0")
    );
}

#[test]
fn what_failed_stays_visible_until_it_is_destroyed() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2", "star"));
    site.report("r0", group, Report::DataPlaneFailed { reason: "no answer from switch s0".to_string() });
    assert!(
        matches!(site.state(group), GroupState::Failed(failure) if failure.reason == "no answer from switch s0")
    );
    assert_eq!(site.destroy(group), Ok(vec![]), "nobody holds it any more");
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn reports_that_come_too_late_are_ignored() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2", "star"));
    site.report("r0", group, Report::DataPlaneFailed { reason: "first".to_string() });
    assert_eq!(site.report("r1", group, Report::DataPlaneFailed { reason: "second".to_string() }), []);
    site.destroy(group).unwrap();
    assert_eq!(site.report("r1", group, Report::Installed), []);
}

#[test]
fn only_nodes_of_a_group_report_on_it() {
    let mut site = Site::new(1, 3);
    let group = site.init(&request(2, "epic-2", "star"));
    let mut report = |node: &str| site.manager.handle_report(node, group, Report::Installed, &mut Vec::new());
    assert_eq!(report("r2"), Err(ReportError::NotInGroup { name: "r2".to_string(), group }));
    assert_eq!(report("x"), Err(ReportError::NotAttached { name: "x".to_string() }));
}

#[test]
fn destroying_tells_all_nodes_and_frees_memory_and_queue_pairs() {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2", "star"));
    assert_eq!(site.manager.holdings("s0").len(), 1);
    let remove =
        |node: &str| Action::Instruct { node: node.to_string(), instruction: Instruction::Remove(group) };
    assert_eq!(site.destroy(group).unwrap(), ["r0", "r1", "s0"].map(remove));
    assert_eq!(site.manager.holdings("s0"), []);
    assert_eq!(site.destroy(group), Err(UnknownGroup { group }));
}

#[test]
fn a_request_whose_caller_goes_away_is_taken_back() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2", "star"));
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
    let group = site.init(&request(2, "epic-2", "star"));
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
    site.manager.attach(small).unwrap();
    let group = site.init(&request(3, "epic-2", "star"));
    let summary = site.summary(group);
    assert_eq!(summary.design, "ring");
    let fallback = summary.fallback.unwrap();
    assert_eq!(
        fallback.to_string(),
        "expected 16448B of free memory at switch \"s0\", found 16447B; the group runs among its hosts"
    );
    assert_eq!(site.manager.holdings("s0"), [], "the switch has no part in it");
}

#[test]
fn memory_is_shared_among_groups_until_it_is_full() {
    let mut site = Site::new(0, 2);
    let mut small = switch(0);
    small.memory = ByteCount::new(2 * 16 * (1024 + 4));
    site.manager.attach(small).unwrap();
    let wanted = request(2, "epic-2", "star");
    let first = site.init(&wanted);
    let second = site.init(&wanted);
    let third = site.init(&wanted);
    assert!([first, second].map(|group| site.summary(group).fallback).iter().all(Option::is_none));
    assert!(
        matches!(site.summary(third).fallback, Some(Fallback::SwitchMemory { free, .. }) if free == ByteCount::new(0))
    );
    site.destroy(first).unwrap();
    let fourth = site.init(&wanted);
    assert_eq!(site.summary(fourth).fallback, None);
}

#[test]
fn a_switch_without_queue_pairs_makes_the_group_a_host_ring() {
    let mut site = Site::new(0, 3);
    let mut small = switch(0);
    small.max_endpoints = 2;
    site.manager.attach(small).unwrap();
    let group = site.init(&request(3, "epic-2", "star"));
    let expected = Fallback::SwitchEndpoints { switch: "s0".to_string(), needed: 3, free: 2 };
    assert_eq!(site.summary(group).fallback, Some(expected));
}

#[test]
fn a_host_without_queue_pairs_is_an_error() {
    let mut site = Site::new(0, 2);
    let mut small = host(2);
    small.max_endpoints = 1;
    site.manager.attach(small).unwrap();
    let error = site.begin(&request(3, "ring", "star")).unwrap_err();
    assert_eq!(error, InitGroupError::HostEndpoints { name: "r2".to_string(), needed: 2, free: 1 });
}

#[test]
fn a_switch_that_cannot_run_the_mode_does_not_count() {
    let mut site = Site::new(2, 2);
    let mut simple = switch(2);
    simple.designs = ["epic-2".to_string()].into();
    site.manager.attach(simple).unwrap();
    let error = site.begin(&request(2, "epic-1", "tree-2x1")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected 3 attached switches that can run epic-1, found 2; start more, or choose a smaller tree"
    );
    assert!(site.begin(&request(2, "epic-2", "tree-2x1")).is_ok());
}

#[test]
fn queue_pairs_are_not_used_again_at_once_even_by_a_node_that_comes_back() {
    let mut site = Site::new(0, 2);
    let pairs = |site: &mut Site| -> Vec<_> {
        let told = site.begin(&request(2, "ring", "star")).unwrap();
        let ends = told.iter().flat_map(|(_, instruction)| &installed(instruction).connections);
        ends.map(|end| end.local).collect()
    };
    let before = pairs(&mut site);
    site.detach("r0");
    site.manager.attach(host(0)).unwrap();
    let after = pairs(&mut site);
    assert!(before.iter().all(|endpoint| !after.contains(endpoint)), "{before:?} {after:?}");
}

#[test]
fn groups_start_at_psns_far_apart() {
    let mut site = Site::new(1, 2);
    let mut psn = || {
        let told = site.begin(&request(2, "epic-2", "star")).unwrap();
        installed(&told[0].1).initial_psn
    };
    let (first, second) = (psn(), psn());
    assert!(first.distance_from(second).unsigned_abs() > 1 << 20);
}

#[test]
fn senseless_requests_are_refused_and_leave_nothing_behind() {
    let mut site = Site::new(1, 2);
    site.manager.attach(switch(9)).unwrap();
    let good = request(2, "epic-2", "star");
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
        (with(&|w| w.version = 2), "expected version 1 of the parameters of epic-2, found version 2"),
        (
            with(&|w| w.design = "epic-4".into()),
            "expected a design for this kind of fabric (epic-1, epic-2, ",
        ),
        (request(2, "epic-2", "star-8"), "expected a tree or mesh of 2 ranks, found star-8 with 8"),
        (request(1, "epic-2", "star"), "expected a tree with at least two branches at the root, found one"),
        (
            request(2, "epic-2", "tree-1x2"),
            "expected a tree with at least two branches at the root, found one",
        ),
        (request(6, "multiwrite", "mesh-2x4"), "expected an attached host \"r2\", found none"),
        (request(2, "ring", "mesh-1x2"), "expected a design for this kind of fabric (multiwrite, "),
        (request(2, "multiwrite", "mesh-1x2"), "expected two domains at least for multiwrite, found 1"),
        (
            {
                let mut wanted = request(2, "writes", "mesh-1x2");
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

#[test]
fn names_and_addresses_are_unique() {
    let mut site = Site::new(0, 1);
    assert_eq!(site.manager.attach(host(0)), Err(AttachError::NameTaken { name: "r0".to_string() }));
    let mut other = host(0);
    other.name = "other".to_string();
    assert!(
        matches!(site.manager.attach(other), Err(AttachError::AddressTaken { holder, .. }) if holder == "r0")
    );
    let mut nameless = host(5);
    nameless.name = String::new();
    assert_eq!(site.manager.attach(nameless), Err(AttachError::NoName));
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
        last = site.init(&request(1, "ring", "star"));
        site.report("r0", last, Report::DataPlaneFailed { reason: "test".to_string() });
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
    site.manager.attach(small).unwrap();
    site
}

#[test]
fn a_group_that_falls_back_keeps_the_parameters_that_both_designs_have() {
    let mut site = without_room(config());
    let mut wanted = request(2, "epic-3", "star");
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
    let wanted = request(2, "epic-2", "star");
    let error = site.begin(&wanted).unwrap_err();
    let InitGroupError::NoRoom(Fallback::SwitchMemory { switch, .. }) = &error else { panic!("{error}") };
    assert_eq!(switch, "s0");
    let line = error.to_string();
    assert!(line.starts_with("expected 16448B of free memory at switch \"s0\", found 0B"), "{line}");
    assert!(line.ends_with("destroy a group, or set up a fallback"), "{line}");
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn a_fallback_that_needs_switches_itself_is_none() {
    let mut site = without_room(ManagerConfig { fallback: Some("epic-1"), ..ManagerConfig::default() });
    assert!(matches!(site.begin(&request(2, "epic-2", "star")), Err(InitGroupError::NoRoom(_))));
}

#[test]
fn a_fallback_whose_frames_nodes_would_not_understand_is_none() {
    let config = ManagerConfig { fallback: Some("ring"), ..ManagerConfig::default() };
    let mut site = Site::with(config, 0, 2);
    let designs = ["netreduce".to_string()].into();
    site.manager.attach(NodeDescription { designs, memory: ByteCount::new(0), ..switch(0) }).unwrap();
    let error = site.begin(&request(2, "netreduce", "star")).unwrap_err();
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
        site.manager.attach(node).unwrap();
    }
    let error = site.begin(&request(2, "netreduce", "star")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected frames of all nodes of a group to travel alike, found Ethernet frames of their own type at \"r0\" and \
         UDP datagrams at \"s0\"; start both with the same --transport"
    );
    // So is one of hosts alone.
    let error = site.begin(&request(3, "ring", "star")).unwrap_err();
    assert!(matches!(error, InitGroupError::MixedEncapsulation { other, .. } if other == "r2"));
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn a_group_runs_where_frames_of_all_its_nodes_are_ethernet_frames_of_their_own_type() {
    let ethernet = |node| NodeDescription { encapsulation: Encapsulation::Ethernet, ..node };
    let designs = ["netreduce".to_string()].into();
    let mut site = Site::new(0, 0);
    for node in [host(0), host(1), NodeDescription { designs, memory: ByteCount::new(1 << 30), ..switch(0) }]
    {
        site.manager.attach(ethernet(node)).unwrap();
    }
    // Others do not matter to it.
    site.manager.attach(host(2)).unwrap();
    site.begin(&request(2, "netreduce", "star")).unwrap();
}

#[test]
fn roles_have_names() {
    assert_eq!([Role::Host, Role::Switch].map(|role| role.to_string()), ["host", "switch"]);
}

#[test]
fn requests_are_answered_by_their_own_number() {
    let mut site = Site::new(0, 1);
    let mut actions = Vec::new();
    site.manager.init_group(RequestId(42), &request(2, "ring", "star"), &mut actions);
    assert!(matches!(actions[..], [Action::Answer { request: RequestId(42), answer: Err(_) }]));
}
