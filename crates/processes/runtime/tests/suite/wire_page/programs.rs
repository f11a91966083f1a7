//! What runs above queue pairs, in each state at each event, as tables that the code fills in: Mode-I's switch, and the library of a rank.

use super::switch::{ALL_REDUCE, BROADCAST, Flow, MTU, REDUCE, config, control_of, last};
use super::{Parts, table};
use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Memory, Outcome, Program, QpIndex, ReceiveRequest,
    RegionId, SendRequest, Slice, Verbs, WorkId,
};
use quincunx_epic::mode_i::ModeI;
use quincunx_epic::{Agreement, CommLib, CommLibConfig, ControlMessage, Mode, Pattern};
use quincunx_units::{Duration, Instant, Messages, Packets};
use std::collections::{BTreeMap, VecDeque};

/// Queue pairs that somebody looks at: what was posted, and what came of it.
#[derive(Clone, Default)]
struct Posted {
    memory: Memory<Numbers>,
    /// Where the next messages of each peer go, oldest first.
    places: BTreeMap<u16, VecDeque<Slice>>,
    /// Messages to each peer that it has not acknowledged.
    under_way: BTreeMap<u16, u32>,
    /// What was done since somebody looked, in words, and for which peers.
    done: Vec<(String, Vec<u16>)>,
}

impl Posted {
    fn say(&mut self, what: String, peer: u16) {
        match self.done.iter_mut().find(|(known, peers)| *known == what && !peers.contains(&peer)) {
            Some((_, peers)) => peers.push(peer),
            None => self.done.push((what, vec![peer])),
        }
    }
}

impl Verbs<Numbers> for Posted {
    fn memory(&mut self) -> &mut Memory<Numbers> {
        &mut self.memory
    }

    fn post_send(&mut self, QpIndex(peer): QpIndex, request: SendRequest) {
        let what = match request.immediate.map(|bits| ControlMessage::decode(bits).expect("it makes sense")) {
            Some(ControlMessage { agreement: Agreement::Confirmation(_), .. }) => "confirmation".into(),
            Some(_) => "control".into(),
            None => match self.memory.view(request.source).first_chunk() {
                Some(bytes) => format!("data (= {})", f32::from_le_bytes(*bytes)),
                None => format!("data of {} bytes", request.source.length),
            },
        };
        *self.under_way.entry(peer).or_default() += 1;
        self.say(what, peer);
    }

    fn post_receive(&mut self, QpIndex(peer): QpIndex, request: ReceiveRequest) {
        self.places.entry(peer).or_default().push_back(request.sink);
        self.say("place".into(), peer);
    }

    fn set_alarm(&mut self, _: Alarm, _: Duration) {}

    fn skip(&mut self, QpIndex(peer): QpIndex, sends: u32, receives: u32) {
        if sends > 0 {
            self.say(format!("{sends} numbers of its own passed over"), peer);
        }
        if receives > 0 {
            self.say(format!("{receives} numbers of the switch's passed over"), peer);
        }
    }

    fn skip_next(&mut self, qp: QpIndex, packets: Packets) {
        self.skip(qp, 0, packets.get());
    }
}

/// A program, its queue pairs, and how it has ended.
#[derive(Clone)]
struct Bench<T> {
    program: T,
    posted: Posted,
    /// Messages that have come.
    received: usize,
    outcome: Option<Outcome>,
}

impl<T: Program<Numbers> + Clone + PartialEq> Bench<T> {
    fn new(program: T) -> Self {
        let mut bench = Self { program, posted: Posted::default(), received: 0, outcome: None };
        bench.program.initialise(&mut bench.posted);
        bench
    }

    fn complete(&mut self, peer: u16, completion: Completion) {
        self.outcome =
            self.program.handle_completion(Instant::ZERO, QpIndex(peer), completion, &mut self.posted);
        self.program.assert_invariants();
    }

    /// A message of a peer's comes, if there is a place for it that is long enough; else the queue pair says what it does of it.
    fn receive(&mut self, peer: u16, immediate: Option<u32>, payload: &[u8]) {
        let Some(place) = self.posted.places.entry(peer).or_default().pop_front() else {
            return self.posted.say("RNR".into(), peer);
        };
        self.received += 1;
        let length = payload.len();
        if length > place.length {
            let failure = Failure::Length;
            return self.complete(peer, Completion::Failed { id: WorkId(0), failure });
        }
        self.posted.memory.write(Slice { length, ..place }, payload);
        self.complete(peer, Completion::Received { id: WorkId(0), length, immediate });
    }

