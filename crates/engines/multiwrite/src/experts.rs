//! Expert parallelism over MultiWrite: a rank that dispatches the tokens of its batches to the ranks of their experts, whoever that is for
//! each token, takes those of others, relays, and brings back what became of them (MultiWrite 2.3.2).
//!
//! A dispatch is an AllGather of which a rank gets the tokens that are for it, and no others. The input is a rank's tokens one after the
//! other; the output has a place for every token that any rank may have, by source and then by number, and what is not for this rank is left
//! as it was. So no place depends on what others send. A combine is its way back: the input has, in the same places, what this rank has made
//! of the tokens that it got, and the output the sums for its own. What a token is (its values, its experts, their weights) is the
//! owner's business: here it is bytes of one length, and the ranks that it is for.
//!
//! Whom tokens are for is said before each dispatch ([`Program::route`]), for no two batches are alike. A combine is for the last one.
//!
//! Each rank first announces to every other what follows, and how much of it; or the application says with the routing how much comes from
//! whom, as AllToAllV's callers do. Whoever has all of it tells the others, and a rank is done when all have told.
//!
//! Nobody is done who was told wrong numbers. Without announcements the word that a rank has everything differs by the number of tokens that it
//! has sent, so that a rank that expected fewer of it sees that. One that expects more waits, and so does everybody with it: after
//! `patience` all who wait say what they have sent, once a collective, and whoever expects another number ends the group.

use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank, Routes};
use quincunx_engine::routing::Routed;
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RequestError, Verbs, WorkId,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::multiwrite::Destinations;

use crate::arrivals::{Announcement, Arrivals, Round};
use crate::barrier::{ALL_HERE, BARRIER, Barrier, DIGEST_BITS, tell};
use crate::batch::{Batch, Places};
use crate::combine::Combine;
use crate::dispatch::Dispatch;
use crate::mutation::Mutation;
use crate::relaying::{PREPARED, Relaying, WAITED};
use crate::state::State;
use crate::writer::{Delivery, Writer, WriterConfig};

/// The name of announcements. Nobody waits for their end: what a barrier tells follows them on the same queue pairs.
const ANNOUNCEMENT: WorkId = WorkId(u64::MAX - 1);

/// What a rank is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExpertsConfig {
    /// The node's part in all writes. The window has a slot for each token that a rank may have in a batch, as long as the longest. Dispatches
    /// take the table's usual ways, combines the second ones, where there are any.
    pub writer: WriterConfig,
    /// What it takes to prepare relaying before anything is dispatched. Nothing, but in simulations of devices that take it.
    pub preparation: Duration,
    /// Whether ranks announce how much follows.
    pub announces: bool,
    /// Where they do not: after how long a rank that waits says what it has sent; zero: never, and one that expects too much waits for ever.
    pub patience: Duration,
}

/// Why a set-up is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExpertsConfigError {
    /// Tokens without a byte.
    #[error(
        "expected tokens of a byte or more, found slots of none; make the window's slots as long as a token"
    )]
    EmptyToken,
    /// What is announced and told goes from each to each.
    #[error("expected a queue pair and a way to rank {found}, found none; connect the group in full")]
    NoQueuePair {
        /// Who cannot be reached.
        found: u16,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Task {
    Dispatch(Dispatch),
    Combine(Combine),
}

/// How far a collective has come.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Progress {
    task: Task,
    /// What ranks must agree on.
    digest: u32,
    /// Bytes of a token, or of what has become of it.
    length: usize,
    /// Messages of this rank's own that are not acknowledged.
    outstanding: usize,
    /// All of them have been posted.
    is_posted: bool,
}

/// A rank that dispatches its tokens, takes those for its experts, relays for others, and combines.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Experts {
    writer: Writer,
    preparation: Duration,
    announces: bool,
    patience: Duration,
    /// The next batch, once it is said whom its tokens are for.
    next: Option<Batch>,
    /// The last one, or that on its way.
    batch: Option<Batch>,
    state: State<Progress>,
    /// By source: what has come since this rank told last.
    arrivals: Vec<Arrivals>,
    barrier: Barrier,
    /// Which collective this is, or the next one; it counts where nothing is announced.
    round: Round,
    /// By source: what it has said last that it has sent, where nothing is announced.
    said: Vec<Option<(Announcement, Round)>>,
    /// A rank that has sent another number of tokens than it should.
    miscounted: Option<Rank>,
}

