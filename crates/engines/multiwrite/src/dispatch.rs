//! Dispatch over MultiWrite (MultiWrite 3.2, 6.3): each rank writes each of its tokens once to every rank that hosts one of the
//! token's experts, whoever that is for this token.
//!
//! A dispatch is an AllGather of which a rank gets the tokens that are for it, and no others. The input is a rank's tokens one after the
//! other; the output has a place for every token that any rank may have, by source and then by number, and what is not for this rank is left
//! as it was. So no place depends on what others send. What a token is (its values, its experts, their weights) is the owner's business:
//! here it is bytes of one length, and the ranks that it is for.
//!
//! The table decides what crosses the links between servers: where it leads to all ranks of another server by way of one of them, a token
//! goes there once and is passed on there; where it leads to each by itself, this is the AllToAllV of unicast writes.
//!
//! Each rank first announces to every other how many tokens it has for it. Whoever has all that was announced tells the others, and a rank
//! is done when all have told: then nothing is on its way any more, and the window's slots are free.

use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RequestError, Slice, Verbs,
    WorkId,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::multiwrite::{Destinations, IMMEDIATE_RANKS};

use crate::barrier::{ALL_HERE, BARRIER, Barrier, tell};
use crate::state::State;
use crate::writer::{Delivery, RELAY, Senseless, Target, Write, Writer, WriterConfig};

/// Fires when everything is prepared for relays.
const PREPARED: Alarm = Alarm(1);

/// The name of announcements. Nobody waits for their end: what a barrier tells follows them on the same queue pairs.
const ANNOUNCEMENT: WorkId = WorkId(u64::MAX - 1);

/// What a rank is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DispatchConfig {
    /// The node's part in all writes. The window has a slot for each token that a rank may have, as long as a token.
    pub writer: WriterConfig,
    /// By token of this rank: the ranks that host one of its experts.
    pub routes: Vec<Destinations>,
    /// What it takes to prepare relaying, before anything is sent. Nothing, but in simulations of devices that take it.
    pub preparation: Duration,
}

/// Why a set-up is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DispatchConfigError {
    /// The bitmap would have to lie before each token.
    #[error(
        "expected at most {IMMEDIATE_RANKS} ranks, whose bitmap an immediate holds, found {found}; split the group"
    )]
    Ranks {
        /// Ranks in the table.
        found: u16,
    },
    /// Tokens without a byte.
    #[error(
        "expected tokens of a byte or more, found slots of none; make the window's slots as long as a token"
    )]
    EmptyToken,
    /// More tokens than slots.
    #[error(
        "expected at most {slots} tokens, found {found}; give the window more slots, or dispatch in parts"
    )]
    Tokens {
        /// Slots of a source.
        slots: usize,
        /// As given.
        found: usize,
    },
    /// A token for a rank that is not in the table, or for nobody.
    #[error(
        "expected one to {ranks} ranks for token {token}, found {found}; each of its experts lives on a rank"
    )]
    Route {
        /// Ranks in the table.
        ranks: u16,
        /// The token's number.
        token: usize,
        /// How many ranks there are for it, or the first that does not exist.
        found: u16,
    },
    /// What is announced and told goes from each to each.
    #[error("expected a queue pair and a way to rank {found}, found none; connect the group in full")]
    NoQueuePair {
        /// Who cannot be reached.
        found: u16,
    },
}

/// What has come from one source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Arrivals {
    /// How many tokens it has for this rank, once it has said so.
    announced: Option<usize>,
    count: usize,
    /// A bit for each slot.
    arrived: Vec<u64>,
}

impl Arrivals {
    fn new(slots: usize) -> Self {
        Self { announced: None, count: 0, arrived: alloc::vec![0; slots.div_ceil(64)] }
    }

    /// Notes a token; whether it is new and one of those announced.
    fn take(&mut self, slot: usize) -> bool {
        let (word, bit) = (&mut self.arrived[slot / 64], 1 << (slot % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.count += 1;
        self.announced.is_none_or(|announced| self.count <= announced)
    }

    /// Notes how many there will be; whether that makes sense.
    fn announce(&mut self, announced: usize, slots: usize) -> bool {
        let is_first = self.announced.is_none();
        self.announced = Some(announced);
        is_first && self.count <= announced && announced <= slots
    }

    fn is_whole(&self) -> bool {
        self.announced == Some(self.count)
    }

    fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.arrived.len() * 64).filter(|slot| self.arrived[slot / 64] & 1 << (slot % 64) != 0)
    }
}

/// How far a dispatch has come.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Progress {
    output: Slice,
    input: Slice,
    /// Messages of this rank's own that are not acknowledged.
    outstanding: usize,
    /// All tokens have been posted.
    is_posted: bool,
}

