//! Ten thousand groups live and end while nodes are killed at random moments. A model of the switches' memory, which knows only what nodes
//! have been told and have said, agrees with the manager after each step; no part is given to two groups, and in the end all is free and no
//! rank waits.

use crate::site::{config, host, request, set, switch};
use quincunx_collective::GroupId;
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_control::{
    Action, Instruction, Manager, ManagerConfig, ManagerTimer, NodeDescription, Progress, Report, RequestId,
};
use quincunx_design::{FabricKind, GroupContext};
use quincunx_designs::CATALOG;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SWITCHES: usize = 3;
const HOSTS: usize = 5;
const LIFECYCLES: usize = 10_000;

fn description(number: usize) -> NodeDescription {
    let epic = || ["epic-1", "epic-2", "epic-3"].map(|name| CATALOG.find(name, FabricKind::Tree).unwrap());
    if number < SWITCHES { switch(number as u8).offering(epic()) } else { host((number - SWITCHES) as u8) }
}

/// Xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        (self.0 >> 16) as usize % end
    }
}

/// A node that does as it is told, later.
#[derive(Default)]
struct Node {
    /// Words of the manager that it has not read.
    unread: VecDeque<Instruction>,
    /// What it has installed, and which part of its memory that is.
    held: BTreeMap<GroupId, Region>,
    /// Groups on which its rank waits for the others: it has been told of neither beginning nor end.
    waits: BTreeSet<GroupId>,
}

struct World {
    manager: Manager,
    nodes: BTreeMap<String, Node>,
    timers: BTreeSet<ManagerTimer>,
    requests: u64,
    living: BTreeSet<GroupId>,
    begun: usize,
    made_anew: usize,
    moves: usize,
}

impl World {
    fn new() -> Self {
        let config = ManagerConfig { recreates: true, ..config() };
        let mut world = Self {
            manager: Manager::new(CATALOG, config),
            nodes: BTreeMap::new(),
            timers: BTreeSet::new(),
            requests: 0,
            living: BTreeSet::new(),
            begun: 0,
            made_anew: 0,
            moves: 0,
        };
        (0..SWITCHES + HOSTS).for_each(|number| world.start(number));
        world
    }

    fn step(&mut self, act: impl FnOnce(&mut Manager, &mut Vec<Action>)) {
        let mut actions = Vec::new();
        act(&mut self.manager, &mut actions);
        for action in actions {
            match action {
                Action::Instruct { node, instruction } => {
                    let node = self.nodes.get_mut(&node).expect("who is told something is there");
                    node.unread.push_back(instruction);
                }
                Action::Answer { answer: Ok(summary), .. } => {
                    self.living.insert(summary.group);
                }
                Action::Recreate { from, group } => {
                    self.living.remove(&from);
                    self.living.insert(group);
                    self.made_anew += 1;
                }
                Action::SetTimer { timer, .. } => {
                    self.timers.insert(timer);
                }
                Action::CancelTimer { timer } => {
                    self.timers.remove(&timer);
                }
                Action::Begin { .. } => self.begun += 1,
                Action::GivenBack { group } => _ = self.living.remove(&group),
                Action::Keep(_) | Action::Answer { answer: Err(_), .. } | Action::Destroyed { .. } => {}
            }
        }
        self.check();
    }

    fn start(&mut self, number: usize) {
        let description = description(number);
        if self.nodes.contains_key(&description.name) {
            return;
        }
        self.nodes.insert(description.name.clone(), Node::default());
        self.step(|manager, out| manager.attach(description, &[], out).unwrap());
    }

    fn kill(&mut self, number: usize) {
        let name = description(number).name;
        if self.nodes.remove(&name).is_some() {
            self.step(|manager, out| manager.detach(&name, "killed", out));
        }
    }

    fn ask(&mut self, random: &mut Random) {
        let design = ["epic-1", "epic-2", "epic-3", "ring"][random.below(4)];
        let mut wanted = request(2, design);
        let first = random.below(HOSTS);
        let second = (first + 1 + random.below(HOSTS - 1)) % HOSTS;
        wanted.members = [first, second].map(|number| description(SWITCHES + number).name).into();
        // From a few packets to a third of a switch.
        set(&mut wanted, "group.message", [2, 32, 200][random.below(3)]);
        self.requests += 1;
        let request = RequestId(self.requests);
        self.step(|manager, out| manager.init_group(request, &wanted, out));
    }

    fn end(&mut self, group: GroupId) {
        self.living.remove(&group);
        self.requests += 1;
        let request = RequestId(self.requests);
        // It may have failed so long ago that nobody knows it.
        self.step(|manager, out| _ = manager.destroy_group(request, group, out));
    }

