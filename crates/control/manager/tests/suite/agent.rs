//! An agent as its manager and its data plane see it.

use crate::site::{Site, request, switch};
use quincunx_collective::GroupId;
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_control::{Agent, AgentAction, GroupFailure, Instruction, NodeDescription, Report};
use quincunx_design::GroupContext;
use quincunx_units::ByteCount;

/// What a switch is told of its first groups.
fn contexts(count: usize) -> Vec<GroupContext> {
    let mut site = Site::new(1, 2);
    let install = |site: &mut Site| {
        let told = site.begin(&request(2, "epic-2")).unwrap();
        told.into_iter().find_map(|(node, instruction)| match instruction {
            Instruction::Install(context) if node == "s0" => Some(context),
            _ => None,
        })
    };
    (0..count).map(|_| *install(&mut site).unwrap()).collect()
}

fn agent() -> Agent {
    Agent::new(&switch(0))
}

fn say(agent: &mut Agent, instruction: Instruction) -> Vec<AgentAction> {
    let mut out = Vec::new();
    agent.handle(instruction, &mut out);
    agent.assert_invariants();
    out
}

/// Has a group installed, and says so.
fn install(agent: &mut Agent, context: &GroupContext) {
    let actions = say(agent, Instruction::Install(Box::new(context.clone())));
    assert_eq!(actions, [AgentAction::Install(Box::new(context.clone()))]);
    let mut out = Vec::new();
    agent.installed(context.group, Ok(()), &mut out);
    assert_eq!(out, [AgentAction::Report { group: context.group, report: Report::Installed }]);
}

