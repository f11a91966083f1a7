//! What a transport offers to the loop of a driver: how batches of datagrams leave and come, and what it may say.

use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::sys;
use quincunx_units::ByteCount;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How long a receive call waits for a first datagram: it takes one system call where poll and receive take two. The
/// kernel counts this in ticks of 1 to 10 ms and rounds up.
pub const PATIENCE: Duration = Duration::from_millis(4);

/// Datagrams taken at once where each may hold 64 frames.
const MERGED_BATCH: usize = 4;

/// Why a socket could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("expected {expected}, found \"{error}\" ({place}); {remedy}")]
pub struct OpenError {
    /// What should have worked.
    pub expected: &'static str,
    /// Address or interface.
    pub place: String,
    /// What the system said.
    pub error: io::Error,
    /// What to do.
    pub remedy: &'static str,
}

/// One socket of a node, or what stands for one. A driver's loop has it fill an [`Inbox`] and send what is in an [`Outbox`], and waits in the
/// kernel in between. Neither call waits but [`receive`](Self::receive) where it is told to.
pub trait Transport {
    /// The node's address.
    fn local(&self) -> SocketAddr;

    /// Frames that one datagram may hold.
    fn max_frames(&self) -> usize;

    /// Datagrams taken from the kernel at once.
    fn receive_batch(&self) -> usize {
        MERGED_BATCH
    }

    /// Index of the interface by which frames of `peer` come in; 0 if the transport cannot tell.
    ///
    /// # Errors
    /// If there is no way to `peer`.
    fn interface_to(&self, peer: IpAddr) -> io::Result<u32>;

    /// Whether frames of others pass, too, and wait while the node does. Such a node does not yield the processor between looks: Linux
    /// puts whoever yields often behind all who compute, for seconds.
    fn serves_others(&self) -> bool {
        false
    }

    /// To wait on: for what comes, and for room where sending has said EAGAIN.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Makes room for so much that is not received yet; returns what there is.
    ///
    /// # Errors
    /// If the socket fails.
    fn grow_receive_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
        sys::grow_receive_buffer(self.socket(), size)
    }

    /// Makes room for so much that has not left yet; returns what there is.
    ///
    /// # Errors
    /// If the socket fails.
    fn grow_send_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
        sys::grow_send_buffer(self.socket(), size)
    }

    /// Fills `inbox`, without waiting, or with `wait` waiting for the first datagram for [`PATIENCE`]. Returns how many
    /// came: fewer than it can hold if that is all. Whatever was in it is gone.
    ///
    /// # Errors
    /// EAGAIN if nothing has come; otherwise what the system said.
    fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize>;

    /// Sends the first of `outbox`, as many as one call takes, without waiting, and returns how many batches went: at least one.
    ///
    /// # Errors
    /// EAGAIN if what may wait to be sent is as much as may: the socket is writable again when there is room. ENOBUFS or ENOMEM if the system is
    /// short of memory, and will not say when that ends. Anything else is about the first batch.
    fn send(&mut self, outbox: &Outbox) -> io::Result<usize>;
}
