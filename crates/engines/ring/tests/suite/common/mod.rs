//! A group of host programs over queue pairs that live in memory: lossless and in order each, but which of them
//! moves next is drawn from a seed. A message waits until its receiver has posted a receive request; its acknowledge may come after
//! what its receiver has sent upon it, as where acknowledges are lost. The source of
//! every send is held against a copy from when it was posted: programs must not touch it before its completion.

use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Memory, Outcome, Program, QpIndex, ReceiveRequest,
    RequestError, SendRequest, Slice, Verbs, WorkId,
};
use quincunx_ring::{Algorithm, Config, HostProgram, Pace};
use quincunx_units::{ByteCount, Duration, Instant, Packets};
use std::collections::VecDeque;

pub(crate) mod timed;

pub(crate) struct Qp<P> {
    sends: VecDeque<(SendRequest, P)>,
    receives: VecDeque<ReceiveRequest>,
    completions: VecDeque<Completion>,
    acknowledges: VecDeque<(Completion, Slice, P)>,
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

pub(crate) struct Host<P> {
    pub(crate) program: HostProgram,
    pub(crate) memory: Memory<P>,
    pub(crate) qps: Vec<Qp<P>>,
}

struct HostVerbs<'a, P> {
    memory: &'a mut Memory<P>,
    qps: &'a mut Vec<Qp<P>>,
}

impl<P: Payload> Verbs<P> for HostVerbs<'_, P> {
    fn memory(&mut self) -> &mut Memory<P> {
        self.memory
    }

    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        assert!(self.memory.contains(request.source));
        let copy = P::from_view(self.memory.view(request.source));
        self.qps[usize::from(qp.0)].sends.push_back((request, copy));
    }

    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        assert!(self.memory.contains(request.sink));
        self.qps[usize::from(qp.0)].receives.push_back(request);
    }

    fn set_alarm(&mut self, _alarm: Alarm, _after: Duration) {
        panic!("host collectives set no alarms");
    }

    fn skip(&mut self, _qp: QpIndex, _sends: u32, _receives: u32) {
        panic!("host collectives need no PSN synchronisation");
    }

    fn skip_next(&mut self, _qp: QpIndex, _packets: Packets) {
        panic!("host collectives need no PSN synchronisation");
    }
}

/// The queue pair of `rank` to `peer`: one to each other rank, in rank order.
pub(crate) fn qp_to(rank: usize, peer: usize) -> usize {
    if peer < rank { peer } else { peer - 1 }
}

fn peer_of(rank: usize, qp: usize) -> usize {
    if qp < rank { qp } else { qp + 1 }
}

pub(crate) fn config(algorithm: Algorithm, rank: usize, ranks: usize, chunk: u64, window: u16) -> Config {
    let peers = (0..ranks).map(|peer| (peer != rank).then(|| QpIndex(qp_to(rank, peer) as u16))).collect();
    let (rank, chunk) = (Rank(rank as u16), ByteCount::new(chunk));
    Config {
        algorithm,
        rank,
        peers,
        trees: None,
        chunk,
        window,
        pace: Pace::Eager,
        confirm: true,
        barrier_at_root: false,
    }
}

pub(crate) struct ProgramGroup<P> {
    pub(crate) hosts: Vec<Host<P>>,
    random: u64,
}

enum Step {
    Start(usize),
    Deliver(usize, usize),
    Complete(usize, usize),
    Acknowledge(usize, usize),
}

impl<P: Payload> ProgramGroup<P> {
    pub(crate) fn new(algorithm: Algorithm, ranks: usize, chunk: u64, window: u16, seed: u64) -> Self {
        Self::paced(Pace::Eager, algorithm, ranks, chunk, window, seed)
    }

    pub(crate) fn paced(
        pace: Pace,
        algorithm: Algorithm,
        ranks: usize,
        chunk: u64,
        window: u16,
        seed: u64,
    ) -> Self {
        Self::of(&|rank| Config { pace, ..config(algorithm, rank, ranks, chunk, window) }, ranks, seed)
    }

