//! IPv6 header without extension headers, 40 bytes, of a datagram that carries UDP (RFC 8200). [`grh`](crate::grh) shows the layout,
//! which is that of a global route header.
//!
//! RoCE senders (the kernel's, for one) write UDP checksum 0 over IPv6, too, as RFC 6936 allows those whose payload has a stronger one.

use crate::ParseError;
use crate::grh::{GrhView, write};
use crate::ipv4::PROTOCOL_UDP;
use core::net::Ipv6Addr;

pub use crate::grh::LENGTH;

/// The next header of a fragment.
const FRAGMENT: u8 = 44;

/// Extension headers (RFC 8200, section 4; RFC 7045): hop-by-hop options, routing, ESP, AH, destination options, mobility, HIP, shim6, and the two
/// for experiments.
const EXTENSIONS: [u8; 10] = [0, 43, 50, 51, 60, 135, 139, 140, 253, 254];

/// The header of a whole datagram that carries UDP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ipv6Repr {
    /// Sender.
    pub source: Ipv6Addr,
    /// Receiver.
    pub destination: Ipv6Addr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Names the flow: 20 bits. Not protected by the invariant CRC.
    pub flow_label: u32,
    /// Hops left.
    pub hop_limit: u8,
    /// Bytes after the header.
    pub payload_length: u16,
}

impl Ipv6Repr {
    /// Reads the start of `bytes`; returns the datagram's payload, too, without any trailer. Anything but UDP is not for us, nor what says that it
    /// is between IPv4 addresses: as a [`Gid`](crate::Gid), `::ffff:a.b.c.d` is one.
    pub fn split(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (view, rest) = GrhView::split(bytes)?;
        if view.version() != 6 {
            return Err(ParseError::NotRoce);
        }
        match view.next_header() {
            PROTOCOL_UDP => {}
            FRAGMENT => return Err(ParseError::Fragment),
            other if EXTENSIONS.contains(&other) => return Err(ParseError::Ipv6Extension),
            _ => return Err(ParseError::NotRoce),
        }
        let repr = Self {
            source: view.source().into(),
            destination: view.destination().into(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            hop_limit: view.hop_limit(),
            payload_length: view.payload_length(),
        };
        if [repr.source, repr.destination].iter().any(|address| address.to_ipv4_mapped().is_some()) {
            return Err(ParseError::MappedAddress);
        }
        let payload = rest.get(..usize::from(repr.payload_length)).ok_or(ParseError::Truncated)?;
        Ok((repr, payload))
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; LENGTH]) {
        let Self { source, destination, traffic_class, flow_label, hop_limit, payload_length } = *self;
        write(
            out,
            [source, destination].map(|address| address.octets()),
            (traffic_class, flow_label),
            payload_length,
            (PROTOCOL_UDP, hop_limit),
        );
    }
}
