//! Lines that a Mode-II switch is told, and those that it answers: see `main.rs`.

use quincunx_collective::{Numbers, Payload, Rank};
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::Frame;
use quincunx_epic::{EdgeConfig, GroupConfig, IncEngine, Mode};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{
    Endpoint, Envelope, Gid, MacAddress, Psn, QpNumber, RoceHeader, emit_frame, frame_length, parse_frame,
};
use std::fmt::Write as _;

/// The address of a neighbour by its edge; of the switch, if there is none.
pub(crate) fn ip(edge: Option<u8>) -> Gid {
    Gid::from([10, 0, 0, edge.map_or(254, |edge| edge + 1)])
}

/// Its hardware address.
fn mac(edge: Option<u8>) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, edge.map_or(254, |edge| edge + 1)])
}

/// The queue pair at the switch's end of an edge.
pub(crate) fn local_qp(edge: u8) -> QpNumber {
    QpNumber::new(0x100 + u32::from(edge))
}

/// Writes a frame that a neighbour sends, or that it gets, in hexadecimal.
pub(crate) fn hex_frame(edge: u8, is_sent: bool, header: &RoceHeader, payload: &[u8]) -> String {
    let (source, destination) = if is_sent { (Some(edge), None) } else { (None, Some(edge)) };
    let mut bytes = vec![0; frame_length(&header.operation, payload.len())];
    emit_frame(&Envelope::new(mac(source), mac(destination)), header, payload, &mut bytes);
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The bytes that a line has in hexadecimal.
pub(crate) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// Writes what the engine does as lines.
struct Lines<'a> {
    said: String,
    memory: &'a mut Numbers,
}

impl DatapathSink<Numbers> for Lines<'_> {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, Numbers>) {
        let payload = Numbers::contents(frame.payload).unwrap_or_default();
        let _ = writeln!(self.said, "out {edge} {}", hex_frame(edge as u8, false, frame.header, payload));
    }

    fn replicate(&mut self, payload: &[u8], copies: Copies<'_>) {
        copies(&mut |edge, header| self.transmit(edge, Frame { header, payload }));
    }

    fn memory(&mut self) -> GroupMemory<'_, Numbers> {
        GroupMemory::whole(self.memory)
    }

    fn set_timer(&mut self, _: DatapathTimer, _: Duration) {}

    fn cancel_timer(&mut self, _: DatapathTimer) {}

    fn unreachable(&mut self, edge: u16) {
        let _ = writeln!(self.said, "unreachable {edge}");
    }

    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        let _ = writeln!(self.said, "drop {edge} {reason}");
    }
}

fn number<T: std::str::FromStr<Err: std::fmt::Display>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}

/// A switch that is told lines.
pub(crate) struct ScriptedSwitch {
    engine: IncEngine<Numbers>,
    memory: Numbers,
    edges: u8,
}

impl ScriptedSwitch {
    fn new(words: &[&str]) -> Result<Self, String> {
        let (mutation, words) = match words {
            [words @ .., mutation] if words.len() == 9 => {
                (Some(mutation.parse().map_err(|error| format!("{error}"))?), words)
            }
            words => (None, words),
        };
        let [ranks, edges, parent, window, mtu, psn, reproducible, ends, toward] = *words else {
            return Err(format!("expected nine words of a group, found {}", words.len()));
        };
        let (edges, ends) = (number::<u8>(edges)?, number::<u64>(ends)?);
        let edge = |edge: u8| {
            let is_end = ends >> edge & 1 != 0;
            EdgeConfig {
                local: Endpoint { ip: ip(None), qp: local_qp(edge) },
                remote: Endpoint { ip: ip(Some(edge)), qp: QpNumber::new(0x200 + u32::from(edge)) },
                rank: is_end.then_some(Rank(edge.into())),
                mode: (!is_end).then_some(Mode::II),
            }
        };
        let config = GroupConfig {
            ranks: number(ranks)?,
            mode: Mode::II,
            mtu: number(mtu)?,
            window: Packets::new(number(window)?),
            message: Packets::new(1),
            initial_psn: Psn::new(number(psn)?),
            edges: (0..edges).map(edge).collect(),
            parent: if parent == "-" { None } else { Some(number(parent)?) },
            toward: toward.split(',').map(number).collect::<Result<_, _>>()?,
            reproducible: number::<u8>(reproducible)? != 0,
            standard_verbs: false,
            selective: false,
            run_ahead: false,
            resend_results: false,
            notification_interval: None,
            resend_timeout: Duration::from_micros(200),
            retry_count: 3,
            mutation,
        };
        let engine = IncEngine::<Numbers>::new(config).map_err(|error| error.to_string())?;
        let memory = Numbers::zeroed(engine.buffer_bytes());
        Ok(Self { engine, memory, edges })
    }

    fn hear(&mut self, edge: u8, frame: &[u8]) -> String {
        let mut out = Lines { said: String::new(), memory: &mut self.memory };
        let parsed = parse_frame(frame).ok().filter(|(_, header, _)| {
            let (source, destination) = (ip(Some(edge)), ip(None));
            let is_ours = header.source == source && header.destination == destination;
            is_ours && header.destination_qp == local_qp(edge)
        });
        let Some((_, header, payload)) = parsed else {
            out.drop_frame(edge.into(), "entry");
            return out.said;
        };
        let frame = Frame { header: &header, payload };
        self.engine.handle_frame(Instant::ZERO, edge.into(), frame, &mut out);
        self.engine.assert_invariants();
        out.said
    }

    /// Carries out one line: what is answered.
    pub(crate) fn answer(switch: &mut Option<Self>, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), switch) {
            (["group", words @ ..], switch) => {
                *switch = Some(Self::new(words)?);
                Ok(String::new())
            }
            (["frame", edge, hex], Some(switch)) => {
                let edge = number(edge)?;
                if edge >= switch.edges {
                    return Err(format!("there is no edge {edge}"));
                }
                Ok(switch.hear(edge, &bytes(hex).ok_or("no hexadecimal frame")?))
            }
            _ => Err(format!("expected a group, or a frame of one, found {line:?}")),
        }
    }
}
