//! Nodes with queue pairs that live in memory: lossless and in order each, but which of them moves next is drawn from a seed. A
//! message waits until its receiver has posted a receive request.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of it")]

pub mod experts;

use quincunx_collective::{Numbers, Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, Completion, Memory, QpIndex, ReceiveRequest, SendRequest, Slice, Verb, Verbs,
};
use quincunx_multiwrite::{RelayCost, Table, Window, Writer, WriterConfig};
use quincunx_units::{Duration, Packets};
use std::collections::{BTreeSet, VecDeque};

/// What a queue pair has to do.
#[derive(Default)]
pub struct Line {
    pub sends: VecDeque<SendRequest>,
    pub receives: usize,
}

/// A node below its program.
pub struct Port<P = Numbers> {
    pub memory: Memory<P>,
    pub lines: Vec<Line>,
    pub alarms: BTreeSet<Alarm>,
    pub posts: usize,
}

impl<P: Payload> Verbs<P> for Port<P> {
    fn memory(&mut self) -> &mut Memory<P> {
        &mut self.memory
    }

    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        assert!(self.memory.contains(request.source));
        self.posts += 1;
        self.lines[usize::from(qp.0)].sends.push_back(request);
    }

    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        assert!(self.memory.contains(request.sink));
        self.lines[usize::from(qp.0)].receives += 1;
    }

    fn set_alarm(&mut self, alarm: Alarm, _: Duration) {
        self.alarms.insert(alarm);
    }

    fn skip(&mut self, _: QpIndex, _: u32, _: u32) {
        panic!("writes need no PSN synchronisation");
    }

    fn skip_next(&mut self, _: QpIndex, _: Packets) {
        panic!("writes need no PSN synchronisation");
    }
}

/// Steele, Lea and Flood's SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// Who is joined with whom: neighbours of each rank, in the order of its queue pairs.
#[derive(Clone, Debug)]
pub struct Graph(pub Vec<Vec<usize>>);

impl Graph {
    pub fn empty(ranks: usize) -> Self {
        Self(vec![Vec::new(); ranks])
    }

    pub fn join(&mut self, a: usize, b: usize) {
        if a != b && !self.0[a].contains(&b) {
            self.0[a].push(b);
            self.0[b].push(a);
        }
    }

    pub fn line(ranks: usize) -> Self {
        let mut graph = Self::empty(ranks);
        (1..ranks).for_each(|rank| graph.join(rank - 1, rank));
        graph
    }

    pub fn mesh(ranks: usize) -> Self {
        let mut graph = Self::empty(ranks);
        (0..ranks).for_each(|a| (0..a).for_each(|b| graph.join(a, b)));
        graph
    }

    /// A tree with each rank's parent at random, and some links more.
    pub fn random(ranks: usize, more: usize, random: &mut Random) -> Self {
        let mut graph = Self::empty(ranks);
        (1..ranks).for_each(|rank| graph.join(random.below(rank), rank));
        (0..more).for_each(|_| graph.join(random.below(ranks), random.below(ranks)));
        graph
    }

    /// For each destination the neighbour on a shortest way there.
    fn toward(&self, from: usize) -> Vec<Option<usize>> {
        let mut first: Vec<Option<usize>> = vec![None; self.0.len()];
        let mut queue: VecDeque<usize> = VecDeque::new();
        for &next in &self.0[from] {
            first[next] = Some(next);
            queue.push_back(next);
        }
        while let Some(at) = queue.pop_front() {
            for &next in &self.0[at] {
                if next != from && first[next].is_none() {
                    first[next] = first[at];
                    queue.push_back(next);
                }
            }
        }
        first
    }

    pub fn table(&self, rank: usize) -> Table {
        let qp = |next: usize| QpIndex(self.0[rank].iter().position(|known| *known == next).unwrap() as u16);
        let routes = self.toward(rank).into_iter().map(|next| next.map(qp).into_iter().collect()).collect();
        let neighbours = self.0[rank].iter().map(|next| Rank(*next as u16)).collect();
        Table::new(Rank(rank as u16), self.0.len() as u16, neighbours, routes).unwrap()
    }
}

/// The table of a rank of a full mesh, whose queue pairs lead to the others in rank order. The direct way comes first, then those over the
/// next domain, the partner first (3.1), or to another domain over the partner there.
pub fn full_mesh((domains, members): (u16, u16), rank: u16) -> Table {
    let (domain, index) = (rank / members, rank % members);
    let partner = |domain: u16, ahead: u16| domain * members + (index + ahead) % members;
    let ways = |to: u16| {
        let relays: Vec<u16> = match to / members {
            own if own == domain => {
                (0..members).map(|ahead| partner((domain + 1) % domains, ahead)).collect()
            }
            other => vec![partner(other, 0)],
        };
        let hops = std::iter::once(to).chain(relays.into_iter().filter(|relay| *relay != to));
        hops.filter(|_| to != rank).map(|peer| QpIndex(peer - u16::from(peer > rank))).collect()
    };
    let ranks = domains * members;
    let neighbours = (0..ranks).filter(|peer| *peer != rank).map(Rank).collect();
    Table::new(Rank(rank), ranks, neighbours, (0..ranks).map(ways).collect()).unwrap()
}

