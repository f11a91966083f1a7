//! What a switch does in each state at each event, in Mode-II and Mode-III, as tables that the code fills in; and the queue pair's, which
//! its own tests hold to the code.

use super::{Parts, root, table};
use quincunx_collective::{DataType, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::Frame;
use quincunx_epic::{Agreement, ControlMessage, EdgeConfig, GroupConfig, IncEngine, Mode, Pattern};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Aeth, Endpoint, Gid, NakCode, Operation, Position, Psn, QpNumber, RoceHeader, Syndrome};
use std::net::{IpAddr, Ipv4Addr};

/// A switch with one group, and its memory.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Switch {
    engine: IncEngine<Numbers>,
    memory: Numbers,
}

impl Switch {
    fn new(config: GroupConfig) -> Self {
        let engine = IncEngine::new(config).expect("a group that can be");
        let memory = Numbers::zeroed(engine.buffer_bytes());
        Self { engine, memory }
    }

    /// What it sends and drops when something happens to it.
    fn step(&mut self, act: impl FnOnce(&mut IncEngine<Numbers>, &mut Answers<'_>)) -> Seen {
        let mut answers = Answers { seen: Seen::default(), memory: &mut self.memory };
        act(&mut self.engine, &mut answers);
        self.engine.assert_invariants();
        answers.seen
    }
}

const SWITCH: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)));
pub(super) const MTU: usize = 4;
/// The control message is packet 0 of the group.
const FIRST: Psn = Psn::new(0);

/// What a switch has sent and dropped since somebody looked.
#[derive(Default)]
struct Seen {
    frames: Vec<(u16, RoceHeader, Vec<u8>)>,
    dropped: Vec<&'static str>,
    unreachable: bool,
}

/// Takes what a switch answers.
struct Answers<'a> {
    seen: Seen,
    memory: &'a mut Numbers,
}

impl DatapathSink<Numbers> for Answers<'_> {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, Numbers>) {
        self.seen.frames.push((edge, *frame.header, frame.payload.to_vec()));
    }

    fn replicate(&mut self, payload: &[u8], copies: Copies<'_>) {
        copies(&mut |edge, header| self.seen.frames.push((edge, *header, payload.to_vec())));
    }

    fn memory(&mut self) -> GroupMemory<'_, Numbers> {
        GroupMemory::whole(self.memory)
    }

    fn set_timer(&mut self, _: DatapathTimer, _: Duration) {}

    fn cancel_timer(&mut self, _: DatapathTimer) {}

    fn unreachable(&mut self, _: u16) {
        self.seen.unreachable = true;
    }

    fn drop_frame(&mut self, _: u16, reason: &'static str) {
        self.seen.dropped.push(reason);
    }
}

impl Seen {
    /// In words: what went where, and what was dropped.
    fn words(&self) -> String {
        let mut parts: Vec<(String, Vec<u16>)> = Vec::new();
        for (edge, header, payload) in &self.frames {
            let psn = header.psn.value();
            let what = match header.operation {
                Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(_), .. }) => {
                    format!("ACK {}", signed(psn))
                }
                Operation::Acknowledge(Aeth { syndrome: Syndrome::Nak(_), .. }) => format!("NAK {psn}"),
                Operation::Acknowledge(_) => format!("RNR {psn}"),
                Operation::SendOnlyImmediate(_) => format!("control {psn}"),
                Operation::CongestionNotification => "CNP".into(),
                Operation::QUESTION if payload.is_empty() => format!("question {psn}"),
                _ => {
                    let number = payload.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
                    format!("data {psn} (= {number})")
                }
            };
            match parts.iter_mut().find(|(known, to)| *known == what && !to.contains(edge)) {
                Some((_, to)) => to.push(*edge),
                None => parts.push((what, vec![*edge])),
            }
        }
        let to = |edges: &[u16]| edges.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ");
        let mut words: Vec<String> =
            parts.iter().map(|(what, edges)| format!("{what} to {}", to(edges))).collect();
        words.extend(self.dropped.iter().map(|reason| format!("drops {reason}")));
        words.extend(self.unreachable.then(|| "gives the neighbour up".to_owned()));
        if words.is_empty() { "-".into() } else { words.join(", ") }
    }
}

/// A number before the first as one below zero.
fn signed(psn: u32) -> i64 {
    i64::from(Psn::new(psn).distance_from(FIRST))
}

