//! A rank's process: the rank that ships, and an application above it that runs rounds of collectives. Of a job the first rank asks for a
//! group, all run the same collectives there, each gives it back when it has run them all, and the first one asks for the next.
//! The application stands for `comm/src/worker.rs` and a program that uses it.

use crate::connection::{CallId, Reply, Request};
use crate::effects::{Effects, OwnedFrame, TimerName};
use crate::facts::Fact;
use crate::ports::WorldPorts;
use crate::round::Round;
use quincunx_collective::{GroupId, Numbers, Payload};
use quincunx_control::GroupRequest;
use quincunx_engine::Terms;
use quincunx_nodes::HostTimer;
use quincunx_runtime::{Ended, Finished, JoinedGroup, NewCall, Rank, RuntimeError};
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

/// Collectives of a group that are under way at once.
const DEPTH: usize = 2;

/// How long a collective may take, as `comm` has it where nobody says otherwise.
pub(crate) const LIMIT: Duration = Duration::from_secs(1800);

/// How often a rank that waits for something looks for what the manager says.
const LOOK: Duration = Duration::from_millis(20);

/// How long a group that is made may take to be there.
const EXPECTED: Duration = Duration::from_secs(5);

/// What a rank's application is to do.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    /// The job's number, and this rank in it.
    pub(crate) job: usize,
    pub(crate) rank: u16,
    pub(crate) wanted: GroupRequest,
    pub(crate) round: Rc<Round>,
    pub(crate) think: Duration,
    pub(crate) rest: Duration,
    /// It asks for no group any more.
    pub(crate) is_closing: bool,
    /// It makes no mistakes any more.
    pub(crate) is_calm: bool,
    /// So many more groups are asked for all the same.
    pub(crate) last_rounds: u32,
}

/// What runs in a group.
struct Run {
    /// The collective at which it calls something else than others.
    mistaken: Option<u64>,
    begun: u64,
    done: u64,
    /// Deadlines of what is under way.
    under_way: VecDeque<Instant>,
    /// When the next one was called, if it has not begun.
    called: Option<Instant>,
    depth: usize,
    not_before: Instant,
    renew_at: Option<Instant>,
}

pub(crate) struct RankProcess {
    rank: Rank<WorldPorts>,
    pub(crate) application: Application,
    runs: BTreeMap<GroupId, Run>,
    asking: Option<CallId>,
    /// When the first rank asks next.
    next_ask: Instant,
    keys: u128,
    looks_at: Instant,
    /// A group that it has been given and is not in yet, and until when that is waited for.
    expects: Option<(GroupId, Instant)>,
}

impl RankProcess {
    pub(crate) fn new(ports: WorldPorts, application: Application, keys: u128, out: &mut Effects) -> Self {
        out.set(TimerName::Look, LOOK);
        Self {
            rank: Rank::on(ports),
            application,
            runs: BTreeMap::new(),
            asking: None,
            next_ask: out.now,
            keys,
            looks_at: Instant::ZERO,
            expects: None,
        }
    }

    fn ports(&mut self) -> &mut WorldPorts {
        self.rank.ports_mut()
    }

    pub(crate) fn client(&mut self) -> &mut crate::client::Client {
        &mut self.ports().client
    }

    /// Groups that it is in, as the rank and its agent see it.
    pub(crate) fn held(&mut self) -> (usize, usize) {
        (self.rank.groups().count(), self.ports().client.agent().held().len())
    }

    pub(crate) fn take_frame(&mut self, frame: &OwnedFrame, out: &mut Effects) {
        let now = out.now;
        self.ports().advance(now);
        self.ports().take_frame(frame);
        self.turn(out);
    }

    pub(crate) fn expire(&mut self, timer: HostTimer, out: &mut Effects) {
        let now = out.now;
        self.ports().advance(now);
        self.ports().expire(timer);
        self.turn(out);
    }

    /// As `Worker::turns`, once.
    pub(crate) fn turn(&mut self, out: &mut Effects) {
        let now = out.now;
        self.ports().advance(now);
        match self.try_turn(out) {
            Ok(()) => {}
            Err(error) => out.end(error.to_string()),
        }
        self.ports().finish(out);
        // Of calls that were given up while others were made.
        self.take_answers(out);
    }

    fn try_turn(&mut self, out: &mut Effects) -> Result<(), RuntimeError> {
        self.begin_all(out);
        for ended in self.rank.step(Duration::ZERO)? {
            self.hear(ended, out);
        }
        if out.now >= self.looks_at {
            self.look(out)?;
        }
        self.begin_all(out);
        Ok(())
    }

    /// Looks for what the manager has said, now.
    pub(crate) fn look_now(&mut self, out: &mut Effects) {
        self.looks_at = Instant::ZERO;
        self.turn(out);
    }

