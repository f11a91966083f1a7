//! The states of nodes, the frames, and what each node answers to each input: all computed once, and kept by number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quincunx_engine::{Engine, PortId};

use crate::interned::{Id, Interned, hash_of};
use crate::step::{self, Answer, Local};
use crate::system::{End, Member, NodeId, Renaming, System};

/// What is wrong with a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An engine has panicked: an assertion of its own, or an invariant.
    Panic {
        /// Where.
        node: NodeId,
        /// What it said.
        message: String,
    },
    /// A node's owner was told something wrong.
    Wrong {
        /// Where.
        node: NodeId,
        /// What is wrong.
        message: String,
    },
    /// A node refused what its owner asked for.
    Refused {
        /// Where.
        node: NodeId,
        /// Why.
        message: String,
    },
    /// A node sends without end while nothing arrives.
    Endless {
        /// Where.
        node: NodeId,
    },
    /// Two cases that the system calls symmetric differ: explore without symmetries.
    Asymmetry {
        /// Where.
        node: NodeId,
    },
    /// Nothing can happen any more, and somebody has not got what it wanted.
    Stuck,
    /// Whatever happens, the end is not reached any more.
    Livelock,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Panic { message, .. } => write!(f, "an engine panics: {message}"),
            Self::Wrong { message, .. } | Self::Refused { message, .. } => write!(f, "{message}"),
            Self::Endless { .. } => write!(f, "a node sends without end while nothing arrives"),
            Self::Asymmetry { .. } => {
                write!(f, "two cases that were called symmetric differ; explore without symmetries")
            }
            Self::Stuck => write!(f, "nothing can happen any more, and not everybody is done"),
            Self::Livelock => write!(f, "from here on the end is never reached, whatever happens"),
        }
    }
}

/// Marks a frame that is late: it arrives at any time, however long after others, or after time-outs.
pub(crate) const LATE: u32 = 1 << 29;

/// What can happen to a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Input {
    /// A frame arrives.
    Frame(Id),
    /// A frame arrives late: to the node it is one like others.
    Late(Id),
    /// A timer fires.
    Timer(Id),
    /// A port takes a frame.
    Slot(PortId),
    /// The owner asks for what it wants.
    Command,
}

impl Input {
    pub(crate) fn encode(self) -> u32 {
        match self {
            Self::Frame(id) => id,
            Self::Late(id) => LATE | id,
            Self::Timer(id) => 2 << 29 | id,
            Self::Slot(port) => 3 << 29 | u32::from(port.0),
            Self::Command => 4 << 29,
        }
    }

    pub(crate) fn decode(code: u32) -> Self {
        let value = code & (LATE - 1);
        match code >> 29 {
            0 => Self::Frame(value),
            1 => Self::Late(value),
            2 => Self::Timer(value),
            3 => Self::Slot(PortId(value as u16)),
            _ => Self::Command,
        }
    }

    /// The frame that arrives, if one does.
    pub(crate) fn frame(self) -> Option<Id> {
        match self {
            Self::Frame(id) | Self::Late(id) => Some(id),
            _ => None,
        }
    }

    /// The input to which every node answers the same.
    fn twin(self) -> Option<Self> {
        match self {
            Self::Frame(id) => Some(Self::Late(id)),
            Self::Late(id) => Some(Self::Frame(id)),
            _ => None,
        }
    }
}

/// A frame on a link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Flight<H, P> {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) header: H,
    pub(crate) payload: P,
}

/// What exploring needs to know of a node's state.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Slots and commands that it wants.
    pub(crate) wants: Arc<[u32]>,
    /// Timers that may fire.
    pub(crate) timers: Arc<[u32]>,
    pub(crate) is_done: bool,
}

/// What exploring needs to know of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// The lane, of a direction of a link, that it is on.
    pub(crate) channel: u16,
    /// Where it arrives.
    pub(crate) to: NodeId,
}

/// A node's answer.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) next: Id,
    pub(crate) sends: Arc<[Id]>,
    pub(crate) fault: Option<Fault>,
}

/// An answer, and whether the input is known to come.
#[derive(Clone, Copy)]
struct Known {
    outcome: u32,
    is_asked: bool,
}

pub(crate) type LocalOf<S> = Local<<S as System>::Engine, <S as System>::Owner>;
type FlightOf<S> =
    Flight<<<S as System>::Engine as Engine>::Header, <<S as System>::Engine as Engine>::Payload>;
type TimerOf<S> = <<S as System>::Engine as Engine>::Timer;

