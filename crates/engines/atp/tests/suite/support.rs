//! Ranks and a switch without a network: what they send is kept, and tests say what arrives.

use quincunx_atp::{Aggregators, AggregatorsConfig, AtpRank, AtpShape, WorkerConfig};
use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Memory, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, Verbs,
};
use quincunx_engine::{Frame, Terms};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::atp::{AtpHeader, AtpTag, AtpTags, LENGTH};
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::switchml::Kind;
use quincunx_wire::{Deth, Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};

/// Three ranks, packets of two elements, four of them at once, an aggregator for each.
pub(crate) const SHAPE: AtpShape =
    AtpShape { ranks: 3, server_sends: true, window: 4, aggregators: 16, piece: 8 };

pub(crate) const TIMEOUT: Duration = Duration::from_millis(1);

/// A moment so many milliseconds in.
pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(crate) fn rank_of(rank: u16, shape: AtpShape) -> WorkerConfig {
    WorkerConfig {
        rank: Rank(rank),
        shape,
        scale: None,
        timeout: TIMEOUT,
        retries: 3,
        initial_psn: Psn::new(0),
        mutation: None,
    }
}

/// What a rank has posted, by queue pair.
#[derive(Clone, Default)]
pub(crate) struct Posted {
    pub(crate) memory: Memory<Numbers>,
    pub(crate) sends: Vec<(QpIndex, SendRequest)>,
    pub(crate) receives: [Vec<ReceiveRequest>; 2],
    pub(crate) alarms: Vec<Duration>,
}

impl Verbs<Numbers> for Posted {
    fn memory(&mut self) -> &mut Memory<Numbers> {
        &mut self.memory
    }
    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        assert!(self.memory.contains(request.source), "{request:?} is somewhere");
        self.sends.push((qp, request));
    }
    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        self.receives[usize::from(qp.0)].push(request);
    }
    fn set_alarm(&mut self, _: Alarm, after: Duration) {
        self.alarms.push(after);
    }
    fn skip(&mut self, _: QpIndex, _: u32, _: u32) {
        unreachable!("datagrams have no order");
    }
    fn skip_next(&mut self, _: QpIndex, _: Packets) {
        unreachable!("datagrams have no order");
    }
}

/// A packet: its immediate, and its payload.
pub(crate) type Packet = (u32, Vec<u8>);

pub(crate) fn tags(shape: AtpShape) -> AtpTags {
    shape.tags().unwrap()
}

/// What a packet of [`SHAPE`] says beside its payload.
pub(crate) fn tag(packet: &Packet) -> AtpTag {
    tags(SHAPE).read(packet.0)
}

pub(crate) fn said(packet: &Packet) -> AtpHeader {
    AtpHeader::parse(&packet.1).unwrap()
}

/// A packet of integers of these workers, of [`SHAPE`].
pub(crate) fn packet(number: u32, workers: u32, is_resent: bool, values: &[i32]) -> Packet {
    let header = AtpHeader { kind: Kind::Integers, exponent: 0, digest: 7, number };
    (tags(SHAPE).write(number, workers, is_resent), [&header.to_bytes()[..], &integers(values)].concat())
}

/// A rank with a vector.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) rank: AtpRank<Numbers>,
    pub(crate) verbs: Posted,
    data_type: DataType,
    input: RegionId,
    output: RegionId,
    length: usize,
    pub(crate) outcome: Option<Outcome>,
}

impl Host {
    pub(crate) fn new(config: WorkerConfig, data_type: DataType, vector: &[u8]) -> Self {
        let mut verbs = Posted::default();
        let mut rank = AtpRank::new(config).expect("a group");
        rank.initialise(&mut verbs);
        let input = verbs.memory.register(Numbers::from(vector.to_vec()));
        let output = verbs.memory.register(Numbers::zeroed(vector.len()));
        Self { rank, verbs, data_type, input, output, length: vector.len(), outcome: None }
    }

