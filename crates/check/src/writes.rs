//! Writes with many destinations, and nothing above them: what runs on a host that writes, relays and receives.
//!
//! The writes that applications use (`engines/multiwrite/src/writes.rs`) have one thing more: every destination answers each write with one
//! of its own, which takes its way over relays and may be lost, too. What is asked here is below that, and of the same
//! [`Writer`]: whether a write alone arrives once and whole. A program with answers could not tell a write that is lost on the way from
//! one whose answer is, and each answer would be explored as one write more. Nor would it notice what is delivered twice: it tells its
//! owner of that, where this one panics.

use quincunx_collective::{Provenance, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RequestError, Slice, Verbs,
};
use quincunx_multiwrite::{Delivery, ProtocolViolation, RELAY, Target, Write, Writer};
use quincunx_units::Instant;

use crate::network::MTU;

/// A packet of a source, by its slot.
pub(crate) type Piece = (Rank, usize);

/// Writes its input, a packet and a slot each, and ends when that is acknowledged and all that it awaits has been delivered. The
/// output has a place for each slot of each source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Writes {
    writer: Writer,
    /// The destinations of each write, and the way that it takes.
    to: Vec<Vec<Rank>>,
    way: usize,
    awaited: Vec<Piece>,
    /// In the order of arrival.
    delivered: Vec<Delivery>,
    outstanding: usize,
    request: Option<CollectiveRequest>,
    /// How it has failed, and the queue pair with it.
    failed: Option<(QpIndex, Failure)>,
}

impl Writes {
    /// A host before it has written anything.
    pub(crate) fn new(writer: Writer, to: Vec<Vec<Rank>>, way: usize, awaited: Vec<Piece>) -> Self {
        Self { writer, to, way, awaited, delivered: Vec::new(), outstanding: 0, request: None, failed: None }
    }

    /// Where a piece goes in the output.
    pub(crate) fn place((source, slot): Piece, slots: usize) -> usize {
        (source.index() * slots + slot) * MTU
    }

    fn take(
        &mut self,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<Provenance>,
    ) -> Result<(), Failure> {
        match completion {
            Completion::Sent { id } => self.outstanding -= usize::from(self.writer.handle_sent(id, verbs)),
            Completion::Written { target, immediate, .. } => {
                let delivery = self.writer.handle_written(qp, target, immediate, verbs);
                self.delivered.extend(delivery.map_err(|_| Failure::InvalidRequest)?);
            }
            Completion::Received { .. } => return Err(Failure::InvalidRequest),
            Completion::Failed { failure, .. } => return Err(failure),
        }
        Ok(())
    }

    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Outcome {
        self.failed = Some((qp, failure));
        Outcome::Failed { qp, failure }
    }

    fn proceed(&mut self, verbs: &mut dyn Verbs<Provenance>) -> Option<Outcome> {
        let is_over = self.outstanding == 0 && self.delivered.len() == self.awaited.len();
        let CollectiveRequest { output, .. } = self.request.take_if(|_| is_over)?;
        for delivery in &self.delivered {
            let place = Self::place((delivery.source, delivery.slot), self.writer.window().slots());
            let target = Slice { offset: output.offset + place, length: MTU, ..output };
            verbs.memory().copy(target, delivery.data);
        }
        Some(Outcome::Done)
    }
}

impl Program<Provenance> for Writes {
    fn initialise(&mut self, verbs: &mut dyn Verbs<Provenance>) {
        self.writer.initialise(verbs);
    }

    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<Provenance>,
    ) -> Result<Option<Outcome>, RequestError> {
        if let Some((qp, failure)) = self.failed {
            return Ok(Some(Outcome::Failed { qp, failure }));
        }
        self.request = Some(request);
        for (slot, to) in self.to.iter().enumerate() {
            let targets: Vec<Target> = to.iter().map(|&rank| Target { rank, slot }).collect();
            let source = Slice { offset: request.input.offset + slot * MTU, length: MTU, ..request.input };
            let write = Write { targets: &targets, source, way: self.way };
            self.outstanding += self.writer.write(&write, verbs).expect("the table leads everywhere");
        }
        Ok(self.proceed(verbs))
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<Provenance>,
    ) -> Option<Outcome> {
        match self.take(qp, completion, verbs) {
            Ok(()) => self.proceed(verbs),
            Err(failure) => Some(self.fail(qp, failure)),
        }
    }

    fn handle_alarm(
        &mut self,
        _: Instant,
        alarm: Alarm,
        verbs: &mut dyn Verbs<Provenance>,
    ) -> Option<Outcome> {
        assert_eq!(alarm, RELAY, "there is no other");
        let ProtocolViolation { peer } = self.writer.relay(verbs).err()?;
        let qp = self.writer.table().queue_pair(peer).expect("neighbours are connected");
        Some(self.fail(qp, Failure::InvalidRequest))
    }

    /// # Panics
    /// If something was delivered that is for others, or that was delivered before.
    fn assert_invariants(&self) {
        self.writer.assert_invariants();
        let me = self.writer.table().rank();
        for (index, Delivery { source, slot, .. }) in self.delivered.iter().enumerate() {
            let is_same = |other: &Delivery| (other.source, other.slot) == (*source, *slot);
            assert!(
                self.awaited.contains(&(*source, *slot)),
                "rank {me} is delivered write {slot} of rank {source}, which is not for it"
            );
            assert!(
                !self.delivered[..index].iter().any(is_same),
                "rank {me} is delivered write {slot} of rank {source} twice"
            );
        }
    }
}
