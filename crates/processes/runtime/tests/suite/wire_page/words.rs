//! Tables of what single words say: immediates, digests, numbers of types and operations, opcodes.

use super::{Parts, table};
use quincunx_collective::{Collective, DataType, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{CollectiveRequest, RegionId, Slice};
use quincunx_epic::{Agreement, ControlMessage, MAX_DATA_PACKETS, Pattern};
use quincunx_nodes::locks::{Number, Word};
use quincunx_wire::flit::Transaction;
use quincunx_wire::{Aeth, Deth, Operation, Position, QpNumber, Reth, Syndrome, flit};

/// Bits of the digest in a confirmation.
const DIGEST_BITS: u32 = 30;

fn request(collective: Collective, op: ReduceOp, data_type: DataType) -> CollectiveRequest {
    let nothing = Slice { region: RegionId(0), offset: 0, length: 0 };
    let reduction = Reduction { op, data_type };
    CollectiveRequest { collective, reduction, input: nothing, output: nothing, terms: Terms::WHOLE }
}

fn immediates() -> String {
    let sum = |data_type| Reduction { op: ReduceOp::Sum, data_type };
    let message = |pattern, reduction, data_packets, agreement| ControlMessage {
        pattern,
        reduction,
        data_packets,
        agreement,
    };
    let (follows, scatter) = (Agreement::Follows, 1 << (Terms::BITS + 2));
    let (barrier, further) = (1 << (Terms::BITS + 1), 1 << Terms::BITS);
    let max = Reduction { op: ReduceOp::Max, data_type: DataType::I32 };
    let broadcast = Collective::Broadcast { root: Rank(2) };
    let digest = request(broadcast, ReduceOp::Sum, DataType::I32).digest(4096, DIGEST_BITS);
    let rows = [
        (
            "AllReduce, sum of f32, 33 packets",
            message(Pattern::AllReduce, sum(DataType::F32), 33, Agreement::Detail(0)),
        ),
        (
            "AllReduce, sum of f32, as many packets as can be, and further ones follow",
            message(Pattern::AllReduce, sum(DataType::F32), MAX_DATA_PACKETS, Agreement::Detail(further)),
        ),
        (
            "ReduceScatter of a short vector, sum of f32, 3 packets",
            message(Pattern::AllReduce, sum(DataType::F32), 3, Agreement::Detail(scatter)),
        ),
        ("AllGather of a short vector of bf16, all in it", ControlMessage::gather(0, DataType::Bf16, 0)),
        ("Barrier", message(Pattern::AllReduce, sum(DataType::F32), 0, Agreement::Detail(barrier))),
        (
            "Reduce to rank 3, maximum of i32, 1 packet",
            message(Pattern::Reduce { root: Rank(3) }, max, 1, follows),
        ),
        (
            "Broadcast of rank 2, i32, 4 packets",
            message(Pattern::Broadcast { root: Rank(2) }, sum(DataType::I32), 4, follows),
        ),
        ("confirmation of a Broadcast of rank 2, 4096 bytes of i32", ControlMessage::confirmation(digest)),
    ];
    let rows = rows.map(|(what, message)| vec![what.to_owned(), format!("`{:08x}`", message.encode())]);
    table(&["control message", "immediate"], &rows)
}

fn digests() -> String {
    let root = Rank(2);
    let cases = [
        (Collective::AllReduce, ReduceOp::Sum, DataType::F32, 4096),
        (Collective::Reduce { root }, ReduceOp::Sum, DataType::F32, 4096),
        (Collective::Reduce { root }, ReduceOp::Max, DataType::I32, 4096),
        (Collective::Broadcast { root }, ReduceOp::Sum, DataType::I32, 4096),
        (Collective::Broadcast { root: Rank(0) }, ReduceOp::Sum, DataType::I32, 33 * 1024 + 12),
        (Collective::AllGather, ReduceOp::Sum, DataType::I8, 3),
    ];
    let rows = cases.map(|(collective, op, data_type, length)| {
        let digest = request(collective, op, data_type).digest(length, DIGEST_BITS);
        let root = collective.root().map_or("-".into(), |root| root.0.to_string());
        let op = if collective.reduces() { op.name() } else { "-" };
        vec![
            collective.name().to_owned(),
            root,
            op.to_owned(),
            data_type.name().to_owned(),
            length.to_string(),
            format!("`{digest:08x}`"),
        ]
    });
    table(&["collective", "root", "operation", "type", "bytes", "digest"], &rows)
}

fn numbers<T: ToString>(all: &[T]) -> String {
    let rows: Vec<Vec<String>> =
        (0..).zip(all).map(|(n, one): (u8, _)| vec![n.to_string(), one.to_string()]).collect();
    let columns: Vec<String> = rows.iter().map(|row| format!("{} {}", row[0], row[1])).collect();
    format!("{}\n", columns.join(", "))
}

fn opcodes() -> String {
    let reth = Reth { virtual_address: 0, remote_key: 0, dma_length: 0 };
    let aeth = Aeth { syndrome: Syndrome::Ack(31), message_sequence: 0 };
    let deth = Deth { queue_key: 0, source_qp: QpNumber::new(0) };
    let rows = [
        ("SEND First", Operation::Send(Position::First), "-", "EPIC, hosts' designs"),
        ("SEND Middle", Operation::Send(Position::Middle), "-", "the same; without payload a question"),
        ("SEND Last", Operation::Send(Position::Last), "-", "EPIC"),
        ("SEND Last with Immediate", Operation::SendLastImmediate(0), "immediate", "hosts' designs"),
        ("SEND Only", Operation::Send(Position::Only), "-", "EPIC"),
        (
            "SEND Only with Immediate",
            Operation::SendOnlyImmediate(0),
            "immediate",
            "EPIC's control message, hosts' designs",
        ),
        ("WRITE First", Operation::WriteFirst(reth), "RETH", "NetReduce, MultiWrite"),
        ("WRITE Middle", Operation::WriteMiddle, "-", "NetReduce, MultiWrite"),
        ("WRITE Last with Immediate", Operation::WriteLastImmediate(0), "immediate", "NetReduce, MultiWrite"),
        (
            "WRITE Only with Immediate",
            Operation::WriteOnlyImmediate(reth, 0),
            "RETH, immediate",
            "NetReduce, MultiWrite",
        ),
        ("Acknowledge", Operation::Acknowledge(aeth), "AETH", "all"),
        (
            "UD SEND Only with Immediate",
            Operation::DatagramSendOnlyImmediate(deth, 0),
            "DETH, immediate",
            "SwitchML, ATP, locks",
        ),
        (
            "congestion notification",
            Operation::CongestionNotification,
            "16 reserved bytes",
            "Mode-III, DCQCN",
        ),
    ];
    let rows = rows.map(|(name, operation, headers, users)| {
        vec![
            format!("`{:02x}`", operation.opcode()),
            name.to_owned(),
            headers.to_owned(),
            operation.extension_length().to_string(),
            users.to_owned(),
        ]
    });
    table(&["opcode", "operation", "between BTH and payload", "bytes", "who sends it"], &rows)
}

fn lock_words() -> String {
    let third = Number::FIRST.next().next();
    let words = [
        (Word::Ask { refused: false }, "up"),
        (Word::Ask { refused: true }, "up, of switches alone"),
        (Word::Verdict { granted: false }, "down"),
        (Word::Verdict { granted: true }, "down"),
        (Word::Done, "up"),
        (Word::Free, "down"),
    ];
    let rows = words.map(|(word, way)| {
        let bits = word.encode(third);
        vec![(bits >> 29).to_string(), word.to_string(), way.to_owned(), format!("`{bits:08x}`")]
    });
    table(&["bits 31 to 29", "word", "way", "of invocation 3"], &rows)
}

fn flit_kinds() -> String {
    let kinds = [
        Transaction::Credit,
        Transaction::Read { length: 0 },
        Transaction::ReadResponse,
        Transaction::Write,
        Transaction::WriteResponse,
        Transaction::Add { operand: 0 },
        Transaction::Store { operand: 0 },
        Transaction::MultimemLoadReduce { length: 0 },
        Transaction::MultimemStore,
        Transaction::MultimemAdd { operand: 0 },
        Transaction::MultiWrite { destinations: 0 },
        Transaction::Reduce,
        Transaction::MultimemReduce,
        Transaction::Sync,
        Transaction::Release,
    ];
    let rows = kinds.map(|transaction| {
        let header = flit::FlitHeader::new(flit::NodeId(0), flit::NodeId(1), false, 0, 0, transaction);
        let mut bytes = [0; 64];
        header.emit(&[], &mut bytes);
        let channel = header.channel().map_or("-".into(), |channel| channel.index().to_string());
        let follows = match (header.emitted_length(0) > flit::LENGTH, transaction.carries_data()) {
            (true, true) => "8 bytes, payload",
            (true, false) => "8 bytes",
            (false, true) => "payload",
            (false, false) => "-",
        };
        vec![(bytes[0] >> 4).to_string(), transaction.name().to_owned(), channel, follows.to_owned()]
    });
    table(&["kind", "transaction", "channel", "after the header"], &rows)
}

/// Parts of the page, by name.
pub(super) fn parts() -> Parts {
    [
        ("immediates", immediates()),
        ("digests", digests()),
        ("types", numbers(&DataType::ALL)),
        ("operations", numbers(&ReduceOp::ALL)),
        ("opcodes", opcodes()),
        ("lock-words", lock_words()),
        ("flit-kinds", flit_kinds()),
    ]
    .into()
}
