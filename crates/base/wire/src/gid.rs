//! Addresses as RoCE knows them: GIDs of 16 bytes.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv6Addr};

/// An IP address as RoCE v2 has it (InfiniBand Architecture, annex A17): 16 bytes, an IPv4 address as `::ffff:a.b.c.d`.
///
/// That prefix is its family: a bit beside it would say the same again, and could say otherwise. So such an address is IPv4 wherever it is read.
/// IPv6 headers never carry one (RFC 6890, table 20): [`parse_frame`](crate::parse_frame) refuses them, so that a frame that is read and written
/// again keeps its version.
///
/// Shown as people write addresses: `10.0.0.1`, `fd00::1`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gid([u8; 16]);

impl Gid {
    /// That of an address.
    #[inline]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => Self(address.octets()),
        }
    }

    /// Whether it is an IPv4 address.
    #[inline]
    pub const fn is_ipv4(self) -> bool {
        self.to_bits() >> 32 == 0xffff
    }

    /// The address that it is.
    #[inline]
    pub const fn address(self) -> IpAddr {
        Ipv6Addr::from_octets(self.0).to_canonical()
    }

    /// As it is on the wire.
    #[inline]
    pub const fn octets(self) -> [u8; 16] {
        self.0
    }

    /// As one number. An IPv4 address is its last 32 bits.
    #[inline]
    pub const fn to_bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl<A: Into<IpAddr>> From<A> for Gid {
    #[inline]
    fn from(address: A) -> Self {
        Self::of(address.into())
    }
}

// As one number: byte by byte takes longer, and every packet is looked up by its addresses.
impl Ord for Gid {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl PartialOrd for Gid {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Gid {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.to_bits());
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(out)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(out)
    }
}
