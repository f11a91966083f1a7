//! What is known of a datagram beside its bytes.

use crate::{Gid, RoceHeader};

/// What a UDP socket tells about a datagram beside its bytes: addresses of one family. The destination port is always 4791.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UdpPath {
    /// Sender's address.
    pub source: Gid,
    /// Receiver's address.
    pub destination: Gid,
    /// Sender's port.
    pub source_port: u16,
    /// DSCP and ECN.
    pub traffic_class: u8,
}

impl UdpPath {
    /// That of a frame with this header.
    #[inline]
    pub const fn of(header: &RoceHeader) -> Self {
        Self {
            source: header.source,
            destination: header.destination,
            source_port: header.source_port,
            traffic_class: header.traffic_class,
        }
    }
}
