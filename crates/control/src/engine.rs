//! Manager and agents as engines: for the simulator and the checker, which drive them as any other. Messages are headers of frames without
//! a payload; they may be late and doubled. Over gRPC the same [`Manager`] and [`Agent`] speak through streams.

use crate::mutation::Mutation;
use crate::rank::{Moved, RankModel, Token};
use crate::{
    Action, Agent, AgentAction, Change, GroupRecord, GroupRequest, GroupSummary, HeldGroup, InitGroupError,
    Instruction, Manager, ManagerConfig, ManagerTimer, NodeDescription, Report, RequestId,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::convert::Infallible;
use quincunx_collective::{GroupId, LengthOnly};
use quincunx_design::Catalog;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{ByteCount, Duration, Instant};

/// A connection of an agent: what belongs to another one is not heard. No life of a manager gives one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session {
    /// The manager's how-manieth life.
    pub epoch: u32,
    /// Of its connections, the how-manieth.
    pub number: u32,
}

/// What is said between a manager and an agent. A connection begins with three words, as one of TCP does: otherwise a word that comes late
/// would tell a manager that has started again what a node had long ago, and it would hand that out twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// A node wants a connection.
    Connect {
        /// Of its attempts, the how-manieth.
        attempt: u32,
    },
    /// It gets one.
    Welcome {
        /// Which attempt is answered.
        attempt: u32,
        /// The connection.
        session: Session,
    },
    /// A node attaches.
    Attach {
        /// By which connection.
        session: Session,
        /// What it is.
        node: Box<NodeDescription>,
        /// What it has.
        held: Vec<HeldGroup>,
    },
    /// The manager has taken it.
    Attached {
        /// Which connection.
        session: Session,
    },
    /// The manager says what to do.
    Instruct {
        /// To which connection.
        session: Session,
        /// What.
        instruction: Instruction,
    },
    /// The connection of a node that died is at its end.
    Gone {
        /// Which connection.
        session: Session,
    },
    /// Ranks talk to each other, through a switch or without.
    Data(Token),
    /// A node tells of a group.
    Report {
        /// From which connection.
        session: Session,
        /// The group.
        group: GroupId,
        /// What it tells.
        report: Report,
    },
}

/// A timer of either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ControlTimer {
    /// The manager's.
    Manager(ManagerTimer),
    /// An agent's: it has no connection yet.
    Again,
}

/// What owners ask for.
#[derive(Clone, Debug)]
pub enum ControlCommand {
    /// Of the manager: make a group.
    Init(Box<GroupRequest>),
    /// Of the manager: end all groups that there are.
    EndAll,
    /// Of the manager: stop, and start again from what was kept.
    Restart,
    /// Of an agent: its connection is gone, and it makes another.
    Reconnect,
    /// Of an agent: its process is killed.
    Die,
}

/// What owners are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlEvent {
    /// A request is answered.
    Answered(Box<Result<GroupSummary, InitGroupError>>),
    /// Requests that the manager has forgotten.
    Forgotten(usize),
    /// What the manager knows of: nodes that are attached, groups that live, and bytes of memory that are not free.
    Manages {
        /// Nodes.
        nodes: usize,
        /// Groups.
        groups: usize,
        /// Bytes.
        taken: ByteCount,
    },
    /// What a node has: groups, and who else has a part of the memory of the newest.
    Holds {
        /// How many.
        groups: usize,
        /// Another group in the same memory or with the same queue pair.
        clash: Option<GroupId>,
    },
    /// A rank's collective has ended.
    Ran {
        /// Which, counted from one.
        number: u64,
        /// The collective whose input the other rank gave to it.
        with: u64,
        /// Whether the application is told: it was not run for others again.
        is_told: bool,
    },
    /// A rank is told that its group has failed.
    Failed,
}

/// Why a message is not heard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ControlDrop {
    /// It belongs to an earlier connection.
    OldSession,
    /// Its name or address is taken.
    NotAttached,
    /// It is for the other side.
    Senseless,
    /// It is for a generation that is not installed, or for a node that is dead.
    NotInstalled,
}