    pub(crate) fn request(&self) -> CollectiveRequest {
        let slice = |region| Slice { region, offset: 0, length: self.length };
        CollectiveRequest {
            collective: Collective::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: self.data_type },
            input: slice(self.input),
            output: slice(self.output),
            terms: Terms::WHOLE,
        }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        let request = self.request();
        self.ask(now, request).unwrap();
    }

    pub(crate) fn ask(&mut self, now: Instant, request: CollectiveRequest) -> Result<(), RequestError> {
        self.outcome = self.rank.start(now, request, &mut self.verbs)?;
        self.rank.assert_invariants();
        Ok(())
    }

    /// Packets leave, the oldest first, and are as they are when they do; each with its queue pair.
    pub(crate) fn leave(&mut self, now: Instant) -> Vec<(u16, Packet)> {
        let mut left = Vec::new();
        while !self.verbs.sends.is_empty() {
            left.push(self.leave_one(now));
        }
        left
    }

    pub(crate) fn leave_one(&mut self, now: Instant) -> (u16, Packet) {
        let (qp, SendRequest { id, source, immediate, .. }) = self.verbs.sends.remove(0);
        let bytes = self.verbs.memory.view(source).to_vec();
        self.complete(now, qp, Completion::Sent { id });
        (qp.0, (immediate.expect("each packet has an immediate"), bytes))
    }

    /// Packets leave of a rank that has one queue pair.
    pub(crate) fn packets(&mut self, now: Instant) -> Vec<Packet> {
        self.leave(now).into_iter().map(|(_, packet)| packet).collect()
    }

    /// A packet arrives at a queue pair.
    pub(crate) fn arrive(&mut self, now: Instant, qp: u16, (immediate, payload): &Packet) {
        let places = &mut self.verbs.receives[usize::from(qp)];
        let place = places.remove(0);
        self.verbs.memory.write(place.sink, payload);
        let immediate = Some(*immediate);
        let received = Completion::Received { id: place.id, length: payload.len(), immediate };
        self.complete(now, QpIndex(qp), received);
        assert_eq!(self.verbs.receives[usize::from(qp)].len(), 1, "there is a place for the next one");
    }

    pub(crate) fn complete(&mut self, now: Instant, qp: QpIndex, completion: Completion) {
        let outcome = self.rank.handle_completion(now, qp, completion, &mut self.verbs);
        self.outcome = self.outcome.or(outcome);
        self.rank.assert_invariants();
    }

    pub(crate) fn time_out(&mut self, now: Instant) {
        self.verbs.alarms.clear();
        let outcome = self.rank.handle_alarm(now, Alarm(0), &mut self.verbs);
        self.outcome = self.outcome.or(outcome);
        self.rank.assert_invariants();
    }

    pub(crate) fn result(&self) -> Vec<u8> {
        self.verbs.memory.view(Slice { region: self.output, offset: 0, length: self.length }).to_vec()
    }
}

/// Both ends of an edge of the switch, its own first.
pub(crate) fn end_of(edge: u16) -> [Endpoint; 2] {
    let [high, low] = edge.to_be_bytes();
    let end = |network, qp| Endpoint { ip: Gid::from([10, network, high, low]), qp: QpNumber::new(qp) };
    [end(0, 0x100 + u32::from(edge)), end(1, 0x200 + u32::from(edge))]
}

/// What a switch has sent, by edge, and why it dropped frames.
#[derive(Default, Debug)]
pub(crate) struct Out {
    pub(crate) packets: Vec<(u16, Packet)>,
    pub(crate) headers: Vec<RoceHeader>,
    pub(crate) drops: Vec<(u16, &'static str)>,
}

impl DatapathSink<Numbers> for Out {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, Numbers>) {
        let Operation::DatagramSendOnlyImmediate(_, immediate) = frame.header.operation else {
            panic!("a datagram with an immediate, found {:?}", frame.header);
        };
        self.headers.push(*frame.header);
        self.packets.push((edge, (immediate, frame.payload.to_vec())));
    }
    fn replicate(&mut self, payload: &[u8], copies: Copies<'_>) {
        copies(&mut |edge, header| self.transmit(edge, Frame { header, payload }));
    }
    fn memory(&mut self) -> GroupMemory<'_, Numbers> {
        unreachable!("it has registers of its own");
    }
    fn set_timer(&mut self, _: DatapathTimer, _: Duration) {
        unreachable!("the switch has no timer");
    }
    fn cancel_timer(&mut self, _: DatapathTimer) {}
    fn unreachable(&mut self, edge: u16) {
        panic!("edge {edge} is given up");
    }
    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        self.drops.push((edge, reason));
    }
}

/// The switch.
#[derive(Clone)]
pub(crate) struct Switch(pub(crate) Aggregators<Numbers>);

pub(crate) const FIRST_PSN: Psn = Psn::new(0xff_fffe);

impl Switch {
    pub(crate) fn new(shape: AtpShape) -> Self {
        let edges = (0..shape.ranks + u16::from(shape.server_sends)).map(end_of).collect();
        let config = AggregatorsConfig { shape, edges, initial_psn: FIRST_PSN, mutation: None };
        Self(Aggregators::new(config).expect("a group"))
    }

    pub(crate) fn header(edge: u16, immediate: u32) -> RoceHeader {
        let [local, remote] = end_of(edge);
        let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: remote.qp };
        let operation = Operation::DatagramSendOnlyImmediate(deth, immediate);
        RoceHeader::new(remote.ip, local.ip, local.qp, FIRST_PSN.plus(immediate), operation)
    }

    pub(crate) fn take(&mut self, edge: u16, (immediate, payload): &Packet) -> Out {
        self.take_frame(edge, &Self::header(edge, *immediate), payload)
    }

    pub(crate) fn take_frame(&mut self, edge: u16, header: &RoceHeader, payload: &[u8]) -> Out {
        let mut out = Out::default();
        self.0.handle_frame(Instant::ZERO, edge, Frame { header, payload }, &mut out);
        self.0.assert_invariants();
        out
    }
}

pub(crate) fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The elements of a packet.
pub(crate) fn elements(packet: &Packet) -> Vec<i32> {
    packet.1[LENGTH..].chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect()
}
