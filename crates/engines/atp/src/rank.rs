//! What runs on a rank: a worker, and on rank 0 the server beside it.
//!
//! The server is behind queue pair 0 of rank 0. That rank's own part goes to it at once, without a packet (EPIC's "7-to-1"), or to the switch
//! through queue pair 1 as others' do ("8-to-1").

use crate::config::AtpShapeError;
use crate::mutation::Mutation;
use crate::partial::Part;
use crate::server::Server;
use crate::worker::{Worker, WorkerConfig};
use alloc::collections::VecDeque;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, Slice, Verbs, WorkId,
};
use quincunx_units::Instant;
use quincunx_wire::atp::AtpTags;

/// The queue pair that a rank has first: the server's of rank 0, the worker's of others.
const FIRST: QpIndex = QpIndex(0);

/// The queue pair of rank 0 as a worker, if it has one.
const SECOND: QpIndex = QpIndex(1);

/// Where packets land. A rank without it has not joined yet.
const NOWHERE: RegionId = RegionId(u32::MAX);

/// What runs on a rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AtpRank<P> {
    config: WorkerConfig,
    tags: AtpTags,
    worker: Worker,
    server: Option<Server<P>>,
    /// A packet for each queue pair.
    landing: RegionId,
    has_failed: bool,
}

impl<P: Payload> AtpRank<P> {
    /// A rank before its first collective.
    ///
    /// # Errors
    /// If there is no group of that shape.
    pub fn new(config: WorkerConfig) -> Result<Self, AtpShapeError> {
        let (shape, tags) = (config.shape, config.shape.tags()?);
        let has_server = config.rank == Rank(0);
        let qp = match (has_server, shape.server_sends) {
            (false, _) => Some(FIRST),
            (true, true) => Some(SECOND),
            (true, false) => None,
        };
        let server =
            has_server.then(|| Server::new(shape, tags, config.initial_psn.extended(), config.mutation));
        let worker = Worker::new(config, tags, qp);
        Ok(Self { config, tags, worker, server, landing: NOWHERE, has_failed: false })
    }

    /// How many queue pairs it has.
    pub const fn queue_pairs(&self) -> u16 {
        if self.server.is_some() && self.config.shape.server_sends { 2 } else { 1 }
    }

    fn landed(&self, qp: QpIndex) -> Slice {
        let length = self.config.shape.packet();
        Slice { region: self.landing, offset: usize::from(qp.0) * length, length }
    }

    fn receive(&self, qp: QpIndex, verbs: &mut dyn Verbs<P>) {
        verbs.post_receive(qp, ReceiveRequest { id: WorkId(0), sink: self.landed(qp) });
    }

    /// Takes a packet that has landed.
    fn take(
        &mut self,
        now: Instant,
        qp: QpIndex,
        (immediate, length): (u32, usize),
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Failure> {
        let landed = Slice { length, ..self.landed(qp) };
        match &mut self.server {
            Some(server) if qp == FIRST => {
                // What the switch sends there is no result, and what makes no sense is lost.
                let payload = verbs.memory().view(landed);
                let part = Part::read::<P>(self.tags, immediate, P::reborrow(payload), server.newest());
                let whole = part.ok().filter(|part| server.take(*part, payload)).map(|part| part.number);
                self.settle(now, whole, verbs)
            }
            _ => {
                let payload = verbs.memory().view(landed);
                match Part::read::<P>(self.tags, immediate, payload, self.worker.oldest()) {
                    Ok(part) => self.worker.take(now, part, landed, verbs),
                    Err(_) => Ok(()),
                }
            }
        }
    }

    /// Sends a result, and does what the server and the worker beside it have for each other.
    fn settle(&mut self, now: Instant, whole: Option<u32>, verbs: &mut dyn Verbs<P>) -> Result<(), Failure> {
        let Some(server) = &mut self.server else { return Ok(()) };
        let is_local = !self.config.shape.server_sends;
        let mut results = VecDeque::from_iter(whole);
        loop {
            if let Some(number) = results.pop_front() {
                let Some(sum) = server.stage(number, verbs) else { continue };
                server.post(number, sum, FIRST, verbs);
                if is_local {
                    let immediate = self.tags.write(number, self.tags.all(), false);
                    let payload = verbs.memory().view(sum);
                    if let Ok(part) = Part::read::<P>(self.tags, immediate, payload, self.worker.oldest()) {
                        self.worker.take(now, part, sum, verbs)?;
                    }
                }
            } else if let Some((immediate, packet)) = self.worker.next_local() {
                let payload = verbs.memory().view(packet);
                let part = Part::read::<P>(self.tags, immediate, P::reborrow(payload), server.newest());
                let whole = part.ok().filter(|part| server.take(*part, payload));
                results.extend(whole.map(|part| part.number));
            } else {
                return Ok(());
            }
        }
    }

    fn fail(&mut self, failure: Failure) -> Outcome {
        self.has_failed = true;
        self.worker.fail();
        if self.config.mutation == Some(Mutation::SuccessOnFailure) {
            Outcome::Done
        } else {
            Outcome::Failed { qp: FIRST, failure }
        }
    }

    fn ended(&mut self, done: Result<(), Failure>) -> Option<Outcome> {
        match done {
            Err(failure) => Some(self.fail(failure)),
            Ok(()) => self.worker.finish().then_some(Outcome::Done),
        }
    }
}

impl<P: Payload> Program<P> for AtpRank<P> {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        let landing = usize::from(self.queue_pairs()) * self.config.shape.packet();
        self.landing = verbs.memory().register(P::zeroed(landing));
        self.worker.initialise(verbs);
        if let Some(server) = &mut self.server {
            server.initialise(verbs);
        }
        (0..self.queue_pairs()).for_each(|qp| self.receive(QpIndex(qp), verbs));
    }

    fn start(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        if self.has_failed {
            return Err(RequestError::GroupFailed);
        }
        if self.worker.is_running() {
            return Err(RequestError::Busy);
        }
        self.worker.start(now, request, verbs)?;
        let done = self.settle(now, None, verbs);
        Ok(self.ended(done))
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.has_failed {
            return None;
        }
        let done = match completion {
            Completion::Sent { id: WorkId(number) } => {
                match &mut self.server {
                    Some(server) if qp == FIRST => server.sent(number as u32),
                    _ => self.worker.sent(now, number, verbs),
                }
                Ok(())
            }
            Completion::Received { length, immediate: Some(immediate), .. } => {
                let taken = self.take(now, qp, (immediate, length), verbs);
                self.receive(qp, verbs);
                taken
            }
            Completion::Received { .. } | Completion::Written { .. } => Err(Failure::InvalidRequest),
            Completion::Failed { failure, .. } => Err(failure),
        };
        self.ended(done)
    }

    fn handle_alarm(&mut self, now: Instant, _: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        if self.has_failed {
            return None;
        }
        let sent = self.worker.send_again(now, verbs);
        let done = sent.and_then(|()| self.settle(now, None, verbs));
        self.ended(done)
    }

    fn buffer_bytes(&self) -> usize {
        let landing = usize::from(self.queue_pairs()) * self.config.shape.packet();
        landing + self.worker.bytes() + self.server.as_ref().map_or(0, Server::bytes)
    }

    fn assert_invariants(&self) {
        if self.has_failed || self.config.mutation.is_some() {
            return;
        }
        self.worker.assert_invariants();
        self.server.iter().for_each(Server::assert_invariants);
    }
}
