//! A network to explore: hosts and switches on links, and ranks that run collectives one after the other. What is particular to
//! one protocol is its [`Protocol`].

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

use quincunx_collective::{
    Collective, DataType, GroupId, Payload, Provenance, Rank, ReduceOp, Reduction, Routes,
};
use quincunx_design::DatapathTimer;
use quincunx_driver_check::{End, Exploration, Member, NodeId, Renaming, Statistics, System};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{Outcome, QpIndex, WorkId};
use quincunx_engine::writes::Target;
use quincunx_network::OrderingClass;
use quincunx_nodes::{
    HostCommand, HostEvent, Node, NodeCommand, NodeEvent, NodeKind, NodeTimer, SwitchCommand, SwitchEvent,
    SwitchTimer,
};
use quincunx_roce::QueuePairTimer;
use quincunx_wire::{Operation, Psn, RoceHeader, Syndrome};

use crate::codec::{RoceProvenanceCodec, Wired};
use crate::connections::{Connections, GROUP, address, node_at};
use crate::describe::Describe;
use crate::twin;

/// Bytes of a packet's payload: one counter.
pub(crate) const MTU: usize = 4;

/// The first packet's number: numbers wrap within the run.
pub(crate) const FIRST_PSN: Psn = Psn::new(0xff_fffe);

/// Groups in a network at most.
pub const MOST_GROUPS: usize = 3;

/// The name of a group, counted from 0.
pub(crate) fn group_id(group: usize) -> GroupId {
    GroupId(GROUP.0 + group as u32)
}

fn group_index(group: GroupId) -> usize {
    (group.0 - GROUP.0) as usize
}

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
    pub expected: Provenance,
}

/// Writes of an application's own on one rank, and what others write to it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OwnWrites {
    /// What it writes, all at once.
    pub writes: Vec<OwnWrite>,
    /// What it must be told of, once each and in any order: who has written, to which slot, and what.
    pub awaited: Vec<(Rank, usize, Provenance)>,
    /// Some destination cannot be reached: nobody may be told that a write has ended, and the group may end with an error.
    pub never_end: bool,
}

/// A write to several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnWrite {
    /// Whom to, and where there.
    pub targets: Vec<Target>,
    /// By which of several ways.
    pub way: usize,
    /// What.
    pub data: Provenance,
}

/// What is particular to the network of one protocol.
pub trait Protocol: Send + Sync + Debug {
    /// A node's name.
    fn name(&self, node: NodeId) -> String;

    /// How many collectives a node runs; a switch none.
    fn tasks(&self, node: NodeId) -> usize;

    /// The collective of that number on a node.
    fn task(&self, node: NodeId, number: usize) -> Task;

    /// How many groups there are.
    fn groups(&self) -> usize {
        1
    }

    /// How many collectives of a group a node has under way at most.
    fn in_flight(&self) -> u8 {
        1
    }

    /// How many collectives a node runs in a group, counted from 0.
    fn tasks_of(&self, _group: usize, node: NodeId) -> usize {
        self.tasks(node)
    }

    /// The collective of that number on a node in a group.
    fn task_of(&self, _group: usize, node: NodeId, number: usize) -> Task {
        self.task(node, number)
    }

    /// Whether every result has of each rank one element once, so that a frame with more is wrong, wherever it goes.
    fn adds_once(&self) -> bool {
        false
    }

    /// Whether senders give up after so many retries. Then a collective may fail at a rank, and the control plane is part of what is
    /// explored: of the first failure that a node reports it tells every node, whose group ends then (EPIC 3.4: a group that fails is made anew).
    fn gives_up(&self) -> bool {
        false
    }

    /// Whether each rank begins when it likes: what reaches it before is explored, too. The control plane tells each, at any time.
    fn begins_late(&self) -> bool {
        false
    }

    /// What a node that runs no collective writes, and is told of.
    fn writes(&self, _: NodeId) -> OwnWrites {
        OwnWrites::default()
    }

    /// Whether a node's collectives must end, rightly or not: all do if nothing fails for good.
    fn must_end(&self, _: NodeId) -> bool {
        true
    }

    /// Whether answers and requests keep no order among each other on a link.
    fn answers_overtake(&self) -> bool {
        false
    }

