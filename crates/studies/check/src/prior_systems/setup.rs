//! What to explore, and what must come of it.

use quincunx_collective::{Payload, Provenance, Rank};

use crate::network::MTU;
use crate::prior_systems::rules::Rules;

/// What to explore: an AllReduce between workers around a switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StarSetup {
    /// Whose rules.
    pub rules: Rules,
    /// How many workers.
    pub workers: u16,
    /// Chunks of each worker.
    pub chunks: u8,
    /// Chunks that a worker may have in flight; of SwitchML that is the number of slots.
    pub window: u8,
    /// ATP's aggregators.
    pub aggregators: u8,
    /// ATP's aggregators must be free in the end.
    pub frees: bool,
}

/// Why a set-up cannot be explored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StarSetupError {
    /// Too many or too few workers.
    #[error("expected 2 to {most} workers, found {found}; choose another star", most = Provenance::RANKS)]
    Workers {
        /// Workers.
        found: u16,
    },
    /// Too many or too few of something else.
    #[error("expected 1 to {MOST} {what}, found {found}; choose a number in between")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        found: u16,
    },
}

/// Chunks, those in flight and aggregators that can be numbered.
const MOST: u8 = 64;

impl StarSetup {
    pub(crate) fn validate(&self) -> Result<(), StarSetupError> {
        if !(2..=Provenance::RANKS).contains(&self.workers) {
            return Err(StarSetupError::Workers { found: self.workers });
        }
        let counts = [
            ("chunks", self.chunks.into()),
            ("chunks in flight", self.window.into()),
            ("aggregators", self.aggregators.into()),
        ];
        let wrong = counts.into_iter().find(|(_, found)| !(1..=u16::from(MOST)).contains(found));
        wrong.map_or(Ok(()), |(what, found)| Err(StarSetupError::Count { what, found }))
    }

    /// A payload of nobody.
    pub(crate) fn nothing(&self) -> Provenance {
        Provenance::zeroed(MTU)
    }

    pub(crate) fn has_server(&self) -> bool {
        matches!(self.rules, Rules::Atp(_))
    }

    /// What a chunk's result must be.
    pub(crate) fn expected(&self, chunk: u8) -> Provenance {
        Provenance::of_all(self.workers, MTU).moved(chunk.into())
    }
}

/// What a worker contributes to a chunk.
pub(crate) fn contribution(rank: Rank, chunk: u8) -> Provenance {
    Provenance::of_rank(rank, MTU).moved(chunk.into())
}
