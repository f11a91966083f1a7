//! What a node finds out about the paths between it and others, for whoever asks before a job or when it is slow: which sizes they carry each
//! way, what they lose, double and reorder, how fast they are, how long an answer takes.
//!
//! Each target gets some frames of each size, which it answers, and when they have had time to come back a stream, which it counts. Both nodes
//! tell what they have got: so what is lost on the way there is told from what is lost on the way back. Frames of a run that the manager has not
//! told the node of are dropped: nobody else can have it count or answer.

use quincunx_control::{PathTarget, ProbePaths};
use quincunx_control_grpc::{FRAMES_OF_SIZE, NodePaths, PATH_SIZES, PathCounts};
use quincunx_driver_net::Aside;
use quincunx_sockets::Datagram;
use quincunx_units::{Duration, Instant};
use quincunx_wire::path_probe::{Kind, LEAST_LENGTH, PathProbe, length_of_write};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Frames of a stream: one in a hundred is noticed but once in twenty thousand times.
const STREAM: u32 = 1000;

/// The stream's size, if the path carries it: that of most groups' packets.
const STREAM_SIZE: usize = 3;

/// All that is sent to a target before its stream: questions of each size.
const QUESTIONS: u32 = FRAMES_OF_SIZE * PATH_SIZES.len() as u32;

/// How long all nodes have to hear of a run, and frames to come back before what follows.
const PAUSE: Duration = Duration::from_millis(50);

/// From the beginning with one target to that with the next: nodes that begin together each send to one and get from one at a time, so that no two
/// streams share a link each way.
const SLOT: Duration = Duration::from_millis(150);

/// Runs that are remembered; of an older one nobody asks any more.
const RUNS: usize = 2;

/// Words of the set of a stream's frames that have come.
const WORDS: usize = (STREAM as usize).div_ceil(64);

/// A datagram that is to be sent.
pub(crate) struct Outgoing {
    pub(crate) destination: IpAddr,
    pub(crate) share: u8,
    pub(crate) bytes: Vec<u8>,
    /// As long a one has been answered.
    pub(crate) is_known_to_pass: bool,
}

/// A node's part in what is found out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Prober {
    /// Which of the processes at its address this one is.
    share: u8,
    runs: VecDeque<Run>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    number: u64,
    own: u32,
    paths: BTreeMap<u32, Path>,
    /// Those that it is not done with; the first is at work.
    targets: VecDeque<PathTarget>,
    /// Frames that the first has been sent.
    sent: u32,
    /// When the next one may be.
    resume: Instant,
    /// When the first target's turn is over.
    slot: Instant,
}

/// What is known of a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Path {
    counts: PathCounts,
    /// Of the stream's frames those that have come.
    come: [u64; WORDS],
    /// The latest of them.
    newest: u32,
    /// When the first of them came.
    first: Instant,
    /// Where the other node is.
    address: Option<IpAddr>,
}

impl Path {
    fn to(target: &PathTarget) -> Self {
        let counts = PathCounts { peer: target.number, ..PathCounts::default() };
        Self { counts, address: Some(target.address), ..Self::default() }
    }

    /// A frame of the stream has come.
    fn count(&mut self, now: Instant, sequence: u32, length: usize) {
        let Some(word) = self.come.get_mut(sequence as usize / 64) else { return };
        let bit = 1 << (sequence % 64);
        let counts = &mut self.counts;
        if *word & bit != 0 {
            counts.doubled += 1;
            return;
        }
        *word |= bit;
        if counts.stream == 0 {
            self.first = now;
        }
        counts.late += u32::from(sequence < self.newest);
        self.newest = self.newest.max(sequence);
        counts.stream += 1;
        counts.bytes += length as u64;
        counts.time = now.since(self.first);
    }

    /// The size of the stream to there: the largest that is not above the usual one and has been answered; the usual one if nothing was.
    fn stream_size(&self) -> usize {
        let answered = (0..=STREAM_SIZE).rev().find(|&size| self.counts.answers[size] > 0);
        answered.unwrap_or(STREAM_SIZE)
    }
}

impl Prober {
    /// Of a node that is one of several at its address.
    pub(crate) fn set_share(&mut self, share: u8) {
        self.share = share;
    }

    /// Begins a run.
    pub(crate) fn begin(&mut self, probe: ProbePaths, now: Instant) {
        let ProbePaths { run, own, targets } = probe;
        if self.runs.iter().any(|known| known.number == run) {
            return;
        }
        if self.runs.len() == RUNS {
            self.runs.pop_front();
        }
        let paths = targets.iter().map(|target| (target.number, Path::to(target))).collect();
        let targets = targets.into();
        let (resume, slot) = (now + PAUSE, now + PAUSE + SLOT);
        self.runs.push_back(Run { number: run, own, paths, targets, sent: 0, resume, slot });
    }