    /// How elements combine, as a node's owner says it.
    fn reduction(&self, _: NodeId) -> Reduction {
        SUM
    }

    /// Who asks for something else than the others, if anybody does: then nobody may be told of a result.
    fn dissenter(&self) -> Option<Rank> {
        None
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

/// Who uses a node, by group. A switch has nobody, but for the agent of the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Owner {
    /// Its groups; those that are not there have no tasks.
    pub groups: [Membership; MOST_GROUPS],
}

/// What the owner of a node knows of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Membership {
    /// Collectives for which it has said whom its tokens are for.
    pub routed: u8,
    /// Collectives that it has started.
    pub started: u8,
    /// Collectives that have ended.
    pub done: u8,
    /// Writes of its own that have ended, a bit each.
    pub written: u16,
    /// What others have written, a bit each in the order in which it is awaited.
    pub delivered: u16,
    /// The group has ended with an error, as it may.
    pub failed: bool,
    /// The node has reported that the group has failed.
    pub has_failed: bool,
    /// The control plane has ended the group here.
    pub is_removed: bool,
    /// Where ranks begin when they like: this one has begun.
    pub has_begun: bool,
}

impl Membership {
    fn is_over(&self) -> bool {
        self.has_failed || self.is_removed
    }
}

/// Sets a bit; whether it was set before.
fn set(bits: &mut u16, bit: usize) -> bool {
    core::mem::replace(bits, *bits | 1 << bit) & 1 << bit != 0
}

/// A network to explore.
#[derive(Clone, Debug)]
pub struct Network {
    protocol: Arc<dyn Protocol>,
    pub(crate) nodes: Vec<Node<Provenance>>,
    links: Vec<[End; 2]>,
    connections: Connections,
    /// If a rule is broken: the nodes that keep it.
    plain: Option<Vec<Node<Provenance>>>,
}

impl Network {
    /// `nodes` by number, on links.
    pub(crate) fn on(
        links: Vec<[End; 2]>,
        nodes: Vec<Node<Provenance>>,
        connections: Connections,
        protocol: impl Protocol + 'static,
    ) -> Self {
        Self { protocol: Arc::new(protocol), nodes, links, connections, plain: None }
    }

    /// The same, whose nodes break a rule that `plain` nodes keep.
    pub(crate) fn beside(mut self, plain: Option<Vec<Node<Provenance>>>) -> Self {
        self.plain = plain;
        self
    }

    /// The notice by which ranks begin, behind those of groups that have failed.
    fn begin_notice(&self) -> u8 {
        if self.protocol.gives_up() { self.protocol.groups() as u8 } else { 0 }
    }

    /// The group whose next collective a node starts: the one that has started fewest.
    fn next_group(&self, node: NodeId, owner: &Owner) -> Option<usize> {
        let is_next = |group: &usize| {
            let membership = &owner.groups[*group];
            membership.started - membership.done < self.protocol.in_flight()
                && usize::from(membership.started) < self.protocol.tasks_of(*group, node)
                && !membership.is_over()
        };
        (0..self.protocol.groups()).filter(is_next).min_by_key(|&group| owner.groups[group].started)
    }
}

impl Describe for Network {
    fn name(&self, node: NodeId) -> String {
        self.protocol.name(node)
    }

    /// Packets are numbered from the first of their queue pair.
    fn frame(&self, header: &RoceHeader, payload: &Provenance) -> String {
        let number = header.psn.distance_from(FIRST_PSN);
        let group = match self.protocol.groups() {
            1 => String::new(),
            _ => {
                let group = self.connections.group(header.destination, header.destination_qp);
                format!(" of group {}", group.0)
            }
        };
        let line = match header.operation {
            Operation::Acknowledge(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => format!("ACK {number}"),
                Syndrome::ReceiverNotReady(_) => format!("RNR NAK {number}"),
                Syndrome::Nak(_) => format!("NAK {number}"),
            },
            Operation::CongestionNotification => "CNP".to_owned(),
            Operation::QUESTION if payload.length() == 0 => format!("question {number}"),
            _ => {
                let mut line = format!("{} {number}", self.protocol.request(header));
                if payload.length() > 0 {
                    line += &format!(" {payload}");
                }
                line + &self.protocol.destination(header).unwrap_or_default()
            }
        };
        line + &group
    }