    /// A peer acknowledges the oldest message to it, if there is one.
    fn acknowledge(&mut self, peer: u16) {
        let under_way = self.posted.under_way.entry(peer).or_default();
        if *under_way > 0 {
            *under_way -= 1;
            self.complete(peer, Completion::Sent { id: WorkId(0) });
        }
    }

    fn fail(&mut self, peer: u16) {
        self.complete(peer, Completion::Failed { id: WorkId(0), failure: Failure::RetryExceeded });
    }

    fn write(&mut self, peer: u16) {
        let target = Slice { region: RegionId(0), offset: 0, length: 0 };
        self.complete(peer, Completion::Written { id: WorkId(0), target, immediate: 0 });
    }

    /// What an event has made of it, in words: what it has posted, how its collective has ended, and which state it is in.
    fn words(&self, to: impl Fn(&str, &[u16]) -> String, after: Option<&str>) -> String {
        let mut words: Vec<String> = self.posted.done.iter().map(|(what, peers)| to(what, peers)).collect();
        words.extend(self.outcome.map(|outcome| match outcome {
            Outcome::Done => "the collective is over".to_owned(),
            Outcome::Failed { qp, failure } => to(&format!("fails {failure:?}"), &[qp.0]),
        }));
        // A failure is always the end.
        let after = after.filter(|_| !matches!(self.outcome, Some(Outcome::Failed { .. })));
        words.extend(after.map(|after| format!("to {after}")));
        let counted = words.chunk_by(|one, next| one == next).map(|same| match same.len() {
            1 => same[0].clone(),
            count => format!("{count} x {}", same[0]),
        });
        let words = counted.collect::<Vec<_>>().join(", ");
        if words.is_empty() { "-".into() } else { words }
    }
}

