//! Why bytes are not a RoCEv2 frame that we take. A driver counts frames it drops by these reasons.

/// Why bytes were refused. The order of the checks is the order on the wire, but the invariant CRC comes before
/// everything that it protects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum ParseError {
    /// Shorter than its headers or its own length fields say.
    #[error("expected all the bytes that the headers announce, found fewer: the frame was cut short")]
    Truncated,
    /// Longer than a datagram of either family can be.
    #[error("expected at most 65,507 bytes after the UDP header, found more: this was never one datagram")]
    TooLong,
    /// Not IP, not UDP, or not to port 4791.
    #[error("expected IP and UDP to port 4791, found other traffic")]
    NotRoce,
    /// IPv4 options, which no RoCE sender uses.
    #[error("expected an IPv4 header of 20 bytes, found options")]
    Ipv4Options,
    /// IPv6 extension headers, which no RoCE sender uses.
    #[error("expected UDP right behind the IPv6 header, found an extension header")]
    Ipv6Extension,
    /// A sender of one IP family and a receiver of the other.
    #[error("expected two addresses of one IP family, found IPv4 and IPv6: name both ends by the same")]
    TwoFamilies,
    /// An IPv4 address in an IPv6 header, where there is none to be.
    #[error(
        "expected IPv6 addresses in an IPv6 header, found ::ffff:a.b.c.d: send what is for IPv4 over IPv4"
    )]
    MappedAddress,
    /// A fragment: RoCE datagrams travel whole.
    #[error("expected a whole IP datagram, found a fragment: the path's MTU is too small")]
    Fragment,
    /// The IPv4 header checksum does not match.
    #[error("expected the IPv4 header checksum to match, found another: the header is damaged")]
    WrongIpv4Checksum,
    /// The UDP length disagrees with the IP length.
    #[error("expected the UDP length to fill the IP datagram, found another")]
    WrongUdpLength,
    /// The invariant CRC does not match.
    #[error(
        "expected the invariant CRC to match, found another: damaged, or sent from another address or IP id"
    )]
    WrongIcrc,
    /// A transport header version other than 0.
    #[error("expected transport header version 0, found another")]
    BadVersion,
    /// An opcode that has no [`Operation`](crate::Operation).
    #[error("expected an opcode of RoCE reliable connections, found another")]
    UnknownOpcode,
    /// An acknowledge syndrome without a meaning.
    #[error("expected an acknowledge syndrome with a meaning, found a reserved one")]
    UnknownSyndrome,
    /// More pad than payload, or a length that is not whole words.
    #[error("expected a payload padded to whole 4-byte words, found another length")]
    BadPad,
    /// Payload after an operation that carries none.
    #[error("expected no payload after this opcode, found some")]
    UnexpectedPayload,
}
