//! Whom everybody in a group waits for.

use crate::status::GroupStatus;
use quincunx_collective::GroupId;
use quincunx_control::{AwaitedMessage, Call, GroupState, Standing};
use quincunx_units::Duration;
use std::fmt;

/// How the manager reaches a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Whether there is a connection.
    pub is_attached: bool,
    /// Whether its machine has acknowledged the question; none if nobody knows.
    pub is_reached: Option<bool>,
}

/// How a rank stands in its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankStanding {
    /// How its node is reached.
    pub connection: Connection,
    /// What it has called last, and how far it has come; none if it does not answer.
    pub answer: Option<(Vec<Call>, Standing)>,
    /// What it waits for in another group, if it has not called what others wait for in this one.
    pub elsewhere: Option<Elsewhere>,
}

/// A collective of another group that a rank is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The group's number.
    pub group: GroupId,
    /// Its name; empty: it has none.
    pub name: String,
    /// What the rank waits in there.
    pub what: Waited,
    /// Since when it waits.
    pub waits: Duration,
    /// Nodes that it waits for there; none if nobody knows.
    pub whom: Vec<String>,
}

/// What a rank waits in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waited {
    /// A collective.
    Call(Call),
    /// A message that is to come.
    Message(AwaitedMessage),
}

/// What the ranks of a group have answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Which.
    pub group: GroupStatus,
    /// In rank order.
    pub ranks: Vec<RankStanding>,
    /// Switches of the group that do not answer.
    pub silent_switches: Vec<(String, Connection)>,
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
        /// Where else it waits, if it does.
        elsewhere: Option<&'a Elsewhere>,
    },
}

impl Connection {
    /// Why a node does not answer.
    fn reason(self) -> Reason<'static> {
        match (self.is_attached, self.is_reached) {
            (false, _) => Reason::Gone,
            (true, Some(true)) => Reason::Stopped,
            (true, Some(false)) => Reason::CutOff,
            (true, None) => Reason::Silent,
        }
    }
}

impl RankStanding {
    /// Of one that answers.
    pub fn answering(answer: (Vec<Call>, Standing)) -> Self {
        let connection = Connection { is_attached: true, is_reached: Some(true) };
        Self { connection, answer: Some(answer), elsewhere: None }
    }

    /// Of one that does not.
    pub const fn silent(connection: Connection) -> Self {
        Self { connection, answer: None, elsewhere: None }
    }

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

    /// What it waits for longest of what others send it, if it waits for something.
    fn message(&self) -> Option<&AwaitedMessage> {
        self.answer.as_ref().and_then(|(_, standing)| standing.message.as_ref())
    }

    /// Why it is waited for by those who are in a call of that number.
    fn reason(&self, number: Option<u64>) -> Option<Reason<'_>> {
        let Some((calls, standing)) = &self.answer else {
            return Some(self.connection.reason());
        };
        // Whoever is behind has ended all of its own: the number is the first that somebody is in.
        (self.called() < number).then_some(Reason::NotCalled {
            last: calls.last(),
            idle: standing.idle,
            elsewhere: self.elsewhere.as_ref(),
        })
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

    /// Nodes of ranks that have not called it.
    pub(crate) fn late_nodes(&self) -> Vec<String> {
        let late =
            self.waited_for().into_iter().filter(|(_, reason)| matches!(reason, Reason::NotCalled { .. }));
        late.map(|(rank, _)| self.group.summary.members[usize::from(rank)].clone()).collect()
    }

