//! MultiWrite through RoCE queue pairs that lose frames, in networks at random: everybody whom a write names gets it once.

use proptest::prelude::*;
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, noise,
};
use quincunx_driver_des::{Limits, LinkConfig, Medium, NodeIndex, Simulation, Stopped};
use quincunx_engine::verbs::{CollectiveRequest, Completion, Outcome, Program, QpIndex, RequestError, Verbs};
use quincunx_engine::{Engine, PortId, Terms};
use quincunx_multiwrite::{RelayCost, Table, Target, Window, Write, Writer, WriterConfig};
use quincunx_network::FaultPlan;
use quincunx_nodes::{Host, HostCommand, HostEvent, HostGroup};
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, Reliability};
use quincunx_units::{BitRate, ByteCount, Duration, Instant, Packets, Probability};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};

const MTU: usize = 16;
const DATA: usize = 40;

/// Writes its input once, to `to`, and ends when that is acknowledged and `awaited` others have written here: the output is what
/// they wrote, by rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Scatter {
    writer: Writer,
    to: Vec<Target>,
    awaited: usize,
    outstanding: usize,
    request: Option<CollectiveRequest>,
    arrived: Vec<quincunx_multiwrite::Delivery>,
}

impl Scatter {
    fn end(&mut self, verbs: &mut dyn Verbs<Numbers>) -> Option<Outcome> {
        let request = self.request.filter(|_| self.outstanding == 0 && self.arrived.len() >= self.awaited)?;
        for delivery in &self.arrived {
            let mut place = request.output;
            (place.offset, place.length) = (delivery.source.index() * DATA, delivery.data.length);
            verbs.memory().copy(place, delivery.data);
        }
        self.request = None;
        Some(Outcome::Done)
    }
}

impl Program<Numbers> for Scatter {
    fn initialise(&mut self, verbs: &mut dyn Verbs<Numbers>) {
        self.writer.initialise(verbs);
    }

    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<Numbers>,
    ) -> Result<Option<Outcome>, RequestError> {
        self.request = Some(request);
        if !self.to.is_empty() {
            let write = Write { targets: &self.to, source: request.input, way: 0 };
            self.outstanding = self.writer.write(&write, verbs).expect("a write that makes sense");
        }
        Ok(self.end(verbs))
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<Numbers>,
    ) -> Option<Outcome> {
        match completion {
            Completion::Sent { id } => self.outstanding -= usize::from(self.writer.handle_sent(id, verbs)),
            Completion::Written { target, immediate, .. } => {
                let delivery = self.writer.handle_written(qp, target, immediate, verbs);
                self.arrived.extend(delivery.expect("peers that make sense"));
            }
            Completion::Received { .. } => panic!("nobody sends"),
            Completion::Failed { failure, .. } => return Some(Outcome::Failed { qp, failure }),
        }
        self.end(verbs)
    }

    fn assert_invariants(&self) {
        assert!(self.arrived.len() <= self.awaited, "nothing arrives twice");
    }
}

/// A byte of payload is a byte on the wire, and 40 around them.
struct Wire;

impl Medium<Host<Numbers>> for Wire {
    fn wire_length(&self, _: &RoceHeader, payload: usize) -> ByteCount {
        ByteCount::new(payload as u64 + 40)
    }
}

