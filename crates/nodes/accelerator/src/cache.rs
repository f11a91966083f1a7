//! What an accelerator's L2 keeps of the memory of others: whole tiles, of which the one that was used longest ago makes room. Its other
//! contents, weights and its own rows, are not modelled: who sets it up leaves them their share.

use crate::TileId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Tiles that are kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Cache {
    capacity: u64,
    kept: u64,
    uses: u64,
    /// By their last use.
    order: BTreeMap<u64, (TileId, u64)>,
    last_use: BTreeMap<TileId, u64>,
}

impl Cache {
    /// With room for so many bytes.
    pub(crate) const fn new(capacity: u64) -> Self {
        Self { capacity, kept: 0, uses: 0, order: BTreeMap::new(), last_use: BTreeMap::new() }
    }

    /// A tile that is kept is used.
    pub(crate) fn touch(&mut self, tile: TileId) {
        if let Some(used) = self.last_use.get_mut(&tile) {
            let entry = self.order.remove(used).expect("every tile that is kept is in the order");
            self.uses += 1;
            *used = self.uses;
            self.order.insert(self.uses, entry);
        }
    }

    /// A tile has come; those that make room for it are kept no longer. One tile is kept however large it is.
    pub(crate) fn keep(&mut self, tile: TileId, bytes: u64) -> Vec<TileId> {
        self.uses += 1;
        self.kept += bytes;
        self.order.insert(self.uses, (tile, bytes));
        self.last_use.insert(tile, self.uses);
        let mut evicted = Vec::new();
        while self.kept > self.capacity && self.order.len() > 1 {
            let (_, (oldest, bytes)) = self.order.pop_first().expect("there are two");
            self.last_use.remove(&oldest);
            self.kept -= bytes;
            evicted.push(oldest);
        }
        evicted
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(
            self.kept <= self.capacity || self.order.len() == 1,
            "no more is kept than there is room for"
        );
        assert_eq!(self.order.len(), self.last_use.len(), "every tile that is kept has a last use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tile_that_was_used_longest_ago_makes_room() {
        let mut cache = Cache::new(256);
        let [first, second, third] = [0, 1, 2].map(TileId);
        assert!(cache.keep(first, 128).is_empty() && cache.keep(second, 128).is_empty());
        cache.touch(first);
        assert_eq!(cache.keep(third, 128), [second]);
        cache.assert_invariants();
        assert_eq!(cache.keep(second, 256), [first, third]);
        cache.assert_invariants();
    }
}