/// What happens.
type Event<T> = (&'static str, Box<dyn Fn(&mut Bench<T>)>);

fn event<T>(name: &'static str, happens: impl Fn(&mut Bench<T>) + 'static) -> Event<T> {
    (name, Box::new(happens))
}

/// A table of states, each with a bench that is in it, and of what events make of them. A state that is the same as one before it has no column.
fn table_of<T: Program<Numbers> + Clone + PartialEq>(
    states: &[(&'static str, Bench<T>)],
    events: &[Event<T>],
    to: impl Fn(&str, &[u16]) -> String,
) -> String {
    let mut shown: Vec<&(&'static str, Bench<T>)> = Vec::new();
    for state in states {
        if shown.iter().all(|(_, other)| other.program != state.1.program) {
            shown.push(state);
        }
    }
    let cell = |before: &Bench<T>, happens: &dyn Fn(&mut Bench<T>)| {
        let mut bench = before.clone();
        bench.posted.done.clear();
        bench.outcome = None;
        happens(&mut bench);
        let is_after = |(_, other): &&&(&str, Bench<T>)| other.program == bench.program;
        let after = shown.iter().find(is_after).filter(|_| bench.program != before.program);
        bench.words(&to, after.map(|(name, _)| *name))
    };
    let row = |(name, happens): &Event<T>| {
        let cells = shown.iter().map(|(_, before)| cell(before, &**happens));
        std::iter::once((*name).to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<_> = events.iter().map(row).collect();
    let columns: Vec<&str> = std::iter::once("event").chain(shown.iter().map(|(name, _)| *name)).collect();
    table(&columns, &rows)
}

/// Rank r's number is 1, 2 or 4.
fn number_of(rank: u16) -> [u8; 4] {
    f32::from(1_u8 << rank).to_le_bytes()
}

/// The states of Mode-I's switch, with a window of two messages.
fn mode_i_states(flow: &Flow) -> Vec<(&'static str, Bench<ModeI>)> {
    let empty = Bench::new(ModeI::new(config(Mode::I, 2)).expect("a group that can be"));
    let control = Some(control_of(flow.pattern).encode());
    let (&last, others) = flow.sources.split_last().expect("somebody sends");
    let from = |bench: &Bench<ModeI>, sources: &[u16], immediate: Option<u32>| {
        let mut bench = bench.clone();
        for &rank in sources {
            let payload = if immediate.is_some() { Vec::new() } else { number_of(rank).to_vec() };
            bench.receive(rank, immediate, &payload);
        }
        bench
    };
    let acknowledged = |bench: &Bench<ModeI>, sinks: &[u16]| {
        let mut bench = bench.clone();
        sinks.iter().for_each(|&rank| bench.acknowledge(rank));
        bench
    };
    let told = from(&empty, others, control);
    let announced = acknowledged(&from(&told, &[last], control), flow.sinks);
    let begun = from(&announced, others, None);
    let whole = from(&begun, &[last], None);
    let over = acknowledged(&whole, flow.sinks);
    // All but the last sink have acknowledged both.
    let mut full = whole.clone();
    for _ in 2..=4 {
        full = from(&full, flow.sources, None);
    }
    for _ in 0..2 {
        full = acknowledged(&full, &flow.sinks[..flow.sinks.len() - 1]);
    }
    let mut failed = announced.clone();
    failed.fail(0);
    vec![
        ("Empty", empty),
        ("Told", told),
        ("Announced", announced),
        ("Begun", begun),
        ("Whole", whole),
        ("Full", full),
        ("Over", over),
        ("Failed", failed),
    ]
}

fn mode_i(flow: &Flow) -> String {
    let (source, sink) = (last(flow.sources), last(flow.sinks));
    let control = Some(control_of(flow.pattern).encode());
    let other = Some(ControlMessage { data_packets: 3, ..control_of(flow.pattern) }.encode());
    let mut events = vec![
        event("control of source 0", move |bench: &mut Bench<ModeI>| bench.receive(0, control, &[])),
        event("data of source 0", |bench| bench.receive(0, None, &number_of(0))),
        event("half a number of source 0", |bench| bench.receive(0, None, &[0; 2])),
    ];
    if source != 0 {
        events.extend([
            event("data of the last source", move |bench: &mut Bench<ModeI>| {
                bench.receive(source, None, &number_of(source));
            }),
            event("data of the last source, of no bytes", move |bench| bench.receive(source, None, &[])),
            event("control of the last source", move |bench| bench.receive(source, control, &[])),
            event("control of the last source, of another length", move |bench| {
                bench.receive(source, other, &[]);
            }),
        ]);
    }
    events.extend([
        event("the last sink acknowledges the oldest message to it", move |bench: &mut Bench<ModeI>| {
            bench.acknowledge(sink);
        }),
        event("the connection to the last sink fails", move |bench| bench.fail(sink)),
        event("source 0 writes to memory", |bench| bench.write(0)),
    ]);
    let to = |what: &str, peers: &[u16]| {
        let peers = peers.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ");
        match what {
            "place" => format!("place for {peers}"),
            what if what.starts_with("fails") => format!("{what} of {peers}"),
            what => format!("{what} to {peers}"),
        }
    };
    table_of(&mode_i_states(flow), &events, to)
}

/// Rank 1 of three, in Mode-III, with a window of two messages of a packet.
const RANK: Rank = Rank(1);

/// Its data.
const NUMBERS: [f32; 2] = [2.0, 3.0];

/// A collective of two data packets.
const BYTES: usize = 2 * MTU;

/// What a rank calls, and what the switch sends it: messages by their immediates and numbers.
#[derive(Clone, Copy)]
struct Call {
    collective: Collective,
    gives: usize,
    gets: usize,
    pattern: Pattern,
}

/// The only peer of a rank.
const SWITCH: u16 = 0;

impl Call {
    fn begin(&self, bench: &mut Bench<CommLib>) {
        let request = self.request(&mut bench.posted.memory);
        match bench.program.start(Instant::ZERO, request, &mut bench.posted) {
            Ok(outcome) => bench.outcome = outcome,
            Err(error) => bench.posted.say(format!("refused as {error:?}"), SWITCH),
        }
        Program::<Numbers>::assert_invariants(&bench.program);
    }

    fn request(&self, memory: &mut Memory<Numbers>) -> CollectiveRequest {
        let mut buffer = |length| {
            let region = memory.register(Numbers::zeroed(length));
            Slice { region, offset: 0, length }
        };
        let (input, output) = (buffer(self.gives), buffer(self.gets));
        memory.write(input, &NUMBERS.map(f32::to_le_bytes).concat()[..self.gives]);
        let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        CollectiveRequest { collective: self.collective, reduction, input, output, terms: Terms::WHOLE }
    }

    /// The switch's message number `index`, if it sends so many.
    fn result(&self, index: usize) -> Option<(Option<u32>, Vec<u8>)> {
        let control = ControlMessage { data_packets: 2, ..control_of(self.pattern) };
        let mut all = Vec::new();
        if self.gets > 0 {
            all.push((Some(control.encode()), vec![]));
            all.extend(vec![(None, vec![0; MTU]); 2]);
        }
        if self.collective != Collective::AllReduce {
            let digest = self.request(&mut Memory::default()).digest(BYTES, 30);
            all.push((Some(ControlMessage::confirmation(digest).encode()), vec![]));
        }
        all.into_iter().nth(index)
    }

    /// A rank that has called it, has got so many messages, and has had so many acknowledged.
    fn after(&self, results: usize, acknowledges: usize) -> Bench<CommLib> {
        let mut bench = idle();
        self.begin(&mut bench);
        for index in 0..results {
            let (immediate, payload) = self.result(index).expect("the switch sends so many");
            bench.receive(SWITCH, immediate, &payload);
        }
        (0..acknowledges).for_each(|_| bench.acknowledge(SWITCH));
        bench
    }
}

fn idle() -> Bench<CommLib> {
    let config = CommLibConfig {
        ranks: 3,
        rank: RANK,
        mtu: MTU,
        message: Packets::new(1),
        window: Messages::new(2),
        run_ahead: false,
        overlap: true,
        eager: false,
        confirm: true,
        synchronize_psn: true,
        window_in_packets: true,
    };
    Bench::new(CommLib::new(config).expect("a rank that can be"))
}

/// The table of a call, whose states are told by how many messages have come and how many are acknowledged.
fn rank(call: Call, between: &[(&'static str, usize, usize)]) -> String {
    let mut failed = call.after(0, 0);
    failed.fail(SWITCH);
    let mut states = vec![("Idle", idle())];
    states.extend(
        between.iter().map(|&(name, results, acknowledges)| (name, call.after(results, acknowledges))),
    );
    states.push(("Failed", failed));
    let other = ControlMessage { data_packets: 3, ..control_of(call.pattern) }.encode();
    let events = [
        event("it is called", move |bench| call.begin(bench)),
        event("the oldest message is acknowledged", |bench| bench.acknowledge(SWITCH)),
        event("the switch's next message comes", move |bench| {
            let (immediate, payload) = call.result(bench.received).unwrap_or_default();
            bench.receive(SWITCH, immediate, &payload);
        }),
        event("a control message that says something else", move |bench| {
            bench.receive(SWITCH, Some(other), &[]);
        }),
        event("a message of two bytes", |bench| bench.receive(SWITCH, None, &[0; 2])),
        event("the connection fails", |bench| bench.fail(SWITCH)),
        event("the switch writes to memory", |bench| bench.write(SWITCH)),
    ];
    table_of(&states, &events, |what, _| what.to_owned())
}

pub(super) fn parts() -> Parts {
    let all_reduce =
        Call { collective: Collective::AllReduce, gives: BYTES, gets: BYTES, pattern: Pattern::AllReduce };
    let root = Rank(0);
    let reduce = Call {
        collective: Collective::Reduce { root },
        gives: BYTES,
        gets: 0,
        pattern: Pattern::Reduce { root },
    };
    let broadcast = Call {
        collective: Collective::Broadcast { root },
        gives: 0,
        gets: BYTES,
        pattern: Pattern::Broadcast { root },
    };
    let of_all_reduce =
        [("Called", 0, 0), ("Acknowledged", 0, 2), ("Announced", 1, 2), ("Begun", 2, 2), ("Waiting", 2, 3)];
    let of_broadcast =
        [("Called", 0, 0), ("Announced", 1, 0), ("Begun", 2, 0), ("Whole", 3, 0), ("Waiting", 3, 1)];
    [
        ("mode-i-all-reduce", mode_i(&ALL_REDUCE)),
        ("mode-i-reduce", mode_i(&REDUCE)),
        ("mode-i-broadcast", mode_i(&BROADCAST)),
        ("rank-all-reduce", rank(all_reduce, &of_all_reduce)),
        ("rank-reduce", rank(reduce, &[("Called", 0, 0), ("Acknowledged", 0, 2), ("Waiting", 0, 4)])),
        ("rank-broadcast", rank(broadcast, &of_broadcast)),
    ]
    .into()
}
