//! Ranks that have not called the same hear of it, all of them and of nothing else; ranks that have are left alone.

use crate::site::{Site, on_mesh, request, told};
use quincunx_collective::{Collective, DataType, GroupId, Op, ReduceOp};
use quincunx_control::{Action, Call, GroupState, Instruction, ManagerTimer, Report, Standing};
use quincunx_units::Duration;

/// An AllReduce of 4 KiB.
fn all_reduce(number: u64, data_type: DataType) -> Call {
    Call::new(number, Collective::AllReduce, (Op::Reduce(ReduceOp::Sum), data_type), 4096)
}

pub(crate) fn good(number: u64) -> Call {
    all_reduce(number, DataType::F32)
}

pub(crate) fn bad(number: u64) -> Call {
    all_reduce(number, DataType::I32)
}

fn stalled(calls: &[Call]) -> Report {
    Report::Called { calls: calls.to_vec(), is_stalled: true, standing: Standing::default() }
}

pub(crate) fn answer(calls: &[Call]) -> Report {
    Report::Called { calls: calls.to_vec(), is_stalled: false, standing: Standing::default() }
}

fn asked(actions: &[Action], group: GroupId) -> Vec<String> {
    let told = told(actions);
    assert!(told.iter().all(|(_, instruction)| *instruction == Instruction::TellCalls(group)), "{told:?}");
    told.into_iter().map(|(node, _)| node).collect()
}

/// A group of four ranks that is ready.
fn four() -> (Site, GroupId) {
    let mut site = Site::new(1, 4);
    let group = site.init(&request(4, "epic-2"));
    (site, group)
}

/// Which nodes are told that the group has failed by disagreement, and how.
fn told_apart(actions: &[Action]) -> (Vec<String>, String) {
    let mut reasons = Vec::new();
    let mut nodes = Vec::new();
    for (node, instruction) in told(actions) {
        let Instruction::Failed { failure, .. } = instruction else { panic!("{instruction:?}") };
        assert!(failure.is_disagreement(), "{failure}");
        assert_eq!(failure.to_string(), failure.reason, "no node is blamed beside it");
        nodes.push(node);
        reasons.push(failure.reason);
    }
    reasons.dedup();
    let [reason] = &reasons[..] else { panic!("{reasons:?}") };
    (nodes, reason.clone())
}

const BETWEEN_1_AND_0: &str = "expected all ranks of group 1 to call the same collective (number 5), found another data type: rank 1 (\"r1\") calls all_reduce \
     of 4096 bytes, sum of i32, rank 0 (\"r0\") all_reduce of 4096 bytes, sum of f32; correct the program of one of them";

#[test]
fn all_ranks_hear_which_two_differ_when_one_is_stalled() {
    let (mut site, group) = four();
    let actions = site.report("r2", group, stalled(&[good(4), good(5)]));
    assert_eq!(asked(&actions, group), ["r0", "r1", "r3"]);
    assert_eq!(site.report("r0", group, answer(&[good(4), good(5)])), []);
    // Two are known to differ; the others have a moment left.
    let actions = site.report("r1", group, answer(&[good(4), bad(5)]));
    let after = Duration::from_millis(20);
    assert_eq!(actions, [Action::SetTimer { timer: ManagerTimer::Inquiry(group), after }]);
    let actions = site.report("r3", group, answer(&[good(4), good(5)]));
    let (nodes, reason) = told_apart(&actions);
    assert_eq!(nodes, ["r0", "r1", "r2", "r3", "s0"]);
    assert_eq!(reason, BETWEEN_1_AND_0);
    let GroupState::Failed(failure) = site.state(group) else { panic!("it goes on") };
    assert_eq!((failure.node.as_str(), failure.reason), ("r1", reason));
    site.forget(&actions);
    assert!(site.manager.is_idle());
}

#[test]
fn a_rank_that_does_not_answer_is_not_waited_for() {
    let (mut site, group) = four();
    site.report("r2", group, stalled(&[good(5)]));
    site.report("r0", group, answer(&[good(5)]));
    site.report("r1", group, answer(&[bad(5)]));
    let (_, reason) = told_apart(&site.expire(ManagerTimer::Inquiry(group)));
    assert_eq!(reason, BETWEEN_1_AND_0);
}

#[test]
fn whoever_is_blamed_for_silence_or_length_is_not_if_ranks_disagree() {
    for blamed in ["r1", "r3", "s0"] {
        for report in [
            Report::DataPlaneFailed { reason: "r2 does not answer".into() },
            Report::Corrupted { reason: "sum".into() },
        ] {
            let (mut site, group) = four();
            let actions = site.report(blamed, group, report);
            assert_eq!(asked(&actions, group), ["r0", "r1", "r2", "r3"]);
            site.report("r0", group, answer(&[good(5)]));
            site.report("r1", group, answer(&[bad(5)]));
            site.report("r2", group, answer(&[good(5)]));
            let (_, reason) = told_apart(&site.report("r3", group, answer(&[good(5)])));
            assert_eq!(reason, BETWEEN_1_AND_0);
        }
    }
}

