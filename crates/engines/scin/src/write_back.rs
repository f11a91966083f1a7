//! Results on their way back: what the accumulator has given and destinations have not answered for yet (SCIN 3.4).

use crate::wave::{Sum, Wave};
use alloc::vec::Vec;
use quincunx_collective::Payload;

/// A place for a result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct WriteBack<P> {
    sum: Sum<P>,
    /// Write responses that have not come; a place without any is free.
    unanswered: u32,
}

/// Results. Their number is bounded by what tags can name; places are made as they are needed and used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WriteBacks<P> {
    places: Vec<WriteBack<P>>,
    free: Vec<u16>,
    limit: usize,
}

impl<P: Payload> WriteBacks<P> {
    /// At most `limit` places.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { places: Vec::new(), free: Vec::new(), limit }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.places.len() < self.limit
    }

    /// Keeps a result until `answers` write responses have come. Returns its place.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn put(&mut self, sum: Sum<P>, answers: u32) -> u16 {
        let result = WriteBack { sum, unanswered: answers };
        match self.free.pop() {
            Some(place) => {
                self.places[usize::from(place)] = result;
                place
            }
            None => {
                assert!(self.places.len() < self.limit, "room for a result");
                self.places.push(result);
                self.places.len() as u16 - 1
            }
        }
    }

    /// A result.
    ///
    /// # Panics
    /// If the place has never been used.
    pub(crate) fn get(&self, place: u16) -> &Sum<P> {
        &self.places[usize::from(place)].sum
    }

    /// Counts a write response. The wave, if that was the last one, whose place is free now; an error if none was
    /// missing.
    pub(crate) fn answer(&mut self, place: usize) -> Result<Option<Wave>, ()> {
        let result = self.places.get_mut(place).ok_or(())?;
        result.unanswered = result.unanswered.checked_sub(1).ok_or(())?;
        if result.unanswered > 0 {
            return Ok(None);
        }
        self.free.push(place as u16);
        Ok(Some(result.sum.wave))
    }

    pub(crate) fn assert_invariants(&self) {
        let busy = self.places.iter().filter(|result| result.unanswered > 0).count();
        assert_eq!(busy + self.free.len(), self.places.len(), "a place is free or awaits answers");
    }
}