impl Experts {
    /// A rank before its first batch.
    ///
    /// # Errors
    /// If the window has no room for a token, or the table has no way to a rank.
    pub fn new(config: ExpertsConfig) -> Result<Self, ExpertsConfigError> {
        let ExpertsConfig { writer, preparation, announces, patience } = config;
        let (table, me) = (&writer.table, writer.table.rank());
        if writer.window.data == 0 {
            return Err(ExpertsConfigError::EmptyToken);
        }
        let others = || (0..table.ranks()).map(Rank).filter(move |rank| *rank != me);
        let is_reached = |rank: Rank| table.queue_pair(rank).is_some() && table.next_hop(rank.0, 0).is_some();
        if let Some(found) = others().find(|rank| !is_reached(*rank)) {
            return Err(ExpertsConfigError::NoQueuePair { found: found.0 });
        }
        let said = alloc::vec![None; if announces { 0 } else { usize::from(table.ranks()) }];
        Ok(Self {
            arrivals: alloc::vec![Arrivals::default(); usize::from(table.ranks())],
            barrier: Barrier::new(others()),
            writer: Writer::new(writer),
            preparation,
            announces,
            patience,
            next: None,
            batch: None,
            state: State::Idle,
            round: Round::default(),
            said,
            miscounted: None,
        })
    }

    /// Breaks a rule from here on, so that the checker can show that it would notice. To be called before the first collective.
    pub fn break_rule(&mut self, mutation: Mutation) {
        self.writer.break_rule(mutation);
        if mutation == Mutation::NoBarrier {
            self.barrier = Barrier::new(core::iter::empty());
        }
        if mutation == Mutation::IgnoresDisagreement {
            self.barrier.ignore_digests();
        }
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let me = self.writer.table().rank();
        (0..self.writer.table().ranks()).map(Rank).filter(move |rank| *rank != me)
    }

