//! A node of the memory fabric as one engine.

use alloc::boxed::Box;
use core::convert::Infallible;
use quincunx_collective::{Payload, Rank};
use quincunx_design::UnitCounter;
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::FlitHeader;

use super::accelerator::{Accelerator, AcceleratorConfig};
use super::sink::{FabricDrop, FabricEvent, FabricRejected, FabricSink, FabricTimer};
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

impl<P: Payload, S: Sink<FabricNode<P>>> FabricSink<P> for S {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, FlitHeader, P>) {
        Sink::transmit(self, port, frame);
    }

    fn set_timer(&mut self, timer: FabricTimer, after: Duration) {
        Sink::set_timer(self, timer, after);
    }

    fn emit(&mut self, event: FabricEvent) {
        Sink::emit(self, event);
    }

    fn drop_frame(&mut self, port: PortId, reason: FabricDrop) {
        Sink::drop_frame(self, port, reason);
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
