//! What Wireshark reads in frames that we make: one frame of each operation, in a capture that we write.

use crate::common;
use quincunx_needs::{Missing, need, program};
use quincunx_wire::pcapng::Writer;
use quincunx_wire::*;
use std::process::Command;
use std::time::Duration;

const PAYLOAD: &[u8] = b"five and more bytes";

/// One header of each operation, told apart by PSN and queue pair.
fn one_of_each() -> Vec<RoceHeader> {
    let reth =
        Reth { virtual_address: 0x1122_3344_5566_7788, remote_key: 9, dma_length: PAYLOAD.len() as u32 };
    let aeth = |syndrome| Aeth { syndrome, message_sequence: 5 };
    let ack = aeth(Syndrome::Ack(31));
    let atomic = AtomicEth { virtual_address: 8, remote_key: 9, swap_or_add: 10, compare: 11 };
    let operations = [
        Operation::Send(Position::First),
        Operation::Send(Position::Middle),
        Operation::Send(Position::Last),
        Operation::Send(Position::Only),
        Operation::SendLastImmediate(0xabcd),
        Operation::SendOnlyImmediate(0xabcd),
        Operation::WriteFirst(reth),
        Operation::WriteMiddle,
        Operation::WriteLast,
        Operation::WriteLastImmediate(0xabcd),
        Operation::WriteOnly(reth),
        Operation::WriteOnlyImmediate(reth, 0xabcd),
        Operation::ReadRequest(reth),
        Operation::ReadResponseFirst(ack),
        Operation::ReadResponseMiddle,
        Operation::ReadResponseLast(ack),
        Operation::ReadResponseOnly(ack),
        Operation::Acknowledge(ack),
        Operation::Acknowledge(aeth(Syndrome::ReceiverNotReady(14))),
        Operation::Acknowledge(aeth(Syndrome::Nak(NakCode::SequenceError))),
        Operation::AtomicAcknowledge(ack, 12),
        Operation::CompareSwap(atomic),
        Operation::FetchAdd(atomic),
        Operation::DatagramSendOnly(Deth { queue_key: 1, source_qp: QpNumber::new(2) }),
        Operation::DatagramSendOnlyImmediate(Deth { queue_key: 1, source_qp: QpNumber::new(2) }, 0xabcd),
        Operation::CongestionNotification,
    ];
    let (source, destination) = (Gid::from([10, 0, 0, 1]), Gid::from([10, 0, 0, 2]));
    let header = |(number, operation): (u32, Operation)| {
        let (qp, psn) = (QpNumber::new(0x100 + number), Psn::new(0x00ff_fff0 + number));
        RoceHeader::new(source, destination, qp, psn, operation)
    };
    (0..).zip(operations).map(header).collect()
}

fn capture(headers: &[RoceHeader]) -> Vec<u8> {
    let mut writer = Writer::new("quincunx");
    let port = writer.interface("port 0");
    let envelope = Envelope::new(MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    for (number, header) in (0..).zip(headers) {
        let payload = if header.operation.carries_payload() { PAYLOAD } else { &[] };
        let time = Duration::new(1_700_000_000, 123_456_789 + number);
        writer.packet(port, time, &common::frame(&envelope, header, payload));
    }
    writer.take()
}

/// What tshark prints for `fields` of every packet, a line each.
pub(crate) fn dissect(name: &str, capture: &[u8], fields: &[&str]) -> Result<Vec<Vec<String>>, Missing> {
    program("tshark", "tshark")?;
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("pcapng");
    std::fs::write(&path, capture).expect("a file in the target directory");
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-T", "fields"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    Ok(text.lines().map(|line| line.split('\t').map(String::from).collect()).collect())
}

#[test]
fn every_operation_dissects_as_what_it_is() {
    let headers = one_of_each();
    let fields = ["infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp", "_ws.malformed"];
    let lines = need!(dissect("every_operation", &capture(&headers), &fields));
    assert_eq!(lines.len(), headers.len());
    for (line, header) in lines.iter().zip(&headers) {
        let expected = [
            header.operation.opcode().to_string(),
            header.psn.value().to_string(),
            format!("{:#08x}", header.destination_qp.value()),
            String::new(),
        ];
        assert_eq!(line[..], expected, "{header:?}");
    }
}

#[test]
fn the_invariant_crc_is_shown_where_it_stands() {
    let headers = one_of_each();
    let capture = capture(&headers);
    let lines = need!(dissect("invariant_crc", &capture, &["infiniband.invariant.crc", "frame.len"]));
    // Wireshark 4.0 does not know congestion notification and shows the rest of it as one unknown piece.
    let known = |(_, header): &(_, &RoceHeader)| header.operation != Operation::CongestionNotification;
    for (line, header) in lines.iter().zip(&headers).filter(known) {
        let payload = if header.operation.carries_payload() { PAYLOAD } else { &[] };
        let datagram = common::datagram(header, payload);
        let crc = datagram.last_chunk().map(|crc| u32::from_be_bytes(*crc)).expect("a CRC");
        assert_eq!(line[0], format!("{crc:#010x}"), "{header:?}");
        assert_eq!(line[1], frame_length(&header.operation, payload.len()).to_string(), "{header:?}");
    }
}

#[test]
fn times_and_interfaces_are_kept() {
    let mut writer = Writer::new("quincunx");
    let ports = [writer.interface("leaf 0"), writer.interface("spine")];
    let headers = one_of_each();
    let envelope = Envelope::new(MacAddress([2; 6]), MacAddress([4; 6]));
    let frame = common::frame(&envelope, &headers[7], PAYLOAD);
    // A capture may be handed over in pieces.
    let mut capture = writer.take();
    writer.packet(ports[1], Duration::from_nanos(1), &frame);
    writer.packet(ports[0], Duration::new(4_000_000_000, 999_999_999), &frame);
    capture.extend(writer.take());
    assert_eq!(writer.buffered(), 0);
    let fields = ["frame.time_epoch", "frame.interface_name"];
    let lines = need!(dissect("times", &capture, &fields));
    assert_eq!(lines, [["0.000000001", "spine"], ["4000000000.999999999", "leaf 0"]]);
}
