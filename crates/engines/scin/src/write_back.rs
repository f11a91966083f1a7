//! Results on their way back: what the accumulator has given and destinations have not answered for yet (SCIN 3.4).

use crate::wave::Wave;
use alloc::vec::Vec;
use quincunx_collective::Payload;

/// A result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WriteBack<P> {
    /// What it is the result of.
    pub(crate) wave: Wave,
    /// Write responses that have not come.
    pub(crate) unanswered: u32,
    /// The buffer; it may be longer than the wave.
    pub(crate) data: P,
}

/// Places for results. Their number is bounded by what tags can name; they are made as they are needed and kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WriteBacks<P> {
    places: Vec<WriteBack<P>>,
    free: Vec<u16>,
    limit: usize,
    buffer: usize,
}

impl<P: Payload> WriteBacks<P> {
    /// At most `limit` places of `buffer` bytes.
    pub(crate) const fn new(limit: usize, buffer: usize) -> Self {
        Self { places: Vec::new(), free: Vec::new(), limit, buffer }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.places.len() < self.limit
    }

    /// Takes a place, whose buffer `fill` fills with the result of the wave that it returns, to be answered by `answers` packets.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn put(
        &mut self,
        fill: impl FnOnce(&mut P) -> Wave,
        answers: impl FnOnce(&Wave) -> u32,
    ) -> u16 {
        let place = self.free.pop().unwrap_or_else(|| {
            assert!(self.places.len() < self.limit, "room for a result");
            let data = P::zeroed(self.buffer);
            self.places.push(WriteBack { wave: Wave::NONE, unanswered: 0, data });
            self.places.len() as u16 - 1
        });
        let result = &mut self.places[usize::from(place)];
        result.wave = fill(&mut result.data);
        result.unanswered = answers(&result.wave);
        place
    }

    /// A result.
    ///
    /// # Panics
    /// If the place has never been used.
    pub(crate) fn get(&self, place: u16) -> &WriteBack<P> {
        &self.places[usize::from(place)]
    }

    /// Counts a write response. The wave, if that was the last one, whose place is free now; an error if none was missing.
    pub(crate) fn answer(&mut self, place: usize) -> Result<Option<Wave>, ()> {
        let result = self.places.get_mut(place).ok_or(())?;
        result.unanswered = result.unanswered.checked_sub(1).ok_or(())?;
        if result.unanswered > 0 {
            return Ok(None);
        }
        self.free.push(place as u16);
        Ok(Some(result.wave))
    }

    pub(crate) fn assert_invariants(&self) {
        let busy = self.places.iter().filter(|result| result.unanswered > 0).count();
        assert_eq!(busy + self.free.len(), self.places.len(), "a place is free or awaits answers");
    }
}
