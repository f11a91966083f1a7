//! Values that are kept once and go by number.

use core::hash::{BuildHasher, Hash};
use foldhash::quality::FixedState;
use indexmap::IndexSet;

/// A number that stands for a value.
pub(crate) type Id = u32;

/// Values by number, in the order in which they came.
pub(crate) struct Interned<T> {
    values: IndexSet<T, FixedState>,
}

impl<T: Eq + Hash> Interned<T> {
    pub(crate) fn new() -> Self {
        Self { values: IndexSet::with_hasher(FixedState::with_seed(0)) }
    }

    /// The number of `value`, and whether it is a new one.
    pub(crate) fn intern(&mut self, value: T) -> (Id, bool) {
        let (index, new) = self.values.insert_full(value);
        (Id::try_from(index).expect("fewer than 2^32 values"), new)
    }

    /// The number of `value`, if it has one.
    pub(crate) fn find(&self, value: &T) -> Option<Id> {
        self.values.get_index_of(value).map(|index| index as Id)
    }

    pub(crate) fn get(&self, id: Id) -> &T {
        &self.values[id as usize]
    }
}

/// A 64-bit hash of a value, the same in every run.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    // Another seed than the sets', or values of one bucket would have like fingerprints.
    FixedState::with_seed(0x51_7c_c1).hash_one(value)
}
