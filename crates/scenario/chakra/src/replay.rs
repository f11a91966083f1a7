//! Lays traces of ranks out in time.
//!
//! A rank has four streams: its host, its accelerator, what it sends and what it receives. Each does one node at a time; of those that are ready
//! the one with the lowest id comes first. A collective begins when all its ranks are ready and neither send nor receive; a message, when
//! both ends are ready, the sender does not send and the receiver does not receive. Who waits for others holds no stream. Computation and
//! communication do not slow each other down, and neither do two communications of different ranks.

use crate::intervals::{Interval, length, overlap, union};
use crate::matching::{Meeting, Meetings, meetings};
use crate::order::places;
use crate::{Communication, Cost, Exchange, Node, ReplayError, Trace, Work};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// What decides how long a node takes of which nobody has recorded it: the longer of its arithmetic and its traffic to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Rate of arithmetic.
    pub rate: FlopRate,
    /// Rate of memory.
    pub memory: BitRate,
}

/// When a node ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its number.
    pub id: u64,
    /// When it began.
    pub begin: Duration,
    /// When it was over.
    pub end: Duration,
}

/// How a rank spent its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RankTimes {
    /// When it was done.
    pub time: Duration,
    /// How long its accelerator worked.
    pub compute: Duration,
    /// How long its host worked.
    pub host: Duration,
    /// How long it communicated, without waiting for others.
    pub communication: Duration,
    /// How long of that its accelerator did nothing.
    pub exposed: Duration,
    /// Bytes of its collectives and of what it sent.
    pub bytes: ByteCount,
}

/// What traces came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// When all ranks were done.
    pub time: Duration,
    /// Each rank.
    pub ranks: Vec<RankTimes>,
    /// When each node of each rank ran, in the order in which they ended.
    pub spans: Vec<Vec<Span>>,
}

impl Replay {
    /// The first of the ranks that are done last.
    pub fn slowest(&self) -> usize {
        self.ranks.iter().position(|rank| rank.time == self.time).unwrap_or(0)
    }
}

impl Machine {
    /// How long a node takes that does not communicate.
    fn time(&self, node: &Node) -> Duration {
        let recorded = Some(node.duration).filter(|&duration| duration > Duration::ZERO);
        match node.work {
            Work::Compute(Cost { operations, traffic }) => recorded.unwrap_or_else(|| {
                let arithmetic = operations.map_or(Duration::ZERO, |count| self.rate.time_for(count));
                arithmetic.max(traffic.map_or(Duration::ZERO, |size| self.memory.time_for(size)))
            }),
            Work::Load(size) | Work::Store(size) => recorded.unwrap_or_else(|| self.memory.time_for(size)),
            _ => Duration::ZERO,
        }
    }
}

/// What a rank does one at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Host,
    Accelerator,
    Out,
    In,
}

/// What is over at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Node { rank: usize, at: usize },
    Meeting(usize),
}

/// A rank that runs its trace.
struct Runner<'a> {
    trace: &'a Trace,
    waits_for: Vec<usize>,
    followers: Vec<Vec<usize>>,
    begun: Vec<Duration>,
    /// Nodes for host and accelerator, by id.
    ready: [BTreeSet<(u64, usize)>; 2],
    busy: [bool; 4],
    spans: Vec<(usize, Span)>,
}

impl<'a> Runner<'a> {
    fn new(trace: &'a Trace) -> Self {
        let count = trace.nodes.len();
        // Whoever made the trace by hand may have given an id twice; the reader refuses that.
        let places = places("", &trace.nodes).unwrap_or_default();
        let (mut waits_for, mut followers) = (vec![0; count], vec![Vec::new(); count]);
        for (at, node) in trace.nodes.iter().enumerate() {
            for id in node.dependencies() {
                // One that is not there is never over.
                waits_for[at] += 1;
                if let Some(&place) = places.get(&id) {
                    followers[place].push(at);
                }
            }
        }
        let begun = vec![Duration::ZERO; count];
        Self {
            trace,
            waits_for,
            followers,
            begun,
            ready: Default::default(),
            busy: [false; 4],
            spans: Vec::new(),
        }
    }

    /// Those whose turn has come now that the one at this place is over.
    fn end(&mut self, at: usize, now: Duration) -> Vec<usize> {
        self.spans.push((at, Span { id: self.trace.nodes[at].id, begin: self.begun[at], end: now }));
        let mut next = Vec::new();
        for &follower in &self.followers[at] {
            self.waits_for[follower] -= 1;
            if self.waits_for[follower] == 0 {
                next.push(follower);
            }
        }
        next
    }

