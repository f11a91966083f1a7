//! What one rank does in one collective: stages, each over a range of the vector, in an order that its peers share.
//!
//! The one rule that every algorithm keeps: what a rank sends to a peer, stage after stage and piece after piece, is
//! what the peer expects from it in the order of the peer's own stages. No message then needs to say what it is.

use crate::Pace;
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::Rank;

/// No piece is made shorter than this in bytes for the sake of overlap: then the cost of a message outweighs it.
const MIN_PIECE: usize = 8 * 1024;

/// Chunks are multiples of so many bytes.
const MIN_GRAIN: usize = 4;

/// Our own part in a stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Own {
    /// Where the stage's range begins in the input.
    pub(crate) offset: usize,
    /// How many peers' pieces are combined before ours.
    pub(crate) position: usize,
}

/// What of this rank's must be there before a stage goes on with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Basis {
    /// A stage that takes pieces, and must have them all.
    pub(crate) stage: Option<usize>,
    /// Pieces that we have sent to the first peer it takes from, and that must be acknowledged: they are in the way of what is kept.
    pub(crate) acknowledged: usize,
    /// Our own part is what the output holds where the result is kept, not our input.
    pub(crate) adds_to_output: bool,
    /// What goes out is what came in, added up where it arrived: the output changes before that is acknowledged.
    pub(crate) sends_slot: bool,
}

/// Take each piece of a range from some peers, combine them with our own, keep it, pass it on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stage {
    /// Bytes of the range.
    pub(crate) length: usize,
    /// Pieces it is cut into.
    pub(crate) pieces: usize,
    /// Whether our input is in it.
    pub(crate) own: Option<Own>,
    /// Where the result is kept in the output.
    pub(crate) keep: Option<usize>,
    /// What it goes on from; of a stage as it is appended, nothing.
    pub(crate) basis: Basis,
    /// The connections it comes from, in the order in which they are combined: a range of [`Plan::connections`].
    from: Range<usize>,
    /// The connections it goes to.
    to: Range<usize>,
    /// Pieces that have been combined and may go out.
    pub(crate) ready: usize,
}

impl Stage {
    /// The bytes of a piece, from the start of the range.
    pub(crate) fn piece(&self, piece: usize, size: usize) -> Range<usize> {
        piece * size..((piece + 1) * size).min(self.length)
    }

    /// Whether all of its pieces are combined.
    pub(crate) fn is_over(&self) -> bool {
        self.ready == self.pieces
    }

    /// Whether it takes pieces from nobody.
    pub(crate) fn is_source(&self) -> bool {
        self.from.is_empty()
    }
}

/// The stages of a collective at one rank. Its memory is used again for the next collective.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Plan {
    pub(crate) rank: Rank,
    pub(crate) ranks: u16,
    /// Longest message in bytes.
    chunk: usize,
    pace: Pace,
    /// Bytes of a piece in this collective: whole elements, at most a chunk.
    pub(crate) piece: usize,
    /// Bytes that pieces are a multiple of: an element, or the least that chunks are.
    grain: usize,
    /// Pieces that may wait in slots at a peer before it has told that any is free.
    pub(crate) slots: usize,
    /// The connection to each rank that has one.
    connection_to: Vec<Option<usize>>,
    connections: Vec<usize>,
    pub(crate) stages: Vec<Stage>,
    /// The order in which they go out.
    pub(crate) sends: Vec<usize>,
    /// Stages that only send, each behind a stage that it waits for.
    pub(crate) waiting: Vec<(usize, usize)>,
}

