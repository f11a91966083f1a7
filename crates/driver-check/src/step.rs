//! A step of one node: an input goes into its engine, and what that says is gathered.

use std::collections::BTreeSet;

use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};

use crate::panics;
use crate::system::{End, NodeId, System};
use crate::world::{Fault, Flight, Input, LocalOf, World};

/// The state of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Local<E: Engine, O> {
    pub(crate) node: NodeId,
    pub(crate) engine: E,
    pub(crate) timers: BTreeSet<E::Timer>,
    pub(crate) owner: O,
}

/// A node's answer in words that a reader of a path understands.
pub(crate) struct Answer<E: Engine, O> {
    pub(crate) next: Local<E, O>,
    pub(crate) sends: Vec<Flight<E::Header, E::Payload>>,
    pub(crate) drops: Vec<E::DropReason>,
    pub(crate) fault: Option<Fault>,
}

/// Steps in a row that a node may take on its own, far more than any window.
const PATIENCE: usize = 100_000;

/// What a node in state `local` does with an input. A panic is a fault like others.
pub(crate) fn run<S: System>(
    world: &World<'_, S>,
    local: &LocalOf<S>,
    input: Input,
) -> Answer<S::Engine, S::Owner> {
    let result = panics::catch_panic(|| {
        let mut step = Stepping::new(world, local.clone());
        step.take(input);
        if world.at_once() {
            step.settle();
        }
        step.finish()
    });
    result.unwrap_or_else(|message| Answer {
        next: local.clone(),
        sends: Vec::new(),
        drops: Vec::new(),
        fault: Some(Fault::Panic { node: local.node, message }),
    })
}

/// A node that takes steps, and what it has answered so far.
struct Stepping<'w, 's, S: System> {
    world: &'w World<'s, S>,
    local: LocalOf<S>,
    said: Said<S::Engine>,
    fault: Option<Fault>,
}

/// Where an engine's answers go.
struct Said<E: Engine> {
    frames: Vec<(PortId, E::Header, E::Payload)>,
    /// Timers in the order in which they were armed (`true`) and disarmed.
    timers: Vec<(E::Timer, bool)>,
    events: Vec<E::Event>,
    drops: Vec<E::DropReason>,
}

impl<E: Engine> Sink<E> for Said<E> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        self.frames.push((port, frame.header.clone(), E::Payload::from_view(frame.payload)));
    }

    fn set_timer(&mut self, timer: E::Timer, _after: Duration) {
        self.timers.push((timer, true));
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.timers.push((timer, false));
    }

    fn emit(&mut self, event: E::Event) {
        self.events.push(event);
    }

    fn drop_frame(&mut self, _port: PortId, reason: E::DropReason) {
        self.drops.push(reason);
    }
}

impl<'w, 's, S: System> Stepping<'w, 's, S> {
    fn new(world: &'w World<'s, S>, local: LocalOf<S>) -> Self {
        let said = Said { frames: Vec::new(), timers: Vec::new(), events: Vec::new(), drops: Vec::new() };
        Self { world, local, said, fault: None }
    }

    /// Takes one input.
    fn take(&mut self, input: Input) {
        // Deadlines are not explored, so that no instant tells more than another.
        let now = Instant::ZERO;
        let Self { world, local, said, .. } = self;
        match input {
            Input::Frame(id) | Input::Late(id) => {
                let flight = world.flight(id);
                let payload = flight.payload.view(0..flight.payload.length());
                let frame = Frame { header: &flight.header, payload };
                local.engine.handle_frame(now, flight.to.port, frame, said);
            }
            Input::Timer(id) => {
                let timer = world.timer(id);
                local.timers.remove(&timer);
                local.engine.handle_timer(now, timer, said);
            }
            Input::Slot(port) => local.engine.handle_transmit_slot(now, port, said),
            Input::Command => {
                let command = world.system().command(local.node, &mut local.owner);
                if let Err(refused) = local.engine.handle_command(now, command, said) {
                    self.fault = Some(Fault::Refused { node: local.node, message: refused.to_string() });
                }
            }
        }
        self.local.engine.assert_invariants();
        for (timer, armed) in self.said.timers.drain(..) {
            match armed {
                true => self.local.timers.insert(timer),
                false => self.local.timers.remove(&timer),
            };
        }
        for event in self.said.events.drain(..) {
            let node = self.local.node;
            if let Err(message) = self.world.system().observe(node, &mut self.local.owner, event) {
                self.fault = Some(Fault::Wrong { node, message });
            }
        }
    }

    /// Takes slots and commands for as long as any is wanted.
    fn settle(&mut self) {
        for _ in 0..PATIENCE {
            let node = self.local.node;
            let wants_command = self.world.system().wants_command(node, &self.local.owner);
            let slot = || {
                self.world.ports(node).find(|&port| self.local.engine.wants_transmit(port)).map(Input::Slot)
            };
            match if wants_command { Some(Input::Command) } else { slot() } {
                _ if self.fault.is_some() => return,
                Some(input) => self.take(input),
                None => return,
            }
        }
        self.fault = Some(Fault::Endless { node: self.local.node });
    }

    fn finish(self) -> Answer<S::Engine, S::Owner> {
        let from = |port| End { node: self.local.node, port };
        let sends = self.said.frames.into_iter().filter_map(|(port, header, payload)| {
            let to = self.world.across(from(port))?;
            Some(Flight { from: from(port), to, header, payload })
        });
        Answer { sends: sends.collect(), next: self.local, drops: self.said.drops, fault: self.fault }
    }
}