    fn times(&self) -> RankTimes {
        let of = |wanted: fn(&Node) -> bool| {
            let spans = self.spans.iter().filter(|(at, _)| wanted(&self.trace.nodes[*at]));
            union(spans.map(|&(_, Span { begin, end, .. })| -> Interval { (begin, end) }).collect())
        };
        let compute = of(|node| stream(node) == Some(Stream::Accelerator));
        let communication = of(|node| is_communication(&node.work));
        let bytes = self.spans.iter().map(|(at, _)| match self.trace.nodes[*at].work {
            Work::Collective { size, .. } | Work::Send { size, .. } => size,
            _ => ByteCount::new(0),
        });
        RankTimes {
            time: self.spans.iter().map(|(_, span)| span.end).max().unwrap_or_default(),
            compute: length(&compute),
            host: length(&of(|node| stream(node) == Some(Stream::Host))),
            communication: length(&communication),
            exposed: length(&communication) - overlap(&communication, &compute),
            bytes: bytes.sum(),
        }
    }
}

fn is_communication(work: &Work) -> bool {
    matches!(work, Work::Collective { .. } | Work::Send { .. } | Work::Receive { .. })
}

/// Where a node runs that needs no other rank; metadata runs nowhere.
fn stream(node: &Node) -> Option<Stream> {
    match node.work {
        Work::Compute(_) | Work::Load(_) | Work::Store(_) if node.is_on_host => Some(Stream::Host),
        Work::Compute(_) | Work::Load(_) | Work::Store(_) => Some(Stream::Accelerator),
        _ => None,
    }
}

/// All ranks, and what is to come.
struct Replaying<'a> {
    machine: Machine,
    runners: Vec<Runner<'a>>,
    meetings: Meetings,
    /// How many have come to each meeting.
    arrived: Vec<Vec<usize>>,
    /// Meetings to which all have come, by their lowest id.
    complete: BTreeSet<(u64, usize)>,
    events: BinaryHeap<Reverse<(Duration, Event)>>,
}

/// Replays `traces`, of rank 0 first. `time_of` says how long a communication takes that has the network for itself.
///
/// # Errors
/// If traces do not fit together, ranks wait forever, or `time_of` does not know.
pub fn replay<E>(
    traces: &[&Trace],
    machine: Machine,
    mut time_of: impl FnMut(&Communication) -> Result<Duration, E>,
) -> Result<Replay, ReplayError<E>> {
    if traces.is_empty() {
        return Err(ReplayError::NoTraces);
    }
    let meetings = meetings(traces)?;
    let mut all = Replaying {
        machine,
        runners: traces.iter().map(|trace| Runner::new(trace)).collect(),
        arrived: vec![Vec::new(); meetings.all.len()],
        meetings,
        complete: BTreeSet::new(),
        events: BinaryHeap::new(),
    };
    for (rank, trace) in traces.iter().enumerate() {
        for at in 0..trace.nodes.len() {
            if all.runners[rank].waits_for[at] == 0 {
                all.make_ready(rank, at, Duration::ZERO);
            }
        }
    }
    all.begin(Duration::ZERO, &mut time_of)?;
    while let Some(Reverse((now, event))) = all.events.pop() {
        all.end(event, now);
        // What ends together frees its streams before anything else begins.
        if all.events.peek().is_none_or(|Reverse((next, _))| *next > now) {
            all.begin(now, &mut time_of)?;
        }
    }
    all.finish()
}