pub(crate) struct World<'s, S: System> {
    system: &'s S,
    at_once: bool,
    /// The symmetries; the first changes nothing.
    renamings: Vec<Renaming>,
    /// `after[g][h]`: the number of renaming `g` after renaming `h`.
    after: Vec<Vec<usize>>,
    across: BTreeMap<End, End>,
    channels: BTreeMap<End, u16>,
    locals: Interned<LocalOf<S>>,
    /// For each state of a node and each symmetry: the state that it is renamed to, and that state's hash.
    images: Vec<Id>,
    hashes: Vec<u64>,
    facts: Vec<Facts>,
    flights: Interned<FlightOf<S>>,
    flight_images: Vec<Id>,
    flight_hashes: Vec<u64>,
    ways: Vec<Way>,
    timers: Interned<TimerOf<S>>,
    answers: HashMap<(Id, u32), Known, FixedState>,
    outcomes: Vec<Outcome>,
    /// States of nodes and inputs that may come there, in the order in which that became known.
    asked: Vec<(Id, Input)>,
    pub(crate) initial: Vec<Id>,
}

/// More lanes than any link has.
const LANES: u16 = 8;

/// Not known yet.
const NONE: Id = Id::MAX;

impl<'s, S: System> World<'s, S> {
    pub(crate) fn new(system: &'s S, at_once: bool, with_symmetries: bool) -> Self {
        let links = system.links();
        let members = system.members();
        let renamings = renamings(system, members.len(), &links, with_symmetries);
        let number = |renaming: &Renaming| {
            renamings.iter().position(|other| other == renaming).expect("symmetries make a group")
        };
        let after = renamings
            .iter()
            .map(|g| renamings.iter().map(|h| number(&g.after(h, &links))).collect())
            .collect();
        let ends = links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let across: BTreeMap<End, End> = ends.collect();
        let channels = across.keys().enumerate().map(|(index, &end)| (end, index as u16)).collect();
        let mut world = Self {
            system,
            at_once,
            renamings,
            after,
            across,
            channels,
            locals: Interned::new(),
            images: Vec::new(),
            hashes: Vec::new(),
            facts: Vec::new(),
            flights: Interned::new(),
            flight_images: Vec::new(),
            flight_hashes: Vec::new(),
            ways: Vec::new(),
            timers: Interned::new(),
            answers: HashMap::with_hasher(FixedState::with_seed(0)),
            outcomes: Vec::new(),
            asked: Vec::new(),
            initial: Vec::new(),
        };
        for (index, Member { engine, owner }) in members.into_iter().enumerate() {
            let local = Local { node: NodeId(index as u16), engine, timers: BTreeSet::new(), owner };
            let id = world.intern_local(local);
            world.initial.push(id);
        }
        let (order, initial) = (world.order(), world.initial.clone());
        for (node, &id) in initial.iter().enumerate() {
            for g in 0..order {
                let image = world.renamings[g].node(NodeId(node as u16));
                world.images[id as usize * order + g] = initial[image.index()];
            }
        }
        world.refresh_hashes(&initial);
        world
    }

    /// How many symmetries there are.
    pub(crate) fn order(&self) -> usize {
        self.renamings.len()
    }

