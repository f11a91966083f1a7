//! Whole frames, byte by byte.

use super::{Parts, block, root};
use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};
use quincunx_epic::{Agreement, ControlMessage, Pattern};
use quincunx_nodes::locks::{Number, Word};
use quincunx_wire::flit::{Channel, Class, CreditReturn, FlitHeader, NodeId, Transaction};
use quincunx_wire::multiwrite::{Destinations, bitmap_length};
use quincunx_wire::path_probe::{Kind, PathProbe};
use quincunx_wire::{
    Aeth, Deth, Gid, NakCode, Operation, Position, Psn, QpNumber, Reth, RoceHeader, Syndrome,
    datagram_length, emit_datagram,
};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const GRH: usize = 40;
const UDP: usize = 8;
const BTH: usize = 12;
const RETH: usize = 16;
const NETREDUCE: usize = 20;
const ICRC: usize = 4;

/// Who speaks in the examples: rank 0 of a group, and its switch.
const RANK: [u8; 4] = [10, 0, 0, 1];
const SWITCH: [u8; 4] = [10, 0, 1, 1];
const RANK_QP: u32 = 0x11;
const SWITCH_QP: u32 = 0x100;
/// The group's first.
const FIRST: Psn = Psn::new(0xff_fffe);

/// A frame from rank to switch.
fn up(psn: Psn, operation: Operation, asks: bool) -> RoceHeader {
    let [source, destination] = [RANK, SWITCH].map(Gid::from);
    let header = RoceHeader::new(source, destination, QpNumber::new(SWITCH_QP), psn, operation);
    RoceHeader { acknowledge_request: asks, ..header }
}

/// A frame from switch to rank.
fn down(psn: Psn, operation: Operation) -> RoceHeader {
    let [source, destination] = [SWITCH, RANK].map(Gid::from);
    RoceHeader::new(source, destination, QpNumber::new(RANK_QP), psn, operation)
}

/// A datagram by its parts; what lies between BTH and payload is called `extension`.
fn datagram(header: &RoceHeader, extension: &str, payload: &[u8]) -> String {
    datagram_of(header, extension, &[("payload", payload)])
}

/// The same of a payload in pieces.
fn datagram_of(header: &RoceHeader, extension: &str, pieces: &[(&str, &[u8])]) -> String {
    let payload: Vec<u8> = pieces.iter().flat_map(|(_, piece)| piece.iter().copied()).collect();
    let mut bytes = vec![0; datagram_length(&header.operation, payload.len())];
    emit_datagram(header, &payload, &mut bytes);
    let (bth, rest) = bytes.split_at(BTH);
    let (between, rest) = rest.split_at(header.operation.extension_length());
    let (pad, icrc) = rest[payload.len()..].split_at(rest.len() - payload.len() - ICRC);
    let mut rows = vec![("BTH", bth), (extension, between)];
    rows.extend(pieces);
    rows.extend([("pad", pad), ("ICRC", icrc)]);
    block(&rows)
}

fn control(pattern: Pattern, data_type: DataType, data_packets: u16) -> Operation {
    let agreement = match pattern {
        Pattern::AllReduce => Agreement::Detail(0),
        Pattern::Reduce { .. } | Pattern::Broadcast { .. } => Agreement::Follows,
    };
    let reduction = Reduction { op: ReduceOp::Sum, data_type };
    Operation::SendOnlyImmediate(ControlMessage { pattern, reduction, data_packets, agreement }.encode())
}

fn answer(syndrome: Syndrome) -> Operation {
    Operation::Acknowledge(Aeth { syndrome, message_sequence: 0 })
}

/// The frames of a capture of the classic format, in this machine's order of bytes.
fn frames_of(capture: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(root().join("vectors").join(capture)).expect("the capture is there");
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes(head[8..12].try_into().expect("four bytes")) as usize;
        frames.push(after[..length].to_vec());
        rest = &after[length..];
    }
    frames
}

/// A whole RoCEv2 frame over IPv4 by its parts.
fn frame(bytes: &[u8], extension: (&str, usize)) -> String {
    let mut rest = bytes;
    let mut cut = |length: usize| {
        let (part, after) = rest.split_at(length);
        rest = after;
        part
    };
    let [ethernet, ip, udp, bth, between] = [ETHERNET, IPV4, UDP, BTH, extension.1].map(&mut cut);
    let (payload, icrc) = rest.split_at(rest.len() - ICRC);
    block(&[
        ("Ethernet", ethernet),
        ("IPv4", ip),
        ("UDP", udp),
        ("BTH", bth),
        (extension.0, between),
        ("payload", payload),
        ("ICRC", icrc),
    ])
}

/// The first frame of `vectors/allreduce-switch.txt` that is to be added up.
fn netreduce_frame() -> String {
    let text = std::fs::read_to_string(root().join("vectors/allreduce-switch.txt")).expect("it is there");
    let hex = text
        .lines()
        .filter_map(|line| line.strip_prefix("> frame 0 "))
        .find(|hex| hex.get(24..28) == Some("8915"))
        .expect("a RoCE v1 frame");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let mut rest = &bytes[..];
    let mut cut = |length: usize| {
        let (part, after) = rest.split_at(length);
        rest = after;
        part
    };
    let [ethernet, grh, bth, reth, netreduce] = [ETHERNET, GRH, BTH, RETH, NETREDUCE].map(&mut cut);
    let (elements, icrc) = rest.split_at(rest.len() - ICRC);
    block(&[
        ("Ethernet", ethernet),
        ("GRH", grh),
        ("BTH", bth),
        ("RETH", reth),
        ("NetReduce", netreduce),
        ("elements", elements),
        ("ICRC", icrc),
    ])
}

