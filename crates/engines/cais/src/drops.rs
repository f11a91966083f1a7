//! Why packets are dropped by the merge unit.

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MergeDrop {
    /// Not from the accelerator at that port.
    Source,
    /// For no accelerator here, or for the one that sends it.
    Home,
    /// A length that no packet may have, or elements cut in two.
    BadLength,
    /// A number of contributions that cannot be.
    Contributions,
    /// A response that nobody waits for.
    UnexpectedResponse,
    /// A sync of one who has come already, or of no stream.
    Sync,
    /// A transaction that it does not serve.
    UnexpectedTransaction,
}

impl MergeDrop {
    /// For those who count drops by their reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Source => "not from the accelerator at that port",
            Self::Home => "a request whose home is not another accelerator",
            Self::BadLength => "a length that the merge unit does not take",
            Self::Contributions => "a number of contributions that cannot be",
            Self::UnexpectedResponse => "a response that the merge unit does not wait for",
            Self::Sync => "a sync of one who waits already, or of no stream",
            Self::UnexpectedTransaction => "a transaction that the merge unit does not serve",
        }
    }
}
