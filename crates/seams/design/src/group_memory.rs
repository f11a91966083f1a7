//! A group's part of its switch's memory (EPIC 6.1): the pointer and the length of its context, over the one memory that all groups of the
//! switch have.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::{GroupId, Payload, Reduction};

/// What a group's part of a switch sees of the switch's memory, numbered from zero. What lies outside is other groups'.
///
/// # Panics
/// Every access panics that leaves the group's part: a datapath checks what frames say at its door.
#[derive(Debug)]
pub struct GroupMemory<'a, P> {
    memory: &'a mut P,
    offset: usize,
    length: usize,
    /// If others have some of it, too, and it is not locked.
    by_turns: Option<(GroupId, &'a mut Writers)>,
}

/// Who has written what of a memory that groups use by turns, and is to be read by nobody else.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Writers(BTreeMap<usize, (usize, GroupId)>);

impl Writers {
    /// `range` has what `group` has written there.
    pub fn write(&mut self, range: Range<usize>, group: GroupId) {
        self.forget(range.clone());
        if !range.is_empty() {
            self.0.insert(range.start, (range.end, group));
        }
    }

    /// What is in a block is moved to where another one begins.
    pub fn move_block(&mut self, from: Range<usize>, to: usize) {
        // The first one may begin before the block.
        let first = self.0.range(..=from.start).next_back().map_or(from.start, |(&start, _)| start);
        let inside: Vec<_> = self
            .0
            .range(first..from.end)
            .map(|(&start, &(end, group))| (start.max(from.start), end.min(from.end), group))
            .filter(|(start, end, _)| start < end)
            .collect();
        self.forget(from.clone());
        self.forget(to..to + from.len());
        for (start, end, group) in inside {
            self.write(to + (start - from.start)..to + (end - from.start), group);
        }
    }

    /// Nothing is `group`'s any more.
    pub fn remove(&mut self, group: GroupId) {
        self.0.retain(|_, (_, writer)| *writer != group);
    }

    /// Who has written what is there.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.0.values().map(|(_, group)| *group)
    }

    /// What is in `range` is nobody's.
    fn forget(&mut self, range: Range<usize>) {
        while let Some((&start, &(end, writer))) = self.0.range(..range.end).next_back()
            && end > range.start
        {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, (range.start, writer));
            }
            if range.end < end {
                self.0.insert(range.end, (end, writer));
            }
        }
    }

    /// Whether `range` has what `group` has written there.
    fn has(&self, range: &Range<usize>, group: GroupId) -> bool {
        let before = self.0.range(..=range.start).next_back();
        range.is_empty() || before.is_some_and(|(_, &(end, writer))| writer == group && range.end <= end)
    }
}

impl<'a, P: Payload> GroupMemory<'a, P> {
    /// The bytes `part` of a switch's memory.
    ///
    /// # Panics
    /// If the memory does not reach that far.
    pub fn new(memory: &'a mut P, part: Range<usize>) -> Self {
        assert!(part.end <= memory.length(), "{part:?} of a memory of {} bytes", memory.length());
        Self { memory, offset: part.start, length: part.len(), by_turns: None }
    }

    /// The same for a group that has it by turns with others.
    #[must_use]
    pub fn by_turns(self, group: GroupId, writers: &'a mut Writers) -> Self {
        Self { by_turns: Some((group, writers)), ..self }
    }

    /// A whole memory, which only one group has.
    pub fn whole(memory: &'a mut P) -> Self {
        let length = memory.length();
        Self::new(memory, 0..length)
    }

    /// The same for a shorter time.
    pub fn reborrow(&mut self) -> GroupMemory<'_, P> {
        let by_turns = self.by_turns.as_mut().map(|(group, writers)| (*group, &mut **writers));
        GroupMemory { memory: self.memory, offset: self.offset, length: self.length, by_turns }
    }

    /// What the group has stored in `range`; `None` if another one has written there since.
    pub fn stored(&self, range: Range<usize>) -> Option<P::View<'_>> {
        let range = self.of_switch(range);
        self.has(&range).then(|| self.memory.view(range))
    }

    /// Stores `view` at `offset`.
    pub fn write(&mut self, offset: usize, view: P::View<'_>) {
        let target = self.of_switch(offset..offset + P::view_length(view));
        self.memory.write(target.start, view);
        self.note(target, true);
    }

    /// Combines `view` into what is stored at `offset`. If that is another group's now, nothing changes.
    pub fn reduce(&mut self, offset: usize, view: P::View<'_>, reduction: Reduction) {
        let target = self.of_switch(offset..offset + P::view_length(view));
        if self.has(&target) {
            self.memory.reduce(target.start, view, reduction);
        }
    }

    /// Stores at `offset` what is stored in `source`, if it is.
    pub fn copy(&mut self, offset: usize, source: Range<usize>) {
        let target = self.of_switch(offset..offset + source.len());
        let source = self.of_switch(source);
        let is_there = self.has(&source);
        self.memory.copy_within(target.start, source);
        self.note(target, is_there);
    }

    /// Combines what is stored in `source` into what is stored at `offset`, which is not among it. If one of them is another
    /// group's now, what is at `offset` is not this one's any more.
    pub fn combine(&mut self, offset: usize, source: Range<usize>, reduction: Reduction) {
        let target = self.of_switch(offset..offset + source.len());
        let source = self.of_switch(source);
        if !self.has(&target) {
            return;
        }
        if self.has(&source) {
            self.memory.reduce_within(target.start, source, reduction);
        } else {
            self.note(target, false);
        }
    }

    /// Where a range of the group's is in the switch.
    fn of_switch(&self, range: Range<usize>) -> Range<usize> {
        let is_inside = range.start <= range.end && range.end <= self.length;
        assert!(is_inside, "{range:?} of a part of {} bytes", self.length);
        self.offset + range.start..self.offset + range.end
    }

    fn has(&self, range: &Range<usize>) -> bool {
        self.by_turns.as_ref().is_none_or(|(group, writers)| writers.has(range, *group))
    }

    /// `range` has been written to: with something of the group's, or of nobody's.
    fn note(&mut self, range: Range<usize>, is_own: bool) {
        let Some((group, writers)) = &mut self.by_turns else { return };
        if is_own { writers.write(range, *group) } else { writers.forget(range) }
    }
}