impl Replaying<'_> {
    fn make_ready(&mut self, rank: usize, at: usize, now: Duration) {
        let runner = &mut self.runners[rank];
        let id = runner.trace.nodes[at].id;
        if let Some(&meeting) = self.meetings.of[rank].get(&at) {
            self.arrived[meeting].push(rank);
            let Meeting { parties, .. } = &self.meetings.all[meeting];
            if self.meetings.all[meeting].is_whole() && self.arrived[meeting].len() == parties.len() {
                let ids = parties.iter().map(|&(rank, at)| self.runners[rank].trace.nodes[at].id);
                self.complete.insert((ids.min().unwrap_or(id), meeting));
            }
            return;
        }
        match stream(&runner.trace.nodes[at]) {
            Some(stream) => _ = runner.ready[stream as usize].insert((id, at)),
            None => {
                runner.begun[at] = now;
                self.events.push(Reverse((now, Event::Node { rank, at })));
            }
        }
    }

    /// Begins whatever can begin.
    fn begin<E>(
        &mut self,
        now: Duration,
        time_of: &mut impl FnMut(&Communication) -> Result<Duration, E>,
    ) -> Result<(), ReplayError<E>> {
        for (rank, runner) in self.runners.iter_mut().enumerate() {
            for stream in [Stream::Host, Stream::Accelerator] {
                if runner.busy[stream as usize] {
                    continue;
                }
                let Some((_, at)) = runner.ready[stream as usize].pop_first() else { continue };
                runner.busy[stream as usize] = true;
                runner.begun[at] = now;
                let end = now + self.machine.time(&runner.trace.nodes[at]);
                self.events.push(Reverse((end, Event::Node { rank, at })));
            }
        }
        for (id, index) in self.complete.clone() {
            let Meeting { communication, parties } = &self.meetings.all[index];
            let needed = needed(communication);
            if needed.iter().any(|&(rank, stream)| self.runners[rank].busy[stream as usize]) {
                continue;
            }
            let takes = match communication.members.len() {
                1 => Duration::ZERO,
                _ => time_of(communication).map_err(|error| {
                    let (rank, at) = parties[0];
                    ReplayError::Communication { rank, id: self.runners[rank].trace.nodes[at].id, error }
                })?,
            };
            needed.iter().for_each(|&(rank, stream)| self.runners[rank].busy[stream as usize] = true);
            parties.iter().for_each(|&(rank, at)| self.runners[rank].begun[at] = now);
            self.complete.remove(&(id, index));
            self.events.push(Reverse((now + takes, Event::Meeting(index))));
        }
        Ok(())
    }

    fn end(&mut self, event: Event, now: Duration) {
        let ended = match event {
            Event::Node { rank, at } => {
                if let Some(stream) = stream(&self.runners[rank].trace.nodes[at]) {
                    self.runners[rank].busy[stream as usize] = false;
                }
                vec![(rank, at)]
            }
            Event::Meeting(index) => {
                let Meeting { communication, parties } = &self.meetings.all[index];
                for (rank, stream) in needed(communication) {
                    self.runners[rank].busy[stream as usize] = false;
                }
                parties.clone()
            }
        };
        for (rank, at) in ended {
            for next in self.runners[rank].end(at, now) {
                self.make_ready(rank, next, now);
            }
        }
    }

    fn finish<E>(self) -> Result<Replay, ReplayError<E>> {
        if self.runners.iter().any(|runner| runner.spans.len() < runner.trace.nodes.len()) {
            return Err(ReplayError::Stuck(self.waiting()));
        }
        let ranks: Vec<RankTimes> = self.runners.iter().map(Runner::times).collect();
        let time = ranks.iter().map(|rank| rank.time).max().unwrap_or_default();
        let spans = |runner: Runner<'_>| runner.spans.into_iter().map(|(_, span)| span).collect();
        Ok(Replay { time, ranks, spans: self.runners.into_iter().map(spans).collect() })
    }

    /// Who waits at which node for whom; the first few.
    fn waiting(&self) -> String {
        const SHOWN: usize = 4;
        let mut waiting = Vec::new();
        for (meeting, arrived) in self.meetings.all.iter().zip(&self.arrived) {
            let members = meeting.communication.members.iter().map(|member| member.index());
            let missing: Vec<String> =
                members.filter(|rank| !arrived.contains(rank)).map(|rank| rank.to_string()).collect();
            if missing.is_empty() {
                continue;
            }
            for &(rank, at) in meeting.parties.iter().filter(|(rank, _)| arrived.contains(rank)) {
                let Node { id, name, .. } = &self.runners[rank].trace.nodes[at];
                waiting.push(format!(
                    "rank {rank} at node {id} {name:?} ({}) for {}",
                    meeting.communication,
                    missing.join(", ")
                ));
            }
        }
        let more = waiting.len().saturating_sub(SHOWN);
        waiting.truncate(SHOWN);
        if more > 0 {
            waiting.push(format!("{more} more"));
        }
        waiting.join("; ")
    }
}

/// The streams that a communication takes.
fn needed(communication: &Communication) -> Vec<(usize, Stream)> {
    let members = communication.members.iter().map(|member| member.index());
    match communication.exchange {
        Exchange::Collective(_) => {
            members.flat_map(|rank| [(rank, Stream::Out), (rank, Stream::In)]).collect()
        }
        Exchange::Message => members.zip([Stream::Out, Stream::In]).collect(),
    }
}