    /// What it has found out in a run; nothing of one that it does not know. `neighbour` says where the kernel finds somebody.
    pub(crate) fn tell(&self, run: u64, neighbour: impl Fn(IpAddr) -> Option<u64>) -> NodePaths {
        let run = self.runs.iter().find(|known| known.number == run);
        let path = |path: &Path| PathCounts { neighbour: path.address.and_then(&neighbour), ..path.counts };
        NodePaths {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
            pending: run.map_or(0, |run| run.targets.len() as u32),
            paths: run.map(|run| run.paths.values().map(path).collect()).unwrap_or_default(),
            ..NodePaths::default()
        }
    }

    /// Takes a frame of this kind.
    pub(crate) fn take(&mut self, now: Instant, datagram: &Datagram, bytes: &[u8]) -> Aside {
        let Ok(probe) = PathProbe::parse(bytes) else { return Aside::Taken };
        let run = self.runs.iter_mut().find(|run| run.number == probe.run && run.own == probe.target);
        let Some((run, size)) =
            run.zip(Some(usize::from(probe.size)).filter(|size| *size < PATH_SIZES.len()))
        else {
            return Aside::Taken;
        };
        let Some(path) = run.paths.get_mut(&probe.sender) else { return Aside::Taken };
        match probe.kind {
            Kind::Count => path.count(now, probe.sequence, bytes.len()),
            Kind::Answer => {
                path.counts.answers[size] += 1;
                let took = now.since(Instant::ZERO).as_nanos().saturating_sub(probe.sent);
                let took = Duration::from_nanos(took.min(PAUSE.as_nanos() * 20));
                path.counts.round_trip = Some(path.counts.round_trip.map_or(took, |least| least.min(took)));
            }
            Kind::Ask => {
                path.counts.sizes[size] += 1;
                let answer = PathProbe {
                    kind: Kind::Answer,
                    share: probe.from_share,
                    from_share: self.share,
                    sender: probe.target,
                    target: probe.sender,
                    ..probe
                };
                let mut bytes = vec![0; LEAST_LENGTH];
                answer.emit(LEAST_LENGTH, &mut bytes);
                return Aside::Answer { bytes, destination: datagram.source, share: probe.from_share };
            }
        }
        Aside::Taken
    }

    /// Whether there is anything to send, now or later.
    pub(crate) fn is_busy(&self) -> bool {
        self.runs.iter().any(|run| !run.targets.is_empty())
    }

    /// What is to be sent now; it was, when [`sent`](Self::sent) says so.
    pub(crate) fn next(&self, now: Instant) -> Option<Outgoing> {
        let run = self.runs.iter().find(|run| !run.targets.is_empty())?;
        let target = run.targets.front().filter(|_| run.resume <= now && run.sent < QUESTIONS + STREAM)?;
        let (kind, size, sequence) = match run.sent.checked_sub(QUESTIONS) {
            None => (Kind::Ask, (run.sent / FRAMES_OF_SIZE) as usize, run.sent % FRAMES_OF_SIZE),
            Some(sequence) => (Kind::Count, run.paths[&target.number].stream_size(), sequence),
        };
        let probe = PathProbe {
            kind,
            share: target.share,
            from_share: self.share,
            size: size as u8,
            sequence,
            run: run.number,
            sender: run.own,
            target: target.number,
            sent: now.since(Instant::ZERO).as_nanos(),
        };
        let length = if size == 0 { LEAST_LENGTH } else { length_of_write(PATH_SIZES[size]) };
        let mut bytes = vec![0; length];
        probe.emit(length, &mut bytes);
        let is_known_to_pass = run.paths[&target.number].counts.answers[size] > 0;
        Some(Outgoing { destination: target.address, share: target.share, bytes, is_known_to_pass })
    }

