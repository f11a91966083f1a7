//! An agent as an engine: its connection to a manager, or to one of two.

use super::message::{ControlDrop, ControlEvent, ControlTimer, Message, Session};
use super::sink::{ControlSink, say};
use crate::mutation::Mutation;
use crate::rank::{Moved, RankModel, Token};
use crate::{Agent, AgentAction, HeldGroup, Instruction, NodeDescription, Report};
use alloc::boxed::Box;
use alloc::vec::Vec;
use quincunx_engine::PortId;
use quincunx_units::Duration;

/// How long an agent waits for a connection.
const CONNECT_AGAIN: Duration = Duration::from_millis(500);

/// An agent and its connection: by port 0, or of two managers to the other one by port 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AgentNode {
    agent: Agent,
    description: NodeDescription,
    /// By which port it reaches its manager.
    manager: PortId,
    attempt: u32,
    /// The connection, once there is one.
    session: Option<Session>,
    /// Of a host whose application runs collectives.
    rank: Option<RankModel>,
    is_dead: bool,
    mutation: Option<Mutation>,
}

impl AgentNode {
    pub(super) fn new(description: NodeDescription, collectives: u64, mutation: Option<Mutation>) -> Self {
        let mut agent = Agent::new(&description);
        agent.mutation = mutation;
        Self {
            agent,
            description,
            manager: PortId(0),
            attempt: 0,
            session: None,
            rank: (collectives > 0).then(|| RankModel::new(collectives, mutation)),
            is_dead: false,
            mutation,
        }
    }

    /// It has no answer yet.
    pub(super) fn try_again(&mut self, out: &mut impl ControlSink) {
        if !self.is_dead {
            self.connect(out);
        }
    }

    /// It leaves its manager for the other one.
    fn turn(&mut self, out: &mut impl ControlSink) {
        if let Some(session) = self.session {
            say(self.manager, Message::Gone { session }, out);
        }
        self.manager = PortId(1 - self.manager.0);
        self.connect(out);
    }

    pub(super) fn assert_invariants(&self) {
        self.agent.assert_invariants();
    }

    pub(super) fn connect(&mut self, out: &mut impl ControlSink) {
        self.attempt += 1;
        self.session = None;
        say(self.manager, Message::Connect { attempt: self.attempt }, out);
        out.set_timer(ControlTimer::Again, CONNECT_AGAIN);
    }

    /// Its process is killed: its peers are told by the end of its connection.
    pub(super) fn die(&mut self, out: &mut impl ControlSink) {
        self.is_dead = true;
        out.cancel_timer(ControlTimer::Again);
        if let Some(session) = self.session {
            say(self.manager, Message::Gone { session }, out);
        }
        if !self.agent.held().is_empty() {
            out.emit(ControlEvent::Holds { groups: 0, clash: None });
        }
    }

    /// Its rank is done with the groups that it has.
    pub(super) fn release(&mut self, out: &mut impl ControlSink) {
        for HeldGroup { group, .. } in self.agent.held() {
            let mut actions = Vec::new();
            self.agent.release(group, &mut actions);
            for action in actions {
                // Without a connection it is told with the next one.
                if let (AgentAction::Report { group, report }, Some(session)) = (action, self.session) {
                    say(self.manager, Message::Report { session, group, report }, out);
                }
            }
        }
    }

    /// What it has said may have come before the manager knew the node: it is said again.
    fn release_again(&self, session: Session, out: &mut impl ControlSink) {
        for HeldGroup { group, .. } in self.agent.held().into_iter().filter(|held| held.is_released) {
            say(self.manager, Message::Report { session, group, report: Report::Released }, out);
        }
    }

    /// A switch hands tokens on; a rank takes them.
    fn carry(&mut self, port: PortId, token: Token, out: &mut impl ControlSink) {
        let is_held = self.agent.held().iter().any(|held| held.group == token.group);
        let taken = self.rank.as_mut().map(|rank| rank.take(token));
        match taken {
            Some(true) => self.run(out),
            None if is_held => say(PortId(3 - port.0), Message::Data(token), out),
            Some(false) | None => out.drop_frame(port, ControlDrop::NotInstalled),
        }
    }

    fn run(&mut self, out: &mut impl ControlSink) {
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

    pub(super) fn hear(&mut self, port: PortId, message: &Message, out: &mut impl ControlSink) {
        if self.is_dead {
            return out.drop_frame(port, ControlDrop::NotInstalled);
        }
        match message {
            Message::Data(token) => self.carry(port, *token, out),
            Message::Serves => self.turn(out),
            Message::Welcome { attempt, session } if *attempt == self.attempt => match self.session {
                None => {
                    self.session = Some(*session);
                    let message = Message::Attach {
                        session: *session,
                        node: Box::new(self.description.clone()),
                        held: self.agent.attaches_with(),
                    };
                    say(self.manager, message, out);
                }
                // The manager is another one, which has heard of an attempt of before.
                Some(own) if session.epoch > own.epoch => self.connect(out),
                Some(_) => out.drop_frame(port, ControlDrop::OldSession),
            },
            Message::Welcome { .. } => out.drop_frame(port, ControlDrop::OldSession),
            Message::Attached { session } | Message::Instruct { session, .. } => {
                if self.session != Some(*session) && self.mutation != Some(Mutation::ObeysOldWords) {
                    return out.drop_frame(port, ControlDrop::OldSession);
                }
                // Whatever it says, the manager has taken the node.
                out.cancel_timer(ControlTimer::Again);
                match message {
                    Message::Instruct { session, instruction } => self.obey(*session, instruction, out),
                    _ => self.release_again(*session, out),
                }
            }
            _ => out.drop_frame(port, ControlDrop::ProtocolViolation),
        }
    }

    fn obey(&mut self, session: Session, instruction: &Instruction, out: &mut impl ControlSink) {
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
                        say(self.manager, Message::Report { session, group, report }, out);
                    }
                    // What its collectives and paths are is not explored.
                    AgentAction::TellCalls(_)
                    | AgentAction::TellTimes(_)
                    | AgentAction::ProbePaths(_)
                    | AgentAction::TellPaths(_) => {}
                    // What is in memory is not explored here: the agent has said where it is.
                    AgentAction::MoveMemory(_) => {}
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
                        say(self.manager, Message::Report { session, group, report }, out);
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
