//! Writes the seeds of the fuzz targets: the first frame of each opcode in each capture of `vectors/`, and a packet of each
//! kind of the memory fabric and of LLDP, with some that are cut short or say what cannot be.
//!
//! `cargo run -p quincunx-wire --example seed_corpus`

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/suite/common/mod.rs"]
mod common;

use common::{repository, vector};
use quincunx_wire::flit::{
    Channel, CreditReturn, FlitHeader, MAX_ADDRESS, MAX_CREDITS, MAX_NODE, MAX_TAG, NodeId, Transaction,
    word_address,
};
use quincunx_wire::lldp::{LONGEST_FRAME, LldpFrame, LldpId};
use quincunx_wire::netreduce::{NetReduceHeader, PAYLOAD};
use quincunx_wire::{
    Aeth, EthernetRepr, Gid, MacAddress, Operation, Psn, QpNumber, Reth, RoceHeader, Syndrome,
    headers_below_bth, parse_frame, v1,
};
use std::collections::BTreeSet;

fn main() -> std::io::Result<()> {
    for capture in ["rxe", "rxe-rc-send", "rxe-ipv6"] {
        let mut seen = BTreeSet::new();
        for frame in vector(&format!("{capture}.pcap")) {
            let (_, header, _) = parse_frame(&frame).expect("a vector parses");
            let opcode = header.operation.opcode();
            if !seen.insert(opcode) {
                continue;
            }
            for (target, bytes) in [
                ("parse_frame", &frame[..]),
                ("parse_datagram", &frame[headers_below_bth(header.destination)..]),
            ] {
                let folder = repository("fuzz/corpus").join(target);
                std::fs::create_dir_all(&folder)?;
                std::fs::write(folder.join(format!("{capture}-opcode-{opcode:02x}")), bytes)?;
            }
        }
    }
    let folder = repository("fuzz/corpus/parse_v1");
    std::fs::create_dir_all(&folder)?;
    for (header, payload) in for_aggregation() {
        let mut bytes = vec![0; v1::frame_length(&header.operation, payload.len())];
        let addresses = EthernetRepr { destination: MacAddress([2; 6]), source: MacAddress([4; 6]) };
        v1::emit_frame(&addresses, &header, &payload, &mut bytes);
        std::fs::write(folder.join(format!("opcode-{:02x}", header.operation.opcode())), bytes)?;
    }
    let folder = repository("fuzz/corpus/parse_flit");
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in packets() {
        std::fs::write(folder.join(name), bytes)?;
    }
    let folder = repository("fuzz/corpus/parse_lldp");
    std::fs::create_dir_all(&folder)?;
    for (name, bytes) in announcements() {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// Frames of LLDP by name.
fn announcements() -> Vec<(&'static str, Vec<u8>)> {
    let (chassis, port) = (LldpId::local("leaf1"), LldpId::interface("eth1"));
    let ours = LldpFrame { chassis, port, time_to_live: 8, system_name: b"leaf1" };
    let mut bytes = vec![0; LONGEST_FRAME];
    let length = ours.emit(MacAddress([2; 6]), &mut bytes);
    bytes.truncate(length);
    let changed = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        changed
    };
    vec![
        ("lldpd", vector("lldpd.pcap").remove(0)),
        ("short-element", bytes[..30].to_vec()),
        ("port-first", changed(14, 4)),
        ("no-identity", changed(15, 1)),
        ("longer-than-the-frame", changed(14, 3)),
        ("of-a-kind-that-there-is-not", changed(16, 0xff)),
        ("no-letters", changed(17, 0x1b)),
        ("ours", bytes),
    ]
}

/// A message for aggregation, and its acknowledge.
fn for_aggregation() -> Vec<(RoceHeader, Vec<u8>)> {
    let ack = Aeth { syndrome: Syndrome::Ack(31), message_sequence: 1 };
    let operations = [
        Operation::WriteFirst(Reth { virtual_address: 0, remote_key: 0, dma_length: 4096 }),
        Operation::WriteMiddle,
        Operation::WriteLast,
        Operation::WriteLastImmediate(7),
        Operation::Acknowledge(ack),
    ];
    let (source, destination) = (Gid::from([10, 0, 0, 1]), Gid::from([10, 0, 0, 2]));
    let nccl = NetReduceHeader { message: 0, rank: 0, frames: 4, elements: 1019, collective: 0 }.to_bytes();
    let frame = |(number, operation): (u32, Operation)| {
        let header = RoceHeader::new(source, destination, QpNumber::new(0x11), Psn::new(number), operation);
        let mut payload = vec![0; if operation.carries_payload() { PAYLOAD } else { 0 }];
        if number == 0 {
            payload[..nccl.len()].copy_from_slice(&nccl);
        }
        (header, payload)
    };
    (0..).zip(operations).map(frame).collect()
}

/// Packets of the memory fabric by name.
fn packets() -> Vec<(String, Vec<u8>)> {
    let kinds = [
        ("credit", Transaction::Credit, 0),
        ("read", Transaction::Read { length: 128 }, 0),
        ("read-response", Transaction::ReadResponse, 128),
        ("write", Transaction::Write, 128),
        ("write-response", Transaction::WriteResponse, 0),
        ("add", Transaction::Add { operand: 1 }, 0),
        ("store", Transaction::Store { operand: u64::MAX }, 0),
        ("load-reduce", Transaction::MultimemLoadReduce { length: 128 }, 0),
        ("multicast-store", Transaction::MultimemStore, 128),
        ("multicast-add", Transaction::MultimemAdd { operand: 1 }, 0),
        ("multiwrite", Transaction::MultiWrite { destinations: 6 }, 128),
        ("reduce", Transaction::Reduce, 128),
        ("multicast-reduce", Transaction::MultimemReduce, 128),
        ("sync", Transaction::Sync, 0),
        ("release", Transaction::Release, 0),
    ];
    let mut packets = Vec::new();
    for (name, transaction, length) in kinds {
        let header = FlitHeader::new(NodeId(1), NodeId(9), true, word_address(3), 5, transaction);
        packets.push((name.to_owned(), emitted(&header, length)));
    }
    let credit = CreditReturn { channel: Channel::ALL[7], packets: MAX_CREDITS };
    let last = NodeId(MAX_NODE);
    let highest = FlitHeader::new(last, last, false, MAX_ADDRESS, MAX_TAG, Transaction::Write);
    packets.push(("highest-fields".into(), emitted(&FlitHeader { credit, ..highest }, 1)));
    let write = emitted(&highest, 16);
    let changed = |at: usize, byte: u8| {
        let mut bytes = write.clone();
        bytes[at] = byte;
        bytes
    };
    packets.push(("short-header".into(), write[..15].to_vec()));
    packets.push(("short-payload".into(), write[..31].to_vec()));
    packets.push(("trailing".into(), [&write[..], &[0]].concat()));
    packets.push(("unknown-kind".into(), changed(0, 0xf0)));
    packets.push(("unknown-channel".into(), changed(15, 0x80)));
    packets.push(("operand-length".into(), changed(0, 0x50)));
    packets
}

fn emitted(header: &FlitHeader, length: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
    let mut bytes = vec![0; header.emitted_length(length)];
    header.emit(&payload, &mut bytes);
    bytes
}