/// Moves one message of one queue pair, if there is a place for it; the completions at both ends: who, on which queue pair, what.
pub fn step<P: Payload>(
    graph: &Graph,
    ports: &mut [Port<P>],
    random: &mut Random,
) -> Option<Vec<(usize, QpIndex, Completion)>> {
    let mut ready = Vec::new();
    for (rank, port) in ports.iter().enumerate() {
        for (line, _) in port.lines.iter().enumerate().filter(|(_, line)| !line.sends.is_empty()) {
            let peer = graph.0[rank][line];
            let back = graph.0[peer].iter().position(|known| *known == rank).unwrap();
            if ports[peer].lines.get(back).is_some_and(|line| line.receives > 0) {
                ready.push((rank, line, peer, back));
            }
        }
    }
    let &(rank, line, peer, back) = ready.get(random.below(ready.len().max(1)))?;
    let request = ports[rank].lines[line].sends.pop_front().unwrap();
    let data = P::from_view(ports[rank].memory.view(request.source));
    let length = data.length();
    ports[peer].lines[back].receives -= 1;
    let id = quincunx_engine::verbs::WorkId(0);
    let arrived = match request.verb {
        Verb::Send => Completion::Received { id, length, immediate: request.immediate },
        Verb::Write { remote_address, remote_key } => {
            let region = quincunx_engine::verbs::RegionId(remote_key);
            let target = Slice { region, offset: remote_address as usize, length };
            assert!(ports[peer].memory.contains(target), "a write outside the peer's memory: {target:?}");
            ports[peer].memory.write(target, data.view(0..length));
            Completion::Written { id, target, immediate: request.immediate.unwrap() }
        }
    };
    let sent = Completion::Sent { id: request.id };
    Some(vec![(peer, QpIndex(back as u16), arrived), (rank, QpIndex(line as u16), sent)])
}

impl<P: Payload> Port<P> {
    pub fn new(lines: usize) -> Self {
        let lines = (0..lines).map(|_| Line::default()).collect();
        Self { memory: Memory::default(), lines, alarms: BTreeSet::new(), posts: 0 }
    }
}

pub fn port<P: Payload>(graph: &Graph, rank: usize) -> Port<P> {
    Port::new(graph.0[rank].len())
}

pub fn config(graph: &Graph, rank: usize, slots: usize, data: usize) -> WriterConfig {
    let window = Window::new(graph.0.len() as u16, slots, data);
    WriterConfig { table: graph.table(rank), window, receives: 2, cost: RelayCost::default() }
}

/// Nodes with nothing above their writers.
pub struct Writers {
    pub graph: Graph,
    pub writers: Vec<Writer>,
    pub ports: Vec<Port>,
    pub random: Random,
    /// Who was delivered what: receiver, source, slot, bytes.
    pub delivered: Vec<(usize, usize, usize, Vec<u8>)>,
    /// Own messages that are not acknowledged, by rank.
    pub outstanding: Vec<usize>,
}

impl Writers {
    pub fn new(graph: Graph, slots: usize, data: usize, seed: u64) -> Self {
        let ranks = graph.0.len();
        let mut ports: Vec<Port> = (0..ranks).map(|rank| port(&graph, rank)).collect();
        let mut writers: Vec<Writer> =
            (0..ranks).map(|rank| Writer::new(config(&graph, rank, slots, data))).collect();
        for (writer, port) in writers.iter_mut().zip(&mut ports) {
            writer.initialise(port);
        }
        let outstanding = vec![0; ranks];
        Self { graph, writers, ports, random: Random(seed), delivered: Vec::new(), outstanding }
    }

    /// Registers data of a rank.
    pub fn data(&mut self, rank: usize, bytes: &[u8]) -> Slice {
        let region = self.ports[rank].memory.register(Numbers::from(bytes.to_vec()));
        Slice { region, offset: 0, length: bytes.len() }
    }

    /// Until nothing moves any more.
    pub fn run(&mut self) -> Result<(), quincunx_multiwrite::ProtocolViolation> {
        while let Some(completions) = step(&self.graph, &mut self.ports, &mut self.random) {
            for (rank, qp, completion) in completions {
                let (writer, port) = (&mut self.writers[rank], &mut self.ports[rank]);
                match completion {
                    Completion::Sent { id } => {
                        self.outstanding[rank] -= usize::from(writer.handle_sent(id, port));
                    }
                    Completion::Written { target, immediate, .. } => {
                        if let Some(delivery) = writer.handle_written(qp, target, immediate, port)? {
                            let bytes = port.memory.view(delivery.data).to_vec();
                            self.delivered.push((rank, delivery.source.index(), delivery.slot, bytes));
                        }
                    }
                    other => panic!("expected writes alone, found {other:?}"),
                }
            }
        }
        Ok(())
    }
}