    fn look(&mut self, out: &mut Effects) -> Result<(), RuntimeError> {
        for ended in self.rank.look()? {
            self.hear(ended, out);
        }
        match self.rank.take_ready() {
            Ok(ready) => ready.iter().for_each(|group| self.join(group, out)),
            Err(error) => out.fact(Fact::Met(if error.to_string().is_empty() {
                ""
            } else {
                "rank: group lost before it was ready"
            })),
        }
        for recreation in self.rank.take_recreations() {
            out.fact(Fact::Recreated {
                group: recreation.group,
                rank: self.application.rank,
                first: recreation.first,
                repeats: recreation.repeats,
                reason: recreation.failure.to_string(),
            });
        }
        self.end_late(out);
        let now = out.now;
        self.expects.take_if(|(_, until)| now >= *until);
        self.ask(out);
        self.renew(out);
        let is_busy = self.runs.values().any(|run| !run.under_way.is_empty() || run.called.is_some());
        let waits = if is_busy || !self.rank.ports().client.is_attached() { LOOK } else { LOOK * 5 };
        self.looks_at = out.now + waits;
        out.set(TimerName::Look, waits);
        Ok(())
    }

    fn join(&mut self, group: &JoinedGroup, out: &mut Effects) {
        let wants = self.application.round.length();
        let mistaken = self.application.round.mistaken(group.id, group.rank.0);
        let mistaken = mistaken.filter(|_| !self.application.is_calm);
        let (job, rank) = (self.application.job, group.rank.0);
        out.fact(Fact::Joined { job, group: group.id, rank, wants, mistaken });
        let renew_at = self.application.wanted.lease.map(|lease| out.now + lease / 3);
        let not_before = out.now + out.draw_time(self.application.think);
        let run = Run {
            mistaken,
            begun: 0,
            done: 0,
            under_way: VecDeque::new(),
            called: None,
            depth: DEPTH,
            not_before,
            renew_at,
        };
        self.runs.insert(group.id, run);
        self.expects.take_if(|(expected, _)| *expected == group.id);
        out.set(TimerName::Application, Duration::ZERO);
    }

    /// Begins what is due in all groups.
    fn begin_all(&mut self, out: &mut Effects) {
        let mut next = self.runs.keys().next().copied();
        while let Some(group) = next {
            while self.begin_next(group, out) {}
            next =
                self.runs.range((Bound::Excluded(group), Bound::Unbounded)).next().map(|(group, _)| *group);
        }
    }

    fn begin_next(&mut self, group: GroupId, out: &mut Effects) -> bool {
        let rank = self.application.rank;
        let Some(run) = self.runs.get_mut(&group) else { return false };
        if run.under_way.len() >= run.depth || run.begun >= self.application.round.length() {
            return false;
        }
        if out.now < run.not_before {
            out.set(TimerName::Application, run.not_before.since(out.now));
            return false;
        }
        let called = *run.called.get_or_insert(out.now);
        if self.rank.is_in_doubt(group) {
            return false;
        }
        let round = Rc::clone(&self.application.round);
        let number = run.begun + 1;
        let mistaken = run.mistaken.filter(|mistaken| *mistaken == number);
        let (call, input) = match mistaken.and_then(|_| round.mistaken_call(group, number)) {
            Some(call) => (call, round.drawn(&call, group, number, rank)),
            None => (round.call(group, number), round.input(group, number, rank)),
        };
        let output = Numbers::zeroed(round.output_length(&call, rank));
        let begun =
            self.rank.begin(group, call.collective, call.reduction, Terms::WHOLE, Finished { input, output });
        match begun {
            Ok(()) => {
                let at = quincunx_runtime::RankPorts::now(self.rank.ports());
                let reduction = (call.reduction.op.into(), call.reduction.data_type);
                let bytes = Round::told_bytes(&call);
                let told = NewCall { collective: call.collective, reduction, bytes, site: None, called: at };
                self.rank.note_call(group, told);
                let run = self.runs.get_mut(&group).expect("it has just been there");
                run.begun += 1;
                run.called = None;
                run.under_way.push_back(called + LIMIT);
                true
            }
            Err(RuntimeError::Rejected(_)) if !run.under_way.is_empty() => {
                // The design takes no more than these at once.
                run.depth = run.under_way.len();
                false
            }
            Err(error) => {
                self.end(group, &error, false, out);
                false
            }
        }
    }

    fn hear(&mut self, ended: Ended, out: &mut Effects) {
        match ended {
            Ended::Collective { group, buffers } => self.finish_one(group, &buffers, out),
            Ended::Group { group, error } => self.end(group, &error, false, out),
            Ended::Write { .. } => {}
        }
    }

