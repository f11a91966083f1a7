//! Ranks and switches of groups that share memory, as the checker drives them: the locks are those of `nodes`, and what is locked is a slot
//! that holds who has contributed to which invocation of which group.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use quincunx_collective::{GroupId, LengthOnly};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::MemoryPart;
use quincunx_nodes::locks::{
    LockEdges, LockMutation, LockRank, LockStep, LockSwitch, Number, Recorder, Word,
};
use quincunx_units::{ByteCount, Duration, Instant};

/// What crosses the fabric for a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockFrame {
    /// The group.
    pub group: GroupId,
    /// The invocation.
    pub number: Number,
    /// What it says.
    pub says: Says,
}

/// What a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Says {
    /// About locks.
    Word(Word),
    /// A contribution, upward.
    Data,
    /// The result, downward.
    Result,
}

/// What owners are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockEvent {
    /// A rank's invocation has ended; it ran in the tree.
    Ran(bool),
    /// A switch has so many locks held.
    Held(usize),
    /// A packet has come for memory that its group has not locked, or that another group has, too.
    Foreign(GroupId),
}

/// Why a frame is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockDrop {
    /// It says nothing new.
    Old,
}

/// A rank's only timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Again;

/// A rank is asked to run a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin;

const AGAIN: Duration = Duration::from_millis(1);
const UP: PortId = PortId(0);
const NOTHING: LengthOnly = LengthOnly::new(0);

/// What is in a switch's memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot {
    group: GroupId,
    number: Number,
    have: BTreeSet<u16>,
    has_result: bool,
}

/// A group's part of a switch: the locks, and the port behind each edge.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Part {
    locks: LockSwitch,
    edges: LockEdges,
    ports: Vec<PortId>,
}

/// A rank or a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LockNode {
    /// A rank of a group; `waits` for the result of the tree.
    Rank {
        /// Its group.
        group: GroupId,
        /// Its locks.
        locks: LockRank,
        /// It has sent its contribution, and has no result.
        waits: bool,
    },
    /// A switch with memory for one group at a time.
    Switch(Box<SwitchNode>),
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchNode {
    recorder: Recorder,
    parts: BTreeMap<GroupId, Part>,
    slot: Option<Slot>,
    told: usize,
}

/// How a node is set up.
#[derive(Clone, Debug)]
pub enum LockConfig {
    /// A rank of that group, and how often it asks again.
    Rank(GroupId, u8, Option<LockMutation>),
    /// A switch, with the ports of each group: to the parent, if there is one, and to the children.
    Switch(Vec<(GroupId, Option<PortId>, Vec<PortId>)>, Option<LockMutation>),
}

fn say(port: PortId, frame: LockFrame, out: &mut impl Sink<LockNode>) {
    out.transmit(port, Frame { header: &frame, payload: NOTHING });
}

impl SwitchNode {
    fn new(groups: Vec<(GroupId, Option<PortId>, Vec<PortId>)>, mutation: Option<LockMutation>) -> Self {
        let memory = MemoryPart { offset: ByteCount::new(0), length: ByteCount::new(1) };
        let part = |(group, parent, children): (GroupId, Option<PortId>, Vec<PortId>)| {
            let first = u16::from(parent.is_some());
            let edges =
                LockEdges { parent: parent.map(|_| 0), children: (first..).take(children.len()).collect() };
            let ports = parent.into_iter().chain(children).collect();
            (group, Part { locks: LockSwitch::new(group, edges.clone(), memory), edges, ports })
        };
        let parts = groups.into_iter().map(part).collect();
        Self { recorder: Recorder::for_checker(mutation), parts, slot: None, told: 0 }
    }

    fn take(&mut self, port: PortId, frame: LockFrame, out: &mut impl Sink<LockNode>) {
        let LockFrame { group, number, says } = frame;
        let Self { recorder, parts, slot, told } = self;
        let found = parts.get_mut(&group);
        let place = found.and_then(|part| {
            let edge = part.ports.iter().position(|&known| known == port)? as u16;
            Some((part, edge))
        });
        let Some((part, edge)) = place else { return out.drop_frame(port, LockDrop::Old) };
        let taken = match says {
            Says::Word(word) => {
                let mut said = Vec::new();
                let taken = part.locks.hear(edge, word, number, recorder, &mut said);
                for (edge, word, number) in said {
                    let frame = LockFrame { group, number, says: Says::Word(word) };
                    say(part.ports[usize::from(edge)], frame, out);
                }
                taken
            }
            _ if number != part.locks.number() => false,
            Says::Data | Says::Result => {
                let is_shared =
                    slot.as_ref().is_some_and(|slot| slot.group != group && recorder.holds(slot.group));
                if !part.locks.is_running() || !recorder.holds(group) || is_shared {
                    out.emit(LockEvent::Foreign(group));
                }
                part.combine(edge, frame, slot, out)
            }
        };
        if !taken {
            out.drop_frame(port, LockDrop::Old);
        }
        let held = recorder.held();
        if core::mem::replace(told, held) != held {
            out.emit(LockEvent::Held(held));
        }
    }
}

