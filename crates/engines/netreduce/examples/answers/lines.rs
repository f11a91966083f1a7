//! Lines that a switch is told, and those that it answers: see `main.rs`.

use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_netreduce::{
    EthernetDrop, EthernetHeader, EthernetSwitch, EthernetSwitchConfig, PortConfig, Shape, Way,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::netreduce::PAYLOAD;
use std::collections::VecDeque;
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

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn number(word: &str) -> Result<u16, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}

fn register(word: &str) -> Result<u32, String> {
    u32::from_str_radix(word.trim_start_matches("0x"), 16).map_err(|error| format!("{word}: {error}"))
}

/// A switch that is told lines.
pub(crate) struct ScriptedSwitch {
    switch: Switch,
    /// By port: frames whose destination has been looked up.
    kept: Vec<VecDeque<(Way, EthernetHeader, Numbers)>>,
}

impl ScriptedSwitch {
    /// A switch of which all ports take part, and which adds integers.
    pub(crate) fn new(shape: Shape) -> Result<Self, String> {
        let config =
            EthernetSwitchConfig { shape, reduction: reduction(0), ports: PortConfig::all(shape.ports) };
        let switch = Switch::new(config).map_err(|error| error.to_string())?;
        Ok(Self { switch, kept: vec![VecDeque::new(); usize::from(shape.ports)] })
    }

    fn ports(&self) -> u16 {
        self.kept.len() as u16
    }

    fn port(&self, word: &str) -> Result<u16, String> {
        let port = number(word)?;
        if port < self.ports() { Ok(port) } else { Err(format!("there is no port {port}")) }
    }

    /// The oldest frame that a port keeps.
    fn oldest(&mut self, port: u16) -> Result<(Way, EthernetHeader, Numbers), String> {
        self.kept[usize::from(port)].pop_front().ok_or_else(|| format!("port {port} keeps no frame"))
    }

    /// Carries out one line; what is answered goes to `out`.
    pub(crate) fn answer(&mut self, line: &str, out: &mut Lines) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["ports", count, rest @ ..] => {
                let mut shape = Shape::of_ports(number(count)?);
                if let [flows, frames] = rest {
                    (shape.flows, shape.frames) = (number(flows)?, number(frames)?);
                }
                *self = Self::new(shape)?;
            }
            ["config", mode, config] => match PortConfig::from_bits(register(config)?, self.ports()) {
                Ok(config) => {
                    let registers = (config, reduction(register(mode)?));
                    let _ = self.switch.handle_command(Instant::ZERO, registers, out);
                }
                Err(error) => {
                    let _ = writeln!(out.0, "refused {error}");
                }
            },
            [step @ ("frame" | "learn" | "find"), port, hex] => {
                let (port, frame) = (self.port(port)?, bytes(hex).ok_or("no hexadecimal frame")?);
                let Some((header, range)) = EthernetHeader::parse(&frame, PAYLOAD) else {
                    if *step != "learn" {
                        let _ = writeln!(out.0, "drop {port} runt");
                    }
                    return Ok(());
                };
                let payload = Numbers::from(frame[range].to_vec());
                match *step {
                    "frame" => {
                        let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
                        self.switch.handle_frame(Instant::ZERO, PortId(port), frame, out);
                        self.switch.assert_invariants();
                    }
                    "learn" => self.switch.learn(port, &header),
                    _ => match self.switch.way(port, &header) {
                        Way::Filtered => out.drop_frame(PortId(port), EthernetDrop::Filtered),
                        way => self.kept[usize::from(port)].push_back((way, header, payload)),
                    },
                }
            }
            ["pass", port] => {
                let port = self.port(port)?;
                let (way, header, payload) = self.oldest(port)?;
                let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
                self.switch.pass(port, way, frame, out);
                self.switch.assert_invariants();
            }
            ["lose", port] => {
                let port = self.port(port)?;
                self.oldest(port)?;
            }
            _ => return Err(format!("expected ports, config, frame or a step of one, found {line:?}")),
        }
        Ok(())
    }
}
