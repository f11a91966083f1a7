//! The parameter server: it adds up what comes of each sum, whole or in parts, nobody twice, and sends the result (Lao et al., section 3).
//!
//! It keeps sums for two windows. A rank that has sent number n has all results up to one window before, so all ranks have contributed to those,
//! and have the results of another window before: nobody asks for what lies further back.

use crate::config::AtpShape;
use crate::mutation::Mutation;
use crate::partial::{Part, Partial};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::verbs::{QpIndex, RegionId, SendRequest, Slice, Verb, Verbs, WorkId};
use quincunx_wire::atp::AtpTags;

/// Where results are put. A rank without it has not joined yet.
const NOWHERE: RegionId = RegionId(u32::MAX);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Server<P> {
    shape: AtpShape,
    tags: AtpTags,
    mutation: Option<Mutation>,
    /// By number, in turn.
    sums: Vec<Option<Partial<P>>>,
    /// By place of a sum: the result that has been posted and has not left.
    queued: Vec<Option<u32>>,
    /// The newest number that was seen.
    newest: u32,
    staging: RegionId,
}

impl<P: Payload> Server<P> {
    pub(crate) fn new(shape: AtpShape, tags: AtpTags, first: u32, mutation: Option<Mutation>) -> Self {
        let windows = if mutation == Some(Mutation::OneWindow) { 1 } else { 2 };
        let places = windows * shape.window as usize;
        let (sums, queued) = (vec![None; places], vec![None; places]);
        Self { shape, tags, mutation, sums, queued, newest: first, staging: NOWHERE }
    }

    pub(crate) fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        self.staging = verbs.memory().register(P::zeroed(self.bytes()));
    }

    /// Bytes of its results.
    pub(crate) fn bytes(&self) -> usize {
        self.sums.len() * self.shape.packet()
    }

    /// The newest number that was seen.
    pub(crate) const fn newest(&self) -> u32 {
        self.newest
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    const fn place(&self, number: u32) -> usize {
        number as usize & (self.sums.len() - 1)
    }

    /// Takes a part of a sum. Returns whether its result is to be sent.
    pub(crate) fn take(&mut self, part: Part, payload: P::View<'_>) -> bool {
        let (place, all) = (self.place(part.number), self.tags.all());
        if part.number.wrapping_sub(self.newest) as i32 > 0 {
            self.newest = part.number;
        }
        let takes_late = self.breaks(Mutation::TakesLate);
        let counts_repeats = self.breaks(Mutation::ServerCountsRepeats);
        let answers_pending = self.breaks(Mutation::AnswersPending);
        let forgets = self.breaks(Mutation::ForgetsResult);
        match &mut self.sums[place] {
            Some(sum) if sum.number == part.number || takes_late && sum.workers != all => {
                if sum.workers == all {
                    // Somebody has missed the result.
                    return part.is_resent && !forgets;
                }
                let known = sum.workers & part.workers;
                if known == 0 || counts_repeats {
                    sum.add(part, payload);
                } else if known == sum.workers && part.workers != known {
                    // All that it has is in there, too.
                    *sum = Partial::new(part, payload);
                }
                sum.workers == all || answers_pending && part.is_resent
            }
            Some(sum) if sum.workers != all => false,
            Some(sum) if (part.number.wrapping_sub(sum.number) as i32) < 0 => false,
            sum => {
                *sum = Some(Partial::new(part, payload));
                part.workers == all
            }
        }
    }

    /// Puts the result of a number where it is sent from.
    pub(crate) fn stage(&mut self, number: u32, verbs: &mut dyn Verbs<P>) -> Option<Slice> {
        let place = self.place(number);
        let payload = self.sums[place].as_mut()?.payload();
        let whole = Slice {
            region: self.staging,
            offset: place * self.shape.packet(),
            length: P::view_length(P::reborrow(payload)),
        };
        verbs.memory().write(whole, payload);
        Some(whole)
    }

    /// Sends a result, unless it waits to leave.
    pub(crate) fn post(&mut self, number: u32, source: Slice, qp: QpIndex, verbs: &mut dyn Verbs<P>) {
        let place = self.place(number);
        if self.queued[place].replace(number) != Some(number) {
            let immediate = Some(self.tags.write(number, self.tags.all(), false));
            verbs.post_send(
                qp,
                SendRequest { id: WorkId(number.into()), verb: Verb::Send, source, immediate },
            );
        }
    }

    /// A result has left.
    pub(crate) fn sent(&mut self, number: u32) {
        let place = self.place(number);
        self.queued[place].take_if(|queued| *queued == number);
    }

    pub(crate) fn assert_invariants(&self) {
        for (place, sum) in self.sums.iter().enumerate() {
            let Some(sum) = sum else { continue };
            assert_eq!(self.place(sum.number), place, "{} is where it belongs", sum.number);
            assert!(sum.workers != 0 && sum.workers & !self.tags.all() == 0, "of ranks that there are");
        }
    }
}