    /// How many states of nodes are known.
    pub(crate) fn locals(&self) -> usize {
        self.locals.len()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    pub(crate) fn facts(&self) -> &[Facts] {
        &self.facts
    }

    pub(crate) fn flight_hashes(&self) -> &[u64] {
        &self.flight_hashes
    }

    pub(crate) fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// States of nodes with inputs that may come there.
    pub(crate) fn asked(&self) -> &[(Id, Input)] {
        &self.asked
    }

    pub(crate) fn local(&self, id: Id) -> &LocalOf<S> {
        self.locals.get(id)
    }

    pub(crate) fn flight(&self, id: Id) -> &FlightOf<S> {
        self.flights.get(id)
    }

    pub(crate) fn timer(&self, id: Id) -> TimerOf<S> {
        *self.timers.get(id)
    }

    /// The answer of a node in state `local` to an input, whether or not that may come there.
    pub(crate) fn outcome(&mut self, local: Id, input: Input) -> &Outcome {
        let key = (local, input.encode());
        if !self.answers.contains_key(&key) {
            self.compute(local, input);
        }
        &self.outcomes[self.answers[&key].outcome as usize]
    }

    /// The answer of a node in state `local` to an input that may come there; then so may all that is symmetric to it.
    pub(crate) fn ask(&mut self, local: Id, input: Input) -> &Outcome {
        self.outcome(local, input);
        if !self.answers[&(local, input.encode())].is_asked {
            for g in 0..self.order() {
                let (case, input) = self.image(g, local, input);
                let known = self.answers.get_mut(&(case, input.encode())).expect("all cases are computed");
                if !core::mem::replace(&mut known.is_asked, true) {
                    self.asked.push((case, input));
                }
            }
        }
        self.answer(local, input)
    }

    /// An answer that is known.
    pub(crate) fn answer(&self, local: Id, input: Input) -> &Outcome {
        &self.outcomes[self.answers[&(local, input.encode())].outcome as usize]
    }

    /// Computes an answer, and those of all cases that are symmetric to it.
    fn compute(&mut self, local: Id, input: Input) {
        let order = self.order();
        let mut cases = Vec::with_capacity(order);
        for g in 0..order {
            let (case, input) = self.image(g, local, input);
            cases.push(self.compute_one(case, input));
        }
        if order == 1 {
            let next = self.outcomes[cases[0] as usize].next;
            self.images[next as usize] = next;
            return self.refresh_hashes(&[next]);
        }
        if !self.is_symmetric(&cases) {
            let node = self.locals.get(local).node;
            self.outcomes[cases[0] as usize].fault.get_or_insert(Fault::Asymmetry { node });
        }
    }

    /// Compares the answers to cases that are symmetric, and notes which states are renamed to which.
    fn is_symmetric(&mut self, cases: &[u32]) -> bool {
        let order = self.order();
        let first = self.outcomes[cases[0] as usize].clone();
        let next: Vec<Id> = cases.iter().map(|&case| self.outcomes[case as usize].next).collect();
        let mut symmetric = true;
        for (g, &case) in cases.iter().enumerate() {
            let case = &self.outcomes[case as usize];
            // Frames of one channel are compared in order, channels are not.
            let in_order = |mut sends: Vec<Id>| {
                sends.sort_by_key(|&flight| self.ways[flight as usize].channel);
                sends
            };
            let renamed = first.sends.iter().map(|&flight| self.flight_images[flight as usize * order + g]);
            symmetric &= in_order(renamed.collect()) == in_order(case.sends.to_vec());
            symmetric &= first.fault.is_some() == case.fault.is_some();
        }
        for (h, &state) in next.iter().enumerate() {
            for g in 0..order {
                let image = &mut self.images[state as usize * order + g];
                let expected = next[self.after[g][h]];
                if *image == NONE {
                    *image = expected;
                }
                symmetric &= *image == expected;
            }
        }
        self.refresh_hashes(&next);
        symmetric
    }

    /// What a state and an input are renamed to.
    fn image(&self, g: usize, local: Id, input: Input) -> (Id, Input) {
        let renaming = &self.renamings[g];
        let node = self.locals.get(local).node;
        let frame = |id: Id| self.flight_images[id as usize * self.order() + g];
        let input = match input {
            Input::Frame(id) => Input::Frame(frame(id)),
            Input::Late(id) => Input::Late(frame(id)),
            Input::Timer(id) if g == 0 => Input::Timer(id),
            Input::Timer(id) => {
                let timer = self.system.rename_timer(renaming, node, *self.timers.get(id));
                Input::Timer(self.timers.find(&timer).unwrap_or(id))
            }
            Input::Slot(port) => Input::Slot(renaming.port(node, port)),
            Input::Command => Input::Command,
        };
        (self.images[local as usize * self.order() + g], input)
    }

    fn compute_one(&mut self, local: Id, input: Input) -> u32 {
        let known = |input: Input| self.answers.get(&(local, input.encode())).map(|known| known.outcome);
        if let Some(outcome) = known(input) {
            return outcome;
        }
        if let Some(outcome) = input.twin().and_then(known) {
            self.answers.insert((local, input.encode()), Known { outcome, is_asked: false });
            return outcome;
        }
        let answer = self.run(self.locals.get(local), input);
        let next = if answer.fault.is_some() { local } else { self.intern_local(answer.next) };
        let sends = answer.sends.into_iter().map(|flight| self.intern_flight(flight)).collect();
        let index = self.outcomes.len() as u32;
        self.outcomes.push(Outcome { next, sends, fault: answer.fault });
        self.answers.insert((local, input.encode()), Known { outcome: index, is_asked: false });
        index
    }

    /// Runs the engine.
    pub(crate) fn run(&self, local: &LocalOf<S>, input: Input) -> Answer<S::Engine, S::Owner> {
        step::run(self, local, input)
    }

    /// Whether nodes act as soon as they want to.
    pub(crate) fn at_once(&self) -> bool {
        self.at_once
    }

    /// The network's description.
    pub(crate) fn system(&self) -> &'s S {
        self.system
    }

    /// The other end of a link.
    pub(crate) fn across(&self, end: End) -> Option<End> {
        self.across.get(&end).copied()
    }

    fn intern_local(&mut self, local: LocalOf<S>) -> Id {
        let (id, new) = self.locals.intern(local);
        if new {
            let facts = self.facts_of(self.locals.get(id).clone());
            self.facts.push(facts);
            self.images.resize(self.images.len() + self.order(), NONE);
            self.hashes.resize(self.hashes.len() + self.order(), 0);
        }
        id
    }

