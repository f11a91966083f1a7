//! What AllReduce-Switch does to frames for aggregation: table VI, the Aggregation Frame Handlers and the Aggregation Processor. Whole
//! frames at a time; what the hardware overlaps happens here at once.

use crate::config::{ConfigError, Shape};
use crate::flows::{Flows, FrameSlot};
use crate::mutation::Mutation;
use crate::registers::PortConfig;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;
use quincunx_collective::{Payload, Reduction};
use quincunx_wire::netreduce;
use quincunx_wire::{Psn, QpNumber};

/// Where the result of a frame goes.
pub type Destination = u16;

/// A frame with one of the four opcodes, in its length, at a port that takes part.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a, H, P: Payload> {
    /// Where it came in.
    pub port: u16,
    /// Its headers, which the result has, too.
    pub header: &'a H,
    /// Whether it is a Write First.
    pub is_first: bool,
    /// Whether its message is the first of its connection, of a First.
    pub begins: bool,
    /// The queue pair that it is for.
    pub queue_pair: QpNumber,
    /// Its number.
    pub psn: Psn,
    /// Where frames for its destination leave; none if nobody knows.
    pub destination: Option<Destination>,
    /// What it carries, NetReduce's header included.
    pub payload: P::View<'a>,
}

/// Why a frame for aggregation is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// Its sender says that it is for aggregation, and its queue pair is not known: the first frame was lost.
    Unknown,
    /// Nobody knows where its destination is, and it is never flooded.
    NoDestination,
    /// A frame before it is missing.
    Gap,
    /// It is too far into its message.
    TooLong,
    /// Its column is another message's by now.
    Forgotten,
    /// It was here before, and its sum is still to come.
    Pending,
}

impl DropReason {
    /// What people read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NoDestination => "no destination",
            Self::Gap => "gap",
            Self::TooLong => "too long",
            Self::Forgotten => "forgotten",
            Self::Pending => "pending",
        }
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// It goes on as it is.
    Forward,
    /// It is for aggregation.
    Aggregate,
    /// It stays here.
    Drop(DropReason),
}

/// Why a result is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// It has just been made.
    Sum,
    /// Its frame came again.
    Repeat,
}

/// Where results go.
pub trait Outlet<H, P: Payload> {
    /// Sends a result: the header that is stored for a port's frame, with a sum in place of its data.
    fn send(&mut self, reason: Reason, to: Destination, header: &H, payload: P::View<'_>);
}

/// A frame in the header and payload buffers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Stored<H, P> {
    header: H,
    destination: Destination,
    /// NetReduce's header, of a First.
    head: Option<P>,
    /// The elements, until they are added up.
    elements: Option<P>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Branch<H, P> {
    flows: Flows,
    stored: Vec<Option<Stored<H, P>>>,
}

/// The aggregation half of the switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Aggregator<H, P> {
    shape: Shape,
    ports: PortConfig,
    /// AGG_MODE, as what it does.
    reduction: Reduction,
    branches: Vec<Branch<H, P>>,
    /// The aggregation status buffer: arrivals by place.
    counts: Vec<u16>,
    /// The aggregation result buffer.
    sums: Vec<Option<P>>,
    mutation: Option<Mutation>,
}

impl<H: Clone + Eq + Hash + Debug, P: Payload> Aggregator<H, P> {
    /// A switch of which all ports take part.
    ///
    /// # Errors
    /// If there is no switch of that shape.
    pub fn new(shape: Shape, reduction: Reduction) -> Result<Self, ConfigError> {
        shape.check()?;
        let branch = Branch { flows: Flows::new(&shape), stored: vec![None; shape.places()] };
        Ok(Self {
            ports: PortConfig::all(shape.ports),
            reduction,
            branches: vec![branch; usize::from(shape.ports)],
            counts: vec![0; shape.places()],
            sums: vec![None; shape.places()],
            mutation: None,
            shape,
        })
    }

