//! Which interface leads to a neighbour: what the kernel's routing table answers, or a bridge's table of addresses where somebody has
//! written it (rtnetlink). Only who administers the machine changes these; no frame of a peer does.

use nix::errno::Errno;
use nix::libc;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, send, setsockopt,
    socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// How long the kernel may take; it answers within the call that asks.
const LIMIT_MS: i64 = 1000;

/// A piece of an answer of several.
const PIECE: usize = 1 << 15;

const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const DESTINATION: u16 = 1;
const OUT_INTERFACE: u16 = 4;
const LINK_ADDRESS: u16 = 2;
const MASTER: u16 = 9;

/// Of a bridge's entry: somebody has written it, no frame has.
const STATIC: u16 = 0x40;

/// Of a neighbour that is known: it answers, or did, or somebody has written it (NUD_REACHABLE to NUD_PROBE, NUD_NOARP, NUD_PERMANENT).
const KNOWN: u16 = 0xde;

/// Of one that somebody has written.
const WRITTEN: u16 = 0x80;

/// A message's header: length, type, flags, sequence number, sender.
const HEADER: usize = 16;

/// What follows it of a route: family, lengths of prefixes, and more that is not asked for. Of a neighbour it is as long: family, padding,
/// interface, state, flags.
const BODY: usize = 12;

/// Interfaces of the calling thread's network namespace that are administratively up and have a carrier.
///
/// # Errors
/// If the kernel does not list them.
pub fn running_interfaces() -> io::Result<BTreeSet<String>> {
    let wanted = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let all = nix::ifaddrs::getifaddrs()?;
    Ok(all.filter(|each| each.flags.contains(wanted)).map(|each| each.interface_name).collect())
}

/// The interface of the calling thread's network namespace that has this address, if one has.
///
/// # Errors
/// If the kernel does not list them.
pub fn interface_of(address: IpAddr) -> io::Result<Option<String>> {
    let has =
        |entry: &nix::ifaddrs::InterfaceAddress| entry.address.as_ref().and_then(ip_of) == Some(address);
    Ok(nix::ifaddrs::getifaddrs()?.find(has).map(|entry| entry.interface_name))
}

/// Interfaces of the calling thread's network namespace, each with each of its addresses.
///
/// # Errors
/// If the kernel does not list them.
pub fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let with_address = |entry: nix::ifaddrs::InterfaceAddress| {
        Some((entry.interface_name, entry.address.as_ref().and_then(ip_of)?))
    };
    Ok(nix::ifaddrs::getifaddrs()?.filter_map(with_address).collect())
}

