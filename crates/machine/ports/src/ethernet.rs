//! What a bridge reads of an Ethernet frame: who sent it to whom, in which VLAN.

use quincunx_sockets::MacAddress;

/// Both addresses and the type.
pub(crate) const HEADER: usize = 14;

/// A VLAN tag, between the source address and the type.
pub(crate) const TAG: usize = 4;

/// Where a tag stands: behind both addresses.
pub(crate) const TAG_AT: usize = 12;

/// Tags of IEEE 802.1Q and 802.1ad.
pub(crate) const TAGGED: [u16; 2] = [0x8100, 0x88a8];

/// Of a tag's 16 bits of control those that name the VLAN.
const VLAN: u16 = 0x0fff;

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EthernetHead {
    pub(crate) destination: MacAddress,
    pub(crate) source: MacAddress,
    /// Of the outer tag; 0 is no VLAN, as with a tag that has a priority alone.
    pub(crate) vlan: u16,
    /// Whether there is a tag.
    pub(crate) is_tagged: bool,
}

impl EthernetHead {
    /// Reads the head of a frame, if it has one.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let (destination, rest) = frame.split_first_chunk()?;
        let (source, rest) = rest.split_first_chunk()?;
        let kind = u16::from_be_bytes(*rest.first_chunk()?);
        let is_tagged = TAGGED.contains(&kind);
        let vlan =
            if is_tagged { u16::from_be_bytes(*rest.get(2..TAG + 2)?.first_chunk()?) & VLAN } else { 0 };
        let (destination, source) = (MacAddress(*destination), MacAddress(*source));
        Some(Self { destination, source, vlan, is_tagged })
    }

    /// Bytes before what an MTU counts: one tag is not part of that.
    pub(crate) fn length(&self) -> usize {
        HEADER + if self.is_tagged { TAG } else { 0 }
    }
}

/// Whether a frame is one by which neighbours tell each other who they are (LLDP, IEEE 802.1AB).
pub(crate) fn is_lldp(frame: &[u8]) -> bool {
    frame.starts_with(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]) && frame.get(TAG_AT..HEADER) == Some(&[0x88, 0xcc])
}

/// Whether an address is that of several: multicast or broadcast.
pub(crate) fn is_group(address: MacAddress) -> bool {
    address.0[0] & 1 == 1
}

/// Whether frames for an address stay on their link (IEEE 802.1D, table 7-10), as those that pause a sender. Spanning tree's are not among them:
/// a bridge that has none passes them on, so that others beside it find their loops.
pub(crate) fn is_link_local(address: MacAddress) -> bool {
    matches!(address.0, [0x01, 0x80, 0xc2, 0, 0, 0x01..=0x0f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_who_sent_it_to_whom_in_which_vlan() {
        let mut frame = vec![1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 0x08, 0x00];
        let head = EthernetHead {
            destination: MacAddress([1, 2, 3, 4, 5, 6]),
            source: MacAddress([10, 11, 12, 13, 14, 15]),
            vlan: 0,
            is_tagged: false,
        };
        assert_eq!(EthernetHead::read(&frame), Some(head));
        assert_eq!(head.length(), 14);
        for tag in [0x8100_u16, 0x88a8] {
            frame.truncate(12);
            frame.extend(tag.to_be_bytes());
            // Priority 5 and VLAN 7.
            frame.extend([0xa0, 7, 0x08, 0x00]);
            let tagged = EthernetHead { vlan: 7, is_tagged: true, ..head };
            assert_eq!(EthernetHead::read(&frame), Some(tagged));
            assert_eq!(tagged.length(), 18);
        }
    }

    #[test]
    fn what_ends_within_its_head_is_no_frame() {
        let plain = [0; 14];
        let tagged = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 1, 0x08, 0];
        for frame in [&plain[..], &tagged[..]] {
            assert!(EthernetHead::read(frame).is_some());
            (0..frame.len()).for_each(|length| assert_eq!(EthernetHead::read(&frame[..length]), None));
        }
    }
}
