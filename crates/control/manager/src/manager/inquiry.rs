//! Whether the ranks of a group agree. A rank whose collective does not come to its end tells what it has called, and the others are asked.
//! If two of them have called different collectives under one number, the group is over, with an error that names the two. So it is before
//! a group is taken to be broken: a peer that does not answer, a message that is too long, a wrong checksum may come of that alone.

use super::Manager;
use super::action::{Action, Instruction, ManagerTimer};
use super::managed::State;
use crate::GroupFailure;
use crate::calls::{Call, disagreement};
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::Demand;
use quincunx_units::Duration;

/// How long ranks have to say what they have called. A rank that answers its peers does so within milliseconds.
const ANSWERS: Duration = Duration::from_millis(500);

/// How long the others have once two are known to differ: who is at fault shows when all have answered.
const OTHERS: Duration = Duration::from_millis(20);

impl Manager {
    /// Whether ranks of a group have to agree on something, and can be asked.
    fn can_inquire(&self, group: GroupId) -> bool {
        let entry = &self.groups[&group];
        let writes = matches!(entry.request.demand, Demand::Writes { .. });
        entry.state == State::Ready && entry.request.members.len() > 1 && !writes
    }

    /// A node says that a group is broken. That is its end, or it is made anew, if its ranks agree.
    pub(super) fn doubt(
        &mut self,
        group: GroupId,
        failure: GroupFailure,
        is_corrupted: bool,
        out: &mut Vec<Action>,
    ) {
        if !self.can_inquire(group) {
            return self.break_group(group, failure, is_corrupted, out);
        }
        let inquiry = self.inquiries.entry(group).or_default();
        // The first word counts, but that nobody knows which results were wrong goes before all others.
        if inquiry.failure.as_ref().is_none_or(|(_, was_corrupted)| is_corrupted && !was_corrupted) {
            inquiry.failure = Some((failure, is_corrupted));
        }
        self.ask(group, |_| true, out);
        self.judge(group, out);
    }

    fn break_group(
        &mut self,
        group: GroupId,
        failure: GroupFailure,
        is_corrupted: bool,
        out: &mut Vec<Action>,
    ) {
        match is_corrupted {
            true => self.fail(group, failure, out),
            // The fault is somewhere on the way to a neighbour: another tree might lead over it again.
            false => self.lose_part(group, failure, true, out),
        }
    }

    /// A rank tells what it has called last. One that is stalled has others asked who have not told of its last call.
    pub(super) fn hear_calls(
        &mut self,
        node: &str,
        group: GroupId,
        (calls, is_stalled): (Vec<Call>, bool),
        out: &mut Vec<Action>,
    ) {
        let members = &self.groups[&group].request.members;
        let rank = members.iter().position(|member| member == node);
        let Some(rank) = rank.filter(|_| self.can_inquire(group)) else { return };
        let newest = |calls: &Vec<Call>| calls.iter().map(|call| call.number).max();
        let last = newest(&calls);
        let inquiry = self.inquiries.entry(group).or_default();
        let waited = !inquiry.asked.is_empty();
        inquiry.asked.remove(&(rank as u16));
        inquiry.compare(&calls);
        inquiry.calls.insert(rank as u16, calls);
        if waited && inquiry.asked.is_empty() {
            out.push(Action::CancelTimer { timer: ManagerTimer::Inquiry(group) });
        }
        if is_stalled {
            self.ask(group, |known| known.and_then(newest) < last, out);
        }
        self.judge(group, out);
    }

    /// Asks ranks of a group what they have called, of whom as much is known.
    fn ask(&mut self, group: GroupId, is_asked: impl Fn(Option<&Vec<Call>>) -> bool, out: &mut Vec<Action>) {
        let (entry, inquiry) = (&self.groups[&group], self.inquiries.entry(group).or_default());
        let waited = !inquiry.asked.is_empty();
        for (rank, node) in (0..).zip(&entry.request.members) {
            let is_there = !entry.away.contains_key(node);
            if is_there && is_asked(inquiry.calls.get(&rank)) && inquiry.asked.insert(rank) {
                out.push(Action::Instruct { node: node.clone(), instruction: Instruction::TellCalls(group) });
            }
        }
        if !waited && !inquiry.asked.is_empty() {
            let (timer, after) = (ManagerTimer::Inquiry(group), ANSWERS);
            out.push(Action::SetTimer { timer, after });
        }
    }

    /// Says what becomes of a group, once enough is known.
    fn judge(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let members: &[String] = &self.groups[&group].request.members;
        let Some(inquiry) = self.inquiries.get_mut(&group) else { return };
        let is_complete = inquiry.asked.is_empty();
        let found = inquiry.differ.then(|| disagreement(group, members, &inquiry.calls)).flatten();
        inquiry.differ = found.is_some();
        match found {
            Some(failure) if is_complete => self.fail(group, failure, out),
            Some(_) if !inquiry.is_hurried => {
                inquiry.is_hurried = true;
                let (timer, after) = (ManagerTimer::Inquiry(group), OTHERS);
                out.push(Action::SetTimer { timer, after });
            }
            None if is_complete => {
                if let Some((failure, is_corrupted)) = inquiry.failure.take() {
                    self.break_group(group, failure, is_corrupted, out);
                }
            }
            Some(_) | None => {}
        }
    }

    /// Who has not answered by now is not waited for.
    pub(super) fn inquiry_timeout(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let Some(inquiry) = self.inquiries.get_mut(&group) else { return };
        inquiry.asked.clear();
        self.judge(group, out);
    }

    /// A group is over, or is to be made anew: nobody is asked any more.
    pub(super) fn end_inquiry(&mut self, group: GroupId, out: &mut Vec<Action>) {
        if self.inquiries.remove(&group).is_some_and(|inquiry| !inquiry.asked.is_empty()) {
            out.push(Action::CancelTimer { timer: ManagerTimer::Inquiry(group) });
        }
    }

    /// Panics if ranks are asked of a group that cannot answer.
    pub(super) fn assert_inquiries(&self) {
        for (&group, inquiry) in &self.inquiries {
            let entry = self.groups.get(&group);
            assert!(entry.is_some_and(|entry| entry.state == State::Ready), "group {group} is asked in vain");
            let ranks = entry.map_or(0, |entry| entry.request.members.len());
            let known = |rank: &u16| usize::from(*rank) < ranks;
            assert!(inquiry.asked.iter().all(known), "a stranger to group {group} is asked");
            let waits = inquiry.failure.is_none() || !inquiry.asked.is_empty();
            assert!(waits, "group {group} is broken, and nobody is asked");
        }
    }
}
