//! The control message: 32 bits of immediate data that tell every node of the IncTree which collective follows
//! (EPIC 3.3.2, "Control Signaling": collective type, root, data size).
//!
//! ```text
//!  31 30 | 29 .. 27 | 26 .. 23 | 22 .. 13 | 12 .. 0
//! pattern|    op    |   type   |   root   | data packets
//!    3   |                  digest
//! ```
//!
//! An AllReduce has no root, and says in its place what else ranks must agree on. So does a ReduceScatter or AllGather that is one: an
//! AllGather adds each rank's part to zeros of the others, bit by bit, and says operation BitOr of its own type. Pattern 3 is a confirmation: it flows as an AllReduce of
//! nothing does, so that its arrival says that all ranks have sent the same one.

use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;

/// The largest number of ranks in a group: 10 bits name the root.
pub const MAX_RANKS: u16 = 1 << 10;

/// The largest number of data packets that one control message announces; CommLib splits what is longer.
pub const MAX_DATA_PACKETS: u16 = (1 << 13) - 1;

// What an AllReduce says in place of a root: its terms, and the four bits that follow.
const _: () = assert!(MAX_RANKS == 1 << (Terms::BITS + 4));

/// Further invocations belong to it.
pub(crate) const CONTINUES: u16 = 1 << Terms::BITS;

/// It is a Barrier.
pub(crate) const IS_BARRIER: u16 = 1 << (Terms::BITS + 1);

/// It is a ReduceScatter: of the sum each rank takes its part.
pub(crate) const SCATTERS: u16 = 1 << (Terms::BITS + 2);

/// It is an AllGather.
const GATHERS: u16 = 1 << (Terms::BITS + 3);

/// How an AllGather's parts combine with others' zeros.
const BY_BITS: Reduction = Reduction { op: ReduceOp::BitOr, data_type: DataType::U8 };

/// Bits of the digest in a confirmation.
pub(crate) const DIGEST_BITS: u32 = 30;

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
    /// What else ranks must agree on.
    pub agreement: Agreement,
}

/// What ranks must agree on beside a flow and its data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Agreement {
    /// Nothing: a confirmation follows. So it is in each Reduce and Broadcast.
    Follows,
    /// Of an AllReduce, from the highest of 9 bits down: whether it is a ReduceScatter, whether a Barrier, whether further invocations belong
    /// to it, and its terms.
    Detail(u16),
    /// Of an AllGather that is an AllReduce: the same, and the type of its elements.
    Gathers(u16, DataType),
    /// This is a confirmation: the digest of all that ranks must agree on, in 30 bits.
    Confirmation(u32),
}

impl ControlMessage {
    /// A confirmation, with what its digest is of.
    pub fn confirmation(digest: u32) -> Self {
        let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        let agreement = Agreement::Confirmation(digest);
        Self { pattern: Pattern::AllReduce, reduction, data_packets: 0, agreement }
    }

    /// The AllReduce by which a vector in so many packets is gathered.
    pub fn gather(detail: u16, data_type: DataType, data_packets: u16) -> Self {
        let agreement = Agreement::Gathers(detail, data_type);
        Self { pattern: Pattern::AllReduce, reduction: BY_BITS, data_packets, agreement }
    }

    /// The 32 bits.
    pub fn encode(self) -> u32 {
        let data_type = match self.agreement {
            Agreement::Gathers(_, data_type) => data_type,
            _ => self.reduction.data_type,
        };
        let (pattern, root) = match (self.pattern, self.agreement) {
            (_, Agreement::Confirmation(digest)) => return 3 << DIGEST_BITS | digest,
            (_, Agreement::Gathers(detail, _)) => (0, Rank(detail | GATHERS)),
            (Pattern::AllReduce, Agreement::Detail(detail)) => (0, Rank(detail)),
            (Pattern::AllReduce, Agreement::Follows) => (0, Rank(0)),
            (Pattern::Reduce { root }, _) => (1, root),
            (Pattern::Broadcast { root }, _) => (2, root),
        };
        debug_assert!(root.0 < MAX_RANKS && self.data_packets <= MAX_DATA_PACKETS);
        // The numbers of operations and types are those of their lists.
        pattern << 30
            | (self.reduction.op as u32) << 27
            | (data_type as u32) << 23
            | u32::from(root.0 & (MAX_RANKS - 1)) << 13
            | u32::from(self.data_packets & MAX_DATA_PACKETS)
    }

    /// What the 32 bits say; `None` for a pattern, an operation or a type that does not exist, or an operation that is not defined for
    /// the type.
    pub fn decode(immediate: u32) -> Option<Self> {
        if immediate >> DIGEST_BITS == 3 {
            return Some(Self::confirmation(immediate & ((1 << DIGEST_BITS) - 1)));
        }
        let root = Rank((immediate >> 13) as u16 & (MAX_RANKS - 1));
        let op = *ReduceOp::ALL.get((immediate >> 27 & 7) as usize)?;
        let data_type = *DataType::ALL.get((immediate >> 23 & 15) as usize)?;
        let data_packets = immediate as u16 & MAX_DATA_PACKETS;
        let (pattern, agreement) = match immediate >> 30 {
            0 if root.0 & GATHERS != 0 => {
                let message = Self::gather(root.0 & !GATHERS, data_type, data_packets);
                return (op == ReduceOp::BitOr && root.0 & SCATTERS == 0).then_some(message);
            }
            0 => (Pattern::AllReduce, Agreement::Detail(root.0)),
            1 => (Pattern::Reduce { root }, Agreement::Follows),
            2 => (Pattern::Broadcast { root }, Agreement::Follows),
            _ => unreachable!("three is a confirmation"),
        };
        let reduction = Reduction { op, data_type };
        reduction.is_defined().then_some(Self { pattern, reduction, data_packets, agreement })
    }

    /// Whether a packet of the collective may carry so many bytes of data, with a path's `mtu`; a confirmation carries none.
    pub(crate) fn may_carry(&self, length: usize, mtu: usize) -> bool {
        let most = if matches!(self.agreement, Agreement::Confirmation(_)) { 0 } else { mtu };
        length <= most && length.is_multiple_of(self.grain())
    }

    /// Bytes that each packet has a multiple of: elements are added up packet by packet.
    pub const fn grain(&self) -> usize {
        match self.pattern {
            Pattern::AllReduce | Pattern::Reduce { .. } => self.reduction.data_type.size(),
            Pattern::Broadcast { .. } => 1,
        }
    }
}