    /// Notes of such ranks what they wait for in another group.
    pub(crate) fn add_elsewhere(&mut self, other: &Self) {
        let late = self.late_nodes();
        let GroupStatus { summary, name, .. } = &other.group;
        let number = other.number();
        for (node, rank) in summary.members.iter().zip(&other.ranks).filter(|(node, _)| late.contains(node)) {
            let name = name.clone();
            let named = |ranks: Vec<u16>| {
                let node = |rank: u16| summary.members.get(usize::from(rank)).cloned();
                ranks.into_iter().filter_map(node).collect()
            };
            let group = summary.group;
            let elsewhere = if let Some(in_call) = rank.in_call() {
                let (Some(call), Some((_, standing))) = (rank.call(in_call).cloned(), &rank.answer) else {
                    continue;
                };
                let whom = other.waited_for().into_iter().filter(|_| number == Some(in_call));
                let whom = named(whom.map(|(rank, _)| rank).collect());
                Elsewhere { group, name, what: Waited::Call(call), waits: standing.idle, whom }
            } else if let Some(message) = rank.message() {
                let whom = named(message.from.into_iter().collect());
                Elsewhere { group, name, what: Waited::Message(message.clone()), waits: message.waits, whom }
            } else {
                continue;
            };
            let place = self.group.summary.members.iter().position(|member| member == node);
            if let Some(rank) = place.map(|place| &mut self.ranks[place]) {
                rank.elsewhere.get_or_insert(elsewhere);
            }
        }
    }

    /// Ranks that wait for what others send them, each with what it is.
    pub fn messages(&self) -> impl Iterator<Item = (u16, &AwaitedMessage)> {
        (0..).zip(&self.ranks).filter_map(|(place, rank)| Some((place, rank.message()?)))
    }

