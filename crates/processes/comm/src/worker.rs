//! The thread that has the node: it answers the network, begins what it is asked for, and copies chunks between exchanges.

use crate::CommError;
use crate::counts::Counters;
use crate::handle::Promise;
use crate::job::{Chunk, Job, Spare};
use crate::notice::{self, Notice};
use crate::peers::{Peers, Receive, Send};
use crate::traffic::EndpointTraffic;
use quincunx_collective::{GroupId, Rank as RankNumber};
use quincunx_design::FabricKind;
use quincunx_runtime::{Ended, Finished, JoinedGroup, Rank, RuntimeError};
use quincunx_units::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// How long a node without anything under way sleeps at once. Shorter than what a node waits for in the kernel without being waked.
const IDLE: Duration = Duration::from_millis(5);

/// How often it looks for what the manager says.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// How long a node that closes waits for others to give groups back, and answers peers that still miss an answer of its.
const LINGER: Duration = Duration::from_millis(200);

/// Collectives of a group at once: one is exchanged while the next is copied.
const DEPTH: usize = 2;

/// What the application asks of the thread.
pub(crate) enum Command {
    /// To wait for a group: one by its number, or the first of its kind.
    Await { wanted: Wanted, deadline: Instant, answer: Sender<Result<JoinedGroup, CommError>> },
    /// A collective of a group.
    Run { group: GroupId, job: Job },
    /// A message.
    Send { group: GroupId, send: Send },
    /// A message that is waited for.
    Receive { group: GroupId, receive: Receive },
    /// What the node has counted.
    Count { answer: Sender<EndpointTraffic> },
    /// To begin nothing more in a group, and to give it back when what is under way there has ended.
    Release { group: GroupId },
    /// To end what is under way in a group with an error, to give it back, and to answer then.
    Abort { group: GroupId, answer: Sender<()> },
    /// To answer when the manager is being told of all groups that were to be given back before and had nothing under way.
    Flush { answer: Sender<()> },
    /// To give all groups back, to answer peers until these are gone, and to end; after the deadline in any case. What is `left` of them after
    /// a while is told, as far as this rank is their first.
    Close { deadline: Instant, left: Option<Sender<Vec<GroupId>>> },
}

/// A group that is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    First(FabricKind),
    Numbered(GroupId),
}

/// What groups run that were made anew, for whoever asks.
pub(crate) type Designs = Arc<Mutex<BTreeMap<GroupId, String>>>;

type Waiting = (Wanted, Instant, Sender<Result<JoinedGroup, CommError>>);

/// A group's collectives.
struct GroupQueue {
    me: RankNumber,
    ranks: usize,
    /// The first of them are under way; a job stays until its last chunk has ended.
    jobs: VecDeque<Job>,
    /// Chunks under way, oldest first.
    under_way: VecDeque<Chunk>,
    depth: usize,
    notice: Notice,
    /// It is given back when it is idle.
    is_released: bool,
}

pub(crate) struct Worker {
    rank: Rank,
    commands: Receiver<Command>,
    counters: Arc<Counters>,
    designs: Designs,
    /// After how long it is told whom a group waits for.
    notice: std::time::Duration,
    queues: BTreeMap<GroupId, GroupQueue>,
    peers: BTreeMap<GroupId, Peers>,
    over: BTreeMap<GroupId, CommError>,
    ready: Vec<JoinedGroup>,
    waiting: Vec<Waiting>,
    spare: Spare,
    /// Groups that are to be given back, and have something under way.
    leaving: Vec<GroupId>,
    closing: Option<Closing>,
}

/// What is left to do before the end.
struct Closing {
    deadline: Instant,
    /// Until when the others may take their time, and who hears then what is left.
    linger: Instant,
    left: Option<Sender<Vec<GroupId>>>,
}

