//! Operations of packets: the requester's choice of opcode, and what an opcode means to the responder.

use quincunx_engine::verbs::{SendRequest, Verb};
use quincunx_wire::{Operation, Position, Reth};

/// The operation of a packet that `is_first` or `is_last`, or both, of `request`'s message.
pub(crate) fn operation(request: &SendRequest, is_first: bool, is_last: bool) -> Operation {
    match request.verb {
        Verb::Send => match (is_first, is_last, request.immediate) {
            (true, true, Some(immediate)) => Operation::SendOnlyImmediate(immediate),
            (true, true, None) => Operation::Send(Position::Only),
            (true, false, _) => Operation::Send(Position::First),
            (false, false, _) => Operation::Send(Position::Middle),
            (false, true, Some(immediate)) => Operation::SendLastImmediate(immediate),
            (false, true, None) => Operation::Send(Position::Last),
        },
        Verb::Write { remote_address, remote_key } => {
            let reth = Reth {
                virtual_address: remote_address,
                remote_key,
                dma_length: request.source.length as u32,
            };
            match (is_first, is_last, request.immediate) {
                (true, true, Some(immediate)) => Operation::WriteOnlyImmediate(reth, immediate),
                (true, true, None) => Operation::WriteOnly(reth),
                (true, false, _) => Operation::WriteFirst(reth),
                (false, false, _) => Operation::WriteMiddle,
                (false, true, Some(immediate)) => Operation::WriteLastImmediate(immediate),
                (false, true, None) => Operation::WriteLast,
            }
        }
    }
}

/// What kind of message a request packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Consumes a receive request.
    Send,
    /// Writes to memory; the first packet says where.
    Write(Option<Reth>),
}

/// A packet of a Send or Write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    pub(crate) immediate: Option<u32>,
}

impl Request {
    /// What `operation` asks of a responder; `None` for Reads and atomics, which are not offered, and for anything
    /// that is no request.
    pub(crate) const fn from_operation(operation: Operation) -> Option<Self> {
        let (kind, is_first, is_last, immediate) = match operation {
            Operation::Send(Position::First) => (Kind::Send, true, false, None),
            Operation::Send(Position::Middle) => (Kind::Send, false, false, None),
            Operation::Send(Position::Last) => (Kind::Send, false, true, None),
            Operation::Send(Position::Only) => (Kind::Send, true, true, None),
            Operation::SendLastImmediate(immediate) => (Kind::Send, false, true, Some(immediate)),
            Operation::SendOnlyImmediate(immediate) => (Kind::Send, true, true, Some(immediate)),
            Operation::WriteFirst(reth) => (Kind::Write(Some(reth)), true, false, None),
            Operation::WriteMiddle => (Kind::Write(None), false, false, None),
            Operation::WriteLast => (Kind::Write(None), false, true, None),
            Operation::WriteLastImmediate(immediate) => (Kind::Write(None), false, true, Some(immediate)),
            Operation::WriteOnly(reth) => (Kind::Write(Some(reth)), true, true, None),
            Operation::WriteOnlyImmediate(reth, immediate) => {
                (Kind::Write(Some(reth)), true, true, Some(immediate))
            }
            _ => return None,
        };
        Some(Self { kind, is_first, is_last, immediate })
    }

    /// Whether the packet ends a message that consumes a receive request.
    pub(crate) const fn completes_receive(&self) -> bool {
        self.is_last && (matches!(self.kind, Kind::Send) || self.immediate.is_some())
    }
}
