//! What the kernel leaves undone of a frame that no wire has carried, and what it has merged (`struct virtio_net_hdr`): a checksum that is
//! still to be computed, several frames of a flow that are one. A bridge passes that on, and the kernel does it where the frame leaves.

use crate::ethernet::{EthernetHead, TAG};
use quincunx_sockets::sys::frames::OFFLOAD_LENGTH;

/// That of a frame of which nothing is left to do.
pub(crate) const NOTHING_LEFT: [u8; OFFLOAD_LENGTH] = [0; OFFLOAD_LENGTH];

const NEEDS_CHECKSUM: u8 = 1;

/// Kinds of merged frames. The highest bit of the kind belongs to the flow's congestion marks.
const KIND: u8 = 0x7f;
const NOT_MERGED: u8 = 0;
const MERGED_TCP: [u8; 2] = [1, 4];
const MERGED_UDP: u8 = 5;

/// From a TCP header's start to the byte whose upper half is its length in words.
const TCP_LENGTH_AT: usize = 12;

const UDP_HEADER: usize = 8;

/// The kernel's header before a frame, in the machine's byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offload {
    flags: u8,
    kind: u8,
    header_length: u16,
    segment: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl Offload {
    pub(crate) fn read(bytes: &[u8; OFFLOAD_LENGTH]) -> Self {
        let half = |at| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            // Whether a checksum was found right says nothing to who sends it on.
            flags: bytes[0] & NEEDS_CHECKSUM,
            kind: bytes[1],
            header_length: half(2),
            segment: half(4),
            checksum_start: half(6),
            checksum_offset: half(8),
        }
    }

    pub(crate) fn write(&self) -> [u8; OFFLOAD_LENGTH] {
        let mut bytes = [self.flags, self.kind, 0, 0, 0, 0, 0, 0, 0, 0];
        let halves = [self.header_length, self.segment, self.checksum_start, self.checksum_offset];
        bytes[2..].copy_from_slice(halves.map(u16::to_ne_bytes).as_flattened());
        bytes
    }

    /// The same of a frame that has got a tag in front of what this speaks of.
    pub(crate) fn behind_tag(self) -> Self {
        let shifted = |at: u16| if at > 0 { at + TAG as u16 } else { 0 };
        Self {
            header_length: shifted(self.header_length),
            checksum_start: if self.flags & NEEDS_CHECKSUM > 0 { shifted(self.checksum_start) } else { 0 },
            ..self
        }
    }

    /// Bytes of UDP payload of each frame, if several were merged.
    pub(crate) fn merged_datagrams(&self) -> Option<usize> {
        (self.kind & KIND == MERGED_UDP && self.segment > 0).then_some(self.segment.into())
    }

    /// How many frames there are of `frame` on a wire, and how long the longest of them is, without its head; none if that cannot be told.
    pub(crate) fn on_wire(&self, frame: &[u8], head: &EthernetHead) -> Option<(u64, usize)> {
        let kind = self.kind & KIND;
        if kind == NOT_MERGED {
            return Some((1, frame.len().checked_sub(head.length())?));
        }
        let start = usize::from(self.checksum_start);
        let headers = start
            + match kind {
                MERGED_UDP => UDP_HEADER,
                _ if MERGED_TCP.contains(&kind) => {
                    usize::from(frame.get(start + TCP_LENGTH_AT)? >> 4) * size_of::<u32>()
                }
                _ => return None,
            };
        let payload = frame.len().checked_sub(headers).filter(|_| self.segment > 0)?;
        let segment = usize::from(self.segment).min(payload);
        let frames = payload.div_ceil(self.segment.into()).max(1);
        Some((frames as u64, (headers + segment).checked_sub(head.length())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_sockets::MacAddress;

    const HEAD: EthernetHead = EthernetHead {
        destination: MacAddress([2; 6]),
        source: MacAddress([4; 6]),
        vlan: 0,
        is_tagged: false,
    };

    /// Merged TCP over IPv4, with so long segments.
    fn merged_tcp(segment: u16) -> Offload {
        let (checksum_start, checksum_offset) = (34, 16);
        Offload { flags: 1, kind: 1, header_length: 66, segment, checksum_start, checksum_offset }
    }

    #[test]
    fn what_is_read_is_what_is_written_but_for_a_verdict_on_a_checksum() {
        let tcp = merged_tcp(1448);
        assert_eq!(Offload::read(&tcp.write()), tcp);
        assert_eq!(Offload::read(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Offload::default());
    }

    #[test]
    fn a_plain_frame_is_one_as_long_as_it_is() {
        assert_eq!(Offload::default().on_wire(&[0; 1514], &HEAD), Some((1, 1500)));
        let tagged = EthernetHead { is_tagged: true, vlan: 7, ..HEAD };
        assert_eq!(Offload::default().on_wire(&[0; 1518], &tagged), Some((1, 1500)));
    }

    #[test]
    fn merged_frames_count_as_what_a_wire_carries() {
        let mut frame = vec![0; 14 + 20 + 32 + 3 * 1448 + 7];
        // A TCP header of eight words.
        frame[34 + 12] = 0x80;
        assert_eq!(merged_tcp(1448).on_wire(&frame, &HEAD), Some((4, 1500)));
        let udp = Offload { kind: 5, ..merged_tcp(1024) };
        assert_eq!(udp.on_wire(&[0; 14 + 20 + 8 + 2048], &HEAD), Some((2, 1052)));
        assert_eq!(udp.merged_datagrams(), Some(1024));
        assert_eq!(merged_tcp(1024).merged_datagrams(), None);
        // Marks of congestion change nothing.
        assert_eq!(Offload { kind: 0x81, ..merged_tcp(1448) }.on_wire(&frame, &HEAD), Some((4, 1500)));
    }

    #[test]
    fn of_what_cannot_be_understood_nothing_is_told() {
        let frame = [0; 100];
        for wrong in [
            Offload { kind: 3, ..merged_tcp(9) },
            merged_tcp(0),
            Offload { checksum_start: 99, ..merged_tcp(9) },
        ] {
            assert_eq!(wrong.on_wire(&frame, &HEAD), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_tag_moves_what_is_behind_it() {
        let moved = merged_tcp(1448).behind_tag();
        assert_eq!(moved, Offload { header_length: 70, checksum_start: 38, ..merged_tcp(1448) });
        assert_eq!(Offload::default().behind_tag(), Offload::default());
    }
}
