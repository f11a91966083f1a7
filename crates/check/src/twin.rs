//! Whether a broken rule ever matters: nodes that break it beside nodes that keep it, which are told the same. As long as both
//! have answered the same, a run is the same with the rule and without; where they first differ, it is told as a fault.

use std::ops::ControlFlow;

use quincunx_collective::{Payload, Provenance};
use quincunx_driver_check::{
    End, Exploration, Member, NodeId, Renaming, Statistics, System, Verdict, explore,
};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_network::OrderingClass;
use quincunx_nodes::{
    NodeDrop, Station, StationCommand, StationEvent, StationKind, StationRejected, StationTimer,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

use crate::network::{Network, Owner, Protocol};

type Node = Station<Provenance>;

/// Whether any node of `broken` answers anything otherwise than those of `plain` do in the same place, in any run within
/// `rules`; none if not all was seen.
pub(crate) fn matters<P: Protocol>(
    broken: &Network<P>,
    plain: &[Node],
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
struct Twin {
    broken: Node,
    plain: Node,
}

/// What a twin tells.
#[derive(Clone, PartialEq, Eq, Debug)]
enum TwinEvent {
    /// Both say this.
    Said(StationEvent<Provenance>),
    /// They differ.
    Differ,
}

/// An answer of a node, in order.
#[derive(PartialEq, Eq, Debug)]
enum Said {
    Frame(PortId, RoceHeader, Provenance),
    Set(StationTimer, Duration),
    Cancelled(StationTimer),
    Event(StationEvent<Provenance>),
    Dropped(PortId, NodeDrop),
}

/// Takes down answers.
struct Record(Vec<Said>);

impl Sink<Node> for Record {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, Provenance>) {
        self.0.push(Said::Frame(port, *frame.header, Provenance::from_view(frame.payload)));
    }

    fn set_timer(&mut self, timer: StationTimer, after: Duration) {
        self.0.push(Said::Set(timer, after));
    }

    fn cancel_timer(&mut self, timer: StationTimer) {
        self.0.push(Said::Cancelled(timer));
    }

    fn emit(&mut self, event: StationEvent<Provenance>) {
        self.0.push(Said::Event(event));
    }

    fn drop_frame(&mut self, port: PortId, reason: NodeDrop) {
        self.0.push(Said::Dropped(port, reason));
    }
}

impl Twin {
    /// Tells both the same, and passes on what both answer.
    fn ask<T: PartialEq>(
        &mut self,
        tell: impl Fn(&mut Node, &mut Record) -> T,
        out: &mut impl Sink<Self>,
    ) -> T {
        let answer = |node: &mut Node| {
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

impl Engine for Twin {
    type Config = StationKind;
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = Provenance;
    type Timer = StationTimer;
    type Command = StationCommand<Provenance>;
    type Rejected = StationRejected;
    type Event = TwinEvent;
    type DropReason = NodeDrop;

    fn new(kind: StationKind) -> Result<Self, Self::ConfigError> {
        Ok(Self { broken: Node::new(kind)?, plain: Node::new(kind)? })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, Provenance>,
        out: &mut impl Sink<Self>,
    ) {
        self.ask(|node, out| node.handle_frame(now, port, frame, out), out);
    }

    fn handle_timer(&mut self, now: Instant, timer: StationTimer, out: &mut impl Sink<Self>) {
        self.ask(|node, out| node.handle_timer(now, timer, out), out);
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: StationCommand<Provenance>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), StationRejected> {
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
struct Twins<'n, P: Protocol> {
    broken: &'n Network<P>,
    plain: &'n [Node],
}

impl<P: Protocol> System for Twins<'_, P> {
    type Engine = Twin;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Twin, Owner>> {
        let twins = self.broken.members().into_iter().zip(self.plain);
        let twin = |(Member { engine, owner }, plain): (Member<Node, Owner>, &Node)| Member {
            engine: Twin { broken: engine, plain: plain.clone() },
            owner,
        };
        twins.map(twin).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        self.broken.links()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        self.broken.wants_command(node, owner)
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> StationCommand<Provenance> {
        self.broken.command(node, owner)
    }

    fn observe(&self, node: NodeId, owner: &mut Owner, event: TwinEvent) -> Result<(), String> {
        match event {
            TwinEvent::Said(event) => self.broken.observe(node, owner, event),
            TwinEvent::Differ => Err("the broken rule matters".to_owned()),
        }
    }

    fn notices(&self) -> u8 {
        self.broken.notices()
    }

    fn calls_for_notice(&self, node: NodeId, owner: &Owner, notice: u8) -> bool {
        self.broken.calls_for_notice(node, owner, notice)
    }

    fn lacks_notice(&self, node: NodeId, owner: &Owner, notice: u8) -> bool {
        self.broken.lacks_notice(node, owner, notice)
    }

    fn take_notice(&self, node: NodeId, owner: &mut Owner, notice: u8) -> Option<StationCommand<Provenance>> {
        self.broken.take_notice(node, owner, notice)
    }

    fn check_sent(&self, node: NodeId, owner: &Owner, header: &RoceHeader) -> Result<(), String> {
        self.broken.check_sent(node, owner, header)
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        self.broken.is_done(node, owner)
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        self.broken.symmetries()
    }

    fn ordering_class(&self, header: &RoceHeader) -> OrderingClass {
        self.broken.ordering_class(header)
    }

    fn marked(&self, header: &RoceHeader) -> Option<RoceHeader> {
        self.broken.marked(header)
    }

    fn rename_frame(
        &self,
        renaming: &Renaming,
        from: End,
        header: &RoceHeader,
        payload: &Provenance,
    ) -> (RoceHeader, Provenance) {
        self.broken.rename_frame(renaming, from, header, payload)
    }

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: StationTimer) -> StationTimer {
        self.broken.rename_timer(renaming, node, timer)
    }
}
