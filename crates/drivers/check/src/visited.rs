//! The states that have been seen, by fingerprint, and how each was reached first.

/// Shards that are filled side by side. A power of two.
pub(crate) const SHARDS: usize = 64;

/// A state's number: the place in its shard above the shard's number.
pub(crate) type StateId = u32;

/// The shard of a fingerprint.
pub(crate) fn shard_of(fingerprint: u64) -> usize {
    fingerprint as usize % SHARDS
}

/// The shard of a state, and its place there.
pub(crate) fn place_of(state: StateId) -> (usize, usize) {
    (state as usize % SHARDS, state as usize / SHARDS)
}

/// An open-addressing table of fingerprints. Zero stands for an empty slot; a fingerprint of zero is made one.
pub(crate) struct Shard {
    number: usize,
    fingerprints: Vec<u64>,
    places: Vec<u32>,
    /// For each state, the state from which it was reached first.
    parents: Vec<StateId>,
    /// States of earlier levels, and of the one that is expanded.
    settled: usize,
}

impl Shard {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, fingerprints: vec![0; 64], places: vec![0; 64], parents: Vec::new(), settled: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    /// From here on new states are of the next level.
    pub(crate) fn begin_level(&mut self) {
        self.settled = self.len();
    }

    /// Whether the state at `place` is of the level that is expanded, or of an earlier one.
    pub(crate) fn is_settled(&self, place: usize) -> bool {
        place < self.settled
    }

    pub(crate) fn parent(&self, place: usize) -> StateId {
        self.parents[place]
    }

    /// The state with this fingerprint.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<StateId> {
        self.probe(fingerprint.max(1)).ok().map(|slot| self.id(self.places[slot]))
    }

    /// The state with this fingerprint, and whether it is a new one.
    pub(crate) fn insert(&mut self, fingerprint: u64, parent: StateId) -> (StateId, bool) {
        if (self.len() + 1) * 4 > self.fingerprints.len() * 3 {
            self.grow();
        }
        match self.probe(fingerprint.max(1)) {
            Ok(slot) => (self.id(self.places[slot]), false),
            Err(slot) => {
                let place = u32::try_from(self.len()).ok().filter(|place| *place < u32::MAX / SHARDS as u32);
                let place = place.expect("fewer than 2^32 states");
                self.fingerprints[slot] = fingerprint.max(1);
                self.places[slot] = place;
                self.parents.push(parent);
                (self.id(place), true)
            }
        }
    }

    /// Every fingerprint with its state.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, StateId)> {
        let slots = self.fingerprints.iter().zip(&self.places);
        slots
            .filter(|(fingerprint, _)| **fingerprint != 0)
            .map(|(&fingerprint, &place)| (fingerprint, self.id(place)))
    }

    fn id(&self, place: u32) -> StateId {
        place * SHARDS as u32 + self.number as u32
    }

    /// The slot of a fingerprint, or the empty one where it would go.
    fn probe(&self, fingerprint: u64) -> Result<usize, usize> {
        let mask = self.fingerprints.len() - 1;
        // The low bits have chosen the shard.
        let mut slot = (fingerprint / SHARDS as u64) as usize & mask;
        loop {
            match self.fingerprints[slot] {
                0 => return Err(slot),
                found if found == fingerprint => return Ok(slot),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let size = self.fingerprints.len() * 2;
        let fingerprints = core::mem::replace(&mut self.fingerprints, vec![0; size]);
        let places = core::mem::replace(&mut self.places, vec![0; size]);
        for (fingerprint, place) in fingerprints.into_iter().zip(places) {
            if fingerprint != 0 {
                let slot = self.probe(fingerprint).expect_err("each fingerprint is there once");
                self.fingerprints[slot] = fingerprint;
                self.places[slot] = place;
            }
        }
    }
}

/// The way from the root to `state`, by number.
pub(crate) fn ancestry(shards: &[Shard], root: StateId, state: StateId) -> Vec<StateId> {
    let mut way = vec![state];
    let mut state = state;
    while state != root {
        let (shard, place) = place_of(state);
        state = shards[shard].parent(place);
        way.push(state);
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_one_state_however_often_it_comes() {
        let mut shard = Shard::new(3);
        let ids: Vec<_> = (0..1000u64).map(|n| shard.insert(n * 64 + 3, 7)).collect();
        assert!(ids.iter().all(|(_, new)| *new));
        for (n, (id, _)) in ids.iter().enumerate() {
            assert_eq!(shard.insert(n as u64 * 64 + 3, 8), (*id, false));
            assert_eq!(shard.find(n as u64 * 64 + 3), Some(*id));
            assert_eq!(place_of(*id), (3, n));
        }
        assert_eq!((shard.len(), shard.parent(0), shard.find(1)), (1000, 7, None));
    }
}
