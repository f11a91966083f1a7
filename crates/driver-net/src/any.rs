//! A transport of whichever kind was chosen when the process started.

use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::packet::{PacketKind, PacketOptions, PacketTransport};
use crate::transport::{OpenError, Transport, sealed};
use crate::udp::{UdpOptions, UdpTransport};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::BorrowedFd;

/// Which transport, and how it is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportOptions {
    /// An ordinary UDP socket.
    Udp(UdpOptions),
    /// A packet socket on the interface that has the node's address. What RoCE peers that are not ours need, hardware or
    /// the kernel's: see [`UdpTransport`] for why.
    Packet(PacketKind),
}

/// One of the transports.
pub enum AnyTransport {
    /// An ordinary UDP socket.
    Udp(UdpTransport),
    /// A packet socket.
    Packet(PacketTransport),
}

impl AnyTransport {
    /// Opens the transport at `local`.
    ///
    /// # Errors
    /// As the transport's own.
    pub fn open(local: SocketAddrV4, options: TransportOptions) -> Result<Self, OpenError> {
        Ok(match options {
            TransportOptions::Udp(options) => Self::Udp(UdpTransport::open(local, options)?),
            TransportOptions::Packet(kind) => {
                let options = PacketOptions { kind, ..PacketOptions::for_address(*local.ip())? };
                Self::Packet(PacketTransport::open(local, options)?)
            }
        })
    }

    fn inner(&self) -> &dyn sealed::Transport {
        match self {
            Self::Udp(transport) => transport,
            Self::Packet(transport) => transport,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn sealed::Transport {
        match self {
            Self::Udp(transport) => transport,
            Self::Packet(transport) => transport,
        }
    }
}

impl Transport for AnyTransport {}

impl sealed::Transport for AnyTransport {
    fn local(&self) -> SocketAddrV4 {
        self.inner().local()
    }

    fn max_frames(&self) -> usize {
        self.inner().max_frames()
    }

    fn receive_batch(&self) -> usize {
        self.inner().receive_batch()
    }

    fn interface_to(&self, peer: Ipv4Addr) -> io::Result<u32> {
        self.inner().interface_to(peer)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.inner().socket()
    }

    fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize> {
        self.inner_mut().receive(inbox, wait)
    }

    fn send(&mut self, outbox: &Outbox) -> io::Result<usize> {
        self.inner_mut().send(outbox)
    }
}
