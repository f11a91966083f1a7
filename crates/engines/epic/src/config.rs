//! What the control plane installs on a switch for one group: the local context (EPIC 4.1, "States and Context").

use crate::mode::Mode;
use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_units::{Duration, Packets};
use quincunx_wire::{Endpoint, Psn};

use crate::control::MAX_RANKS;
use crate::mutation::Mutation;

/// The most edges that one node of an IncTree may have: arrivals are kept as a bit set, with one bit for the node itself.
pub const MAX_EDGES: usize = 63;

/// An edge of the IncTree as one of its two nodes sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EdgeConfig {
    /// This switch's end.
    pub local: Endpoint,
    /// The neighbour's end.
    pub remote: Endpoint,
    /// The neighbour is this rank; otherwise it is a switch.
    pub rank: Option<Rank>,
    /// The mode of the switch that the neighbour is.
    pub mode: Option<Mode>,
}

impl EdgeConfig {
    /// The neighbour sends again what it has sent, and acknowledges what it gets: all do but switches in Mode-II, which leave that to those
    /// behind them.
    pub fn is_end(&self) -> bool {
        self.mode != Some(Mode::II)
    }

    /// The neighbour skips the numbers of what it does not send or receive (4.3, group PSN synchronisation). The peers of a Mode-I switch
    /// that do not are ranks and others in Mode-I.
    pub fn skips(&self) -> bool {
        matches!(self.mode, Some(Mode::II | Mode::III))
    }
}

/// The local context of a group on a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupConfig {
    /// Ranks in the group.
    pub ranks: u16,
    /// The realisation.
    pub mode: Mode,
    /// Bytes of payload in a full packet, U in table 2.
    pub mtu: usize,
    /// Packets that a rank may have in flight: message size M times window W (table 2). In Mode-III, the array size N of each
    /// pipe, which may be less than that if ranks run ahead.
    pub window: Packets,
    /// Packets in a message, M in table 2. Mode-I alone needs to know.
    pub message: Packets,
    /// PSN of the first packet on every edge, both ways.
    pub initial_psn: Psn,
    /// The node's edges.
    pub edges: Vec<EdgeConfig>,
    /// Index of the edge to the parent; `None` at the tree's root.
    pub parent: Option<usize>,
    /// For each rank, the index of the edge that leads to it.
    pub toward: Vec<usize>,
    /// Combine in the order of the edges, not of arrival: equal bits every time, for a buffer per edge (footnote 4).
    pub reproducible: bool,
    /// Ranks' queue pairs are standard ones, which number what they send and receive alone: their first hop translates. In Mode-I all
    /// connections end at the switch anyway.
    pub standard_verbs: bool,
    /// Send again what is missing and nothing else, as ranks' queue pairs do unless they are standard ones; otherwise everything from there
    /// on.
    pub selective: bool,
    /// Mode-III: acknowledge a packet as soon as it is taken in, so that ranks that run ahead do so as far as the pipe reaches
    /// (4.4, "rank windows progress independently"); otherwise ACKs are put off, and keep the ranks together.
    pub run_ahead: bool,
    /// Mode-II, where reliability is selective: a rank that misses the result of an AllReduce gets it from the switch; otherwise the ranks send
    /// their own packets again, and the switch answers those (4.3).
    pub resend_results: bool,
    /// Mode-III: what lies ahead of the range is answered, with a congestion notification to a rank, at most one in this time,
    /// and with a NAK as soon as the range has opened (4.4, rate synchronisation). Otherwise it is dropped in silence (algorithm
    /// 2), and the sender's time-out sees to it.
    pub notification_interval: Option<Duration>,
    /// How long an unacknowledged packet waits before it is sent again; where reliability is selective the longest that it waits, as
    /// answers are measured.
    pub resend_timeout: Duration,
    /// Time-outs of that length without progress after which a neighbour counts as unreachable.
    pub retry_count: u16,
    /// A rule to break, for the checker alone.
    pub mutation: Option<Mutation>,
}

/// Why a context is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Too many or too few edges.
    #[error(
        "expected 2 to {MAX_EDGES} edges, found {0}; a node with one edge does nothing, one with more must be split"
    )]
    Edges(usize),
    /// Too many ranks.
    #[error(
        "expected 1 to {MAX_RANKS} ranks, each with the edge toward it, found {ranks} with {toward} edges"
    )]
    Ranks {
        /// Ranks as given.
        ranks: u16,
        /// Entries of the table as given.
        toward: usize,
    },
    /// An index that is no edge.
    #[error("expected an edge index below {edges}, found {found}; number the edges from zero")]
    NoSuchEdge {
        /// Edges there are.
        edges: usize,
        /// The index as given.
        found: usize,
    },
    /// A mode whose connections end at the switch.
    #[error("expected Mode-II or Mode-III, found Mode-I; it runs above queue pairs")]
    ModeI,
    /// No packet fits.
    #[error("expected a payload of 4 to 4096 bytes in whole words, found {0}")]
    Mtu(usize),
    /// No packet may be in flight.
    #[error("expected a window of at least one message of at least one packet, found {window} and {message}")]
    Window {
        /// Window in packets as given.
        window: Packets,
        /// Message in packets as given.
        message: Packets,
    },
}

impl GroupConfig {
    /// Whether this rule is to be broken.
    pub(crate) fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The unbounded count that a PSN stands for, near one that is known.
    pub(crate) fn count(&self, psn: Psn, near: u64) -> u64 {
        match self.breaks(Mutation::PsnNoWrap) {
            true => (near & !0xff_ffff) | u64::from(psn.value()),
            false => psn.to_count_near(near),
        }
    }

    /// Refuses what no node could run.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let edges = self.edges.len();
        if !(2..=MAX_EDGES).contains(&edges) {
            return Err(ConfigError::Edges(edges));
        }
        if !(1..=MAX_RANKS).contains(&self.ranks) || self.toward.len() != usize::from(self.ranks) {
            return Err(ConfigError::Ranks { ranks: self.ranks, toward: self.toward.len() });
        }
        if let Some(&found) = self.toward.iter().chain(&self.parent).find(|&&edge| edge >= edges) {
            return Err(ConfigError::NoSuchEdge { edges, found });
        }
        if !(4..=4096).contains(&self.mtu) || !self.mtu.is_multiple_of(4) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        if self.message == Packets::new(0) || self.window < self.message {
            return Err(ConfigError::Window { window: self.window, message: self.message });
        }
        Ok(())
    }
}
