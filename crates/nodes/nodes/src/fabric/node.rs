//! A node of the memory fabric as one engine.

use alloc::boxed::Box;
use core::convert::Infallible;
use quincunx_collective::{Payload, Rank};
use quincunx_design::{UnitCounter, UnitEvent};
use quincunx_engine::shared_memory::{InPlaceRequest, KernelRefusal};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_memory::{MemoryDrop, Port};
use quincunx_units::Instant;
use quincunx_wire::flit::{FlitHeader, NodeId, Transaction};

use super::accelerator::{Accelerator, AcceleratorConfig};
use super::switch::{FabricSwitch, FabricSwitchConfig};

/// What a node is to be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FabricConfig<P: Payload> {
    /// An accelerator.
    Accelerator(AcceleratorConfig<P>),
    /// A switch.
    Switch(FabricSwitchConfig<P>),
}

/// An accelerator or a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum FabricNode<P: Payload> {
    /// An accelerator.
    Accelerator(Box<Accelerator<P>>),
    /// A switch.
    Switch(Box<FabricSwitch<P>>),
}

/// What is asked of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FabricCommand<P> {
    /// Gives an accelerator another memory.
    Fill(P),
    /// Begins a collective on an accelerator.
    Start {
        /// The kernel that runs it.
        kernel: u16,
        /// What.
        request: InPlaceRequest,
    },
    /// Sends bytes of an accelerator's memory to another one, which takes them and does nothing: traffic of others.
    Send {
        /// The link that they go by.
        link: PortId,
        /// Whom they are for.
        to: Rank,
        /// How many, at most a packet's.
        length: usize,
        /// What the packet says as its address.
        address: u64,
    },
}

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FabricRejected {
    /// The kernel cannot begin.
    #[error(transparent)]
    Kernel(#[from] KernelRefusal),
    /// There is no such kernel.
    #[error("expected a kernel that the accelerator was set up with, found number {0}")]
    NoKernel(u16),
    /// Memory of another size.
    #[error("expected a memory of {expected} bytes, found {found}; fill it as it was set up")]
    MemorySize {
        /// Bytes.
        expected: usize,
        /// Bytes.
        found: usize,
    },
    /// A packet that cannot be sent.
    #[error(
        "expected a link below {links} and at most {most} bytes of memory, found link {link} and {length} bytes; send another packet"
    )]
    Packet {
        /// Links.
        links: u16,
        /// Bytes.
        most: usize,
        /// The link as given.
        link: u16,
        /// Bytes as given.
        length: usize,
    },
    /// A command for an accelerator, at a switch.
    #[error("expected an accelerator, found a switch; send the command there")]
    Switch,
}

/// What a node tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FabricEvent {
    /// A collective is over on an accelerator.
    Finished {
        /// The kernel that ran it.
        kernel: u16,
    },
    /// Something of what computes in a switch.
    Unit {
        /// Which of the switch's units, in the order of its set-up.
        unit: u16,
        /// What.
        event: UnitEvent,
    },
}

/// A node's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FabricTimer {
    /// A response of an accelerator is ready for a link.
    Respond(PortId),
    /// An accelerator's kernel has added what it had to add.
    Compute,
    /// That of a switch's unit, in the order of its set-up.
    Unit(u16),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FabricDrop {
    /// By a port, the switch core or a memory.
    Memory(MemoryDrop),
    /// By what computes in a switch, for the reason that it gives.
    Unit(&'static str),
}

/// A packet of nothing but credits, if there are any to return.
pub(super) fn credit_alone(link: &mut Port) -> Option<FlitHeader> {
    // It goes no further than the link, so that it needs no addresses.
    let mut header = FlitHeader::new(NodeId(0), NodeId(0), false, 0, 0, Transaction::Credit);
    link.seal(&mut header, 0);
    (header.credit.packets > 0).then_some(header)
}

/// Sends nothing but credits.
pub(super) fn send_credit<P: Payload>(port: PortId, link: &mut Port, out: &mut impl Sink<FabricNode<P>>) {
    if let Some(header) = credit_alone(link) {
        out.transmit(port, Frame { header: &header, payload: P::empty() });
    }
}

impl<P: Payload> FabricNode<P> {
    /// The memory, if it is an accelerator.
    pub fn memory(&self) -> Option<&P> {
        if let Self::Accelerator(accelerator) = self { Some(accelerator.memory()) } else { None }
    }

    /// Bytes that a switch needs for its units, beside the buffers of its ports.
    pub fn buffer_bytes(&self) -> usize {
        if let Self::Switch(switch) = self { switch.buffer_bytes() } else { 0 }
    }

    /// What the units of a switch have counted; nothing of an accelerator.
    pub fn count(&self, tell: &mut dyn FnMut(UnitCounter)) {
        if let Self::Switch(switch) = self {
            switch.count(tell);
        }
    }
}

impl<P: Payload> Engine for FabricNode<P> {
    type Config = FabricConfig<P>;
    type ConfigError = Infallible;
    type Header = FlitHeader;
    type Payload = P;
    type Timer = FabricTimer;
    type Command = FabricCommand<P>;
    type Rejected = FabricRejected;
    type Event = FabricEvent;
    type DropReason = FabricDrop;

    fn new(config: FabricConfig<P>) -> Result<Self, Infallible> {
        Ok(match config {
            FabricConfig::Accelerator(config) => Self::Accelerator(Box::new(Accelerator::new(config))),
            FabricConfig::Switch(config) => Self::Switch(Box::new(FabricSwitch::new(config))),
        })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, FlitHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        match self {
            Self::Accelerator(node) => node.handle_frame(now, port, frame, out),
            Self::Switch(node) => node.handle_frame(now, port, frame, out),
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: FabricTimer, out: &mut impl Sink<Self>) {
        match (self, timer) {
            (Self::Accelerator(node), FabricTimer::Respond(link)) => node.handle_timer(now, link, out),
            (Self::Accelerator(node), FabricTimer::Compute) => node.handle_computed(now, out),
            (Self::Switch(node), FabricTimer::Unit(unit)) => node.handle_timer(now, unit, out),
            (_, timer) => panic!("{timer:?} is not a timer of this node"),
        }
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: FabricCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), FabricRejected> {
        match (self, command) {
            (Self::Accelerator(node), FabricCommand::Fill(memory)) => {
                let (expected, found) = (node.memory().length(), memory.length());
                if expected != found {
                    return Err(FabricRejected::MemorySize { expected, found });
                }
                node.exchange_memory(memory);
                Ok(())
            }
            (Self::Accelerator(node), FabricCommand::Start { kernel, request }) => {
                if !node.has_kernel(kernel) {
                    return Err(FabricRejected::NoKernel(kernel));
                }
                Ok(node.start(now, kernel, request, out)?)
            }
            (Self::Accelerator(node), FabricCommand::Send { link, to, length, address }) => {
                node.send(link, to, length, address)
            }
            (Self::Switch(_), _) => Err(FabricRejected::Switch),
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        match self {
            Self::Accelerator(node) => node.wants_transmit(port),
            Self::Switch(node) => node.wants_transmit(port),
        }
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        match self {
            Self::Accelerator(node) => node.handle_transmit_slot(now, port, out),
            Self::Switch(node) => node.handle_transmit_slot(port, out),
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Accelerator(node) => node.assert_invariants(),
            Self::Switch(node) => node.assert_invariants(),
        }
    }
}