/// A rank that dispatches its tokens, takes those for its experts, and relays for others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dispatch {
    writer: Writer,
    routes: Vec<Destinations>,
    preparation: Duration,
    state: State<Progress>,
    /// By source: what has come of its tokens since this rank told last.
    arrivals: Vec<Arrivals>,
    barrier: Barrier,
}

impl Dispatch {
    /// A rank before its first dispatch.
    ///
    /// # Errors
    /// If the tokens, the table or the window make no sense.
    pub fn new(config: DispatchConfig) -> Result<Self, DispatchConfigError> {
        let DispatchConfig { writer, routes, preparation } = config;
        let (table, window) = (&writer.table, writer.window);
        let (me, ranks, slots) = (table.rank().0, table.ranks(), window.slots());
        if ranks > IMMEDIATE_RANKS {
            return Err(DispatchConfigError::Ranks { found: ranks });
        }
        if window.data == 0 {
            return Err(DispatchConfigError::EmptyToken);
        }
        if routes.len() > slots {
            return Err(DispatchConfigError::Tokens { slots, found: routes.len() });
        }
        for (token, route) in routes.iter().enumerate() {
            let found = if route.is_empty() { Some(0) } else { route.iter().find(|rank| *rank >= ranks) };
            if let Some(found) = found {
                return Err(DispatchConfigError::Route { ranks, token, found });
            }
        }
        let is_reached =
            |rank: u16| table.queue_pair(Rank(rank)).is_some() && table.next_hop(rank, 0).is_some();
        if let Some(found) = (0..ranks).find(|rank| *rank != me && !is_reached(*rank)) {
            return Err(DispatchConfigError::NoQueuePair { found });
        }
        Ok(Self {
            arrivals: alloc::vec![Arrivals::new(slots); usize::from(ranks)],
            barrier: Barrier::new((0..ranks).filter(|rank| *rank != me).map(Rank)),
            writer: Writer::new(writer),
            routes,
            preparation,
            state: State::Idle,
        })
    }

    fn me(&self) -> Rank {
        self.writer.table().rank()
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let me = self.me();
        (0..self.writer.table().ranks()).map(Rank).filter(move |rank| *rank != me)
    }

    fn check<P: Payload>(
        &self,
        request: &CollectiveRequest,
        verbs: &mut impl Verbs<P>,
    ) -> Result<(), RequestError> {
        let window = self.writer.window();
        let token = window.data;
        let places = usize::from(self.writer.table().ranks()) * window.slots();
        let buffers = [
            ("an input", self.routes.len() * token, request.input),
            ("an output", places * token, request.output),
        ];
        for (what, expected, slice) in buffers {
            if slice.length != expected || !verbs.memory().contains(slice) {
                return Err(RequestError::Length { what, expected, found: slice.length });
            }
        }
        if request.input.region == request.output.region {
            return Err(RequestError::SameRegion { region: request.input.region });
        }
        Ok(())
    }

    /// Where a token of `source` goes in `output`.
    fn place(&self, output: Slice, source: Rank, token: usize) -> Slice {
        let window = self.writer.window();
        let index = source.index() * window.slots() + token;
        Slice { offset: output.offset + index * window.data, length: window.data, ..output }
    }

    fn token(&self, input: Slice, token: usize) -> Slice {
        let length = self.writer.window().data;
        Slice { offset: input.offset + token * length, length, ..input }
    }

    /// Announces and writes this rank's tokens.
    fn post<P: Payload>(&mut self, verbs: &mut impl Verbs<P>) {
        let State::Running(Progress { input, is_posted: false, .. }) = self.state else { return };
        for rank in self.others() {
            let count = self.routes.iter().filter(|route| route.contains(rank.0)).count();
            let count = u32::try_from(count).expect("a window in memory has fewer slots");
            tell(rank, ANNOUNCEMENT, count, self.writer.table(), verbs);
        }
        let me = self.me();
        let mut outstanding = 0;
        for slot in 0..self.routes.len() {
            let others = self.routes[slot].iter().map(Rank).filter(|rank| *rank != me);
            let targets: Vec<Target> = others.map(|rank| Target { rank, slot }).collect();
            if targets.is_empty() {
                continue;
            }
            let write = Write { targets: &targets, source: self.token(input, slot), way: 0 };
            let posted = self.writer.write(&write, verbs);
            outstanding += posted.expect("the table, the window and the input were checked");
        }
        let State::Running(progress) = &mut self.state else { return };
        progress.outstanding += outstanding;
        progress.is_posted = true;
    }

    /// Takes a token that has arrived; whether it makes sense. One of the next dispatch waits in the window.
    fn deliver<P: Payload>(&mut self, delivery: Delivery, verbs: &mut impl Verbs<P>) -> bool {
        let Delivery { source, slot, data } = delivery;
        if data.length != self.writer.window().data || !self.arrivals[source.index()].take(slot) {
            return false;
        }
        if let State::Running(Progress { output, .. }) = self.state
            && !self.barrier.has_told()
        {
            verbs.memory().copy(self.place(output, source, slot), data);
        }
        true
    }

