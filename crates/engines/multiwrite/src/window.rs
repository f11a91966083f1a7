//! The memory that writes land in: slots for each source, in the same places at every node.

use core::ops::Range;
use quincunx_collective::Rank;
use quincunx_engine::verbs::{RegionId, Slice};
use quincunx_wire::multiwrite::bitmap_length;

/// The window's key at every node: it is registered before anything else.
pub(crate) const KEY: RegionId = RegionId(0);

/// How the window of a group is laid out.
///
/// ```text
/// source 0, slot 0 | source 0, slot 1 | ... | source 1, slot 0 | ...
/// a slot: bitmap, in groups that need one in the payload | data
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    ranks: u16,
    slots: usize,
    /// Bytes of data that a slot holds.
    pub data: usize,
}

/// Where in the window something has landed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Landed {
    pub(crate) source: Rank,
    pub(crate) slot: usize,
    /// Whether a bitmap lies before the data.
    pub(crate) has_bitmap: bool,
    pub(crate) data: Slice,
}

impl Window {
    /// A window with `slots` slots of `data` bytes for each of `ranks` sources.
    pub const fn new(ranks: u16, slots: usize, data: usize) -> Self {
        Self { ranks, slots, data }
    }

    /// Slots of a source.
    pub const fn slots(&self) -> usize {
        self.slots
    }

    pub(crate) const fn bitmap(&self) -> usize {
        bitmap_length(self.ranks)
    }

    const fn stride(&self) -> usize {
        self.bitmap() + self.data
    }

    /// Bytes of all of it.
    pub const fn length(&self) -> usize {
        self.ranks as usize * self.slots * self.stride()
    }

    /// Where a slot begins.
    pub(crate) fn offset(&self, source: Rank, slot: usize) -> usize {
        (source.index() * self.slots + slot) * self.stride()
    }

    /// The data of a slot.
    pub(crate) fn data(&self, source: Rank, slot: usize, range: Range<usize>) -> Slice {
        let offset = self.offset(source, slot) + self.bitmap() + range.start;
        Slice { region: KEY, offset, length: range.len() }
    }

    /// What a peer has written, if it is one slot's data, or bitmap and data.
    pub(crate) fn landed(&self, target: Slice, has_bitmap: bool) -> Option<Landed> {
        let (head, stride) = (if has_bitmap { self.bitmap() } else { 0 }, self.stride());
        let place = target.offset.checked_sub(self.bitmap() - head)?;
        let index = place / stride;
        let source = Rank(u16::try_from(index / self.slots).ok()?);
        let length = target.length.checked_sub(head)?;
        if target.region != KEY
            || !place.is_multiple_of(stride)
            || source.0 >= self.ranks
            || length > self.data
        {
            return None;
        }
        let slot = index % self.slots;
        Some(Landed { source, slot, has_bitmap, data: self.data(source, slot, 0..length) })
    }
}