    /// A node reads one word, and answers.
    fn read(&mut self, name: &str, random: &mut Random) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(instruction) = node.unread.pop_front() else { return };
        let (group, report) = match instruction {
            Instruction::Install(context) => {
                let GroupContext { group, memory_offset: offset, memory: length, .. } = *context;
                let region = Region { offset, length };
                let clash = node.held.iter().find(|(_, other)| other.overlaps(&region));
                assert_eq!(clash, None, "group {group} gets {region:?} of {name}, which is taken");
                node.held.insert(group, region);
                node.waits.insert(group);
                (group, Report::Installed)
            }
            Instruction::Ready(group) => {
                node.waits.remove(&group);
                return;
            }
            Instruction::Resume { group, from, .. } => {
                node.waits.remove(&group);
                node.waits.remove(&from);
                return;
            }
            Instruction::Suspend { group, .. } => {
                node.held.remove(&group);
                node.waits.insert(group);
                let complete = 6 + random.below(2) as u64;
                (group, Report::Suspended(Progress { complete, repeats_from: complete }))
            }
            Instruction::MoveMemory(MovedBlock { from, to }) => {
                let moved = Region { offset: to, ..from };
                let own = node.held.iter().find(|(_, region)| **region == from).map(|(group, _)| *group);
                let clash =
                    node.held.iter().find(|(group, region)| Some(**group) != own && region.overlaps(&moved));
                assert_eq!(clash, None, "{from:?} of {name} is moved to {to}, which is taken");
                // Its group may be over.
                if let Some(own) = own {
                    node.held.insert(own, moved);
                    self.moves += 1;
                }
                return;
            }
            Instruction::TellCalls(_)
            | Instruction::TellTimes(_)
            | Instruction::ProbePaths(_)
            | Instruction::TellPaths(_) => {
                unreachable!("nothing fails here but nodes, and nobody asks")
            }
            Instruction::Remove(group) | Instruction::Failed { group, .. } => {
                node.held.remove(&group);
                node.waits.remove(&group);
                (group, Report::Removed)
            }
        };
        let name = name.to_string();
        self.step(|manager, out| manager.handle_report(&name, group, report, out).unwrap());
    }

    /// What nodes have, the manager does not take for free.
    fn check(&self) {
        for (name, node) in &self.nodes {
            let given: BTreeMap<GroupId, Region> = self
                .manager
                .holdings(name)
                .into_iter()
                .map(|(group, held)| (group, Region { offset: held.offset, length: held.memory }))
                .collect();
            for (group, region) in &node.held {
                let has = given.get(group);
                // A host has no memory to give.
                assert!(has.is_some(), "{name} has group {group}, and the manager takes that for free");
                // Where what is to be moved is, it says itself when it has moved it.
                let moves = |word: &Instruction| matches!(word, Instruction::MoveMemory(_));
                if name.starts_with('s') && !node.unread.iter().any(moves) {
                    assert_eq!(has, Some(region), "{name} and the manager disagree on group {group}");
                }
            }
        }
    }

    /// All that is said is read, and no node dies any more.
    fn settle(&mut self, random: &mut Random) {
        while let Some(name) =
            self.nodes.iter().find(|(_, node)| !node.unread.is_empty()).map(|(name, _)| name.clone())
        {
            self.read(&name, random);
        }
    }
}

#[test]
fn ten_thousand_lives_with_kills_at_random_moments_leak_nothing_and_hang_nobody() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut world = World::new();
    let mut steps = 0;
    while world.begun < LIFECYCLES {
        match random.below(1000) {
            0..60 => world.ask(&mut random),
            60..110 => {
                let place = random.below(world.living.len().max(1));
                if let Some(&group) = world.living.iter().nth(place) {
                    world.end(group);
                }
            }
            110..116 => world.kill(random.below(SWITCHES + HOSTS)),
            116..150 => world.start(random.below(SWITCHES + HOSTS)),
            150..152 => {
                let place = random.below(world.timers.len().max(1));
                if let Some(timer) = world.timers.iter().nth(place).copied() {
                    world.timers.remove(&timer);
                    world.step(|manager, out| manager.handle_timer(timer, out));
                }
            }
            _ => {
                let names: Vec<String> = world.nodes.keys().cloned().collect();
                if !names.is_empty() {
                    world.read(&names[random.below(names.len())], &mut random);
                }
            }
        }
        steps += 1;
        if steps % 5_000 == 0 {
            world.settle(&mut random);
            for (name, node) in &world.nodes {
                assert_eq!(
                    node.waits,
                    BTreeSet::new(),
                    "a rank at {name} waits, and nobody has a word for it"
                );
            }
        }
    }
    // What waits for room gets it when others end.
    world.settle(&mut random);
    while !world.living.is_empty() {
        for group in world.living.clone() {
            world.end(group);
        }
        world.settle(&mut random);
    }
    assert!(world.manager.is_idle());
    assert!(world.made_anew > 200, "only {} groups were made anew", world.made_anew);
    assert!(world.moves > 50, "only {} blocks were moved", world.moves);
    for number in 0..SWITCHES + HOSTS {
        let name = description(number).name;
        assert_eq!(world.manager.holdings(&name), [], "{name} is not free");
        let held = world.nodes.get(&name).map(|node| node.held.len());
        assert!(held.is_none_or(|held| held == 0), "{name} has groups that the manager does not know");
    }
}
