//! Whom everybody in a group waits for.

use crate::status::GroupStatus;
use quincunx_control::{Call, GroupState, Standing};
use quincunx_units::Duration;
use std::fmt;

/// How a rank stands in its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankStanding {
    /// Whether its node has a connection to the manager.
    pub is_attached: bool,
    /// Whether its machine has acknowledged the question; none if nobody knows.
    pub is_reached: Option<bool>,
    /// What it has called last, and how far it has come; none if it does not answer.
    pub answer: Option<(Vec<Call>, Standing)>,
}

/// What the ranks of a group have answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Which.
    pub group: GroupStatus,
    /// In rank order.
    pub ranks: Vec<RankStanding>,
}

/// Why a rank is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason<'a> {
    /// Its connection to the manager is gone.
    Gone,
    /// It has a connection, its machine takes what is sent to it, and it does not answer.
    Stopped,
    /// It has a connection, and its machine does not take what is sent to it.
    CutOff,
    /// It has a connection, and does not answer; more is not known.
    Silent,
    /// It has not called what others wait for.
    NotCalled {
        /// Its last call, if there is one.
        last: Option<&'a Call>,
        /// How long ago that ended.
        idle: Duration,
    },
}

impl RankStanding {
    /// The number of its last call.
    fn called(&self) -> Option<u64> {
        let (calls, _) = self.answer.as_ref()?;
        Some(calls.last().map_or(0, |call| call.number))
    }

    /// The number of the oldest call that has not ended, if there is one.
    fn in_call(&self) -> Option<u64> {
        let (_, standing) = self.answer.as_ref()?;
        (self.called()? > standing.complete).then_some(standing.complete + 1)
    }

    fn call(&self, number: u64) -> Option<&Call> {
        self.answer.as_ref()?.0.iter().find(|call| call.number == number)
    }

    /// Why it is waited for by those who are in a call of that number.
    fn reason(&self, number: Option<u64>) -> Option<Reason<'_>> {
        let Some((calls, standing)) = &self.answer else {
            return Some(match (self.is_attached, self.is_reached) {
                (false, _) => Reason::Gone,
                (true, Some(true)) => Reason::Stopped,
                (true, Some(false)) => Reason::CutOff,
                (true, None) => Reason::Silent,
            });
        };
        // Whoever is behind has ended all of its own: the number is the first that somebody is in.
        (self.called() < number).then_some(Reason::NotCalled { last: calls.last(), idle: standing.idle })
    }
}

impl Waits {
    /// The number of the collective that somebody waits in: the first, if ranks wait in several.
    pub fn number(&self) -> Option<u64> {
        self.ranks.iter().filter_map(RankStanding::in_call).min()
    }

    /// That collective as the first rank that is in it has called it.
    pub fn call(&self) -> Option<&Call> {
        let number = self.number()?;
        self.ranks.iter().find_map(|rank| rank.call(number))
    }

    /// The ranks that are in it, and for how long the first one has been.
    pub fn waiting(&self) -> (Vec<u16>, Duration) {
        let Some(number) = self.number() else { return (Vec::new(), Duration::ZERO) };
        let waiting = (0..).zip(&self.ranks).filter(|(_, rank)| rank.in_call() == Some(number));
        let idle = |rank: &RankStanding| rank.answer.as_ref().map(|(_, standing)| standing.idle);
        let longest = waiting.clone().filter_map(|(_, rank)| idle(rank)).max().unwrap_or_default();
        (waiting.map(|(rank, _)| rank).collect(), longest)
    }

    /// The ranks that are waited for, each with the reason.
    pub fn waited_for(&self) -> Vec<(u16, Reason<'_>)> {
        let number = self.number();
        (0..).zip(&self.ranks).filter_map(|(place, rank)| Some((place, rank.reason(number)?))).collect()
    }
}

/// `all_reduce of 4096 bytes, sum of f32 (number 17 of group 3 "train"): 3 of 4 ranks wait, the first for 12.3 s`, and a line for each rank that they
/// wait for.
impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupStatus { summary, name, .. } = &self.group;
        let title = match name.is_empty() {
            true => format!("group {}", summary.group),
            false => format!("group {} \"{name}\"", summary.group),
        };
        match &summary.state {
            GroupState::Failed(failure) => return write!(f, "{title} is over: {failure}"),
            GroupState::Suspended(failure) => return write!(f, "{title} is being made anew: {failure}"),
            GroupState::Installing => {
                return write!(f, "{title} is not ready: not all nodes have installed it");
            }
            GroupState::Ready => {}
        }
        let waited_for = self.waited_for();
        let (waiting, longest) = self.waiting();
        match self.call() {
            None => write!(f, "{title}: no rank waits in a collective")?,
            Some(call) => {
                let (count, ranks, seconds) = (waiting.len(), self.ranks.len(), longest.as_secs_f64());
                write!(
                    f,
                    "{call} (number {} of {title}): {count} of {ranks} ranks wait, the first for {seconds:.1} s",
                    call.number
                )?;
                if waited_for.is_empty() {
                    let ranks: Vec<String> = waiting.iter().map(ToString::to_string).collect();
                    let (noun, verb) = if ranks.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
                    let ranks = ranks.join(", ");
                    write!(
                        f,
                        "\n  all ranks have called it, and {noun} {ranks} {verb} not ended it: it is on its way, or the network is at fault"
                    )?;
                }
            }
        }
        for (rank, reason) in waited_for {
            let node = &summary.members[usize::from(rank)];
            write!(f, "\n  rank {rank} ({node}) {reason}")?;
        }
        Ok(())
    }
}

