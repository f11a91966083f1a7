//! Writes of the application's own, to one rank or several (MultiWrite 4.3.2), with nothing above them.
//!
//! The application's data is copied to this rank's own slot of the window, and goes from there; so its buffer is its own again at once.
//! A write has ended when every destination has said that it has the data: then a relay that died with it in its hands is not taken
//! for one that passed it on. A destination says so by a write without data, to a slot that the source keeps for that beside the one
//! that was written to, by way of its own table, relays among them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::{Alarm, Completion, Failure, Outcome, Program, QpIndex, Slice, Verbs, WorkId};
use quincunx_engine::writes::{Notice, OneSided, Target, WriteError};
use quincunx_units::Instant;

use crate::mutation::Mutation;
use crate::relaying::Relaying;
use crate::window::{KEY, Window};
use crate::writer::{Delivery, Write, Writer, WriterConfig};

/// A write that has not ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pending {
    id: WorkId,
    /// All that it was for.
    slots: Vec<usize>,
    /// Those who have not said that they have it.
    missing: Vec<Target>,
}

/// A rank that writes, receives, and relays for others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Writes {
    writer: Writer,
    /// Slots for data; behind them are as many for what is said of them.
    slots: usize,
    pending: Vec<Pending>,
    notices: VecDeque<Notice>,
    has_failed: bool,
}

impl Writes {
    /// A rank before its first write, with the slots that `config` has.
    pub fn new(config: WriterConfig) -> Self {
        let Window { data, .. } = config.window;
        let slots = config.window.slots();
        let window = Window::new(config.table.ranks(), 2 * slots, data);
        let writer = Writer::new(WriterConfig { window, ..config });
        Self { writer, slots, pending: Vec::new(), notices: VecDeque::new(), has_failed: false }
    }

    /// Breaks a rule from here on, so that the checker can show that it would notice. To be called before the first write.
    pub fn break_rule(&mut self, mutation: Mutation) {
        self.writer.break_rule(mutation);
    }

    /// Takes a destination's acknowledgement of the write to its `slot`. Returns whether the protocol allows it.
    fn hear(&mut self, from: Rank, slot: usize) -> bool {
        let said = Target { rank: from, slot };
        let Some(index) = self.pending.iter().position(|pending| pending.missing.contains(&said)) else {
            return false;
        };
        self.pending[index].missing.retain(|missing| *missing != said);
        if self.pending[index].missing.is_empty() {
            let Pending { id, .. } = self.pending.remove(index);
            self.notices.push_back(Notice::Written { id });
        }
        true
    }
}

impl<P: Payload> Relaying<P> for Writes {
    fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Option<Outcome> {
        self.has_failed = true;
        self.pending.clear();
        self.notices.clear();
        Some(Outcome::Failed { qp, failure })
    }

    fn handle_sent(&mut self, id: WorkId, verbs: &mut dyn Verbs<P>) {
        self.writer.handle_sent(id, verbs);
    }

    /// Takes data, which it acknowledges, or a destination's acknowledgement. Returns whether the protocol allows it.
    fn deliver(&mut self, delivery: Delivery, verbs: &mut dyn Verbs<P>) -> bool {
        let Delivery { source, slot, data } = delivery;
        if slot >= self.slots {
            return data.length == 0 && self.hear(source, slot - self.slots);
        }
        self.notices.push_back(Notice::Delivered { source, slot, data });
        let nothing = Slice { region: KEY, offset: 0, length: 0 };
        let targets = [Target { rank: source, slot: self.slots + slot }];
        // Whoever can be reached from a rank but cannot be answered has another table than the others.
        self.writer.write(&Write { targets: &targets, source: nothing, way: 0 }, verbs).is_ok()
    }
}

impl<P: Payload> Program<P> for Writes {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        self.writer.initialise(verbs);
    }

    fn as_one_sided(&mut self) -> Option<&mut dyn OneSided<P>> {
        Some(self)
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        self.relay_completion(qp, completion, verbs)
    }

    fn handle_alarm(&mut self, _: Instant, alarm: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        self.relay_alarm(alarm, verbs)
    }

    fn assert_invariants(&self) {
        self.writer.assert_invariants();
        assert!(self.pending.len() <= self.slots, "a write has a slot of its own");
        for pending in &self.pending {
            assert!(!pending.missing.is_empty(), "a write that everybody has is over");
        }
    }
}

impl<P: Payload> OneSided<P> for Writes {
    fn write(
        &mut self,
        id: WorkId,
        (targets, way): (&[Target], usize),
        data: P::View<'_>,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), WriteError> {
        if self.has_failed {
            return Err(WriteError::GroupFailed);
        }
        let Window { data: limit, .. } = self.writer.window();
        let length = P::view_length(data);
        if length > limit {
            return Err(WriteError::Source { limit, found: length });
        }
        let is_busy = |slot| self.pending.iter().any(|pending| pending.slots.contains(&slot));
        for &Target { slot, .. } in targets {
            if slot >= self.slots {
                return Err(WriteError::NoSlot { slots: self.slots, found: slot });
            }
            if is_busy(slot) {
                return Err(WriteError::Busy { slot });
            }
        }
        let Some(first) = targets.first() else { return Err(WriteError::NoDestination) };
        let source = self.writer.window().data(self.writer.table().rank(), first.slot, 0..length);
        verbs.memory().write(source, data);
        self.writer.write(&Write { targets, source, way }, verbs)?;
        let slots = targets.iter().map(|target| target.slot).collect();
        self.pending.push(Pending { id, slots, missing: targets.to_vec() });
        Ok(())
    }

    fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}
