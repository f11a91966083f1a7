//! A switch's memory (EPIC 6.1): groups' transient buffers, payload and degree, are blocks of it, which the groups' contexts point into.
//! Where free memory is in pieces that are too short, blocks are moved together: their groups' pointers change, and nothing else.
//! What a group needs for good, its rows in tables and the states of its endpoints, is counted as queue pairs, apart from this.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_units::ByteCount;

/// Where a group's buffers are: the pointer in its context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Region {
    /// From the start of the memory.
    pub offset: ByteCount,
    /// How long it is: a multiple of the memory's unit.
    pub length: ByteCount,
}

impl Region {
    /// Whether both have a byte in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.offset + other.length && other.offset < self.offset + self.length
    }
}

/// A block, and who has it: one group, or several that use it by turns.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Block {
    units: u64,
    holders: BTreeSet<GroupId>,
}

/// A block that is moved, with what is in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MovedBlock {
    /// Where it was.
    pub from: Region,
    /// Where it begins from now on.
    pub to: ByteCount,
}

/// There is no block of that length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shortage {
    /// What was asked for, in whole units.
    pub needed: ByteCount,
    /// All that nobody has.
    pub free: ByteCount,
    /// The longest piece of it.
    pub longest: ByteCount,
}

/// The memory of one switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchMemory {
    unit: u64,
    units: u64,
    /// By offset in units; they do not overlap, and each has a holder.
    blocks: BTreeMap<u64, Block>,
}

impl SwitchMemory {
    /// Memory of `length` that nobody has, given away in multiples of `unit`; what is left beyond the last multiple is nobody's.
    pub fn new(length: ByteCount, unit: ByteCount) -> Self {
        let unit = unit.bytes().max(1);
        Self { unit, units: length.bytes() / unit, blocks: BTreeMap::new() }
    }

    /// A block of its own for a group: the first piece that is long enough. Nothing is a block of no length.
    ///
    /// # Errors
    /// If there is no such piece; nothing has changed.
    pub fn take(&mut self, group: GroupId, length: ByteCount) -> Result<Region, Shortage> {
        let units = length.bytes().div_ceil(self.unit);
        if units == 0 {
            return Ok(Region { offset: ByteCount::new(0), length: ByteCount::new(0) });
        }
        let Some((offset, _)) = self.gaps().find(|&(_, gap)| gap >= units) else {
            return Err(self.shortage(units));
        };
        self.blocks.insert(offset, Block { units, holders: [group].into() });
        Ok(self.region(offset, units))
    }

    /// A place in a block that its holders use for so much of the time, in any measure, and may with this group; none: they may not. The one that
    /// is used the least, of these one with as few holders as there are, and of these the shortest that is long enough.
    pub fn share(
        &mut self,
        group: GroupId,
        length: ByteCount,
        duty: impl Fn(&BTreeSet<GroupId>) -> Option<u32>,
    ) -> Option<Region> {
        let units = length.bytes().div_ceil(self.unit);
        let order = |(&offset, block): (&u64, &Block)| {
            let fits = units > 0 && block.units >= units;
            let duty = fits.then(|| duty(&block.holders)).flatten()?;
            Some(((duty, block.holders.len(), block.units), offset))
        };
        let (_, offset) = self.blocks.iter().filter_map(order).min()?;
        let block = self.blocks.get_mut(&offset).expect("it is one of them");
        block.holders.insert(group);
        let units = block.units;
        Some(self.region(offset, units))
    }

    /// Whether [`take`](Self::take) would give so much.
    pub fn has(&self, length: ByteCount) -> Result<(), Shortage> {
        let units = length.bytes().div_ceil(self.unit);
        if units == 0 || self.gaps().any(|(_, gap)| gap >= units) {
            Ok(())
        } else {
            Err(self.shortage(units))
        }
    }

