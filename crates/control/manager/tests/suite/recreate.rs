//! A group that loses a switch or a link is made anew on what is left, from the collective on that some rank lacks; or it is over, and says why.

use crate::site::{Site, config, host, request, switch, told, tree};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, Change, GroupState, HeldGroup, Instruction, LinkReport, ManagerConfig, ManagerTimer,
    NodeDescription, Progress, Report, Sequence,
};
use quincunx_units::Duration;

fn recreating() -> ManagerConfig {
    ManagerConfig { recreates: true, ..config() }
}

fn progress(complete: u64) -> Report {
    Report::Suspended(Progress { complete, repeats_from: complete.max(1) })
}

/// Two ranks on one of so many switches.
fn pair(switches: u8) -> (Site, GroupId) {
    let mut site = Site::with(recreating(), switches, 2);
    let group = site.init(&request(2, "epic-2"));
    (site, group)
}

fn suspended(actions: &[Action]) -> Vec<String> {
    let suspend = |(node, instruction)| matches!(instruction, Instruction::Suspend { .. }).then_some(node);
    told(actions).into_iter().filter_map(suspend).collect()
}

/// Both ranks say how far they have come; what follows from that.
fn stop(site: &mut Site, group: GroupId, complete: [u64; 2]) -> Vec<Action> {
    site.report("r0", group, progress(complete[0]));
    site.report("r1", group, progress(complete[1]))
}

#[test]
fn without_a_switch_a_group_goes_on_among_its_hosts_from_what_the_slowest_lacks() {
    let (mut site, group) = pair(1);
    let actions = site.detach("s0");
    assert_eq!(suspended(&actions), ["r0", "r1"]);
    assert!(matches!(site.state(group), GroupState::Suspended(failure) if failure.node == "s0"));
    let actions = stop(&mut site, group, [5, 4]);
    let next = site.manager.current(group);
    assert_ne!(next, group);
    assert!(actions.contains(&Action::Recreate { from: group, group: next }));
    site.report("r0", next, Report::Installed);
    let actions = site.report("r1", next, Report::Installed);
    let resume = Instruction::Resume { group: next, from: group, first: 5 };
    assert_eq!(told(&actions), ["r0", "r1"].map(|node| (node.to_string(), resume.clone())));
    let summary = site.manager.group(group).unwrap();
    assert_eq!((summary.group, summary.state, summary.design.as_str()), (next, GroupState::Ready, "ring"));
    let recreated = summary.recreated.unwrap();
    assert_eq!((recreated.generation(), recreated.first, recreated.earlier), (2, 5, vec![group]));
}

#[test]
fn a_group_takes_another_switch_if_there_is_one() {
    let (mut site, group) = pair(2);
    let first = site.summary(group).switches[0].node.clone();
    site.detach(&first);
    stop(&mut site, group, [0, 0]);
    let summary = site.manager.group(group).unwrap();
    assert_eq!(summary.design, "epic-2");
    assert_eq!(summary.fallback, None);
    assert_ne!(summary.switches[0].node, first);
}

#[test]
fn what_the_old_generation_held_is_free_when_its_nodes_have_forgotten_it_and_not_before() {
    let mut site = Site::of(recreating(), tree("tree-2x2"));
    let group = site.init(&request(4, "epic-2"));
    // The root dies; both leaves live.
    let actions = site.detach("s0");
    let removed: Vec<String> = told(&actions)
        .into_iter()
        .filter_map(|(node, instruction)| (instruction == Instruction::Remove(group)).then_some(node))
        .collect();
    assert_eq!(removed, ["s1", "s2"]);
    stop(&mut site, group, [1, 1]);
    site.report("r2", group, progress(1));
    assert_eq!(told(&site.report("r3", group, progress(1))), [], "switches still have it");
    assert_eq!(site.manager.holdings("s1").len(), 1);
    site.report("s1", group, Report::Removed);
    assert_eq!(site.manager.holdings("s1"), []);
    let actions = site.report("s2", group, Report::Removed);
    assert!(told(&actions).iter().all(|(_, instruction)| matches!(instruction, Instruction::Install(_))));
    assert_eq!(site.manager.group(group).unwrap().design, "ring");
}

