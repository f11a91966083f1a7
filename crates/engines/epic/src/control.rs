//! The control message: 32 bits of immediate data that tell every node of the IncTree which collective follows
//! (EPIC 3.3.2, "Control Signaling": collective type, root, data size).
//!
//! ```text
//!  31 30 | 29 .. 27 | 26 .. 23 | 22 .. 13 | 12 .. 0
//! pattern|    op    |   type   |   root   | data packets
//! ```

use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};

/// The largest number of ranks in a group: 10 bits name the root.
pub const MAX_RANKS: u16 = 1 << 10;

/// The largest number of data packets that one control message announces; CommLib splits what is longer.
pub const MAX_DATA_PACKETS: u16 = (1 << 13) - 1;

/// How data flows over the IncTree; everything else is made of these three (EPIC 3.1, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pattern {
    /// Up from all ranks to the tree's root, and down to all.
    AllReduce,
    /// From all other ranks to one.
    Reduce {
        /// The receiver.
        root: Rank,
    },
    /// From one rank to all others.
    Broadcast {
        /// The sender.
        root: Rank,
    },
}

/// What a control message says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ControlMessage {
    /// The flow.
    pub pattern: Pattern,
    /// How elements combine; meaningless for Broadcast.
    pub reduction: Reduction,
    /// Data packets that follow, which with the PSN of the control message gives the valid PSN range.
    pub data_packets: u16,
}

impl ControlMessage {
    /// The 32 bits.
    pub fn encode(self) -> u32 {
        let (pattern, root) = match self.pattern {
            Pattern::AllReduce => (0, Rank(0)),
            Pattern::Reduce { root } => (1, root),
            Pattern::Broadcast { root } => (2, root),
        };
        debug_assert!(root.0 < MAX_RANKS && self.data_packets <= MAX_DATA_PACKETS);
        // The numbers of operations and types are those of their lists.
        pattern << 30
            | (self.reduction.op as u32) << 27
            | (self.reduction.data_type as u32) << 23
            | u32::from(root.0 & (MAX_RANKS - 1)) << 13
            | u32::from(self.data_packets & MAX_DATA_PACKETS)
    }

    /// What the 32 bits say; `None` for a pattern, an operation or a type that does not exist, or an operation that is not defined for
    /// the type.
    pub fn decode(immediate: u32) -> Option<Self> {
        let root = Rank((immediate >> 13) as u16 & (MAX_RANKS - 1));
        let pattern = match immediate >> 30 {
            0 if root.0 == 0 => Pattern::AllReduce,
            1 => Pattern::Reduce { root },
            2 => Pattern::Broadcast { root },
            _ => return None,
        };
        let op = *ReduceOp::ALL.get((immediate >> 27 & 7) as usize)?;
        let data_type = *DataType::ALL.get((immediate >> 23 & 15) as usize)?;
        let reduction = Reduction { op, data_type };
        let data_packets = immediate as u16 & MAX_DATA_PACKETS;
        reduction.is_defined().then_some(Self { pattern, reduction, data_packets })
    }

    /// Bytes that each packet has a multiple of: elements are added up packet by packet.
    pub const fn grain(&self) -> usize {
        match self.pattern {
            Pattern::AllReduce | Pattern::Reduce { .. } => self.reduction.data_type.size(),
            Pattern::Broadcast { .. } => 1,
        }
    }
}
