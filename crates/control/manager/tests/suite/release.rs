//! A group ends when each of its ranks has said that it is done with it, and not before.

use crate::site::{Site, config, host, request, switch, told};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, Change, GroupState, HeldGroup, InitGroupError, Instruction, Manager, ManagerConfig, ManagerTimer,
    Progress, Report, ReportError, RequestId,
};
use quincunx_designs::CATALOG;
use quincunx_units::{ByteCount, Duration};

fn release(site: &mut Site, node: &str, group: GroupId) -> Vec<Action> {
    site.report(node, group, Report::Released)
}

/// Two ranks on one switch, and their group.
fn pair() -> (Site, GroupId) {
    let mut site = Site::new(1, 2);
    let group = site.init(&request(2, "epic-2"));
    (site, group)
}

#[test]
fn a_group_that_all_ranks_are_done_with_ends_as_if_it_were_destroyed() {
    let (mut site, group) = pair();
    release(&mut site, "r0", group);
    let actions = release(&mut site, "r1", group);
    assert_eq!(actions[0], Action::Keep(Change::Remove(group)));
    let removed = ["r0", "r1", "s0"].map(|node| (node.to_string(), Instruction::Remove(group)));
    assert_eq!(told(&actions), removed);
    assert_eq!(actions.last(), Some(&Action::GivenBack { group }));
    assert_eq!(site.manager.groups().count(), 0);
    assert_eq!(site.manager.holdings("s0").len(), 1, "the switch has not yet forgotten it");
    site.forget(&actions);
    assert!(site.manager.is_idle());
    assert_eq!(site.manager.holdings("s0"), []);
}

#[test]
fn a_group_that_some_ranks_are_done_with_lives() {
    let mut site = Site::new(1, 3);
    let group = site.init(&request(3, "epic-2"));
    for (node, times) in [("r0", 1), ("r2", 3)] {
        for _ in 0..times {
            assert_eq!(release(&mut site, node, group), [], "{node} counts once");
        }
    }
    assert_eq!(site.state(group), GroupState::Ready);
}

#[test]
fn a_rank_that_dies_ends_the_group_whoever_was_done_with_it() {
    for done in ["r0", "r1"] {
        let (mut site, group) = pair();
        release(&mut site, done, group);
        let actions = site.detach("r0");
        assert!(matches!(site.state(group), GroupState::Failed(failure) if failure.node == "r0"));
        site.forget(&actions);
        assert_eq!(release(&mut site, "r1", group), [], "too late, and ignored");
        assert!(site.manager.is_idle());
    }
}

#[test]
fn ranks_may_be_done_before_all_have_joined() {
    let mut site = Site::new(1, 2);
    let group = site.begin_id(&request(2, "epic-2"));
    site.report("r0", group, Report::Installed);
    assert_eq!(release(&mut site, "r0", group), []);
    let actions = release(&mut site, "r1", group);
    let destroyed = Action::Answer { request: site.last_request(), answer: Err(InitGroupError::Destroyed) };
    assert!(actions.contains(&destroyed), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Keep(_))), "it was never kept");
    site.forget(&actions);
    assert!(site.manager.is_idle());
}

/// A group that has lost its switch; its ranks have not yet stopped.
fn suspended() -> (Site, GroupId) {
    let mut site = Site::with(ManagerConfig { recreates: true, ..config() }, 1, 2);
    let group = site.init(&request(2, "epic-2"));
    site.detach("s0");
    (site, group)
}

fn stopped() -> Report {
    Report::Suspended(Progress { complete: 1, repeats_from: 1 })
}

#[test]
fn a_rank_may_be_done_with_a_group_that_is_being_made_anew() {
    let (mut site, group) = suspended();
    assert_eq!(release(&mut site, "r0", group), []);
    site.report("r0", group, stopped());
    site.report("r1", group, stopped());
    let next = site.manager.current(group);
    assert_ne!(next, group);
    // It counts for the next generation, by whichever number the other rank knows that.
    let actions = release(&mut site, "r1", group);
    assert!(actions.contains(&Action::GivenBack { group: next }), "{actions:?}");
    assert_eq!(site.manager.groups().count(), 0);
    assert_eq!(site.manager.current(group), group, "its number means nothing any more");
    site.forget(&actions);
    assert!(site.manager.is_idle());
}