/// A manager with what it has kept, or an agent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ControlNode {
    /// The manager.
    Manager(Box<ManagerNode>),
    /// An agent.
    Agent(Box<AgentNode>),
}

/// The manager and its connections; what it has kept survives a restart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ManagerNode {
    manager: Manager,
    /// By name: port and session.
    connections: BTreeMap<String, (PortId, Session)>,
    /// By port, the connection that was given last.
    given: BTreeMap<PortId, Session>,
    /// Its how-manieth life; kept.
    epoch: u32,
    next_request: u64,
    waiting: usize,
    numbers: u32,
    records: BTreeMap<GroupId, GroupRecord>,
    /// What was last told of [`ControlEvent::Manages`].
    told: (usize, usize, ByteCount),
    mutation: Option<Mutation>,
}

/// An agent and its connection, by port 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AgentNode {
    agent: Agent,
    description: NodeDescription,
    attempt: u32,
    /// The connection, once there is one.
    session: Option<Session>,
    /// Of a host whose application runs collectives.
    rank: Option<RankModel>,
    is_dead: bool,
    mutation: Option<Mutation>,
}

/// How a node is set up.
#[derive(Clone, Debug)]
pub enum ControlConfig {
    /// The manager.
    Manager {
        /// Designs that groups may run.
        catalog: Catalog,
        /// What the operator sets.
        config: ManagerConfig,
        /// A rule that it breaks.
        mutation: Option<Mutation>,
    },
    /// An agent.
    Agent {
        /// What it is.
        description: Box<NodeDescription>,
        /// Collectives that a host's application runs.
        collectives: u64,
        /// A rule that it breaks.
        mutation: Option<Mutation>,
    },
}

/// How long an agent waits for a connection.
const CONNECT_AGAIN: Duration = Duration::from_millis(500);

const NOTHING: LengthOnly = LengthOnly::new(0);

fn say(port: PortId, message: Message, out: &mut impl Sink<ControlNode>) {
    out.transmit(port, Frame { header: &message, payload: NOTHING });
}

impl ManagerNode {
    fn perform(&mut self, actions: Vec<Action>, out: &mut impl Sink<ControlNode>) {
        for action in actions {
            match action {
                Action::Keep(Change::Numbers(numbers)) => self.numbers = numbers,
                Action::Keep(Change::Put(record)) => {
                    self.records.insert(record.group, *record);
                }
                Action::Keep(Change::Remove(group)) => {
                    self.records.remove(&group);
                }
                Action::Instruct { node, instruction } => {
                    if let Some(&(port, session)) = self.connections.get(&node) {
                        say(port, Message::Instruct { session, instruction }, out);
                    }
                }
                Action::Answer { answer, .. } => {
                    self.waiting -= 1;
                    out.emit(ControlEvent::Answered(Box::new(answer)));
                }
                Action::Begin { .. } | Action::Remake { .. } | Action::Destroyed { .. } => {}
                Action::SetTimer { timer, after } => out.set_timer(ControlTimer::Manager(timer), after),
                Action::CancelTimer { timer } => out.cancel_timer(ControlTimer::Manager(timer)),
            }
        }
        let groups = self.manager.groups().filter(|group| !group.state.is_over()).count();
        let names: Vec<String> = self.manager.nodes().map(|node| node.name.clone()).collect();
        let of = |name: &String| self.manager.holdings(name).into_iter().map(|(_, held)| held.memory).sum();
        let taken: ByteCount = names.iter().map(of).sum::<ByteCount>();
        let nodes = names.len();
        if core::mem::replace(&mut self.told, (nodes, groups, taken)) != (nodes, groups, taken) {
            out.emit(ControlEvent::Manages { nodes, groups, taken });
        }
    }

    fn step(
        &mut self,
        now: Instant,
        out: &mut impl Sink<ControlNode>,
        act: impl FnOnce(&mut Self, &mut Vec<Action>),
    ) {
        self.manager.advance(now);
        let mut actions = Vec::new();
        act(self, &mut actions);
        self.perform(actions, out);
    }

