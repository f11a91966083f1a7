//! What several tests need: a reader of classic pcap files, the vectors, and strategies for any header.

use proptest::prelude::*;
use quincunx_wire::*;
use std::path::{Path, PathBuf};

/// A place in the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

/// The frames of a capture in `vectors/`.
pub(crate) fn vector(name: &str) -> Vec<Vec<u8>> {
    let path = repository("vectors").join(name);
    read_pcap(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The packets of a classic pcap file: a header of 24 bytes, then for each packet 16 bytes and its data.
fn read_pcap(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let header = take(&mut bytes, 24).expect("a file header");
    assert_eq!(header[..4], [0xd4, 0xc3, 0xb2, 0xa1], "a little-endian pcap with microseconds");
    let mut packets = Vec::new();
    while let Some(record) = take(&mut bytes, 16) {
        let captured = u32::from_le_bytes(record[8..12].try_into().unwrap()) as usize;
        packets.push(take(&mut bytes, captured).expect("a whole packet").to_vec());
    }
    assert!(bytes.is_empty(), "{} bytes after the last packet", bytes.len());
    packets
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, back) = bytes.split_at_checked(count)?;
    *bytes = back;
    Some(front)
}

/// A frame as bytes.
pub(crate) fn frame(envelope: &Envelope, header: &RoceHeader, payload: &[u8]) -> Vec<u8> {
    let below = headers_below_bth(header.destination);
    let mut out = vec![0xee; below + datagram_length(&header.operation, payload.len())];
    let written = emit_frame(envelope, header, payload, &mut out);
    assert_eq!(written, out.len());
    out
}

/// A datagram as bytes.
pub(crate) fn datagram(header: &RoceHeader, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xee; datagram_length(&header.operation, payload.len())];
    let written = emit_datagram(header, payload, &mut out);
    assert_eq!(written, out.len());
    out
}

/// What a socket would tell about a datagram with this header.
pub(crate) fn path(header: &RoceHeader) -> UdpPath {
    UdpPath::of(header)
}

prop_compose! {
    fn any_reth()(virtual_address: u64, remote_key: u32, dma_length: u32) -> Reth {
        Reth { virtual_address, remote_key, dma_length }
    }
}

prop_compose! {
    fn any_atomic()(virtual_address: u64, remote_key: u32, swap_or_add: u64, compare: u64) -> AtomicEth {
        AtomicEth { virtual_address, remote_key, swap_or_add, compare }
    }
}

prop_compose! {
    fn any_deth()(queue_key: u32, source_qp: u32) -> Deth {
        Deth { queue_key, source_qp: QpNumber::new(source_qp) }
    }
}

fn any_syndrome() -> impl Strategy<Value = Syndrome> {
    prop_oneof![
        (0u8..32).prop_map(Syndrome::Ack),
        (0u8..32).prop_map(Syndrome::ReceiverNotReady),
        prop::sample::select(vec![
            NakCode::SequenceError,
            NakCode::InvalidRequest,
            NakCode::RemoteAccess,
            NakCode::RemoteOperational,
        ])
        .prop_map(Syndrome::Nak),
    ]
}

prop_compose! {
    fn any_aeth()(syndrome in any_syndrome(), message_sequence in 0..1u32 << 24) -> Aeth {
        Aeth { syndrome, message_sequence }
    }
}

/// Every operation, with any fields.
pub(crate) fn any_operation() -> impl Strategy<Value = Operation> {
    use Position::*;
    prop_oneof![
        prop::sample::select(vec![First, Middle, Last, Only]).prop_map(Operation::Send),
        any::<u32>().prop_map(Operation::SendLastImmediate),
        any::<u32>().prop_map(Operation::SendOnlyImmediate),
        any_reth().prop_map(Operation::WriteFirst),
        Just(Operation::WriteMiddle),
        Just(Operation::WriteLast),
        any::<u32>().prop_map(Operation::WriteLastImmediate),
        any_reth().prop_map(Operation::WriteOnly),
        (any_reth(), any::<u32>()).prop_map(|(reth, data)| Operation::WriteOnlyImmediate(reth, data)),
        any_reth().prop_map(Operation::ReadRequest),
        any_aeth().prop_map(Operation::ReadResponseFirst),
        Just(Operation::ReadResponseMiddle),
        any_aeth().prop_map(Operation::ReadResponseLast),
        any_aeth().prop_map(Operation::ReadResponseOnly),
        any_aeth().prop_map(Operation::Acknowledge),
        (any_aeth(), any::<u64>()).prop_map(|(aeth, value)| Operation::AtomicAcknowledge(aeth, value)),
        any_atomic().prop_map(Operation::CompareSwap),
        any_atomic().prop_map(Operation::FetchAdd),
        any_deth().prop_map(Operation::DatagramSendOnly),
        (any_deth(), any::<u32>()).prop_map(|(deth, data)| Operation::DatagramSendOnlyImmediate(deth, data)),
        Just(Operation::CongestionNotification),
    ]
}

/// Two addresses of one family.
fn any_addresses() -> impl Strategy<Value = [Gid; 2]> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|both| both.map(Gid::from)),
        any::<[[u8; 16]; 2]>().prop_map(|both| both.map(Gid::from)),
    ]
}

prop_compose! {
    /// Any header.
    pub(crate) fn any_header()(
        [source, destination] in any_addresses(),
        (source_port, traffic_class) in any::<(u16, u8)>(),
        (destination_qp, partition_key, psn) in any::<(u32, u16, u32)>(),
        (acknowledge_request, solicited, migration) in any::<(bool, bool, bool)>(),
        (forward_congestion, backward_congestion) in any::<(bool, bool)>(),
        operation in any_operation(),
    ) -> RoceHeader {
        RoceHeader {
            source,
            destination,
            source_port,
            traffic_class,
            destination_qp: QpNumber::new(destination_qp),
            partition_key,
            psn: Psn::new(psn),
            acknowledge_request,
            solicited,
            migration,
            forward_congestion,
            backward_congestion,
            operation,
        }
    }
}

prop_compose! {
    /// Any envelope, over IPv4.
    fn any_envelope()(
        (source, destination) in any::<([u8; 6], [u8; 6])>(),
        (identification, dont_fragment, time_to_live, udp_checksum) in any::<(u16, bool, u8, u16)>(),
    ) -> Envelope {
        Envelope {
            ethernet: EthernetRepr { source: MacAddress(source), destination: MacAddress(destination) },
            identification,
            dont_fragment,
            flow_label: 0,
            time_to_live,
            udp_checksum,
        }
    }
}

/// Any header with a payload that its operation may carry, of at most `longest` bytes.
pub(crate) fn any_packet(longest: usize) -> impl Strategy<Value = (RoceHeader, Vec<u8>)> {
    any_header().prop_flat_map(move |header| {
        let longest = if header.operation.carries_payload() { longest } else { 0 };
        (Just(header), prop::collection::vec(any::<u8>(), 0..=longest))
    })
}

/// The same in any envelope that belongs to its family.
pub(crate) fn any_framed(longest: usize) -> impl Strategy<Value = (Envelope, RoceHeader, Vec<u8>)> {
    (any_envelope(), 0..1u32 << 20, any_packet(longest)).prop_map(
        |(over_v4, flow_label, (header, payload))| {
            let over_v6 = Envelope { identification: 0, dont_fragment: true, flow_label, ..over_v4 };
            (if header.source.is_ipv4() { over_v4 } else { over_v6 }, header, payload)
        },
    )
}
