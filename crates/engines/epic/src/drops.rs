//! Why packets are dropped.

/// Why a packet was dropped. What senders do about it is their time-out, or the answer that some of these get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// EPIC uses no such operation.
    UnexpectedOperation,
    /// The control message, or the packet's length, makes no sense.
    Malformed,
    /// No control message has announced this PSN (3.3.2).
    NoCollective,
    /// More unfinished collectives than a group can have.
    TableFull,
    /// The collective does not flow this way.
    WrongDirection,
    /// It has been here before, and was answered again.
    Duplicate,
    /// It is older than anything that can still be asked for.
    Stale,
    /// It lies ahead of the valid PSN range.
    AheadOfRange,
    /// It disagrees with the other contributions.
    Mismatch,
    /// Its control message announces another collective than that of another rank.
    Disagreement,
    /// It acknowledges what was never sent.
    BadAcknowledge,
    /// It comes from a neighbour that counts as unreachable: the group has failed.
    Unreachable,
}

impl DropReason {
    /// What operators call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnexpectedOperation => "unexpected-operation",
            Self::Malformed => "malformed",
            Self::NoCollective => "no-collective",
            Self::TableFull => "table-full",
            Self::WrongDirection => "wrong-direction",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::AheadOfRange => "ahead-of-range",
            Self::Mismatch => "mismatch",
            Self::Disagreement => "disagreement",
            Self::BadAcknowledge => "bad-acknowledge",
            Self::Unreachable => "unreachable",
        }
    }
}
