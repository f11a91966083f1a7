//! Whether a broken rule ever matters: nodes that break it beside nodes that keep it, which are told the same. As long as both
//! have answered the same, a run is the same with the rule and without; where they first differ, it is told as a fault.

use std::ops::ControlFlow;

use quincunx_collective::Payload;
use quincunx_driver_check::{
    End, Exploration, Member, NodeId, Renaming, Statistics, System, Verdict, explore,
};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_network::OrderingClass;
use quincunx_units::{Duration, Instant};

use crate::describe::{CommandOf, EventOf, HeaderOf, PayloadOf, TimerOf};

/// An engine whose answers can be compared.
pub(crate) trait Comparable:
    Engine<
        Command: Clone,
        Rejected: PartialEq,
        Event: PartialEq,
        Header: Send + Sync,
        Payload: Send + Sync,
        Timer: Send + Sync,
    > + Send
    + Sync
{
}

impl<E> Comparable for E where
    E: Engine<
            Command: Clone,
            Rejected: PartialEq,
            Event: PartialEq,
            Header: Send + Sync,
            Payload: Send + Sync,
            Timer: Send + Sync,
        > + Send
        + Sync
{
}

/// Whether any node of `broken` answers anything otherwise than those of `plain` do in the same place, in any run within
/// `rules`; none if not all was seen.
pub(crate) fn matters<S: System<Engine: Comparable>>(
    broken: &S,
    plain: &[S::Engine],
    rules: Exploration,
    progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
) -> Option<bool> {
    match explore(&Twins { broken, plain }, rules, progress).1 {
        Verdict::Correct => Some(false),
        Verdict::Wrong { .. } => Some(true),
        Verdict::Unfinished(_) => None,
    }
}

/// A node that breaks a rule, and the same one that keeps it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Twin<E> {
    broken: E,
    plain: E,
}

/// What a twin tells.
enum TwinEvent<T> {
    /// Both say this.
    Said(T),
    /// They differ.
    Differ,
}

/// An answer of a node, in order.
enum Said<E: Engine> {
    Frame(PortId, E::Header, E::Payload),
    Set(E::Timer, Duration),
    Cancelled(E::Timer),
    Event(E::Event),
    Dropped(PortId, E::DropReason),
}

impl<E: Comparable> PartialEq for Said<E> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Frame(port, header, payload), Self::Frame(other, others, carried)) => {
                (port, header, payload) == (other, others, carried)
            }
            (Self::Set(timer, after), Self::Set(other, others)) => (timer, after) == (other, others),
            (Self::Cancelled(timer), Self::Cancelled(other)) => timer == other,
            (Self::Event(event), Self::Event(other)) => event == other,
            (Self::Dropped(port, reason), Self::Dropped(other, others)) => (port, reason) == (other, others),
            _ => false,
        }
    }
}

/// Takes down answers.
struct Record<E: Engine>(Vec<Said<E>>);

impl<E: Engine> Sink<E> for Record<E> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        self.0.push(Said::Frame(port, frame.header.clone(), E::Payload::from_view(frame.payload)));
    }

    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        self.0.push(Said::Set(timer, after));
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.0.push(Said::Cancelled(timer));
    }

    fn emit(&mut self, event: E::Event) {
        self.0.push(Said::Event(event));
    }

    fn drop_frame(&mut self, port: PortId, reason: E::DropReason) {
        self.0.push(Said::Dropped(port, reason));
    }
}

impl<E: Comparable> Twin<E> {
    /// Tells both the same, and passes on what both answer.
    fn ask<T: PartialEq>(
        &mut self,
        tell: impl Fn(&mut E, &mut Record<E>) -> T,
        out: &mut impl Sink<Self>,
    ) -> T {
        let answer = |node: &mut E| {
            let mut record = Record(Vec::new());
            let result = tell(node, &mut record);
            (result, record.0)
        };
        let (broken, plain) = (answer(&mut self.broken), answer(&mut self.plain));
        if broken != plain {
            out.emit(TwinEvent::Differ);
            return broken.0;
        }
        for said in broken.1 {
            match said {
                Said::Frame(port, header, payload) => {
                    let payload = payload.view(0..payload.length());
                    out.transmit(port, Frame { header: &header, payload });
                }
                Said::Set(timer, after) => out.set_timer(timer, after),
                Said::Cancelled(timer) => out.cancel_timer(timer),
                Said::Event(event) => out.emit(TwinEvent::Said(event)),
                Said::Dropped(port, reason) => out.drop_frame(port, reason),
            }
        }
        broken.0
    }
}

