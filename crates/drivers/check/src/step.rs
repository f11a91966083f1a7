//! A step of one node: an input goes into its engine, and what that says is gathered.

use std::collections::{BTreeMap, BTreeSet};

use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};

use crate::exploration::JUMP;
use crate::fault::Fault;
use crate::panics;
use crate::system::{End, NodeId, System};

/// What stays the same while a network is explored: its description, and which ports are joined.
pub(crate) struct Setting<'s, S> {
    pub(crate) system: &'s S,
    /// Nodes act as soon as they want to.
    pub(crate) at_once: bool,
    /// How many notices the control plane may give.
    pub(crate) notices: u8,
    across: BTreeMap<End, End>,
}

impl<'s, S: System> Setting<'s, S> {
    pub(crate) fn new(system: &'s S, at_once: bool, links: &[[End; 2]]) -> Self {
        let ends = links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        Self { system, at_once, notices: system.notices(), across: ends.collect() }
    }

    /// The other end of a link.
    fn across(&self, end: End) -> Option<End> {
        self.across.get(&end).copied()
    }

    /// The ports of a node that have links.
    pub(crate) fn ports(&self, node: NodeId) -> impl Iterator<Item = PortId> {
        let first = End { node, port: PortId(0) };
        let last = End { node, port: PortId(u16::MAX) };
        self.across.range(first..=last).map(|(end, _)| end.port)
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

/// What happens to a node.
pub(crate) enum Stimulus<'f, E: Engine> {
    /// A frame arrives.
    Frame(&'f Flight<E::Header, E::Payload>),
    /// A timer fires.
    Timer(E::Timer),
    /// A port takes a frame.
    Slot(PortId),
    /// The owner asks for what it wants.
    Command,
    /// The owner gets a notice.
    Notice(u8),
    /// The clock moves on.
    Clock,
}

/// The state of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeState<E: Engine, O> {
    pub(crate) node: NodeId,
    pub(crate) engine: E,
    pub(crate) timers: BTreeSet<E::Timer>,
    pub(crate) owner: O,
    /// How often its clock has moved on.
    pub(crate) jumps: u8,
}

pub(crate) type NodeStateOf<S> = NodeState<<S as System>::Engine, <S as System>::Owner>;

/// A node's answer in words that a reader of a path understands.
pub(crate) struct Answer<E: Engine, O> {
    pub(crate) next: NodeState<E, O>,
    pub(crate) sends: Vec<Flight<E::Header, E::Payload>>,
    pub(crate) drops: Vec<E::DropReason>,
    pub(crate) fault: Option<Fault>,
}

/// Steps in a row that a node may take on its own, far more than any window.
const PATIENCE: usize = 100_000;

/// What a node does in a state when something happens to it. A panic is a fault like others.
pub(crate) fn run<S: System>(
    setting: &Setting<'_, S>,
    node_state: &NodeStateOf<S>,
    stimulus: Stimulus<'_, S::Engine>,
) -> Answer<S::Engine, S::Owner> {
    let result = panics::catch_panic(|| {
        let mut step = Stepping::new(setting, node_state.clone());
        // What a node wants when the clock moves on it does next, like any other step.
        let may_act = setting.at_once && !matches!(stimulus, Stimulus::Clock);
        step.take(stimulus);
        if may_act {
            step.settle();
        }
        step.finish()
    });
    result.unwrap_or_else(|message| Answer {
        next: node_state.clone(),
        sends: Vec::new(),
        drops: Vec::new(),
        fault: Some(Fault::Panic { node: node_state.node, message }),
    })
}

/// A node that takes steps, and what it has answered so far.
struct Stepping<'w, 's, S: System> {
    setting: &'w Setting<'s, S>,
    node_state: NodeStateOf<S>,
    output: EngineOutput<S::Engine>,
    fault: Option<Fault>,
}

/// Where an engine's answers go.
struct EngineOutput<E: Engine> {
    frames: Vec<(PortId, E::Header, E::Payload)>,
    /// Timers in the order in which they were armed (`true`) and disarmed.
    timers: Vec<(E::Timer, bool)>,
    events: Vec<E::Event>,
    drops: Vec<E::DropReason>,
}

impl<E: Engine> Sink<E> for EngineOutput<E> {
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
    fn new(setting: &'w Setting<'s, S>, node_state: NodeStateOf<S>) -> Self {
        let output =
            EngineOutput { frames: Vec::new(), timers: Vec::new(), events: Vec::new(), drops: Vec::new() };
        Self { setting, node_state, output, fault: None }
    }

