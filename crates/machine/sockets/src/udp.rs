//! Frames as UDP datagrams of an ordinary socket: no privilege needed, segmentation offload both ways.
//!
//! The IP header's don't-fragment bit is set and its identification left zero, which is what an invariant CRC computed
//! by the receiver from defaults presumes. A link or NIC that splits merged datagrams numbers their identifications
//! 0, 1, 2..., so against a peer that covers the received identification with its CRC (a RoCE NIC, the kernel's own
//! RoCE) merging on the way out must be off. And where such a peer numbers its own datagrams, as the kernel's RoCE does, a
//! UDP socket does not show by what: its CRC can be checked behind a [`PacketTransport`](crate::PacketTransport) only.

use crate::handover::Sorter;
use crate::inbox::{Arrival, Datagram, Inbox, SLOT};
use crate::outbox::{MAX_SEGMENTS, Outbox};
use crate::shared::Share;
use crate::transport::{OpenError, PATIENCE, Transport};
use crate::{route, sys};
use nix::libc;
use quincunx_units::ByteCount;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Takes datagrams over IPv6 without a UDP checksum (`linux/udp.h`).
const UDP_NO_CHECK6_RX: i32 = 102;

/// How a UDP socket is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpOptions {
    /// What may wait to be received; the kernel counts its own overhead in. Beyond it frames are lost.
    pub receive_buffer: ByteCount,
    /// What may wait to be sent, over all links of the node: less than what the queue of a rate-limited link holds, and
    /// the node feels back-pressure where it would else lose frames; but enough to keep every link busy.
    pub send_buffer: ByteCount,
    /// Runs of up to so many equally long frames go to the kernel as one datagram (UDP_SEGMENT); 64 at most, 1 for no
    /// merging. A rate-limited link passes a datagram whole, so a window should hold several of them.
    pub merge_sent: usize,
    /// Take runs of equally long frames from the kernel as one datagram (UDP_GRO).
    pub merge_received: bool,
    /// Everything goes to this address, whomever it is for: a switch that sends it on, where frames have headers that say to whom. The
    /// sockets are then the two ends of a cable.
    pub via: Option<SocketAddr>,
    /// Other processes of the user may have the address, too: each has a share of the numbers that frames are for, and this byte of a frame says
    /// whose it is. None: the address is this process's alone.
    pub shared_by: Option<usize>,
}

impl Default for UdpOptions {
    /// 8 MiB in, 256 KiB out, merging both ways.
    fn default() -> Self {
        Self {
            receive_buffer: ByteCount::new(8 << 20),
            send_buffer: ByteCount::new(256 << 10),
            merge_sent: MAX_SEGMENTS,
            merge_received: true,
            via: None,
            shared_by: None,
        }
    }
}

/// One UDP socket, bound to the node's address.
pub struct UdpTransport {
    socket: UdpSocket,
    local: SocketAddr,
    max_frames: usize,
    /// If others may have the address.
    sorter: Option<Sorter>,
    via: Option<SocketAddr>,
    sender: sys::Sender,
    receiver: sys::Receiver,
    arrivals: Vec<Arrival>,
}

impl UdpTransport {
    /// Binds `local`: any address of 127.0.0.0/8 works on loopback, so many nodes can share a machine and a port.
    /// Buffers are as large as asked for with CAP_NET_ADMIN, else as the system's limits allow.
    ///
    /// # Errors
    /// If the address is not this machine's, is in use, or the kernel lacks an option.
    pub fn open(local: SocketAddr, options: UdpOptions) -> Result<Self, OpenError> {
        let at = |expected, error, remedy| OpenError { expected, place: local.to_string(), error, remedy };
        let (socket, sorter) = match options.shared_by {
            Some(byte) => {
                let (socket, share) = Share::take(local, byte)?;
                (socket, Some(Sorter::new(share, byte)))
            }
            None => {
                let socket = UdpSocket::bind(local).map_err(|error| {
                    at(
                        "a free UDP port at an address of this machine",
                        error,
                        "stop who holds it or choose another address",
                    )
                })?;
                (socket, None)
            }
        };
        let set = |level, name, value| sys::set_option(socket.as_fd(), level, name, value);
        let set_up = || -> io::Result<usize> {
            if local.is_ipv4() {
                set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
                set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
                set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
            } else {
                set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
                // RoCE peers that are not sockets write no UDP checksum.
                set(libc::SOL_UDP, UDP_NO_CHECK6_RX, 1)?;
            }
            socket.set_read_timeout(Some(PATIENCE))?;
            sys::set_buffers(socket.as_fd(), options.receive_buffer, options.send_buffer)?;
            // Kernels before 4.18 cannot segment, before 5.0 not merge: then frames go one by one.
            let segments = sys::option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT).is_ok();
            if options.merge_received && set(libc::SOL_UDP, libc::UDP_GRO, 1).is_err() {
                tracing::warn!(
                    "the kernel does not merge received datagrams (UDP_GRO); frames come one by one"
                );
            }
            if options.merge_sent > 1 && !segments {
                tracing::warn!("the kernel does not segment datagrams (UDP_SEGMENT); frames go one by one");
            }
            Ok(if segments { options.merge_sent.clamp(1, MAX_SEGMENTS) } else { 1 })
        };
        let max_frames = set_up().map_err(|error| {
            at("the socket options of Linux 4.18 or later", error, "use a newer kernel or fewer restrictions")
        })?;
        let local = socket.local_addr().unwrap_or(local);
        Ok(Self {
            socket,
            local,
            max_frames,
            sorter,
            via: options.via,
            sender: sys::Sender::new(),
            receiver: sys::Receiver::new(),
            arrivals: Vec::new(),
        })
    }
}

impl UdpTransport {
    /// Its share of the address: the byte by which frames say that they are for it.
    pub fn share(&self) -> u8 {
        self.sorter.as_ref().map_or(0, Sorter::number)
    }

    /// Frames that came to this socket and were for another one at the address, which has been given them.
    pub fn handed_over(&self) -> u64 {
        self.sorter.as_ref().map_or(0, Sorter::handed_over)
    }
}

impl Transport for UdpTransport {
    fn local(&self) -> SocketAddr {
        self.local
    }

    fn max_frames(&self) -> usize {
        self.max_frames
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn interface_to(&self, peer: IpAddr) -> io::Result<u32> {
        match self.via {
            Some(via) => route::interface_to(via.ip()),
            None if peer == self.local.ip() => route::interface_from_itself(peer),
            None => route::interface_to(peer),
        }
    }

    fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize> {
        self.receiver.receive(self.socket.as_fd(), inbox.refill(), SLOT, wait, &mut self.arrivals)?;
        for (index, arrival) in self.arrivals.iter().enumerate() {
            match arrival.source {
                Some(source) if !arrival.truncated => {
                    let bytes = index * SLOT..index * SLOT + arrival.length;
                    let datagram = Datagram {
                        source,
                        destination: self.local,
                        tos: arrival.tos,
                        identification: 0,
                        interface: arrival.interface,
                    };
                    match &mut self.sorter {
                        None => inbox.add(datagram, bytes, arrival.segment),
                        Some(sorter) => {
                            sorter.sort(self.socket.as_fd(), datagram, bytes, arrival.segment, inbox);
                        }
                    }
                }
                _ => inbox.add_malformed(),
            }
        }
        Ok(self.arrivals.len())
    }

    fn send(&mut self, outbox: &Outbox) -> io::Result<usize> {
        let (arena, batches) = outbox.unsent();
        let way = self.via.map_or(sys::Way::Own, sys::Way::Via);
        self.sender.send(self.socket.as_fd(), arena, batches, way)
    }
}
