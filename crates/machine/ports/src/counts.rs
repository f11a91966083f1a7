//! What a port counts: frames that pass, and those that do not.

use std::collections::BTreeMap;

/// Why a frame went no further than a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortDrop {
    /// It was longer than the MTU of the port that it should have left by.
    TooLong,
    /// It came faster than it was taken: the receive buffer of its port was full.
    ReceiveBufferFull,
    /// What waits at the port that it should have left by is as much as may.
    QueueFull,
    /// The link that it should have left by is down.
    Down,
    /// It is for the port that it came by.
    SamePort,
    /// Frames for such addresses stay on their link (IEEE 802.1D).
    LinkLocal,
    /// It says to be from several, or from this machine.
    ForeignSource,
    /// The kernel or the interface has merged it with others in a way that cannot be undone: large receive offload.
    Unreadable,
    /// It is no whole frame.
    Malformed,
    /// The kernel would not send it.
    Refused,
}

/// Frames that passed a port one way: as many as on a wire, whatever the kernel merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortTraffic {
    /// How many.
    pub frames: u64,
    /// Bytes of them from their Ethernet headers on; merged ones have one such head.
    pub bytes: u64,
}

/// What a port has counted since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortCounts {
    /// What its frames come and go by, in words: with XDP sockets also where their program runs and whether frames are copied.
    pub sockets: String,
    /// What came in.
    pub received: PortTraffic,
    /// What left.
    pub sent: PortTraffic,
    /// What went no further.
    pub dropped: BTreeMap<PortDrop, u64>,
}