impl<E: Comparable> Engine for Twin<E> {
    type Config = Self;
    type ConfigError = core::convert::Infallible;
    type Header = E::Header;
    type Payload = E::Payload;
    type Timer = E::Timer;
    type Command = E::Command;
    type Rejected = E::Rejected;
    type Event = TwinEvent<E::Event>;
    type DropReason = E::DropReason;

    fn new(twins: Self) -> Result<Self, Self::ConfigError> {
        Ok(twins)
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, E::Header, E::Payload>,
        out: &mut impl Sink<Self>,
    ) {
        let Frame { header, payload } = frame;
        let told = |node: &mut E, out: &mut Record<E>| {
            let payload = E::Payload::reborrow(payload);
            node.handle_frame(now, port, Frame { header, payload }, out);
        };
        self.ask(told, out);
    }

    fn handle_timer(&mut self, now: Instant, timer: E::Timer, out: &mut impl Sink<Self>) {
        self.ask(|node, out| node.handle_timer(now, timer, out), out);
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: E::Command,
        out: &mut impl Sink<Self>,
    ) -> Result<(), E::Rejected> {
        self.ask(|node, out| node.handle_command(now, command.clone(), out), out)
    }

    /// Where one alone wants a slot they will differ.
    fn wants_transmit(&self, port: PortId) -> bool {
        self.broken.wants_transmit(port) || self.plain.wants_transmit(port)
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        self.ask(|node, out| node.handle_transmit_slot(now, port, out), out);
    }

    fn assert_invariants(&self) {
        self.broken.assert_invariants();
        self.plain.assert_invariants();
    }
}

/// A network of twins.
struct Twins<'n, S: System> {
    broken: &'n S,
    plain: &'n [S::Engine],
}

impl<S: System<Engine: Comparable>> System for Twins<'_, S> {
    type Engine = Twin<S::Engine>;
    type Owner = S::Owner;

    fn members(&self) -> Vec<Member<Self::Engine, S::Owner>> {
        let twins = self.broken.members().into_iter().zip(self.plain);
        let twin = |(Member { engine, owner }, plain): (Member<S::Engine, S::Owner>, &S::Engine)| Member {
            engine: Twin { broken: engine, plain: plain.clone() },
            owner,
        };
        twins.map(twin).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        self.broken.links()
    }

    fn wants_command(&self, node: NodeId, owner: &S::Owner) -> bool {
        self.broken.wants_command(node, owner)
    }

    fn command(&self, node: NodeId, owner: &mut S::Owner) -> CommandOf<S> {
        self.broken.command(node, owner)
    }

    fn observe(
        &self,
        node: NodeId,
        owner: &mut S::Owner,
        event: TwinEvent<EventOf<S>>,
    ) -> Result<(), String> {
        match event {
            TwinEvent::Said(event) => self.broken.observe(node, owner, event),
            TwinEvent::Differ => Err("the broken rule matters".to_owned()),
        }
    }

    fn notices(&self) -> u8 {
        self.broken.notices()
    }

    fn calls_for_notice(&self, node: NodeId, owner: &S::Owner, notice: u8) -> bool {
        self.broken.calls_for_notice(node, owner, notice)
    }

    fn lacks_notice(&self, node: NodeId, owner: &S::Owner, notice: u8) -> bool {
        self.broken.lacks_notice(node, owner, notice)
    }

    fn take_notice(&self, node: NodeId, owner: &mut S::Owner, notice: u8) -> Option<CommandOf<S>> {
        self.broken.take_notice(node, owner, notice)
    }

    fn check_sent(&self, node: NodeId, owner: &S::Owner, header: &HeaderOf<S>) -> Result<(), String> {
        self.broken.check_sent(node, owner, header)
    }

    fn check_carried(
        &self,
        node: NodeId,
        header: &HeaderOf<S>,
        payload: &PayloadOf<S>,
    ) -> Result<(), String> {
        self.broken.check_carried(node, header, payload)
    }

    fn is_done(&self, node: NodeId, owner: &S::Owner) -> bool {
        self.broken.is_done(node, owner)
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        self.broken.symmetries()
    }

    fn ordering_class(&self, header: &HeaderOf<S>) -> OrderingClass {
        self.broken.ordering_class(header)
    }

    fn marked(&self, header: &HeaderOf<S>) -> Option<HeaderOf<S>> {
        self.broken.marked(header)
    }

    fn rename_frame(
        &self,
        renaming: &Renaming,
        from: End,
        header: &HeaderOf<S>,
        payload: &PayloadOf<S>,
    ) -> (HeaderOf<S>, PayloadOf<S>) {
        self.broken.rename_frame(renaming, from, header, payload)
    }

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: TimerOf<S>) -> TimerOf<S> {
        self.broken.rename_timer(renaming, node, timer)
    }
}
