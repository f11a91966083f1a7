//! A transport of whichever kind was chosen when the process started.

use quincunx_ports::{PortsOptions, PortsTransport};
use quincunx_sockets::{
    Inbox, OpenError, Outbox, PacketKind, PacketOptions, PacketTransport, Transport, UdpOptions, UdpTransport,
};
use quincunx_units::ByteCount;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Which transport, and how it is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransportOptions {
    /// An ordinary UDP socket.
    Udp(UdpOptions),
    /// A packet socket on the interface that has the node's address. What RoCE peers that are not ours need, hardware or
    /// the kernel's: see [`UdpTransport`] for why.
    Packet(PacketKind),
    /// Interfaces that an Ethernet switch is made of, in which the node is.
    Ports(PortsOptions),
}

/// One of the transports.
pub enum AnyTransport {
    /// An ordinary UDP socket.
    Udp(UdpTransport),
    /// A packet socket.
    Packet(PacketTransport),
    /// The ports of an Ethernet switch.
    Ports(PortsTransport),
}

impl AnyTransport {
    /// Opens the transport at `local`.
    ///
    /// # Errors
    /// As the transport's own.
    pub fn open(local: SocketAddr, options: &TransportOptions) -> Result<Self, OpenError> {
        Ok(match *options {
            TransportOptions::Udp(options) => Self::Udp(UdpTransport::open(local, options)?),
            TransportOptions::Ports(ref options) => Self::Ports(PortsTransport::open(local, options)?),
            TransportOptions::Packet(kind) => {
                let options = PacketOptions { kind, ..PacketOptions::for_address(local.ip())? };
                Self::Packet(PacketTransport::open(local, options)?)
            }
        })
    }

    fn inner(&self) -> &dyn Transport {
        match self {
            Self::Udp(transport) => transport,
            Self::Packet(transport) => transport,
            Self::Ports(transport) => transport,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Transport {
        match self {
            Self::Udp(transport) => transport,
            Self::Packet(transport) => transport,
            Self::Ports(transport) => transport,
        }
    }
}

impl AnyTransport {
    /// The node's share of its address: see [`UdpOptions::shared_by`].
    pub fn share(&self) -> u8 {
        match self {
            Self::Udp(transport) => transport.share(),
            Self::Packet(_) | Self::Ports(_) => 0,
        }
    }
}

impl Transport for AnyTransport {
    fn local(&self) -> SocketAddr {
        self.inner().local()
    }

    fn max_frames(&self) -> usize {
        self.inner().max_frames()
    }

    fn receive_batch(&self) -> usize {
        self.inner().receive_batch()
    }

    fn serves_others(&self) -> bool {
        self.inner().serves_others()
    }

    fn interface_to(&self, peer: IpAddr) -> io::Result<u32> {
        self.inner().interface_to(peer)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.inner().socket()
    }

    fn grow_receive_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
        self.inner().grow_receive_buffer(size)
    }

    fn grow_send_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
        self.inner().grow_send_buffer(size)
    }

    fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize> {
        self.inner_mut().receive(inbox, wait)
    }

    fn send(&mut self, outbox: &Outbox) -> io::Result<usize> {
        self.inner_mut().send(outbox)
    }
}
