//! The parsed header of a RoCEv2 frame: who speaks to whom, the base transport header, and what the operation carries.
//!
//! An [`Operation`] holds exactly the extension headers that its opcode has, so a header that makes no sense on the
//! wire cannot be written down.

use crate::bth::BthRepr;
use crate::{Gid, Psn, QpNumber};

/// One end of a flow: `<IP, QP>` (EPIC 3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// Address of the host's NIC or of the switch.
    pub ip: Gid,
    /// Queue pair at that address.
    pub qp: QpNumber,
}

/// Where a packet stands in its message. A switch in the middle of a tree keeps it as it found it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

/// RDMA extended transport header: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reth {
    /// Virtual address at the responder.
    pub virtual_address: u64,
    /// Key of the memory region at the responder.
    pub remote_key: u32,
    /// Length of the whole message in bytes.
    pub dma_length: u32,
}

/// Atomic extended transport header: 28 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtomicEth {
    /// Virtual address at the responder.
    pub virtual_address: u64,
    /// Key of the memory region at the responder.
    pub remote_key: u32,
    /// What to swap in, or to add.
    pub swap_or_add: u64,
    /// What to compare with.
    pub compare: u64,
}

/// Datagram extended transport header: 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Deth {
    /// Key of the queue the packet is for.
    pub queue_key: u32,
    /// Queue pair the packet is from.
    pub source_qp: QpNumber,
}

/// Why a responder refuses (InfiniBand Architecture 9.7.5.2.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NakCode {
    /// A packet is missing: send again from the PSN in the header.
    SequenceError,
    /// The request makes no sense.
    InvalidRequest,
    /// The memory must not be written.
    RemoteAccess,
    /// The responder failed.
    RemoteOperational,
}

/// What an acknowledge says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// Everything up to this PSN has arrived; the 5-bit credit count (31: none is kept).
    Ack(u8),
    /// Receiver not ready: try again after the coded time (5 bits).
    ReceiverNotReady(u8),
    /// Negative.
    Nak(NakCode),
}

/// Acknowledge extended transport header: 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Aeth {
    /// What it says.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits.
    pub message_sequence: u32,
}

/// What a frame does, with exactly the extension headers that its opcode carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// SEND First, Middle, Last or Only.
    Send(Position),
    /// SEND Last with Immediate.
    SendLastImmediate(u32),
    /// SEND Only with Immediate.
    SendOnlyImmediate(u32),
    /// RDMA WRITE First.
    WriteFirst(Reth),
    /// RDMA WRITE Middle.
    WriteMiddle,
    /// RDMA WRITE Last.
    WriteLast,
    /// RDMA WRITE Last with Immediate.
    WriteLastImmediate(u32),
    /// RDMA WRITE Only.
    WriteOnly(Reth),
    /// RDMA WRITE Only with Immediate.
    WriteOnlyImmediate(Reth, u32),
    /// RDMA READ Request.
    ReadRequest(Reth),
    /// RDMA READ Response First.
    ReadResponseFirst(Aeth),
    /// RDMA READ Response Middle.
    ReadResponseMiddle,
    /// RDMA READ Response Last.
    ReadResponseLast(Aeth),
    /// RDMA READ Response Only.
    ReadResponseOnly(Aeth),
    /// Acknowledge, positive or negative.
    Acknowledge(Aeth),
    /// ATOMIC Acknowledge with the original value.
    AtomicAcknowledge(Aeth, u64),
    /// Compare and swap.
    CompareSwap(AtomicEth),
    /// Fetch and add.
    FetchAdd(AtomicEth),
    /// Unreliable datagram: SEND Only (opcode 0x64). Connection managers speak it; no queue pair here does.
    DatagramSendOnly(Deth),
    /// Unreliable datagram: SEND Only with Immediate (opcode 0x65). Ranks and switches speak of locks by it.
    DatagramSendOnlyImmediate(Deth, u32),
    /// Congestion notification packet (opcode 0x81; 16 reserved bytes follow the BTH).
    CongestionNotification,
}

/// The header of a RoCEv2 frame, everything the invariant CRC protects but the payload. Both addresses are of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RoceHeader {
    /// Sender's address.
    pub source: Gid,
    /// Receiver's address.
    pub destination: Gid,
    /// UDP source port: entropy for load balancing. The destination port is always 4791.
    pub source_port: u16,
    /// IP type-of-service byte: DSCP and ECN. Not protected by the invariant CRC.
    pub traffic_class: u8,
    /// Queue pair the frame is for.
    pub destination_qp: QpNumber,
    /// Partition key, 0xffff by default.
    pub partition_key: u16,
    /// Packet sequence number.
    pub psn: Psn,
    /// The sender asks for an acknowledge.
    pub acknowledge_request: bool,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state.
    pub migration: bool,
    /// Forward congestion bit of the BTH.
    pub forward_congestion: bool,
    /// Backward congestion bit of the BTH.
    pub backward_congestion: bool,
    /// What the frame does.
    pub operation: Operation,
}

impl RoceHeader {
    /// A header with everything but its meaning at the defaults: port 4791 both ways, default partition, no flags.
    pub const fn new(
        source: Gid,
        destination: Gid,
        destination_qp: QpNumber,
        psn: Psn,
        operation: Operation,
    ) -> Self {
        Self {
            source,
            destination,
            source_port: 4791,
            traffic_class: 0,
            destination_qp,
            partition_key: 0xffff,
            psn,
            acknowledge_request: false,
            solicited: false,
            migration: true,
            forward_congestion: false,
            backward_congestion: false,
            operation,
        }
    }

    /// What a BTH and an operation say, on a path of source, destination, source port and traffic class.
    pub(crate) fn of_bth(path: (Gid, Gid, u16, u8), bth: &BthRepr, operation: Operation) -> Self {
        let (source, destination, source_port, traffic_class) = path;
        Self {
            source,
            destination,
            source_port,
            traffic_class,
            destination_qp: bth.destination_qp,
            partition_key: bth.partition_key,
            psn: bth.psn,
            acknowledge_request: bth.acknowledge_request,
            solicited: bth.solicited,
            migration: bth.migration,
            forward_congestion: bth.forward_congestion,
            backward_congestion: bth.backward_congestion,
            operation,
        }
    }

    /// Lets the frame go before other traffic (RFC 3246: expedited forwarding).
    pub const fn expedite(&mut self) {
        self.traffic_class = self.traffic_class & ECN | EXPEDITED;
    }

    /// Whether the frame goes before other traffic.
    pub const fn is_expedited(&self) -> bool {
        self.traffic_class & !ECN == EXPEDITED
    }

    /// Lets switches mark the frame instead of dropping it (RFC 3168: ECT(0)).
    pub const fn allow_marks(&mut self) {
        self.traffic_class = self.traffic_class & !ECN | ECT_0;
    }

    /// Marks a frame that has met congestion, if its sender allows it (RFC 3168: CE). Returns whether it does.
    pub const fn mark_congestion(&mut self) -> bool {
        let allowed = self.traffic_class & ECN != 0;
        if allowed {
            self.traffic_class |= ECN;
        }
        allowed
    }

    /// Whether the frame was marked on its way.
    pub const fn has_met_congestion(&self) -> bool {
        self.traffic_class & ECN == ECN
    }
}

/// Expedited forwarding (RFC 3246), above the two ECN bits.
const EXPEDITED: u8 = 46 << 2;

/// The two bits of the traffic class that are ECN (RFC 3168); both set: congestion experienced.
const ECN: u8 = 3;

/// ECN-capable transport.
const ECT_0: u8 = 2;
