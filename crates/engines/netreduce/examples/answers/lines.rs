//! Lines that a switch is told, and those that it answers: see `main.rs`.

use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_netreduce::{
    EthernetDrop, EthernetHeader, EthernetSwitch, EthernetSwitchConfig, PortConfig, Shape,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::netreduce::PAYLOAD;
use std::fmt::Write as _;

/// The switch.
pub(crate) type Switch = EthernetSwitch<Numbers>;

/// Writes what the switch does as lines.
pub(crate) struct Lines(pub(crate) String);

impl Sink<Switch> for Lines {
    fn transmit(&mut self, PortId(port): PortId, frame: Frame<'_, EthernetHeader, Numbers>) {
        let payload = Numbers::contents(frame.payload).unwrap_or_default();
        let mut bytes = vec![0; frame.header.frame_length(payload.len())];
        frame.header.emit(payload, &mut bytes);
        let _ = write!(self.0, "out {port} ");
        for byte in bytes {
            let _ = write!(self.0, "{byte:02x}");
        }
        self.0.push('\n');
    }

    fn set_timer(&mut self, (): (), _: Duration) {}

    fn cancel_timer(&mut self, (): ()) {}

    fn emit(&mut self, event: std::convert::Infallible) {
        match event {}
    }

    fn drop_frame(&mut self, PortId(port): PortId, reason: EthernetDrop) {
        let _ = writeln!(self.0, "drop {port} {}", reason.name());
    }
}

fn reduction(mode: u32) -> Reduction {
    let data_type = if mode & 1 != 0 { DataType::F32 } else { DataType::I32 };
    Reduction { op: ReduceOp::Sum, data_type }
}

/// A switch of which all ports take part, and which adds integers.
pub(crate) fn switch(shape: Shape) -> Result<Switch, String> {
    let config = EthernetSwitchConfig { shape, reduction: reduction(0), ports: PortConfig::all(shape.ports) };
    Switch::new(config).map_err(|error| error.to_string())
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// Carries out one line; what is answered goes to `out`.
pub(crate) fn answer(
    switch: &mut Switch,
    ports: &mut u16,
    line: &str,
    out: &mut Lines,
) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.parse::<u16>().map_err(|error| format!("{word}: {error}"));
    let register = |word: &str| {
        u32::from_str_radix(word.trim_start_matches("0x"), 16).map_err(|error| format!("{word}: {error}"))
    };
    match words.as_slice() {
        ["ports", count, rest @ ..] => {
            let mut shape = Shape::of_ports(number(count)?);
            if let [flows, frames] = rest {
                (shape.flows, shape.frames) = (number(flows)?, number(frames)?);
            }
            *switch = self::switch(shape)?;
            *ports = shape.ports;
        }
        ["config", mode, config] => match PortConfig::from_bits(register(config)?, *ports) {
            Ok(config) => {
                let _ = switch.handle_command(Instant::ZERO, (config, reduction(register(mode)?)), out);
            }
            Err(error) => {
                let _ = writeln!(out.0, "refused {error}");
            }
        },
        ["frame", port, hex] => {
            let (port, frame) = (PortId(number(port)?), bytes(hex).ok_or("no hexadecimal frame")?);
            match EthernetHeader::parse(&frame, PAYLOAD) {
                Some((header, range)) => {
                    let payload = Numbers::from(frame[range].to_vec());
                    let view = payload.view(0..payload.length());
                    switch.handle_frame(Instant::ZERO, port, Frame { header: &header, payload: view }, out);
                    switch.assert_invariants();
                }
                None => {
                    let _ = writeln!(out.0, "drop {} runt", port.0);
                }
            }
        }
        _ => return Err(format!("expected ports, config or frame, found {line:?}")),
    }
    Ok(())
}