/// A group of three ranks at one switch, with a window of so many packets of a number each.
pub(super) fn config(mode: Mode, window: u32) -> GroupConfig {
    let edge = |rank: u16| EdgeConfig {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + u32::from(rank)) },
        remote: Endpoint { ip: address(rank), qp: QpNumber::new(0x11) },
        rank: Some(Rank(rank)),
        mode: None,
    };
    GroupConfig {
        ranks: 3,
        mode,
        mtu: MTU,
        window: Packets::new(window),
        message: Packets::new(1),
        initial_psn: FIRST,
        edges: (0..3).map(edge).collect(),
        parent: None,
        toward: vec![0, 1, 2],
        reproducible: false,
        standard_verbs: false,
        selective: true,
        run_ahead: false,
        resend_results: true,
        notification_interval: Some(Duration::from_micros(50)),
        mutation: None,
        resend_timeout: Duration::from_millis(20),
        retry_count: 100,
    }
}

fn address(rank: u16) -> Gid {
    Gid::from([10, 0, 0, rank as u8 + 1])
}

/// What rank `rank` sends comes; everything asks for an acknowledge.
fn come(switch: &mut Switch, rank: u16, psn: u32, operation: Operation, payload: &[u8]) -> Seen {
    let mut header = RoceHeader::new(
        address(rank),
        SWITCH,
        QpNumber::new(0x100 + u32::from(rank)),
        Psn::new(psn),
        operation,
    );
    header.acknowledge_request = true;
    let frame = Frame { header: &header, payload };
    switch.step(|engine, answers| engine.handle_frame(Instant::ZERO, rank, frame, answers))
}

/// The control message of a collective of four packets.
pub(super) fn control_of(pattern: Pattern) -> ControlMessage {
    let agreement = match pattern {
        Pattern::AllReduce => Agreement::Detail(0),
        Pattern::Reduce { .. } | Pattern::Broadcast { .. } => Agreement::Follows,
    };
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    ControlMessage { pattern, reduction, data_packets: 4, agreement }
}

fn control(switch: &mut Switch, rank: u16, pattern: Pattern) -> Seen {
    come(switch, rank, 0, Operation::SendOnlyImmediate(control_of(pattern).encode()), &[])
}

/// A packet of data: rank r's number is 1, 2 or 4.
fn data(switch: &mut Switch, rank: u16, psn: u32) -> Seen {
    come(switch, rank, psn, Operation::Send(Position::Only), &f32::from(1_u8 << rank).to_le_bytes())
}

fn answer(switch: &mut Switch, rank: u16, psn: u32, syndrome: Syndrome) -> Seen {
    come(switch, rank, psn, Operation::Acknowledge(Aeth { syndrome, message_sequence: 0 }), &[])
}

const ACK: Syndrome = Syndrome::Ack(31);
const NAK: Syndrome = Syndrome::Nak(NakCode::SequenceError);

fn fire(switch: &mut Switch, timer: DatapathTimer) -> Seen {
    switch.step(|engine, answers| engine.handle_timer(Instant::ZERO, timer, answers))
}

/// A group's pattern, and which of the three ranks send and receive in it.
pub(super) struct Flow {
    pub(super) pattern: Pattern,
    pub(super) sources: &'static [u16],
    pub(super) sinks: &'static [u16],
}

pub(super) const ALL_REDUCE: Flow =
    Flow { pattern: Pattern::AllReduce, sources: &[0, 1, 2], sinks: &[0, 1, 2] };
pub(super) const REDUCE: Flow =
    Flow { pattern: Pattern::Reduce { root: Rank(2) }, sources: &[0, 1], sinks: &[2] };
pub(super) const BROADCAST: Flow =
    Flow { pattern: Pattern::Broadcast { root: Rank(0) }, sources: &[0], sinks: &[1, 2] };