    pub(crate) fn of(config: &dyn Fn(usize) -> Config, ranks: usize, seed: u64) -> Self {
        let host = |rank| Host {
            program: HostProgram::new(&config(rank)).unwrap(),
            memory: Memory::default(),
            qps: (1..ranks)
                .map(|_| Qp {
                    sends: VecDeque::new(),
                    receives: VecDeque::new(),
                    completions: VecDeque::new(),
                    acknowledges: VecDeque::new(),
                    messages: 0,
                    bytes: 0,
                })
                .collect(),
        };
        Self { hosts: (0..ranks).map(host).collect(), random: seed }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % bound as u64) as usize
    }

    pub(crate) fn start(
        &mut self,
        rank: usize,
        request: CollectiveRequest,
    ) -> Result<Option<Outcome>, RequestError> {
        let Host { program, memory, qps, .. } = &mut self.hosts[rank];
        let outcome = program.start(Instant::ZERO, request, &mut HostVerbs { memory, qps });
        Program::<P>::assert_invariants(program);
        outcome
    }

    pub(crate) fn complete(&mut self, rank: usize, qp: usize, completion: Completion) -> Option<Outcome> {
        let Host { program, memory, qps, .. } = &mut self.hosts[rank];
        let qp_index = QpIndex(qp as u16);
        let outcome =
            program.handle_completion(Instant::ZERO, qp_index, completion, &mut HostVerbs { memory, qps });
        Program::<P>::assert_invariants(program);
        outcome
    }

    pub(crate) fn fail(&mut self, rank: usize, peer: usize, failure: Failure) -> Option<Outcome> {
        self.complete(rank, qp_to(rank, peer), Completion::Failed { id: WorkId(0), failure })
    }

    /// Runs every rank's requests, one after the other at each rank, ranks as far apart as chance has it. `inputs`
    /// and the results: `[collective][rank]`.
    pub(crate) fn run(&mut self, requests: &[Vec<CollectiveRequest>]) {
        let (finished, failed) = self.run_out(requests);
        assert_eq!(failed, [], "nobody fails");
        assert!(finished.iter().all(|count| *count == requests.len()), "stuck: finished {finished:?}");
        assert!(self.hosts.iter().all(|host| host.qps.iter().all(|qp| qp.sends.is_empty())));
    }

    /// The same until nothing moves any more: how many each rank has finished, and who has failed, and how.
    pub(crate) fn run_out(
        &mut self,
        requests: &[Vec<CollectiveRequest>],
    ) -> (Vec<usize>, Vec<(usize, Outcome)>) {
        let mut failures = Vec::new();
        let mut started = vec![0; self.hosts.len()];
        let mut finished = vec![0; self.hosts.len()];
        loop {
            let mut steps = Vec::new();
            for rank in 0..self.hosts.len() {
                if started[rank] == finished[rank] && started[rank] < requests.len() {
                    steps.push(Step::Start(rank));
                }
                for qp in 0..self.hosts[rank].qps.len() {
                    let peer = peer_of(rank, qp);
                    let receiver = &self.hosts[peer].qps[qp_to(peer, rank)];
                    if !self.hosts[rank].qps[qp].sends.is_empty() && !receiver.receives.is_empty() {
                        steps.push(Step::Deliver(rank, qp));
                    }
                    if !self.hosts[rank].qps[qp].completions.is_empty() {
                        steps.push(Step::Complete(rank, qp));
                    }
                    if !self.hosts[rank].qps[qp].acknowledges.is_empty() {
                        steps.push(Step::Acknowledge(rank, qp));
                    }
                }
            }
            if steps.is_empty() {
                return (finished, failures);
            }
            let chosen = self.below(steps.len());
            let (rank, outcome) = match steps[chosen] {
                Step::Start(rank) => {
                    let request = requests[started[rank]][rank];
                    started[rank] += 1;
                    (rank, self.start(rank, request).unwrap())
                }
                Step::Deliver(rank, qp) => {
                    self.deliver(rank, qp);
                    (rank, None)
                }
                Step::Complete(rank, qp) => {
                    let completion = self.hosts[rank].qps[qp].completions.pop_front().unwrap();
                    (rank, self.complete(rank, qp, completion))
                }
                Step::Acknowledge(rank, qp) => {
                    let (completion, source, copy) =
                        self.hosts[rank].qps[qp].acknowledges.pop_front().unwrap();
                    let now = P::from_view(self.hosts[rank].memory.view(source));
                    assert_eq!(now, copy, "the source of a send changed before its completion");
                    (rank, self.complete(rank, qp, completion))
                }
            };
            match outcome {
                None => {}
                Some(Outcome::Done) => finished[rank] += 1,
                Some(failed) => failures.push((rank, failed)),
            }
        }
    }

    pub(crate) fn deliver(&mut self, rank: usize, qp: usize) {
        let peer = peer_of(rank, qp);
        let (send, copy) = self.hosts[rank].qps[qp].sends.pop_front().unwrap();
        let length = copy.length();
        let host = &mut self.hosts[peer];
        let receiver = &mut host.qps[qp_to(peer, rank)];
        let receive = receiver.receives.pop_front().unwrap();
        host.memory.write(receive.sink, copy.view(0..length));
        let received = Completion::Received { id: receive.id, length, immediate: send.immediate };
        receiver.completions.push_back(received);
        let sender = &mut self.hosts[rank].qps[qp];
        sender.messages += 1;
        sender.bytes += length;
        sender.acknowledges.push_back((Completion::Sent { id: send.id }, send.source, copy));
    }

    pub(crate) fn register(&mut self, rank: usize, payload: P) -> Slice {
        let length = payload.length();
        Slice { region: self.hosts[rank].memory.register(payload), offset: 0, length }
    }

    pub(crate) fn read(&self, rank: usize, slice: Slice) -> P {
        P::from_view(self.hosts[rank].memory.view(slice))
    }

    /// Bytes that wait to be sent on a queue pair of `rank`.
    pub(crate) fn posted(&self, rank: usize, qp: usize) -> usize {
        self.hosts[rank].qps[qp].sends.iter().map(|(send, _)| send.source.length).sum()
    }

    /// Messages that wait to be sent on a queue pair of `rank`.
    pub(crate) fn messages_posted(&self, rank: usize, qp: usize) -> usize {
        self.hosts[rank].qps[qp].sends.len()
    }

    /// Messages and bytes that `rank` has sent to `peer`.
    pub(crate) fn sent(&self, rank: usize, peer: usize) -> (usize, usize) {
        let qp = &self.hosts[rank].qps[qp_to(rank, peer)];
        (qp.messages, qp.bytes)
    }
}

/// Lengths of input and output for `bytes` a rank, by the table of `CollectiveRequest`.
pub(crate) fn lengths(
    collective: quincunx_collective::Collective,
    rank: usize,
    ranks: usize,
    bytes: usize,
) -> (usize, usize) {
    use quincunx_collective::Collective;
    match collective {
        Collective::AllReduce => (bytes, bytes),
        Collective::Reduce { root } => (bytes, if root.index() == rank { bytes } else { 0 }),
        Collective::Broadcast { root } => (if root.index() == rank { bytes } else { 0 }, bytes),
        Collective::Barrier => (0, 0),
        Collective::ReduceScatter => (ranks * bytes, bytes),
        Collective::AllGather => (bytes, ranks * bytes),
        Collective::Dispatch | Collective::Combine => (bytes, bytes),
    }
}
