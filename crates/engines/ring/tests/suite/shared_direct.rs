//! Direct collectives of accelerators, whatever comes first: writes and words by one link keep their order, all else is drawn from a seed.

use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction, SplitMix64};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{InPlaceRequest, Kernel, MemoryEvent, SharedMemory, Span, WordId};
use quincunx_ring::{SharedDirect, SharedDirectConfig};
use std::collections::{BTreeMap, VecDeque};

const RANKS: u16 = 3;
const LINKS: u16 = 2;
/// Bytes of a rank's part, and of the vector.
const PART: usize = 8;
const LENGTH: usize = PART * RANKS as usize;
/// Collectives in a row.
const TIMES: u8 = 4;

enum Item {
    Write { target: usize, data: Numbers },
    Store { word: WordId, value: u64 },
}

/// What a kernel sees of its accelerator.
struct Accelerator {
    me: Rank,
    memory: Numbers,
    words: BTreeMap<WordId, u64>,
    sent: Vec<((Rank, PortId), Item)>,
    /// Writes that have not taken effect.
    under_way: usize,
    is_fenced: bool,
    computes: bool,
}

impl SharedMemory<Numbers> for Accelerator {
    fn links(&self) -> u16 {
        LINKS
    }
    fn memory(&mut self) -> &mut Numbers {
        &mut self.memory
    }
    fn word(&self, word: WordId) -> u64 {
        self.words.get(&word).copied().unwrap_or(0)
    }
    fn write(&mut self, link: PortId, to: Rank, source: Span, target: usize) {
        let data = Numbers::from_view(self.memory.view(source.offset..source.offset + source.length));
        self.under_way += 1;
        self.sent.push(((to, link), Item::Write { target, data }));
    }
    fn store(&mut self, link: PortId, to: Rank, word: WordId, value: u64) {
        self.sent.push(((to, link), Item::Store { word, value }));
    }
    fn fence(&mut self) {
        self.is_fenced = true;
    }
    fn compute(&mut self, _: usize) {
        self.computes = true;
    }
    fn add_at_switch(&mut self, _: PortId, _: WordId, _: u64) {
        panic!("direct collectives ask switches for nothing");
    }
    fn reduced_load(&mut self, _: PortId, _: Span) {
        panic!("direct collectives ask switches for nothing");
    }
    fn multicast_store(&mut self, _: PortId, _: Span) {
        panic!("direct collectives ask switches for nothing");
    }
    fn multicast_reduce(&mut self, _: PortId, _: Span) {
        panic!("direct collectives ask switches for nothing");
    }
    fn multicast_add(&mut self, _: PortId, _: WordId, _: u64) {
        panic!("direct collectives ask switches for nothing");
    }
    fn merged_load(&mut self, _: PortId, _: Rank, _: usize, _: Span) {
        panic!("direct collectives ask switches for nothing");
    }
    fn merged_reduce(&mut self, _: PortId, _: Rank, _: Span, _: usize) {
        panic!("direct collectives ask switches for nothing");
    }
    fn synchronise(&mut self, _: PortId, _: u64, _: u32) {
        panic!("direct collectives ask switches for nothing");
    }
}

/// What a rank's part holds in a collective.
fn part(rank: u16, number: u8) -> Vec<u8> {
    vec![16 * number + rank as u8 + 1; PART]
}

struct Node {
    kernel: SharedDirect,
    accelerator: Accelerator,
    /// The collective that it has, and whether that has ended: its vector is used then, until the next one begins.
    number: u8,
    has_ended: bool,
}

/// What may happen next.
#[derive(Clone, Copy)]
enum Step {
    Deliver((Rank, Rank, PortId)),
    Fence(usize),
    Compute(usize),
    /// The application has used the vector.
    Use(usize),
}

