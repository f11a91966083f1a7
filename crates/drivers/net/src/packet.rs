//! Frames as whole Ethernet frames of a packet socket: the node writes and reads the Ethernet, IP and UDP headers itself, or
//! Ethernet alone where a global route header follows. Needs CAP_NET_RAW.
//!
//! The kernel sees these frames too. So that it does not answer them with "port unreachable", a UDP socket that is
//! never read holds the port. Peers that send through an ordinary socket must not merge datagrams: over virtual links
//! the merged ones would arrive here unsplit.

use crate::inbox::{Arrival, Datagram, Inbox, SLOT};
use crate::outbox::{Batch, Outbox};
use crate::transport::{OpenError, PATIENCE, Transport, sealed};
use crate::{bridge, global_route, route, sys};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Bytes of Ethernet, of IPv6 without extension headers, and of UDP.
const ETHERNET: usize = 14;
const IPV6: usize = 40;
const UDP: usize = 8;

/// Where an address is that no link has alone.
const LOOPBACK: &str = "lo";

/// Flags of the kernel's neighbours (ATF_COM, ATF_PERM).
const COMPLETE: u32 = 2;
const PERMANENT: u32 = 4;

const PROTOCOL_UDP: u8 = 17;

/// Hops that a frame may take.
const HOPS: u8 = 64;

/// A packet socket for every frame.
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// Frames taken from the kernel at once.
const RECEIVE_BATCH: usize = 64;

/// How long a neighbour may take to say its address before frames for it are dropped.
const RESOLUTION_LIMIT: Duration = Duration::from_secs(1);

/// Asking the discard port makes the kernel look for the neighbour, and nothing more.
pub(crate) const DISCARD_PORT: u16 = 9;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MacAddress(pub [u8; 6]);

/// What is on the interface, and whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketKind {
    /// UDP over IP for this node.
    #[default]
    Udp,
    /// A global route header and what follows, for this node (EtherType 0x8915: RoCE v1).
    GlobalRoute,
    /// The same for whomever it is, on all ports of the bridge whose address this node has. The bridge leaves such frames to the node and
    /// forwards all others; what the node sends to a host, the bridge knows the port for. Ports must be there before the node.
    BridgedGlobalRoute,
}

/// How a packet socket is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketOptions {
    /// The interface, for instance `eth0`. With `lo`, where an address is that belongs to no link alone, UDP comes in by all interfaces, and
    /// leaves by the one that leads to its receiver.
    pub interface: String,
    /// What is on it.
    pub kind: PacketKind,
    /// Ethernet addresses known beforehand; others come from the kernel's neighbour table.
    pub neighbours: BTreeMap<IpAddr, MacAddress>,
    /// What may wait to be received; the kernel counts its own overhead in.
    pub receive_buffer: ByteCount,
    /// What may wait to be sent.
    pub send_buffer: ByteCount,
}

impl PacketOptions {
    /// The interface `interface`, 8 MiB in, 256 KiB out.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            kind: PacketKind::Udp,
            neighbours: BTreeMap::new(),
            receive_buffer: ByteCount::new(8 << 20),
            send_buffer: ByteCount::new(256 << 10),
        }
    }

    /// The same for the interface that has `address`.
    ///
    /// # Errors
    /// If none has.
    pub fn for_address(address: IpAddr) -> Result<Self, OpenError> {
        let has = |entry: &nix::ifaddrs::InterfaceAddress| {
            entry.address.is_some_and(|it| ip_of(&it) == Some(address))
        };
        let found = nix::ifaddrs::getifaddrs().and_then(|mut all| all.find(has).ok_or(Errno::EADDRNOTAVAIL));
        let name = found.map(|entry| entry.interface_name).map_err(|error| OpenError {
            expected: "an interface with the node's address",
            place: address.to_string(),
            error: error.into(),
            remedy: "name an address that `ip addr` shows",
        })?;
        Ok(Self::new(name))
    }
}

/// Where frames for somebody leave.
#[derive(Clone, Copy)]
struct Hop {
    interface: u32,
    source: MacAddress,
    destination: MacAddress,
}

