//! Two hosts over links that lose, duplicate and reorder by seed, in virtual time.

use super::{Bytes, mirrored};
use quincunx_engine::verbs::{Completion, ReceiveRequest, RegionId, SendRequest};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_roce::{DropReason, QueuePairConfig, QueuePairTimer, RoceCommand, RoceEvent, RoceHost};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;
use std::collections::{BTreeMap, VecDeque};

/// Chances in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    pub(crate) reordering: u64,
}

/// A small generator of random numbers (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

type Flight = (RoceHeader, Vec<u8>);

/// One host, and what it has said.
pub(crate) struct Node {
    pub(crate) host: RoceHost<Bytes>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) drops: Vec<DropReason>,
    region: Option<RegionId>,
    deadlines: BTreeMap<QueuePairTimer, Instant>,
    outbox: VecDeque<Flight>,
    now: Instant,
}

struct NodeSink<'a> {
    completions: &'a mut Vec<Completion>,
    drops: &'a mut Vec<DropReason>,
    region: &'a mut Option<RegionId>,
    deadlines: &'a mut BTreeMap<QueuePairTimer, Instant>,
    outbox: &'a mut VecDeque<Flight>,
    now: Instant,
}

impl Sink<RoceHost<Bytes>> for NodeSink<'_> {
    fn transmit(&mut self, _port: PortId, frame: Frame<'_, RoceHeader, Bytes>) {
        self.outbox.push_back((*frame.header, frame.payload.to_vec()));
    }

    fn set_timer(&mut self, timer: QueuePairTimer, after: Duration) {
        self.deadlines.insert(timer, self.now + after);
    }

    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        self.deadlines.remove(&timer);
    }

    fn emit(&mut self, event: RoceEvent<Bytes>) {
        match event {
            RoceEvent::Completion(completion) => self.completions.push(completion),
            RoceEvent::Registered(region) => *self.region = Some(region),
            RoceEvent::Released(_) => {}
        }
    }

    fn drop_frame(&mut self, _port: PortId, reason: DropReason) {
        self.drops.push(reason);
    }
}

impl Node {
    fn new(config: QueuePairConfig) -> Self {
        Self {
            host: RoceHost::new(config).expect("the test's set-up is valid"),
            completions: Vec::new(),
            drops: Vec::new(),
            region: None,
            deadlines: BTreeMap::new(),
            outbox: VecDeque::new(),
            now: Instant::ZERO,
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut RoceHost<Bytes>, Instant, &mut NodeSink<'_>) -> R) -> R {
        let mut sink = NodeSink {
            completions: &mut self.completions,
            drops: &mut self.drops,
            region: &mut self.region,
            deadlines: &mut self.deadlines,
            outbox: &mut self.outbox,
            now: self.now,
        };
        let result = act(&mut self.host, self.now, &mut sink);
        self.host.assert_invariants();
        result
    }

    pub(crate) fn command(&mut self, command: RoceCommand<Bytes>) {
        self.with(|host, now, sink| host.handle_command(now, command, sink))
            .expect("the test's command is valid");
    }

    pub(crate) fn register(&mut self, bytes: Vec<u8>) -> RegionId {
        self.command(RoceCommand::Register(Bytes(bytes)));
        self.region.take().expect("the region was registered")
    }

    pub(crate) fn post_send(&mut self, request: SendRequest) {
        self.command(RoceCommand::PostSend(request));
    }

    pub(crate) fn post_receive(&mut self, request: ReceiveRequest) {
        self.command(RoceCommand::PostReceive(request));
    }

    pub(crate) fn bytes(&self, region: RegionId, length: usize) -> &[u8] {
        self.host.memory().view(super::slice(region, 0, length))
    }
}

/// Two hosts and the frames between them.
pub(crate) struct Links {
    pub(crate) nodes: [Node; 2],
    trouble: Trouble,
    dice: Dice,
    now: Instant,
    /// Frames on their way, by arrival; the second number keeps ties in order.
    flights: BTreeMap<(Instant, u64), (usize, Flight)>,
    frames: u64,
}

/// A frame takes a microsecond; one that is reordered up to twenty more.
const LATENCY: Duration = Duration::from_micros(1);

impl Links {
    pub(crate) fn new(config: QueuePairConfig, trouble: Trouble, seed: u64) -> Self {
        Self {
            nodes: [Node::new(config), Node::new(mirrored(config))],
            trouble,
            dice: Dice::new(seed),
            now: Instant::ZERO,
            flights: BTreeMap::new(),
            frames: 0,
        }
    }

    /// Runs until nothing is due any more.
    ///
    /// # Panics
    /// If that takes more than `limit` steps.
    pub(crate) fn run(&mut self, limit: usize) {
        for _ in 0..limit {
            self.transmit();
            if !self.step() {
                return;
            }
        }
        panic!("not done after {limit} steps");
    }

    /// Runs for `time`, or until nothing is due any more.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.transmit();
        while self.now < end && self.step() {
            self.transmit();
        }
    }

    /// Lets both hosts send what they want and puts it on the links.
    fn transmit(&mut self) {
        for from in 0..2 {
            let node = &mut self.nodes[from];
            while node.host.wants_transmit(PortId(0)) {
                node.with(|host, now, sink| host.handle_transmit_slot(now, PortId(0), sink));
            }
            while let Some(flight) = self.nodes[from].outbox.pop_front() {
                self.launch(1 - from, flight);
            }
        }
    }

    fn launch(&mut self, to: usize, flight: Flight) {
        if self.dice.percent(self.trouble.loss) {
            return;
        }
        let copies = if self.dice.percent(self.trouble.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let mut arrival = self.now + LATENCY;
            if self.dice.percent(self.trouble.reordering) {
                arrival = arrival + LATENCY * self.dice.below(20);
            }
            self.frames += 1;
            self.flights.insert((arrival, self.frames), (to, flight.clone()));
        }
    }

    /// Does what is due next; false when nothing is.
    fn step(&mut self) -> bool {
        let timer = self
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(index, node)| node.deadlines.iter().map(move |(&timer, &at)| (at, index, timer)))
            .min();
        let frame = self.flights.first_key_value().map(|(&key, _)| key);
        match (frame, timer) {
            (Some(key), timer) if timer.is_none_or(|(at, ..)| key.0 <= at) => {
                let (to, (header, payload)) = self.flights.remove(&key).expect("the key was just seen");
                self.advance(key.0);
                let payload = payload.as_slice();
                self.nodes[to].with(|host, now, sink| {
                    host.handle_frame(now, PortId(0), Frame { header: &header, payload }, sink);
                });
                true
            }
            (_, Some((at, index, timer))) => {
                self.advance(at);
                self.nodes[index].deadlines.remove(&timer);
                self.nodes[index].with(|host, now, sink| host.handle_timer(now, timer, sink));
                true
            }
            _ => false,
        }
    }

    fn advance(&mut self, to: Instant) {
        self.now = to;
        for node in &mut self.nodes {
            node.now = to;
        }
    }
}