/// The address from which the calling thread's network namespace sends to `destination`.
///
/// # Errors
/// If it knows no way there.
pub fn source_to(destination: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent; any port will do.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((destination, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// The IP address of an entry of an interface, if it has one.
fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

/// Index of the interface through which the kernel of the calling thread's network namespace sends to `destination`.
///
/// # Errors
/// If it knows no way there.
pub(crate) fn interface_to(destination: IpAddr) -> io::Result<u32> {
    let mut found = None;
    let (family, address) = match destination {
        IpAddr::V4(address) => (libc::AF_INET, attribute(DESTINATION, &address.octets())),
        IpAddr::V6(address) => (libc::AF_INET6, attribute(DESTINATION, &address.octets())),
    };
    let bits = if destination.is_ipv4() { 32 } else { 128 };
    let host = [family as u8, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ask(GET_ROUTE, REQUEST, host, &address, |kind, message| {
        if kind == NEW_ROUTE {
            found =
                attributes(message).find_map(|(kind, value)| (kind == OUT_INTERFACE).then(|| number(value)));
        }
    })?;
    found.flatten().ok_or_else(|| Errno::ENETUNREACH.into())
}

/// Index of the interface by which datagrams of a machine to itself at `own` seem to come: the one that has the address, though they pass
/// loopback.
///
/// # Errors
/// If there is no way to `own`.
pub(crate) fn interface_from_itself(own: IpAddr) -> io::Result<u32> {
    match interface_of(own)? {
        Some(name) => Ok(nix::net::if_::if_nametoindex(name.as_str())?),
        // All of 127.0.0.0/8 is loopback's.
        None => interface_to(own),
    }
}

/// The Ethernet address of a neighbour over IPv6, at an interface or at any, if it is known; `written`: if somebody has written it.
pub(crate) fn neighbour(ip: Ipv6Addr, interface: Option<u32>, written: bool) -> Option<[u8; 6]> {
    let mut found = None;
    let family = [libc::AF_INET6 as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let state = if written { WRITTEN } else { KNOWN };
    ask(GET_NEIGHBOUR, REQUEST | DUMP, family, &[], |kind, message| {
        let at = message.get(HEADER + 4..HEADER + 8).and_then(number);
        if kind == NEW_NEIGHBOUR
            && half(message, HEADER + 8).is_some_and(|found| found & state != 0)
            && interface.is_none_or(|interface| at == Some(interface))
            && attributes(message).any(|attribute| attribute == (DESTINATION, &ip.octets()[..]))
        {
            let address = attributes(message).find(|(kind, _)| *kind == LINK_ADDRESS);
            found = address.and_then(|(_, address)| address.try_into().ok());
        }
    })
    .ok()?;
    found
}

/// Index of the port behind which a bridge has an Ethernet address, by an entry that was written there. What it has learned from frames does
/// not count: whoever sends as somebody else teaches it so.
///
/// # Errors
/// If the kernel does not answer.
pub(crate) fn port_of_bridge(bridge: u32, address: [u8; 6]) -> io::Result<Option<u32>> {
    let mut found = None;
    let bridges = [libc::AF_BRIDGE as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ask(GET_NEIGHBOUR, REQUEST | DUMP, bridges, &[], |kind, message| {
        let is_ours = |kind, expected: &[u8]| attributes(message).any(|found| found == (kind, expected));
        if kind == NEW_NEIGHBOUR
            && half(message, HEADER + 8).is_some_and(|state| state & STATIC != 0)
            && is_ours(MASTER, &bridge.to_ne_bytes())
            && is_ours(LINK_ADDRESS, &address)
        {
            found = message.get(HEADER + 4..HEADER + 8).and_then(number);
        }
    })?;
    Ok(found)
}

/// Frames that the kernel has dropped in the network namespace of this process because they did not come by the interface that leads to their
/// sender (`rp_filter`), since it was made.
pub fn reverse_path_drops() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
    counter(&table, "TcpExt:", "IPReversePathFilter").unwrap_or(0)
}

/// A counter of the kernel's table, where each line of names has a line of numbers below it.
fn counter(table: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(group)).map(str::split_whitespace);
    let (mut names, mut numbers) = (lines.next()?, lines.next()?);
    let place = names.position(|found| found == name)?;
    numbers.nth(place)?.parse().ok()
}

/// Asks the kernel, and has `each` see the messages of its answer, with their types.
fn ask(
    kind: u16,
    flags: u16,
    body: [u8; BODY],
    attributes: &[u8],
    mut each: impl FnMut(u16, &[u8]),
) -> io::Result<()> {
    let kernel =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    setsockopt(&kernel, ReceiveTimeout, &TimeVal::milliseconds(LIMIT_MS))?;
    let mut question = Vec::new();
    question.extend(((HEADER + BODY + attributes.len()) as u32).to_ne_bytes());
    question.extend([kind, flags].map(u16::to_ne_bytes).as_flattened());
    // The first question of this socket; the kernel fills in whose it is.
    question.extend([1, 0].map(u32::to_ne_bytes).as_flattened());
    question.extend(body);
    question.extend(attributes);
    send(kernel.as_raw_fd(), &question, MsgFlags::empty())?;
    let mut answer = vec![0; PIECE];
    loop {
        let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        if read(&answer[..length], flags & DUMP == 0, &mut each)? {
            return Ok(());
        }
    }
}

/// Goes through the messages of a piece of an answer; whether that was all. One that `is_alone` is.
fn read(mut piece: &[u8], is_alone: bool, each: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (piece.get(..4).and_then(number), half(piece, 4)) {
        let message = piece.get(..length as usize).filter(|message| message.len() >= HEADER);
        let message = message.ok_or(Errno::EBADMSG)?;
        match kind {
            ERROR => {
                let code = message.get(HEADER..HEADER + 4).and_then(number).unwrap_or(0);
                return Err(Errno::from_raw((code as i32).wrapping_neg()).into());
            }
            DONE => return Ok(true),
            _ => each(kind, message),
        }
        piece = piece.get(message.len().next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(is_alone)
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [4 + value.len() as u16, kind].map(u16::to_ne_bytes).as_flattened().to_vec();
    bytes.extend(value);
    bytes
}

/// The attributes of a message, by type.
fn attributes(message: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut left = message.get(HEADER + BODY..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(half(left, 0)?), half(left, 2)?);
        let value = left.get(4..length)?;
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_on_this_machine_is_behind_loopback() {
        let loopback = nix::net::if_::if_nametoindex("lo").expect("every machine has it");
        for address in [[127, 0, 0, 1], [127, 70, 80, 90]] {
            assert_eq!(interface_to(address.into()).expect("a way to itself"), loopback);
        }
    }

    #[test]
    fn what_no_bridge_has_is_behind_no_port() {
        assert_eq!(port_of_bridge(1, [2, 0, 0, 0, 0, 9]).expect("an answer"), None);
    }

    #[test]
    fn a_counter_of_the_kernel_stands_below_its_name() {
        let table = "TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 3 17\nIpExt: InNoRoutes\nIpExt: 4\n";
        assert_eq!(counter(table, "TcpExt:", "IPReversePathFilter"), Some(17));
        assert_eq!(counter(table, "IpExt:", "InNoRoutes"), Some(4));
        assert_eq!(counter(table, "TcpExt:", "Unheard"), None);
    }

    #[test]
    fn an_error_of_the_kernel_is_told_as_it_is() {
        let mut answer = vec![0; HEADER];
        answer[..4].copy_from_slice(&20_u32.to_ne_bytes());
        answer[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        answer.extend((-libc::ENETUNREACH).to_ne_bytes());
        let error = read(&answer, true, &mut |_, _| {}).expect_err("it is an error");
        assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(
            mut answer in proptest::collection::vec(any::<u8>(), 6..120),
            length in 0_u32..120,
            kind in 0_u16..32,
        ) {
            answer[..4].copy_from_slice(&length.to_ne_bytes());
            answer[4..6].copy_from_slice(&kind.to_ne_bytes());
            let _ = read(&answer, true, &mut |_, message| assert!(attributes(message).count() < 120));
        }
    }
}