/// A name and how a switch gets there.
type State = (&'static str, fn(Mode, &Flow) -> Switch);

fn empty(mode: Mode, _: &Flow) -> Switch {
    Switch::new(config(mode, 4))
}

/// The sources' control messages have come, and the sinks have acknowledged them.
fn announced(mode: Mode, flow: &Flow) -> Switch {
    let mut switch = empty(mode, flow);
    for &rank in flow.sources {
        control(&mut switch, rank, flow.pattern);
    }
    for &rank in flow.sinks {
        answer(&mut switch, rank, 0, ACK);
    }
    switch
}

/// Packet 1 of the first source has come.
fn begun(mode: Mode, flow: &Flow) -> Switch {
    let mut switch = announced(mode, flow);
    data(&mut switch, 0, 1);
    switch
}

/// Packet 1 of all of them has.
fn whole(mode: Mode, flow: &Flow) -> Switch {
    let mut switch = begun(mode, flow);
    for &rank in &flow.sources[1..] {
        data(&mut switch, rank, 1);
    }
    switch
}

/// All sinks have acknowledged it.
fn over(mode: Mode, flow: &Flow) -> Switch {
    let mut switch = whole(mode, flow);
    for &rank in flow.sinks {
        answer(&mut switch, rank, 1, ACK);
    }
    switch
}

const STATES: [State; 5] =
    [("Empty", empty), ("Announced", announced), ("Begun", begun), ("Whole", whole), ("Over", over)];

/// What happens, and to whom.
type Event = (&'static str, fn(&mut Switch, &Flow) -> Seen);

/// The last source, and the last sink.
pub(super) fn last(ranks: &[u16]) -> u16 {
    *ranks.last().expect("somebody sends and somebody receives")
}

const OF_LAST_SOURCE: &str = "data 1 of the last source";

const EVENTS: [Event; 9] = [
    ("control 0 of source 0", |switch, flow| control(switch, 0, flow.pattern)),
    ("data 1 of source 0", |switch, _| data(switch, 0, 1)),
    (OF_LAST_SOURCE, |switch, flow| data(switch, last(flow.sources), 1)),
    ("data 2 of source 0, before 1 where that has not come", |switch, _| data(switch, 0, 2)),
    ("a question of source 0 behind 1", |switch, _| come(switch, 0, 1, Operation::QUESTION, &[])),
    ("ACK 1 of the last sink", |switch, flow| answer(switch, last(flow.sinks), 1, ACK)),
    ("NAK 1 of the last sink", |switch, flow| answer(switch, last(flow.sinks), 1, NAK)),
    ("RNR 1 of the last sink", |switch, flow| {
        answer(switch, last(flow.sinks), 1, Syndrome::ReceiverNotReady(1))
    }),
    ("time-out of the last sink's edge", |switch, flow| {
        fire(switch, DatapathTimer { kind: 0, edge: Some(last(flow.sinks)) })
    }),
];

/// The table of a mode and a pattern. A state that is the same as one before it has no column, nor has an event a row that is another one
/// where there is one source.
fn transitions(mode: Mode, flow: &Flow) -> String {
    let mut states: Vec<(&str, Switch)> = Vec::new();
    for (name, make) in STATES {
        let switch = make(mode, flow);
        if states.iter().all(|(_, other)| *other != switch) {
            states.push((name, switch));
        }
    }
    let row = |(name, event): &Event| {
        let mut row = vec![(*name).to_owned()];
        for (_, before) in &states {
            let mut switch = before.clone();
            let mut words = event(&mut switch, flow).words();
            if let Some((after, _)) = states.iter().find(|(_, other)| *other == switch && switch != *before) {
                words = if words == "-" { format!("to {after}") } else { format!("{words}, to {after}") };
            }
            row.push(words);
        }
        row
    };
    let has_row = |(name, _): &&Event| flow.sources.len() > 1 || *name != OF_LAST_SOURCE;
    let rows: Vec<_> = EVENTS.iter().filter(has_row).map(row).collect();
    let columns: Vec<&str> = std::iter::once("event").chain(states.iter().map(|(name, _)| *name)).collect();
    table(&columns, &rows)
}

/// Parts of the page, by name.
pub(super) fn parts() -> Parts {
    let queue_pair = std::fs::read_to_string(root().join("crates/transports/roce/src/transitions.md"));
    [
        ("queue-pair", queue_pair.expect("the table is there")),
        ("mode-ii-all-reduce", transitions(Mode::II, &ALL_REDUCE)),
        ("mode-ii-reduce", transitions(Mode::II, &REDUCE)),
        ("mode-ii-broadcast", transitions(Mode::II, &BROADCAST)),
        ("mode-iii-all-reduce", transitions(Mode::III, &ALL_REDUCE)),
        ("mode-iii-reduce", transitions(Mode::III, &REDUCE)),
        ("mode-iii-broadcast", transitions(Mode::III, &BROADCAST)),
    ]
    .into()
}