#[test]
fn a_rank_that_no_longer_has_what_another_lacks_is_named() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    let actions = stop(&mut site, group, [9, 4]);
    let [(_, Instruction::Failed { failure, .. }), _] = &told(&actions)[..] else { panic!("{actions:?}") };
    assert!(failure.reason.contains("\"r1\" lacks collective 5, and \"r0\" has inputs from collective 9"));
    assert_eq!(site.state(group), GroupState::Failed(failure.clone()));
}

#[test]
fn a_rank_that_is_lost_meanwhile_ends_the_group_for_those_that_have_stopped_too() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    site.report("r0", group, progress(1));
    let actions = site.detach("r1");
    let failed = |(node, instruction): &(String, Instruction)| {
        node == "r0" && matches!(instruction, Instruction::Failed { group: of, .. } if *of == group)
    };
    assert!(told(&actions).iter().any(failed), "{actions:?}");
    assert!(matches!(site.state(group), GroupState::Failed(failure) if failure.node == "r1"));
    site.forget(&actions);
    assert!(site.manager.is_idle());
}

#[test]
fn nodes_have_as_long_to_stop_and_to_install_it_again_as_a_process_may_be_stopped() {
    let remake_timeout = Duration::from_secs(20);
    let mut site = Site::with(ManagerConfig { remake_timeout, ..recreating() }, 1, 2);
    let group = site.init(&request(2, "epic-2"));
    let waits = |group| Action::SetTimer { timer: ManagerTimer::Install(group), after: remake_timeout };
    assert!(site.detach("s0").contains(&waits(group)));
    let actions = stop(&mut site, group, [1, 1]);
    assert!(actions.contains(&waits(site.manager.current(group))), "{actions:?}");
}

#[test]
fn a_rank_that_has_not_stopped_yet_is_told_so_again_and_not_to_forget_the_group() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    site.report("r1", group, progress(1));
    let actions = site.expire(ManagerTimer::End(group));
    assert_eq!(suspended(&actions), ["r0"]);
    assert_eq!(told(&actions).len(), 1, "{actions:?}");
}

#[test]
fn a_switch_that_has_not_forgotten_yet_is_told_to_forget_again() {
    let mut site = Site::of(recreating(), tree("tree-2x2"));
    let group = site.init(&request(4, "epic-2"));
    site.detach("s0");
    stop(&mut site, group, [1, 1]);
    let told = told(&site.expire(ManagerTimer::End(group)));
    let forget = |node: &str| (node.to_string(), Instruction::Remove(group));
    assert_eq!(told.iter().filter(|told| told.1 == Instruction::Remove(group)).count(), 2, "{told:?}");
    assert!(told.contains(&forget("s1")) && told.contains(&forget("s2")), "{told:?}");
}

#[test]
fn a_rank_that_does_not_stop_in_time_ends_the_group() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    site.report("r1", group, progress(1));
    site.expire(ManagerTimer::Install(group));
    let GroupState::Failed(failure) = site.state(group) else { panic!("{:?}", site.state(group)) };
    assert_eq!(failure.node, "r0");
    assert!(failure.reason.starts_with("did not stop within 2s"), "{}", failure.reason);
}

#[test]
fn the_second_loss_among_hosts_is_the_end() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    stop(&mut site, group, [1, 1]);
    let next = site.manager.current(group);
    for rank in ["r0", "r1"] {
        site.report(rank, next, Report::Installed);
    }
    site.break_group("r0", next, "test");
    assert!(matches!(site.state(next), GroupState::Failed(_)));
}

#[test]
fn a_way_that_fails_is_left_for_the_hosts_own() {
    let (mut site, group) = pair(2);
    let actions = site.break_group("r0", group, "test");
    site.forget(&actions);
    stop(&mut site, group, [2, 2]);
    assert_eq!(site.manager.group(group).unwrap().design, "ring", "nobody knows which switch was at fault");
}

