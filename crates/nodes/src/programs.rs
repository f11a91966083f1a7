//! All collective programs as one type, so that a host can run whichever its group was given.

use quincunx_collective::{Payload, Routes};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Outcome, Program, QpIndex, RequestError, Verbs, WorkId,
};
use quincunx_engine::writes::{Notice, Target, WriteError};
use quincunx_epic::CommLib;
use quincunx_multiwrite::{AllGather, Experts, Writes};
use quincunx_ring::HostProgram;
use quincunx_units::Instant;

/// A collective program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Programs {
    /// EPIC, in any mode.
    CommLib(CommLib),
    /// Ring, tree or direct, among hosts alone.
    Host(HostProgram),
    /// An AllGather over MultiWrite.
    MultiWrite(AllGather),
    /// Dispatch to experts, and Combine, over MultiWrite.
    Experts(Experts),
    /// The application's own writes.
    Writes(Writes),
}

impl<P: Payload> Program<P> for Programs {
    fn initialise(&mut self, verbs: &mut impl Verbs<P>) {
        match self {
            Self::CommLib(program) => program.initialise(verbs),
            Self::Host(program) => program.initialise(verbs),
            Self::MultiWrite(program) => program.initialise(verbs),
            Self::Experts(program) => program.initialise(verbs),
            Self::Writes(program) => program.initialise(verbs),
        }
    }

    fn route(&mut self, routes: &Routes) -> Result<(), RequestError> {
        match self {
            Self::CommLib(program) => Program::<P>::route(program, routes),
            Self::Host(program) => Program::<P>::route(program, routes),
            Self::MultiWrite(program) => Program::<P>::route(program, routes),
            Self::Experts(program) => Program::<P>::route(program, routes),
            Self::Writes(program) => Program::<P>::route(program, routes),
        }
    }

    fn start(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut impl Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        match self {
            Self::CommLib(program) => program.start(now, request, verbs),
            Self::Host(program) => program.start(now, request, verbs),
            Self::MultiWrite(program) => program.start(now, request, verbs),
            Self::Experts(program) => program.start(now, request, verbs),
            Self::Writes(program) => program.start(now, request, verbs),
        }
    }

    fn write(
        &mut self,
        id: WorkId,
        to: (&[Target], usize),
        data: P::View<'_>,
        verbs: &mut impl Verbs<P>,
    ) -> Result<(), WriteError> {
        match self {
            Self::Writes(program) => program.write(id, to, data, verbs),
            // The others keep their windows to themselves.
            _ => Err(WriteError::NotOffered),
        }
    }

    fn next_notice(&mut self) -> Option<Notice> {
        match self {
            Self::Writes(program) => Program::<P>::next_notice(program),
            _ => None,
        }
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut impl Verbs<P>,
    ) -> Option<Outcome> {
        match self {
            Self::CommLib(program) => program.handle_completion(now, qp, completion, verbs),
            Self::Host(program) => program.handle_completion(now, qp, completion, verbs),
            Self::MultiWrite(program) => program.handle_completion(now, qp, completion, verbs),
            Self::Experts(program) => program.handle_completion(now, qp, completion, verbs),
            Self::Writes(program) => program.handle_completion(now, qp, completion, verbs),
        }
    }

    fn handle_alarm(&mut self, now: Instant, alarm: Alarm, verbs: &mut impl Verbs<P>) -> Option<Outcome> {
        match self {
            Self::CommLib(program) => program.handle_alarm(now, alarm, verbs),
            Self::Host(program) => program.handle_alarm(now, alarm, verbs),
            Self::MultiWrite(program) => program.handle_alarm(now, alarm, verbs),
            Self::Experts(program) => program.handle_alarm(now, alarm, verbs),
            Self::Writes(program) => program.handle_alarm(now, alarm, verbs),
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::CommLib(program) => Program::<P>::assert_invariants(program),
            Self::Host(program) => Program::<P>::assert_invariants(program),
            Self::MultiWrite(program) => Program::<P>::assert_invariants(program),
            Self::Experts(program) => Program::<P>::assert_invariants(program),
            Self::Writes(program) => Program::<P>::assert_invariants(program),
        }
    }
}
