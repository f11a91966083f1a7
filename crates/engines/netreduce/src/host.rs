//! NetReduce on a rank: writes to the next rank in a ring, from which the switch makes everybody's sum (II.E, figure 5).
//!
//! A vector is cut into messages of up to 128 frames. A message is over when the next rank has acknowledged it: what arrived there
//! was the sum, so everybody's frames have been at the switch. Up to as many messages are under way as the switch has columns: a
//! column that a new message opens is then nobody's any more, for no rank sends that far before its own of the column is over.
//!
//! The first two elements of each message are no part of the vector: a digest of what ranks must agree on, in halves of 16 bits, which
//! binary32 adds up exactly for 16 ranks. Where their sum is not as many times this rank's own as there are ranks, somebody asks for
//! something else, and nobody takes the result.

use crate::mutation::Mutation;
use quincunx_collective::{Collective, DataType, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, Verb, Verbs, WorkId,
};
use quincunx_units::Instant;
use quincunx_wire::netreduce::{self, NetReduceHeader};

/// Leads to the next rank.
const NEXT: QpIndex = QpIndex(0);
/// Leads to the rank before.
const PREVIOUS: QpIndex = QpIndex(1);

/// Where results land: registered before anything else, at every rank.
const LANDING: RegionId = RegionId(0);
/// Where messages are put together.
const STAGING: RegionId = RegionId(1);

/// Bytes of the elements with the digest, behind the header.
const AGREEMENT: usize = 8;
/// Bytes of a message before the elements of the vector.
const HEAD: usize = netreduce::LENGTH + AGREEMENT;

/// A message has two frames at least: there is no Write Only for aggregation.
const LEAST_FRAMES: usize = 2;

/// What a rank is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NetReduceConfig {
    /// This rank.
    pub rank: Rank,
    /// Ranks in the group.
    pub ranks: u16,
    /// Bytes of payload of every frame.
    pub payload: usize,
    /// The most frames of a message.
    pub frames: usize,
    /// Messages under way.
    pub window: u64,
    /// What the switch adds.
    pub data_type: DataType,
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Running {
    request: CollectiveRequest,
    /// The first of its messages.
    first: u64,
    /// One more than its last.
    end: u64,
    /// What ranks must agree on.
    digest: u32,
}

/// A rank's part.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NetReduce {
    config: NetReduceConfig,
    running: Option<Running>,
    /// Collectives begun.
    collectives: u32,
    /// Messages posted.
    posted: u64,
    /// Messages that the next rank has acknowledged.
    acknowledged: u64,
    /// Messages whose result has come.
    answered: u64,
    has_failed: bool,
}

impl NetReduce {
    /// A rank before its first collective.
    pub const fn new(config: NetReduceConfig) -> Self {
        Self {
            config,
            running: None,
            collectives: 0,
            posted: 0,
            acknowledged: 0,
            answered: 0,
            has_failed: false,
        }
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    fn window(&self) -> u64 {
        self.config.window + u64::from(self.breaks(Mutation::FifthMessage))
    }

    /// Messages that are over.
    fn over(&self) -> u64 {
        if self.breaks(Mutation::OverWhenAnswered) { self.answered } else { self.acknowledged }
    }

    /// Bytes of a slot, which holds the longest message.
    const fn stride(&self) -> usize {
        self.config.frames * self.config.payload
    }

    /// Bytes of a vector in a full message.
    const fn capacity(&self) -> usize {
        self.stride() - HEAD
    }

    fn slot(&self, message: u64) -> usize {
        (message % self.window()) as usize * self.stride()
    }

    /// The bytes of the vector in a message of the collective that runs.
    fn piece(&self, running: &Running, message: u64) -> (usize, usize) {
        let index = if self.breaks(Mutation::SameMessage) { 0 } else { message - running.first };
        let offset = index as usize * self.capacity();
        (offset, self.capacity().min(running.request.input.length - offset))
    }

    fn receive<P: Payload>(&self, verbs: &mut dyn Verbs<P>) {
        let sink = Slice { region: LANDING, offset: 0, length: 0 };
        verbs.post_receive(PREVIOUS, ReceiveRequest { id: WorkId(0), sink });
    }

    /// Posts as many messages as may be under way.
    fn post<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        let Some(running) = self.running.take() else { return };
        while self.posted < running.end && self.posted < self.over() + self.window() {
            self.post_message(&running, verbs);
            self.posted += 1;
        }
        self.running = Some(running);
    }

    fn post_message<P: Payload>(&self, running: &Running, verbs: &mut dyn Verbs<P>) {
        let message = self.posted;
        let (from, length) = self.piece(running, message);
        let used = HEAD + length;
        let frames = used.div_ceil(self.config.payload).max(LEAST_FRAMES);
        let whole = frames * self.config.payload;
        let start = self.slot(message);
        let header = NetReduceHeader {
            message: message as u32,
            rank: self.config.rank.0,
            frames: frames as u16,
            elements: (length / self.config.data_type.size()) as u32,
            collective: self.collectives,
        };
        let staging = |offset, length| Slice { region: STAGING, offset: start + offset, length };
        // What nobody needs is nobody's data either.
        let mut frame = P::zeroed(HEAD);
        frame.inscribe(0, &header.to_bytes());
        frame.inscribe(netreduce::LENGTH, &self.agreement(running.digest, 1));
        let memory = verbs.memory();
        memory.write(staging(0, HEAD), frame.view(0..HEAD));
        let input = running.request.input;
        memory
            .copy(staging(HEAD, length), Slice { region: input.region, offset: input.offset + from, length });
        let rest = P::zeroed(whole - used);
        memory.write(staging(used, whole - used), rest.view(0..whole - used));
        let verb = Verb::Write { remote_address: start as u64, remote_key: LANDING.0 };
        let source = staging(0, whole);
        verbs.post_send(
            NEXT,
            SendRequest { id: WorkId(message), verb, source, immediate: Some(message as u32) },
        );
    }