    /// What a request asks for, if it is sound.
    fn progress<P: Payload>(
        &self,
        request: &CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Progress, RequestError> {
        let CollectiveRequest { collective, reduction, input, output, .. } = *request;
        let (input, output) = (("an input", input), ("an output", output));
        let (tokens, own, all) = match collective {
            Collective::Dispatch => (self.next.as_ref(), input, output),
            Collective::Combine => (self.batch.as_ref(), output, input),
            found => return Err(RequestError::NotOffered { found }),
        };
        let tokens = tokens.ok_or(RequestError::NoRouting)?.away.len();
        self.writer.check_contents::<P>()?;
        let window = self.writer.window();
        let count = usize::from(self.writer.table().ranks()) * window.slots();
        let length = (all.1.length / count).clamp(1, window.data);
        for ((what, slice), expected) in [(own, tokens * length), (all, count * length)] {
            if slice.length != expected || !verbs.memory().contains(slice) {
                return Err(RequestError::Length { what, expected, found: slice.length });
            }
        }
        if request.input.region == request.output.region && tokens > 0 {
            return Err(RequestError::SameRegion { region: request.input.region });
        }
        let own = Places { buffer: own.1, each: tokens, length };
        let all = Places { buffer: all.1, each: window.slots(), length };
        let task = if collective == Collective::Dispatch {
            Task::Dispatch(Dispatch { tokens: own, places: all })
        } else {
            let element = reduction.data_type.size();
            if !length.is_multiple_of(element) {
                return Err(RequestError::Element { element, found: length });
            }
            Task::Combine(Combine::new(all, own, reduction))
        };
        // How many tokens there are is each rank's business.
        let digest = request.digest(length, DIGEST_BITS);
        Ok(Progress { task, digest, length, outstanding: 0, is_posted: false })
    }

    /// Gives a token that has arrived to the running collective, if any. Returns whether the protocol allows it.
    fn take<P: Payload>(&mut self, delivery: Delivery, verbs: &mut dyn Verbs<P>) -> bool {
        let (State::Running(progress), Some(batch)) = (&mut self.state, &self.batch) else { return true };
        if delivery.data.length != progress.length {
            return false;
        }
        match &mut progress.task {
            Task::Dispatch(dispatch) => {
                dispatch.take(delivery, verbs);
                true
            }
            Task::Combine(combine) => combine.take(delivery, batch, &self.writer, verbs),
        }
    }

    /// Takes an announcement or the word of a barrier from a rank. Returns whether the protocol allows it.
    fn hear(&mut self, from: Rank, immediate: u32) -> bool {
        if immediate & ALL_HERE != 0 {
            return self.barrier.hear(from, immediate);
        }
        let (announced, round) = Announcement::from_immediate(immediate);
        if !self.announces {
            return self.hear_late(from, announced, round);
        }
        announced.count <= self.writer.window().slots()
            && self.arrivals[from.index()].announce(announced)
            && (self.barrier.has_told() || self.is_expected(from))
    }

    /// Takes what a rank has sent, which it says because it has waited long. Returns whether the protocol allows it.
    fn hear_late(&mut self, from: Rank, announced: Announcement, round: Round) -> bool {
        match round.ahead_of(self.round) {
            // This one, or the next.
            0 | 1 => {
                self.said[from.index()] = Some((announced, round));
                self.compare(from);
                true
            }
            // The one before: it is over.
            3 => true,
            _ => false,
        }
    }

    /// Compares what a rank says that it has sent of this collective with what this rank was told to expect.
    fn compare(&mut self, from: Rank) {
        let Some((announced, _)) = self.said[from.index()].filter(|(_, round)| *round == self.round) else {
            return;
        };
        let is_running = matches!(self.state, State::Running(_)) && !self.barrier.has_told();
        if is_running && self.arrivals[from.index()].announced.is_some_and(|expected| expected != announced) {
            self.miscounted.get_or_insert(from);
        }
    }

    /// What this rank has for another one.
    fn announcement(&self, rank: Rank) -> Option<Announcement> {
        let (State::Running(progress), Some(batch)) = (&self.state, &self.batch) else { return None };
        Some(match progress.task {
            Task::Dispatch(_) => Announcement { combines: false, count: Dispatch::count(batch, rank) },
            Task::Combine(_) => Announcement { combines: true, count: Combine::count(batch, rank) },
        })
    }

    /// Tells the others what this rank has for them.
    fn announce<P: Payload>(&self, verbs: &mut dyn Verbs<P>) {
        for rank in self.others() {
            if let Some(announcement) = self.announcement(rank) {
                tell(rank, ANNOUNCEMENT, announcement.to_immediate(self.round), self.writer.table(), verbs);
            }
        }
    }

    /// Whether what a rank has announced, if it has, goes with the collective that runs, if one does.
    fn is_expected(&self, from: Rank) -> bool {
        let (State::Running(progress), Some(batch)) = (&self.state, &self.batch) else { return true };
        self.arrivals[from.index()].announced.is_none_or(|announced| match progress.task {
            Task::Dispatch(_) => !announced.combines,
            Task::Combine(_) => announced.combines && announced.count == Dispatch::count(batch, from),
        })
    }

    /// Notes what comes from a rank that does not announce it. Returns whether that agrees with what has come.
    fn announce_for(&mut self, source: Rank) -> bool {
        let (State::Running(progress), Some(batch)) = (&self.state, &self.batch) else { return true };
        let announcement = match progress.task {
            Task::Dispatch(_) => Announcement { combines: false, count: batch.incoming[source.index()] },
            Task::Combine(_) => Announcement { combines: true, count: Dispatch::count(batch, source) },
        };
        self.arrivals[source.index()].announce(announcement)
    }

    /// Begins with this rank's own tokens and those that have arrived early.
    ///
    /// # Errors
    /// The source whose early tokens break the protocol, or are more than this rank was told.
    fn begin<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) -> Result<(), (Rank, Failure)> {
        let (State::Running(progress), Some(batch)) = (&mut self.state, &self.batch) else { return Ok(()) };
        let length = progress.length;
        match &mut progress.task {
            Task::Dispatch(dispatch) => dispatch.begin(batch, self.writer.table().rank(), verbs),
            Task::Combine(combine) => combine.begin(batch, &self.writer, verbs),
        }
        for source in self.others() {
            if !self.announces && !self.announce_for(source) {
                return Err((source, Failure::Miscounted));
            }
            let arrivals = &self.arrivals[source.index()];
            if !arrivals.is_of(length) || !self.is_expected(source) {
                return Err((source, Failure::InvalidRequest));
            }
            let slots: Vec<usize> = arrivals.slots.iter().collect();
            for slot in slots {
                let data = self.writer.window().data(source, slot, 0..length);
                if !self.take(Delivery { source, slot, data }, verbs) {
                    return Err((source, Failure::InvalidRequest));
                }
            }
            if !self.announces {
                self.compare(source);
            }
        }
        Ok(())
    }
}

