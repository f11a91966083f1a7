//! Neighbours of a Mode-II switch, and a network that loses, repeats and delays: what the switch is told is what they make of its answers.
//! Ranks go back N. They know no time: who waits sends again when nothing else can happen.

use crate::lines::{ScriptedSwitch, bytes, hex_frame, ip, local_qp};
use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};
use quincunx_epic::{Agreement, ControlMessage, Pattern};
use quincunx_wire::{Aeth, NakCode, Operation, Position, Psn, RoceHeader, Syndrome, parse_frame};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Numbers by chance (splitmix64).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn is(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Bytes of elements of a type: of a few exponents, so that sums round and cancel, or of any kind.
    fn vector(&mut self, length: usize, data_type: DataType) -> Vec<u8> {
        let mut vector = Vec::new();
        while vector.len() < length {
            let (any, is_near, kind) = (self.next(), !self.next().is_multiple_of(8), self.below(64));
            match data_type {
                DataType::F32 => {
                    let near =
                        (any as u32 & 0x80ff_ffff) | (0x3f00_0000 + ((any >> 40) as u32 & 3) * 0x0080_0000);
                    let kinds =
                        [0, 1 << 31, 1, 0x807f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fa0_0001, 0x7f7f_ffff];
                    let chosen = if is_near { near } else { any as u32 };
                    vector.extend(kinds.get(kind).copied().unwrap_or(chosen).to_le_bytes());
                }
                DataType::F16 | DataType::Bf16 => {
                    let (mask, low, step, kinds) = match data_type {
                        DataType::F16 => {
                            (0x83ff, 0x3800, 0x0400, [0, 0x8000, 1, 0x83ff, 0x7c00, 0xfc00, 0x7d55, 0x7bff])
                        }
                        _ => (0x807f, 0x3f00, 0x0080, [0, 0x8000, 1, 0x807f, 0x7f80, 0xff80, 0x7fa5, 0x7f7f]),
                    };
                    let near = (any as u16 & mask) + low + ((any >> 40) as u16 & 3) * step;
                    let chosen = if is_near { near } else { any as u16 };
                    vector.extend(kinds.get(kind).copied().unwrap_or(chosen).to_le_bytes());
                }
                _ => vector.extend((any as u32).to_le_bytes()),
            }
        }
        vector.truncate(length);
        vector
    }
}

/// A packet, the same of all who send it.
#[derive(Clone, Copy)]
struct Packet {
    collective: usize,
    operation: Operation,
    length: usize,
}

/// Who is around the switch, what they do, and what the network does.
pub(crate) struct Case {
    seed: u64,
    ranks: u16,
    edges: u8,
    parent: Option<u8>,
    window: u32,
    mtu: usize,
    psn: u32,
    reproducible: bool,
    ends: u64,
    toward: Vec<u8>,
    collectives: Vec<ControlMessage>,
    /// Collectives that a neighbour may be in at once.
    overlap: usize,
    /// In percent: losses, copies, receivers that are not ready.
    faults: [u64; 3],
}

struct Neighbour {
    /// Packets that it sends and gets, in order; how many of the latter have come, and of the former have arrived; where it goes on.
    sends: Vec<usize>,
    gets: Vec<usize>,
    acked: usize,
    come: usize,
    cursor: usize,
    asked: bool,
    /// Acknowledges AllReduces: it is a rank.
    is_end: bool,
    to_switch: VecDeque<(usize, String)>,
}

struct Run<'a> {
    case: &'a Case,
    packets: Vec<Packet>,
    neighbours: Vec<Neighbour>,
    noise: Noise,
    switch: Option<ScriptedSwitch>,
    text: String,
    late: Vec<(u8, usize, String)>,
    newest: usize,
}

/// An end and a beginning of the collectives that the hardware knows at once, less some.
const KNOWN: usize = 5;

impl Case {
    fn group(&self) -> String {
        let parent = self.parent.map_or("-".to_owned(), |parent| parent.to_string());
        let toward: Vec<String> = self.toward.iter().map(u8::to_string).collect();
        format!(
            "group {} {} {parent} {} {} {} {} {} {}",
            self.ranks,
            self.edges,
            self.window,
            self.mtu,
            self.psn,
            u8::from(self.reproducible),
            self.ends,
            toward.join(",")
        )
    }