fn refusal(actions: &[AgentAction]) -> String {
    match actions {
        [AgentAction::Report { report: Report::Refused { reason }, .. }] => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_it_has_it_says_when_it_attaches_again() {
    let mut agent = agent();
    let contexts = contexts(2);
    for context in &contexts {
        install(&mut agent, context);
    }
    let held = agent.held();
    for (held, context) in held.iter().zip(&contexts) {
        let region = held.region.unwrap();
        assert_eq!(
            (held.group, region.offset, region.length),
            (context.group, context.memory_offset, context.memory)
        );
        assert_eq!(held.endpoints.len(), context.connections.len());
    }
    say(&mut agent, Instruction::Remove(contexts[0].group));
    assert_eq!(agent.held(), held[1..]);
}

#[test]
fn a_block_is_moved_with_all_that_have_it_unless_another_one_is_there() {
    let contexts = contexts(2);
    let mut agent = agent();
    contexts.iter().for_each(|context| install(&mut agent, context));
    let [first, second] = [0, 1].map(|of| agent.held()[of].region.unwrap());
    let moved = |from, to| Instruction::MoveMemory(MovedBlock { from, to });
    let nowhere = [
        (second, first.offset + ByteCount::new(1)),
        (first, ByteCount::new(1 << 20)),
        (Region { length: first.length - ByteCount::new(1), ..first }, second.offset + second.length),
    ];
    for (from, to) in nowhere {
        assert_eq!(say(&mut agent, moved(from, to)), [], "{from:?} to {to}");
    }
    let free = second.offset + second.length;
    let block = MovedBlock { from: first, to: free };
    assert_eq!(say(&mut agent, moved(first, free)), [AgentAction::MoveMemory(block)]);
    let block = MovedBlock { from: second, to: first.offset };
    assert_eq!(say(&mut agent, moved(second, first.offset)), [AgentAction::MoveMemory(block)]);
    let now = [0, 1].map(|of| agent.held()[of].region.unwrap());
    assert_eq!(now, [Region { offset: free, ..first }, Region { offset: first.offset, ..second }]);
}

#[test]
fn a_word_that_comes_twice_is_answered_twice_and_done_once() {
    let mut agent = agent();
    let context = &contexts(1)[0];
    install(&mut agent, context);
    let again = say(&mut agent, Instruction::Install(Box::new(context.clone())));
    assert_eq!(again, [AgentAction::Report { group: context.group, report: Report::Installed }]);
    for _ in 0..2 {
        let actions = say(&mut agent, Instruction::Remove(context.group));
        let removed = AgentAction::Report { group: context.group, report: Report::Removed };
        assert_eq!(actions, [AgentAction::Remove { group: context.group, failure: None }, removed]);
    }
}

#[test]
fn what_is_over_is_not_installed_any_more() {
    let contexts = contexts(2);
    let mut gone = agent();
    say(&mut gone, Instruction::Remove(contexts[0].group));
    let mut late = agent();
    install(&mut late, &contexts[1]);
    for agent in [&mut gone, &mut late] {
        let reason = refusal(&say(agent, Instruction::Install(Box::new(contexts[0].clone()))));
        assert!(reason.ends_with("found 1, which is over or comes too late"), "{reason}");
    }
}

#[test]
fn two_groups_never_overlap_and_none_is_beyond_the_end() {
    let contexts = contexts(2);
    let mut agent = agent();
    install(&mut agent, &contexts[0]);
    let mut clashing = contexts[1].clone();
    clashing.memory_offset = contexts[0].memory_offset + ByteCount::new(1);
    let reason = refusal(&say(&mut agent, Instruction::Install(Box::new(clashing))));
    assert_eq!(reason, "expected free buffers, found group 1 in them");
    let mut beyond = contexts[1].clone();
    beyond.memory_offset = ByteCount::new(1 << 20);
    let reason = refusal(&say(&mut agent, Instruction::Install(Box::new(beyond))));
    assert!(reason.starts_with("expected buffers within 1MiB, found "), "{reason}");
    install(&mut agent, &contexts[1]);
}

#[test]
fn what_tables_do_not_take_is_not_had() {
    let mut agent = agent();
    let context = contexts(1).remove(0);
    let group = context.group;
    say(&mut agent, Instruction::Install(Box::new(context)));
    let mut out = Vec::new();
    agent.installed(group, Err("expected a free queue pair".into()), &mut out);
    let report = Report::Refused { reason: "expected a free queue pair".into() };
    assert_eq!(out, [AgentAction::Report { group, report }]);
    assert_eq!(agent.held(), []);
}

#[test]
fn who_waits_for_a_group_is_told_why_it_is_over_even_if_it_was_never_here() {
    let mut agent = Agent::new(&NodeDescription { memory: ByteCount::new(0), ..switch(0) });
    let (group, failure) = (GroupId(7), GroupFailure { node: "r1".into(), reason: "gone".into() });
    let actions = say(&mut agent, Instruction::Failed { group, failure: failure.clone() });
    assert_eq!(actions[0], AgentAction::Remove { group, failure: Some(failure) });
    assert_eq!(say(&mut agent, Instruction::Ready(group)), [], "it cannot begin");
}

#[test]
fn what_an_agent_has_is_what_the_manager_gave_also_in_units_and_of_frames_that_pass() {
    for (design, ranks) in [("epic-2", 2), ("netreduce", 3)] {
        let unit = NodeDescription {
            designs: [design.to_string()].into(),
            memory: ByteCount::new(1 << 30),
            memory_unit: ByteCount::new(4096),
            ..switch(0)
        };
        let hosts = (0..ranks).map(|rank| crate::site::host(rank as u8));
        let mut site = Site::of(crate::site::config(), [unit.clone()].into_iter().chain(hosts));
        let told = site.begin(&request(ranks, design)).unwrap();
        let mut agent = Agent::new(&unit);
        let Some((_, Instruction::Install(context))) = told.into_iter().find(|(node, _)| node == "s0") else {
            panic!("s0 is told nothing")
        };
        say(&mut agent, Instruction::Install(context));
        let (held, (_, given)) = (agent.held().remove(0), site.manager.holdings("s0").remove(0));
        let region = held.region.unwrap();
        assert_eq!((region.offset, region.length), (given.offset, given.memory), "{design}");
        assert_eq!(held.endpoints.len(), given.endpoints as usize, "{design}");
    }
}

#[test]
fn an_agent_says_of_a_suspended_group_that_it_has_nothing_until_it_hears_what_becomes_of_it() {
    let contexts = contexts(2);
    let [first, next] = [0, 1].map(|place| contexts[place].group);
    let failure = || GroupFailure { node: "s0".to_string(), reason: "gone".to_string() };
    let suspend = || Instruction::Suspend { group: first, failure: failure() };
    let waits = |agent: &Agent| -> Vec<GroupId> {
        let all = agent.attaches_with().into_iter();
        all.filter(|held| held.endpoints.is_empty()).map(|held| held.group).collect()
    };
    for end in [
        Instruction::Remove(first),
        Instruction::Failed { group: first, failure: failure() },
        Instruction::Resume { group: next, from: first, first: 1 },
    ] {
        let mut agent = agent();
        install(&mut agent, &contexts[0]);
        say(&mut agent, suspend());
        install(&mut agent, &contexts[1]);
        assert_eq!((waits(&agent), agent.held().len()), (vec![first], 1));
        say(&mut agent, end);
        assert_eq!(waits(&agent), []);
    }
    let mut agent = agent();
    say(&mut agent, suspend());
    assert_eq!(agent.attaches_with(), [], "what it has not had it does not wait for");
}

#[test]
fn what_it_has_found_wrong_it_tells_again_until_the_group_is_over() {
    let mut agent = agent();
    let contexts = contexts(2);
    for context in &contexts {
        install(&mut agent, context);
    }
    let [over, made_anew] = [contexts[0].group, contexts[1].group];
    let report = Report::DataPlaneFailed { reason: "h0 does not answer".into() };
    for group in [over, made_anew, GroupId(99)] {
        agent.tells(group, &report);
    }
    agent.assert_invariants();
    let told = |agent: &Agent| agent.tells_again().map(|(group, _)| group).collect::<Vec<_>>();
    assert_eq!(told(&agent), [over, made_anew], "of what it does not have it says nothing");
    assert!(agent.tells_again().all(|(_, again)| *again == report));
    say(&mut agent, Instruction::Remove(over));
    assert_eq!(told(&agent), [made_anew]);
    let failure = GroupFailure { node: "s0".into(), reason: "h0 does not answer".into() };
    say(&mut agent, Instruction::Suspend { group: made_anew, failure });
    assert_eq!(told(&agent), []);
}

#[test]
fn that_results_were_wrong_it_tells_again_before_all_else() {
    let [corrupted, failed] =
        [Report::Corrupted { reason: "a sum".into() }, Report::DataPlaneFailed { reason: "h0".into() }];
    for order in [[&corrupted, &failed], [&failed, &corrupted]] {
        let mut agent = agent();
        let context = contexts(1).remove(0);
        install(&mut agent, &context);
        order.into_iter().for_each(|report| agent.tells(context.group, report));
        agent.tells(context.group, &Report::called_nothing());
        let again: Vec<(GroupId, &Report)> = agent.tells_again().collect();
        assert_eq!(again, [(context.group, &corrupted)]);
    }
}
