//! A network to explore: hosts and switches on links, and ranks that run collectives one after the other. What is particular to
//! one protocol is its [`Protocol`].

use std::ops::ControlFlow;

use quincunx_collective::{Collective, DataType, GroupId, Payload, Provenance, ReduceOp, Reduction, Routes};
use quincunx_design::DatapathTimer;
use quincunx_driver_check::{End, Exploration, Member, NodeId, Renaming, Statistics, System};
use quincunx_engine::verbs::{Outcome, QpIndex};
use quincunx_network::OrderingClass;
use quincunx_nodes::{
    HostCommand, HostEvent, Station, StationCommand, StationEvent, StationTimer, SwitchTimer,
};
use quincunx_roce::QueuePairTimer;
use quincunx_wire::{Operation, Psn, RoceHeader, Syndrome};

use crate::codec::{RoceProvenanceCodec, Wired};
use crate::connections::{Connections, address, node_at};
use crate::describe::Describe;
use crate::twin;

/// Bytes of a packet's payload: one counter.
pub(crate) const MTU: usize = 4;

/// The first packet's number: numbers wrap within the run.
pub(crate) const FIRST_PSN: Psn = Psn::new(0xff_fffe);

pub(crate) const GROUP: GroupId = GroupId(1);

/// The operation; counts add whatever it is.
pub(crate) const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// A collective on one rank: what it is asked with, and what must come of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Which.
    pub collective: Collective,
    /// Whom the rank's tokens are for, where that is to be said before.
    pub routes: Option<Routes>,
    /// What the rank brings in.
    pub input: Provenance,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of a collective on one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// A result.
    Result(Provenance),
    /// This result or a failure.
    Either(Provenance),
    /// A failure; a result would have this length.
    Failure(usize),
}

impl Expected {
    /// Room for what the rank gets.
    fn room(&self) -> Provenance {
        Provenance::zeroed(match self {
            Self::Result(result) | Self::Either(result) => result.length(),
            Self::Failure(length) => *length,
        })
    }
}

/// What is particular to the network of one protocol.
pub trait Protocol: Sync {
    /// A node's name.
    fn name(&self, node: NodeId) -> String;

    /// How many collectives a node runs; a switch none.
    fn tasks(&self, node: NodeId) -> usize;

    /// The collective of that number on a node.
    fn task(&self, node: NodeId, number: usize) -> Task;

    /// Whether a node's collectives must end, rightly or not: all do if nothing fails for good.
    fn must_end(&self, _: NodeId) -> bool {
        true
    }

    /// Whether answers and requests keep no order among each other on a link.
    fn answers_overtake(&self) -> bool {
        false
    }

    /// Renamings of nodes that leave the network as it is, as [`System::symmetries`] has it.
    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        Vec::new()
    }

    /// The contents of a frame as [`System::rename_frame`] has it: addresses and queue pairs need not be renamed.
    fn rename_contents(
        &self,
        _renaming: &Renaming,
        header: &RoceHeader,
        payload: &Provenance,
    ) -> (RoceHeader, Provenance) {
        (*header, payload.clone())
    }

    /// What a request is called.
    fn request(&self, header: &RoceHeader) -> String;

    /// What a request says beside its number and what it carries.
    fn destination(&self, _header: &RoceHeader) -> Option<String> {
        None
    }

    /// What a timer of a switch's datapath is called.
    fn datapath_timer(&self, _kind: u8) -> &'static str {
        "datapath"
    }
}

/// Who uses a node. A switch has nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// Collectives for which it has said whom its tokens are for.
    pub routed: u8,
    /// Collectives that it has started.
    pub started: u8,
    /// Collectives that have ended.
    pub done: u8,
}

/// A network to explore.
#[derive(Clone, Debug)]
pub struct Network<P: Protocol> {
    protocol: P,
    pub(crate) stations: Vec<Station<Provenance>>,
    links: Vec<[End; 2]>,
    connections: Connections,
    /// If a rule is broken: the nodes that keep it.
    plain: Option<Vec<Station<Provenance>>>,
}