impl Routed for Experts {
    fn route(&mut self, routes: &Routes) -> Result<(), RequestError> {
        let (ranks, most) = (self.writer.table().ranks(), self.writer.window().slots());
        if routes.tokens() > most {
            return Err(RequestError::Tokens { most, found: routes.tokens() });
        }
        for (token, of) in routes.iter().enumerate() {
            if of.is_empty() {
                return Err(RequestError::NoRank { token });
            }
            if let Some(found) = of.iter().find(|rank| rank.0 >= ranks) {
                return Err(RequestError::NoSuchRank { ranks, token, found: found.0 });
            }
        }
        let (incoming, all) = (routes.incoming(), usize::from(ranks));
        if !self.announces && incoming.len() != all {
            return Err(RequestError::NoIncoming { ranks, found: incoming.len() });
        }
        if let Some(&found) = incoming.iter().find(|&&count| count > most) {
            return Err(RequestError::Tokens { most, found });
        }
        let destinations = |of: &[Rank]| {
            let mut destinations = Destinations::NONE;
            of.iter().for_each(|rank| destinations.insert(rank.0));
            destinations
        };
        self.next = Some(Batch {
            away: routes.iter().map(destinations).collect(),
            incoming: incoming.to_vec(),
            here: Vec::new(),
        });
        Ok(())
    }
}

impl<P: Payload> Relaying<P> for Experts {
    fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    fn has_failed(&self) -> bool {
        self.state.has_failed()
    }

    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Option<Outcome> {
        self.state.fail(qp, failure)
    }

    fn handle_sent(&mut self, id: WorkId, verbs: &mut dyn Verbs<P>) {
        match id {
            ANNOUNCEMENT => {}
            BARRIER => self.barrier.handle_sent(),
            _ => {
                let is_own = self.writer.handle_sent(id, verbs);
                if let (true, State::Running(progress)) = (is_own, &mut self.state) {
                    progress.outstanding -= 1;
                }
            }
        }
    }

    /// Takes a token that has arrived. Returns whether the protocol allows it. Tokens of the next collective wait in the window.
    fn deliver(&mut self, delivery: Delivery, verbs: &mut dyn Verbs<P>) -> bool {
        let arrivals = &mut self.arrivals[delivery.source.index()];
        if !self.announces && arrivals.is_whole() {
            self.miscounted.get_or_insert(delivery.source);
            return true;
        }
        arrivals.take(delivery.slot, delivery.data.length)
            && (self.barrier.has_told() || self.take(delivery, verbs))
    }

    fn handle_message(&mut self, qp: QpIndex, immediate: u32, verbs: &mut dyn Verbs<P>) -> bool {
        self.writer.receive(qp, verbs);
        self.hear(self.writer.table().neighbour(qp), immediate)
    }

    /// Announces and writes this rank's tokens, or its results.
    fn post(&mut self, verbs: &mut dyn Verbs<P>) {
        if !matches!(&self.state, State::Running(progress) if !progress.is_posted) {
            return;
        }
        if self.announces {
            self.announce(verbs);
        } else if self.patience > Duration::ZERO {
            verbs.set_alarm(WAITED, self.patience);
        }
        let (State::Running(progress), Some(batch)) = (&mut self.state, &self.batch) else { return };
        progress.outstanding += match &progress.task {
            Task::Dispatch(dispatch) => dispatch.post(batch, &mut self.writer, verbs),
            Task::Combine(combine) => combine.post(batch, &mut self.writer, verbs),
        };
        progress.is_posted = true;
    }

