//! Datagrams that have arrived and are not handled yet: slots of memory that the transport fills and the loop empties
//! frame by frame, splitting what the kernel had merged.

use std::net::SocketAddr;
use std::ops::Range;

/// The largest UDP datagram, merged or not, fits in a slot, and the largest Ethernet frame with its head and tags.
pub const SLOT: usize = (1 << 16) + 64;

/// One datagram as the kernel delivered it, possibly several frames merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Sender, if it has an IP address.
    pub(crate) source: Option<SocketAddr>,
    /// IP type-of-service byte.
    pub(crate) tos: u8,
    /// Bytes of it.
    pub(crate) length: usize,
    /// Bytes of each frame in it; the last may be shorter.
    pub(crate) segment: usize,
    /// It was longer than its slot.
    pub(crate) truncated: bool,
    /// Index of the interface that it came in by; 0 if the kernel did not say.
    pub(crate) interface: u32,
}

/// Who sent a datagram to whom: addresses of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Sender's address and UDP port.
    pub source: SocketAddr,
    /// Receiver's address and UDP port.
    pub destination: SocketAddr,
    /// IPv4 type of service, IPv6 traffic class: DSCP and ECN.
    pub tos: u8,
    /// IPv4 identification, where the transport sees it; a UDP socket does not, and says 0, which is what one sends.
    pub identification: u16,
    /// Index of the interface that it came in by, from 1 up; 0 for what leaves, and where the transport does not know.
    pub interface: u32,
}

/// A run of equally long frames from one sender, waiting in a slot.
#[derive(Clone, Debug)]
struct FrameRun {
    datagram: Datagram,
    bytes: Range<usize>,
    segment: usize,
}

/// What a transport has received and the loop has not handled yet.
pub struct Inbox {
    buffer: Vec<u8>,
    runs: Vec<FrameRun>,
    next: usize,
    malformed: u64,
}

impl Inbox {
    /// An inbox of `slots` slots of 64 KiB each.
    pub fn new(slots: usize) -> Self {
        Self { buffer: vec![0; slots.max(1) * SLOT], runs: Vec::new(), next: 0, malformed: 0 }
    }

    /// Whether everything has been handled.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next == self.runs.len()
    }

    /// Datagrams that it can hold.
    #[inline]
    pub fn slots(&self) -> usize {
        self.buffer.len() / SLOT
    }

    /// The memory that a transport fills, one datagram a slot. What was there is forgotten.
    #[inline]
    pub fn refill(&mut self) -> &mut [u8] {
        self.runs.clear();
        self.next = 0;
        &mut self.buffer
    }

    /// The memory, to be filled slot by slot.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The memory as filled.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Notes that `bytes` hold frames of `segment` bytes each (the last may be shorter).
    #[inline]
    pub fn add(&mut self, datagram: Datagram, bytes: Range<usize>, segment: usize) {
        debug_assert!(segment > 0 || bytes.is_empty());
        self.runs.push(FrameRun { datagram, bytes, segment });
    }

    /// Counts a datagram that did not fit in its slot or is none of ours.
    #[inline]
    pub fn add_malformed(&mut self) {
        self.malformed += 1;
    }

    /// Malformed datagrams since the last call.
    #[inline]
    pub fn take_malformed(&mut self) -> u64 {
        std::mem::take(&mut self.malformed)
    }

    /// The next frame. An empty datagram is a frame of no bytes.
    #[inline]
    pub fn next_frame(&mut self) -> Option<(&Datagram, &[u8])> {
        let FrameRun { datagram, bytes, segment } = self.runs.get_mut(self.next)?;
        let end = bytes.end.min(bytes.start + *segment);
        let frame = bytes.start..end;
        bytes.start = end;
        self.next += usize::from(bytes.start >= bytes.end);
        Some((datagram, &self.buffer[frame]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::net::Ipv4Addr;

    fn datagram() -> Datagram {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4791);
        Datagram { source: address, destination: address, tos: 0, identification: 0, interface: 0 }
    }

    fn frames(inbox: &mut Inbox) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| inbox.next_frame().map(|(_, bytes)| bytes.to_vec())).collect()
    }

    #[test]
    fn a_merged_datagram_splits_by_its_segment_size_and_its_last_frame_may_be_short() {
        let mut inbox = Inbox::new(1);
        inbox.refill()[..7].copy_from_slice(b"aabbccd");
        inbox.add(datagram(), 0..7, 2);
        assert_eq!(frames(&mut inbox), [b"aa".to_vec(), b"bb".to_vec(), b"cc".to_vec(), b"d".to_vec()]);
        assert!(inbox.is_empty());
    }

    #[test]
    fn an_empty_datagram_is_one_frame_of_no_bytes() {
        let mut inbox = Inbox::new(2);
        inbox.refill();
        inbox.add(datagram(), 0..0, 0);
        inbox.add(datagram(), SLOT..SLOT + 1, 1);
        assert_eq!(frames(&mut inbox), [vec![], vec![0]]);
    }
}