    fn facts_of(&mut self, local: LocalOf<S>) -> Facts {
        let slots = self.ports(local.node).filter(|&port| local.engine.wants_transmit(port)).map(Input::Slot);
        let command = self.system.wants_command(local.node, &local.owner).then_some(Input::Command);
        let wants = slots.chain(command).map(Input::encode).collect();
        let timers =
            local.timers.iter().map(|&timer| Input::Timer(self.timers.intern(timer).0).encode()).collect();
        Facts { wants, timers, is_done: self.is_done(&local) }
    }

    /// Whether a node's owner has all that it wanted.
    pub(crate) fn is_done(&self, local: &LocalOf<S>) -> bool {
        self.system.is_done(local.node, &local.owner)
    }

    /// The ports of a node that have links.
    pub(crate) fn ports(&self, node: NodeId) -> impl Iterator<Item = PortId> {
        let first = End { node, port: PortId(0) };
        let last = End { node, port: PortId(u16::MAX) };
        self.across.range(first..=last).map(|(end, _)| end.port)
    }

    /// A frame and all its images.
    fn intern_flight(&mut self, flight: FlightOf<S>) -> Id {
        let (id, new) = self.note_flight(flight);
        if new {
            let order = self.order();
            let orbit: Vec<Id> = (0..order)
                .map(|g| {
                    let flight = self.flights.get(id);
                    let renaming = &self.renamings[g];
                    let (header, payload) = match g {
                        0 => (flight.header.clone(), flight.payload.clone()),
                        _ => self.system.rename_frame(renaming, flight.from, &flight.header, &flight.payload),
                    };
                    let image = Flight {
                        from: renaming.end(flight.from),
                        to: renaming.end(flight.to),
                        header,
                        payload,
                    };
                    self.note_flight(image).0
                })
                .collect();
            for (h, &flight) in orbit.iter().enumerate() {
                for g in 0..order {
                    self.flight_images[flight as usize * order + g] = orbit[self.after[g][h]];
                }
            }
            let hashes: Vec<u64> = orbit.iter().map(|&flight| hash_of(self.flights.get(flight))).collect();
            for (h, &flight) in orbit.iter().enumerate() {
                for g in 0..order {
                    self.flight_hashes[flight as usize * order + g] = hashes[self.after[g][h]];
                }
            }
        }
        id
    }

    fn note_flight(&mut self, flight: FlightOf<S>) -> (Id, bool) {
        let lane = self.system.lane(&flight.header);
        let way = Way { channel: self.channels[&flight.from] * LANES + lane, to: flight.to.node };
        let (id, new) = self.flights.intern(flight);
        if new {
            self.ways.push(way);
            self.flight_images.resize(self.flight_images.len() + self.order(), NONE);
            self.flight_hashes.resize(self.flight_hashes.len() + self.order(), 0);
        }
        (id, new)
    }

    /// Puts down the hashes of the images of states whose images are known.
    fn refresh_hashes(&mut self, states: &[Id]) {
        let order = self.order();
        for &state in states {
            for g in 0..order {
                let at = state as usize * order + g;
                if self.hashes[at] == 0 && self.images[at] != NONE {
                    self.hashes[at] = hash_of(self.locals.get(self.images[at]));
                }
            }
        }
    }
}

/// Symmetries in use at most: each costs a hash per state, and a star of eight has 40,320.
const MOST_SYMMETRIES: usize = 64;

/// The group that a system's symmetries generate, the one that changes nothing first. Generators that would make it too
/// large are left out: any part of the symmetries that is a group will do.
fn renamings<S: System>(
    system: &S,
    nodes: usize,
    links: &[[End; 2]],
    with_symmetries: bool,
) -> Vec<Renaming> {
    let nothing = Renaming::new((0..nodes as u16).map(NodeId).collect(), links);
    let mut group = vec![nothing];
    let mut generators = Vec::new();
    for nodes in if with_symmetries { system.symmetries() } else { Vec::new() } {
        generators.push(Renaming::new(nodes, links));
        match closure(&group, &generators, links) {
            Some(larger) => group = larger,
            None => {
                generators.pop();
            }
        }
    }
    group
}

/// The group that `generators` make of `group`, if it is not too large.
fn closure(group: &[Renaming], generators: &[Renaming], links: &[[End; 2]]) -> Option<Vec<Renaming>> {
    let mut group = group.to_vec();
    let mut next = 0;
    while next < group.len() {
        for generator in generators {
            let product = generator.after(&group[next], links);
            if !group.contains(&product) {
                group.push(product);
            }
        }
        if group.len() > MOST_SYMMETRIES {
            return None;
        }
        next += 1;
    }
    Some(group)
}