    /// Moves blocks toward the start of the memory until there is a piece of `length`, if that much is free: what is moved where. In that order
    /// each comes to a place that no other one has then, but it may be in part its own.
    pub fn make_room(&mut self, length: ByteCount) -> Vec<MovedBlock> {
        let units = length.bytes().div_ceil(self.unit);
        let mut moved = Vec::new();
        if self.has(length).is_ok() || self.free() < ByteCount::new(units * self.unit) {
            return moved;
        }
        let (mut end, mut has_room) = (0, false);
        for (offset, block) in core::mem::take(&mut self.blocks) {
            has_room |= offset - end >= units;
            let to = if has_room { offset } else { end };
            if to != offset {
                let from = self.region(offset, block.units);
                moved.push(MovedBlock { from, to: ByteCount::new(to * self.unit) });
            }
            end = to + block.units;
            self.blocks.insert(to, block);
        }
        moved
    }

    /// A block as it was given before: of a manager that has started again.
    ///
    /// # Errors
    /// If it is not all free, or no block: nothing has changed.
    pub fn restore(&mut self, group: GroupId, region: Region) -> Result<(), Shortage> {
        let (offset, units) = (region.offset.bytes() / self.unit, region.length.bytes() / self.unit);
        if units == 0 {
            return Ok(());
        }
        if let Some(block) = self.blocks.get_mut(&offset).filter(|block| block.units == units) {
            block.holders.insert(group);
            return Ok(());
        }
        let is_whole = self.region(offset, units) == region;
        if !is_whole || !self.gaps().any(|(start, gap)| start <= offset && offset + units <= start + gap) {
            return Err(self.shortage(units));
        }
        self.blocks.insert(offset, Block { units, holders: [group].into() });
        Ok(())
    }

    /// The group has no block any more.
    pub fn release(&mut self, group: GroupId) {
        for block in self.blocks.values_mut() {
            block.holders.remove(&group);
        }
        self.blocks.retain(|_, block| !block.holders.is_empty());
    }

    /// Who has which region, in the order of the memory.
    pub fn regions(&self) -> impl Iterator<Item = (Region, &BTreeSet<GroupId>)> {
        self.blocks.iter().map(|(&offset, block)| (self.region(offset, block.units), &block.holders))
    }

    /// A group's region, if it has one.
    pub fn region_of(&self, group: GroupId) -> Option<Region> {
        self.regions().find(|(_, holders)| holders.contains(&group)).map(|(region, _)| region)
    }

    /// All that nobody has.
    pub fn free(&self) -> ByteCount {
        ByteCount::new((self.units - self.blocks.values().map(|block| block.units).sum::<u64>()) * self.unit)
    }

    /// The longest piece that nobody has.
    pub fn longest(&self) -> ByteCount {
        ByteCount::new(self.gaps().map(|(_, gap)| gap).max().unwrap_or(0) * self.unit)
    }

    fn region(&self, offset: u64, units: u64) -> Region {
        Region { offset: ByteCount::new(offset * self.unit), length: ByteCount::new(units * self.unit) }
    }

    fn shortage(&self, units: u64) -> Shortage {
        Shortage { needed: ByteCount::new(units * self.unit), free: self.free(), longest: self.longest() }
    }

    /// Pieces that nobody has: where they start and how long they are.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let starts =
            core::iter::once(0).chain(self.blocks.iter().map(|(offset, block)| offset + block.units));
        let ends = self.blocks.keys().copied().chain(core::iter::once(self.units));
        starts.zip(ends).map(|(start, end)| (start, end - start)).filter(|&(_, length)| length > 0)
    }

    /// Panics if blocks overlap, or one is nobody's.
    pub fn assert_invariants(&self) {
        let mut end = 0;
        for (&offset, block) in &self.blocks {
            assert!(offset >= end, "a block begins within the one before");
            assert!(block.units > 0 && !block.holders.is_empty(), "a block of nobody's, or of no length");
            end = offset + block.units;
        }
        assert!(end <= self.units, "a block beyond the memory's end");
    }
}
