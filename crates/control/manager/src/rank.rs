//! A rank as the checker drives it: an application that runs collectives of two ranks one after the other, and queue pairs that carry a
//! token each way for each of them. A rank has completed a collective when it has the other's token. Real ranks, in the crate `runtime`,
//! keep their place by the same [`Sequence`].

use crate::mutation::Mutation;
use crate::sequence::{Progress, Sequence};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::{GroupContext, Peer};
use quincunx_engine::PortId;

/// What crosses the fabric for one collective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    /// The generation of the group.
    pub group: GroupId,
    /// The how-manieth on its queue pair.
    pub index: u64,
    /// The collective whose input it has: what no real packet says.
    pub number: u64,
}

/// A generation's queue pair.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RankQueuePair {
    port: PortId,
    sent: u64,
    done: u64,
    /// What has come, by index.
    arrived: BTreeMap<u64, u64>,
}

/// A rank and its application.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RankModel {
    /// Collectives that the application runs.
    wants: u64,
    sequence: Sequence<()>,
    queue_pairs: BTreeMap<GroupId, RankQueuePair>,
    /// The generation that may send.
    current: Option<GroupId>,
    mutation: Option<Mutation>,
}

/// What a step of a rank leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// A token leaves.
    Sent(PortId, Token),
    /// A collective has ended, with the other rank's input of that number; the application is told, or not if it has been run again.
    Ran { number: u64, with: u64, is_told: bool },
}

impl RankModel {
    pub(crate) const fn new(wants: u64, mutation: Option<Mutation>) -> Self {
        Self { wants, sequence: Sequence::new(1), queue_pairs: BTreeMap::new(), current: None, mutation }
    }

    pub(crate) fn install(&mut self, context: &GroupContext) {
        // By way of the switch, or straight to the other rank.
        let by_switch = context.connections.iter().any(|other| matches!(other.peer, Peer::Switch(_)));
        let port = PortId(if by_switch { 1 } else { 2 });
        let queue_pair = RankQueuePair { port, sent: 0, done: 0, arrived: BTreeMap::new() };
        self.queue_pairs.insert(context.group, queue_pair);
    }

    pub(crate) fn begin(&mut self, group: GroupId) {
        self.current = Some(group);
    }

    pub(crate) fn suspend(&mut self, group: GroupId) -> Progress {
        self.remove(group);
        let progress = self.sequence.suspend();
        match self.mutation {
            Some(Mutation::CountsWhatIsUnderWay) => Progress { complete: progress.complete + 1, ..progress },
            _ => progress,
        }
    }

    pub(crate) fn resume(&mut self, group: GroupId, first: u64) {
        if self.current != Some(group) {
            self.current = Some(group);
            let own = self.sequence.completed() + 1;
            let goes_on = self.mutation == Some(Mutation::GoesOnFromItsOwn);
            self.sequence.resume(if goes_on { own } else { first });
        }
    }

    pub(crate) fn remove(&mut self, group: GroupId) {
        self.queue_pairs.remove(&group);
        if self.current == Some(group) {
            self.current = None;
        }
    }

    /// A token comes; what is meant for a generation that is not installed is dropped.
    pub(crate) fn take(&mut self, token: Token) -> bool {
        let Some(queue_pair) = self.queue_pairs.get_mut(&token.group) else { return false };
        queue_pair.arrived.insert(token.index, token.number);
        true
    }

    /// Goes on as far as it can.
    pub(crate) fn advance(&mut self) -> Vec<Moved> {
        let mut moved = Vec::new();
        while let Some(group) = self.current {
            let again = self.sequence.next_repeat().map(|(number, ())| number);
            let own = (self.sequence.completed() < self.wants).then_some(self.sequence.completed() + 1);
            let queue_pair = self.queue_pairs.get_mut(&group).expect("what may send is installed");
            let Some(number) = again.or(own) else { break };
            if queue_pair.sent == queue_pair.done {
                moved.push(Moved::Sent(queue_pair.port, Token { group, index: queue_pair.sent, number }));
                queue_pair.sent += 1;
            }
            let Some(with) = queue_pair.arrived.remove(&queue_pair.done) else { break };
            queue_pair.done += 1;
            moved.push(Moved::Ran { number, with, is_told: again.is_none() });
            match again {
                Some(_) => self.sequence.repeated(),
                None => _ = self.sequence.complete(()),
            }
        }
        moved
    }
}
