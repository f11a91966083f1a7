//! Frames as whole Ethernet frames of a packet socket: the node writes and reads the Ethernet, IP and UDP headers itself, or
//! Ethernet alone where a global route header follows. Needs CAP_NET_RAW.
//!
//! The kernel sees these frames too. So that it does not answer them with "port unreachable", a UDP socket that is
//! never read holds the port. Peers that send through an ordinary socket must not merge datagrams: over virtual links
//! the merged ones would arrive here unsplit.

use crate::inbox::{Arrival, Datagram, Inbox, SLOT};
use crate::neighbours::{COMPLETE, MacAddress, PERMANENT, neighbour, seek_neighbour};
use crate::outbox::{Batch, Outbox};
use crate::transport::{OpenError, PATIENCE, Transport};
use crate::{bridge, frame, global_route, route, sys};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::ReceiveTimeout};
use nix::sys::time::{TimeVal, TimeValLike};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Where an address is that no link has alone.
const LOOPBACK: &str = "lo";

/// A packet socket for every frame.
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// Frames taken from the kernel at once.
const RECEIVE_BATCH: usize = 64;

/// How long a neighbour may take to say its address before frames for it are dropped.
const RESOLUTION_LIMIT: Duration = Duration::from_secs(1);

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
        let found = route::interface_of(address);
        let found = found.and_then(|name| name.ok_or_else(|| Errno::EADDRNOTAVAIL.into()));
        let name = found.map_err(|error| OpenError {
            expected: "an interface with the node's address",
            place: address.to_string(),
            error,
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
                let (program, ethertype) = frame::filter(local);
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
            seek_neighbour(&self.guard, ip);
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
                frame::head(own, mac, &datagram, batch.length(), &mut self.heads);
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

impl Transport for PacketTransport {
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
            let bytes = &inbox.bytes()[start..start + arrival.length];
            let found = match self.kind {
                PacketKind::Udp => frame::decapsulate(bytes, arrival.interface),
                PacketKind::GlobalRoute | PacketKind::BridgedGlobalRoute => {
                    global_route::decapsulate(bytes, self.local.port(), arrival.interface)
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