#[test]
fn a_link_that_goes_down_has_the_groups_made_anew_whose_trees_led_over_it() {
    let mut site = Site::of(recreating(), tree("tree-2x2"));
    let cut = site.init(&request(4, "epic-2"));
    let own = site.init(&request(2, "epic-2"));
    let NodeDescription { links, .. } = tree("tree-2x2").remove(0);
    let mut actions = Vec::new();
    let left = links.into_iter().filter(|link| link.neighbour != "s2").collect();
    site.manager.update_links("s0", left, &mut actions).unwrap();
    assert_eq!(suspended(&actions), ["r0", "r1", "r2", "r3"]);
    let GroupState::Suspended(failure) = site.state(cut) else { panic!("{:?}", site.state(cut)) };
    assert_eq!(failure.to_string(), "node \"s0\": its link between s0 and s2 is down");
    assert_eq!(site.state(own), GroupState::Ready, "its tree does not lead over that link");
}

#[test]
fn a_way_that_fails_is_left_for_another_tree_if_it_is_known_by_then_which_link_is_down() {
    let link = |name: &str, parallel_links| LinkReport {
        interface: None,
        neighbour: name.to_string(),
        parallel_links,
        rate: None,
    };
    let at = |number, parallel_links| {
        let links = vec![link("r0", parallel_links), link("r1", 1)];
        NodeDescription { links, ..switch(number) }
    };
    let mut site = Site::of(recreating(), [at(0, 1), at(1, 1), host(0), host(1)]);
    let group = site.init(&request(2, "epic-2"));
    let used = site.summary(group).switches[0].node.clone();
    assert_eq!(used, "s0");
    // A rank finds it out before the switch does.
    let failed = site.break_group("r0", group, "test");
    assert_eq!(suspended(&failed), ["r0", "r1"]);
    let mut actions = Vec::new();
    site.manager.update_links("s0", at(0, 0).links, &mut actions).unwrap();
    assert_eq!(actions, [], "the group is suspended already");
    site.report("s0", group, Report::Removed);
    stop(&mut site, group, [2, 2]);
    let summary = site.manager.group(group).unwrap();
    assert_eq!((summary.design.as_str(), summary.switches[0].node.as_str()), ("epic-2", "s1"));
}

#[test]
fn all_numbers_that_a_group_had_end_it() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    stop(&mut site, group, [1, 1]);
    let next = site.manager.current(group);
    for rank in ["r0", "r1"] {
        site.report(rank, next, Report::Installed);
    }
    site.remove(group);
    assert!(site.manager.is_idle());
    assert_eq!(site.manager.current(group), group, "its number means nothing any more");
}

#[test]
fn a_node_that_says_twice_that_it_has_forgotten_a_suspended_group_does_no_harm() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    site.report("r0", group, progress(1));
    assert_eq!(site.report("r0", group, Report::Removed), []);
    assert_eq!(site.report("r0", group, progress(3)), []);
    site.report("r1", group, progress(1));
    assert_eq!(site.manager.group(group).unwrap().recreated.unwrap().first, 2);
}

#[test]
fn a_group_that_is_ended_while_it_is_made_anew_leaves_nothing() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    let actions = site.destroy(group).unwrap();
    assert_eq!(told(&actions), ["r0", "r1"].map(|node| (node.to_string(), Instruction::Remove(group))));
    for node in ["r0", "r1"] {
        site.report(node, group, Report::Removed);
    }
    assert!(site.manager.is_idle());
    assert_eq!(site.manager.groups().count(), 0);
}

#[test]
fn without_being_asked_to_a_manager_makes_nothing_anew() {
    let mut site = Site::of(config(), [switch(0), host(0), host(1)]);
    let group = site.init(&request(2, "epic-2"));
    site.detach("s0");
    assert!(matches!(site.state(group), GroupState::Failed(_)));
}

