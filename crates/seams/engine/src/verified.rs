//! A program whose results are checked from end to end: behind each collective goes a second one over checksums, and what the two say of each
//! rank's result must agree. Else the collective fails with [`Failure::Corrupted`], and nobody takes its result for right.
//!
//! What is seen of what went wrong below (in a switch's memory or arithmetic, in a frame that somebody has forged), whatever CRC it had:
//!
//! | collective | how | seen |
//! |---|---|---|
//! | Broadcast, AllGather | the same of checksums | what differs from what was sent |
//! | sums of `i32` in AllReduce, Reduce, ReduceScatter | the same of checksums, which add up as the data does | what differs from the sum of all inputs |
//! | other AllReduces | the greatest and the least of the checksums of results | that ranks have different results; not one that is wrong for all alike |
//! | other Reduces and ReduceScatters | | nothing: one rank has the result, and rounded sums have no checksum |
//!
//! A checksum is no secret: who can forge frames of both collectives can forge what agrees. Seen is what happens by chance or to one of the two.

use quincunx_collective::{Collective, DataType, Payload, Rank, ReduceOp, Reduction};
use quincunx_units::Instant;

use crate::routing::Routed;
use crate::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RegionId, RequestError, Slice,
    Verbs,
};
use crate::writes::OneSided;

/// How a collective's result is checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Check {
    /// The same collective of checksums gives the checksum of the result.
    AddsUp,
    /// All ranks' results have one checksum.
    Agrees,
}

/// A collective under way, or its check.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Running {
    request: CollectiveRequest,
    /// The regions of the check, once that is under way.
    check: Option<(Check, [RegionId; 2])>,
}

/// A program of one queue pair or many, checked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Verified<Q> {
    program: Q,
    rank: Rank,
    ranks: u16,
    running: Option<Running>,
}

impl<Q> Verified<Q> {
    /// Checks what `program` does as one of so many ranks. All of a group's are checked, or none.
    pub fn new(program: Q, rank: Rank, ranks: u16) -> Self {
        Self { program, rank, ranks, running: None }
    }

    /// How the result of a request is checked.
    fn check<P: Payload>(request: &CollectiveRequest) -> Option<Check> {
        match request.collective {
            Collective::Broadcast { .. } | Collective::AllGather => Some(Check::AddsUp),
            Collective::AllReduce | Collective::Reduce { .. } | Collective::ReduceScatter
                if P::adds_up(request.reduction) =>
            {
                Some(Check::AddsUp)
            }
            Collective::AllReduce => Some(Check::Agrees),
            _ => None,
        }
    }

    /// The checksum of each of `parts` equal parts of a buffer, one after the other.
    fn checksums<P: Payload>(buffer: Slice, parts: usize, verbs: &mut dyn Verbs<P>) -> P {
        let length = buffer.length / parts;
        let part = |index: usize| Slice { offset: buffer.offset + index * length, length, ..buffer };
        let first = P::checksum(verbs.memory().view(part(0)));
        let size = first.length();
        let mut all = P::zeroed(size * parts);
        all.write(0, first.view(0..size));
        for index in 1..parts {
            let next = P::checksum(verbs.memory().view(part(index)));
            all.write(size * index, next.view(0..size));
        }
        all
    }

    /// A checksum and its complement, so that the greatest of all ranks' are this one's only if all have one.
    fn both_ways<P: Payload>(checksum: &P) -> P {
        let size = checksum.length();
        let mut both = P::zeroed(2 * size);
        both.write(0, checksum.view(0..size));
        if let Some(bytes) = P::contents(checksum.view(0..size)) {
            let complement: alloc::vec::Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            both.inscribe(size, &complement);
        }
        both
    }

    /// The checksum of a result as the check must find it; `None` where this rank has no result.
    fn expected<P: Payload>(&self, request: &CollectiveRequest, verbs: &mut dyn Verbs<P>) -> Option<P> {
        let parts = match request.collective {
            Collective::Reduce { root } if root != self.rank => return None,
            Collective::AllGather => usize::from(self.ranks),
            _ => 1,
        };
        Some(Self::checksums(request.output, parts, verbs))
    }