    fn hear(&mut self, now: Instant, port: PortId, message: &Message, out: &mut impl Sink<ControlNode>) {
        match message {
            Message::Connect { attempt } => {
                let number = self.given.get(&port).map_or(1, |given| given.number + 1);
                let session = Session { epoch: self.epoch, number };
                self.given.insert(port, session);
                say(port, Message::Welcome { attempt: *attempt, session }, out);
            }
            Message::Attach { session, node, held } => {
                let is_copy = self.connections.get(&node.name) == Some(&(port, *session));
                let is_old = self.given.get(&port) != Some(session);
                if is_copy || is_old && self.mutation != Some(Mutation::TakesOldWords) {
                    return out.drop_frame(port, ControlDrop::OldSession);
                }
                let held = if self.mutation == Some(Mutation::ForgetsWhatNodesHave) { &[][..] } else { held };
                let mut attached = true;
                self.step(now, out, |own, actions| {
                    own.manager.disconnect(&node.name, "its connection is gone", actions);
                    own.connections.insert(node.name.clone(), (port, *session));
                    attached = own.manager.attach((**node).clone(), held, actions).is_ok();
                });
                if attached {
                    say(port, Message::Attached { session: *session }, out);
                } else {
                    out.drop_frame(port, ControlDrop::NotAttached);
                }
            }
            Message::Report { session, group, report } => {
                let name = self.connections.iter().find(|(_, known)| known.0 == port);
                let Some((name, &(_, known))) = name else {
                    return out.drop_frame(port, ControlDrop::NotAttached);
                };
                if known != *session && self.mutation != Some(Mutation::TakesOldWords) {
                    return out.drop_frame(port, ControlDrop::OldSession);
                }
                let name = name.clone();
                let mut is_heard = true;
                self.step(now, out, |own, actions| {
                    let heard = own.manager.handle_report(&name, *group, report.clone(), actions);
                    is_heard = heard.is_ok();
                });
                if !is_heard {
                    out.drop_frame(port, ControlDrop::NotAttached);
                }
            }
            Message::Gone { session } => {
                let name = self.connections.iter().find(|(_, known)| **known == (port, *session));
                let Some(name) = name.map(|(name, _)| name.clone()) else {
                    return out.drop_frame(port, ControlDrop::OldSession);
                };
                self.connections.remove(&name);
                self.step(now, out, |own, actions| {
                    own.manager.disconnect(&name, "its connection is gone", actions);
                });
            }
            Message::Welcome { .. }
            | Message::Attached { .. }
            | Message::Instruct { .. }
            | Message::Data(_) => out.drop_frame(port, ControlDrop::Senseless),
        }
    }

    fn obey(&mut self, now: Instant, command: ControlCommand, out: &mut impl Sink<ControlNode>) {
        match command {
            ControlCommand::Init(wanted) => self.step(now, out, |own, actions| {
                own.next_request += 1;
                own.waiting += 1;
                own.manager.init_group(RequestId(own.next_request), &wanted, actions);
            }),
            ControlCommand::EndAll => self.step(now, out, |own, actions| {
                let groups: Vec<_> = own.manager.groups().map(|group| group.group).collect();
                for group in groups {
                    own.next_request += 1;
                    let request = RequestId(own.next_request);
                    own.manager.destroy_group(request, group, actions).expect("it has just been listed");
                }
            }),
            ControlCommand::Restart => {
                for timer in self.manager.timers() {
                    out.cancel_timer(ControlTimer::Manager(timer));
                }
                let forgotten = core::mem::take(&mut self.waiting);
                self.connections.clear();
                self.given.clear();
                self.epoch += 1;
                let records: Vec<_> = self.records.values().cloned().collect();
                let numbers = if self.mutation == Some(Mutation::ReusesNumbers) { 1 } else { self.numbers };
                let mut actions = Vec::new();
                self.manager = self.manager.again(numbers, records, &mut actions);
                self.perform(actions, out);
                out.emit(ControlEvent::Forgotten(forgotten));
            }
            ControlCommand::Reconnect | ControlCommand::Die => {}
        }
    }
}

