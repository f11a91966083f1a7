//! How batches of datagrams reach the kernel and come back, and what a transport may say.

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
pub(crate) const PATIENCE: Duration = Duration::from_millis(4);

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

/// One socket of a node. Sealed: the driver's batches are its own affair.
pub trait Transport: sealed::Transport {}

pub(crate) mod sealed {
    use super::*;

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
        fn interface_to(&self, peer: IpAddr) -> io::Result<u32>;

        /// Whether frames of others pass, too, and wait while the node does. Such a node does not yield the processor between looks: Linux
        /// puts whoever yields often behind all who compute, for seconds.
        fn serves_others(&self) -> bool {
            false
        }

        /// To wait on.
        fn socket(&self) -> BorrowedFd<'_>;

        /// Makes room for so much that is not received yet; returns what there is.
        fn grow_receive_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
            sys::grow_receive_buffer(self.socket(), size)
        }

        /// Makes room for so much that has not left yet; returns what there is.
        fn grow_send_buffer(&self, size: ByteCount) -> io::Result<ByteCount> {
            sys::grow_send_buffer(self.socket(), size)
        }

        /// Fills `inbox`, without waiting, or with `wait` waiting for the first datagram for [`PATIENCE`]. Returns how many
        /// came: fewer than it can hold if that is all.
        fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> io::Result<usize>;

        /// Sends the first of `outbox`, as many as one call takes, without waiting, and returns how many batches went.
        fn send(&mut self, outbox: &Outbox) -> io::Result<usize>;
    }
}