#[test]
fn all_ranks_may_be_done_with_a_group_that_is_suspended() {
    let (mut site, group) = suspended();
    release(&mut site, "r0", group);
    let actions = release(&mut site, "r1", group);
    assert_eq!(told(&actions), ["r0", "r1"].map(|node| (node.to_string(), Instruction::Remove(group))));
    for node in ["r0", "r1"] {
        site.report(node, group, stopped());
    }
    assert!(site.manager.is_idle());
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn of_a_group_that_is_over_a_word_comes_too_late_and_of_one_that_never_was_it_is_refused() {
    let (mut site, group) = pair();
    site.remove(group);
    assert_eq!(release(&mut site, "r0", group), []);
    let mut actions = Vec::new();
    let unknown = GroupId(group.0 + 1);
    let refused = site.manager.handle_report("r0", unknown, Report::Released, &mut actions).unwrap_err();
    assert_eq!(refused, ReportError::UnknownGroup { group: unknown });
    assert!(refused.to_string().lines().count() == 1 && actions.is_empty(), "{refused}");
}

#[test]
fn who_is_no_rank_of_a_group_cannot_be_done_with_it() {
    let mut site = Site::new(1, 3);
    let group = site.init(&request(2, "epic-2"));
    for stranger in ["r2", "s0"] {
        let mut actions = Vec::new();
        let refused = site.manager.handle_report(stranger, group, Report::Released, &mut actions);
        assert_eq!(refused, Err(ReportError::NotInGroup { name: stranger.to_string(), group }));
    }
    release(&mut site, "r0", group);
    assert_eq!(site.state(group), GroupState::Ready);
}

/// A switch with room for one group.
fn narrow() -> (Site, GroupId) {
    let (site, group) = pair();
    let memory = site.manager.holdings("s0")[0].1.memory;
    let narrow = quincunx_control::NodeDescription { memory, ..switch(0) };
    let mut site = Site::of(config(), [narrow, host(0), host(1)]);
    assert_eq!(site.init(&request(2, "epic-2")), group);
    (site, group)
}

fn is_delayed(actions: &[Action], request: RequestId) -> bool {
    let timer = ManagerTimer::Delay(request);
    matches!(actions, [Action::SetTimer { timer: set, .. }] if *set == timer)
}

#[test]
fn a_request_waits_for_the_room_of_a_group_that_some_ranks_are_done_with() {
    let (mut site, group) = narrow();
    release(&mut site, "r0", group);
    let asked = site.ask(&request(2, "epic-2"));
    assert!(is_delayed(&asked, site.last_request()), "{asked:?}");
    let given_back = release(&mut site, "r1", group);
    let begun = site.forget(&given_back);
    assert!(begun.iter().any(|action| matches!(action, Action::Begin { .. })), "{begun:?}");
    let next = site.manager.groups().last().unwrap();
    assert_eq!((next.design.as_str(), next.fallback), ("epic-2", None));
}

#[test]
fn a_request_does_not_wait_for_a_group_that_nobody_is_done_with_nor_for_ever() {
    let (mut site, group) = narrow();
    assert!(site.begin(&request(2, "epic-2")).is_ok());
    assert_eq!(site.manager.groups().last().unwrap().design, "ring");
    release(&mut site, "r0", group);
    site.ask(&request(2, "epic-2"));
    let actions = site.expire(ManagerTimer::Delay(site.last_request()));
    assert!(actions.iter().any(|action| matches!(action, Action::Begin { .. })), "{actions:?}");
    assert_eq!(site.manager.groups().last().unwrap().design, "ring");
}

#[test]
fn a_manager_that_starts_again_hears_who_was_done_when_nodes_come_back() {
    let mut site = Site::new(1, 2);
    let installs = site.begin(&request(2, "epic-2")).unwrap();
    let group = site.manager.groups().last().unwrap().group;
    let mut records = Vec::new();
    for (node, _) in installs {
        for action in site.report(&node, group, Report::Installed) {
            if let Action::Keep(Change::Put(record)) = action {
                records.push(*record);
            }
        }
    }
    let held = |node: &str, is_released| {
        let (endpoints, region) = records[0].nodes[node].clone();
        HeldGroup { group, region, endpoints, is_released }
    };
    let patient = ManagerConfig { return_timeout: Duration::from_secs(1), ..config() };
    let mut out = Vec::new();
    let mut again = Manager::restore(CATALOG, patient, group.0 + 1, records.clone(), &mut out);
    again.attach(host(0), &[held("r0", true)], &mut out).unwrap();
    again.attach(switch(0), &[held("s0", false)], &mut out).unwrap();
    assert_eq!(again.groups().count(), 1, "r1 is not done with it");
    let mut out = Vec::new();
    again.attach(host(1), &[held("r1", true)], &mut out).unwrap();
    assert!(out.contains(&Action::Keep(Change::Remove(group))) && out.contains(&Action::GivenBack { group }));
    let removed = told(&out).into_iter().filter(|(_, told)| *told == Instruction::Remove(group));
    assert_eq!(removed.map(|(node, _)| node).collect::<Vec<_>>(), ["r0", "r1", "s0"]);
    for node in ["r0", "r1", "s0"] {
        again.handle_report(node, group, Report::Removed, &mut out).unwrap();
    }
    assert!(again.is_idle());
    assert_eq!(
        again.holdings("s0").into_iter().map(|(_, held)| held.memory).sum::<ByteCount>(),
        ByteCount::new(0)
    );
}

#[test]
fn thousands_of_groups_come_and_go_and_leave_nothing_and_no_number_comes_twice() {
    let (mut site, first) = narrow();
    let mut last = first;
    for _ in 0..2_000 {
        release(&mut site, "r0", last);
        let actions = release(&mut site, "r1", last);
        site.forget(&actions);
        let next = site.init(&request(2, "epic-2"));
        assert!(next > last, "group {next} after {last}");
        assert_eq!(site.summary(next).design, "epic-2");
        last = next;
    }
    assert_eq!(site.manager.groups().count(), 1);
    assert_eq!(site.manager.holdings("r0").len(), 1);
}