    /// The elements with a digest, as the sum of so many ranks has them.
    fn agreement(&self, digest: u32, ranks: u16) -> [u8; AGREEMENT] {
        let mut elements = [0; AGREEMENT];
        for (half, bytes) in [digest >> 16, digest & 0xffff].into_iter().zip(elements.chunks_exact_mut(4)) {
            let sum = half * u32::from(ranks);
            bytes.copy_from_slice(&match self.config.data_type {
                // Exact: below 2^24.
                DataType::F32 => (sum as f32).to_le_bytes(),
                _ => sum.to_le_bytes(),
            });
        }
        elements
    }

    /// Takes the result of a message, if it is the one that comes next, in its place, and all ranks asked for the same.
    fn take<P: Payload>(
        &mut self,
        target: Slice,
        immediate: u32,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Failure> {
        let message = self.answered;
        let running = self.running.take().filter(|running| message < running.end);
        let running = running.ok_or(Failure::InvalidRequest)?;
        let (offset, length) = self.piece(&running, message);
        let start = self.slot(message);
        let fits = target.region == LANDING
            && target.offset == start
            && target.length >= HEAD + length
            && immediate == message as u32;
        if !fits {
            return Err(Failure::InvalidRequest);
        }
        let said = Slice { region: LANDING, offset: start + netreduce::LENGTH, length: AGREEMENT };
        // A kind of payload without contents says nothing.
        let said = P::contents(verbs.memory().view(said));
        if said.is_some_and(|said| *said != self.agreement(running.digest, self.config.ranks)) {
            return Err(Failure::Disagreement);
        }
        let output = running.request.output;
        verbs.memory().copy(
            Slice { region: output.region, offset: output.offset + offset, length },
            Slice { region: LANDING, offset: start + HEAD, length },
        );
        self.answered += 1;
        self.receive(verbs);
        self.running = Some(running);
        Ok(())
    }

    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Outcome {
        self.has_failed = true;
        self.running = None;
        if self.breaks(Mutation::SuccessOnFailure) { Outcome::Done } else { Outcome::Failed { qp, failure } }
    }

    /// Refuses what the switch cannot add up.
    fn check<P: Payload>(
        &self,
        request: &CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<usize, RequestError> {
        let CollectiveRequest { collective, reduction, .. } = *request;
        if !matches!(collective, Collective::AllReduce | Collective::Barrier) {
            return Err(RequestError::NotOffered { found: collective });
        }
        let offered = Reduction { op: ReduceOp::Sum, data_type: self.config.data_type };
        if collective == Collective::AllReduce && reduction != offered {
            return Err(RequestError::Reduction { expected: offered, found: reduction });
        }
        // How many ranks there are does not matter to these two.
        request.check(self.config.rank, 1, verbs.memory())
    }
}

/// The finalizer of MurmurHash3 (Appleby): one value for each, without order, so that the digests of two who disagree do not add up to that of
/// the others.
const fn scattered(digest: u32) -> u32 {
    let mut mixed = digest;
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

impl<P: Payload> Program<P> for NetReduce {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        let slots = self.window() as usize;
        for expected in [LANDING, STAGING] {
            let region = verbs.memory().register(P::zeroed(slots * self.stride()));
            assert_eq!(region, expected, "these come first");
        }
        (0..slots).for_each(|_| self.receive(verbs));
    }

    fn start(
        &mut self,
        _now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        if self.has_failed {
            return Err(RequestError::GroupFailed);
        }
        if self.running.is_some() {
            return Err(RequestError::Busy);
        }
        let length = self.check(&request, verbs)?;
        // Nothing to add up is still to wait for: that all agree.
        let messages = length.div_ceil(self.capacity()).max(1) as u64;
        let digest = scattered(request.digest(length, u32::BITS));
        self.running = Some(Running { request, first: self.posted, end: self.posted + messages, digest });
        self.post(verbs);
        self.collectives = self.collectives.wrapping_add(1);
        Ok(None)
    }

    fn handle_completion(
        &mut self,
        _now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.has_failed {
            return None;
        }
        match completion {
            Completion::Sent { .. } => self.acknowledged += 1,
            Completion::Written { target, immediate, .. } => {
                if let Err(failure) = self.take(target, immediate, verbs) {
                    return Some(self.fail(qp, failure));
                }
            }
            Completion::Received { .. } => return Some(self.fail(qp, Failure::InvalidRequest)),
            Completion::Failed { failure, .. } => return Some(self.fail(qp, failure)),
        }
        self.post(verbs);
        let end = self.running.as_ref()?.end;
        (self.acknowledged.min(self.answered) == end).then(|| {
            self.running = None;
            Outcome::Done
        })
    }

    fn buffer_bytes(&self) -> usize {
        2 * self.window() as usize * self.stride()
    }

    fn assert_invariants(&self) {
        assert!(self.acknowledged <= self.posted, "more is acknowledged than was posted");
        if self.config.mutation.is_none() && !self.has_failed {
            assert!(self.answered <= self.posted, "a result has this rank's data in it");
            assert!(self.posted - self.over() <= self.window(), "more is under way than the switch holds");
        }
    }
}
