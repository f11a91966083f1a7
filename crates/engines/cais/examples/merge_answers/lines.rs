//! Lines that a merge unit is told, and those that it answers: see `main.rs`.

use quincunx_cais::{Merge, MergeConfig};
use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_design::UnitOutput;
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{FlitFormat, FlitHeader, NodeId};
use std::fmt::Write as _;

const NODE: NodeId = NodeId(64);

/// A merge unit, once it is there.
#[derive(Default)]
pub(crate) struct ScriptedUnit {
    unit: Option<Merge<Numbers>>,
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn cycles(count: u64) -> Duration {
    Duration::from_nanos(count)
}

fn config(words: &[u64; 9]) -> Result<MergeConfig, String> {
    let [
        accelerators,
        participants,
        entries,
        max_payload,
        data_type,
        groups,
        streams,
        timeout,
        group_timeout,
    ] = *words;
    let data_type = match data_type {
        0 => DataType::F32,
        1 => DataType::F16,
        2 => DataType::Bf16,
        other => return Err(format!("expected a type from 0 to 2, found {other}")),
    };
    Ok(MergeConfig {
        node: NODE,
        accelerators: accelerators as u16,
        participants: participants as u16,
        entries: entries as usize,
        groups: groups as usize,
        streams: streams as u16,
        timeout: cycles(timeout),
        group_timeout: cycles(group_timeout),
        latency: Duration::ZERO,
        format: FlitFormat { flit: 16, header_flits: 1, max_payload: max_payload as usize },
        reduction: Reduction { op: ReduceOp::Sum, data_type },
        levels: false,
        mutation: None,
    })
}

impl ScriptedUnit {
    /// What it answers.
    pub(crate) fn answer(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["unit", ref numbers @ ..] => {
                let numbers: Vec<u64> = numbers.iter().map(|word| number(word)).collect::<Result<_, _>>()?;
                let numbers = numbers.as_array().ok_or("expected nine numbers")?;
                self.unit = Some(Merge::new(config(numbers)?).map_err(|error| error.to_string())?);
                Ok(String::new())
            }
            ["packet", at, port, hex] => {
                let (at, port) = (Instant::ZERO + cycles(number(at)?), PortId(number(port)? as u16));
                let bytes = bytes(hex).ok_or("expected pairs of hexadecimal digits")?;
                let (header, payload) = FlitHeader::parse(&bytes).map_err(|error| error.to_string())?;
                let unit = self.unit.as_mut().ok_or("expected a unit first")?;
                match unit.handle_packet(at, port, &header, payload) {
                    Ok(_) => Ok(self.leaving()),
                    Err(drop) => Ok(format!("drop {drop:?}\n")),
                }
            }
            ["timer", at] => {
                let at = Instant::ZERO + cycles(number(at)?);
                self.unit.as_mut().ok_or("expected a unit first")?.handle_timer(at);
                Ok(self.leaving())
            }
            _ => Err(format!("expected a line of those in main.rs, found {line}")),
        }
    }

    /// All that leaves.
    fn leaving(&mut self) -> String {
        let unit = self.unit.as_mut().expect("a unit");
        let mut answers = String::new();
        let mut tell = |port: PortId, header: &FlitHeader, payload: &[u8]| {
            let mut bytes = vec![0; header.emitted_length(payload.len())];
            header.emit(payload, &mut bytes);
            let _ = write!(answers, "out {} ", port.0);
            bytes.iter().for_each(|byte| {
                let _ = write!(answers, "{byte:02x}");
            });
            answers.push('\n');
        };
        while let Some(output) = unit.next_output() {
            let (UnitOutput::Packet(to, header, payload) | UnitOutput::Forward { to, header, payload, .. }) =
                output
            else {
                continue;
            };
            tell(to, &header, payload.view(0..payload.length()));
        }
        for port in (0..unit.accelerators()).map(PortId) {
            while let Some(channel) = unit.ready(port).first_from(0) {
                let (header, payload) = unit.next_packet(port, channel);
                tell(port, &header, payload);
            }
        }
        unit.assert_invariants();
        answers
    }
}