fn multiwrite(ranks: u16) -> String {
    let to = [1, 3, 4, ranks - 1].into_iter().fold(Destinations::NONE, |mut to, rank| {
        to.insert(rank);
        to
    });
    let reth = Reth { virtual_address: 0x4000, remote_key: 2, dma_length: 8 + bitmap_length(ranks) as u32 };
    let mut bitmap = vec![0; bitmap_length(ranks)];
    to.emit(ranks, &mut bitmap);
    let immediate = if bitmap.is_empty() { to.to_immediate().expect("it fits") } else { 0 };
    let header = up(FIRST, Operation::WriteOnlyImmediate(reth, immediate), true);
    datagram_of(&header, "RETH, imm.", &[("bitmap", &bitmap), ("payload", b"a token!")])
}

fn flit(header: &FlitHeader, payload: &[u8]) -> String {
    let mut bytes = vec![0; header.emitted_length(payload.len())];
    header.emit(payload, &mut bytes);
    let (head, rest) = bytes.split_at(quincunx_wire::flit::LENGTH);
    let (operand, payload) = rest.split_at(rest.len() - payload.len());
    block(&[("header", head), ("operand", operand), ("payload", payload)])
}

fn probe() -> String {
    let probe = PathProbe {
        kind: Kind::Ask,
        share: 0,
        from_share: 0,
        size: 1,
        sequence: 17,
        run: 0x0102_0304_0506_0708,
        sender: 5,
        target: 6,
        sent: 1_000_000,
    };
    let mut bytes = [0; 64];
    let length = probe.emit(0, &mut bytes);
    let (bth, rest) = bytes[..length].split_at(BTH);
    let (body, crc) = rest.split_at(rest.len() - ICRC);
    block(&[("like a BTH", bth), ("body", body), ("CRC-32", crc)])
}

/// Parts of the page, by name.
pub(super) fn parts() -> Parts {
    let kernel = frames_of("rxe-rc-send.pcap");
    let numbers: Vec<u8> = [1_f32, -2.0, 0.5].iter().flat_map(|number| number.to_le_bytes()).collect();
    let root = Rank(2);
    let lock = Deth { queue_key: 7, source_qp: QpNumber::new(RANK_QP) };
    let first = Number::FIRST;
    let (source, destination) = (NodeId(0), NodeId(8));
    let write = FlitHeader {
        credit: CreditReturn { channel: Channel::new(Class::ReadResponse, true), packets: 2 },
        ..FlitHeader::new(source, destination, true, 0x1000, 0x2a, Transaction::Write)
    };
    [
        ("kernel-send", frame(&kernel[0], ("-", 0))),
        ("kernel-ack", frame(&kernel[1], ("AETH", 4))),
        (
            "epic-control",
            datagram(&up(FIRST, control(Pattern::AllReduce, DataType::F32, 33), false), "immediate", &[]),
        ),
        ("epic-first", datagram(&up(FIRST.plus(1), Operation::Send(Position::First), false), "", &numbers)),
        ("epic-last", datagram(&up(FIRST.plus(33), Operation::Send(Position::Last), true), "", b"tail!")),
        (
            "epic-broadcast",
            datagram(
                &up(FIRST.plus(34), control(Pattern::Broadcast { root }, DataType::I32, 1), false),
                "immediate",
                &[],
            ),
        ),
        ("ack", datagram(&down(FIRST.plus(33), answer(Syndrome::Ack(31))), "AETH", &[])),
        ("nak", datagram(&down(FIRST.plus(1), answer(Syndrome::Nak(NakCode::SequenceError))), "AETH", &[])),
        ("not-ready", datagram(&down(FIRST, answer(Syndrome::ReceiverNotReady(12))), "AETH", &[])),
        ("question", datagram(&up(FIRST.plus(33), Operation::QUESTION, true), "", &[])),
        ("notification", datagram(&down(Psn::new(0), Operation::CongestionNotification), "reserved", &[])),
        ("netreduce", netreduce_frame()),
        ("multiwrite-8", multiwrite(8)),
        ("multiwrite-40", multiwrite(40)),
        (
            "lock-ask",
            datagram(
                &{
                    let word = Word::Ask { refused: false }.encode(first);
                    let mut header = up(Psn::new(0), Operation::DatagramSendOnlyImmediate(lock, word), false);
                    header.expedite();
                    header
                },
                "DETH, imm.",
                &[],
            ),
        ),
        (
            "flit-read",
            flit(
                &FlitHeader::new(source, destination, false, 0x1000, 0x2a, Transaction::Read { length: 128 }),
                &[],
            ),
        ),
        ("flit-write", flit(&write, b"eight by")),
        (
            "flit-multiwrite",
            flit(
                &FlitHeader::new(
                    source,
                    destination,
                    false,
                    0x2000,
                    8,
                    Transaction::MultiWrite { destinations: 0b1_1010 },
                ),
                b"eight by",
            ),
        ),
        ("path-probe", probe()),
    ]
    .into()
}
