//! Frames that the kernel has given to another process at the address than the one that they are for: that one gets them by a datagram of
//! this machine to itself.
//!
//! The kernel merges datagrams of one flow (UDP_GRO) before the program of the address picks a socket, and flows are told apart by addresses
//! and ports alone. So what a sender has under way to several processes here, frame by frame, may come to one of them as one datagram.

use crate::inbox::{Datagram, Inbox};
use crate::shared::{Share, Token};
use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What such a datagram begins with: no frame does.
pub(crate) const MARK: u8 = 0xff;

/// Behind the byte that says for whom it is: token, sender's address and port, type of service, interface, bytes of each frame.
pub(crate) const BEHIND: usize = 8 + 16 + 2 + 1 + 4 + 2;

/// The most bytes of frames in one.
const MOST: usize = 60_000;

/// Sorts what comes to a process that shares its address.
pub(crate) struct Sorter {
    share: Share,
    /// Where in a frame the share is.
    at: usize,
    /// Memory for what is handed over.
    scratch: Vec<u8>,
    handed_over: u64,
}

impl Sorter {
    pub(crate) fn new(share: Share, at: usize) -> Self {
        Self { share, at, scratch: Vec::new(), handed_over: 0 }
    }

    /// This process's share.
    pub(crate) fn number(&self) -> u8 {
        self.share.number()
    }

    /// Frames that came here and were for others.
    pub(crate) fn handed_over(&self) -> u64 {
        self.handed_over
    }

    /// Notes in `inbox` what of a datagram is for this process, and hands over the rest. What is nobody's stays here, and is counted here.
    pub(crate) fn sort(
        &mut self,
        socket: BorrowedFd<'_>,
        datagram: Datagram,
        bytes: Range<usize>,
        segment: usize,
        inbox: &mut Inbox,
    ) {
        if self.share.count() == 1 {
            return inbox.add(datagram, bytes, segment);
        }
        if let Some((head, datagram, segment)) = self.read(datagram, &inbox.bytes()[bytes.clone()]) {
            return inbox.add(datagram, bytes.start + head..bytes.end, segment);
        }
        let mut start = bytes.start;
        while start < bytes.end {
            let owner = self.owner(&inbox.bytes()[start..bytes.end]);
            let mut end = start;
            while end < bytes.end && self.owner(&inbox.bytes()[end..bytes.end]) == owner {
                end = bytes.end.min(end + segment);
            }
            match owner {
                None => inbox.add(datagram, start..end, segment),
                Some(other) => self.hand_over(socket, other, &datagram, &inbox.bytes()[start..end], segment),
            }
            start = end;
        }
        if bytes.is_empty() {
            inbox.add(datagram, bytes, segment);
        }
    }

    /// The other process that a frame is for, if it is for one.
    fn owner(&self, frame: &[u8]) -> Option<u8> {
        let number = *frame.get(self.at)?;
        (number != self.share.number() && usize::from(number) < self.share.count()).then_some(number)
    }

    fn hand_over(
        &mut self,
        socket: BorrowedFd<'_>,
        owner: u8,
        datagram: &Datagram,
        frames: &[u8],
        segment: usize,
    ) {
        let own = SockaddrStorage::from(datagram.destination);
        for piece in frames.chunks((MOST / segment).max(1) * segment) {
            self.handed_over += piece.len().div_ceil(segment) as u64;
            self.scratch.clear();
            self.scratch.resize(self.at, MARK);
            self.scratch.push(owner);
            self.scratch.extend(self.share.token());
            self.scratch.extend(as_ipv6(datagram.source.ip()).octets());
            self.scratch.extend(datagram.source.port().to_be_bytes());
            self.scratch.push(datagram.tos);
            self.scratch.extend(datagram.interface.to_be_bytes());
            self.scratch.extend((segment as u16).to_be_bytes());
            self.scratch.extend(piece);
            // What finds no room is lost, as in a network.
            let _ = sendto(socket.as_raw_fd(), &self.scratch, &own, MsgFlags::MSG_DONTWAIT);
        }
    }

    /// What another process here has handed over: where the frames begin, whence they came, and how long they are.
    fn read(&self, datagram: Datagram, bytes: &[u8]) -> Option<(usize, Datagram, usize)> {
        let (head, frames) = bytes.split_at_checked(self.at + 1 + BEHIND)?;
        let (token, rest) = head[self.at + 1..].split_first_chunk::<{ size_of::<Token>() }>()?;
        if head[0] != MARK || *token != self.share.token() || datagram.source != datagram.destination {
            return None;
        }
        let (ip, rest) = rest.split_first_chunk::<16>()?;
        let [port_high, port_low, tos, a, b, c, d, segment_high, segment_low] = *rest else { return None };
        let ip = Ipv6Addr::from(*ip);
        let ip = match datagram.destination.ip() {
            IpAddr::V4(_) => IpAddr::V4(ip.to_ipv4_mapped()?),
            IpAddr::V6(_) => IpAddr::V6(ip),
        };
        let source = SocketAddr::new(ip, u16::from_be_bytes([port_high, port_low]));
        let segment = usize::from(u16::from_be_bytes([segment_high, segment_low]));
        let interface = u32::from_be_bytes([a, b, c, d]);
        (segment > 0 && !frames.is_empty()).then_some((
            head.len(),
            Datagram { source, tos, interface, ..datagram },
            segment,
        ))
    }
}

fn as_ipv6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}