    fn broken_rule_matters(
        &self,
        rules: Exploration,
        progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
    ) -> Option<bool> {
        twin::matters(self, self.plain.as_ref()?, rules, progress)
    }

    fn notice(&self, notice: u8) -> String {
        if notice == self.begin_notice() {
            return "begins".to_owned();
        }
        match self.protocol.groups() {
            1 => "is told that its group has failed".to_owned(),
            _ => format!("is told that group {} has failed", group_id(notice.into()).0),
        }
    }

    fn timer(&self, node: NodeId, timer: NodeTimer) -> String {
        let toward = |group, index| self.name(self.connections.peer(node, group, index));
        match timer {
            NodeTimer::Switch(SwitchTimer::Datapath(group, DatapathTimer { kind, edge })) => {
                let toward = edge.map(|edge| format!(" toward {}", toward(group, edge)));
                format!("its {} timer{}", self.protocol.datapath_timer(kind), toward.unwrap_or_default())
            }
            NodeTimer::Switch(SwitchTimer::QueuePair(group, QpIndex(index), _)) => {
                format!("a timer of its queue pair with {}", toward(group, index))
            }
            NodeTimer::Switch(SwitchTimer::Program(..)) => "an alarm of its program".to_owned(),
            NodeTimer::Host(timer) => match timer.queue_pair() {
                Some((QpIndex(index), QueuePairTimer::Retry)) => {
                    format!("its retransmission timer toward {}", toward(timer.group(), index))
                }
                Some((QpIndex(index), QueuePairTimer::ReceiverNotReady)) => {
                    format!("its wait until {} is ready", toward(timer.group(), index))
                }
                Some((QpIndex(index), other)) => {
                    format!("the timer {other:?} toward {}", toward(timer.group(), index))
                }
                None => "an alarm of its program".to_owned(),
            },
        }
    }
}

impl Wired for Network {
    type Codec = RoceProvenanceCodec;

    fn codec(&self, node: NodeId) -> RoceProvenanceCodec {
        RoceProvenanceCodec::new(node, &self.links)
    }
}

