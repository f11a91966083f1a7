//! What can happen to a node, by number.

use quincunx_engine::PortId;

use crate::interned::Id;

/// Marks a frame that is late: it arrives at any time, however long after others, or after time-outs.
pub(crate) const LATE: u32 = 1 << 29;

/// What moves the clock on, as an arrival at a node.
pub(crate) const CLOCK: u32 = 6 << 29;

/// What can happen to a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Input {
    /// A frame arrives.
    Frame(Id),
    /// A frame arrives late: to the node it is one like others.
    Late(Id),
    /// A timer fires.
    Timer(Id),
    /// A port takes a frame.
    Slot(PortId),
    /// The owner asks for what it wants.
    Command,
    /// The owner gets a notice of the control plane.
    Notice(u8),
    /// The clock moves on.
    Clock,
}

impl Input {
    pub(crate) fn encode(self) -> u32 {
        match self {
            Self::Frame(id) => id,
            Self::Late(id) => LATE | id,
            Self::Timer(id) => 2 << 29 | id,
            Self::Slot(port) => 3 << 29 | u32::from(port.0),
            Self::Command => 4 << 29,
            Self::Notice(notice) => 5 << 29 | u32::from(notice),
            Self::Clock => CLOCK,
        }
    }

    pub(crate) fn decode(code: u32) -> Self {
        let value = code & (LATE - 1);
        match code >> 29 {
            0 => Self::Frame(value),
            1 => Self::Late(value),
            2 => Self::Timer(value),
            3 => Self::Slot(PortId(value as u16)),
            4 => Self::Command,
            5 => Self::Notice(value as u8),
            _ => Self::Clock,
        }
    }

    /// The frame that arrives, if one does.
    pub(crate) fn frame(self) -> Option<Id> {
        match self {
            Self::Frame(id) | Self::Late(id) => Some(id),
            _ => None,
        }
    }

    /// What may come to a node at a time that the node does not choose: a frame, or that the clock moves on.
    pub(crate) fn arrival(self) -> Option<u32> {
        matches!(self, Self::Frame(_) | Self::Late(_) | Self::Clock).then(|| self.encode())
    }

    /// The input to which every node answers the same.
    pub(crate) fn twin(self) -> Option<Self> {
        match self {
            Self::Frame(id) => Some(Self::Late(id)),
            Self::Late(id) => Some(Self::Frame(id)),
            _ => None,
        }
    }
}
