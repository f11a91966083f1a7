//! The end of a collective: whoever has everything tells the others, and a rank is done when all have told (MultiWrite 5.2, step 5).
//! Then nothing is on its way any more, and the window's slots are free. With it each says what it takes part in, so that nobody is done
//! where ranks ask for different collectives.
//!
//! ```text
//!  31 |    30     | 29 .. 0
//!   1 | everybody | digest
//! ```

use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::{SendRequest, Slice, Verb, Verbs, WorkId};

use crate::Table;
use crate::window::KEY;

/// The bit of immediates that are words of a barrier.
pub(crate) const ALL_HERE: u32 = 1 << 31;
/// The bit where more than those who gather together wait for each other.
pub(crate) const EVERYBODY_HERE: u32 = 1 << 30;
/// Bits of the digest of what ranks must agree on.
pub(crate) const DIGEST_BITS: u32 = 30;
/// The bits themselves.
const DIGESTS: u32 = (1 << DIGEST_BITS) - 1;
/// The name of work requests that tell.
pub(crate) const BARRIER: WorkId = WorkId(u64::MAX);

/// What another rank has told beyond the barriers passed here. It may be a collective ahead.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Heard {
    rank: Rank,
    times: u8,
    /// With which digests, the oldest first.
    digests: [u32; 2],
    /// With which it must, once this rank has told.
    expected: u32,
}

/// One rank's part in the barriers of all its collectives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Barrier {
    /// The immediate of what is told, but for the digest.
    word: u32,
    /// The others, ascending.
    heard: Vec<Heard>,
    /// How many of them have not.
    silent: usize,
    /// This rank has told; so many messages of that are not acknowledged.
    told: Option<usize>,
    /// Whatever others take part in is right: a rule that can be broken.
    ignores: bool,
}

impl Barrier {
    /// A barrier with `others`, ascending.
    pub(crate) fn new(others: impl Iterator<Item = Rank>) -> Self {
        Self::of_word(others, 0)
    }

    /// The same with a mark of its own, so that it is not taken for another barrier.
    pub(crate) fn of_word(others: impl Iterator<Item = Rank>, mark: u32) -> Self {
        let heard: Vec<_> =
            others.map(|rank| Heard { rank, times: 0, digests: [0; 2], expected: 0 }).collect();
        Self { word: ALL_HERE | mark, silent: heard.len(), heard, told: None, ignores: false }
    }

    /// Takes whatever others say that they take part in, for the checker alone.
    pub(crate) const fn ignore_digests(&mut self) {
        self.ignores = true;
    }

    /// Whether this rank has everything and has said so: what arrives from now on is the next collective's.
    pub(crate) fn has_told(&self) -> bool {
        self.told.is_some()
    }

    /// Tells the others that this rank has everything of a collective with this digest.
    ///
    /// # Panics
    /// If one of them is no neighbour.
    pub(crate) fn tell<P: Payload>(&mut self, digest: u32, table: &Table, verbs: &mut dyn Verbs<P>) {
        self.tell_with(digest, |_| [0; 2], table, verbs);
    }

    /// The same, with how many tokens `between` says that each of them gets and that come from each: the digest of whoever has been told another
    /// number differs.
    ///
    /// # Panics
    /// If one of them is no neighbour.
    pub(crate) fn tell_with<P: Payload>(
        &mut self,
        digest: u32,
        between: impl Fn(Rank) -> [usize; 2],
        table: &Table,
        verbs: &mut dyn Verbs<P>,
    ) {
        self.told = Some(self.heard.len());
        for heard in &mut self.heard {
            let [to, from] = between(heard.rank).map(|count| (digest ^ count as u32) & DIGESTS);
            heard.expected = from;
            tell(heard.rank, BARRIER, self.word | to, table, verbs);
        }
    }

    /// A rank that has told of the end of another collective than this rank has, and in which bits of the digest.
    pub(crate) fn dissenter(&self) -> Option<(Rank, u32)> {
        let differs = |heard: &&Heard| heard.times > 0 && heard.digests[0] != heard.expected;
        let found = |heard: &Heard| (heard.rank, heard.digests[0] ^ heard.expected);
        let dissenter = self.heard.iter().find(differs).map(found);
        dissenter.filter(|_| self.has_told() && !self.ignores)
    }

    /// Takes the word of another rank: an immediate with [`ALL_HERE`]. Returns whether the protocol allows it.
    pub(crate) fn hear(&mut self, from: Rank, immediate: u32) -> bool {
        let Ok(index) = self.heard.binary_search_by_key(&from, |heard| heard.rank) else { return false };
        let Heard { times, digests, .. } = &mut self.heard[index];
        let Some(digest) = digests.get_mut(usize::from(*times)) else { return false };
        *digest = immediate & DIGESTS;
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
            for Heard { times, digests, expected, .. } in &mut self.heard {
                *times -= 1;
                *digests = [digests[1], 0];
                *expected = 0;
            }
            self.silent = self.heard.iter().filter(|heard| heard.times == 0).count();
            self.told = None;
        }
        is_over
    }

    /// Panics if the state breaks a rule that must always hold.
    pub(crate) fn assert_invariants(&self) {
        assert!(self.heard.iter().all(|heard| heard.times <= 2), "nobody is two collectives ahead");
        let silent = self.heard.iter().filter(|heard| heard.times == 0).count();
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
