//! Why a packet is dropped: always a peer's fault, never more than a count.

use crate::PortFault;

/// Why a node of the memory fabric drops a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemoryDrop {
    /// The peer of the link broke the rules of credits.
    Port(PortFault),
    /// For no node that can be reached here.
    NoRoute,
    /// Outside the memory, or a word that is not there.
    NoSuchAddress,
    /// A length that no packet may have.
    BadLength,
    /// A response that nobody waits for.
    UnexpectedResponse,
    /// A transaction that this node does not serve.
    UnexpectedTransaction,
}

impl From<PortFault> for MemoryDrop {
    fn from(fault: PortFault) -> Self {
        Self::Port(fault)
    }
}