    /// Switches that are waited for, each with the reason.
    pub fn silent_switches(&self) -> impl Iterator<Item = (&str, Reason<'static>)> {
        self.silent_switches.iter().map(|(node, connection)| (node.as_str(), connection.reason()))
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
            None if self.messages().next().is_none() => write!(f, "{title}: no rank waits in a collective")?,
            None => {
                write!(
                    f,
                    "{title}: {} of {} ranks wait for what others send",
                    self.messages().count(),
                    self.ranks.len()
                )?;
            }
            Some(call) => {
                let (count, ranks, seconds) = (waiting.len(), self.ranks.len(), longest.as_secs_f64());
                write!(
                    f,
                    "{call} (number {} of {title}): {count} of {ranks} ranks wait, the first for {seconds:.1} s",
                    call.number
                )?;
                if waited_for.is_empty() && self.silent_switches.is_empty() {
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
        for (rank, message) in self.messages() {
            let (node, seconds) = (&summary.members[usize::from(rank)], message.waits.as_secs_f64());
            write!(f, "\n  rank {rank} ({node}) waits in {message}, since {seconds:.1} s")?;
        }
        for (rank, reason) in waited_for {
            let node = &summary.members[usize::from(rank)];
            write!(f, "\n  rank {rank} ({node}) {reason}")?;
        }
        self.silent_switches().try_for_each(|(node, reason)| write!(f, "\n  switch {node} {reason}"))
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
            Self::NotCalled { last, idle, elsewhere } => {
                match last {
                    None => f.write_str("has called nothing yet")?,
                    Some(call) => {
                        let (number, seconds) = (call.number, idle.as_secs_f64());
                        write!(f, "has not called it: its last, {call} (number {number}), ended {seconds:.1} s ago")?;
                    }
                }
                match elsewhere {
                    Some(elsewhere) => write!(f, "; {elsewhere}"),
                    None if last.is_none() => Ok(()),
                    None => f.write_str("; it computes, or waits for something else"),
                }
            }
        }
    }
}

/// `it waits in barrier (number 2 of group 4 "pipeline") for "host-0", for 1.2 s`.
impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, name, what, waits, whom } = self;
        let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        match what {
            Waited::Call(call) => {
                write!(f, "it waits in {call} (number {} of group {group}{name})", call.number)?
            }
            Waited::Message(message) => write!(f, "it waits in {message}")?,
        }
        if !whom.is_empty() {
            let names: Vec<String> = whom.iter().take(3).map(|node| format!("\"{node}\"")).collect();
            let more = if whom.len() > 3 { format!(" and {} more", whom.len() - 3) } else { String::new() };
            write!(f, " for {}{more}", names.join(", "))?;
        }
        write!(f, ", since {:.1} s", waits.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::{Collective, DataType, ReduceOp};
    use quincunx_control::GroupFailure;

    /// A rank that has ended so many of so many calls.
    fn rank(complete: u64, called: u64) -> RankStanding {
        let call =
            |number| Call::new(number, Collective::AllReduce, (ReduceOp::Sum.into(), DataType::F32), 64);
        let idle = Duration::from_millis(1500);
        let answer = ((1..=called).map(call).collect(), Standing { complete, idle, message: None });
        RankStanding::answering(answer)
    }

    fn waits(ranks: Vec<RankStanding>) -> Waits {
        Waits { group: GroupStatus::ready(ranks.len()), ranks, silent_switches: Vec::new() }
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
             waits for something else\n  rank 3 (host-3) has called nothing yet"
        );
    }

    #[test]
    fn of_several_calls_under_way_the_oldest_is_waited_in() {
        let waits = waits(vec![rank(1, 3), rank(1, 1)]);
        assert_eq!((waits.number(), waits.waiting().0, places(&waits)), (Some(2), vec![0], vec![1]));
    }

    #[test]
    fn two_groups_that_are_called_in_opposite_order_are_both_named() {
        let mut first = waits(vec![rank(1, 2), rank(1, 1)]);
        let mut second = waits(vec![rank(0, 0), rank(0, 1)]);
        (second.group.summary.group, second.group.name) = (GroupId(4), String::new());
        first.add_elsewhere(&second);
        let text = first.to_string();
        let other = "; it waits in all_reduce of 64 bytes, sum of f32 (number 1 of group 4) for \"host-0\", since 1.5 s";
        assert!(
            text.contains("rank 1 (host-1) has not called it: its last, ") && text.ends_with(other),
            "{text}"
        );
        second.add_elsewhere(&first);
        assert!(second.to_string().contains("of group 3 \"train\") for \"host-1\""), "{second}");
    }

    #[test]
    fn who_is_stopped_cut_off_and_gone_are_three_things() {
        let silent = |is_attached, is_reached| RankStanding::silent(Connection { is_attached, is_reached });
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
    fn a_message_that_is_waited_for_is_named_here_and_for_those_who_wait_elsewhere() {
        let (mut sums, mut messages) =
            (waits(vec![rank(1, 2), rank(1, 1)]), waits(vec![rank(0, 0), rank(0, 0)]));
        let message = AwaitedMessage {
            operation: "receive".into(),
            from: Some(0),
            tag: Some(7),
            waits: Duration::from_millis(2500),
            place: None,
        };
        messages.group.summary.group = GroupId(4);
        messages.ranks[1].answer.as_mut().unwrap().1.message = Some(message);
        let line = "rank 1 (host-1) waits in receive from rank 0 with tag 7, since 2.5 s";
        assert_eq!(
            messages.to_string(),
            format!("group 4 \"train\": 1 of 2 ranks wait for what others send\n  {line}")
        );
        sums.add_elsewhere(&messages);
        let text = sums.to_string();
        assert!(
            text.ends_with("; it waits in receive from rank 0 with tag 7 for \"host-0\", since 2.5 s"),
            "{text}"
        );
    }

    #[test]
    fn a_switch_that_is_silent_is_waited_for_when_all_ranks_have_called() {
        let mut waits = waits(vec![rank(1, 2), rank(1, 2)]);
        let stopped = Connection { is_attached: true, is_reached: Some(true) };
        waits.silent_switches = vec![("leaf".into(), stopped)];
        let text = waits.to_string();
        assert!(text.ends_with(": 2 of 2 ranks wait, the first for 1.5 s\n  switch leaf does not answer, though its machine takes what is sent to it: its process is stopped (a debugger, swap)"), "{text}");
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
