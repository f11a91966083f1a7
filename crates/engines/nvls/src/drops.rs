//! Why packets are dropped by the multicast unit.

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MulticastDrop {
    /// Not from a member, or not from the member at that port.
    Source,
    /// A length that no packet may have, or elements cut in two.
    BadLength,
    /// A contribution to a sum that has one of this member already, or is of another length than the others'.
    Contribution,
    /// A response that nobody waits for.
    UnexpectedResponse,
    /// A transaction that it does not serve.
    UnexpectedTransaction,
}

impl MulticastDrop {
    /// For those who count drops by their reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Source => "not from the member at that port",
            Self::BadLength => "a length that the multicast unit does not take",
            Self::Contribution => "a contribution that the multicast unit has, or of another length",
            Self::UnexpectedResponse => "a response that the multicast unit does not wait for",
            Self::UnexpectedTransaction => "a transaction that the multicast unit does not serve",
        }
    }
}
