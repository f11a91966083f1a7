//! Packets that have come before one that comes before them.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use quincunx_collective::Payload;
use quincunx_engine::{Frame, Sparse};
use quincunx_wire::RoceHeader;

/// Packets by count. Memory that held one's payload holds another's of the same length, which nearly all have.
#[derive(Clone, Debug)]
pub(crate) struct Early<P> {
    packets: Sparse<(RoceHeader, P)>,
    spare: Vec<P>,
}

/// Spare memory is no state.
impl<P: PartialEq> PartialEq for Early<P> {
    fn eq(&self, other: &Self) -> bool {
        self.packets == other.packets
    }
}

impl<P: Eq> Eq for Early<P> {}

impl<P: Hash> Hash for Early<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.packets.hash(state);
    }
}

impl<P> Default for Early<P> {
    fn default() -> Self {
        Self { packets: Sparse::default(), spare: Vec::new() }
    }
}

impl<P: Payload> Early<P> {
    pub(crate) fn keep(&mut self, count: u64, frame: Frame<'_, RoceHeader, P>) {
        let length = P::view_length(frame.payload);
        let payload = match self.spare.iter().rposition(|spare| spare.length() == length) {
            Some(place) => {
                let mut payload = self.spare.swap_remove(place);
                payload.write(0, frame.payload);
                payload
            }
            None => P::from_view(frame.payload),
        };
        self.packets.insert(count, (*frame.header, payload));
    }

    /// Takes packet `count`; its memory is to be given back.
    pub(crate) fn take(&mut self, count: u64) -> Option<(RoceHeader, P)> {
        self.packets.remove(count)
    }

    pub(crate) fn give_back(&mut self, payload: P) {
        // As many as were ever kept at once, and some.
        if payload.length() > 0 && self.spare.len() < self.packets.capacity() {
            self.spare.push(payload);
        }
    }

    /// Whether packet `count` was kept, which it is no longer.
    pub(crate) fn forget(&mut self, count: u64) -> bool {
        let packet = self.packets.remove(count);
        let was_kept = packet.is_some();
        packet.into_iter().for_each(|(_, payload)| self.give_back(payload));
        was_kept
    }

    pub(crate) fn forget_before(&mut self, count: u64) {
        while let Some((_, (_, payload))) = self.packets.pop_before(count) {
            self.give_back(payload);
        }
    }

    pub(crate) fn contains(&self, count: u64) -> bool {
        self.packets.contains(count)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.packets.numbers()
    }

    pub(crate) fn clear(&mut self) {
        self.packets.clear();
    }
}