    fn packets(&self) -> Vec<Packet> {
        let mut noise = Noise(self.seed ^ 0x5eed);
        let mut packets = Vec::new();
        for (collective, message) in self.collectives.iter().enumerate() {
            let operation = Operation::SendOnlyImmediate(message.encode());
            let is_confirmation = matches!(message.agreement, Agreement::Confirmation(_));
            let grain = message.grain();
            let most = self.mtu / grain;
            let with_data = !is_confirmation && noise.is(10);
            let length = if with_data { (1 + noise.below(most)) * grain } else { 0 };
            packets.push(Packet { collective, operation, length });
            let count = usize::from(message.data_packets);
            for at in 0..count {
                let position = match (at % 4 == 0, at % 4 == 3 || at + 1 == count) {
                    (true, true) => Position::Only,
                    (true, false) => Position::First,
                    (false, true) => Position::Last,
                    (false, false) => Position::Middle,
                };
                let is_short = at + 1 == count && noise.is(50);
                let length = if is_short { (1 + noise.below(most)) * grain } else { self.mtu };
                packets.push(Packet { collective, operation: Operation::Send(position), length });
            }
        }
        packets
    }

    fn sends(&self, edge: u8, message: &ControlMessage) -> bool {
        match message.pattern {
            Pattern::AllReduce => self.parent != Some(edge),
            Pattern::Reduce { root } => self.toward[usize::from(root.0)] != edge,
            Pattern::Broadcast { root } => self.toward[usize::from(root.0)] == edge,
        }
    }

    fn gets(&self, edge: u8, message: &ControlMessage) -> bool {
        match message.pattern {
            Pattern::AllReduce => self.parent != Some(edge),
            Pattern::Reduce { root } => self.toward[usize::from(root.0)] == edge,
            Pattern::Broadcast { root } => self.toward[usize::from(root.0)] != edge,
        }
    }

    /// All lines, with the answers.
    pub(crate) fn run(&self) -> String {
        let packets = self.packets();
        let of = |wanted: &dyn Fn(&ControlMessage) -> bool| -> Vec<usize> {
            (0..packets.len()).filter(|at| wanted(&self.collectives[packets[*at].collective])).collect()
        };
        let neighbours = (0..self.edges).map(|edge| Neighbour {
            sends: of(&|message| self.sends(edge, message)),
            gets: of(&|message| self.gets(edge, message)),
            acked: 0,
            come: 0,
            cursor: 0,
            asked: false,
            is_end: self.ends >> edge & 1 != 0,
            to_switch: VecDeque::new(),
        });
        let mut run = Run {
            case: self,
            neighbours: neighbours.collect(),
            packets,
            noise: Noise(self.seed),
            switch: None,
            text: String::new(),
            late: Vec::new(),
            newest: 0,
        };
        run.tell(&self.group());
        run.go();
        run.text
    }
}

impl Neighbour {
    /// The oldest packet that it sends and that has not arrived, or that it is to get.
    fn oldest(&self) -> usize {
        let of = |list: &[usize], at: usize| list.get(at).copied().unwrap_or(usize::MAX);
        of(&self.sends, self.acked).min(of(&self.gets, self.come))
    }
}

