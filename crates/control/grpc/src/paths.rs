//! What nodes find out about the paths between them, for whoever asks before a job or when it is slow.

use quincunx_units::{ByteCount, Duration};

/// Frames that are tried on a path: bytes of RoCE writes that are as long. The first stands for a frame as short as can be.
pub const PATH_SIZES: [usize; 6] = [0, 256, 512, 1024, 2048, 4096];

/// Frames of each size that are sent.
pub const FRAMES_OF_SIZE: u32 = 4;

/// What a node has found out, and what it is itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodePaths {
    /// Of its program.
    pub version: String,
    /// What may wait at its socket to be received, with what the kernel counts in of its own; none: nobody knows.
    pub receive_buffer: Option<ByteCount>,
    /// Of the interface that has its address, in bytes; none: nobody knows.
    pub mtu: Option<u32>,
    /// The Ethernet address of that interface, as a number; none: it has none, or nobody knows.
    pub mac: Option<u64>,
    /// Processors that it may run on.
    pub cores: u32,
    /// Its queue pairs are an RDMA device's: it has no socket, and finds out nothing.
    pub is_offloaded: bool,
    /// Nodes that it has still to send to.
    pub pending: u32,
    /// By the other node's number.
    pub paths: Vec<PathCounts>,
}

/// What came from another node, and what became of what went there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathCounts {
    /// Its number.
    pub peer: u32,
    /// Frames of it that have come, by size.
    pub sizes: [u32; PATH_SIZES.len()],
    /// Frames of its stream that have come, each counted once.
    pub stream: u32,
    /// Those that came again.
    pub doubled: u32,
    /// Those that a later one had passed.
    pub late: u32,
    /// UDP payload of the stream.
    pub bytes: u64,
    /// From its first frame to its last.
    pub time: Duration,
    /// Frames of the stream that were sent there; none if it was not sent yet.
    pub sent: u32,
    /// Questions that were answered from there, by size.
    pub answers: [u32; PATH_SIZES.len()],
    /// The shortest time that took; none if none was.
    pub round_trip: Option<Duration>,
    /// The Ethernet address at which the node's kernel finds it, as a number; none: it is behind a router, or nobody knows.
    pub neighbour: Option<u64>,
}

/// A node's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAnswer {
    /// What it says.
    pub paths: NodePaths,
    /// The same for all nodes of a machine; zero: nobody knows.
    pub machine: u64,
    /// By how many nanoseconds its clock is ahead of the manager's.
    pub ahead: i64,
    /// How wrong that may be, either way.
    pub error: u64,
}
