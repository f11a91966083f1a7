//! Questions to the nodes of a group, or of a run over paths, that somebody waits for the answers of.

use quincunx_collective::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Who asks no later than this after another has the same answers.
const TOGETHER: Duration = Duration::from_millis(50);

/// Something that ranks are asked.
#[derive(Debug)]
struct Question<A, K> {
    of: K,
    begun: Instant,
    /// By node, each with when it came.
    answers: BTreeMap<String, (A, Instant)>,
    /// Who waits.
    askers: usize,
}

/// What nodes have answered, each with when that came; and when they were asked.
pub(crate) type Answers<A> = (BTreeMap<String, (A, Instant)>, Instant);

/// All that are asked now, each of a group or a run. A node's word is an answer to every question of that.
#[derive(Debug)]
pub(crate) struct Questions<A, K = GroupId> {
    next: u64,
    open: BTreeMap<u64, Question<A, K>>,
    /// Hears of each answer.
    pub(crate) told: Arc<Notify>,
}

impl<A, K> Default for Questions<A, K> {
    fn default() -> Self {
        Self { next: 0, open: BTreeMap::new(), told: Arc::default() }
    }
}

impl<A: Clone, K: Copy + Eq> Questions<A, K> {
    /// Begins one, or joins in one that has just begun; whether ranks are to be asked.
    pub(crate) fn begin(&mut self, of: K, now: Instant) -> (u64, bool) {
        let is_new = |begun: Instant| now.saturating_duration_since(begun) <= TOGETHER;
        let mut open = self.open.iter_mut();
        if let Some((&number, question)) = open.find(|(_, asked)| asked.of == of && is_new(asked.begun)) {
            question.askers += 1;
            return (number, false);
        }
        self.next += 1;
        self.open.insert(self.next, Question { of, begun: now, answers: BTreeMap::new(), askers: 1 });
        (self.next, true)
    }

    /// A node has told something.
    pub(crate) fn hear(&mut self, node: &str, of: K, answer: A) {
        let now = Instant::now();
        for question in self.open.values_mut().filter(|asked| asked.of == of) {
            question.answers.entry(node.to_owned()).or_insert((answer.clone(), now));
        }
        self.told.notify_waiters();
    }

    /// How many have answered.
    pub(crate) fn count(&self, question: u64) -> usize {
        self.open.get(&question).map_or(0, |question| question.answers.len())
    }

    /// What has been answered; nothing to what is not asked.
    pub(crate) fn answers(&self, question: u64) -> Option<Answers<A>> {
        self.open.get(&question).map(|question| (question.answers.clone(), question.begun))
    }

    /// Somebody does not wait any more.
    pub(crate) fn end(&mut self, question: u64) {
        if let Some(open) = self.open.get_mut(&question) {
            open.askers -= 1;
            if open.askers == 0 {
                self.open.remove(&question);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_a_moment_after_another_has_the_same_answers_and_ranks_are_asked_once() {
        let (mut questions, now) = (Questions::default(), Instant::now());
        let (train, other) = (GroupId(1), GroupId(2));
        let (first, is_asked) = questions.begin(train, now);
        assert!(is_asked);
        assert_eq!(questions.begin(train, now + TOGETHER), (first, false));
        assert!(questions.begin(other, now).1, "another group");
        questions.hear("host-0", train, 7);
        questions.hear("host-0", train, 8);
        questions.end(first);
        let (answers, asked) = questions.answers(first).expect("the second still waits");
        assert_eq!((answers["host-0"].0, answers.len(), asked), (7, 1, now));
        let (late, is_asked) = questions.begin(train, now + 2 * TOGETHER);
        assert!(is_asked && questions.count(late) == 0);
        questions.end(first);
        assert!(questions.answers(first).is_none());
    }
}