    /// Goes on after what the program has said.
    fn go_on<P: Payload>(
        &mut self,
        now: Instant,
        mut outcome: Option<Outcome>,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome>
    where
        Q: Program<P>,
    {
        loop {
            let running = self.running?;
            match (outcome?, running.check) {
                (Outcome::Done, None) => match Self::check::<P>(&running.request) {
                    Some(check) => outcome = self.begin(now, running, check, verbs),
                    None => {
                        self.running = None;
                        return Some(Outcome::Done);
                    }
                },
                (ended, check) => {
                    self.running = None;
                    let released = check.map(|(check, regions)| {
                        let [_, output] = regions.map(|region| verbs.memory().release(region));
                        (check, output.expect("the check has its regions until now"))
                    });
                    return Some(match (ended, released) {
                        (Outcome::Done, Some((check, found))) => {
                            self.judge(&running.request, check, &found, verbs)
                        }
                        _ => ended,
                    });
                }
            }
        }
    }

    /// Starts the check of what has ended.
    fn begin<P: Payload>(
        &mut self,
        now: Instant,
        running: Running,
        check: Check,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome>
    where
        Q: Program<P>,
    {
        let CollectiveRequest { collective, input, output, terms, .. } = running.request;
        let ranks = usize::from(self.ranks);
        let (input, size, op) = match (check, collective) {
            (Check::Agrees, _) => {
                let both = Self::both_ways(&Self::checksums(output, 1, verbs));
                let size = both.length();
                (both, size, ReduceOp::Max)
            }
            (Check::AddsUp, Collective::Broadcast { root }) if root != self.rank => {
                (P::zeroed(0), Self::checksums(output, 1, verbs).length(), ReduceOp::Sum)
            }
            (Check::AddsUp, _) => {
                let parts = if collective == Collective::ReduceScatter { ranks } else { 1 };
                let input = Self::checksums(input, parts, verbs);
                let size = match collective {
                    Collective::ReduceScatter => input.length() / ranks,
                    Collective::AllGather => input.length() * ranks,
                    _ => input.length(),
                };
                (input, size, ReduceOp::Sum)
            }
        };
        let reduction = Reduction { op, data_type: DataType::I32 };
        let [input, output] = [input, P::zeroed(size)].map(|buffer| {
            let length = buffer.length();
            Slice { region: verbs.memory().register(buffer), offset: 0, length }
        });
        self.running = Some(Running { check: Some((check, [input.region, output.region])), ..running });
        let request = CollectiveRequest { collective, reduction, input, output, terms };
        self.program.start(now, request, verbs).unwrap_or_else(|_| {
            let failure = Failure::InvalidRequest;
            Some(Outcome::Failed { qp: QpIndex(0), failure })
        })
    }

    /// What a result is worth, of which the check has found this.
    fn judge<P: Payload>(
        &self,
        request: &CollectiveRequest,
        check: Check,
        found: &P,
        verbs: &mut dyn Verbs<P>,
    ) -> Outcome {
        let expected = match check {
            Check::AddsUp => self.expected(request, verbs),
            Check::Agrees => Some(Self::both_ways(&Self::checksums(request.output, 1, verbs))),
        };
        match expected {
            Some(expected) if expected != *found => {
                Outcome::Failed { qp: QpIndex(0), failure: Failure::Corrupted }
            }
            _ => Outcome::Done,
        }
    }
}

impl<P: Payload, Q: Program<P>> Program<P> for Verified<Q> {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        self.program.initialise(verbs);
    }

    fn start(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        if self.running.is_some() {
            return Err(RequestError::Busy);
        }
        let outcome = self.program.start(now, request, verbs)?;
        self.running = Some(Running { request, check: None });
        Ok(self.go_on(now, outcome, verbs))
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        let outcome = self.program.handle_completion(now, qp, completion, verbs);
        if self.running.is_none() {
            return outcome;
        }
        self.go_on(now, outcome, verbs)
    }

    fn handle_alarm(&mut self, now: Instant, alarm: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        let outcome = self.program.handle_alarm(now, alarm, verbs);
        if self.running.is_none() {
            return outcome;
        }
        self.go_on(now, outcome, verbs)
    }

    fn as_one_sided(&mut self) -> Option<&mut dyn OneSided<P>> {
        self.program.as_one_sided()
    }

    fn as_routed(&mut self) -> Option<&mut dyn Routed> {
        self.program.as_routed()
    }

    fn buffer_bytes(&self) -> usize {
        self.program.buffer_bytes()
    }

    fn assert_invariants(&self) {
        self.program.assert_invariants();
    }
}