impl Run<'_> {
    fn tell(&mut self, line: &str) -> Vec<(u8, String)> {
        let answers = ScriptedSwitch::answer(&mut self.switch, line).expect("a line that makes sense");
        let _ = write!(self.text, "> {line}\n{answers}");
        let out = |line: &str| {
            let (edge, hex) = line.strip_prefix("out ")?.split_once(' ')?;
            Some((edge.parse().expect("an edge"), hex.to_owned()))
        };
        answers.lines().filter_map(out).collect()
    }

    fn post(&mut self, edge: u8, at: usize, operation: Operation, payload: &[u8], asks: bool) {
        let psn = Psn::new(self.case.psn.wrapping_add(at as u32) & 0xff_ffff);
        let mut header = RoceHeader::new(ip(Some(edge)), ip(None), local_qp(edge), psn, operation);
        header.acknowledge_request = asks;
        let hex = hex_frame(edge, true, &header, payload);
        self.neighbours[usize::from(edge)].to_switch.push_back((at, hex));
    }

    fn data(&mut self, edge: u8, at: usize) {
        let Packet { collective, operation, length } = self.packets[at];
        let message = &self.case.collectives[collective];
        let mut own = Noise(self.case.seed ^ ((at as u64) << 20) ^ u64::from(edge) << 8);
        let payload = own.vector(length, message.reduction.data_type);
        let asks = matches!(operation, Operation::Send(Position::Last | Position::Only)) || self.noise.is(20);
        self.post(edge, at, operation, &payload, asks);
    }

    fn acknowledge(&mut self, edge: u8, at: usize, syndrome: Syndrome) {
        self.post(edge, at, Operation::Acknowledge(Aeth { syndrome, message_sequence: 0 }), &[], false);
    }

    /// A neighbour sends its next packet, if it may.
    fn send(&mut self, edge: u8) -> bool {
        let neighbour = &self.neighbours[usize::from(edge)];
        let Some(&at) = neighbour.sends.get(neighbour.cursor) else { return false };
        let oldest = neighbour.oldest();
        let collective = |at: usize| self.packets[at].collective;
        if at >= oldest + self.case.window as usize
            || collective(at) >= collective(oldest) + self.case.overlap
        {
            return false;
        }
        if collective(at) + 1 < self.newest || collective(at) > self.newest + 1 {
            // No further apart than what is known at once.
            let slowest = self.neighbours.iter().map(Neighbour::oldest).min().unwrap_or(0);
            if slowest < self.packets.len() && collective(at) > collective(slowest) + KNOWN - 1 {
                return false;
            }
        }
        self.neighbours[usize::from(edge)].cursor += 1;
        self.data(edge, at);
        true
    }

    /// What comes from the switch.
    fn hear(&mut self, edge: u8, hex: &str) {
        let frame = bytes(hex).expect("hexadecimal");
        let (_, header, _) = parse_frame(&frame).expect("a whole frame");
        let at = header.psn.value().wrapping_sub(self.case.psn) & 0xff_ffff;
        // Before the first packet is nothing.
        let at = if at < 1 << 23 { at as usize } else { return };
        let neighbour = &mut self.neighbours[usize::from(edge)];
        if let Operation::Acknowledge(Aeth { syndrome, .. }) = header.operation {
            let through = if matches!(syndrome, Syndrome::Ack(_)) { at + 1 } else { at };
            let arrived = neighbour.sends.partition_point(|sent| *sent < through);
            neighbour.acked = neighbour.acked.max(arrived);
            neighbour.cursor = match syndrome {
                Syndrome::Ack(_) => neighbour.cursor.max(neighbour.acked),
                _ => neighbour.acked,
            };
            return;
        }
        let pattern = self.case.collectives[self.packets[at].collective].pattern;
        if self.case.parent == Some(edge) && pattern == Pattern::AllReduce {
            // The tree's root answers as soon as it has all.
            return self.data(edge, at);
        }
        let (is_end, expected) = (neighbour.is_end, neighbour.gets.get(neighbour.come).copied());
        let answers = is_end || pattern != Pattern::AllReduce;
        match expected {
            Some(expected) if at > expected => {
                if answers && !std::mem::replace(&mut neighbour.asked, true) {
                    self.acknowledge(edge, expected, Syndrome::Nak(NakCode::SequenceError));
                }
            }
            Some(expected) if at == expected => {
                if answers && self.noise.is(self.case.faults[2]) {
                    return self.acknowledge(edge, at, Syndrome::ReceiverNotReady(3));
                }
                let neighbour = &mut self.neighbours[usize::from(edge)];
                neighbour.come += 1;
                neighbour.asked = false;
                if !is_end && pattern == Pattern::AllReduce {
                    // Those behind it are told there.
                    let arrived = neighbour.sends.partition_point(|sent| *sent <= at);
                    neighbour.acked = neighbour.acked.max(arrived);
                    neighbour.cursor = neighbour.cursor.max(neighbour.acked);
                }
                let is_last = self
                    .packets
                    .get(at + 1)
                    .is_none_or(|next| next.collective != self.packets[at].collective);
                if answers && (header.acknowledge_request || is_last) {
                    self.acknowledge(edge, at, Syndrome::Ack(31));
                }
            }
            _ => {
                let newest = neighbour.come.checked_sub(1).map(|last| neighbour.gets[last]);
                if let Some(newest) = newest.filter(|_| answers) {
                    self.acknowledge(edge, newest, Syndrome::Ack(31));
                }
            }
        }
    }

    /// A frame reaches the switch, perhaps.
    fn deliver(&mut self, edge: u8, at: usize, hex: &str) {
        if self.packets[at].collective + KNOWN < self.newest {
            return;
        }
        self.newest = self.newest.max(self.packets[at].collective);
        for (to, hex) in self.tell(&format!("frame {edge} {hex}")) {
            if !self.noise.is(self.case.faults[0]) {
                self.hear(to, &hex);
            }
        }
    }

    fn go(&mut self) {
        let (edges, [loss, copies, _]) = (usize::from(self.case.edges), self.case.faults);
        let mut idle = 0;
        for _ in 0..100_000 {
            let edge = self.noise.below(edges);
            let has_sent = self.noise.is(50) && self.send(edge as u8);
            let next = if self.noise.is(90) { self.neighbours[edge].to_switch.pop_front() } else { None };
            if let Some((at, hex)) = &next {
                if self.noise.is(copies) {
                    self.late.push((edge as u8, *at, hex.clone()));
                }
                if !self.noise.is(loss) {
                    self.deliver(edge as u8, *at, hex);
                }
            }
            if !self.late.is_empty() && self.noise.is(10) {
                let which = self.noise.below(self.late.len());
                let (edge, at, hex) = self.late.swap_remove(which);
                self.deliver(edge, at, &hex);
            }
            idle = if has_sent || next.is_some() { 0 } else { idle + 1 };
            if idle > 20 * edges {
                if self.neighbours.iter().all(|each| each.oldest() == usize::MAX) {
                    return;
                }
                // Time-outs.
                for each in &mut self.neighbours {
                    each.cursor = each.acked;
                    each.asked = false;
                }
                idle = 0;
            }
        }
        panic!("expected all collectives to end, found some that do not: {}", self.case.group());
    }
}