impl AgentNode {
    fn connect(&mut self, out: &mut impl Sink<ControlNode>) {
        self.attempt += 1;
        self.session = None;
        say(PortId(0), Message::Connect { attempt: self.attempt }, out);
        out.set_timer(ControlTimer::Again, CONNECT_AGAIN);
    }

    /// Its process is killed: its peers are told by the end of its connection.
    fn die(&mut self, out: &mut impl Sink<ControlNode>) {
        self.is_dead = true;
        out.cancel_timer(ControlTimer::Again);
        if let Some(session) = self.session {
            say(PortId(0), Message::Gone { session }, out);
        }
        if !self.agent.held().is_empty() {
            out.emit(ControlEvent::Holds { groups: 0, clash: None });
        }
    }

    /// A switch hands tokens on; a rank takes them.
    fn carry(&mut self, port: PortId, token: Token, out: &mut impl Sink<ControlNode>) {
        let is_held = self.agent.held().iter().any(|held| held.group == token.group);
        let taken = self.rank.as_mut().map(|rank| rank.take(token));
        match taken {
            Some(true) => self.run(out),
            None if is_held => say(PortId(3 - port.0), Message::Data(token), out),
            Some(false) | None => out.drop_frame(port, ControlDrop::NotInstalled),
        }
    }

    fn run(&mut self, out: &mut impl Sink<ControlNode>) {
        let moved = self.rank.as_mut().map(RankModel::advance).unwrap_or_default();
        for moved in moved {
            match moved {
                Moved::Sent(port, token) => say(port, Message::Data(token), out),
                Moved::Ran { number, with, is_told } => {
                    out.emit(ControlEvent::Ran { number, with, is_told });
                }
            }
        }
    }

    fn hear(&mut self, port: PortId, message: &Message, out: &mut impl Sink<ControlNode>) {
        if self.is_dead {
            return out.drop_frame(port, ControlDrop::NotInstalled);
        }
        match message {
            Message::Data(token) => self.carry(port, *token, out),
            Message::Welcome { attempt, session } if *attempt == self.attempt => match self.session {
                None => {
                    self.session = Some(*session);
                    let message = Message::Attach {
                        session: *session,
                        node: Box::new(self.description.clone()),
                        held: self.agent.held(),
                    };
                    say(PortId(0), message, out);
                }
                // The manager is another one, which has heard of an attempt of before.
                Some(own) if session.epoch > own.epoch => self.connect(out),
                Some(_) => out.drop_frame(PortId(0), ControlDrop::OldSession),
            },
            Message::Welcome { .. } => out.drop_frame(PortId(0), ControlDrop::OldSession),
            Message::Attached { session } | Message::Instruct { session, .. } => {
                if self.session != Some(*session) && self.mutation != Some(Mutation::ObeysOldWords) {
                    return out.drop_frame(PortId(0), ControlDrop::OldSession);
                }
                // Whatever it says, the manager has taken the node.
                out.cancel_timer(ControlTimer::Again);
                if let Message::Instruct { session, instruction } = message {
                    self.obey(*session, instruction, out);
                }
            }
            Message::Connect { .. }
            | Message::Attach { .. }
            | Message::Report { .. }
            | Message::Gone { .. } => out.drop_frame(PortId(0), ControlDrop::Senseless),
        }
    }

