//! Every order of a small exchange: deliver, lose, duplicate, fire early, post late. However it goes, it ends, and it
//! ends right.

#![expect(clippy::disallowed_types, reason = "worlds are looked up by their hash, never walked in its order")]

use crate::common::{ALICE, Bytes, alice, mirrored, receive, send, slice};
use quincunx_engine::verbs::{Completion, RegionId, WorkId};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_roce::{
    DropReason, INFINITE_RNR_RETRIES, QueuePairConfig, QueuePairTimer, Reliability, RoceCommand, RoceEvent,
    RoceHost,
};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::RoceHeader;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

const PORT: PortId = PortId(0);

/// A host, the timers that run for it, and what its requests came to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    host: RoceHost<Bytes>,
    armed: BTreeSet<QueuePairTimer>,
    completions: Vec<Completion>,
}

/// A host's answers: what it does to its node, and the frames that it sends.
struct Answers<'a> {
    armed: &'a mut BTreeSet<QueuePairTimer>,
    completions: &'a mut Vec<Completion>,
    frames: Vec<(RoceHeader, Vec<u8>)>,
}

impl Sink<RoceHost<Bytes>> for Answers<'_> {
    fn transmit(&mut self, _port: PortId, frame: Frame<'_, RoceHeader, Bytes>) {
        self.frames.push((*frame.header, frame.payload.to_vec()));
    }

    fn set_timer(&mut self, timer: QueuePairTimer, _after: Duration) {
        self.armed.insert(timer);
    }

    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        self.armed.remove(&timer);
    }

    fn emit(&mut self, event: RoceEvent<Bytes>) {
        if let RoceEvent::Completion(completion) = event {
            self.completions.push(completion);
        }
    }

    fn drop_frame(&mut self, _port: PortId, _reason: DropReason) {}
}

/// Everything that the future depends on. The receiver is node 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    nodes: [Node; 2],
    /// Frames on their way; any may arrive next, so their order is only how they are kept.
    flights: Vec<(RoceHeader, Vec<u8>)>,
    losses_left: u8,
    duplications_left: u8,
    /// How often a timer may fire although something else could still happen.
    early_expiries_left: u8,
    receives_to_post: u8,
}

/// Lengths of the messages: two packets and one.
const LENGTHS: [usize; 2] = [7, 3];

impl World {
    fn new(window: u32, reliability: Reliability, credits: bool) -> Self {
        let config = QueuePairConfig {
            window: Packets::new(window),
            retry_count: u16::MAX,
            rnr_retry_count: INFINITE_RNR_RETRIES,
            reliability,
            credits,
            ..alice()
        };
        let node = |config| Node {
            host: RoceHost::new(config).expect("the test's set-up is valid"),
            armed: BTreeSet::new(),
            completions: Vec::new(),
        };
        let mut world = Self {
            nodes: [node(config), node(mirrored(config))],
            flights: Vec::new(),
            losses_left: 1,
            duplications_left: 1,
            early_expiries_left: 1,
            receives_to_post: LENGTHS.len() as u8,
        };
        world.command(0, RoceCommand::Register(Bytes((1..=10).collect())));
        world.command(1, RoceCommand::Register(Bytes(vec![0; 10])));
        let mut offset = 0;
        for (id, length) in LENGTHS.into_iter().enumerate() {
            world.command(0, RoceCommand::PostSend(send(id as u64, slice(RegionId(0), offset, length))));
            offset += length;
        }
        world
    }