impl System for Network {
    type Engine = Node<Provenance>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node<Provenance>, Owner>> {
        let owner = Owner::default();
        self.nodes.iter().map(|engine| Member { engine: engine.clone(), owner }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        self.links.clone()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        if self.protocol.begins_late() && !owner.groups[0].has_begun {
            return false;
        }
        let started = usize::from(owner.groups[0].started);
        self.next_group(node, owner).is_some() || started < self.protocol.writes(node).writes.len()
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> NodeCommand<Provenance> {
        let Some(group) = self.next_group(node, owner) else {
            let membership = &mut owner.groups[0];
            let id = WorkId(membership.started.into());
            let own = &self.protocol.writes(node).writes[usize::from(membership.started)];
            let OwnWrite { targets, way, data } = own.clone();
            membership.started += 1;
            return NodeCommand::Host(HostCommand::Write { group: GROUP, id, targets, way, data });
        };
        let membership = &mut owner.groups[group];
        let number = usize::from(membership.started);
        let Task { collective, routes, input, expected } = self.protocol.task_of(group, node, number);
        let group = group_id(group);
        if let Some(routes) = routes.filter(|_| membership.routed == membership.started) {
            membership.routed += 1;
            return NodeCommand::Host(HostCommand::Route { group, routes });
        }
        membership.started += 1;
        membership.routed = membership.started;
        let output = Provenance::zeroed(expected.length());
        NodeCommand::Host(HostCommand::Start {
            group,
            collective,
            reduction: self.protocol.reduction(node),
            input,
            output,
            terms: Terms::WHOLE,
        })
    }

    fn observe(&self, node: NodeId, owner: &mut Owner, event: NodeEvent<Provenance>) -> Result<(), String> {
        let name = self.name(node);
        if let NodeEvent::Switch(SwitchEvent::Begun { .. }) = event {
            return Ok(());
        }
        let (NodeEvent::Host(
            HostEvent::Finished { group, .. }
            | HostEvent::Failed { group, .. }
            | HostEvent::Written { group, .. }
            | HostEvent::Delivered { group, .. },
        )
        | NodeEvent::Switch(SwitchEvent::Unreachable { group, .. } | SwitchEvent::Begun { group, .. })) =
            event;
        let group = group_index(group);
        let membership = &mut owner.groups[group];
        let (outcome, found_input, output) = match event {
            NodeEvent::Host(HostEvent::Finished { outcome, input, output, .. }) => (outcome, input, output),
            NodeEvent::Host(HostEvent::Failed { .. }) | NodeEvent::Switch(_) if self.protocol.gives_up() => {
                membership.has_failed = true;
                return Ok(());
            }
            NodeEvent::Host(HostEvent::Failed { .. }) | NodeEvent::Switch(_)
                if self.protocol.dissenter().is_some() =>
            {
                membership.failed = true;
                return Ok(());
            }
            // Before a collective or after it: as right as if it had ended so.
            NodeEvent::Host(HostEvent::Failed { failure, .. }) => {
                membership.failed = self.protocol.writes(node).never_end;
                return if membership.failed { Ok(()) } else { Err(format!("{name} fails: {failure:?}")) };
            }
            NodeEvent::Host(HostEvent::Written { id: WorkId(id), .. }) => {
                let OwnWrites { writes, never_end, .. } = self.protocol.writes(node);
                return match id < writes.len() as u64 && !set(&mut membership.written, id as usize) {
                    true if never_end => Err(format!("{name} is told that all have what one cannot get")),
                    true => Ok(()),
                    false => Err(format!("{name} is told twice that write {id} has ended")),
                };
            }
            NodeEvent::Host(HostEvent::Delivered { source, slot, data, .. }) => {
                let awaited = self.protocol.writes(node).awaited;
                let Some(index) = awaited.iter().position(|(from, at, _)| (*from, *at) == (source, slot))
                else {
                    return Err(format!(
                        "{name} is delivered write {slot} of rank {source}, which is not for it"
                    ));
                };
                if set(&mut membership.delivered, index) {
                    return Err(format!("{name} is delivered write {slot} of rank {source} twice"));
                }
                let (_, _, expected) = &awaited[index];
                if data == *expected {
                    return Ok(());
                }
                return Err(format!("{name} expects {expected} from rank {source}, and gets {data}"));
            }
            NodeEvent::Switch(event) => return Err(format!("{name} gives up: {event:?}")),
        };
        let Task { collective, input, expected, .. } =
            self.protocol.task_of(group, node, usize::from(membership.done));
        membership.done += 1;
        let was_over = membership.is_over();
        if self.protocol.gives_up() {
            membership.has_failed |= outcome != Outcome::Done;
        }
        if found_input != input {
            return Err(format!("{name} finds its input changed: {found_input}"));
        }
        if let Some(dissenter) = self.protocol.dissenter() {
            return match outcome {
                Outcome::Done => Err(format!(
                    "{name} is told that its {collective} is done, though rank {dissenter} asks for something else"
                )),
                Outcome::Failed { .. } => Ok(()),
            };
        }
        match outcome {
            Outcome::Done if was_over => {
                Err(format!("{name} is told that its {collective} is done, though its group has failed"))
            }
            Outcome::Failed { .. } if self.protocol.gives_up() => Ok(()),
            Outcome::Done if output == expected => Ok(()),
            Outcome::Done => {
                Err(format!("{name} expects {expected} from its {collective}, and gets {output}"))
            }
            outcome => Err(format!("{name} fails: {outcome:?}")),
        }
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        let has_ended = |group: usize| {
            let membership = &owner.groups[group];
            usize::from(membership.done) == self.protocol.tasks_of(group, node)
                || membership.is_over() && membership.started == membership.done
        };
        let all = |bits: u16, count: usize| bits.count_ones() as usize == count;
        let OwnWrites { writes, awaited, never_end } = self.protocol.writes(node);
        let Membership { written, delivered, failed, .. } = owner.groups[0];
        let is_written = all(written, writes.len()) && all(delivered, awaited.len());
        (failed || is_written && !never_end) && (0..self.protocol.groups()).all(has_ended)
            || !self.protocol.must_end(node)
    }

    fn may_wait(&self) -> bool {
        self.protocol.dissenter().is_some()
    }

    fn notices(&self) -> u8 {
        self.begin_notice() + u8::from(self.protocol.begins_late())
    }

    fn calls_for_notice(&self, _: NodeId, owner: &Owner, notice: u8) -> bool {
        notice == self.begin_notice() || owner.groups[usize::from(notice)].has_failed
    }

    /// Nodes that only forward are in no group.
    fn lacks_notice(&self, node: NodeId, owner: &Owner, notice: u8) -> bool {
        if notice == self.begin_notice() {
            return !owner.groups[0].has_begun && self.nodes[node.index()].kind() == NodeKind::Host;
        }
        let group = usize::from(notice);
        !owner.groups[group].is_removed && self.connections.has(node, group_id(group))
    }

    fn take_notice(&self, node: NodeId, owner: &mut Owner, notice: u8) -> Option<NodeCommand<Provenance>> {
        if notice == self.begin_notice() {
            owner.groups[0].has_begun = true;
            return None;
        }
        let group = usize::from(notice);
        owner.groups[group].is_removed = true;
        Some(match self.nodes[node.index()].kind() {
            NodeKind::Host => NodeCommand::Host(HostCommand::Remove(group_id(group))),
            NodeKind::Switch => NodeCommand::Switch(SwitchCommand::Remove(group_id(group))),
        })
    }

    /// A rank whose group has failed, and every node of which it was removed, sends nothing of that group any more. What others send
    /// is forwarded.
    fn check_sent(&self, node: NodeId, owner: &Owner, header: &RoceHeader) -> Result<(), String> {
        let group = self.connections.group(header.destination, header.destination_qp);
        let membership = owner.groups[group_index(group)];
        let is_host = self.nodes[node.index()].kind() == NodeKind::Host;
        let is_over = membership.is_removed || membership.has_failed && is_host;
        if is_over && node_at(header.source) == node {
            let name = self.name(node);
            let frame = self.frame(header, &Provenance::zeroed(0));
            return Err(format!("{name} sends {frame}, though its group has ended"));
        }
        Ok(())
    }

    fn check_carried(&self, node: NodeId, header: &RoceHeader, payload: &Provenance) -> Result<(), String> {
        if self.protocol.adds_once() && !payload.may_be_part_of_a_sum() {
            let (name, frame) = (self.name(node), self.frame(header, payload));
            return Err(format!("{name} sends {frame}, which no right result has in it"));
        }
        Ok(())
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        self.protocol.symmetries()
    }

    /// Frames of different groups overtake each other: a group may start at any time, and its frames leave later then than at once.
    fn ordering_class(&self, header: &RoceHeader) -> OrderingClass {
        let is_answer =
            matches!(header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification);
        let overtakes = is_answer && self.protocol.answers_overtake();
        let group = match self.protocol.groups() {
            1 => 0,
            _ => group_index(self.connections.group(header.destination, header.destination_qp)) as u16,
        };
        let class = OrderingClass::new(2 * group + u16::from(overtakes));
        class.expect("few groups have two classes each")
    }

    fn marked(&self, header: &RoceHeader) -> Option<RoceHeader> {
        let mut marked = *header;
        let is_new = !header.has_met_congestion() && marked.mark_congestion();
        is_new.then_some(marked)
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

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: NodeTimer) -> NodeTimer {
        let rename = |group, index| self.connections.renamed_index(renaming, node, group, index);
        match timer {
            NodeTimer::Host(timer) => {
                let group = timer.group();
                NodeTimer::Host(timer.renamed(|QpIndex(index)| QpIndex(rename(group, index))))
            }
            NodeTimer::Switch(SwitchTimer::Datapath(group, timer)) => {
                let timer = DatapathTimer { edge: timer.edge.map(|edge| rename(group, edge)), ..timer };
                NodeTimer::Switch(SwitchTimer::Datapath(group, timer))
            }
            NodeTimer::Switch(SwitchTimer::QueuePair(group, QpIndex(index), timer)) => {
                NodeTimer::Switch(SwitchTimer::QueuePair(group, QpIndex(rename(group, index)), timer))
            }
            NodeTimer::Switch(SwitchTimer::Program(..)) => timer,
        }
    }
}