const TYPES: [DataType; 4] = [DataType::F32, DataType::F16, DataType::Bf16, DataType::I32];
const OPS: [ReduceOp; 3] = [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max];

fn message(
    pattern: Pattern,
    op: ReduceOp,
    data_type: DataType,
    data_packets: u16,
    detail: u16,
) -> ControlMessage {
    let agreement = match pattern {
        Pattern::AllReduce => Agreement::Detail(detail & 0x1ff),
        Pattern::Reduce { .. } | Pattern::Broadcast { .. } => Agreement::Follows,
    };
    ControlMessage { pattern, reduction: Reduction { op, data_type }, data_packets, agreement }
}

/// A random group: a star, or an inner switch whose parent and some of whose children are switches.
pub(crate) fn case(noise: &mut Noise, edges: u8, window: u32, mtu: usize) -> Case {
    let parent = noise.is(40).then(|| noise.below(usize::from(edges)) as u8);
    let mut ends = (1 << edges) - 1;
    let mut toward: Vec<u8> = (0..edges).collect();
    if let Some(parent) = parent {
        ends &= !(1 << parent);
        toward.push(parent);
    }
    if noise.is(30) {
        let child = noise.below(usize::from(edges)) as u8;
        ends &= !(1 << child);
        toward.push(child);
    }
    let ranks = toward.len() as u16;
    let count = 1 + noise.below(6);
    let patterns = noise.below(4);
    let collectives: Vec<ControlMessage> = (0..count)
        .map(|_| {
            let root = Rank(noise.below(usize::from(ranks)) as u16);
            let pattern = match (patterns, noise.below(3)) {
                (0, _) | (3, 0) => Pattern::AllReduce,
                (1, _) | (3, 1) => Pattern::Reduce { root },
                _ => Pattern::Broadcast { root },
            };
            let packets = noise.below(3 * window as usize) as u16;
            match (noise.below(10), pattern) {
                (0, _) => ControlMessage::confirmation(noise.next() as u32 & 0x3fff_ffff),
                (1, Pattern::AllReduce) => {
                    ControlMessage::gather(noise.next() as u16 & 0xff, TYPES[noise.below(4)], packets)
                }
                _ => {
                    message(pattern, OPS[noise.below(3)], TYPES[noise.below(4)], packets, noise.next() as u16)
                }
            }
        })
        .collect();
    Case {
        ranks,
        edges,
        parent,
        window,
        mtu,
        psn: (0xff_fff0 + noise.below(32) as u32) & 0xff_ffff,
        reproducible: noise.is(50),
        ends,
        toward,
        collectives,
        overlap: 1 + noise.below(3),
        faults: [[0, 0, 0], [5, 0, 0], [0, 8, 0], [5, 5, 3]][noise.below(4)],
        seed: noise.next(),
    }
}

