//! A host or a switch: one type for drivers whose nodes are all of one engine.

use core::marker::PhantomData;
use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

use crate::host::{Host, HostCommand, HostEvent, HostRejected, HostTimer};
use crate::mutation::Mutation;
use crate::switch::{Switch, SwitchCommand, SwitchEvent, SwitchRejected, SwitchTimer};
use crate::transport::NodeDrop;

/// What a node is to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    /// A rank's node.
    Host,
    /// A switch.
    Switch,
}

/// A node of a network of hosts and switches; hosts run programs of one type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Node<P: Payload> {
    /// A rank's node.
    Host(Host<P>),
    /// A switch.
    Switch(Switch<P>),
}

/// What a node is asked to do.
#[derive(Clone, Debug)]
pub enum NodeCommand<P: Payload> {
    /// Of a host.
    Host(HostCommand<P>),
    /// Of a switch.
    Switch(SwitchCommand<P>),
}

/// What a node tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent<P> {
    /// A host.
    Host(HostEvent<P>),
    /// A switch.
    Switch(SwitchEvent),
}

/// A node's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeTimer {
    /// A host's.
    Host(HostTimer),
    /// A switch's.
    Switch(SwitchTimer),
}

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NodeRejected {
    /// By a host.
    #[error(transparent)]
    Host(#[from] HostRejected),
    /// By a switch.
    #[error(transparent)]
    Switch(#[from] SwitchRejected),
    /// It is for the other kind.
    #[error("expected a command for a {expected:?}, found one for the other kind of node; address another")]
    OtherKind {
        /// What the node is.
        expected: NodeKind,
    },
}

/// A node's sink, as what is inside sees it.
struct Inner<'a, P, S> {
    out: &'a mut S,
    node: PhantomData<P>,
}

macro_rules! inner_sink {
    ($engine:ty, $variant:ident, $timer:ty, $event:ty) => {
        impl<P: Payload, S: Sink<Node<P>>> Sink<$engine> for Inner<'_, P, S> {
            fn transmit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, P>) {
                self.out.transmit(port, frame);
            }

            fn replicate(
                &mut self,
                payload: P::View<'_>,
                copies: impl FnOnce(&mut dyn FnMut(PortId, &RoceHeader)),
            ) {
                self.out.replicate(payload, copies);
            }

            fn set_timer(&mut self, timer: $timer, after: Duration) {
                self.out.set_timer(NodeTimer::$variant(timer), after);
            }

            fn cancel_timer(&mut self, timer: $timer) {
                self.out.cancel_timer(NodeTimer::$variant(timer));
            }

            fn emit(&mut self, event: $event) {
                self.out.emit(NodeEvent::$variant(event));
            }

            fn drop_frame(&mut self, port: PortId, reason: NodeDrop) {
                self.out.drop_frame(port, reason);
            }
        }
    };
}

inner_sink!(Host<P>, Host, HostTimer, HostEvent<P>);
inner_sink!(Switch<P>, Switch, SwitchTimer, SwitchEvent);

fn inner<P: Payload, S: Sink<Node<P>>>(out: &mut S) -> Inner<'_, P, S> {
    Inner { out, node: PhantomData }
}

impl<P: Payload> Node<P> {
    /// The same with a broken rule, for the checker alone.
    #[must_use]
    pub fn breaking(self, mutation: Mutation) -> Self {
        match self {
            Self::Switch(switch) => Self::Switch(switch.breaking(mutation)),
            // All rules are of switches.
            Self::Host(_) => self,
        }
    }

    /// What it is.
    pub fn kind(&self) -> NodeKind {
        match self {
            Self::Host(_) => NodeKind::Host,
            Self::Switch(_) => NodeKind::Switch,
        }
    }
}

impl<P: Payload> Engine for Node<P> {
    type Config = NodeKind;
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = P;
    type Timer = NodeTimer;
    type Command = NodeCommand<P>;
    type Rejected = NodeRejected;
    type Event = NodeEvent<P>;
    type DropReason = NodeDrop;

    fn new(kind: NodeKind) -> Result<Self, Self::ConfigError> {
        Ok(match kind {
            NodeKind::Host => Self::Host(Host::new(())?),
            NodeKind::Switch => Self::Switch(Switch::new(())?),
        })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        match self {
            Self::Host(host) => host.handle_frame(now, port, frame, &mut inner(out)),
            Self::Switch(switch) => switch.handle_frame(now, port, frame, &mut inner(out)),
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: NodeTimer, out: &mut impl Sink<Self>) {
        match (self, timer) {
            (Self::Host(host), NodeTimer::Host(timer)) => host.handle_timer(now, timer, &mut inner(out)),
            (Self::Switch(switch), NodeTimer::Switch(timer)) => {
                switch.handle_timer(now, timer, &mut inner(out));
            }
            // A timer that was never armed here is as harmless as one that was cancelled.
            _ => {}
        }
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: NodeCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), NodeRejected> {
        let expected = self.kind();
        match (self, command) {
            (Self::Host(host), NodeCommand::Host(command)) => {
                Ok(host.handle_command(now, command, &mut inner(out))?)
            }
            (Self::Switch(switch), NodeCommand::Switch(command)) => {
                Ok(switch.handle_command(now, command, &mut inner(out))?)
            }
            _ => Err(NodeRejected::OtherKind { expected }),
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        match self {
            Self::Host(host) => host.wants_transmit(port),
            Self::Switch(switch) => switch.wants_transmit(port),
        }
    }

    fn may_want_transmit(&self) -> bool {
        match self {
            Self::Host(host) => host.may_want_transmit(),
            Self::Switch(switch) => switch.may_want_transmit(),
        }
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        match self {
            Self::Host(host) => host.handle_transmit_slot(now, port, &mut inner(out)),
            Self::Switch(switch) => switch.handle_transmit_slot(now, port, &mut inner(out)),
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Host(host) => host.assert_invariants(),
            Self::Switch(switch) => switch.assert_invariants(),
        }
    }
}