impl Worker {
    pub(crate) fn new(
        rank: Rank,
        commands: Receiver<Command>,
        (counters, designs): (Arc<Counters>, Designs),
        notice: std::time::Duration,
    ) -> Self {
        Self {
            rank,
            commands,
            counters,
            designs,
            notice,
            queues: BTreeMap::new(),
            peers: BTreeMap::new(),
            over: BTreeMap::new(),
            ready: Vec::new(),
            waiting: Vec::new(),
            spare: Spare::default(),
            leaving: Vec::new(),
            closing: None,
        }
    }

    /// Runs until it is closed, or the node or the manager is gone: then everything that is asked for ends with that error, which stays in
    /// `end` for whoever asks later.
    pub(crate) fn run(mut self, end: &OnceLock<CommError>) {
        let turned = catch_unwind(AssertUnwindSafe(|| self.turns()));
        let was_closed = matches!(turned, Ok(Ok(()))) || self.closing.is_some();
        let error = match turned {
            Ok(Ok(())) => CommError::closed(),
            Ok(Err(error)) => CommError::Endpoint(error.to_string()),
            Err(_) => CommError::fault(),
        };
        let error = end.get_or_init(|| error).clone();
        self.fail_all(&error);
        // The manager is told that the node is gone, and tells the others.
        let Self { rank, commands, .. } = self;
        drop(rank);
        let mut is_last = was_closed;
        while !is_last {
            let Ok(command) = commands.recv() else { return };
            is_last = refuse(command, &error);
        }
        while let Ok(command) = commands.try_recv() {
            refuse(command, &error);
        }
    }

    fn turns(&mut self) -> Result<(), RuntimeError> {
        let mut next_look = Instant::now();
        let mut last = Instant::now();
        loop {
            if self.take_commands() {
                return Ok(());
            }
            self.begin_all();
            let is_busy = self.is_busy();
            for ended in self.rank.step(IDLE)? {
                self.hear(ended);
            }
            self.take_pieces();
            self.give_back_idle();
            let now = Instant::now();
            if is_busy {
                Counters::add(&self.counters.busy, (now - last).as_nanos() as u64);
            }
            last = now;
            if now >= next_look {
                next_look = now + LOOK;
                for ended in self.rank.look()? {
                    self.hear(ended);
                }
                self.take_groups();
                self.note_recreations();
                self.end_late(now);
                self.tell_waits(now);
                for (group, peers) in &self.peers {
                    self.rank.note_message(*group, peers.oldest_receive());
                }
                if self.is_closed(now) {
                    return Ok(());
                }
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.queues.values().any(|queue| !queue.jobs.is_empty())
            || self.peers.values().any(|peers| !peers.is_idle())
    }

    /// Whether nobody will ask for anything any more.
    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Await { wanted, deadline, answer } => {
                self.waiting.push((wanted, deadline, answer));
                self.take_groups();
            }
            Command::Run { group, job } => match (self.over.get(&group), self.queues.get_mut(&group)) {
                (None, Some(queue)) => queue.jobs.push_back(job),
                (error, _) => end(job, Err(error.cloned().unwrap_or_else(|| unknown(group)))),
            },
            Command::Send { group, send } => match (self.over.get(&group), self.peers.get_mut(&group)) {
                (None, Some(peers)) => peers.send(send),
                (error, _) => {
                    let Send { source, promise, .. } = send;
                    drop(source);
                    promise.end(Err(error.cloned().unwrap_or_else(|| unknown(group))));
                }
            },
            Command::Receive { group, receive } => {
                match (self.over.get(&group), self.peers.get_mut(&group)) {
                    (None, Some(peers)) => peers.receive(receive),
                    (error, _) => {
                        let Receive { sink, promise, .. } = receive;
                        drop(sink);
                        promise.end(Err(error.cloned().unwrap_or_else(|| unknown(group))));
                    }
                }
            }
            Command::Count { answer } => {
                let count = EndpointTraffic {
                    statistics: *self.rank.statistics(),
                    sent_to: self.rank.sent_to().clone(),
                    drops: self.rank.drops(),
                };
                // Who asks may have gone.
                let _ = answer.send(count);
            }
            Command::Release { group } => self.release(group),
            Command::Abort { group, answer } => {
                self.end_group(group, CommError::aborted());
                self.give_back(group);
                self.rank.abandon(group);
                // Who asks may have gone.
                let _ = answer.send(());
            }
            Command::Flush { answer } => {
                // Who asks may have gone.
                let _ = answer.send(());
            }
            Command::Close { deadline, left } => {
                let linger = Instant::now() + std::time::Duration::from(LINGER);
                self.closing = Some(Closing { deadline: deadline.max(linger), linger, left });
                let groups: Vec<GroupId> = self.rank.groups().map(|group| group.id).collect();
                for group in groups {
                    self.release(group);
                }
            }
        }
    }

