//! What a process wants done: frames, timers, words on the control network. A process only says it; the world carries it out, so that
//! a process is a state machine, too.

use crate::connection::{ConnectionId, Message};
use crate::facts::Fact;
use crate::store::StoreRequest;
use quincunx_collective::{Numbers, Payload};
use quincunx_control::ManagerTimer;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{HostTimer, NodeDrop, SwitchTimer};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;
use std::collections::{BTreeMap, VecDeque};

/// A frame on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OwnedFrame {
    pub(crate) header: RoceHeader,
    pub(crate) payload: Numbers,
}

/// The timers of processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum TimerName {
    Host(HostTimer),
    Switch(SwitchTimer),
    Manager(ManagerTimer),
    /// The process looks for what the manager has said, or goes on with what it waits for.
    Look,
    /// Its connection to the managers: attempts, calls that are made again.
    Client,
    /// Of a manager: it looks whether it can have the store, or whether nodes have settled.
    Poll,
    Settle,
    /// Of a manager: it renews its lease, or finds that it is over.
    Renew,
    LeaseEnd,
    /// Of a rank: its application goes on.
    Application,
}

/// What is to be done on the control network.
#[derive(Clone, Debug)]
pub(crate) enum ControlEffect {
    /// Connect to a manager, by its number.
    Connect {
        connection: ConnectionId,
        manager: usize,
    },
    Say(ConnectionId, Message),
    Close(ConnectionId),
    /// Ask the store something, in vain after so long.
    Store {
        request: StoreRequest,
        patience: Duration,
    },
}

/// Why a process ends by itself.
pub(crate) type End = String;

/// All that a step of a process leads to.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// By the process's own clock.
    pub(crate) now: Instant,
    pub(crate) frames: Vec<OwnedFrame>,
    pub(crate) timers: Vec<(TimerName, Option<Duration>)>,
    pub(crate) control: Vec<ControlEffect>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) drops: BTreeMap<NodeDrop, u64>,
    pub(crate) end: Option<End>,
    /// The next connection's number.
    pub(crate) next_connection: u64,
    /// Draws of the process, by the seed.
    pub(crate) draws: Option<quincunx_collective::SplitMix64>,
}

impl Effects {
    pub(crate) fn set(&mut self, timer: TimerName, after: Duration) {
        self.timers.push((timer, Some(after)));
    }

    pub(crate) fn cancel(&mut self, timer: TimerName) {
        self.timers.push((timer, None));
    }

    pub(crate) fn say(&mut self, connection: ConnectionId, message: Message) {
        self.control.push(ControlEffect::Say(connection, message));
    }

    pub(crate) fn fact(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// The process ends; the first reason counts.
    pub(crate) fn end(&mut self, reason: impl Into<String>) {
        self.end.get_or_insert_with(|| reason.into());
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn draw(&mut self, limit: u64) -> u64 {
        self.draws.as_mut().map_or(0, |draws| draws.draw() % limit.max(1))
    }

    /// A time up to `longest`.
    pub(crate) fn draw_time(&mut self, longest: Duration) -> Duration {
        Duration::from_picos(self.draw(longest.as_picos().max(1)))
    }
}

/// What an engine answers, until the process's step is over.
#[derive(Debug)]
pub(crate) struct Answers<E: Engine> {
    pub(crate) frames: Vec<OwnedFrame>,
    pub(crate) timers: Vec<(E::Timer, Option<Duration>)>,
    pub(crate) events: VecDeque<E::Event>,
    pub(crate) drops: BTreeMap<NodeDrop, u64>,
}

impl<E: Engine> Default for Answers<E> {
    fn default() -> Self {
        Self { frames: Vec::new(), timers: Vec::new(), events: VecDeque::new(), drops: BTreeMap::new() }
    }
}

impl<E: Engine<Header = RoceHeader, Payload = Numbers, DropReason = NodeDrop>> Sink<E> for Answers<E> {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        self.frames.push(OwnedFrame { header: *frame.header, payload: Numbers::from_view(frame.payload) });
    }

    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        self.timers.push((timer, Some(after)));
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.timers.push((timer, None));
    }

    fn emit(&mut self, event: E::Event) {
        self.events.push_back(event);
    }

    fn drop_frame(&mut self, _: PortId, reason: NodeDrop) {
        *self.drops.entry(reason).or_default() += 1;
    }
}

/// The one port of nodes here: who is where says the address.
pub(crate) const PORT: PortId = PortId(0);

impl<E: Engine<Header = RoceHeader, Payload = Numbers, DropReason = NodeDrop>> Answers<E> {
    /// Gives the engine the slots that it wants, and hands on what it has answered.
    pub(crate) fn hand_on(
        &mut self,
        engine: &mut E,
        name: impl Fn(E::Timer) -> TimerName,
        out: &mut Effects,
    ) {
        while engine.wants_transmit(PORT) {
            engine.handle_transmit_slot(out.now, PORT, self);
        }
        engine.assert_invariants();
        match out.frames.is_empty() {
            true => std::mem::swap(&mut out.frames, &mut self.frames),
            false => out.frames.append(&mut self.frames),
        }
        out.timers.extend(self.timers.drain(..).map(|(timer, after)| (name(timer), after)));
        while let Some((reason, count)) = self.drops.pop_first() {
            *out.drops.entry(reason).or_default() += count;
        }
    }
}
