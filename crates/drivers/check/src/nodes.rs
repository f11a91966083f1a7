//! The engines behind the numbers: node states, frames and timers, each kept once. This is what is compiled for each system anew, so it
//! is small; [`World`](crate::world::World) and all that explores it see [`Nodes`].

use std::collections::BTreeSet;
use std::sync::Arc;

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

/// A frame that has just got a number.
pub(crate) struct NewFrame {
    pub(crate) from: End,
    pub(crate) to: NodeId,
    pub(crate) class: OrderingClass,
}

/// A node state that has just got a number.
pub(crate) struct NewNodeState {
    pub(crate) node: NodeId,
    pub(crate) facts: Facts,
}

/// What a node answers.
pub(crate) struct Reply {
    /// The state that follows; none after a fault.
    pub(crate) next: Option<Id>,
    /// The frames that it sends.
    pub(crate) sends: Vec<Id>,
    pub(crate) fault: Option<Fault>,
}

/// What has got a number since somebody asked last.
#[derive(Default)]
pub(crate) struct News {
    /// In the order of their numbers.
    pub(crate) node_states: Vec<NewNodeState>,
    /// In the order of their numbers.
    pub(crate) frames: Vec<NewFrame>,
    /// The images of frames under all symmetries with their hashes, all of one frame together.
    pub(crate) orbits: Vec<Vec<(Id, u64)>>,
}

/// Node states and frames by number, whatever the engines.
pub(crate) trait Nodes: Send {
    /// The states in which nodes begin.
    fn begin(&mut self) -> Vec<Id>;

    /// Runs an engine.
    fn reply(&mut self, node_state: Id, input: Input) -> Reply;

    /// A frame as a congested link marks it, if it can be marked.
    fn marked(&mut self, frame: Id) -> Option<Id>;

    /// What has got a number since the last call.
    fn take_news(&mut self) -> News;

    /// The hash of a node state.
    fn hash(&self, node_state: Id) -> u64;

    /// A node's timer by another's name, if that has a number.
    fn renamed_timer(&self, renaming: &Renaming, node: NodeId, timer: Id) -> Option<Id>;
}

type FlightOf<S> =
    Flight<<<S as System>::Engine as Engine>::Header, <<S as System>::Engine as Engine>::Payload>;
type TimerOf<S> = <<S as System>::Engine as Engine>::Timer;

/// The nodes of a system.
pub(crate) struct Engines<'s, S: System> {
    setting: Setting<'s, S>,
    renamings: Arc<[Renaming]>,
    node_states: Interned<NodeStateOf<S>>,
    flights: Interned<FlightOf<S>>,
    timers: Interned<TimerOf<S>>,
    news: News,
}

impl<'s, S: System> Engines<'s, S> {
    /// The nodes of `system`, which `renamings` leave as it is.
    pub(crate) fn new(setting: Setting<'s, S>, renamings: Arc<[Renaming]>) -> Self {
        let (node_states, flights, timers) = (Interned::new(), Interned::new(), Interned::new());
        Self { setting, renamings, node_states, flights, timers, news: News::default() }
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

    /// Runs an engine.
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
            let facts = self.facts(id);
            self.news.node_states.push(NewNodeState { node: self.node_states.get(id).node, facts });
        }
        id
    }

    fn facts(&mut self, id: Id) -> Facts {
        let Self { setting, node_states, timers, .. } = self;
        let (system, notices) = (setting.system, setting.notices);
        let node_state = node_states.get(id);
        let (node, owner) = (node_state.node, &node_state.owner);
        let slots = setting.ports(node).filter(|&port| node_state.engine.wants_transmit(port));
        let command = system.wants_command(node, owner).then_some(Input::Command);
        let wants = slots.map(Input::Slot).chain(command).map(Input::encode).collect();
        let timers = node_state.timers.iter().map(|&timer| Input::Timer(timers.intern(timer).0).encode());
        let set = |is_so: &dyn Fn(u8) -> bool| {
            (0..notices).filter(|&notice| is_so(notice)).fold(0, |set, notice| set | 1 << notice)
        };
        Facts {
            wants,
            timers: timers.collect(),
            is_done: system.is_done(node, owner),
            may_wait: system.may_wait(),
            calls: set(&|notice| system.calls_for_notice(node, owner, notice)),
            lacks: set(&|notice| system.lacks_notice(node, owner, notice)),
        }
    }

    /// Gives a frame and all its images numbers.
    fn intern_orbit(&mut self, flight: FlightOf<S>) -> Id {
        let (id, new) = self.intern_flight(flight);
        if new {
            let renamings = self.renamings.clone();
            let image = |(g, renaming): (usize, &Renaming)| {
                let flight = self.flights.get(id);
                let (header, payload) = match g {
                    0 => (flight.header.clone(), flight.payload.clone()),
                    _ => self.setting.system.rename_frame(
                        renaming,
                        flight.from,
                        &flight.header,
                        &flight.payload,
                    ),
                };
                let (from, to) = (renaming.end(flight.from), renaming.end(flight.to));
                self.intern_flight(Flight { from, to, header, payload }).0
            };
            let orbit: Vec<Id> = renamings.iter().enumerate().map(image).collect();
            let hash = |id: Id| (id, hash_of(self.flights.get(id)));
            self.news.orbits.push(orbit.into_iter().map(hash).collect());
        }
        id
    }

    fn intern_flight(&mut self, flight: FlightOf<S>) -> (Id, bool) {
        let class = self.setting.system.ordering_class(&flight.header);
        let (from, to) = (flight.from, flight.to.node);
        let (id, new) = self.flights.intern(flight);
        if new {
            self.news.frames.push(NewFrame { from, to, class });
        }
        (id, new)
    }
}

impl<S: System> Nodes for Engines<'_, S> {
    fn begin(&mut self) -> Vec<Id> {
        let members = self.setting.system.members();
        let node_state = |(index, Member { engine, owner }): (usize, Member<S::Engine, S::Owner>)| {
            let (node, timers) = (NodeId(index as u16), BTreeSet::new());
            self.intern_node_state(NodeState { node, engine, timers, owner, jumps: 0 })
        };
        members.into_iter().enumerate().map(node_state).collect()
    }

    fn reply(&mut self, node_state: Id, input: Input) -> Reply {
        let answer = self.run(self.node_states.get(node_state), input);
        let next = answer.fault.is_none().then(|| self.intern_node_state(answer.next));
        let sends = answer.sends.into_iter().map(|flight| self.intern_orbit(flight)).collect();
        Reply { next, sends, fault: answer.fault }
    }

    fn marked(&mut self, frame: Id) -> Option<Id> {
        let flight = self.flights.get(frame);
        let header = self.marked_header(&flight.header)?;
        let marked = Flight { from: flight.from, to: flight.to, header, payload: flight.payload.clone() };
        Some(self.intern_orbit(marked))
    }

    fn take_news(&mut self) -> News {
        core::mem::take(&mut self.news)
    }

    fn hash(&self, node_state: Id) -> u64 {
        hash_of(self.node_states.get(node_state))
    }

    fn renamed_timer(&self, renaming: &Renaming, node: NodeId, timer: Id) -> Option<Id> {
        let timer = self.setting.system.rename_timer(renaming, node, *self.timers.get(timer));
        self.timers.find(&timer)
    }
}