/// The cases of the vectors: each collective, type and operation on eight ranks, then with faults, then on a switch below another.
pub(crate) fn listed() -> Vec<Case> {
    let all = |collectives: Vec<ControlMessage>, faults: [u64; 3], seed: u64, below: bool| Case {
        seed,
        ranks: 8 + u16::from(below),
        edges: 8,
        parent: below.then_some(7),
        window: 4,
        mtu: 64,
        psn: 0xff_fffb,
        reproducible: seed.is_multiple_of(2),
        ends: if below { 0x3f } else { 0xff },
        toward: if below { vec![0, 1, 2, 3, 4, 5, 6, 6, 7] } else { (0..8).collect() },
        collectives,
        overlap: if seed.is_multiple_of(3) { 3 } else { 1 },
        faults,
    };
    let reduce = |root: u16, of: usize| {
        message(Pattern::Reduce { root: Rank(root) }, OPS[of % 3], TYPES[of % 4], 2, 0)
    };
    let broadcast = |root: u16, of: usize| {
        message(Pattern::Broadcast { root: Rank(root) }, ReduceOp::Sum, TYPES[of % 4], 2, 0)
    };
    let all_reduce =
        |of: usize, packets: u16| message(Pattern::AllReduce, OPS[of / 4], TYPES[of % 4], packets, 0);
    let barrier = || message(Pattern::AllReduce, ReduceOp::Sum, DataType::F32, 0, 0x80);
    let confirmation = || ControlMessage::confirmation(0x1234_5678);
    let gather = || ControlMessage::gather(0, DataType::F32, 3);
    let mut cases: Vec<Case> =
        (0..12).map(|of| all(vec![all_reduce(of, 1)], [0; 3], 1 + of as u64, false)).collect();
    cases.push(all(vec![reduce(3, 0), confirmation(), barrier()], [0; 3], 20, false));
    cases.push(all(vec![broadcast(5, 1), confirmation(), gather()], [0; 3], 21, false));
    // A ReduceScatter and an AllGather are Reduces and Broadcasts of parts.
    cases.push(all((0..2).map(|root| reduce(root, 0)).collect(), [0; 3], 22, false));
    cases.push(all((0..2).map(|root| broadcast(root, 0)).collect(), [0; 3], 24, false));
    for (at, faults) in [[8, 0, 0], [0, 10, 0], [5, 5, 4]].into_iter().enumerate() {
        let seed = 30 + at as u64;
        if at != 1 {
            cases.push(all(vec![all_reduce(0, 3), all_reduce(2, 1)], faults, seed, false));
        }
        cases.push(all(
            vec![reduce(2, 0), broadcast(1, 0), all_reduce(3, 2), reduce(1, 4)],
            faults,
            seed + 3,
            false,
        ));
        if at == 0 {
            continue;
        }
        cases.push(all(
            vec![all_reduce(0, 2), broadcast(7, 0), reduce(8, 0), reduce(6, 1), broadcast(8, 0)],
            faults,
            seed + 6,
            true,
        ));
    }
    cases
}