    fn wait_long(&mut self, verbs: &mut dyn Verbs<P>) {
        if !self.announces && matches!(&self.state, State::Running(progress) if progress.is_posted) {
            self.announce(verbs);
        }
    }

    /// Tells the others when this rank has everything; the outcome when all have, and all that was sent is acknowledged.
    fn proceed(&mut self, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        if let Some(miscounted) = self.miscounted {
            let qp = self.writer.table().queue_pair(miscounted).expect("the group is connected in full");
            return self.state.fail(qp, Failure::Miscounted);
        }
        let (State::Running(progress), Some(batch)) = (&self.state, &mut self.batch) else { return None };
        let outstanding = progress.outstanding;
        let me = self.writer.table().rank().index();
        let mut others = self.arrivals.iter().enumerate().filter(|(rank, _)| *rank != me);
        if progress.is_posted && !self.barrier.has_told() && others.all(|(_, arrivals)| arrivals.is_whole()) {
            if self.announces {
                self.barrier.tell(progress.digest, self.writer.table(), verbs);
            } else {
                let between = |rank: Rank| match progress.task {
                    Task::Dispatch(_) => [Dispatch::count(batch, rank), batch.incoming[rank.index()]],
                    Task::Combine(_) => [Combine::count(batch, rank), Dispatch::count(batch, rank)],
                };
                self.barrier.tell_with(progress.digest, between, self.writer.table(), verbs);
            }
            // What arrives from now on is the next collective's.
            let slots = self.arrivals.iter_mut().map(|arrivals| core::mem::take(arrivals).slots);
            match progress.task {
                Task::Dispatch(_) => batch.here = slots.collect(),
                Task::Combine(_) => slots.for_each(drop),
            }
        }
        if let Some((dissenter, bits)) = self.barrier.dissenter() {
            let qp = self.writer.table().queue_pair(dissenter).expect("the group is connected in full");
            // Numbers of tokens are in the lowest bits of the digest alone.
            let counts = (self.writer.window().slots() + 1).next_power_of_two() as u32;
            let is_count = !self.announces && bits < counts;
            return self.state.fail(qp, if is_count { Failure::Miscounted } else { Failure::Disagreement });
        }
        if outstanding == 0 && self.barrier.pass() {
            self.state = State::Idle;
            if !self.announces {
                self.round = self.round.next();
                // What was said of rounds before is of no account, and its number comes again.
                self.said.iter_mut().for_each(|said| _ = said.take_if(|(_, round)| *round != self.round));
            }
            return Some(Outcome::Done);
        }
        None
    }
}

impl<P: Payload> Program<P> for Experts {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        self.writer.initialise(verbs);
    }

    fn as_routed(&mut self) -> Option<&mut dyn Routed> {
        Some(self)
    }

    /// # Errors
    /// If another collective is asked for, or nobody has said whom the tokens are for, beside what all refuse.
    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        self.state.check_idle()?;
        let progress = self.progress(&request, verbs)?;
        let mut preparation = Duration::ZERO;
        if matches!(progress.task, Task::Dispatch(_)) {
            self.batch = self.next.take();
            preparation = self.preparation;
        }
        self.state = State::Running(progress);
        if let Err((source, failure)) = self.begin(verbs) {
            let qp = self.writer.table().queue_pair(source).expect("the group is connected in full");
            return Ok(self.state.fail(qp, failure));
        }
        if preparation > Duration::ZERO {
            verbs.set_alarm(PREPARED, preparation);
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
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        self.relay_completion(qp, completion, verbs)
    }

    fn handle_alarm(&mut self, _: Instant, alarm: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        self.relay_alarm(alarm, verbs)
    }

    fn assert_invariants(&self) {
        if let State::Running(progress) = &self.state {
            let has_told = self.barrier.has_told();
            assert!(progress.is_posted || !has_told, "a rank that has sent nothing is not done");
            assert!(self.batch.is_some(), "what runs is for a batch");
        }
        self.writer.assert_invariants();
        self.barrier.assert_invariants();
        self.arrivals.iter().for_each(|arrivals| arrivals.slots.assert_invariants());
    }
}
