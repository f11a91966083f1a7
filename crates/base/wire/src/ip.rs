//! The IP header of either family, as what is above it sees it: two addresses of one family, a traffic class, a length.

use crate::ipv4::{self, Ipv4Repr};
use crate::ipv6::{self, Ipv6Repr};
use crate::{Gid, ParseError, UdpPath, udp};
use core::net::IpAddr;

/// The header of a whole datagram that carries UDP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpRepr {
    /// IPv4 without options.
    V4(Ipv4Repr),
    /// IPv6 without extension headers.
    V6(Ipv6Repr),
}

impl IpRepr {
    /// The header that a datagram sent through a socket has whose UDP payload is `length` bytes: over IPv4 identification 0 and "don't
    /// fragment".
    ///
    /// # Errors
    /// If the addresses are of two families.
    #[inline]
    pub fn of_socket(path: &UdpPath, length: usize) -> Result<Self, ParseError> {
        let payload_length = udp::LENGTH + length;
        let traffic_class = path.traffic_class;
        match (path.source.address(), path.destination.address()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Self::V4(Ipv4Repr {
                source,
                destination,
                traffic_class,
                identification: 0,
                dont_fragment: true,
                time_to_live: u8::MAX,
                total_length: (ipv4::LENGTH + payload_length) as u16,
            })),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Self::V6(Ipv6Repr {
                source,
                destination,
                traffic_class,
                flow_label: 0,
                hop_limit: u8::MAX,
                payload_length: payload_length as u16,
            })),
            _ => Err(ParseError::TwoFamilies),
        }
    }

    /// Sender and receiver.
    #[inline]
    pub fn addresses(&self) -> (Gid, Gid) {
        match self {
            Self::V4(ip) => (ip.source.into(), ip.destination.into()),
            Self::V6(ip) => (ip.source.into(), ip.destination.into()),
        }
    }

    /// DSCP and ECN.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.traffic_class,
            Self::V6(ip) => ip.traffic_class,
        }
    }
}

/// Bytes of the header of an address's family.
#[inline]
pub const fn header_length(address: Gid) -> usize {
    if address.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH }
}