#[test]
fn what_others_lack_is_run_again_before_what_comes_next() {
    let mut sequence = Sequence::new(2);
    for number in 1..=4 {
        let dropped = sequence.complete(number);
        assert_eq!(dropped, (number > 2).then(|| number - 2), "two are kept");
    }
    assert_eq!(sequence.suspend(), Progress { complete: 4, repeats_from: 3 });
    assert!(!sequence.may_begin());
    assert!(!sequence.can_resume(2) && !sequence.can_resume(6));
    sequence.resume(3);
    for number in [3, 4] {
        assert!(!sequence.may_begin());
        assert_eq!(sequence.next_repeat(), Some((number, &number)));
        sequence.repeated();
    }
    assert!(sequence.may_begin());
    sequence.complete(5);
    assert_eq!(sequence.completed(), 5);
}

#[test]
fn what_is_run_again_and_is_cut_off_is_run_again_once_more() {
    let mut sequence = Sequence::new(1);
    sequence.complete('a');
    sequence.suspend();
    sequence.resume(1);
    assert_eq!(sequence.suspend(), Progress { complete: 1, repeats_from: 1 });
    sequence.resume(1);
    assert_eq!(sequence.next_repeat(), Some((1, &'a')));
}

#[test]
fn of_what_is_not_kept_nothing_is_run_again() {
    let mut sequence = Sequence::<()>::new(0);
    sequence.skip();
    assert_eq!(sequence.suspend(), Progress { complete: 1, repeats_from: 2 });
    assert!(!sequence.can_resume(1));
    sequence.resume(2);
    assert!(sequence.may_begin());
}

/// What a node says of a group that it waits for: that it has nothing of it.
fn awaited(group: GroupId) -> HeldGroup {
    HeldGroup { group, region: None, endpoints: [].into(), is_released: false }
}

fn attach(site: &mut Site, node: NodeDescription, held: &[HeldGroup]) -> Vec<(String, Instruction)> {
    let mut out = Vec::new();
    site.manager.attach(node, held, &mut out).unwrap();
    told(&out)
}

#[test]
fn a_rank_that_was_suspended_by_a_manager_that_has_ended_hears_that_its_group_is_over() {
    let (_, group) = pair(1);
    // Groups that are being made anew are not kept: the next manager knows nothing of it.
    let mut next = Site::of(recreating(), [switch(0), host(1)]);
    let heard = attach(&mut next, host(0), &[awaited(group)]);
    assert_eq!(heard, [("r0".to_string(), Instruction::Remove(group))]);
    next.report("r0", group, Report::Removed);
    assert!(next.manager.is_idle());
}

#[test]
fn a_suspended_rank_that_was_lost_hears_why_its_group_is_over_when_it_comes_back() {
    let (mut site, group) = pair(1);
    site.detach("s0");
    site.detach("r0");
    let GroupState::Failed(failure) = site.state(group) else { panic!("it lives") };
    let heard = attach(&mut site, host(0), &[awaited(group)]);
    assert_eq!(heard, [("r0".to_string(), Instruction::Failed { group, failure })]);
}

#[test]
fn a_rank_that_has_not_heard_that_its_group_goes_on_hears_that_alone_when_it_comes_back() {
    let patient = ManagerConfig { return_timeout: Duration::from_secs(1), ..recreating() };
    let mut site = Site::with(patient, 1, 2);
    let group = site.init(&request(2, "epic-2"));
    site.manager.lose_sight("s0", "its agent is gone", &mut Vec::new());
    site.expire(ManagerTimer::Return(group));
    stop(&mut site, group, [0, 0]);
    let next = site.manager.current(group);
    site.report("r0", next, Report::Installed);
    let actions = site.report("r1", next, Report::Installed);
    let kept = actions.into_iter().find_map(|action| match action {
        Action::Keep(Change::Put(record)) => Some(*record),
        _ => None,
    });
    let (endpoints, region) = kept.unwrap().nodes["r0"].clone();
    site.manager.disconnect("r0", "its connection is gone", &mut Vec::new());
    let held = HeldGroup { group: next, region, endpoints, is_released: false };
    let heard = attach(&mut site, host(0), &[awaited(group), held]);
    let resume = Instruction::Resume { group: next, from: group, first: 1 };
    assert_eq!(heard, [("r0".to_string(), resume)]);
}
