//! Wave controllers: each runs the instructions of its queue, in order (SCIN 3.4).

use crate::{Accelerators, Addresses, Instruction};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// An instruction that has begun.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Operation {
    pub(crate) controller: u16,
    pub(crate) instruction: Instruction,
    /// Where the scale factors lie, if it is quantised.
    pub(crate) scales: Option<Addresses>,
    /// Bytes that waves have been made of.
    pub(crate) issued: u32,
    /// Of these, bytes whose results have not been written back everywhere.
    pub(crate) open: u32,
}

impl Operation {
    pub(crate) const fn fully_issued(&self) -> bool {
        self.issued == self.instruction.length
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.fully_issued() && self.open == 0
    }
}

/// The operations of all controllers, under numbers that are used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Operations {
    places: Vec<Option<Operation>>,
}

impl Operations {
    pub(crate) fn put(&mut self, operation: Operation) -> u16 {
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(operation);
        place as u16
    }

    /// # Panics
    /// If there is none of that number; so, too, the next two.
    pub(crate) fn get(&self, place: u16) -> &Operation {
        self.places[usize::from(place)].as_ref().expect("an operation")
    }

    pub(crate) fn get_mut(&mut self, place: u16) -> &mut Operation {
        self.places[usize::from(place)].as_mut().expect("an operation")
    }

    pub(crate) fn take(&mut self, place: u16) -> Operation {
        self.places[usize::from(place)].take().expect("an operation")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.places.iter().flatten()
    }
}

/// One controller: its instructions, and its counter of the barrier manager.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Controller {
    pub(crate) queue: VecDeque<Instruction>,
    /// The operation that waves are made of.
    pub(crate) current: Option<u16>,
    /// Operations that are not over.
    pub(crate) open: u32,
    /// Set when the last instruction of a collective has begun: whom to notify when it and all before it are over.
    /// Nothing begins until then.
    pub(crate) notify: Option<Accelerators>,
    /// The barrier's counter.
    pub(crate) counter: u64,
    /// Notifications so far: what flags are set to.
    pub(crate) notified: u64,
}

impl Controller {
    /// Takes the next instruction if it may begin. The barrier does not wait for `spared` of its participants: none, but for the checker.
    pub(crate) fn next_instruction(&mut self, spared: u32) -> Option<Instruction> {
        if self.current.is_some() || self.notify.is_some() {
            return None;
        }
        let next = self.queue.front()?;
        if next.wait {
            // Poll the barrier; reset it when all have come (SCIN 3.3).
            if self.open > 0 || self.counter < u64::from(next.participants().count() - spared) {
                return None;
            }
            self.counter = 0;
        }
        self.queue.pop_front()
    }
}