    /// The application is done with a group; what it has begun there goes on to its end.
    fn release(&mut self, group: GroupId) {
        match self.queues.get_mut(&group) {
            Some(queue) if queue.is_released => {}
            Some(queue) => {
                queue.is_released = true;
                self.leaving.push(group);
                self.give_back_idle();
            }
            None => self.give_back(group),
        }
    }

    /// Gives groups back in which nothing is under way any more.
    fn give_back_idle(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        for group in std::mem::take(&mut self.leaving) {
            let runs = self.queues.get(&group).is_some_and(|queue| !queue.jobs.is_empty());
            let sends = self.peers.get(&group).is_some_and(|peers| !peers.is_idle());
            if runs || sends {
                self.leaving.push(group);
            } else {
                self.give_back(group);
            }
        }
    }

    /// Forgets a group, but for its queue pairs, which go on answering peers until the manager ends it: when all its ranks have come so far.
    fn give_back(&mut self, group: GroupId) {
        self.queues.remove(&group);
        self.peers.remove(&group);
        self.over.remove(&group);
        self.ready.retain(|ready| ready.id != group);
        self.designs.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
        self.rank.release(group);
    }

    fn begin_all(&mut self) {
        let groups: Vec<GroupId> = self.queues.keys().copied().collect();
        for group in groups {
            while self.begin_next(group) {}
        }
        let groups: Vec<GroupId> = self.peers.keys().copied().collect();
        for group in groups {
            if self.rank.is_in_doubt(group) {
                continue;
            }
            let peers = self.peers.get_mut(&group).expect("a key");
            if let Err(error) = peers.progress(&mut self.rank) {
                self.end_group(group, error);
            }
        }
    }

    /// Begins the next chunk of a group, if there is one and its design takes one more.
    fn begin_next(&mut self, group: GroupId) -> bool {
        let queue = self.queues.get_mut(&group).expect("a key");
        if queue.under_way.len() >= queue.depth || self.rank.is_in_doubt(group) {
            return false;
        }
        let place = (queue.me, queue.ranks);
        let Some(job) = queue.jobs.iter_mut().find(|job| !job.is_begun()) else { return false };
        let (from, was_begun) = (job.next, job.begun);
        let chunk = job.take_chunk(queue.ranks);
        let copying = Instant::now();
        let buffers = job.fill(chunk, place, &mut self.spare);
        Counters::add(&self.counters.copying, copying.elapsed().as_nanos() as u64);
        let (collective, reduction) = (job.collective, job.reduction);
        let routes = job.tokens.as_ref().and_then(|tokens| tokens.routes.clone());
        let routed = routes.map_or(Ok(()), |routes| self.rank.route(group, routes));
        let begun =
            routed.and_then(|()| self.rank.begin(group, collective, reduction, job.terms(chunk), buffers));
        match begun {
            Ok(()) => {
                Counters::add(&self.counters.copied_bytes, job.copied(chunk, queue.ranks));
                if !was_begun {
                    self.rank.note_call(group, job.call());
                }
                job.under_way += 1;
                queue.under_way.push_back(chunk);
                true
            }
            Err(RuntimeError::Rejected(_)) if !queue.under_way.is_empty() => {
                // The design takes no more than these at once.
                (job.next, job.begun) = (from, was_begun);
                queue.depth = queue.under_way.len();
                false
            }
            Err(error) => {
                let is_routed = collective.is_routed();
                self.end_group(group, error.into());
                if is_routed {
                    // The others wait for tokens that will not come: their queue pairs notice.
                    self.rank.abandon(group);
                }
                false
            }
        }
    }

