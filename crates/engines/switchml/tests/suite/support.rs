//! Ranks and a switch without a network: what they send is kept, and tests say what arrives.

use quincunx_collective::{Collective, DataType, FixedPoint, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Memory, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, Verbs, WorkId,
};
use quincunx_engine::{Frame, Terms};
use quincunx_switchml::{Mutation, PoolShape, Pools, PoolsConfig, Worker, WorkerConfig};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::switchml::LENGTH;
use quincunx_wire::{Deth, Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};

/// Packets of two elements in two slots.
pub(crate) const SHAPE: PoolShape = PoolShape { slots: 2, piece: 8 };

pub(crate) const TIMEOUT: Duration = Duration::from_millis(1);

/// A moment so many milliseconds in.
pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(crate) fn worker_of(ranks: u16) -> WorkerConfig {
    WorkerConfig {
        rank: Rank(0),
        ranks,
        shape: SHAPE,
        scale: None,
        timeout: TIMEOUT,
        retries: 3,
        initial_psn: Psn::new(0),
        mutation: None,
    }
}

pub(crate) fn at_point(fraction_bits: i8) -> Option<FixedPoint> {
    Some(FixedPoint::new(fraction_bits))
}

/// What a worker has posted.
#[derive(Clone, Default)]
pub(crate) struct Posted {
    pub(crate) memory: Memory<Numbers>,
    pub(crate) sends: Vec<SendRequest>,
    pub(crate) receives: Vec<ReceiveRequest>,
    pub(crate) alarms: Vec<Duration>,
}

impl Verbs<Numbers> for Posted {
    fn memory(&mut self) -> &mut Memory<Numbers> {
        &mut self.memory
    }
    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        assert_eq!(qp, QpIndex(0));
        assert!(self.memory.contains(request.source), "{request:?} is somewhere");
        self.sends.push(request);
    }
    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        assert_eq!(qp, QpIndex(0));
        self.receives.push(request);
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

/// A packet: the number of its piece, and its payload.
pub(crate) type Packet = (u32, Vec<u8>);

/// A rank with a vector.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) worker: Worker,
    pub(crate) verbs: Posted,
    pub(crate) data_type: DataType,
    input: RegionId,
    output: RegionId,
    length: usize,
    pub(crate) outcome: Option<Outcome>,
}

impl Host {
    pub(crate) fn new(config: WorkerConfig, data_type: DataType, vector: &[u8]) -> Self {
        let mut verbs = Posted::default();
        let mut worker = Worker::new(config);
        worker.initialise(&mut verbs);
        let input = verbs.memory.register(Numbers::from(vector.to_vec()));
        let output = verbs.memory.register(Numbers::zeroed(vector.len()));
        Self { worker, verbs, data_type, input, output, length: vector.len(), outcome: None }
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

    pub(crate) fn start(&mut self, now: Instant) -> Result<Option<Outcome>, RequestError> {
        let request = self.request();
        self.ask(now, request)
    }

    pub(crate) fn ask(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
    ) -> Result<Option<Outcome>, RequestError> {
        self.outcome = None;
        self.worker.start(now, request, &mut self.verbs)
    }

    /// Packets leave, the oldest first, and are as they are when they do.
    pub(crate) fn leave(&mut self, now: Instant) -> Vec<Packet> {
        let mut left = Vec::new();
        while !self.verbs.sends.is_empty() {
            left.push(self.leave_one(now));
        }
        left
    }

    pub(crate) fn leave_one(&mut self, now: Instant) -> Packet {
        let SendRequest { id, source, immediate, .. } = self.verbs.sends.remove(0);
        let bytes = self.verbs.memory.view(source).to_vec();
        self.complete(now, Completion::Sent { id });
        (immediate.expect("each piece has a number"), bytes)
    }

    /// A packet arrives.
    pub(crate) fn arrive(&mut self, now: Instant, (number, payload): &Packet) {
        let place = self.verbs.receives.remove(0);
        self.verbs.memory.write(place.sink, payload);
        let immediate = Some(*number);
        self.complete(now, Completion::Received { id: place.id, length: payload.len(), immediate });
        assert_eq!(self.verbs.receives.len(), 1, "there is a place for the next one");
    }

    pub(crate) fn complete(&mut self, now: Instant, completion: Completion) {
        let outcome = self.worker.handle_completion(now, QpIndex(0), completion, &mut self.verbs);
        self.outcome = self.outcome.or(outcome);
        Program::<Numbers>::assert_invariants(&self.worker);
    }

    pub(crate) fn time_out(&mut self, now: Instant) {
        self.verbs.alarms.clear();
        let outcome = self.worker.handle_alarm(now, Alarm(0), &mut self.verbs);
        self.outcome = self.outcome.or(outcome);
        Program::<Numbers>::assert_invariants(&self.worker);
    }

    pub(crate) fn result(&self) -> Vec<u8> {
        self.verbs.memory.view(Slice { region: self.output, offset: 0, length: self.length }).to_vec()
    }

    /// A failure without a packet's.
    pub(crate) fn break_queue_pair(&mut self, failure: quincunx_engine::verbs::Failure) {
        self.complete(Instant::ZERO, Completion::Failed { id: WorkId(0), failure });
    }
}

pub(crate) fn end_of(rank: u16) -> [Endpoint; 2] {
    let [high, low] = rank.to_be_bytes();
    let end = |network, qp| Endpoint { ip: Gid::from([10, network, high, low]), qp: QpNumber::new(qp) };
    [end(0, 0x100 + u32::from(rank)), end(1, 0x11)]
}

/// What a switch has sent, by rank, and why it dropped frames.
#[derive(Default, Debug)]
pub(crate) struct Out {
    pub(crate) packets: Vec<(u16, Packet)>,
    pub(crate) headers: Vec<RoceHeader>,
    pub(crate) drops: Vec<(u16, &'static str)>,
}

impl DatapathSink<Numbers> for Out {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, Numbers>) {
        let Operation::DatagramSendOnlyImmediate(_, number) = frame.header.operation else {
            panic!("a datagram with a number, found {:?}", frame.header);
        };
        self.headers.push(*frame.header);
        self.packets.push((edge, (number, frame.payload.to_vec())));
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
        panic!("rank {edge} is given up");
    }
    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        self.drops.push((edge, reason));
    }
}

/// The switch.
#[derive(Clone)]
pub(crate) struct Switch(pub(crate) Pools<Numbers>);

pub(crate) const FIRST_PSN: Psn = Psn::new(0xff_fffe);

impl Switch {
    pub(crate) fn new(ranks: u16, mutation: Option<Mutation>) -> Self {
        let edges = (0..ranks).map(end_of).collect();
        let config = PoolsConfig { shape: SHAPE, edges, initial_psn: FIRST_PSN, mutation };
        Self(Pools::new(config).expect("a pool"))
    }

    pub(crate) fn header(rank: u16, number: u32) -> RoceHeader {
        let [local, remote] = end_of(rank);
        let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: remote.qp };
        let operation = Operation::DatagramSendOnlyImmediate(deth, number);
        RoceHeader::new(remote.ip, local.ip, local.qp, FIRST_PSN.plus(number), operation)
    }

    pub(crate) fn take(&mut self, rank: u16, (number, payload): &Packet) -> Out {
        self.take_frame(rank, &Self::header(rank, *number), payload)
    }

    pub(crate) fn take_frame(&mut self, rank: u16, header: &RoceHeader, payload: &[u8]) -> Out {
        let mut out = Out::default();
        self.0.handle_frame(Instant::ZERO, rank, Frame { header, payload }, &mut out);
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