impl<P: Protocol> Network<P> {
    /// `stations` by number, on links.
    pub(crate) fn on(
        links: Vec<[End; 2]>,
        stations: Vec<Station<Provenance>>,
        connections: Connections,
        protocol: P,
    ) -> Self {
        Self { protocol, stations, links, connections, plain: None }
    }

    /// The same, whose nodes break a rule that `plain` nodes keep.
    pub(crate) fn beside(mut self, plain: Option<Vec<Station<Provenance>>>) -> Self {
        self.plain = plain;
        self
    }

    /// What is particular to it.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }
}

impl<P: Protocol> Describe for Network<P> {
    fn name(&self, node: NodeId) -> String {
        self.protocol.name(node)
    }

    /// Packets are numbered from the first of their queue pair.
    fn frame(&self, header: &RoceHeader, payload: &Provenance) -> String {
        let number = header.psn.distance_from(FIRST_PSN);
        match header.operation {
            Operation::Acknowledge(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => format!("ACK {number}"),
                Syndrome::ReceiverNotReady(_) => format!("RNR NAK {number}"),
                Syndrome::Nak(_) => format!("NAK {number}"),
            },
            Operation::CongestionNotification => "CNP".to_owned(),
            _ => {
                let mut line = format!("{} {number}", self.protocol.request(header));
                if payload.length() > 0 {
                    line += &format!(" {payload}");
                }
                line + &self.protocol.destination(header).unwrap_or_default()
            }
        }
    }

    fn broken_rule_matters(
        &self,
        rules: Exploration,
        progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
    ) -> Option<bool> {
        twin::matters(self, self.plain.as_ref()?, rules, progress)
    }

    fn timer(&self, node: NodeId, timer: StationTimer) -> String {
        let toward = |index| self.name(self.connections.peer(node, index));
        match timer {
            StationTimer::Switch(SwitchTimer::Datapath(_, DatapathTimer { kind, edge })) => {
                let toward = edge.map(|edge| format!(" toward {}", toward(edge)));
                format!("its {} timer{}", self.protocol.datapath_timer(kind), toward.unwrap_or_default())
            }
            StationTimer::Switch(SwitchTimer::QueuePair(_, QpIndex(index), _)) => {
                format!("a timer of its queue pair with {}", toward(index))
            }
            StationTimer::Switch(SwitchTimer::Program(..)) => "an alarm of its program".to_owned(),
            StationTimer::Host(timer) => match timer.queue_pair() {
                Some((QpIndex(index), QueuePairTimer::Retry)) => {
                    format!("its retransmission timer toward {}", toward(index))
                }
                Some((QpIndex(index), QueuePairTimer::ReceiverNotReady)) => {
                    format!("its wait until {} is ready", toward(index))
                }
                Some((QpIndex(index), timer)) => format!("the timer {timer:?} toward {}", toward(index)),
                None => "an alarm of its program".to_owned(),
            },
        }
    }
}

impl<P: Protocol> Wired for Network<P> {
    type Codec = RoceProvenanceCodec;

    fn codec(&self, node: NodeId) -> RoceProvenanceCodec {
        RoceProvenanceCodec::new(node, &self.links)
    }
}