impl Part {
    /// A contribution, or the result, at the slot.
    fn combine(
        &self,
        edge: u16,
        frame: LockFrame,
        slot: &mut Option<Slot>,
        out: &mut impl Sink<LockNode>,
    ) -> bool {
        let LockFrame { group, number, says } = frame;
        let is_own = |slot: &Slot| slot.group == group && slot.number == number;
        if !slot.as_ref().is_some_and(is_own) {
            *slot = Some(Slot { group, number, have: BTreeSet::new(), has_result: false });
        }
        let slot = slot.as_mut().expect("it has just been made");
        let is_upward = self.edges.children.contains(&edge);
        if is_upward != (says == Says::Data) {
            return false;
        }
        let port = |edge: u16| self.ports[usize::from(edge)];
        if is_upward {
            slot.have.insert(edge);
            // A rank that asks again gets the result again, and all below this switch with it, as in EPIC's Mode-II.
            if slot.have.len() < self.edges.children.len() {
                return true;
            }
            if let Some(parent) = self.edges.parent.filter(|_| !slot.has_result) {
                say(port(parent), frame, out);
                return true;
            }
        } else if slot.have.len() < self.edges.children.len() {
            return false;
        }
        slot.has_result = true;
        for &child in &self.edges.children {
            say(port(child), LockFrame { says: Says::Result, ..frame }, out);
        }
        true
    }
}

/// Carries out what the locks of a rank say.
fn perform(
    group: GroupId,
    locks: &mut LockRank,
    waits: &mut bool,
    mut steps: Vec<LockStep>,
    out: &mut impl Sink<LockNode>,
) {
    let number = locks.number();
    for step in core::mem::take(&mut steps) {
        match step {
            LockStep::Say(word, number) => {
                say(UP, LockFrame { group, number, says: Says::Word(word) }, out);
            }
            LockStep::SetTimer | LockStep::Pause => out.set_timer(Again, AGAIN),
            LockStep::CancelTimer => out.cancel_timer(Again),
            LockStep::Run { granted: true } => {
                *waits = true;
                say(UP, LockFrame { group, number, says: Says::Data }, out);
                out.set_timer(Again, AGAIN);
            }
            // Hosts among themselves need nothing of the switches.
            LockStep::Run { granted: false } => {
                locks.end(&mut steps);
                out.emit(LockEvent::Ran(false));
            }
        }
    }
    assert!(steps.is_empty(), "an invocation among hosts ends without a word");
}

impl Engine for LockNode {
    type Config = LockConfig;
    type ConfigError = Infallible;
    type Header = LockFrame;
    type Payload = LengthOnly;
    type Timer = Again;
    type Command = Begin;
    type Rejected = Infallible;
    type Event = LockEvent;
    type DropReason = LockDrop;

    fn new(config: LockConfig) -> Result<Self, Infallible> {
        Ok(match config {
            LockConfig::Rank(group, tries, mutation) => {
                Self::Rank { group, locks: LockRank::new(tries, mutation), waits: false }
            }
            LockConfig::Switch(groups, mutation) => Self::Switch(Box::new(SwitchNode::new(groups, mutation))),
        })
    }

    fn handle_frame(
        &mut self,
        _: Instant,
        port: PortId,
        frame: Frame<'_, LockFrame, LengthOnly>,
        out: &mut impl Sink<Self>,
    ) {
        let (group, locks, waits) = match self {
            Self::Switch(switch) => return switch.take(port, *frame.header, out),
            Self::Rank { group, locks, waits } => (*group, locks, waits),
        };
        let mut steps = Vec::new();
        let taken = match frame.header.says {
            Says::Word(word) => locks.hear(word, frame.header.number, &mut steps),
            Says::Result if *waits && frame.header.number == locks.number() => {
                *waits = false;
                out.cancel_timer(Again);
                locks.end(&mut steps);
                out.emit(LockEvent::Ran(true));
                true
            }
            Says::Result | Says::Data => false,
        };
        if !taken {
            out.drop_frame(port, LockDrop::Old);
        }
        perform(group, locks, waits, steps, out);
    }

    fn handle_timer(&mut self, _: Instant, Again: Again, out: &mut impl Sink<Self>) {
        let Self::Rank { group, locks, waits } = self else { return };
        if *waits {
            say(UP, LockFrame { group: *group, number: locks.number(), says: Says::Data }, out);
            return out.set_timer(Again, AGAIN);
        }
        let mut steps = Vec::new();
        locks.again(&mut steps);
        perform(*group, locks, waits, steps, out);
    }

    fn handle_command(
        &mut self,
        _: Instant,
        Begin: Begin,
        out: &mut impl Sink<Self>,
    ) -> Result<(), Infallible> {
        if let Self::Rank { group, locks, waits } = self {
            let mut steps = Vec::new();
            locks.ask(&mut steps);
            perform(*group, locks, waits, steps, out);
        }
        Ok(())
    }

    fn wants_transmit(&self, _: PortId) -> bool {
        false
    }

    fn handle_transmit_slot(&mut self, _: Instant, _: PortId, _: &mut impl Sink<Self>) {}

    fn assert_invariants(&self) {
        if let Self::Switch(switch) = self {
            switch.recorder.assert_invariants();
            switch.parts.values().for_each(|part| part.locks.assert_invariants(&switch.recorder));
        }
    }
}