/// One packet socket on one interface, or on all.
pub struct PacketTransport {
    socket: OwnedFd,
    /// Keeps the kernel from answering, and asks for neighbours.
    guard: UdpSocket,
    local: SocketAddr,
    kind: PacketKind,
    /// The interface that all frames leave by, with its address; none: as the routing table has it.
    only: Option<(u32, MacAddress)>,
    neighbours: BTreeMap<IpAddr, MacAddress>,
    /// What is known of these and of others.
    hops: BTreeMap<IpAddr, Hop>,
    /// Asked for and not known yet, with when.
    asked: BTreeMap<IpAddr, Instant>,
    heads: Vec<u8>,
    /// By which interface each of these leaves.
    leaving: Vec<u32>,
    sender: sys::Sender,
    receiver: sys::Receiver,
    arrivals: Vec<Arrival>,
}

impl PacketTransport {
    /// Sends and receives on an interface as `local`, which must be an address of this machine.
    ///
    /// # Errors
    /// Without the privilege, the interface, or the address, or if the port is taken.
    pub fn open(local: SocketAddr, options: PacketOptions) -> Result<Self, OpenError> {
        let at = |expected, error, remedy| OpenError {
            expected,
            place: format!("{local} on {}", options.interface),
            error,
            remedy,
        };
        let guard = UdpSocket::bind(local).map_err(|error| {
            at(
                "a free UDP port at an address of this machine",
                error,
                "stop who holds it or choose another address",
            )
        })?;
        let kind = options.kind;
        let only = match (kind, options.interface.as_str()) {
            (PacketKind::Udp, LOOPBACK) => None,
            (_, name) => {
                let found = interface(name);
                let remedy = "name one that `ip link` shows";
                Some(found.map_err(|error| at("an Ethernet interface", error, remedy))?)
            }
        };
        let index = only.map_or(0, |(index, _)| index);
        let (program, bound_to, protocol) = match kind {
            PacketKind::Udp => {
                let (program, ethertype) = filter(local);
                (program, index, ethertype)
            }
            PacketKind::GlobalRoute => (global_route::filter_for(local.ip()), index, global_route::ETHERTYPE),
            // Only who wants all protocols sees frames before the bridge takes them.
            PacketKind::BridgedGlobalRoute => {
                let ports = bridge::take(&options.interface, global_route::ETHERTYPE)?;
                (global_route::filter_from(&ports), 0, ALL_PROTOCOLS)
            }
        };
        let set_up = || -> io::Result<OwnedFd> {
            // Without a protocol it receives nothing until it is bound, so nothing slips past the filter.
            let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
            let fd = socket.as_fd();
            sys::set_filter(fd, &program)?;
            sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
            sys::set_buffers(fd, options.receive_buffer, options.send_buffer)?;
            setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(PATIENCE.as_millis() as i64))?;
            // Nobody reads the guard, so what it can hold should be little.
            sys::set_option(guard.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
            guard.set_nonblocking(true)?;
            sys::bind_to_interface(fd, bound_to, protocol)?;
            Ok(socket)
        };
        let socket = set_up().map_err(|error| {
            at("leave to open a packet socket (CAP_NET_RAW, Linux 4.20)", error, "run as root or use UDP")
        })?;
        Ok(Self {
            socket,
            guard,
            local,
            kind,
            only,
            neighbours: options.neighbours,
            hops: BTreeMap::new(),
            asked: BTreeMap::new(),
            heads: Vec::new(),
            leaving: Vec::new(),
            sender: sys::Sender::new(),
            receiver: sys::Receiver::new(),
            arrivals: Vec::new(),
        })
    }