    fn hear(&mut self, ended: Ended) {
        match ended {
            Ended::Collective { group, buffers } => self.finish_chunk(group, buffers),
            Ended::Write { group, id } => {
                if self.peers.get_mut(&group).is_some_and(|peers| peers.written(id)) {
                    Counters::add(&self.counters.ended, 1);
                }
            }
            Ended::Group { group, error } => self.end_group(group, error.into()),
        }
    }

    fn finish_chunk(&mut self, group: GroupId, mut buffers: Finished) {
        let Some(queue) = self.queues.get_mut(&group) else { return };
        let (Some(chunk), Some(job)) = (queue.under_way.pop_front(), queue.jobs.front_mut()) else { return };
        let copying = Instant::now();
        job.empty(chunk, (queue.me, queue.ranks), &mut buffers);
        Counters::add(&self.counters.copying, copying.elapsed().as_nanos() as u64);
        self.spare.keep(buffers);
        job.under_way -= 1;
        if job.under_way == 0 && job.is_begun() {
            let job = queue.jobs.pop_front().expect("the front");
            queue.notice.reset();
            Counters::add(&self.counters.ended, 1);
            self.rank.note_end(group);
            end(job, Ok(()));
        }
    }

    fn take_pieces(&mut self) {
        let groups: Vec<GroupId> = self.peers.keys().copied().collect();
        for group in groups {
            while let Some(piece) = self.rank.take_delivered(group) {
                let peers = self.peers.get_mut(&group).expect("a key");
                if let Err(error) = peers.delivered(&piece) {
                    self.end_group(group, error);
                    self.rank.abandon(group);
                    break;
                }
            }
        }
    }