    fn obey(&mut self, session: Session, instruction: &Instruction, out: &mut impl Sink<ControlNode>) {
        let before = self.agent.held();
        let mut actions = Vec::new();
        self.agent.handle(instruction.clone(), &mut actions);
        while !actions.is_empty() {
            for action in core::mem::take(&mut actions) {
                match action {
                    AgentAction::Install(context) => {
                        if let Some(rank) = &mut self.rank {
                            rank.install(&context);
                        }
                        self.agent.installed(context.group, Ok(()), &mut actions)
                    }
                    AgentAction::Begin(group) => {
                        if let Some(rank) = &mut self.rank {
                            rank.begin(group);
                        }
                    }
                    AgentAction::Suspend { group, .. } => {
                        let rank = self.rank.as_mut().expect("ranks alone are suspended");
                        let report = Report::Suspended(rank.suspend(group));
                        say(PortId(0), Message::Report { session, group, report }, out);
                    }
                    AgentAction::Resume { group, first, .. } => {
                        if let Some(rank) = &mut self.rank {
                            rank.resume(group, first);
                        }
                    }
                    AgentAction::Remove { group, failure } => {
                        if let Some(rank) = &mut self.rank {
                            rank.remove(group);
                            if failure.is_some() {
                                out.emit(ControlEvent::Failed);
                            }
                        }
                    }
                    AgentAction::Report { group, report } => {
                        say(PortId(0), Message::Report { session, group, report }, out);
                    }
                }
            }
        }
        self.run(out);
        let held = self.agent.held();
        if held != before {
            let clash = held.last().and_then(|newest| {
                let shares = |other: &&HeldGroup| {
                    let same_memory = match (other.region, newest.region) {
                        (Some(a), Some(b)) => a.overlaps(&b),
                        _ => false,
                    };
                    same_memory || !other.endpoints.is_disjoint(&newest.endpoints)
                };
                held[..held.len() - 1].iter().find(shares).map(|other| other.group)
            });
            out.emit(ControlEvent::Holds { groups: held.len(), clash });
        }
    }
}

impl Engine for ControlNode {
    type Config = ControlConfig;
    type ConfigError = Infallible;
    type Header = Message;
    type Payload = LengthOnly;
    type Timer = ControlTimer;
    type Command = ControlCommand;
    type Rejected = Infallible;
    type Event = ControlEvent;
    type DropReason = ControlDrop;

    fn new(config: ControlConfig) -> Result<Self, Infallible> {
        Ok(match config {
            ControlConfig::Manager { catalog, config, mutation } => Self::Manager(Box::new(ManagerNode {
                manager: Manager::new(catalog, config).breaking(mutation),
                connections: BTreeMap::new(),
                given: BTreeMap::new(),
                epoch: 1,
                next_request: 0,
                waiting: 0,
                numbers: 1,
                records: BTreeMap::new(),
                told: (0, 0, ByteCount::new(0)),
                mutation,
            })),
            ControlConfig::Agent { description, collectives, mutation } => {
                let mut agent = Agent::new(&description);
                agent.mutation = mutation;
                let description = *description;
                let rank = (collectives > 0).then(|| RankModel::new(collectives, mutation));
                Self::Agent(Box::new(AgentNode {
                    agent,
                    description,
                    attempt: 0,
                    session: None,
                    rank,
                    is_dead: false,
                    mutation,
                }))
            }
        })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, Message, LengthOnly>,
        out: &mut impl Sink<Self>,
    ) {
        match self {
            Self::Manager(manager) => manager.hear(now, port, frame.header, out),
            Self::Agent(agent) => agent.hear(port, frame.header, out),
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: ControlTimer, out: &mut impl Sink<Self>) {
        match (self, timer) {
            (Self::Manager(manager), ControlTimer::Manager(timer)) => {
                manager.step(now, out, |own, actions| own.manager.handle_timer(timer, actions));
            }
            (Self::Agent(agent), ControlTimer::Again) if !agent.is_dead => agent.connect(out),
            (Self::Manager(_) | Self::Agent(_), _) => {}
        }
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: ControlCommand,
        out: &mut impl Sink<Self>,
    ) -> Result<(), Infallible> {
        match self {
            Self::Manager(manager) => manager.obey(now, command, out),
            Self::Agent(agent) if matches!(command, ControlCommand::Die) => agent.die(out),
            Self::Agent(agent) => agent.connect(out),
        }
        Ok(())
    }

    fn wants_transmit(&self, _: PortId) -> bool {
        false
    }

    fn handle_transmit_slot(&mut self, _: Instant, _: PortId, _: &mut impl Sink<Self>) {}

    fn assert_invariants(&self) {
        match self {
            Self::Manager(manager) => manager.manager.assert_invariants(),
            Self::Agent(agent) => agent.agent.assert_invariants(),
        }
    }
}
