//! Checksums that a sender has left to its card, in frames that no card has carried: over a veth the kernel hands them on as they are, and an
//! XDP socket does not say so. What is unfinished has the sum of the pseudo-header in the place of the checksum (RFC 1071, RFC 793).

use crate::ethernet::{HEADER, TAG, TAG_AT, TAGGED};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where transports have their checksum.
fn checksum_at(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        _ => None,
    }
}

/// Where a frame's TCP or UDP begins and ends, what it is, and where its addresses are.
struct Transport {
    addresses: std::ops::Range<usize>,
    payload: std::ops::Range<usize>,
    protocol: u8,
}

impl Transport {
    fn find(frame: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let mut kind = TAG_AT;
        while TAGGED.contains(&half(kind)?) {
            kind += TAG;
        }
        let ip = kind + HEADER - TAG_AT;
        let found = match half(kind)? {
            0x0800 => {
                let start = ip + usize::from(frame.get(ip)? & 0xf) * 4;
                // Pieces of a datagram have no checksum of their own.
                let is_whole = half(ip + 6)? & 0x3fff == 0;
                let payload = start..ip + usize::from(half(ip + 2)?);
                is_whole.then_some(Self {
                    addresses: ip + 12..ip + 20,
                    payload,
                    protocol: *frame.get(ip + 9)?,
                })
            }
            0x86dd => {
                let start = ip + 40;
                let payload = start..start + usize::from(half(ip + 4)?);
                Some(Self { addresses: ip + 8..start, payload, protocol: *frame.get(ip + 6)? })
            }
            _ => None,
        }?;
        (found.payload.start <= found.payload.end && found.payload.end <= frame.len()).then_some(found)
    }
}

/// The sum of 16-bit words, carries added at its end.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Finishes the checksum of a frame, if it has one that is unfinished.
pub(super) fn finish(frame: &mut [u8]) {
    let Some(Transport { addresses, payload, protocol }) = Transport::find(frame) else { return };
    let Some(at) = checksum_at(protocol).map(|at| payload.start + at) else { return };
    let Some(&found) = frame.get(at..payload.end).and_then(|rest| rest.first_chunk()) else { return };
    let pseudo = fold(sum(&frame[addresses]) + u64::from(protocol) + payload.len() as u64);
    if u16::from_be_bytes(found) != pseudo {
        return;
    }
    // The pseudo-header is in it already.
    let all = sum(&frame[payload]);
    // A finished one can look like that, too.
    if fold(all + u64::from(pseudo)) == 0xffff {
        return;
    }
    let checksum = match !fold(all) {
        // In UDP that would be none.
        0 if protocol == UDP => 0xffff,
        checksum => checksum,
    };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame with so many tags, over IPv4 or IPv6, and where its checksum is.
    fn frame(tags: usize, is_v6: bool, protocol: u8, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
        let header = if protocol == TCP { 20 } else { 8 };
        let length = (header + payload.len()) as u16;
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(1..=32);
        } else {
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        }
        let start = frame.len();
        frame.extend((0..header).map(|byte| byte as u8));
        frame.extend(payload);
        (frame, start + if protocol == TCP { 16 } else { 6 })
    }

    fn pseudo(frame: &[u8]) -> u16 {
        let it = Transport::find(frame).expect("a transport");
        fold(sum(&frame[it.addresses]) + u64::from(it.protocol) + it.payload.len() as u64)
    }

    /// Whether the checksum is right, as a receiver sees it.
    fn is_right(frame: &[u8]) -> bool {
        let it = Transport::find(frame).expect("a transport");
        fold(sum(&frame[it.payload.clone()]) + u64::from(pseudo(frame))) == 0xffff
    }

    #[test]
    fn a_checksum_known_from_elsewhere_comes_out() {
        // A datagram of 10.77.0.1:1 to 10.77.0.2:2 with "quincunx": summed by hand.
        let (mut found, at) = frame(0, false, UDP, b"quincunx");
        found[at - 6..at].copy_from_slice(&[0, 1, 0, 2, 0, 16]);
        let unfinished = pseudo(&found);
        found[at..at + 2].copy_from_slice(&unfinished.to_be_bytes());
        assert_eq!(unfinished, 0x14be);
        finish(&mut found);
        assert_eq!(found[at..at + 2], 0x3e5d_u16.to_be_bytes());
    }

    #[test]
    fn pieces_of_datagrams_other_protocols_and_what_is_cut_stay_as_they_are() {
        let (mut whole, at) = frame(0, false, UDP, b"data");
        let sum = pseudo(&whole);
        whole[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let changed = |place: usize, value| {
            let mut other = whole.clone();
            other[place] = value;
            other
        };
        // More of it follows; a protocol without such a sum; a length that is more than the frame.
        for mut other in [changed(20, 0x20), changed(23, 47), changed(17, 200)] {
            let before = other.clone();
            finish(&mut other);
            assert_eq!(other, before);
        }
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            finish(&mut cut);
            assert_eq!(cut, whole[..length]);
        }
        finish(&mut whole);
        assert!(is_right(&whole));
    }

    proptest! {
        #[test]
        fn unfinished_sums_are_made_right_and_finished_ones_left_alone(
            tags in 0..3_usize, is_v6: bool, is_tcp: bool, payload in proptest::collection::vec(any::<u8>(), 0..99)
        ) {
            let (mut found, at) = frame(tags, is_v6, if is_tcp { TCP } else { UDP }, &payload);
            let sum = pseudo(&found);
            found[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            // Padding behind it is no part of it.
            found.extend([9; 5]);
            finish(&mut found);
            prop_assert!(is_right(&found));
            let right = found.clone();
            finish(&mut found);
            prop_assert_eq!(&found, &right);
        }

        #[test]
        fn whatever_comes_is_survived(mut frame in proptest::collection::vec(any::<u8>(), 0..80)) {
            finish(&mut frame);
        }
    }
}
