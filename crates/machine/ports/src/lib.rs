//! A machine's network interfaces as the ports of an Ethernet switch, with a node in it: what is for the node's address and UDP port is the
//! node's, all else passes as through any learning bridge. No spanning tree: ports that lead to each other make a loop.
//!
//! The machine itself is behind the bridge, too, by an interface of its own (`quincunx0`, a TAP) that has the node's address. So the kernel
//! answers ARP, pings and ordinary connections to that address, and knows the neighbours that the node sends to.
//!
//! What the machine at the other end of a cable says of itself (LLDP) goes no further; the owner of the ports takes it, and sends the same.
//!
//! All of this happens where the node receives: frames lie in its inbox, and those that are not for it leave before the call returns. A
//! slow node slows the ports, and loses nothing of what they hold.

mod checksum;
mod counts;
mod ethernet;
mod neighbours;
mod offload;
mod options;
mod port;
mod setup;
mod table;
mod xdp;

pub use counts::{PortCounts, PortDrop, PortTraffic};
use ethernet::{EthernetHead, is_lldp};
use neighbours::Neighbours;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
pub use options::{PortSockets, PortsOptions};
use port::{Arrived, Port};
use quincunx_sockets::sys::frames::{FrameArrival, FrameReceiver, FrameSender, SEND_BATCH};
use quincunx_sockets::{
    Datagram, Inbox, OpenError, Outbox, PATIENCE, SLOT, Transport, frame, running_interfaces, sys,
};
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use table::{BridgeTable, Decision, Own, TableLimits};

/// Of a socket's frames and the machine's own: as many slots as there may be.
const RECEIVE_BATCH: usize = 64;

/// What an Ethernet switch of the smaller kind remembers, for as long as IEEE 802.1D recommends.
const LIMITS: TableLimits = TableLimits { addresses: 16_384, age: Duration::from_millis(300_000) };

/// How often interfaces are looked at, and the table is cleared of who is gone.
const LOOK: Duration = Duration::from_millis(1000);

/// Frames of neighbours that wait to be taken, of each port, and how long they are: as Ethernet has them.
const MOST_LINK_LOCAL: usize = 8;
const LONGEST_LINK_LOCAL: usize = 1518;

/// Sockets at all ports.
pub struct PortsTransport {
    local: SocketAddr,
    epoll: Epoll,
    /// In and out, as they were asked for.
    buffers: [ByteCount; 2],
    /// Those of the options, and last the machine's own.
    ports: Vec<Port>,
    own: Own,
    table: BridgeTable,
    neighbours: Neighbours,
    /// What neighbours say of themselves, and by which port that has come.
    link_local: VecDeque<(usize, Vec<u8>)>,
    start: std::time::Instant,
    next_look: Instant,
    receiver: FrameReceiver,
    sender: FrameSender,
    arrivals: Vec<FrameArrival>,
    heads: Vec<u8>,
    /// By port: which of the frames that leave now leave there.
    leaving: Vec<Vec<usize>>,
    /// XDP sockets leave it nothing.
    _kernel: Option<setup::KernelKeptOut>,
}

