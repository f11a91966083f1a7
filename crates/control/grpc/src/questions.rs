//! Questions to the ranks of a group that somebody waits for the answers of: what they have called, and how far they have come.

use quincunx_collective::GroupId;
use quincunx_control::{Call, Standing};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a rank has answered.
pub(crate) type Answer = (Vec<Call>, Standing);

/// All that are asked now. A rank's word is an answer to every question about its group.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    next: u64,
    open: BTreeMap<u64, (GroupId, BTreeMap<String, Answer>)>,
    /// Hears of each answer.
    pub(crate) told: Arc<Notify>,
}

impl Questions {
    /// Begins one.
    pub(crate) fn begin(&mut self, group: GroupId) -> u64 {
        self.next += 1;
        self.open.insert(self.next, (group, BTreeMap::new()));
        self.next
    }

    /// A node has told something of a group.
    pub(crate) fn hear(&mut self, node: &str, group: GroupId, answer: &Answer) {
        for (_, answers) in self.open.values_mut().filter(|(asked, _)| *asked == group) {
            answers.insert(node.to_owned(), answer.clone());
        }
        self.told.notify_waiters();
    }

    /// How many have answered.
    pub(crate) fn count(&self, question: u64) -> usize {
        self.open.get(&question).map_or(0, |(_, answers)| answers.len())
    }

    /// Ends one: what has been answered, by node.
    pub(crate) fn end(&mut self, question: u64) -> BTreeMap<String, Answer> {
        self.open.remove(&question).map(|(_, answers)| answers).unwrap_or_default()
    }
}
