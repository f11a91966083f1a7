//! The control message: 32 bits of immediate data that tell every node of the IncTree which collective follows
//! (EPIC 3.3.2, "Control Signaling": collective type, root, data size).
//!
//! ```text
//!  31 30 | 29 28 | 27 26 | 25 .. 16 | 15 .. 0
//! pattern|  op   | type  |   root   | data packets
//! ```

use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};

/// The largest number of ranks in a group: 10 bits name the root.
pub const MAX_RANKS: u16 = 1 << 10;

/// The largest number of data packets that one control message announces; CommLib splits what is longer.
pub const MAX_DATA_PACKETS: u16 = u16::MAX;

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
        let op = match self.reduction.op {
            ReduceOp::Sum => 0,
            ReduceOp::Min => 1,
            ReduceOp::Max => 2,
        };
        let data_type = match self.reduction.data_type {
            DataType::F32 => 0,
            DataType::F16 => 1,
            DataType::Bf16 => 2,
            DataType::I32 => 3,
        };
        debug_assert!(root.0 < MAX_RANKS);
        pattern << 30
            | op << 28
            | data_type << 26
            | u32::from(root.0 & (MAX_RANKS - 1)) << 16
            | u32::from(self.data_packets)
    }

    /// What the 32 bits say; `None` for a pattern or an operation that does not exist.
    pub fn decode(immediate: u32) -> Option<Self> {
        let root = Rank((immediate >> 16) as u16 & (MAX_RANKS - 1));
        let pattern = match immediate >> 30 {
            0 if root.0 == 0 => Pattern::AllReduce,
            1 => Pattern::Reduce { root },
            2 => Pattern::Broadcast { root },
            _ => return None,
        };
        let op = match immediate >> 28 & 3 {
            0 => ReduceOp::Sum,
            1 => ReduceOp::Min,
            2 => ReduceOp::Max,
            _ => return None,
        };
        let data_type = match immediate >> 26 & 3 {
            0 => DataType::F32,
            1 => DataType::F16,
            2 => DataType::Bf16,
            _ => DataType::I32,
        };
        Some(Self { pattern, reduction: Reduction { op, data_type }, data_packets: immediate as u16 })
    }
}