    fn act<R>(&mut self, node: usize, act: impl FnOnce(&mut RoceHost<Bytes>, &mut Answers<'_>) -> R) -> R {
        let Node { host, armed, completions } = &mut self.nodes[node];
        let mut answers = Answers { armed, completions, frames: Vec::new() };
        let result = act(host, &mut answers);
        let frames = answers.frames;
        self.flights.extend(frames);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        self.flights.sort_by_cached_key(|flight| hasher.hash_one(flight));
        self.nodes[node].host.assert_invariants();
        result
    }

    fn command(&mut self, node: usize, command: RoceCommand<Bytes>) {
        self.act(node, |host, out| host.handle_command(Instant::ZERO, command, out))
            .expect("the test's command is valid");
    }

    fn deliver(&mut self, (header, payload): &(RoceHeader, Vec<u8>)) {
        let to = usize::from(header.destination_qp != ALICE.qp);
        self.act(to, |host, out| host.handle_frame(Instant::ZERO, PORT, Frame { header, payload }, out));
    }

    /// All that can happen next.
    fn successors(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            all.push(next);
        };
        for (index, flight) in self.flights.iter().enumerate() {
            add(&|world| {
                world.flights.remove(index);
                world.deliver(flight);
            });
            if self.losses_left > 0 {
                add(&|world| {
                    world.losses_left -= 1;
                    world.flights.remove(index);
                });
            }
            if self.duplications_left > 0 {
                add(&|world| {
                    world.duplications_left -= 1;
                    world.deliver(flight);
                });
            }
        }
        for node in 0..2 {
            if self.nodes[node].host.wants_transmit(PORT) {
                add(&|world| {
                    world.act(node, |host, out| host.handle_transmit_slot(Instant::ZERO, PORT, out))
                });
            }
        }
        if self.receives_to_post > 0 {
            add(&|world| {
                let index = LENGTHS.len() - usize::from(world.receives_to_post);
                world.receives_to_post -= 1;
                let sink = slice(RegionId(0), LENGTHS[..index].iter().sum(), LENGTHS[index]);
                world.command(1, RoceCommand::PostReceive(receive(index as u64, sink)));
            });
        }
        let is_early = !all.is_empty();
        if !is_early || self.early_expiries_left > 0 {
            for node in 0..2 {
                for &timer in &self.nodes[node].armed {
                    let mut next = self.clone();
                    next.early_expiries_left -= u8::from(is_early);
                    next.nodes[node].armed.remove(&timer);
                    next.act(node, |host, out| host.handle_timer(Instant::ZERO, timer, out));
                    all.push(next);
                }
            }
        }
        all
    }

    fn assert_done(&self) {
        let sent = [0, 1].map(|id| Completion::Sent { id: WorkId(id) });
        assert_eq!(self.nodes[0].completions, sent, "{self:#?}");
        let received = [0, 1].map(|id| Completion::Received {
            id: WorkId(id),
            length: LENGTHS[id as usize],
            immediate: None,
        });
        assert_eq!(self.nodes[1].completions, received, "{self:#?}");
        let memory = self.nodes[1].host.memory();
        assert_eq!(memory.view(slice(RegionId(0), 0, 10)), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
}

/// Visits every world that can be reached, and returns how many there are.
///
/// # Panics
/// If a world in which nothing more can happen is not right, or if from some world none of these can be reached.
fn explore(window: u32, reliability: Reliability, credits: bool) -> usize {
    let first = World::new(window, reliability, credits);
    let mut numbers = HashMap::from([(first.clone(), 0)]);
    let mut todo = vec![first];
    let mut predecessors: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ends = Vec::new();
    while let Some(world) = todo.pop() {
        let number = numbers[&world];
        let successors = world.successors();
        if successors.is_empty() {
            world.assert_done();
            ends.push(number);
        }
        for next in successors {
            let index = numbers.get(&next).copied().unwrap_or_else(|| {
                numbers.insert(next.clone(), predecessors.len());
                predecessors.push(Vec::new());
                todo.push(next);
                predecessors.len() - 1
            });
            predecessors[index].push(number);
        }
    }
    let mut can_end = vec![false; predecessors.len()];
    while let Some(number) = ends.pop() {
        if !std::mem::replace(&mut can_end[number], true) {
            ends.extend(&predecessors[number]);
        }
    }
    assert!(can_end.iter().all(|&can| can), "there is a world from which the end cannot be reached");
    predecessors.len()
}

#[test]
fn a_window_of_one_ends_right_in_every_order() {
    assert!(explore(1, Reliability::GoBackN, false) > 1_000);
}

#[test]
fn a_window_of_two_ends_right_in_every_order() {
    assert!(explore(2, Reliability::GoBackN, false) > 10_000);
}

#[test]
fn selective_reliability_ends_right_in_every_order() {
    assert!(explore(2, Reliability::Selective, false) > 10_000);
}

#[test]
fn credits_end_right_in_every_order() {
    assert!(explore(2, Reliability::GoBackN, true) > 10_000);
    assert!(explore(1, Reliability::Selective, true) > 1_000);
}