/// AllGathers in a row with that bound, in an order drawn from a seed.
fn gather(longest_copied: usize, seed: u64) {
    let node = |rank: u16| {
        let scratch = Span { offset: LENGTH, length: SharedDirect::scratch_bytes(RANKS, LENGTH) };
        let config = SharedDirectConfig {
            ranks: RANKS,
            rank: Rank(rank),
            granule: 4,
            scratch,
            longest_copied,
            first_flag: WordId(0),
        };
        let accelerator = Accelerator {
            me: Rank(rank),
            memory: Numbers::zeroed(LENGTH + scratch.length),
            words: BTreeMap::new(),
            sent: Vec::new(),
            under_way: 0,
            is_fenced: false,
            computes: false,
        };
        Node { kernel: SharedDirect::new(config), accelerator, number: 0, has_ended: false }
    };
    let mut nodes: Vec<Node> = (0..RANKS).map(node).collect();
    let mut channels: BTreeMap<(Rank, Rank, PortId), VecDeque<Item>> = BTreeMap::new();
    let mut random = SplitMix64::new(seed);
    let begin = |node: &mut Node| {
        let me = node.accelerator.me.0;
        node.accelerator.memory.write(0, Numbers::zeroed(LENGTH).view(0..LENGTH));
        let own = Numbers::from(part(me, node.number));
        node.accelerator.memory.write(usize::from(me) * PART, own.view(0..PART));
        let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
        let span = Span { offset: 0, length: LENGTH };
        let request = InPlaceRequest { collective: Collective::AllGather, reduction, span };
        node.has_ended = node.kernel.start(request, &mut node.accelerator).unwrap();
    };
    nodes.iter_mut().for_each(begin);
    while nodes.iter().any(|node| node.number < TIMES) {
        for node in &mut nodes {
            let me = node.accelerator.me;
            for ((to, link), item) in node.accelerator.sent.drain(..) {
                channels.entry((me, to, link)).or_default().push_back(item);
            }
        }
        let mut steps: Vec<Step> = channels
            .iter()
            .filter(|(_, items)| !items.is_empty())
            .map(|(way, _)| Step::Deliver(*way))
            .collect();
        for (place, node) in nodes.iter().enumerate() {
            let Accelerator { is_fenced, under_way, computes, .. } = node.accelerator;
            steps.extend((is_fenced && under_way == 0).then_some(Step::Fence(place)));
            steps.extend(computes.then_some(Step::Compute(place)));
            steps.extend((node.has_ended && node.number < TIMES).then_some(Step::Use(place)));
        }
        assert!(!steps.is_empty(), "seed {seed}: nothing can happen, and not all have ended");
        match steps[random.draw() as usize % steps.len()] {
            Step::Deliver(way @ (from, to, _)) => {
                match channels.get_mut(&way).and_then(VecDeque::pop_front).expect("it is not empty") {
                    Item::Write { target, data } => {
                        let length = data.length();
                        nodes[to.index()].accelerator.memory.write(target, data.view(0..length));
                        nodes[from.index()].accelerator.under_way -= 1;
                    }
                    Item::Store { word, value } => {
                        let Node { kernel, accelerator, has_ended, .. } = &mut nodes[to.index()];
                        accelerator.words.insert(word, value);
                        *has_ended |= kernel.handle_event(MemoryEvent::Changed { word, value }, accelerator);
                    }
                }
            }
            Step::Fence(place) => {
                let Node { kernel, accelerator, has_ended, .. } = &mut nodes[place];
                accelerator.is_fenced = false;
                *has_ended |= kernel.handle_event(MemoryEvent::Fenced, accelerator);
            }
            Step::Compute(place) => {
                let Node { kernel, accelerator, has_ended, .. } = &mut nodes[place];
                accelerator.computes = false;
                *has_ended |= kernel.handle_event(MemoryEvent::Computed, accelerator);
            }
            Step::Use(place) => {
                let node = &mut nodes[place];
                let right: Vec<u8> = (0..RANKS).flat_map(|rank| part(rank, node.number)).collect();
                let found = &node.accelerator.memory.bytes()[..LENGTH];
                assert_eq!(found, right, "seed {seed}: collective {} at rank {place}", node.number);
                node.number += 1;
                if node.number < TIMES {
                    begin(node);
                }
            }
        }
        nodes.iter().for_each(|node| Kernel::<Numbers>::assert_invariants(&node.kernel));
    }
}

#[test]
fn vectors_that_are_copied_are_right_though_ranks_are_a_collective_apart() {
    (0..3000).for_each(|seed| gather(LENGTH, seed));
}

#[test]
fn vectors_that_are_gathered_in_place_are_written_to_only_when_they_are_not_used_any_more() {
    (0..3000).for_each(|seed| gather(0, seed));
}