/// Neighbours of each rank: a tree at random, and some links more.
fn network(parents: &[usize], more: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let ranks = parents.len() + 1;
    let mut neighbours = vec![Vec::new(); ranks];
    let tree = parents.iter().enumerate().map(|(child, parent)| (child + 1, parent % (child + 1)));
    for (a, b) in tree.chain(more.iter().map(|(a, b)| (a % ranks, b % ranks))) {
        if a != b && !neighbours[a].contains(&b) {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
    }
    neighbours
}

/// The neighbour of `from` on a shortest way to each rank.
fn next_hops(neighbours: &[Vec<usize>], from: usize) -> Vec<Option<usize>> {
    let mut first = vec![None; neighbours.len()];
    let mut reached: Vec<usize> = neighbours[from].clone();
    reached.iter().for_each(|&next| first[next] = Some(next));
    let mut at = 0;
    while at < reached.len() {
        for &next in &neighbours[reached[at]] {
            if next != from && first[next].is_none() {
                first[next] = first[reached[at]];
                reached.push(next);
            }
        }
        at += 1;
    }
    first
}

fn table(neighbours: &[Vec<usize>], rank: usize) -> Table {
    let qp = |next: usize| QpIndex(neighbours[rank].iter().position(|known| *known == next).unwrap() as u16);
    let routes = next_hops(neighbours, rank).into_iter().map(|next| next.map(qp).into_iter().collect());
    let peers = neighbours[rank].iter().map(|peer| Rank(*peer as u16)).collect();
    Table::new(Rank(rank as u16), neighbours.len() as u16, peers, routes.collect()).unwrap()
}

fn endpoint(at: usize, toward: usize) -> Endpoint {
    Endpoint { ip: Gid::from([10, 0, 0, at as u8]), qp: QpNumber::new(16 + toward as u32) }
}

fn queue_pair(rank: usize, peer: usize) -> QueuePairConfig {
    QueuePairConfig {
        local: endpoint(rank, peer),
        remote: endpoint(peer, rank),
        mtu: MTU,
        send_psn: Psn::new(0xff_fffe),
        expected_psn: Psn::new(0xff_fffe),
        acknowledge_every: Packets::new(2),
        retry_timeout: Duration::from_micros(20),
        retry_count: 200,
        rnr_timer: 1,
        rnr_retry_count: INFINITE_RNR_RETRIES,
        credits: false,
        window: Packets::new(2),
        remote_write: true,
        reliability: Reliability::GoBackN,
        congestion_window: false,
        rate: None,
        mutation: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_destination_gets_every_write_exactly_once_whatever_is_lost(
        parents in prop::collection::vec(any::<usize>(), 1..39),
        more in prop::collection::vec((any::<usize>(), any::<usize>()), 0..6),
        bitmaps in prop::collection::vec(any::<u64>(), 40),
        seed in any::<u64>(),
        loss in 0.0..0.15_f64,
    ) {
        let neighbours = network(&parents, &more);
        let ranks = neighbours.len();
        let names = |source: usize, rank: usize| rank != source && bitmaps[source] >> rank & 1 == 1;
        let mut simulation = Simulation::new(Wire, seed);
        for _ in 0..ranks {
            let Ok(host) = Host::<Numbers>::new(());
            simulation.add_node(host);
        }
        let config = LinkConfig { rate: BitRate::new(10_000_000_000).unwrap(), latency: Duration::from_micros(1) };
        let faults = FaultPlan::losing(Probability::new(loss).unwrap());
        for (a, peers) in neighbours.iter().enumerate() {
            for (port, &b) in peers.iter().enumerate().filter(|(_, b)| a < **b) {
                let back = neighbours[b].iter().position(|known| *known == a).unwrap();
                let end = |node: usize| NodeIndex(node as u32);
                let link = simulation.connect(
                    (end(a), &[PortId(port as u16)]),
                    (end(b), &[PortId(back as u16)]),
                    config,
                );
                simulation.set_faults(link.forward(), faults.clone());
                simulation.set_faults(link.backward(), faults.clone());
            }
        }
        let inputs: Vec<Numbers> =
            (0..ranks).map(|rank| noise(seed ^ rank as u64, 4 * (rank % 11), DataType::F32)).collect();
        for rank in 0..ranks {
            let writer = Writer::new(WriterConfig {
                table: table(&neighbours, rank),
                window: Window::new(ranks as u16, 1, DATA),
                receives: 2,
                cost: RelayCost::default(),
            });
            let to = (0..ranks).filter(|&to| names(rank, to));
            let program = Scatter {
                writer,
                to: to.map(|to| Target { rank: Rank(to as u16), slot: 0 }).collect(),
                awaited: (0..ranks).filter(|&source| names(source, rank)).count(),
                outstanding: 0,
                request: None,
                arrived: Vec::new(),
            };
            let peers = neighbours[rank].iter().enumerate();
            let queue_pairs = peers.map(|(port, &peer)| (PortId(port as u16), queue_pair(rank, peer))).collect();
            let group = HostGroup { group: GroupId(1), queue_pairs, are_offloaded: false, program: Box::new(program), contention: None };
            simulation.command(NodeIndex(rank as u32), HostCommand::Install(Box::new(group))).unwrap();
        }
        for (rank, input) in inputs.iter().enumerate() {
            let start = HostCommand::Start {
                group: GroupId(1),
                collective: Collective::AllGather,
                reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
                input: input.clone(),
                output: Numbers::zeroed(ranks * DATA),
                terms: Terms::WHOLE,
            };
            simulation.command(NodeIndex(rank as u32), start).unwrap();
        }
        let mut unfinished = ranks;
        let limits = Limits::until(Instant::ZERO + Duration::from_millis(500));
        // Also when all have finished: nothing may arrive twice after that.
        while let Stopped::Event(emitted) = simulation.run(limits) {
            let HostEvent::Finished { outcome, output, .. } = emitted.event else {
                return Err(TestCaseError::fail("nobody writes beside the collective"));
            };
            prop_assert_eq!(outcome, Outcome::Done);
            unfinished -= 1;
            let rank = emitted.node.0 as usize;
            let mut expected = Numbers::zeroed(ranks * DATA);
            for source in (0..ranks).filter(|&source| names(source, rank)) {
                expected.write(source * DATA, inputs[source].bytes());
            }
            prop_assert!(output == expected, "rank {}", rank);
        }
        prop_assert_eq!(unfinished, 0);
    }
}