    /// The way to `ip`. Until it is known the sender has to wait; in the end there may be none.
    fn resolve(&mut self, ip: IpAddr) -> Result<Hop, Errno> {
        if let Some(hop) = self.hops.get(&ip) {
            return Ok(*hop);
        }
        if ip.is_ipv4() != self.local.is_ipv4() {
            return Err(Errno::EAFNOSUPPORT);
        }
        let known = self.neighbours.get(&ip).copied().or_else(|| neighbour(ip, COMPLETE));
        if let Some(destination) = known {
            let leading = || {
                let name = nix::net::if_::if_indextoname(route::interface_to(ip)?)?;
                interface(&name.to_string_lossy())
            };
            let (interface, source) = match self.only {
                Some(only) => only,
                None => leading().map_err(|_| Errno::EHOSTUNREACH)?,
            };
            let hop = Hop { interface, source, destination };
            self.hops.insert(ip, hop);
            self.asked.remove(&ip);
            return Ok(hop);
        }
        let asked = *self.asked.entry(ip).or_insert_with(|| {
            // If even this fails, the time-out below says so.
            let _ = self.guard.send_to(&[], SocketAddr::new(ip, DISCARD_PORT));
            Instant::now()
        });
        if asked.elapsed() < RESOLUTION_LIMIT { Err(Errno::ENOBUFS) } else { Err(Errno::EHOSTUNREACH) }
    }
}

impl PacketTransport {
    /// Puts the headers of a batch, which is one frame, behind those before it.
    fn head(&mut self, hop: Hop, arena: &[u8], batch: &Batch) {
        let Hop { interface, source: own, destination: mac } = hop;
        self.leaving.push(interface);
        match self.kind {
            PacketKind::Udp => {
                let (destination, tos) = (batch.destination(), batch.tos());
                let source = self.local;
                let datagram = Datagram { source, destination, tos, identification: 0, interface: 0 };
                head(own, mac, &datagram, batch.length(), &mut self.heads);
            }
            PacketKind::GlobalRoute => self.heads.extend(global_route::head(own, mac)),
            // A switch leaves frames the address of who has sent them, if it is known.
            PacketKind::BridgedGlobalRoute => {
                let source = global_route::source(&arena[batch.pieces()[0].clone()]);
                let source =
                    source.and_then(|source| self.resolve(source).ok()).map_or(own, |hop| hop.destination);
                self.heads.extend(global_route::head(source, mac));
            }
        }
    }
}

impl Transport for PacketTransport {}

impl sealed::Transport for PacketTransport {
    fn local(&self) -> SocketAddr {
        self.local
    }

    fn max_frames(&self) -> usize {
        1
    }

    fn receive_batch(&self) -> usize {
        RECEIVE_BATCH
    }

