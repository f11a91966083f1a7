//! Lines that an in-switch accelerator is told, and those that it answers: see `main.rs`.

use quincunx_collective::{BlockQuantization, DataType, Numbers, ReduceOp, Reduction};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::WordId;
use quincunx_scin::{Accelerators, Addresses, ComputeLatency, Instruction, Isa, IsaConfig};
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{FlitFormat, FlitHeader, NodeId, Transaction, word_address};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const NODE: NodeId = NodeId(9);

/// An in-switch accelerator, and the memories around it.
pub(crate) struct ScriptedIsa {
    isa: Isa<Numbers>,
    accelerators: u16,
    /// By accelerator, the bytes that have been written; the others are zero.
    memories: Vec<BTreeMap<u64, u8>>,
    loaded: Vec<Instruction>,
    arrivals: Vec<(u16, u64)>,
}

fn config(accelerators: u16, data_type: DataType) -> IsaConfig {
    IsaConfig {
        node: NODE,
        accelerators,
        flags: vec![WordId(5)],
        waves: 4,
        wave: 4096,
        format: FlitFormat { flit: 32, header_flits: 1, max_payload: 4096 },
        reduction: Reduction { op: ReduceOp::Sum, data_type },
        latency: ComputeLatency { regular: Duration::ZERO, quantized: Duration::ZERO },
        compute_rate: None,
        quantization: Some(BlockQuantization::INT8_BY_64),
        mutation: None,
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}

fn mask(bits: u64) -> Accelerators {
    (0..64)
        .filter(|port| bits >> port & 1 != 0)
        .fold(Accelerators::default(), |all, port| all.union(Accelerators::only(port)))
}

impl ScriptedIsa {
    /// Of so many accelerators; the element type as in `main.rs`.
    pub(crate) fn new(accelerators: u16, data_type: u64) -> Result<Self, String> {
        let data_type = match data_type {
            0 => DataType::F32,
            1 => DataType::F16,
            2 => DataType::Bf16,
            other => return Err(format!("expected a type from 0 to 2, found {other}")),
        };
        let isa = Isa::new(config(accelerators, data_type)).map_err(|error| error.to_string())?;
        let memories = vec![BTreeMap::new(); usize::from(accelerators)];
        Ok(Self { isa, accelerators, memories, loaded: Vec::new(), arrivals: Vec::new() })
    }

    /// What it answers.
    pub(crate) fn answer(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ports", ports, data_type] => {
                let ports = u16::try_from(number(ports)?).map_err(|error| error.to_string())?;
                *self = Self::new(ports, number(data_type)?)?;
            }
            ["memory", port, address, hex] => {
                let (memory, address) = (self.memory(port)?, number(address)?);
                let bytes = bytes(hex).ok_or("expected pairs of hexadecimal digits")?;
                memory.extend((address..).zip(bytes));
            }
            ["instruction", id, length, flags, sources, destinations, ref addresses @ ..] => {
                let flags = number(flags)?;
                let addresses: Vec<u64> =
                    addresses.iter().map(|word| number(word)).collect::<Result<_, _>>()?;
                let first = *addresses.first().ok_or("expected addresses")?;
                self.loaded.push(Instruction {
                    id: number(id)? as u16,
                    length: number(length)? as u32,
                    addresses: if flags & 2 != 0 {
                        Addresses::Region(first)
                    } else {
                        Addresses::Each(addresses)
                    },
                    sources: mask(number(sources)?),
                    destinations: mask(number(destinations)?),
                    quantize: flags & 1 != 0,
                    wait: flags & 4 != 0,
                    notify: flags & 8 != 0,
                });
            }
            ["add", port, operand] => {
                self.memory(port)?;
                self.arrivals.push((number(port)? as u16, number(operand)?));
            }
            ["run"] => return Ok(self.run()),
            ["dump", port, address, length] => {
                let (from, length) = (number(address)?, number(length)?);
                let memory = self.memory(port)?;
                let mut answer = format!("memory {port} {from} ");
                for address in from..from + length {
                    let _ = write!(answer, "{:02x}", memory.get(&address).copied().unwrap_or(0));
                }
                return Ok(answer + "\n");
            }
            _ => return Err(format!("expected a line of those in main.rs, found {line}")),
        }
        Ok(String::new())
    }

    fn memory(&mut self, port: &str) -> Result<&mut BTreeMap<u64, u8>, String> {
        let found = number(port)?;
        self.memories.get_mut(found as usize).ok_or_else(|| format!("expected a port, found {found}"))
    }

    fn run(&mut self) -> String {
        let mut answers = String::new();
        if let Err(error) = self.isa.load(0, std::mem::take(&mut self.loaded)) {
            let _ = writeln!(answers, "refused {error}");
        }
        for (port, operand) in std::mem::take(&mut self.arrivals) {
            let add = Transaction::Add { operand };
            let header = FlitHeader::new(NodeId(port), NODE, true, word_address(0), 0, add);
            self.isa.handle_packet(Instant::ZERO, PortId(port), &header, &[]).expect("a counter");
        }
        loop {
            let mut packets = Vec::new();
            for port in 0..self.accelerators {
                while let Some((channel, _)) =
                    self.isa.ready(PortId(port)).into_iter().find(|(_, ready)| *ready)
                {
                    let (header, payload) = self.isa.next_packet(PortId(port), channel);
                    packets.push((port, header, payload.to_vec()));
                }
            }
            if packets.is_empty() {
                return answers;
            }
            for (port, header, payload) in packets {
                self.serve(port, &header, &payload, &mut answers);
            }
        }
    }

    /// What an accelerator does with a packet.
    fn serve(&mut self, port: u16, header: &FlitHeader, payload: &[u8], answers: &mut String) {
        let memory = &mut self.memories[usize::from(port)];
        let (response, data) = match header.transaction {
            Transaction::Read { length } => {
                let at = |offset| memory.get(&(header.address + offset)).copied().unwrap_or(0);
                (Transaction::ReadResponse, (0..u64::from(length)).map(at).collect())
            }
            Transaction::Write => {
                memory.extend((header.address..).zip(payload.iter().copied()));
                (Transaction::WriteResponse, Vec::new())
            }
            Transaction::Store { operand } => {
                let _ = writeln!(answers, "flag {port} {operand}");
                return;
            }
            other => panic!("no memory serves {other:?}"),
        };
        let response = header.response(response);
        self.isa.handle_packet(Instant::ZERO, PortId(port), &response, &data).expect("an answer");
        self.isa.advance(Instant::ZERO);
    }
}