/// What is the matter with a rank, behind its name.
impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("is gone: its connection to the manager has ended"),
            Self::Stopped => f.write_str(
                "does not answer, though its machine takes what is sent to it: its process is stopped (a debugger, swap)",
            ),
            Self::CutOff => f.write_str("is cut off: its machine does not acknowledge what is sent to it"),
            Self::Silent => f.write_str(
                "does not answer: its process is stopped (a debugger, swap), or its machine is cut off",
            ),
            Self::NotCalled { last: None, .. } => f.write_str("has called nothing yet"),
            Self::NotCalled { last: Some(call), idle } => {
                let (number, seconds) = (call.number, idle.as_secs_f64());
                write!(
                    f,
                    "has not called it: its last, {call} (number {number}), ended {seconds:.1} s ago; it computes, or waits elsewhere"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::{Collective, DataType, GroupId, ReduceOp};
    use quincunx_control::{GroupFailure, GroupSummary};

    /// A rank that has ended so many of so many calls.
    fn rank(complete: u64, called: u64) -> RankStanding {
        let call =
            |number| Call::new(number, Collective::AllReduce, (ReduceOp::Sum.into(), DataType::F32), 64);
        let idle = Duration::from_millis(1500);
        let answer = ((1..=called).map(call).collect(), Standing { complete, idle });
        RankStanding { is_attached: true, is_reached: Some(true), answer: Some(answer) }
    }

    fn waits(ranks: Vec<RankStanding>) -> Waits {
        let members = (0..ranks.len()).map(|rank| format!("host-{rank}")).collect();
        let summary = GroupSummary {
            group: GroupId(3),
            design: "epic-3".into(),
            fallback: None,
            state: GroupState::Ready,
            owner: String::new(),
            members,
            switches: Vec::new(),
            conflicts: 0,
            lease: None,
            recreated: None,
            shared: None,
        };
        let [name, tenant, asked] = ["train", "", "epic-3"].map(String::from);
        Waits { group: GroupStatus { summary, name, tenant, asked }, ranks }
    }

    fn places(waits: &Waits) -> Vec<u16> {
        waits.waited_for().into_iter().map(|(rank, _)| rank).collect()
    }

    #[test]
    fn those_who_have_not_called_it_are_waited_for() {
        let waits = waits(vec![rank(16, 17), rank(16, 16), rank(16, 17), rank(0, 0)]);
        assert_eq!((waits.waiting().0, places(&waits)), (vec![0, 2], vec![1, 3]));
        assert_eq!(
            waits.to_string(),
            "all_reduce of 64 bytes, sum of f32 (number 17 of group 3 \"train\"): 2 of 4 ranks wait, the first for 1.5 s\n  \
             rank 1 (host-1) has not called it: its last, all_reduce of 64 bytes, sum of f32 (number 16), ended 1.5 s ago; it computes, or \
             waits elsewhere\n  rank 3 (host-3) has called nothing yet"
        );
    }

    #[test]
    fn who_is_stopped_cut_off_and_gone_are_three_things() {
        let silent = |is_attached, is_reached| RankStanding { is_attached, is_reached, answer: None };
        let [stopped, cut_off, gone] =
            [(true, Some(true)), (true, Some(false)), (false, None)].map(|(a, r)| silent(a, r));
        let waits = waits(vec![rank(1, 2), silent(true, None), stopped, cut_off, gone]);
        let text = waits.to_string();
        assert!(text.contains("rank 1 (host-1) does not answer: its process is stopped"), "{text}");
        assert!(text.contains("rank 2 (host-2) does not answer, though its machine takes"), "{text}");
        assert!(text.contains("rank 3 (host-3) is cut off"), "{text}");
        assert!(text.contains("rank 4 (host-4) is gone"), "{text}");
    }

    #[test]
    fn who_has_ended_it_already_waits_for_nobody_and_nobody_for_him() {
        let waits = waits(vec![rank(2, 2), rank(1, 2), rank(2, 3)]);
        assert_eq!((waits.number(), waits.waiting().0, places(&waits)), (Some(2), vec![1], vec![]));
        let text = waits.to_string();
        assert!(text.contains("all ranks have called it, and rank 1 has not ended it"), "{text}");
    }

    #[test]
    fn a_group_in_which_nobody_waits_and_one_that_is_over_say_so() {
        let idle = waits(vec![rank(2, 2), rank(1, 1)]);
        assert_eq!(idle.to_string(), "group 3 \"train\": no rank waits in a collective");
        let mut over = waits(vec![rank(1, 2)]);
        over.group.summary.state =
            GroupState::Failed(GroupFailure { node: "leaf".into(), reason: "no answer".into() });
        assert_eq!(over.to_string(), "group 3 \"train\" is over: node \"leaf\": no answer");
    }
}