    /// Behind a bridge the routing table does not tell: the port is known if who administers the switch has written down the peer's
    /// Ethernet address (`ip neigh ... nud permanent`), and the port that leads to that (`bridge fdb ... static`).
    fn interface_to(&self, peer: IpAddr) -> io::Result<u32> {
        let (PacketKind::BridgedGlobalRoute, Some((bridge, _))) = (self.kind, self.only) else {
            return route::interface_to(peer);
        };
        let written = self.neighbours.get(&peer).copied().or_else(|| neighbour(peer, COMPLETE | PERMANENT));
        match written {
            Some(MacAddress(address)) => Ok(route::port_of_bridge(bridge, address)?.unwrap_or(0)),
            None => Ok(0),
        }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize> {
        self.receiver.receive(self.socket.as_fd(), inbox.refill(), SLOT, wait, &mut self.arrivals)?;
        for (index, arrival) in self.arrivals.iter().enumerate() {
            let start = index * SLOT;
            let frame = &inbox.bytes()[start..start + arrival.length];
            let found = match self.kind {
                PacketKind::Udp => decapsulate(frame, arrival.interface),
                PacketKind::GlobalRoute | PacketKind::BridgedGlobalRoute => {
                    global_route::decapsulate(frame, self.local.port(), arrival.interface)
                }
            };
            match found.filter(|_| !arrival.truncated) {
                Some((datagram, payload)) => {
                    inbox.add(datagram, start + payload.start..start + payload.end, payload.len());
                }
                None => inbox.add_malformed(),
            }
        }
        Ok(self.arrivals.len())
    }

    fn send(&mut self, outbox: &Outbox) -> io::Result<usize> {
        let (arena, batches) = outbox.unsent();
        let batches = &batches[..batches.len().min(sys::SEND_BATCH)];
        self.heads.clear();
        self.leaving.clear();
        let mut ready = 0;
        for batch in batches {
            match self.resolve(batch.destination().ip()) {
                Ok(hop) => self.head(hop, arena, batch),
                // What comes before can go.
                Err(_) if ready > 0 => break,
                Err(error) => return Err(error.into()),
            }
            ready += 1;
        }
        let way = sys::Way::Headed(&self.heads, self.heads.len() / ready.max(1), &self.leaving);
        self.sender.send(self.socket.as_fd(), arena, &batches[..ready], way)
    }
}

/// Index and Ethernet address of the interface `name`.
fn interface(name: &str) -> io::Result<(u32, MacAddress)> {
    let index = nix::net::if_::if_nametoindex(name)?;
    let mac = nix::ifaddrs::getifaddrs()?
        .filter(|entry| entry.interface_name == name)
        .find_map(|entry| entry.address?.as_link_addr()?.addr())
        .ok_or(Errno::EADDRNOTAVAIL)?;
    Ok((index, MacAddress(mac)))
}

/// The IP address of an entry of an interface, if it has one.
pub(crate) fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

/// The kernel's table of neighbours over IPv4, in the calling thread's network namespace.
fn neighbours() -> String {
    std::fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default()
}

/// The entry for `ip` in the kernel's table of neighbours, if it is complete; `PERMANENT`: if somebody has written it, so that what a neighbour
/// says of itself does not change it.
fn neighbour(ip: IpAddr, expected: u32) -> Option<MacAddress> {
    match ip {
        IpAddr::V4(_) => entry(&neighbours(), ip, expected),
        IpAddr::V6(ip) => route::neighbour(ip, None, expected & PERMANENT > 0).map(MacAddress),
    }
}

/// The complete entry for `ip` at an interface, in the kernel's table of the calling thread's network namespace.
pub(crate) fn neighbour_at(interface: &str, ip: IpAddr) -> Option<MacAddress> {
    if let IpAddr::V6(ip) = ip {
        let index = nix::net::if_::if_nametoindex(interface).ok()?;
        return route::neighbour(ip, Some(index), false).map(MacAddress);
    }
    let table = neighbours();
    let is_there = |line: &&str| line.split_whitespace().last() == Some(interface);
    table.lines().skip(1).filter(is_there).find_map(|line| entry(&format!("\n{line}"), ip, COMPLETE))
}

/// The first entry for `ip` with all these flags.
fn entry(table: &str, ip: IpAddr, expected: u32) -> Option<MacAddress> {
    let has = |text: &str| {
        let flags = u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
        flags & expected == expected
    };
    // IP address, hardware type, flags, hardware address, mask, device.
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let text = fields
        .filter(|fields| fields.len() >= 4 && fields[0].parse() == Ok(ip) && has(fields[2]))
        .map(|fields| fields[3])
        .next()?;
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(MacAddress(mac))
}

/// Writes the headers before a UDP payload of `length` bytes behind what is in `out`: don't fragment, no UDP checksum (the payload has a
/// stronger one of its own, RFC 6936).
pub(crate) fn head(
    source: MacAddress,
    destination: MacAddress,
    datagram: &Datagram,
    length: usize,
    out: &mut Vec<u8>,
) {
    out.extend(destination.0);
    out.extend(source.0);
    let udp_length = ((UDP + length) as u16).to_be_bytes();
    match (datagram.source.ip(), datagram.destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = [0; 20];
            ip[0] = 0x45;
            ip[1] = datagram.tos;
            ip[2..4].copy_from_slice(&((20 + UDP + length) as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&datagram.identification.to_be_bytes());
            ip[6] = 0x40;
            ip[8] = HOPS;
            ip[9] = PROTOCOL_UDP;
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..20].copy_from_slice(&to.octets());
            let sum = internet_checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            out.extend(ETHERTYPE_IPV4.to_be_bytes());
            out.extend(ip);
        }
        (from, to) => {
            out.extend(ETHERTYPE_IPV6.to_be_bytes());
            out.extend((6 << 28 | u32::from(datagram.tos) << 20).to_be_bytes());
            out.extend(udp_length);
            out.extend([PROTOCOL_UDP, HOPS]);
            out.extend(global_route::gid_of(from).octets());
            out.extend(global_route::gid_of(to).octets());
        }
    }
    out.extend(datagram.source.port().to_be_bytes());
    out.extend(datagram.destination.port().to_be_bytes());
    out.extend(udp_length);
    out.extend([0; 2]);
}

