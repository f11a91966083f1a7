//! A transport between nodes of one process: what a node sends stays in a list until somebody takes it, and what arrives is put there.

use nix::sys::eventfd::{EfdFlags, EventFd};
use quincunx_sockets::{Datagram, Inbox, Outbox, SLOT, Transport};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// A frame that has left a node.
pub(crate) struct Departed {
    pub(crate) destination: SocketAddr,
    pub(crate) tos: u8,
    pub(crate) bytes: Vec<u8>,
}

/// One node's end.
pub(crate) struct InProcess {
    local: SocketAddr,
    /// What a node that waits would wait on. Nothing ever happens there.
    idle: EventFd,
    pub(crate) arriving: VecDeque<(Datagram, Vec<u8>)>,
    pub(crate) departed: Vec<Departed>,
}

impl InProcess {
    pub(crate) fn new(local: SocketAddr) -> io::Result<Self> {
        let idle = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { local, idle, arriving: VecDeque::new(), departed: Vec::new() })
    }
}

impl Transport for InProcess {
    fn local(&self) -> SocketAddr {
        self.local
    }

    /// Each frame is a datagram of its own: it has a fate of its own.
    fn max_frames(&self) -> usize {
        1
    }

    fn interface_to(&self, _: IpAddr) -> io::Result<u32> {
        Ok(0)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.idle.as_fd()
    }

    fn receive(&mut self, inbox: &mut Inbox, _: bool) -> io::Result<usize> {
        let count = self.arriving.len().min(inbox.slots());
        inbox.refill();
        for (slot, (datagram, bytes)) in self.arriving.drain(..count).enumerate() {
            let place = slot * SLOT..slot * SLOT + bytes.len();
            inbox.bytes_mut()[place.clone()].copy_from_slice(&bytes);
            inbox.add(datagram, place, bytes.len());
        }
        Ok(count)
    }

    fn send(&mut self, outbox: &Outbox) -> io::Result<usize> {
        let (arena, batches) = outbox.unsent();
        for batch in batches {
            let pieces = batch.pieces().iter().map(|piece| &arena[piece.clone()]);
            let bytes = pieces.flatten().copied().collect();
            self.departed.push(Departed { destination: batch.destination(), tos: batch.tos(), bytes });
        }
        Ok(batches.len())
    }
}
