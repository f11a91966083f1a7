//! Opcodes, and the extension headers that each brings (InfiniBand Architecture, table 38; annex A17 for congestion
//! notification).

use crate::aeth::AethView;
use crate::atomic::AtomicEthView;
use crate::deth::DethView;
use crate::reth::RethView;
use crate::{Aeth, AtomicEth, Deth, Operation, ParseError, Position, Reth};
use crate::{aeth, atomic, congestion, deth, immediate, reth};

impl Operation {
    /// What a sender asks its peer by, where both know selective reliability: all packets up to the one with this number have been sent;
    /// which of them have not arrived? It has no payload, which no Middle of a message lacks (InfiniBand Architecture 9.4.3).
    pub const QUESTION: Self = Self::Send(Position::Middle);

    /// The opcode that says this operation.
    pub const fn opcode(&self) -> u8 {
        match self {
            Self::Send(Position::First) => 0x00,
            Self::Send(Position::Middle) => 0x01,
            Self::Send(Position::Last) => 0x02,
            Self::SendLastImmediate(_) => 0x03,
            Self::Send(Position::Only) => 0x04,
            Self::SendOnlyImmediate(_) => 0x05,
            Self::WriteFirst(_) => 0x06,
            Self::WriteMiddle => 0x07,
            Self::WriteLast => 0x08,
            Self::WriteLastImmediate(_) => 0x09,
            Self::WriteOnly(_) => 0x0a,
            Self::WriteOnlyImmediate(..) => 0x0b,
            Self::ReadRequest(_) => 0x0c,
            Self::ReadResponseFirst(_) => 0x0d,
            Self::ReadResponseMiddle => 0x0e,
            Self::ReadResponseLast(_) => 0x0f,
            Self::ReadResponseOnly(_) => 0x10,
            Self::Acknowledge(_) => 0x11,
            Self::AtomicAcknowledge(..) => 0x12,
            Self::CompareSwap(_) => 0x13,
            Self::FetchAdd(_) => 0x14,
            Self::DatagramSendOnly(_) => 0x64,
            Self::DatagramSendOnlyImmediate(..) => 0x65,
            Self::CongestionNotification => 0x81,
        }
    }

    /// Bytes between the BTH and the payload.
    pub const fn extension_length(&self) -> usize {
        match self {
            Self::Send(_) | Self::WriteMiddle | Self::WriteLast | Self::ReadResponseMiddle => 0,
            Self::SendLastImmediate(_) | Self::SendOnlyImmediate(_) | Self::WriteLastImmediate(_) => {
                immediate::LENGTH
            }
            Self::WriteFirst(_) | Self::WriteOnly(_) | Self::ReadRequest(_) => reth::LENGTH,
            Self::WriteOnlyImmediate(..) => reth::LENGTH + immediate::LENGTH,
            Self::ReadResponseFirst(_)
            | Self::ReadResponseLast(_)
            | Self::ReadResponseOnly(_)
            | Self::Acknowledge(_) => aeth::LENGTH,
            Self::AtomicAcknowledge(..) => aeth::LENGTH + atomic::ACKNOWLEDGE_LENGTH,
            Self::CompareSwap(_) | Self::FetchAdd(_) => atomic::LENGTH,
            Self::DatagramSendOnly(_) => deth::LENGTH,
            Self::DatagramSendOnlyImmediate(..) => deth::LENGTH + immediate::LENGTH,
            Self::CongestionNotification => congestion::LENGTH,
        }
    }

    /// Whether a payload, perhaps an empty one, follows the headers.
    pub const fn carries_payload(&self) -> bool {
        !matches!(
            self,
            Self::ReadRequest(_)
                | Self::Acknowledge(_)
                | Self::AtomicAcknowledge(..)
                | Self::CompareSwap(_)
                | Self::FetchAdd(_)
                | Self::CongestionNotification
        )
    }