#[test]
fn ranks_that_agree_hear_what_is_broken() {
    let (mut site, group) = four();
    let broken = |reason: &str| Report::DataPlaneFailed { reason: reason.into() };
    site.report("r3", group, broken("r2 does not answer"));
    assert_eq!(site.report("r1", group, broken("nor here")), [], "all are asked already");
    for rank in ["r0", "r1", "r2"] {
        assert_eq!(site.report(rank, group, answer(&[good(5)])), []);
    }
    site.report("r3", group, answer(&[good(5)]));
    let GroupState::Failed(failure) = site.state(group) else { panic!("{:?}", site.state(group)) };
    assert_eq!((failure.node.as_str(), failure.reason.as_str()), ("r3", "r2 does not answer"));
}

#[test]
fn a_broken_group_is_not_kept_by_ranks_that_say_nothing() {
    let (mut site, group) = four();
    site.report("r3", group, Report::DataPlaneFailed { reason: "r2 does not answer".into() });
    site.expire(ManagerTimer::Inquiry(group));
    assert!(
        matches!(site.state(group), GroupState::Failed(failure) if failure.reason == "r2 does not answer")
    );
}

#[test]
fn a_corrupted_result_goes_before_a_peer_that_does_not_answer() {
    let (mut site, group) = four();
    site.report("r3", group, Report::DataPlaneFailed { reason: "r2 does not answer".into() });
    site.report("r1", group, Report::Corrupted { reason: "wrong".into() });
    site.report("r0", group, Report::DataPlaneFailed { reason: "late".into() });
    site.expire(ManagerTimer::Inquiry(group));
    assert!(matches!(site.state(group), GroupState::Failed(failure) if failure.reason == "wrong"));
}

#[test]
fn whoever_waits_for_a_slow_rank_goes_on() {
    let (mut site, group) = four();
    site.report("r0", group, stalled(&[good(4), good(5)]));
    // These are stalled too, and say so before they are asked, or after.
    for rank in ["r1", "r2"] {
        assert_eq!(site.report(rank, group, stalled(&[good(4), good(5)])), []);
    }
    let actions = site.report("r3", group, answer(&[good(4)]));
    assert_eq!(actions, [Action::CancelTimer { timer: ManagerTimer::Inquiry(group) }]);
    // Later the slow one alone is asked again.
    assert_eq!(asked(&site.report("r0", group, stalled(&[good(4), good(5)])), group), ["r3"]);
    assert_eq!(site.state(group), GroupState::Ready);
    // It comes, with something else.
    let (_, reason) = told_apart(&site.report("r3", group, stalled(&[good(4), bad(5)])));
    assert!(reason.contains("rank 3 (\"r3\")") && reason.contains("rank 0 (\"r0\")"), "{reason}");
}

#[test]
fn a_rank_is_compared_with_what_others_said_long_ago() {
    let (mut site, group) = four();
    for number in 1..=200 {
        assert_eq!(site.report("r0", group, answer(&[good(number)])), []);
    }
    site.report("r1", group, answer(&[bad(150)]));
    assert_eq!(site.state(group), GroupState::Ready, "r0 has gone on since, and tells it no more");
    let (_, reason) = told_apart(&site.report("r1", group, answer(&[good(199), bad(200)])));
    assert!(reason.contains("(number 200), found another data type"), "{reason}");
}

#[test]
fn a_group_that_ends_meanwhile_asks_nobody() {
    let (mut site, group) = four();
    site.report("r0", group, stalled(&[good(5)]));
    let actions = site.destroy(group).unwrap();
    assert!(actions.contains(&Action::CancelTimer { timer: ManagerTimer::Inquiry(group) }));
    assert_eq!(site.expire(ManagerTimer::Inquiry(group)), []);
    assert_eq!(site.report("r1", group, answer(&[bad(5)])), []);
    site.forget(&actions);
    assert!(site.manager.is_idle());
}

#[test]
fn a_rank_that_is_lost_while_all_are_asked_is_what_the_group_ends_by() {
    let (mut site, group) = four();
    site.report("r0", group, Report::DataPlaneFailed { reason: "r1 does not answer".into() });
    site.detach("r1");
    assert!(matches!(site.state(group), GroupState::Failed(failure) if failure.node == "r1"));
}

#[test]
fn groups_of_messages_and_groups_of_one_are_asked_nothing() {
    let broken = || Report::DataPlaneFailed { reason: "test".into() };
    let mut site = Site::new(1, 4);
    let mut wanted = on_mesh(4, "writes", "mesh-1x4");
    wanted.demand = quincunx_design::Demand::Writes { slots: 1, length: quincunx_units::ByteCount::new(64) };
    for wanted in [wanted, request(1, "ring")] {
        let group = site.init(&wanted);
        site.report("r0", group, broken());
        assert!(matches!(site.state(group), GroupState::Failed(_)));
    }
}

#[test]
fn what_a_switch_or_a_stranger_has_called_is_of_no_account() {
    let (mut site, group) = four();
    assert_eq!(site.report("s0", group, stalled(&[bad(5)])), []);
    assert_eq!(site.state(group), GroupState::Ready);
}