    /// Takes one input.
    fn take(&mut self, stimulus: Stimulus<'_, S::Engine>) {
        // Deadlines are not explored: the clock stands still but where it jumps.
        let now = Instant::ZERO + JUMP * u64::from(self.node_state.jumps);
        let Self { setting, node_state, output, .. } = self;
        let owner = (setting.notices > 0).then(|| node_state.owner.clone());
        let sent = output.frames.len();
        let command = match stimulus {
            Stimulus::Command => Some(setting.system.command(node_state.node, &mut node_state.owner)),
            Stimulus::Notice(notice) => {
                setting.system.take_notice(node_state.node, &mut node_state.owner, notice)
            }
            _ => None,
        };
        match stimulus {
            Stimulus::Clock => node_state.jumps += 1,
            Stimulus::Frame(flight) => {
                let payload = flight.payload.view(0..flight.payload.length());
                let frame = Frame { header: &flight.header, payload };
                node_state.engine.handle_frame(now, flight.to.port, frame, output);
            }
            Stimulus::Timer(timer) => {
                node_state.timers.remove(&timer);
                node_state.engine.handle_timer(now, timer, output);
            }
            Stimulus::Slot(port) => node_state.engine.handle_transmit_slot(now, port, output),
            Stimulus::Command | Stimulus::Notice(_) => {
                let done = command.map(|command| node_state.engine.handle_command(now, command, output));
                if let Some(Err(refused)) = done {
                    self.fault = Some(Fault::Refused { node: node_state.node, message: refused.to_string() });
                }
            }
        }
        if let Some(owner) = &owner {
            let check =
                |(_, header, _): &(_, _, _)| setting.system.check_sent(node_state.node, owner, header).err();
            // Other drivers send in another order: of several faults all tell the same one.
            if let Some(message) = output.frames[sent..].iter().filter_map(check).min() {
                self.fault.get_or_insert(Fault::Wrong { node: node_state.node, message });
            }
        }
        let carried = |(_, header, payload): &(_, _, _)| {
            setting.system.check_carried(node_state.node, header, payload).err()
        };
        if let Some(message) = output.frames[sent..].iter().filter_map(carried).min() {
            self.fault.get_or_insert(Fault::Wrong { node: node_state.node, message });
        }
        self.node_state.engine.assert_invariants();
        for (timer, armed) in self.output.timers.drain(..) {
            match armed {
                true => self.node_state.timers.insert(timer),
                false => self.node_state.timers.remove(&timer),
            };
        }
        for event in self.output.events.drain(..) {
            let node = self.node_state.node;
            if let Err(message) = self.setting.system.observe(node, &mut self.node_state.owner, event) {
                self.fault = Some(Fault::Wrong { node, message });
            }
        }
    }

    /// Takes slots and commands for as long as any is wanted.
    fn settle(&mut self) {
        for _ in 0..PATIENCE {
            let node = self.node_state.node;
            let wants_command = self.setting.system.wants_command(node, &self.node_state.owner);
            let wanted = |&port: &PortId| self.node_state.engine.wants_transmit(port);
            let slot = || self.setting.ports(node).find(wanted).map(Stimulus::Slot);
            match if wants_command { Some(Stimulus::Command) } else { slot() } {
                _ if self.fault.is_some() => return,
                Some(stimulus) => self.take(stimulus),
                None => return,
            }
        }
        self.fault = Some(Fault::Endless { node: self.node_state.node });
    }

    fn finish(self) -> Answer<S::Engine, S::Owner> {
        let from = |port| End { node: self.node_state.node, port };
        let sends = self.output.frames.into_iter().filter_map(|(port, header, payload)| {
            let to = self.setting.across(from(port))?;
            Some(Flight { from: from(port), to, header, payload })
        });
        Answer { sends: sends.collect(), next: self.node_state, drops: self.output.drops, fault: self.fault }
    }
}