    fn finish_one(&mut self, group: GroupId, buffers: &Finished, out: &mut Effects) {
        let rank = self.application.rank;
        let Some(run) = self.runs.get_mut(&group) else { return };
        run.under_way.pop_front();
        run.done += 1;
        let pause = self.application.round.pause(group, run.done);
        run.not_before = run.not_before.max(out.now + pause + out.draw_time(self.application.think));
        // Of what was called by mistake there is no right result.
        let wrong = match run.mistaken == Some(run.done) {
            true => 0,
            false => self.application.round.wrong(group, run.done, rank, &buffers.output),
        };
        out.fact(Fact::Delivered { group, rank, number: run.done, wrong });
        self.rank.note_end(group);
        if self.runs[&group].done == self.application.round.length() {
            self.runs.remove(&group);
            self.rank.release(group);
            out.fact(Fact::Released { group, rank });
            self.next_ask = out.now + out.draw_time(self.application.rest);
        }
        out.set(TimerName::Application, Duration::ZERO);
    }

    fn end(&mut self, group: GroupId, error: &RuntimeError, is_late: bool, out: &mut Effects) {
        if self.runs.remove(&group).is_some() {
            let reason = error.to_string();
            out.fact(Fact::Ended { group, rank: self.application.rank, reason, is_late });
            // As who drops a group that is over.
            self.rank.release(group);
            self.next_ask = out.now + Duration::from_millis(200) + out.draw_time(Duration::from_millis(300));
        }
    }

    fn end_late(&mut self, out: &mut Effects) {
        let late = |run: &Run| {
            let first = run.under_way.front().copied().or(run.called.map(|called| called + LIMIT));
            first.is_some_and(|deadline| deadline <= out.now)
        };
        let groups: Vec<GroupId> =
            self.runs.iter().filter(|(_, run)| late(run)).map(|(group, _)| *group).collect();
        for group in groups {
            let error = RuntimeError::TimedOut { what: "the end of a collective".into(), limit: LIMIT };
            self.end(group, &error, true, out);
            self.rank.abandon(group);
        }
    }

    /// Whether the application is idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.asking.is_none() && self.expects.is_none()
    }

    /// The first rank asks for a group when it has none, and the manager has heard of its releases.
    fn ask(&mut self, out: &mut Effects) {
        let may = !self.application.is_closing || self.application.last_rounds > 0;
        let client = &self.rank.ports().client;
        let is_free = self.is_idle() && client.is_attached() && !client.has_releases();
        if self.application.rank != 0 || !may || !is_free || out.now < self.next_ask {
            return;
        }
        self.keys += 1;
        self.application.last_rounds = self.application.last_rounds.saturating_sub(1);
        let wanted = GroupRequest { key: Some(self.keys), ..self.application.wanted.clone() };
        out.fact(Fact::Asked { job: self.application.job });
        self.asking = Some(self.client().call(Request::Init(Box::new(wanted)), out));
    }

    /// What the manager has answered.
    pub(crate) fn take_answers(&mut self, out: &mut Effects) {
        let job = self.application.job;
        for answered in self.client().take_answers() {
            if self.asking != Some(answered.call) {
                continue;
            }
            self.asking = None;
            match answered.reply {
                Ok(Reply::Made(summary)) => {
                    let switches = summary.switches.iter().map(|held| held.node.clone()).collect();
                    let fallback = summary.fallback.as_ref().map(ToString::to_string);
                    out.fact(Fact::Made { job, group: summary.group, switches, fallback });
                    // It is joined when the node has heard that it is ready, if it has not been, and if it ever does.
                    if !self.runs.contains_key(&summary.group) {
                        self.expects = Some((summary.group, out.now + EXPECTED));
                    }
                }
                Ok(Reply::Refused(status)) => self.refused(status.text, out),
                Ok(Reply::Done) => self.refused("no group".to_owned(), out),
                Err(reason) => self.refused(reason.to_owned(), out),
            }
        }
    }

    fn refused(&mut self, reason: String, out: &mut Effects) {
        out.fact(Fact::NotMade { job: self.application.job, reason });
        if self.application.is_closing {
            self.application.last_rounds += 1;
        }
        self.next_ask = out.now + Duration::from_millis(300) + out.draw_time(Duration::from_millis(500));
    }

    /// The first rank says now and then that a group with a lease is still needed.
    fn renew(&mut self, out: &mut Effects) {
        if self.application.rank != 0 {
            return;
        }
        let Some(lease) = self.application.wanted.lease else { return };
        let due = |run: &Run| run.renew_at.is_some_and(|at| at <= out.now);
        let groups: Vec<GroupId> =
            self.runs.iter().filter(|(_, run)| due(run)).map(|(group, _)| *group).collect();
        for group in groups {
            if let Some(run) = self.runs.get_mut(&group) {
                run.renew_at = Some(out.now + lease / 3);
            }
            let call = self.client().call(Request::Renew(group), out);
            let _ = call;
        }
    }
}