impl<P: Protocol> System for Network<P> {
    type Engine = Station<Provenance>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Station<Provenance>, Owner>> {
        let owner = Owner { routed: 0, started: 0, done: 0 };
        self.stations.iter().map(|engine| Member { engine: engine.clone(), owner }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        self.links.clone()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        owner.started == owner.done && usize::from(owner.started) < self.protocol.tasks(node)
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> StationCommand<Provenance> {
        let Task { collective, routes, input, expected } =
            self.protocol.task(node, usize::from(owner.started));
        if let Some(routes) = routes.filter(|_| owner.routed == owner.started) {
            owner.routed += 1;
            return StationCommand::Host(HostCommand::Route { group: GROUP, routes });
        }
        owner.started += 1;
        owner.routed = owner.started;
        let output = expected.room();
        StationCommand::Host(HostCommand::Start { group: GROUP, collective, reduction: SUM, input, output })
    }

    fn observe(
        &self,
        node: NodeId,
        owner: &mut Owner,
        event: StationEvent<Provenance>,
    ) -> Result<(), String> {
        let name = self.name(node);
        let (outcome, found_input, output) = match event {
            StationEvent::Host(HostEvent::Finished { outcome, input, output, .. }) => {
                (outcome, input, output)
            }
            // Before a collective or after it: as right as if it had ended so.
            StationEvent::Host(HostEvent::Failed { failure, .. }) => {
                let last = self.protocol.tasks(node).checked_sub(1);
                let task = last.map(|last| self.protocol.task(node, last.min(owner.done.into())));
                return match task.map(|task| task.expected) {
                    Some(Expected::Failure(_) | Expected::Either(_)) => Ok(()),
                    Some(Expected::Result(_)) | None => Err(format!("{name} fails: {failure:?}")),
                };
            }
            StationEvent::Host(HostEvent::Written { .. } | HostEvent::Delivered { .. }) => {
                return Err(format!("{name} is told of a write that no task is"));
            }
            StationEvent::Switch(event) => return Err(format!("{name} gives up: {event:?}")),
        };
        let Task { collective, input, expected, .. } = self.protocol.task(node, usize::from(owner.done));
        owner.done += 1;
        if found_input != input {
            return Err(format!("{name} finds its input changed: {found_input}"));
        }
        match (outcome, expected) {
            (Outcome::Done, Expected::Result(expected) | Expected::Either(expected)) => {
                if output == expected {
                    return Ok(());
                }
                Err(format!("{name} expects {expected} from its {collective}, and gets {output}"))
            }
            (Outcome::Done, Expected::Failure(_)) => {
                Err(format!("{name} cannot get what its {collective} asks for, and is told that it has"))
            }
            (Outcome::Failed { .. }, Expected::Failure(_) | Expected::Either(_)) => Ok(()),
            (outcome, Expected::Result(_)) => Err(format!("{name} fails: {outcome:?}")),
        }
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        usize::from(owner.done) == self.protocol.tasks(node) || !self.protocol.must_end(node)
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        self.protocol.symmetries()
    }

    fn ordering_class(&self, header: &RoceHeader) -> OrderingClass {
        let is_answer =
            matches!(header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification);
        let overtakes = is_answer && self.protocol.answers_overtake();
        if overtakes { OrderingClass::SECOND } else { OrderingClass::FIRST }
    }

    fn rename_frame(
        &self,
        renaming: &Renaming,
        _: End,
        header: &RoceHeader,
        payload: &Provenance,
    ) -> (RoceHeader, Provenance) {
        let (mut header, payload) = self.protocol.rename_contents(renaming, header, payload);
        header.source = address(renaming.node(node_at(header.source)));
        let remote = self.connections.renamed(renaming, header.destination, header.destination_qp);
        (header.destination, header.destination_qp) = (remote.ip, remote.qp);
        (header, payload)
    }

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: StationTimer) -> StationTimer {
        let rename = |index| self.connections.renamed_index(renaming, node, index);
        match timer {
            StationTimer::Host(timer) => {
                StationTimer::Host(timer.renamed(|QpIndex(index)| QpIndex(rename(index))))
            }
            StationTimer::Switch(SwitchTimer::Datapath(group, timer)) => {
                let timer = DatapathTimer { edge: timer.edge.map(rename), ..timer };
                StationTimer::Switch(SwitchTimer::Datapath(group, timer))
            }
            StationTimer::Switch(SwitchTimer::QueuePair(group, QpIndex(index), timer)) => {
                StationTimer::Switch(SwitchTimer::QueuePair(group, QpIndex(rename(index)), timer))
            }
            StationTimer::Switch(SwitchTimer::Program(..)) => timer,
        }
    }
}
