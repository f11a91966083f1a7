//! A network to explore: hosts and switches on links, and ranks that run collectives one after the other. What is particular to
//! one protocol is its [`Protocol`].

use core::fmt::Debug;
use std::net::Ipv4Addr;

use quincunx_collective::{Collective, Contributions, DataType, GroupId, Payload, ReduceOp, Reduction};
use quincunx_driver_check::{End, Member, NodeId, Renaming, System};
use quincunx_engine::verbs::{Outcome, Program, QpIndex};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_network::OrderingClass;
use quincunx_nodes::{
    HostCommand, HostEvent, NodeDrop, Station, StationCommand, StationEvent, StationKind, StationRejected,
    StationTimer, SwitchTimer,
};
use quincunx_roce::QueuePairTimer;
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, Operation, Psn, QpNumber, RoceHeader, Syndrome};

use crate::codec::{RoceCountsCodec, Wired};
use crate::describe::Describe;

/// Bytes of a packet's payload: one counter.
pub(crate) const MTU: usize = 4;

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
const FIRST_QP: u32 = 0x10;

/// The first packet's number: numbers wrap within the run.
pub(crate) const FIRST_PSN: Psn = Psn::new(0xff_fffe);

pub(crate) const GROUP: GroupId = GroupId(1);

/// The operation; counts add whatever it is.
pub(crate) const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// A node of a protocol's network.
pub type Node<P> = Station<Contributions, <P as Protocol>::Program>;

/// A collective on one rank: what it is asked with, and what must come of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Which.
    pub collective: Collective,
    /// What the rank brings in.
    pub input: Contributions,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of a collective on one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// A result.
    Result(Contributions),
    /// This result or a failure.
    Either(Contributions),
    /// A failure; a result would have this length.
    Failure(usize),
}

impl Expected {
    /// Room for what the rank gets.
    fn room(&self) -> Contributions {
        Contributions::zeroed(match self {
            Self::Result(result) | Self::Either(result) => result.length(),
            Self::Failure(length) => *length,
        })
    }
}

/// What is particular to the network of one protocol.
pub trait Protocol: Sync {
    /// What hosts run.
    type Program: Program<Contributions> + Send + Sync;

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

    /// A frame as [`System::rename_frame`] has it. Addresses and queue pairs need not be renamed.
    fn rename_contents(
        &self,
        _renaming: &Renaming,
        header: &RoceHeader,
        payload: &Contributions,
    ) -> (RoceHeader, Contributions) {
        (*header, payload.clone())
    }

    /// A timer as [`System::rename_timer`] has it.
    fn rename_timer(&self, _renaming: &Renaming, _node: NodeId, timer: StationTimer) -> StationTimer {
        timer
    }

    /// Who is at the other end of a host's queue pair, if not the node at the other end of the link of that number.
    fn peer(&self, _node: NodeId, _queue_pair: QpIndex) -> Option<NodeId> {
        None
    }

    /// A request in a few words; packets are numbered from the first of their queue pair.
    fn request(&self, header: &RoceHeader, number: i32, payload: &Contributions) -> String;

    /// A switch's timer in a few words; `toward` names the node behind a port.
    fn switch_timer(&self, timer: SwitchTimer, toward: &dyn Fn(u16) -> String) -> String;
}

/// Who uses a node. A switch has nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// Collectives that it has started.
    pub started: u8,
    /// Collectives that have ended.
    pub done: u8,
}

/// A network to explore. A node's queue pairs have the numbers of the ports that they speak through, as far as there are such ports.
#[derive(Clone, Debug)]
pub struct Network<P: Protocol> {
    protocol: P,
    stations: Vec<Node<P>>,
    links: Vec<[End; 2]>,
}

/// The address of a node, and its queue pair for a port.
pub(crate) fn endpoint(end: End) -> Endpoint {
    let [high, low] = end.node.0.to_be_bytes();
    Endpoint { ip: Ipv4Addr::new(10, 0, high, low), qp: QpNumber::new(FIRST_QP + u32::from(end.port.0)) }
}

/// The address of a node, read back.
fn end(ip: Ipv4Addr, qp: QpNumber) -> End {
    let [_, _, high, low] = ip.octets();
    End { node: NodeId(u16::from_be_bytes([high, low])), port: PortId((qp.value() - FIRST_QP) as u16) }
}

