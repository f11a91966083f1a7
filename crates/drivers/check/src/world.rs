//! The node states, the frames, and what each node answers to each input: all computed once, and kept by number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quincunx_engine::Engine;
use quincunx_network::OrderingClass;

use crate::fault::Fault;
use crate::input::Input;
use crate::interned::{Id, Interned, hash_of};
use crate::step::{self, Answer, Flight, NodeState, NodeStateOf, Setting, Stimulus};
use crate::system::{End, Member, NodeId, Renaming, System};

/// What exploring needs to know of a node's state.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Slots and commands that it wants.
    pub(crate) wants: Arc<[u32]>,
    /// Timers that may fire.
    pub(crate) timers: Arc<[u32]>,
    pub(crate) is_done: bool,
    /// It may stay as it is, whatever it wants.
    pub(crate) may_wait: bool,
    /// Notices that its owner has called for, and those that it has not got, a bit each.
    pub(crate) calls: u8,
    pub(crate) lacks: u8,
}

/// What exploring needs to know of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// The direction of a link together with the ordering class: frames of one channel keep their order.
    pub(crate) channel: u16,
    /// Where it arrives.
    pub(crate) to: NodeId,
}

/// Sorts frames by channel, those of one channel in their order. Not a part of what is generic: sorting is long, and compiled once.
pub(crate) fn by_channel(sends: &mut [Id], ways: &[Way]) {
    sends.sort_by_key(|&flight| ways[flight as usize].channel);
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

type FlightOf<S> =
    Flight<<<S as System>::Engine as Engine>::Header, <<S as System>::Engine as Engine>::Payload>;
type TimerOf<S> = <<S as System>::Engine as Engine>::Timer;

pub(crate) struct World<'s, S: System> {
    setting: Setting<'s, S>,
    /// The symmetries; the first changes nothing.
    renamings: Vec<Renaming>,
    /// `after[g][h]`: the number of renaming `g` after renaming `h`.
    after: Vec<Vec<usize>>,
    /// The first channel of each end of a link.
    channels: BTreeMap<End, u16>,
    node_states: Interned<NodeStateOf<S>>,
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
    frames_call: bool,
    pub(crate) initial: Vec<Id>,
}

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
        let setting = Setting::new(system, at_once, &links);
        let channels = setting.ends().zip((0..).step_by(OrderingClass::COUNT.into())).collect();
        let mut world = Self {
            setting,
            renamings,
            after,
            channels,
            node_states: Interned::new(),
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
            frames_call: false,
            initial: Vec::new(),
        };
        for (index, Member { engine, owner }) in members.into_iter().enumerate() {
            let (node, timers) = (NodeId(index as u16), BTreeSet::new());
            let node_state = NodeState { node, engine, timers, owner, jumps: 0 };
            let id = world.intern_node_state(node_state);
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

    /// How many node states are known.
    pub(crate) fn node_states(&self) -> usize {
        self.node_states.len()
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

    pub(crate) fn node_state(&self, id: Id) -> &NodeStateOf<S> {
        self.node_states.get(id)
    }

    pub(crate) fn flight(&self, id: Id) -> &FlightOf<S> {
        self.flights.get(id)
    }

    pub(crate) fn timer(&self, id: Id) -> TimerOf<S> {
        *self.timers.get(id)
    }

    /// The answer of a node in state `node_state` to an input, whether or not that may come there.
    pub(crate) fn outcome(&mut self, node_state: Id, input: Input) -> &Outcome {
        let key = (node_state, input.encode());
        if !self.answers.contains_key(&key) {
            self.compute(node_state, input);
        }
        &self.outcomes[self.answers[&key].outcome as usize]
    }

    /// The answer of a node in state `node_state` to an input that may come there; then so may all that is symmetric to it.
    pub(crate) fn ask(&mut self, node_state: Id, input: Input) -> &Outcome {
        self.outcome(node_state, input);
        if !self.answers[&(node_state, input.encode())].is_asked {
            for g in 0..self.order() {
                let (case, input) = self.image(g, node_state, input);
                let known = self.answers.get_mut(&(case, input.encode())).expect("all cases are computed");
                if !core::mem::replace(&mut known.is_asked, true) {
                    let next = self.outcomes[known.outcome as usize].next;
                    let calls = |node_state: Id| self.facts[node_state as usize].calls;
                    self.frames_call |= input.frame().is_some() && calls(next) != calls(case);
                    self.asked.push((case, input));
                }
            }
        }
        self.answer(node_state, input)
    }

    /// An answer that is known.
    pub(crate) fn answer(&self, node_state: Id, input: Input) -> &Outcome {
        &self.outcomes[self.answers[&(node_state, input.encode())].outcome as usize]
    }

    /// Computes an answer, and those of all cases that are symmetric to it.
    fn compute(&mut self, node_state: Id, input: Input) {
        let order = self.order();
        let mut cases = Vec::with_capacity(order);
        for g in 0..order {
            let (case, input) = self.image(g, node_state, input);
            cases.push(self.compute_one(case, input));
        }
        if order == 1 {
            let next = self.outcomes[cases[0] as usize].next;
            self.images[next as usize] = next;
            return self.refresh_hashes(&[next]);
        }
        if !self.is_symmetric(&cases) {
            let node = self.node_states.get(node_state).node;
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
                by_channel(&mut sends, &self.ways);
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
    fn image(&self, g: usize, node_state: Id, input: Input) -> (Id, Input) {
        let renaming = &self.renamings[g];
        let node = self.node_states.get(node_state).node;
        let frame = |id: Id| self.flight_images[id as usize * self.order() + g];
        let input = match input {
            Input::Frame(id) => Input::Frame(frame(id)),
            Input::Late(id) => Input::Late(frame(id)),
            Input::Timer(id) if g == 0 => Input::Timer(id),
            Input::Timer(id) => {
                let timer = self.setting.system.rename_timer(renaming, node, *self.timers.get(id));
                Input::Timer(self.timers.find(&timer).unwrap_or(id))
            }
            Input::Slot(port) => Input::Slot(renaming.port(node, port)),
            Input::Command | Input::Notice(_) | Input::Clock => input,
        };
        (self.images[node_state as usize * self.order() + g], input)
    }

    fn compute_one(&mut self, node_state: Id, input: Input) -> u32 {
        let known = |input: Input| self.answers.get(&(node_state, input.encode())).map(|known| known.outcome);
        if let Some(outcome) = known(input) {
            return outcome;
        }
        if let Some(outcome) = input.twin().and_then(known) {
            self.answers.insert((node_state, input.encode()), Known { outcome, is_asked: false });
            return outcome;
        }
        let answer = self.run(self.node_states.get(node_state), input);
        let next = if answer.fault.is_some() { node_state } else { self.intern_node_state(answer.next) };
        let sends = answer.sends.into_iter().map(|flight| self.intern_flight(flight)).collect();
        let index = self.outcomes.len() as u32;
        self.outcomes.push(Outcome { next, sends, fault: answer.fault });
        self.answers.insert((node_state, input.encode()), Known { outcome: index, is_asked: false });
        index
    }

    /// Runs the engine.
    pub(crate) fn run(&self, node_state: &NodeStateOf<S>, input: Input) -> Answer<S::Engine, S::Owner> {
        let stimulus = match input {
            Input::Frame(id) | Input::Late(id) => Stimulus::Frame(self.flight(id)),
            Input::Timer(id) => Stimulus::Timer(self.timer(id)),
            Input::Slot(port) => Stimulus::Slot(port),
            Input::Command => Stimulus::Command,
            Input::Notice(notice) => Stimulus::Notice(notice),
            Input::Clock => Stimulus::Clock,
        };
        step::run(&self.setting, node_state, stimulus)
    }

    fn intern_node_state(&mut self, node_state: NodeStateOf<S>) -> Id {
        let (id, new) = self.node_states.intern(node_state);
        if new {
            let facts = self.facts_of(self.node_states.get(id).clone());
            self.facts.push(facts);
            self.images.resize(self.images.len() + self.order(), NONE);
            self.hashes.resize(self.hashes.len() + self.order(), 0);
        }
        id
    }

    fn facts_of(&mut self, node_state: NodeStateOf<S>) -> Facts {
        let slots = self
            .setting
            .ports(node_state.node)
            .filter(|&port| node_state.engine.wants_transmit(port))
            .map(Input::Slot);
        let command =
            self.setting.system.wants_command(node_state.node, &node_state.owner).then_some(Input::Command);
        let wants = slots.chain(command).map(Input::encode).collect();
        let timers = node_state
            .timers
            .iter()
            .map(|&timer| Input::Timer(self.timers.intern(timer).0).encode())
            .collect();
        let (system, node, owner) = (self.setting.system, node_state.node, &node_state.owner);
        let notices = |is_so: &dyn Fn(u8) -> bool| {
            (0..self.setting.notices).filter(|&notice| is_so(notice)).fold(0, |set, notice| set | 1 << notice)
        };
        let calls = notices(&|notice| system.calls_for_notice(node, owner, notice));
        let lacks = notices(&|notice| system.lacks_notice(node, owner, notice));
        Facts {
            wants,
            timers,
            is_done: self.is_done(&node_state),
            may_wait: self.setting.system.may_wait(),
            calls,
            lacks,
        }
    }

    /// How many notices the control plane may give.
    pub(crate) fn notices(&self) -> u8 {
        self.setting.notices
    }

    /// Whether a frame's arrival has made an owner call for a notice.
    pub(crate) fn frames_call(&self) -> bool {
        self.frames_call
    }

    /// Whether a node's owner has all that it wanted.
    pub(crate) fn is_done(&self, node_state: &NodeStateOf<S>) -> bool {
        self.setting.system.is_done(node_state.node, &node_state.owner)
    }

    pub(crate) fn marked_header(
        &self,
        header: &<S::Engine as Engine>::Header,
    ) -> Option<<S::Engine as Engine>::Header> {
        self.setting.system.marked(header)
    }

    /// A frame as a congested link marks it, if it can be marked.
    pub(crate) fn marked(&mut self, id: Id) -> Option<Id> {
        let flight = self.flights.get(id);
        let header = self.marked_header(&flight.header)?;
        let marked = Flight { from: flight.from, to: flight.to, header, payload: flight.payload.clone() };
        Some(self.intern_flight(marked))
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
                        _ => self.setting.system.rename_frame(
                            renaming,
                            flight.from,
                            &flight.header,
                            &flight.payload,
                        ),
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
        let class = self.setting.system.ordering_class(&flight.header);
        let way = Way { channel: self.channels[&flight.from] + class.number(), to: flight.to.node };
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
                    self.hashes[at] = hash_of(self.node_states.get(self.images[at]));
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