    /// Takes what a rank announces or tells; whether it makes sense.
    fn hear(&mut self, from: Rank, immediate: u32) -> bool {
        if immediate != ALL_HERE {
            let slots = self.writer.window().slots();
            return self.arrivals[from.index()].announce(immediate as usize, slots);
        }
        self.barrier.hear(from)
    }

    /// Tells the others when this rank has everything; the outcome when all have, and all that was sent is acknowledged.
    fn proceed<P: Payload>(&mut self, verbs: &mut impl Verbs<P>) -> Option<Outcome> {
        let State::Running(Progress { outstanding, is_posted, .. }) = self.state else { return None };
        let has_everything = self.others().all(|rank| self.arrivals[rank.index()].is_whole());
        if has_everything && is_posted && !self.barrier.has_told() {
            self.barrier.tell(self.writer.table(), verbs);
            let slots = self.writer.window().slots();
            self.arrivals.fill(Arrivals::new(slots));
        }
        if outstanding == 0 && self.barrier.pass() {
            self.state = State::Idle;
            return Some(Outcome::Done);
        }
        None
    }
}

impl<P: Payload> Program<P> for Dispatch {
    fn initialise(&mut self, verbs: &mut impl Verbs<P>) {
        self.writer.initialise(verbs);
    }

    /// # Errors
    /// If another collective is asked for, beside what all refuse.
    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut impl Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        self.state.check_idle()?;
        if request.collective != Collective::Dispatch {
            return Err(RequestError::NotOffered { found: request.collective });
        }
        self.check(&request, verbs)?;
        let CollectiveRequest { input, output, .. } = request;
        let (me, window) = (self.me(), self.writer.window());
        for (token, _) in self.routes.iter().enumerate().filter(|(_, route)| route.contains(me.0)) {
            verbs.memory().copy(self.place(output, me, token), self.token(input, token));
        }
        for source in self.others() {
            for slot in self.arrivals[source.index()].slots() {
                let data = window.data(source, slot, 0..window.data);
                verbs.memory().copy(self.place(output, source, slot), data);
            }
        }
        self.state = State::Running(Progress { output, input, outstanding: 0, is_posted: false });
        if self.preparation > Duration::ZERO {
            verbs.set_alarm(PREPARED, self.preparation);
        } else {
            self.post(verbs);
        }
        Ok(self.proceed(verbs))
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut impl Verbs<P>,
    ) -> Option<Outcome> {
        if self.state.has_failed() {
            return None;
        }
        let makes_sense = match completion {
            Completion::Sent { id: ANNOUNCEMENT } => true,
            Completion::Sent { id: BARRIER } => {
                self.barrier.handle_sent();
                true
            }
            Completion::Sent { id } => {
                let is_own = self.writer.handle_sent(id, verbs);
                if let (true, State::Running(progress)) = (is_own, &mut self.state) {
                    progress.outstanding -= 1;
                }
                true
            }
            Completion::Written { target, immediate, .. } => {
                match self.writer.handle_written(qp, target, immediate, verbs) {
                    Ok(Some(delivery)) => self.deliver(delivery, verbs),
                    Ok(None) => true,
                    Err(_) => false,
                }
            }
            Completion::Received { length: 0, immediate: Some(immediate), .. } => {
                self.writer.receive(qp, verbs);
                self.hear(self.writer.table().neighbour(qp), immediate)
            }
            Completion::Received { .. } => false,
            Completion::Failed { failure, .. } => return self.state.fail(qp, failure),
        };
        if makes_sense { self.proceed(verbs) } else { self.state.fail(qp, Failure::InvalidRequest) }
    }

    fn handle_alarm(&mut self, _: Instant, alarm: Alarm, verbs: &mut impl Verbs<P>) -> Option<Outcome> {
        match (&self.state, alarm) {
            (State::Failed, _) => None,
            (_, RELAY) => match self.writer.relay(verbs) {
                Ok(()) => None,
                Err(Senseless { peer }) => {
                    let qp = self.writer.table().queue_pair(peer).expect("neighbours are connected");
                    self.state.fail(qp, Failure::InvalidRequest)
                }
            },
            (_, PREPARED) => {
                self.post(verbs);
                self.proceed(verbs)
            }
            _ => None,
        }
    }

    fn assert_invariants(&self) {
        if let State::Running(progress) = &self.state {
            let has_told = self.barrier.has_told();
            assert!(progress.is_posted || !has_told, "a rank that has sent nothing is not done");
        }
        self.writer.assert_invariants();
        self.barrier.assert_invariants();
        for arrivals in &self.arrivals {
            let bits: u32 = arrivals.arrived.iter().map(|word| word.count_ones()).sum();
            assert_eq!(bits as usize, arrivals.count, "each token that has arrived is counted once");
        }
    }
}
