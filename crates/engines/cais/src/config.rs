//! What a merge unit is set up with.

use crate::Mutation;
use quincunx_collective::Reduction;
use quincunx_units::Duration;
use quincunx_wire::flit::{FlitFormat, MAX_TAG, NodeId};

/// What a merge unit is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MergeConfig {
    /// The switch that it is in.
    pub node: NodeId,
    /// Accelerators around it, one a port; 1 to 64.
    pub accelerators: u16,
    /// Accelerators that take part in a merge: an entry ends when so many have asked, or so many contributions are there. N-1 in the
    /// paper, for the home has its own (III-A3).
    pub participants: u16,
    /// Entries of the merging table of each port; zero if it grows as it must.
    pub entries: usize,
    /// Groups that the sync table has room for.
    pub groups: usize,
    /// Streams of collectives that have a boundary of their own.
    pub streams: u16,
    /// How long an entry lives after its last access (III-A4); above zero.
    pub timeout: Duration,
    /// How long a group waits for its last member; above zero.
    pub group_timeout: Duration,
    /// From the packet that it needs to what the unit sends.
    pub latency: Duration,
    /// How packets are cut. An entry holds a packet's payload.
    pub format: FlitFormat,
    /// What accumulators do.
    pub reduction: Reduction,
    /// Whether the unit tells how many entries are taken each time that this changes.
    pub levels: bool,
    /// A rule to break, for the checker alone.
    pub mutation: Option<Mutation>,
}

/// Why a set-up makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// None, or more than a mask has bits.
    #[error("expected 1 to 64 `accelerators` at a merge unit, found {0}; take fewer of them")]
    Accelerators(u16),
    /// Nobody merges, or more than there are.
    #[error("expected 1 to {accelerators} participants of a merge, found {found}; set merge.participants")]
    Participants {
        /// All.
        accelerators: u16,
        /// As given.
        found: u16,
    },
    /// More entries than tags can name.
    #[error("expected at most 2^24 entries of a merging table, found {0}; set merge.entries")]
    Entries(usize),
    /// Entries that would stay for ever.
    #[error("expected a time-out above zero, found none; set merge.timeout")]
    Timeout,
    /// Elements cut in two.
    #[error("expected packets of whole elements of {element} bytes, found {payload} bytes; set link.payload")]
    Payload {
        /// Bytes.
        element: usize,
        /// Bytes.
        payload: usize,
    },
}

impl MergeConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let Self { accelerators, participants, entries, format, .. } = *self;
        if !(1..=64).contains(&accelerators) {
            return Err(ConfigError::Accelerators(accelerators));
        }
        if !(1..=accelerators).contains(&participants) {
            return Err(ConfigError::Participants { accelerators, found: participants });
        }
        if entries > MAX_TAG as usize + 1 {
            return Err(ConfigError::Entries(entries));
        }
        if self.timeout == Duration::ZERO || self.group_timeout == Duration::ZERO {
            return Err(ConfigError::Timeout);
        }
        let (element, payload) = (self.reduction.data_type.size(), format.max_payload);
        if payload == 0 || !payload.is_multiple_of(element) {
            return Err(ConfigError::Payload { element, payload });
        }
        Ok(())
    }

    /// Most entries of a table.
    pub(crate) const fn capacity(&self) -> usize {
        if self.entries == 0 { MAX_TAG as usize + 1 } else { self.entries }
    }
}
