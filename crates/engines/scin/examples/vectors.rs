//! Writes `vectors/scin-isa.txt`: what an in-switch accelerator is told, and what it answers.
//!
//! ```text
//! cargo run -p quincunx-scin --example vectors > vectors/scin-isa.txt
//! ```
//!
//! A line that begins with `> ` is what is told, in the words of the example `answers`; those up to the next one are the answer. The tests here
//! and the benches of `rtl/scin_isa` hold engine and hardware to the file.

#[path = "answers/lines.rs"]
mod lines;

use lines::ScriptedIsa;
use quincunx_collective::{Collective, Rank};
use quincunx_engine::shared_memory::Span;
use quincunx_scin::{Addresses, instructions};
use std::fmt::Write as _;

const AT: u64 = 0x1000;
const SCALES_AT: u64 = 0x10_0000;
/// Zeros, subnormal, infinite, a NaN that carries something, the largest.
const F32_KINDS: [u32; 8] = [0, 1 << 31, 1, 0x807f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fa0_0001, 0x7f7f_ffff];

/// Numbers by chance (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// An element of a type: of any kind, or of a few exponents, so that sums round and cancel.
    fn element(&mut self, data_type: u64) -> Vec<u8> {
        let (any, near, special) =
            (self.next(), !self.next().is_multiple_of(8), self.next().is_multiple_of(16));
        match data_type {
            0 if special => F32_KINDS[any as usize % 8].to_le_bytes().to_vec(),
            0 if near => ((any as u32 & 0x80ff_ffff)
                | (0x3f00_0000 + ((any >> 40) as u32 & 3) * 0x0080_0000))
                .to_le_bytes()
                .to_vec(),
            0 => (any as u32).to_le_bytes().to_vec(),
            1 if special => {
                const KINDS: [u16; 8] = [0, 0x8000, 1, 0x83ff, 0x7c00, 0xfc00, 0x7d55, 0x7bff];
                KINDS[any as usize % 8].to_le_bytes().to_vec()
            }
            1 if near => {
                ((any as u16 & 0x83ff) + 0x3800 + ((any >> 40) as u16 & 3) * 0x0400).to_le_bytes().to_vec()
            }
            1 => (any as u16).to_le_bytes().to_vec(),
            _ if special => {
                const KINDS: [u16; 8] = [0, 0x8000, 1, 0x807f, 0x7f80, 0xff80, 0x7fa5, 0x7f7f];
                KINDS[any as usize % 8].to_le_bytes().to_vec()
            }
            _ if near => {
                ((any as u16 & 0x807f) + 0x3f00 + ((any >> 40) as u16 & 3) * 0x0080).to_le_bytes().to_vec()
            }
            _ => (any as u16).to_le_bytes().to_vec(),
        }
    }

    fn vector(&mut self, length: usize, data_type: u64) -> Vec<u8> {
        let mut vector = Vec::new();
        while vector.len() < length {
            vector.extend(self.element(data_type));
        }
        vector
    }
}

struct Script {
    isa: ScriptedIsa,
    text: String,
    noise: Noise,
}

impl Script {
    fn tell(&mut self, line: &str) {
        let answers = self.isa.answer(line).expect("a line that makes sense");
        let _ = write!(self.text, "> {line}\n{answers}");
    }

    fn memory(&mut self, port: u16, address: u64, bytes: &[u8]) {
        let hex = bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        self.tell(&format!("memory {port} {address} {hex}"));
    }

    /// A vector of each accelerator, at an address of its own.
    fn vectors(&mut self, ports: u16, length: usize, data_type: u64) {
        for port in 0..ports {
            let vector = self.noise.vector(length, data_type);
            self.memory(port, AT * u64::from(port + 1), &vector);
        }
    }

    fn instruction(&mut self, id: u16, length: usize, flags: u64, masks: (u64, u64), addresses: &[u64]) {
        let words = addresses.iter().fold(String::new(), |words, address| words + &format!(" {address}"));
        self.tell(&format!("instruction {id} {length} {flags} {} {}{words}", masks.0, masks.1));
    }

    /// All participants arrive, and all is done; then what every accelerator has.
    fn run(&mut self, ports: u16, participants: u64, dumps: &[(u64, usize)]) {
        for port in (0..ports).filter(|port| participants >> port & 1 != 0) {
            self.tell(&format!("add {port} 1"));
        }
        self.tell("run");
        for port in 0..ports {
            for (address, length) in dumps {
                let address = if *address == AT { AT * u64::from(port + 1) } else { *address };
                self.tell(&format!("dump {port} {address} {length}"));
            }
        }
    }

    /// One instruction over the vectors of some accelerators, all of them told before.
    fn reduce(&mut self, ports: u16, data_type: u64, length: usize, masks: (u64, u64)) {
        self.tell(&format!("ports {ports} {data_type}"));
        self.vectors(ports, length, data_type);
        if masks.0.is_power_of_two() {
            // What passes unchanged, or would not.
            let kinds: Vec<u8> = F32_KINDS.iter().flat_map(|kind| kind.to_le_bytes()).collect();
            (0..ports).for_each(|port| self.memory(port, AT * u64::from(port + 1), &kinds));
        }
        let addresses: Vec<_> = (1..=u64::from(ports)).map(|port| AT * port).collect();
        self.instruction(1, length, 12, masks, &addresses);
        // Beyond the end, too, nothing may be written.
        self.run(ports, masks.0 | masks.1, &[(AT, length + 8)]);
    }