impl PortsTransport {
    /// Opens the ports, with `local` for the node's address and UDP port: an address that the machine has not.
    ///
    /// # Errors
    /// Without root, iproute2 or the interfaces, or if one is down, is named twice, has an address or is part of a bridge.
    pub fn open(local: SocketAddr, options: &PortsOptions) -> Result<Self, OpenError> {
        let at = |expected, error, remedy| OpenError { expected, place: local.to_string(), error, remedy };
        let found = setup::check(options)?;
        let buffers = [options.receive_buffer, options.send_buffer];
        let open = |(name, index): &(String, u32)| match options.sockets {
            PortSockets::Packet => Port::packet((name, *index), buffers),
            PortSockets::Xdp => Port::xdp((name, *index), buffers),
        };
        let mut ports = found.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let no_port = || at("a port", io::Error::other("none"), "name an interface");
        let mtu = ports.iter().map(|port| port.mtu).min().ok_or_else(no_port)?;
        let is_seen = options.sockets == PortSockets::Packet;
        let kernel = is_seen.then(|| setup::KernelKeptOut::new(&found)).transpose()?;
        let interface = setup::own_interface(local.ip(), options.prefix, mtu)?;
        let own = Own { address: interface.address, port: ports.len() };
        ports.push(Port::own(&interface.name, interface.file, mtu));
        let guard = UdpSocket::bind(local).map_err(|error| {
            at("a free UDP port at the machine's own interface", error, "stop who holds it")
        })?;
        let set_up = || -> io::Result<Epoll> {
            // Nobody reads the guard, so what it can hold should be little.
            sys::set_option(guard.as_fd(), nix::libc::SOL_SOCKET, nix::libc::SO_RCVBUF, 0)?;
            guard.set_nonblocking(true)?;
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            for (number, port) in (0..).zip(&ports) {
                for file in port.files() {
                    epoll.add(file, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
                }
            }
            Ok(epoll)
        };
        let epoll = set_up()
            .map_err(|error| at("a file descriptor for each port", error, "raise the limit (ulimit -n)"))?;
        for port in &ports[..own.port] {
            tracing::info!(port = port.name, sockets = port.counts.sockets, mtu = port.mtu, "port");
        }
        tracing::info!(interface = interface.name, mtu, ports = options.interfaces.join(","), "forwarding");
        Ok(Self {
            local,
            epoll,
            buffers,
            own,
            table: BridgeTable::new(own, LIMITS),
            neighbours: Neighbours::new(&interface.name, guard),
            link_local: VecDeque::new(),
            start: std::time::Instant::now(),
            next_look: Instant::ZERO,
            receiver: FrameReceiver::default(),
            sender: FrameSender::default(),
            arrivals: Vec::new(),
            heads: Vec::new(),
            leaving: vec![Vec::new(); ports.len()],
            ports,
            _kernel: kernel,
        })
    }

    /// What each port has counted, by the name of its interface.
    pub fn counts(&mut self) -> BTreeMap<String, PortCounts> {
        self.ports.iter_mut().for_each(Port::count_receive_drops);
        self.ports.iter().map(|port| (port.name.clone(), port.counts.clone())).collect()
    }

    /// Addresses that are known behind the ports.
    pub fn addresses(&self) -> usize {
        self.table.addresses()
    }

    /// What a neighbour has said of itself (LLDP): a whole frame, and the port that it came by, as the options number them.
    pub fn take_link_local(&mut self) -> Option<(usize, Vec<u8>)> {
        self.link_local.pop_front()
    }

    /// Sends a frame to the neighbour at a port, past all others that wait there. One that finds no room is lost, and counted.
    pub fn send_link_local(&mut self, port: usize, frame: &[u8]) {
        let offload = offload::Offload::default().write();
        self.ports[port].send(&mut self.sender, 1, |_| ([&offload, frame, &[]], 1));
    }

    fn now(&self) -> Instant {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::ZERO + Duration::from_nanos(nanos)
    }

    /// Sees, now and then, which links are up and how long their frames may be, and forgets who is gone.
    fn look(&mut self, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        self.table.age(now);
        let running = running_interfaces();
        for (number, port) in self.ports[..self.own.port].iter_mut().enumerate() {
            if port.look(running.as_ref().ok()) {
                tracing::warn!(port = port.name, is_up = port.is_up, "link changed");
                self.table.forget_port(number);
            }
        }
    }

    /// Takes what has come by the port `from` into the slots of the inbox from `used` on, and sends on what is for others. Returns how many came.
    fn take(&mut self, now: Instant, from: usize, inbox: &mut Inbox, used: usize) -> usize {
        let start = used * SLOT;
        self.arrivals.clear();
        self.ports[from].receive(&mut self.receiver, &mut inbox.bytes_mut()[start..], &mut self.arrivals);
        let arrivals = std::mem::take(&mut self.arrivals);
        for (index, arrival) in arrivals.iter().enumerate() {
            match port::whole(inbox.bytes_mut(), start + index * SLOT, arrival) {
                Some(arrived) => self.pass(now, from, &arrived, inbox),
                None => self.ports[from].drop_frames(PortDrop::Malformed, 1),
            }
        }
        for port in &mut self.ports {
            port.flush(&mut self.sender, inbox.bytes());
        }
        let count = arrivals.len();
        self.arrivals = arrivals;
        count
    }

    /// Has a frame leave where it should, or leaves it to the node.
    fn pass(&mut self, now: Instant, from: usize, arrived: &Arrived, inbox: &mut Inbox) {
        let frame = &inbox.bytes()[arrived.bytes.clone()];
        let port = &mut self.ports[from];
        let Some(head) = EthernetHead::read(frame) else {
            return port.drop_frames(PortDrop::Malformed, 1);
        };
        let Some(on_wire) = arrived.offload.on_wire(frame, &head) else {
            return port.drop_frames(PortDrop::Unreadable, 1);
        };
        port.counts.received.frames += on_wire.0;
        port.counts.received.bytes += frame.len() as u64;
        if from != self.own.port && is_lldp(frame) {
            let waiting = self.link_local.iter().filter(|(port, _)| *port == from).count();
            if waiting < MOST_LINK_LOCAL && frame.len() <= LONGEST_LINK_LOCAL {
                self.link_local.push_back((from, frame.to_vec()));
            } else {
                self.ports[from].drop_frames(PortDrop::LinkLocal, on_wire.0);
            }
            return;
        }
        match self.table.decide(now, from, &head) {
            Decision::Drop(reason) => self.ports[from].drop_frames(reason, on_wire.0),
            Decision::Forward(to) if to == self.own.port && !head.is_tagged => {
                match for_node(self.local, frame) {
                    Some((datagram, payload)) => {
                        let segment = arrived.offload.merged_datagrams().unwrap_or(payload.len());
                        let start = arrived.bytes.start;
                        self.neighbours.heard(datagram.source.ip(), head.source);
                        inbox.add(datagram, start + payload.start..start + payload.end, segment);
                    }
                    None => self.ports[to].queue(arrived, on_wire),
                }
            }
            Decision::Forward(to) => self.ports[to].queue(arrived, on_wire),
            Decision::Flood => {
                for to in (0..self.ports.len()).filter(|to| *to != from) {
                    self.ports[to].queue(arrived, on_wire);
                }
            }
        }
    }
}

/// What of a frame is the node's, if it is for its address and UDP port. By which port it came does not say who has sent it: a bridge learns
/// that from frames.
fn for_node(local: SocketAddr, frame: &[u8]) -> Option<(Datagram, Range<usize>)> {
    frame::decapsulate(frame, 0).filter(|(datagram, _)| datagram.destination == local)
}

impl Transport for PortsTransport {
    fn local(&self) -> SocketAddr {
        self.local
    }

