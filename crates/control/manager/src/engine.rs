//! Manager and agents as engines: for the simulator and the checker, which drive them as any other. Messages are headers of frames without
//! a payload; they may be late and doubled. Over gRPC the same [`Manager`](crate::Manager), [`Journal`](crate::Journal) and
//! [`Agent`](crate::Agent) speak through streams. Beside them, for two managers of one fabric: the store that they share, and a client.

mod agent;
mod client;
mod manager;
mod message;
mod sink;
mod store;

pub use agent::AgentNode;
pub use client::ClientNode;
pub use manager::ManagerNode;
pub use message::{ControlCommand, ControlDrop, ControlEvent, ControlTimer, Message, Pair, Session};
pub use store::StoreNode;

use crate::mutation::Mutation;
use crate::{GroupRequest, ManagerConfig, NodeDescription};
use alloc::boxed::Box;
use core::convert::Infallible;
use quincunx_collective::LengthOnly;
use quincunx_design::Catalog;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};
use sink::ControlSink;

/// A manager with what it has kept, or an agent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ControlNode {
    /// The manager.
    Manager(Box<ManagerNode>),
    /// An agent.
    Agent(Box<AgentNode>),
    /// What two managers keep things in.
    Store(Box<StoreNode>),
    /// Whoever asks two managers for groups.
    Client(Box<ClientNode>),
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
        /// If it is one of two, which share a store; none: it keeps things itself.
        pair: Option<Pair>,
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
    /// What two managers keep things in.
    Store {
        /// A rule that it breaks.
        mutation: Option<Mutation>,
    },
    /// Whoever asks two managers for groups.
    Client {
        /// What for; each time with a key of its own.
        wanted: Box<GroupRequest>,
        /// A rule that he breaks.
        mutation: Option<Mutation>,
    },
}

impl<S: Sink<ControlNode>> ControlSink for S {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, Message, LengthOnly>) {
        Sink::transmit(self, port, frame);
    }

    fn set_timer(&mut self, timer: ControlTimer, after: Duration) {
        Sink::set_timer(self, timer, after);
    }

    fn cancel_timer(&mut self, timer: ControlTimer) {
        Sink::cancel_timer(self, timer);
    }

    fn emit(&mut self, event: ControlEvent) {
        Sink::emit(self, event);
    }

    fn drop_frame(&mut self, port: PortId, reason: ControlDrop) {
        Sink::drop_frame(self, port, reason);
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
            ControlConfig::Manager { catalog, config, pair, mutation } => {
                Self::Manager(Box::new(ManagerNode::new(catalog, config, pair, mutation)))
            }
            ControlConfig::Agent { description, collectives, mutation } => {
                Self::Agent(Box::new(AgentNode::new(*description, collectives, mutation)))
            }
            ControlConfig::Store { mutation } => Self::Store(Box::new(StoreNode::new(mutation))),
            ControlConfig::Client { wanted, mutation } => {
                Self::Client(Box::new(ClientNode::new(wanted, mutation)))
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
            Self::Store(store) => store.hear(port, frame.header, out),
            Self::Client(client) => client.hear(port, frame.header, out),
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: ControlTimer, out: &mut impl Sink<Self>) {
        match (self, timer) {
            (Self::Manager(manager), ControlTimer::Manager(timer)) => {
                manager.expire(now, timer, out);
            }
            (Self::Agent(agent), ControlTimer::Again) => agent.try_again(out),
            (_, _) => {}
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
            Self::Agent(agent) if matches!(command, ControlCommand::Release) => agent.release(out),
            Self::Agent(agent) => agent.connect(out),
            Self::Client(client) if matches!(command, ControlCommand::EndAll) => client.end(out),
            Self::Client(client) => client.ask(out),
            Self::Store(_) => {}
        }
        Ok(())
    }

    fn wants_transmit(&self, _: PortId) -> bool {
        false
    }

    fn handle_transmit_slot(&mut self, _: Instant, _: PortId, _: &mut impl Sink<Self>) {}

    fn assert_invariants(&self) {
        match self {
            Self::Manager(manager) => manager.assert_invariants(),
            Self::Agent(agent) => agent.assert_invariants(),
            Self::Store(store) => store.assert_invariants(),
            Self::Client(_) => {}
        }
    }
}