    /// The instructions of a collective, on a region.
    fn collective(&mut self, collective: Collective, length: usize) {
        self.tell("ports 4 0");
        for port in 0..4 {
            let vector = self.noise.vector(length, 0);
            self.memory(port, AT, &vector);
        }
        let span = Span { offset: AT as usize, length };
        for each in instructions(collective, 4, span, (0, 1), 64) {
            let Addresses::Region(address) = each.addresses else { panic!("a region") };
            let mask = |of: quincunx_scin::Accelerators| of.iter().fold(0, |mask, port| mask | 1 << port);
            let flags = 2 | if each.wait { 4 } else { 0 } | if each.notify { 8 } else { 0 };
            let masks = (mask(each.sources), mask(each.destinations));
            self.instruction(each.id, each.length as usize, flags, masks, &[address; 4]);
        }
        for port in 0..4 {
            self.tell(&format!("add {port} 1"));
        }
        self.tell("run");
        for port in 0..4 {
            self.tell(&format!("dump {port} {AT} {length}"));
        }
    }

    /// A quantised instruction: codes and scales of any kind where `wild`.
    fn quantised(&mut self, ports: u16, length: usize, sources: u64, wild: bool) {
        self.tell(&format!("ports {ports} 0"));
        for port in 0..ports {
            let codes: Vec<u8> = (0..length).map(|_| self.noise.next() as u8).collect();
            self.memory(port, AT * u64::from(port + 1), &codes);
            let scales: Vec<u8> =
                (0..length.div_ceil(64)).flat_map(|_| self.scale(wild).to_le_bytes()).collect();
            self.memory(port, SCALES_AT, &scales);
        }
        let addresses: Vec<_> = (1..=u64::from(ports)).map(|port| AT * port).collect();
        let all = (1 << ports) - 1;
        self.instruction(2, length, 13, (sources, all), &addresses);
        let scales = 2 * length.div_ceil(64);
        self.instruction(3, scales, 2, (sources, all), &vec![SCALES_AT; usize::from(ports)]);
        self.run(ports, all, &[(AT, length + 8), (SCALES_AT, scales + 8)]);
    }

    fn scale(&mut self, wild: bool) -> u16 {
        let any = self.noise.next();
        match any >> 32 & 15 {
            0 if wild => [0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 1, 0x3ff][any as usize % 8],
            1..=4 if wild => any as u16 & 0x83ff,
            5..=8 if wild => (any as u16 & 0x83ff) | 0x7800,
            _ => (any as u16 & 0x03ff) | 0x2000 | (any >> 16) as u16 & 0x0c00,
        }
    }

    fn refused(&mut self, list: &[(usize, u64, (u64, u64), u64)]) {
        self.tell("ports 4 0");
        for (length, flags, masks, address) in list {
            self.instruction(4, *length, *flags, *masks, &[*address; 4]);
        }
        self.tell("run");
    }
}

fn main() {
    let isa = ScriptedIsa::new(4, 0).expect("an accelerator");
    let mut script = Script { isa, text: String::new(), noise: Noise(1) };
    for data_type in 0..3 {
        script.reduce(4, data_type, 516, (15, 15));
        script.reduce(8, data_type, 260, (255, 255));
    }
    // A source that is left over in the first turn, one in each, and those that are not neighbours.
    for (ports, masks) in
        [(4, (13, 15)), (4, (6, 9)), (4, (8, 7)), (8, (0xb6, 0xff)), (8, (0x7f, 0x81)), (8, (0xa1, 0x10))]
    {
        script.reduce(ports, 0, 96, masks);
    }
    // One alone, which passes unchanged: NaNs with what they carry, zeros with their sign.
    script.reduce(8, 0, 96, (0x10, 0xef));
    script.reduce(4, 1, 130, (7, 15));
    script.reduce(4, 2, 130, (11, 3));
    for collective in [
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::Reduce { root: Rank(2) },
        Collective::Broadcast { root: Rank(1) },
        Collective::Barrier,
    ] {
        script.collective(collective, 272);
    }
    for (length, wild) in [(256, false), (2000, true), (40, true), (65, false), (4160, true)] {
        script.quantised(4, length, 15, wild);
    }
    script.quantised(4, 96, 11, true);
    script.quantised(4, 96, 4, true);
    let (beyond, all) = (0xffff_ffff_ffff - 30, (15, 15));
    script.refused(&[(32, 12, (0, 15), AT)]);
    script.refused(&[(32, 12, (15, 0), AT)]);
    script.refused(&[(33, 12, all, AT)]);
    script.refused(&[(32, 12, all, beyond)]);
    script.refused(&[(64, 13, all, AT), (4, 2, all, AT)]);
    script.refused(&[(64, 13, all, AT), (2, 2, (7, 15), AT)]);
    script.refused(&[(64, 13, all, AT), (2, 6, all, AT)]);
    print!("{}", script.text);
}