/// A node that has been told its part of the group.
pub(crate) fn station<A: Program<Contributions>>(
    kind: StationKind,
    commands: impl IntoIterator<Item = StationCommand<Contributions, A>>,
) -> Result<Station<Contributions, A>, StationRejected> {
    let Ok(mut station) = Station::new(kind);
    for command in commands {
        station.handle_command(Instant::ZERO, command, &mut Nobody)?;
    }
    Ok(station)
}

impl<P: Protocol> Network<P> {
    /// `stations` by number, on links.
    pub(crate) fn on(links: Vec<[End; 2]>, stations: Vec<Node<P>>, protocol: P) -> Self {
        Self { protocol, stations, links }
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
    fn frame(&self, header: &RoceHeader, payload: &Contributions) -> String {
        let number = header.psn.distance_from(FIRST_PSN);
        match header.operation {
            Operation::Acknowledge(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => format!("ACK {number}"),
                Syndrome::ReceiverNotReady(_) => format!("RNR NAK {number}"),
                Syndrome::Nak(_) => format!("NAK {number}"),
            },
            Operation::CongestionNotification => "CNP".to_owned(),
            _ => self.protocol.request(header, number, payload),
        }
    }

    fn timer(&self, node: NodeId, timer: StationTimer) -> String {
        let across = |port| self.across(End { node, port: PortId(port) }).node;
        let toward = |index| {
            let peer = self.protocol.peer(node, QpIndex(index));
            self.name(peer.unwrap_or_else(|| across(index)))
        };
        match timer {
            StationTimer::Switch(timer) => self.protocol.switch_timer(timer, &toward),
            StationTimer::Host(timer) => match timer.queue_pair() {
                Some((QpIndex(port), QueuePairTimer::Retry)) => {
                    format!("its retransmission timer toward {}", toward(port))
                }
                Some((QpIndex(port), QueuePairTimer::ReceiverNotReady)) => {
                    format!("its wait until {} is ready", toward(port))
                }
                Some((QpIndex(port), timer)) => format!("the timer {timer:?} toward {}", toward(port)),
                None => "an alarm of its program".to_owned(),
            },
        }
    }
}

impl<P: Protocol> Wired for Network<P> {
    type Codec = RoceCountsCodec;

    fn codec(&self, node: NodeId) -> RoceCountsCodec {
        RoceCountsCodec::new(node, &self.links)
    }
}

/// Takes the answers to the installation of a group: there are none.
struct Nobody;

impl<A: Program<Contributions>> Sink<Station<Contributions, A>> for Nobody {
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Contributions>) {
        unreachable!("a group that is installed sends nothing yet");
    }
    fn set_timer(&mut self, _: StationTimer, _: Duration) {
        unreachable!("a group that is installed waits for nothing yet");
    }
    fn cancel_timer(&mut self, _: StationTimer) {}
    fn emit(&mut self, _: StationEvent<Contributions>) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}

impl<P: Protocol> System for Network<P> {
    type Engine = Node<P>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node<P>, Owner>> {
        let owner = Owner { started: 0, done: 0 };
        self.stations.iter().map(|engine| Member { engine: engine.clone(), owner }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        self.links.clone()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        owner.started == owner.done && usize::from(owner.started) < self.protocol.tasks(node)
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> StationCommand<Contributions, P::Program> {
        let Task { collective, input, expected } = self.protocol.task(node, usize::from(owner.started));
        owner.started += 1;
        let output = expected.room();
        StationCommand::Host(HostCommand::Start { group: GROUP, collective, reduction: SUM, input, output })
    }

    fn observe(
        &self,
        node: NodeId,
        owner: &mut Owner,
        event: StationEvent<Contributions>,
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
        let Task { collective, input, expected } = self.protocol.task(node, usize::from(owner.done));
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
        payload: &Contributions,
    ) -> (RoceHeader, Contributions) {
        let (mut header, payload) = self.protocol.rename_contents(renaming, header, payload);
        let rename = |ip, qp| endpoint(renaming.end(end(ip, qp)));
        let remote = rename(header.destination, header.destination_qp);
        header.source = rename(header.source, header.destination_qp).ip;
        (header.destination, header.destination_qp) = (remote.ip, remote.qp);
        (header, payload)
    }

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: StationTimer) -> StationTimer {
        self.protocol.rename_timer(renaming, node, timer)
    }
}