/// RFC 1071, over an even number of bytes.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Takes the headers off an Ethernet frame with a whole UDP datagram that came in by `interface`: who sent it to whom, and where its payload lies.
pub(crate) fn decapsulate(frame: &[u8], interface: u32) -> Option<(Datagram, std::ops::Range<usize>)> {
    let ip = frame.get(ETHERNET..)?;
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let (version, half) =
        (ip.first()? >> 4, |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
    // Short Ethernet frames are padded: what counts is what IP says.
    let (header, total, protocol) = match (ethertype, version) {
        (ETHERTYPE_IPV4, 4) if half(6)? & 0x3fff == 0 => {
            (usize::from(ip[0] & 0xf) * 4, usize::from(half(2)?), *ip.get(9)?)
        }
        (ETHERTYPE_IPV6, 6) => (IPV6, IPV6 + usize::from(half(4)?), *ip.get(6)?),
        _ => return None,
    };
    let ip = ip.get(..total)?;
    let udp = ip.get(header..)?;
    if header < 20 || protocol != PROTOCOL_UDP || udp.len() < UDP {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    if length < UDP || length > udp.len() {
        return None;
    }
    let [source, destination] = if version == 4 {
        [12, 16].map(|at| IpAddr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]))
    } else {
        let address = |at: usize| ip[at..].first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets));
        [address(8)?, address(24)?]
    };
    let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    let start = ETHERNET + header + UDP;
    let datagram = Datagram {
        source: SocketAddr::new(source, port(0)),
        destination: SocketAddr::new(destination, port(2)),
        tos: if version == 4 { ip[1] } else { ip[0] << 4 | ip[1] >> 4 },
        identification: if version == 4 { u16::from_be_bytes([ip[4], ip[5]]) } else { 0 },
        interface,
    };
    Some((datagram, start..start + length - UDP))
}

/// A classic BPF program that passes whole UDP datagrams for `local` and nothing else, and the EtherType of its family.
fn filter(local: SocketAddr) -> (Vec<libc::sock_filter>, u16) {
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const LOAD_HALF_AFTER_IP: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
    const IP_LENGTH_TO_X: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    match local.ip() {
        IpAddr::V4(ip) => {
            let program = vec![
                step(LOAD_BYTE, 0, 0, 23),
                step(IF_EQUAL, 0, 8, u32::from(PROTOCOL_UDP)),
                step(LOAD_WORD, 0, 0, 30),
                step(IF_EQUAL, 0, 6, u32::from(ip)),
                step(LOAD_HALF, 0, 0, 20),
                // More fragments, or not the first.
                step(IF_ANY_BIT, 4, 0, 0x3fff),
                step(IP_LENGTH_TO_X, 0, 0, 14),
                step(LOAD_HALF_AFTER_IP, 0, 0, 16),
                step(IF_EQUAL, 0, 1, u32::from(local.port())),
                step(RETURN, 0, 0, u32::MAX),
                step(RETURN, 0, 0, 0),
            ];
            (program, ETHERTYPE_IPV4)
        }
        IpAddr::V6(ip) => {
            let word = |index: u32| (ip.to_bits() >> (96 - 32 * index)) as u32;
            let mut program = vec![step(LOAD_BYTE, 0, 0, 20), step(IF_EQUAL, 0, 11, u32::from(PROTOCOL_UDP))];
            for index in 0..4 {
                program.push(step(LOAD_WORD, 0, 0, 38 + 4 * index));
                program.push(step(IF_EQUAL, 0, 9 - 2 * index as u8, word(index)));
            }
            program.push(step(LOAD_HALF, 0, 0, 56));
            program.push(step(IF_EQUAL, 0, 1, u32::from(local.port())));
            program.extend([step(RETURN, 0, 0, u32::MAX), step(RETURN, 0, 0, 0)]);
            (program, ETHERTYPE_IPV6)
        }
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