    /// What was next has been sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        let Some(run) = self.runs.iter_mut().find(|run| !run.targets.is_empty()) else { return };
        run.sent += 1;
        let target = run.targets[0].number;
        if let Some(sent) = run.sent.checked_sub(QUESTIONS)
            && let Some(path) = run.paths.get_mut(&target)
        {
            path.counts.sent = sent;
        }
        if [QUESTIONS, QUESTIONS + STREAM].contains(&run.sent) {
            run.resume = now + PAUSE;
        }
    }

    /// Goes on with the next target when the stream to the last one has had time to arrive.
    pub(crate) fn advance(&mut self, now: Instant) {
        for run in self.runs.iter_mut().filter(|run| !run.targets.is_empty()) {
            if run.sent == QUESTIONS + STREAM && run.resume <= now {
                run.targets.pop_front();
                run.sent = 0;
                run.resume = run.resume.max(run.slot);
                run.slot = run.slot + SLOT;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const PORT: u16 = 4791;

    /// Two nodes, and what becomes of each frame between them: how often it arrives.
    fn survey(mut fate: impl FnMut(u32, &PathProbe, usize) -> u32) -> [PathCounts; 2] {
        let mut nodes = [Prober::default(), Prober::default()];
        let mut now = Instant::ZERO;
        let addresses = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], PORT)));
        for own in 0..2 {
            let other = 1 - own;
            let target = PathTarget { number: other, address: addresses[other as usize].ip(), share: 0 };
            nodes[own as usize].begin(ProbePaths { run: 7, own, targets: vec![target] }, now);
        }
        while nodes.iter().any(Prober::is_busy) {
            now = now + Duration::from_micros(10);
            for from in 0..2 {
                nodes[from].advance(now);
                let Some(outgoing) = nodes[from].next(now) else { continue };
                nodes[from].sent(now);
                let mut under_way = vec![(from, outgoing.bytes)];
                while let Some((from, bytes)) = under_way.pop() {
                    let to = 1 - from;
                    let probe = PathProbe::parse(&bytes).unwrap();
                    let (source, destination) = (addresses[from], addresses[to]);
                    let datagram = Datagram { source, destination, tos: 0, identification: 0, interface: 0 };
                    for _ in 0..fate(from as u32, &probe, bytes.len()) {
                        if let Aside::Answer { bytes, .. } = nodes[to].take(now, &datagram, &bytes) {
                            under_way.push((to, bytes));
                        }
                    }
                }
            }
        }
        nodes.map(|node| node.tell(7, |_| None).paths[0])
    }

    #[test]
    fn a_path_that_loses_nothing_carries_all_sizes_and_the_stream_both_ways() {
        for counts in survey(|_, _, _| 1) {
            let all = [FRAMES_OF_SIZE; PATH_SIZES.len()];
            assert_eq!((counts.sizes, counts.answers), (all, all));
            assert_eq!((counts.sent, counts.stream, counts.doubled, counts.late), (STREAM, STREAM, 0, 0));
            assert_eq!(counts.bytes, u64::from(STREAM) * length_of_write(1024) as u64);
            assert_eq!(counts.time, Duration::from_micros(10) * u64::from(STREAM - 1));
            assert!(counts.round_trip.is_some());
        }
    }

    #[test]
    fn what_is_lost_one_way_is_counted_by_who_does_not_get_it() {
        let [a, b] = survey(|from, _, _| u32::from(from == 1));
        assert_eq!((b.sizes, b.stream), ([0; PATH_SIZES.len()], 0), "nothing comes from the first");
        assert_eq!(a.stream, STREAM, "all comes from the second");
        assert_eq!((a.answers, b.answers), ([0; PATH_SIZES.len()], [0; PATH_SIZES.len()]));
    }

    #[test]
    fn a_path_that_carries_less_has_a_stream_of_what_it_carries() {
        for counts in survey(|_, _, length| u32::from(length <= length_of_write(512))) {
            assert_eq!(counts.sizes, [FRAMES_OF_SIZE, FRAMES_OF_SIZE, FRAMES_OF_SIZE, 0, 0, 0]);
            assert_eq!(counts.bytes, u64::from(STREAM) * length_of_write(512) as u64);
        }
    }

    #[test]
    fn frames_that_come_twice_or_late_are_counted_apart() {
        let mut held = None;
        let mut nodes = [Path::default(), Path::default()];
        for sequence in 0..STREAM {
            nodes[0].count(Instant::ZERO, sequence, 100);
            nodes[0].count(Instant::ZERO, sequence, 100);
            if sequence == 10 {
                held = Some(sequence);
            } else {
                nodes[1].count(Instant::ZERO, sequence, 100);
            }
        }
        nodes[1].count(Instant::ZERO, held.unwrap(), 100);
        let [doubled, late] = nodes.map(|path| path.counts);
        assert_eq!((doubled.stream, doubled.doubled, doubled.late), (STREAM, STREAM, 0));
        assert_eq!((late.stream, late.doubled, late.late), (STREAM, 0, 1));
    }

    #[test]
    fn nobody_has_a_node_count_or_answer_in_a_run_that_it_was_not_told_of() {
        let mut node = Prober::default();
        let target = PathTarget { number: 1, address: [10, 0, 0, 2].into(), share: 0 };
        node.begin(ProbePaths { run: 7, own: 0, targets: vec![target] }, Instant::ZERO);
        let before = node.clone();
        let [source, destination] = [2, 1].map(|last| SocketAddr::from(([10, 0, 0, last], PORT)));
        let datagram = Datagram { source, destination, tos: 0, identification: 0, interface: 0 };
        let good = PathProbe {
            kind: Kind::Ask,
            share: 0,
            from_share: 0,
            size: 0,
            sequence: 0,
            run: 7,
            sender: 1,
            target: 0,
            sent: 0,
        };
        for wrong in [
            PathProbe { run: 8, ..good },
            PathProbe { sender: 2, ..good },
            PathProbe { target: 1, ..good },
            PathProbe { size: 6, ..good },
            PathProbe { kind: Kind::Count, sequence: u32::MAX, ..good },
        ] {
            let mut bytes = vec![0; LEAST_LENGTH];
            wrong.emit(LEAST_LENGTH, &mut bytes);
            assert_eq!(node.take(Instant::ZERO, &datagram, &bytes), Aside::Taken, "{wrong:?}");
            assert_eq!(node, before, "{wrong:?}");
        }
        assert_eq!(node.take(Instant::ZERO, &datagram, b"\xc0"), Aside::Taken);
    }
}