    /// The operation that `opcode` says, with its extension headers from the start of `bytes`; and what follows.
    pub(crate) fn split(opcode: u8, bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        Ok(match opcode {
            0x00 => (Self::Send(Position::First), bytes),
            0x01 => (Self::Send(Position::Middle), bytes),
            0x02 => (Self::Send(Position::Last), bytes),
            0x03 => with(immediate::split(bytes)?, Self::SendLastImmediate),
            0x04 => (Self::Send(Position::Only), bytes),
            0x05 => with(immediate::split(bytes)?, Self::SendOnlyImmediate),
            0x06 => with(split_reth(bytes)?, Self::WriteFirst),
            0x07 => (Self::WriteMiddle, bytes),
            0x08 => (Self::WriteLast, bytes),
            0x09 => with(immediate::split(bytes)?, Self::WriteLastImmediate),
            0x0a => with(split_reth(bytes)?, Self::WriteOnly),
            0x0b => {
                let (reth, rest) = split_reth(bytes)?;
                with(immediate::split(rest)?, |data| Self::WriteOnlyImmediate(reth, data))
            }
            0x0c => with(split_reth(bytes)?, Self::ReadRequest),
            0x0d => with(split_aeth(bytes)?, Self::ReadResponseFirst),
            0x0e => (Self::ReadResponseMiddle, bytes),
            0x0f => with(split_aeth(bytes)?, Self::ReadResponseLast),
            0x10 => with(split_aeth(bytes)?, Self::ReadResponseOnly),
            0x11 => with(split_aeth(bytes)?, Self::Acknowledge),
            0x12 => {
                let (aeth, rest) = split_aeth(bytes)?;
                with(atomic::split_original_value(rest)?, |value| Self::AtomicAcknowledge(aeth, value))
            }
            0x13 => with(split_atomic(bytes)?, Self::CompareSwap),
            0x14 => with(split_atomic(bytes)?, Self::FetchAdd),
            0x64 => {
                let (view, rest) = DethView::split(bytes)?;
                (Self::DatagramSendOnly(Deth::parse(&view)), rest)
            }
            0x65 => {
                let (view, rest) = DethView::split(bytes)?;
                let deth = Deth::parse(&view);
                with(immediate::split(rest)?, |data| Self::DatagramSendOnlyImmediate(deth, data))
            }
            0x81 => (Self::CongestionNotification, congestion::split(bytes)?),
            _ => return Err(ParseError::UnknownOpcode),
        })
    }

    /// Writes the extension headers to the start of `out`, which holds `extension_length` bytes or more.
    pub(crate) fn emit_extension(&self, out: &mut [u8]) {
        match self {
            Self::Send(_) | Self::WriteMiddle | Self::WriteLast | Self::ReadResponseMiddle => {}
            Self::SendLastImmediate(data)
            | Self::SendOnlyImmediate(data)
            | Self::WriteLastImmediate(data) => {
                immediate::emit(*data, out);
            }
            Self::WriteFirst(reth) | Self::WriteOnly(reth) | Self::ReadRequest(reth) => reth.emit(out),
            Self::WriteOnlyImmediate(reth, data) => {
                reth.emit(out);
                immediate::emit(*data, &mut out[reth::LENGTH..]);
            }
            Self::ReadResponseFirst(aeth)
            | Self::ReadResponseLast(aeth)
            | Self::ReadResponseOnly(aeth)
            | Self::Acknowledge(aeth) => aeth.emit(out),
            Self::AtomicAcknowledge(aeth, value) => {
                aeth.emit(out);
                atomic::emit_original_value(*value, &mut out[aeth::LENGTH..]);
            }
            Self::CompareSwap(atomic) | Self::FetchAdd(atomic) => atomic.emit(out),
            Self::DatagramSendOnly(deth) => deth.emit(out),
            Self::DatagramSendOnlyImmediate(deth, data) => {
                deth.emit(out);
                immediate::emit(*data, &mut out[deth::LENGTH..]);
            }
            Self::CongestionNotification => congestion::emit(out),
        }
    }
}

fn with<T>((field, rest): (T, &[u8]), make: impl FnOnce(T) -> Operation) -> (Operation, &[u8]) {
    (make(field), rest)
}

fn split_reth(bytes: &[u8]) -> Result<(Reth, &[u8]), ParseError> {
    let (view, rest) = RethView::split(bytes)?;
    Ok((Reth::parse(&view), rest))
}

fn split_aeth(bytes: &[u8]) -> Result<(Aeth, &[u8]), ParseError> {
    let (view, rest) = AethView::split(bytes)?;
    Ok((Aeth::parse(&view)?, rest))
}

fn split_atomic(bytes: &[u8]) -> Result<(AtomicEth, &[u8]), ParseError> {
    let (view, rest) = AtomicEthView::split(bytes)?;
    Ok((AtomicEth::parse(&view), rest))
}