    fn max_frames(&self) -> usize {
        1
    }

    fn receive_batch(&self) -> usize {
        RECEIVE_BATCH
    }

    fn serves_others(&self) -> bool {
        true
    }

    /// None: by which port a frame came does not say who has sent it. Whoever asks is going to send there, so the neighbour is looked for.
    fn interface_to(&self, peer: IpAddr) -> io::Result<u32> {
        self.neighbours.ask(peer);
        Ok(0)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// XDP sockets keep what they were given.
    fn grow_receive_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
        let sockets = self.ports.iter().filter_map(Port::packet_socket);
        let grown = sockets.map(|socket| sys::grow_receive_buffer(socket, size));
        Ok(grown.collect::<io::Result<Vec<_>>>()?.into_iter().min().unwrap_or(self.buffers[0]))
    }

    fn grow_send_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
        let sockets = self.ports.iter().filter_map(Port::packet_socket);
        let grown = sockets.map(|socket| sys::grow_send_buffer(socket, size));
        Ok(grown.collect::<io::Result<Vec<_>>>()?.into_iter().min().unwrap_or(self.buffers[1]))
    }

    fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize> {
        inbox.refill();
        let timeout = if wait { PATIENCE.as_millis() as u16 } else { 0 };
        let mut events = [EpollEvent::empty(); RECEIVE_BATCH];
        // What is ready and does not fit comes first the next time.
        let ready = self.epoll.wait(&mut events, EpollTimeout::from(timeout))?;
        let now = self.now();
        self.look(now);
        self.ports.iter_mut().for_each(Port::resume);
        let mut used = 0;
        for event in &events[..ready] {
            if used == inbox.slots() {
                break;
            }
            used += self.take(now, event.data() as usize, inbox, used);
        }
        Ok(used)
    }

    /// Frames for a port that is full are lost, and do not hold up those for others.
    fn send(&mut self, outbox: &Outbox) -> io::Result<usize> {
        let (arena, batches) = outbox.unsent();
        let now = self.now();
        self.heads.clear();
        self.leaving.iter_mut().for_each(Vec::clear);
        let mut ready = 0;
        for batch in batches.iter().take(SEND_BATCH) {
            let destination = match self.neighbours.resolve(batch.destination().ip()) {
                Ok(found) => found,
                // What comes before can go.
                Err(_) if ready > 0 => break,
                Err(error) => return Err(error),
            };
            let (source, tos) = (self.local, batch.tos());
            let datagram =
                Datagram { source, destination: batch.destination(), tos, identification: 0, interface: 0 };
            frame::head(self.own.address, destination, &datagram, batch.length(), &mut self.heads);
            match self.table.find(now, 0, destination) {
                Some(port) => self.leaving[port].push(ready),
                None => self.leaving[..self.own.port].iter_mut().for_each(|port| port.push(ready)),
            }
            ready += 1;
        }
        // All are of the node's own IP family, so one is as long as another.
        let head_length = self.heads.len() / ready.max(1);
        let (heads, offload) = (&self.heads, offload::Offload::default().write());
        for (port, leaving) in self.ports.iter_mut().zip(&self.leaving) {
            port.send(&mut self.sender, leaving.len(), |index| {
                let frame = leaving[index];
                let head = &heads[frame * head_length..][..head_length];
                ([&offload, head, &arena[batches[frame].pieces()[0].clone()]], 1)
            });
        }
        Ok(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_sockets::MacAddress;

    #[test]
    fn frames_for_the_nodes_address_and_port_are_taken_out_and_no_others() {
        let local: SocketAddr = "10.77.0.192:4791".parse().expect("an address");
        let frame = |destination: &str| {
            let datagram = Datagram {
                source: "10.77.0.1:50000".parse().expect("an address"),
                destination: destination.parse().expect("an address"),
                tos: 0,
                identification: 0,
                interface: 0,
            };
            let mut frame = Vec::new();
            frame::head(MacAddress([2; 6]), MacAddress([4; 6]), &datagram, 4, &mut frame);
            frame.extend(b"data");
            frame
        };
        let (datagram, payload) = for_node(local, &frame("10.77.0.192:4791")).expect("it is the node's");
        assert_eq!((datagram.source.port(), datagram.interface), (50_000, 0));
        assert_eq!(&frame("10.77.0.192:4791")[payload], b"data");
        for other in ["10.77.0.192:22", "10.77.0.193:4791"] {
            assert_eq!(for_node(local, &frame(other)), None);
        }
    }
}