    /// Joins what is ready, and tells those who wait for it.
    fn take_groups(&mut self) {
        match self.rank.take_ready() {
            Ok(ready) => {
                for group in ready {
                    let (me, ranks) = (group.rank, usize::from(group.ranks));
                    let (jobs, under_way) = (VecDeque::new(), VecDeque::new());
                    let (depth, notice) = (DEPTH, Notice::after(self.notice));
                    let queue = GroupQueue { me, ranks, jobs, under_way, depth, notice, is_released: false };
                    self.queues.insert(group.id, queue);
                    if group.fabric == FabricKind::Mesh {
                        self.peers.insert(group.id, Peers::new(group.id, me.0));
                    }
                    self.ready.push(group);
                }
            }
            Err(error) => {
                let error = CommError::from(error);
                for (_, _, answer) in self.waiting.drain(..) {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
        let now = Instant::now();
        let ready = &mut self.ready;
        self.waiting.retain(|(wanted, deadline, answer)| {
            let fits = |group: &JoinedGroup| match wanted {
                Wanted::First(kind) => group.fabric == *kind,
                Wanted::Numbered(id) => group.id == *id,
            };
            if let Some(index) = ready.iter().position(fits) {
                let _ = answer.send(Ok(ready.remove(index)));
                return false;
            }
            if now < *deadline {
                return true;
            }
            let late =
                "expected a group with all ranks in time, found none; see whether all ranks and switches run";
            let _ = answer.send(Err(CommError::TimedOut(late.into())));
            false
        });
    }

    /// Says which groups have lost a switch and go on: what they run now, and once for each group why.
    fn note_recreations(&mut self) {
        for recreation in self.rank.take_recreations() {
            let me = self.queues.get(&recreation.group).map(|queue| queue.me);
            if me == Some(RankNumber(0)) && !self.notice.is_zero() {
                eprintln!("quincunx: {recreation}");
            }
            let mut designs = self.designs.lock().unwrap_or_else(PoisonError::into_inner);
            designs.insert(recreation.group, recreation.design);
        }
    }

    fn end_late(&mut self, now: Instant) {
        let late = |queue: &GroupQueue| queue.jobs.front().is_some_and(|job| job.deadline <= now);
        let queues = self.queues.iter().filter(|(_, queue)| late(queue)).map(|(group, _)| *group);
        let peers = self.peers.iter().filter(|(_, peers)| peers.is_late(now)).map(|(group, _)| *group);
        let groups: Vec<GroupId> = queues.chain(peers).collect();
        for group in groups {
            let text = "expected the end of a collective or message in time, found none; see whether all ranks call the same, and run";
            self.end_group(group, CommError::TimedOut(text.into()));
            self.rank.abandon(group);
        }
    }

    /// Has it said whom the ranks of a group wait for.
    fn tell_waits(&mut self, now: Instant) {
        for (&group, queue) in &mut self.queues {
            if queue.notice.is_due(!queue.jobs.is_empty(), now) {
                notice::tell(self.rank.control().clone(), group, queue.me.0);
            }
        }
    }

    fn end_group(&mut self, group: GroupId, error: CommError) {
        self.ready.retain(|ready| ready.id != group);
        if let Some(mut peers) = self.peers.remove(&group) {
            peers.fail(&error);
        }
        // Of a group that was given back nobody asks why it is over.
        let Some(queue) = self.queues.remove(&group) else { return };
        for job in queue.jobs {
            end(job, Err(error.clone()));
        }
        if !queue.is_released {
            self.over.entry(group).or_insert(error);
        }
    }

    fn fail_all(&mut self, error: &CommError) {
        let groups: Vec<GroupId> = self.queues.keys().chain(self.peers.keys()).copied().collect();
        for group in groups {
            self.end_group(group, error.clone());
        }
        for (_, _, answer) in self.waiting.drain(..) {
            let _ = answer.send(Err(error.clone()));
        }
    }

    fn is_closed(&mut self, now: Instant) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        if self.rank.groups().next().is_none() || now >= closing.deadline {
            return true;
        }
        if now >= closing.linger
            && let Some(left) = closing.left.take()
        {
            let led = self.rank.groups().filter(|group| group.rank == RankNumber(0)).map(|group| group.id);
            // Who asks waits for it.
            let _ = left.send(led.collect());
        }
        false
    }
}

fn unknown(group: GroupId) -> CommError {
    CommError::misuse(
        "a group of this endpoint",
        format!("group {group}, which it is not in"),
        "make the group again",
    )
}

fn end(job: Job, outcome: Result<(), CommError>) {
    let Job { source, sink, promise, .. } = job;
    drop((source, sink));
    promise.end(outcome);
}

/// Ends what is asked for with an error; whether that was the last of it.
pub(crate) fn refuse(command: Command, error: &CommError) -> bool {
    match command {
        Command::Await { answer, .. } => {
            let _ = answer.send(Err(error.clone()));
        }
        Command::Run { job, .. } => end(job, Err(error.clone())),
        Command::Send { send: Send { source, promise, .. }, .. } => {
            drop(source);
            Promise::end(promise, Err(error.clone()));
        }
        Command::Receive { receive: Receive { sink, promise, .. }, .. } => {
            drop(sink);
            Promise::end(promise, Err(error.clone()));
        }
        // Whoever waits for an answer asks for the reason himself.
        Command::Count { answer } => drop(answer),
        Command::Flush { answer } | Command::Abort { answer, .. } => drop(answer),
        Command::Release { .. } => {}
        Command::Close { .. } => return true,
    }
    false
}
