//! The end of a collective: whoever has everything tells the others, and a rank is done when all have told (MultiWrite 5.2, step 5).
//! Then nothing is on its way any more, and the window's slots are free.

use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::{SendRequest, Slice, Verb, Verbs, WorkId};

use crate::Table;
use crate::window::KEY;

/// The immediate of what is told, and the name of its work requests.
pub(crate) const ALL_HERE: u32 = u32::MAX;
/// The immediate where more than those who gather together wait for each other.
pub(crate) const EVERYBODY_HERE: u32 = u32::MAX - 1;
pub(crate) const BARRIER: WorkId = WorkId(u64::MAX);

/// One rank's part in the barriers of all its collectives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Barrier {
    /// The immediate of what is told.
    word: u32,
    /// The others, ascending, each with how often it has told beyond the barriers passed here. One may be a collective ahead.
    heard: Vec<(Rank, u8)>,
    /// How many of them have not.
    silent: usize,
    /// This rank has told; so many messages of that are not acknowledged.
    told: Option<usize>,
}

impl Barrier {
    /// A barrier with `others`, ascending.
    pub(crate) fn new(others: impl Iterator<Item = Rank>) -> Self {
        Self::of_word(others, ALL_HERE)
    }

    /// The same with an immediate of its own, so that it is not taken for another barrier.
    pub(crate) fn of_word(others: impl Iterator<Item = Rank>, word: u32) -> Self {
        let heard: Vec<_> = others.map(|rank| (rank, 0)).collect();
        Self { word, silent: heard.len(), heard, told: None }
    }

    /// Whether this rank has everything and has said so: what arrives from now on is the next collective's.
    pub(crate) fn has_told(&self) -> bool {
        self.told.is_some()
    }

    /// Tells the others that this rank has everything.
    ///
    /// # Panics
    /// If one of them is no neighbour.
    pub(crate) fn tell<P: Payload>(&mut self, table: &Table, verbs: &mut dyn Verbs<P>) {
        self.told = Some(self.heard.len());
        for &(rank, _) in &self.heard {
            tell(rank, BARRIER, self.word, table, verbs);
        }
    }

    /// Takes the word of another rank. Returns whether the protocol allows it.
    pub(crate) fn hear(&mut self, from: Rank) -> bool {
        let Ok(index) = self.heard.binary_search_by_key(&from, |(rank, _)| *rank) else { return false };
        let (_, times) = &mut self.heard[index];
        if *times == 2 {
            return false;
        }
        self.silent -= usize::from(*times == 0);
        *times += 1;
        true
    }

    /// Takes the end of a message named [`BARRIER`].
    pub(crate) fn handle_sent(&mut self) {
        if let Some(told) = &mut self.told {
            *told -= 1;
        }
    }

    /// Whether all have told, and what this rank told is acknowledged: then the barrier is the next collective's.
    pub(crate) fn pass(&mut self) -> bool {
        let is_over = self.told == Some(0) && self.silent == 0;
        if is_over {
            self.heard.iter_mut().for_each(|(_, times)| *times -= 1);
            self.silent = self.heard.iter().filter(|(_, times)| *times == 0).count();
            self.told = None;
        }
        is_over
    }

    /// Panics if the state breaks a rule that must always hold.
    pub(crate) fn assert_invariants(&self) {
        assert!(self.heard.iter().all(|(_, times)| *times <= 2), "nobody is two collectives ahead");
        let silent = self.heard.iter().filter(|(_, times)| *times == 0).count();
        assert_eq!(self.silent, silent, "whoever has not told is silent");
    }
}

/// Sends `immediate` to a neighbour, and nothing else.
pub(crate) fn tell<P: Payload>(
    rank: Rank,
    id: WorkId,
    immediate: u32,
    table: &Table,
    verbs: &mut dyn Verbs<P>,
) {
    let qp = table.queue_pair(rank).expect("those who are told things are neighbours");
    let source = Slice { region: KEY, offset: 0, length: 0 };
    let request = SendRequest { id, verb: Verb::Send, source, immediate: Some(immediate) };
    verbs.post_send(qp, request);
}