    /// Breaks a rule from here on, so that the checker can show that it would notice.
    pub fn break_rule(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Its dimensions.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The ports that take part.
    pub const fn ports(&self) -> PortConfig {
        self.ports
    }

    /// Writes both registers. Nothing that was under way is added to what comes.
    pub fn configure(&mut self, ports: PortConfig, reduction: Reduction) {
        (self.ports, self.reduction) = (ports, reduction);
        self.counts.fill(0);
        self.sums.fill(None);
        for branch in &mut self.branches {
            branch.flows = Flows::new(&self.shape);
            branch.stored.fill(None);
        }
    }

    /// What becomes of a frame with one of the four opcodes and in its length (table VI). `matches` says whether a First's aggregation
    /// field does, `is_labelled` whether its sender says that it is for aggregation in every frame.
    pub fn judge(
        &self,
        port: u16,
        is_first: bool,
        (matches, is_labelled): (bool, bool),
        queue_pair: QpNumber,
    ) -> Judgement {
        if !self.ports.has(port) || usize::from(port) >= self.branches.len() {
            return Judgement::Forward;
        }
        let is_known = self.branches[usize::from(port)].flows.queue_pair() == Some(queue_pair);
        let is_matched = if is_first { matches } else { is_known };
        if is_matched {
            Judgement::Aggregate
        } else if !is_first && is_labelled && !self.breaks(Mutation::ForwardsUnknown) {
            Judgement::Drop(DropReason::Unknown)
        } else {
            Judgement::Forward
        }
    }

    /// Takes a frame that [`judge`](Self::judge) says is for aggregation.
    ///
    /// # Errors
    /// Why it is dropped, if it is.
    pub fn take(
        &mut self,
        arrival: &Arrival<'_, H, P>,
        out: &mut impl Outlet<H, P>,
    ) -> Result<(), DropReason> {
        let destination = arrival.destination.ok_or(DropReason::NoDestination)?;
        let Arrival { is_first, begins, queue_pair, psn, .. } = *arrival;
        let (mutation, branch) = (self.mutation, &mut self.branches[usize::from(arrival.port)]);
        match branch.flows.place((is_first, begins), queue_pair, psn, mutation) {
            FrameSlot::New(place) => {
                let payload = P::reborrow(arrival.payload);
                let length = P::view_length(payload);
                let head = if is_first { netreduce::LENGTH } else { 0 };
                branch.stored[place] = Some(Stored {
                    header: arrival.header.clone(),
                    destination,
                    head: is_first.then(|| P::from_view(P::subview(payload, 0..head))),
                    elements: Some(P::from_view(P::subview(payload, head..length))),
                });
                self.count(place, out);
                Ok(())
            }
            FrameSlot::Repeated(place) => {
                if self.breaks(Mutation::CountsRepeats) {
                    self.count(place, out);
                }
                let known = if self.breaks(Mutation::AnswersPending) {
                    self.sums[place].is_some()
                } else {
                    self.branches[usize::from(arrival.port)].flows.is_done(place)
                };
                if !known {
                    return Err(DropReason::Pending);
                }
                self.send(Reason::Repeat, arrival.port, place, out);
                Ok(())
            }
            FrameSlot::Gap => Err(DropReason::Gap),
            FrameSlot::TooLong => Err(DropReason::TooLong),
            FrameSlot::Forgotten => Err(DropReason::Forgotten),
        }
    }

    /// The Aggregation Processor: counts an arrival, and adds up when all are there (IV.D.1).
    fn count(&mut self, place: usize, out: &mut impl Outlet<H, P>) {
        self.counts[place] += 1;
        let early = u16::from(self.breaks(Mutation::AddsEarly));
        if self.counts[place] + early < self.ports.number() {
            return;
        }
        if !self.breaks(Mutation::CountKept) {
            self.counts[place] = 0;
        }
        // Only ports that take part have stored any.
        let elements = |branch: &mut Branch<H, P>| branch.stored[place].as_mut()?.elements.take();
        let terms = self.branches.iter_mut().map(elements).collect();
        let Some(sum) = sum_in_pairs(terms, self.reduction) else { return };
        self.sums[place] = Some(sum);
        for port in self.ports.ports() {
            let branch = &mut self.branches[usize::from(port)];
            // With a broken rule there may be none.
            if branch.flows.is_pending(place) {
                branch.flows.finish(place);
            }
            self.send(Reason::Sum, port, place, out);
        }
    }

    /// The Aggregation Output Arbiter: what is stored for a port, with the sum (IV.D.2).
    fn send(&self, reason: Reason, port: u16, place: usize, out: &mut impl Outlet<H, P>) {
        let of = if self.breaks(Mutation::ResendsNextPlace) && reason == Reason::Repeat {
            (place + 1) % self.shape.places()
        } else {
            place
        };
        let (Some(stored), Some(sum)) = (&self.branches[usize::from(port)].stored[place], &self.sums[of])
        else {
            return;
        };
        let to = if self.breaks(Mutation::AnswersArrival) { port } else { stored.destination };
        let whole = sum.view(0..sum.length());
        match &stored.head {
            None => out.send(reason, to, &stored.header, whole),
            Some(head) => {
                // A First's data is shorter by its header.
                let mut payload = P::zeroed(self.shape.payload);
                payload.write(0, head.view(0..head.length()));
                let room = self.shape.payload - head.length();
                payload.write(head.length(), P::subview(whole, 0..room.min(sum.length())));
                out.send(reason, to, &stored.header, payload.view(0..self.shape.payload));
            }
        }
    }

    /// Bytes of the payload and result buffers: 9 kB a place with 8 ports (III.A).
    pub fn buffer_bytes(&self) -> usize {
        (self.branches.len() + 1) * self.shape.places() * self.shape.payload
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        for branch in &self.branches {
            branch.flows.assert_invariants();
        }
        if self.mutation.is_some() {
            return;
        }
        let number = self.ports.number();
        assert!(self.counts.iter().all(|&count| count < number), "a place with all arrivals has a sum");
    }
}

/// The sum of what is there, port by port: ((0+1)+(2+3))+((4+5)+(6+7)) and so on. What is not there is left out.
fn sum_in_pairs<P: Payload>(mut terms: Vec<Option<P>>, reduction: Reduction) -> Option<P> {
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut left = terms.into_iter();
        while let Some(first) = left.next() {
            pairs.push(match (first, left.next().flatten()) {
                (Some(mut sum), Some(term)) => {
                    sum.reduce(0, term.view(0..term.length()), reduction);
                    Some(sum)
                }
                (sum, term) => sum.or(term),
            });
        }
        terms = pairs;
    }
    terms.pop().flatten()
}
