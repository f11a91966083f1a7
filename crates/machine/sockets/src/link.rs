//! Frames of one type on one interface, sent and received whole: for what neighbours on a cable tell each other. Needs CAP_NET_RAW.

use crate::transport::OpenError;
use crate::{MacAddress, sys};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socket};
use quincunx_units::ByteCount;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// What may wait: neighbours say little.
const BUFFER: ByteCount = ByteCount::new(64 << 10);

/// A packet socket for frames of one EtherType.
#[derive(Debug)]
pub struct LinkSocket(OwnedFd);

impl LinkSocket {
    /// Opens it on an interface, which takes frames for `group`, too.
    ///
    /// # Errors
    /// Without the privilege or the interface.
    pub fn open(interface: &str, ethertype: u16, group: MacAddress) -> Result<Self, OpenError> {
        let at = |expected, error, remedy| OpenError { expected, place: interface.to_owned(), error, remedy };
        let index = nix::net::if_::if_nametoindex(interface)
            .map_err(|error| at("an Ethernet interface", error.into(), "name one that `ip link` shows"))?;
        let set_up = || -> io::Result<OwnedFd> {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            // Without a protocol it receives nothing until it is bound.
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
            let fd = socket.as_fd();
            sys::set_buffers(fd, BUFFER, BUFFER)?;
            sys::frames::join_group(fd, index, group.0)?;
            sys::bind_to_interface(fd, index, ethertype)?;
            Ok(socket)
        };
        let opened = set_up().map_err(|error| {
            at("leave to open a packet socket (CAP_NET_RAW)", error, "run as root, or without --port")
        });
        opened.map(Self)
    }

    /// The next frame that has come, into `buffer`, without waiting; how long it is, or nothing.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(self.0.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(length) => Ok(Some(length)),
            // It is down, which is no fault of the socket's.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a frame, without waiting.
    ///
    /// # Errors
    /// If it does not leave: the link is down, its queue is full, or the interface is gone.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        Ok(send(self.0.as_raw_fd(), frame, MsgFlags::empty()).map(drop)?)
    }
}
