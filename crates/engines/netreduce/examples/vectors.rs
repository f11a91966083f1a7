//! Writes `vectors/allreduce-switch.txt`: frames of three hosts that `wire` made, and what the switch answers to each.
//!
//! ```text
//! cargo run -p quincunx-netreduce --example vectors > vectors/allreduce-switch.txt
//! ```
//!
//! A line that begins with `> ` is what the switch is told, in the words of the example `answers`; those up to the next one are what it
//! answers. The tests here and the benches of `rtl/allreduce_switch` hold engine and hardware to the file.

#[path = "answers/lines.rs"]
mod lines;

use lines::{Lines, ScriptedSwitch};
use quincunx_netreduce::Shape;
use quincunx_wire::netreduce::{LENGTH, NetReduceHeader, PAYLOAD};
use quincunx_wire::{EthernetRepr, Gid, MacAddress, Operation, Psn, QpNumber, Reth, RoceHeader, v1};
use std::io;

const PORTS: u8 = 3;
const FIRST: Operation =
    Operation::WriteFirst(Reth { virtual_address: 0x2_0000, remote_key: 0, dma_length: 3072 });

fn mac(host: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, host])
}

/// Host `from`'s frame for the next host: all elements are `word`, and of a First there is a header before them.
fn frame(from: u8, operation: Operation, psn: u32, message: u32, word: u32) -> Vec<u8> {
    let to = (from + 1) % PORTS;
    let ip = |host| Gid::from([10, 0, 0, 1 + host]);
    let qp = QpNumber::new(0x10 + u32::from(from));
    let header = RoceHeader::new(ip(from), ip(to), qp, Psn::new(psn + 0x100 * u32::from(from)), operation);
    let mut payload = word.to_le_bytes().repeat(PAYLOAD / 4);
    if matches!(operation, Operation::WriteFirst(_)) {
        let header =
            NetReduceHeader { message, rank: from.into(), frames: 3, elements: 763, collective: message };
        payload[..LENGTH].copy_from_slice(&header.to_bytes());
    }
    let addresses = EthernetRepr { destination: mac(to), source: mac(from) };
    let mut out = vec![0; v1::frame_length(&operation, payload.len())];
    v1::emit_frame(&addresses, &header, &payload, &mut out);
    out
}

/// What the switch is told.
fn told() -> Vec<String> {
    let line = |port: u8, frame: &[u8]| {
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("frame {port} {hex}")
    };
    let hello = |host: u8| [&[0xff; 6][..], &mac(host).0, &[0x08, 0x06], b"who has"].concat();
    let last = Operation::WriteLastImmediate(7);
    // PSNs wrap in the first message.
    let psn = 0xff_ffff;
    let mut told = vec![format!("ports {PORTS}")];
    told.extend((0..PORTS).map(|host| line(host, &hello(host))));
    // Fixed point, in another order at each frame; the last one of host 0 is no Last with Immediate.
    for (at, hosts) in [[0, 1, 2], [2, 0, 1], [1, 2, 0]].into_iter().enumerate() {
        for host in hosts {
            let operation = match (at, host) {
                (0, _) => FIRST,
                (1, _) => Operation::WriteMiddle,
                (_, 0) => Operation::WriteLast,
                _ => last,
            };
            let word = 0x7fff_fff0 + 0x10 * u32::from(host) + at as u32;
            told.push(line(host, &frame(host, operation, psn + at as u32, 0, word)));
        }
    }
    // Again; behind a gap; before its sum is there; damaged; of no known queue pair, with and without the label.
    told.push(line(1, &frame(1, Operation::WriteMiddle, psn + 1, 0, 0)));
    told.push(line(0, &frame(0, Operation::WriteMiddle, psn + 4, 1, 1)));
    let next = frame(0, FIRST, psn + 3, 1, 1);
    told.extend([line(0, &next), line(0, &next)]);
    let mut damaged = frame(2, FIRST, psn + 3, 1, 1);
    damaged[700] ^= 0x20;
    told.push(line(2, &damaged));
    let mut unknown = frame(2, Operation::WriteMiddle, psn + 3, 1, 1);
    unknown[61] ^= 0x40;
    told.push(line(2, &unknown));
    unknown[17] ^= 1;
    told.push(line(2, &unknown));
    // Floating point, between two of the three; what was under way is forgotten.
    told.push("config 1 10000003".to_owned());
    let one = 1.5_f32.to_bits();
    told.push(line(0, &frame(0, FIRST, 100, 0, one)));
    told.push(line(2, &frame(2, FIRST, 100, 0, one)));
    told.push(line(1, &frame(1, FIRST, 100, 0, (-0.25_f32).to_bits())));
    told.push("config 0 18000003".to_owned());
    told
}

fn main() -> io::Result<()> {
    let mut switch = ScriptedSwitch::new(Shape::of_ports(PORTS.into())).map_err(io::Error::other)?;
    for line in told() {
        let mut answers = Lines(String::new());
        switch.answer(&line, &mut answers).map_err(io::Error::other)?;
        print!("> {line}\n{}", answers.0);
    }
    Ok(())
}