impl Plan {
    pub(crate) fn new(
        rank: Rank,
        connection_to: Vec<Option<usize>>,
        chunk: usize,
        slots: usize,
        pace: Pace,
    ) -> Self {
        let ranks = connection_to.len() as u16;
        Self {
            rank,
            ranks,
            chunk,
            pace,
            piece: chunk,
            grain: MIN_GRAIN,
            slots,
            connection_to,
            connections: Vec::new(),
            stages: Vec::new(),
            sends: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Begins with another collective, whose elements have so many bytes.
    pub(crate) fn clear(&mut self, element: usize) {
        self.grain = element.max(MIN_GRAIN);
        self.connections.clear();
        self.stages.clear();
        self.sends.clear();
        self.waiting.clear();
    }

    /// Sets how long a piece is: such that `length` bytes make at least `pieces`, if they are not too short for that.
    pub(crate) fn cut(&mut self, length: usize, pieces: usize) {
        let aim = match self.pace {
            Pace::Eager => (length / pieces).max(MIN_PIECE).min(self.chunk),
            Pace::Lockstep => self.chunk,
        };
        self.piece = aim - aim % self.grain;
    }

    /// Appends a stage; one without bytes is nothing.
    pub(crate) fn push(
        &mut self,
        length: usize,
        own: Option<Own>,
        keep: Option<usize>,
        from: impl IntoIterator<Item = Rank>,
        to: impl IntoIterator<Item = Rank>,
    ) {
        if length > 0 {
            self.push_pieces(length.div_ceil(self.piece), length, own, keep, from, to);
        }
    }

    /// Appends a stage that goes on from something; its number, if it has bytes.
    pub(crate) fn push_based(
        &mut self,
        basis: Basis,
        length: usize,
        own: Option<Own>,
        keep: Option<usize>,
        from: impl IntoIterator<Item = Rank>,
        to: impl IntoIterator<Item = Rank>,
    ) -> Option<usize> {
        (length > 0).then(|| {
            self.push(length, own, keep, from, to);
            self.base(basis)
        })
    }

    /// Has the stage that was just appended go on from something; its number.
    pub(crate) fn base(&mut self, basis: Basis) -> usize {
        let number = self.stages.len() - 1;
        self.stages[number].basis = basis;
        if let Some(stage) = basis.stage.filter(|_| self.stages[number].is_source()) {
            self.waiting.push((stage, number));
        }
        number
    }

    /// Has the stage that was just appended, which only sends, wait for stages.
    pub(crate) fn wait_for(&mut self, stages: &[usize]) {
        let number = self.stages.len() - 1;
        self.stages[number].basis.stage = stages.last().copied();
        self.waiting.extend(stages.iter().map(|stage| (*stage, number)));
    }

    /// Whether what a stage goes on from is there, as far as that is other stages.
    pub(crate) fn is_based(&self, stage: usize) -> bool {
        self.stages[stage].basis.stage.is_none_or(|basis| self.stages[basis].is_over())
    }

    /// Appends a stage that is kept, and goes out where [`send`](Self::send) has it; its number for that.
    pub(crate) fn push_unsent(
        &mut self,
        length: usize,
        own: Option<Own>,
        keep: usize,
        from: impl IntoIterator<Item = Rank>,
        to: impl IntoIterator<Item = Rank>,
    ) -> usize {
        self.push_pieces(length.div_ceil(self.piece), length, own, Some(keep), from, to);
        self.sends.pop().expect("the stage that was just appended")
    }

    /// Has a stage go out behind all that were appended so far.
    pub(crate) fn send(&mut self, stage: usize) {
        self.sends.push(stage);
    }

    /// Appends a stage of one message without bytes.
    pub(crate) fn push_token(
        &mut self,
        own: Option<Own>,
        from: impl IntoIterator<Item = Rank>,
        to: impl IntoIterator<Item = Rank>,
    ) {
        // Tokens that pass through count as kept: they need no slot to be sent from.
        self.push_pieces(1, 0, own, Some(0), from, to);
    }

    fn push_pieces(
        &mut self,
        pieces: usize,
        length: usize,
        own: Option<Own>,
        keep: Option<usize>,
        from: impl IntoIterator<Item = Rank>,
        to: impl IntoIterator<Item = Rank>,
    ) {
        let connection_to = &self.connection_to;
        let connection =
            |rank: Rank| connection_to[rank.index()].expect("plans keep to the peers of their algorithm");
        let start = self.connections.len();
        self.connections.extend(from.into_iter().map(connection));
        let middle = self.connections.len();
        self.connections.extend(to.into_iter().map(connection));
        let (from, to) = (start..middle, middle..self.connections.len());
        assert!(keep.is_some() || from.is_empty() || to.len() == 1, "a slot is sent from once");
        assert!(own.is_some() || !from.is_empty(), "a stage has something to combine");
        self.stages.push(Stage { length, pieces, own, keep, basis: Basis::default(), from, to, ready: 0 });
        self.sends.push(self.stages.len() - 1);
    }

    /// The connections a stage takes pieces from.
    pub(crate) fn from(&self, stage: usize) -> &[usize] {
        &self.connections[self.stages[stage].from.clone()]
    }

    /// Whether a stage takes pieces from one connection and passes them on to none, and nothing waits for it.
    pub(crate) fn ends_where_it_arrives(&self, stage: usize) -> bool {
        self.from(stage).len() == 1
            && self.to(stage).is_empty()
            && self.stages[stage].basis == Basis::default()
            && self.waiting.is_empty()
    }

    /// The connections a stage passes pieces on to.
    pub(crate) fn to(&self, stage: usize) -> &[usize] {
        &self.connections[self.stages[stage].to.clone()]
    }
}

/// The part of a vector that belongs to one of `parts`: whole elements, as even as can be, longer ones first.
pub(crate) fn part(length: usize, element: usize, parts: u16, index: u16) -> Range<usize> {
    let (parts, index) = (usize::from(parts), usize::from(index));
    let elements = length / element;
    let (each, longer) = (elements / parts, elements % parts);
    let start = index * each + index.min(longer);
    let end = start + each + usize::from(index < longer);
    start * element..end * element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_elements_and_join_up() {
        assert_eq!(part(28, 4, 3, 0), 0..12);
        assert_eq!(part(28, 4, 3, 1), 12..20);
        assert_eq!(part(28, 4, 3, 2), 20..28);
    }

    #[test]
    fn a_vector_shorter_than_the_group_leaves_some_parts_empty() {
        assert_eq!(part(4, 2, 3, 1), 2..4);
        assert_eq!(part(4, 2, 3, 2), 4..4);
    }
}
