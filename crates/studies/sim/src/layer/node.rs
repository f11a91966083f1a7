//! A node of a machine as one engine: an accelerator that runs a program, or a switch of the memory fabric.

use quincunx_accelerator::{Gpu, GpuConfig, GpuDrop, GpuEvent, GpuSink, GpuTimer};
use quincunx_collective::Payload;
use quincunx_driver_des::{Direction, Medium};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::fabric::FabricConfig;
use quincunx_nodes::fabric::{FabricDrop, FabricEvent, FabricNode, FabricSwitchConfig, FabricTimer};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::flit::FlitHeader;
use std::convert::Infallible;

use crate::memory_fabric::FlitMedium;

/// What a node is to be.
pub(crate) enum LayerNodeConfig<P: Payload> {
    Gpu(Box<GpuConfig>),
    Switch(FabricSwitchConfig<P>),
}

/// An accelerator or a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LayerNode<P: Payload> {
    Gpu(Box<Gpu<P>>),
    Switch(FabricNode<P>),
}

/// What is asked of a node.
pub(crate) enum LayerNodeCommand<P> {
    /// Gives an accelerator another memory.
    Fill(P),
    /// Begins its program.
    Start,
}

/// There is no misuse: commands are this room's own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected an accelerator, found a switch")]
pub(crate) struct NotAGpu;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LayerNodeEvent {
    Gpu(GpuEvent),
    Switch(FabricEvent),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum LayerNodeTimer {
    Gpu(GpuTimer),
    Switch(FabricTimer),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum LayerNodeDrop {
    Gpu(GpuDrop),
    Switch(FabricDrop),
}

/// What an accelerator says, in the words of a node.
struct GpuOut<'a, S>(&'a mut S);

impl<P: Payload, S: Sink<LayerNode<P>>> GpuSink<P> for GpuOut<'_, S> {
    fn transmit(&mut self, port: PortId, header: &FlitHeader, payload: P::View<'_>) {
        self.0.transmit(port, Frame { header, payload: P::reborrow(payload) });
    }

    fn set_timer(&mut self, timer: GpuTimer, after: Duration) {
        self.0.set_timer(LayerNodeTimer::Gpu(timer), after);
    }

    fn emit(&mut self, event: GpuEvent) {
        self.0.emit(LayerNodeEvent::Gpu(event));
    }
}

/// The same of a switch.
struct SwitchOut<'a, S>(&'a mut S);

impl<P: Payload, S: Sink<LayerNode<P>>> Sink<FabricNode<P>> for SwitchOut<'_, S> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, FlitHeader, P>) {
        self.0.transmit(port, Frame { header: frame.header, payload: frame.payload });
    }

    fn set_timer(&mut self, timer: FabricTimer, after: Duration) {
        self.0.set_timer(LayerNodeTimer::Switch(timer), after);
    }

    fn cancel_timer(&mut self, timer: FabricTimer) {
        self.0.cancel_timer(LayerNodeTimer::Switch(timer));
    }

    fn emit(&mut self, event: FabricEvent) {
        self.0.emit(LayerNodeEvent::Switch(event));
    }

    fn drop_frame(&mut self, port: PortId, reason: FabricDrop) {
        self.0.drop_frame(port, LayerNodeDrop::Switch(reason));
    }
}

impl<P: Payload> Engine for LayerNode<P> {
    type Config = LayerNodeConfig<P>;
    type ConfigError = Infallible;
    type Header = FlitHeader;
    type Payload = P;
    type Timer = LayerNodeTimer;
    type Command = LayerNodeCommand<P>;
    type Rejected = NotAGpu;
    type Event = LayerNodeEvent;
    type DropReason = LayerNodeDrop;

    fn new(config: LayerNodeConfig<P>) -> Result<Self, Infallible> {
        Ok(match config {
            LayerNodeConfig::Gpu(config) => Self::Gpu(Box::new(Gpu::new(*config))),
            LayerNodeConfig::Switch(config) => Self::Switch(FabricNode::new(FabricConfig::Switch(config))?),
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
            Self::Gpu(gpu) => {
                let taken = gpu.handle_packet(now, port, frame.header, frame.payload, &mut GpuOut(out));
                if let Err(reason) = taken {
                    out.drop_frame(port, LayerNodeDrop::Gpu(reason));
                }
            }
            Self::Switch(switch) => switch.handle_frame(now, port, frame, &mut SwitchOut(out)),
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: LayerNodeTimer, out: &mut impl Sink<Self>) {
        match (self, timer) {
            (Self::Gpu(gpu), LayerNodeTimer::Gpu(timer)) => gpu.handle_timer(now, timer, &mut GpuOut(out)),
            (Self::Switch(switch), LayerNodeTimer::Switch(timer)) => {
                switch.handle_timer(now, timer, &mut SwitchOut(out));
            }
            (_, timer) => panic!("{timer:?} is not a timer of this node"),
        }
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: LayerNodeCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), NotAGpu> {
        let Self::Gpu(gpu) = self else { return Err(NotAGpu) };
        match command {
            LayerNodeCommand::Fill(memory) => *gpu.memory_mut() = memory,
            LayerNodeCommand::Start => gpu.start(now, &mut GpuOut(out)),
        }
        Ok(())
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        match self {
            Self::Gpu(gpu) => gpu.wants_transmit(port),
            Self::Switch(switch) => switch.wants_transmit(port),
        }
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        match self {
            Self::Gpu(gpu) => gpu.handle_transmit_slot(now, port, &mut GpuOut(out)),
            Self::Switch(switch) => switch.handle_transmit_slot(now, port, &mut SwitchOut(out)),
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Gpu(gpu) => gpu.assert_invariants(),
            Self::Switch(switch) => switch.assert_invariants(),
        }
    }
}

impl<P: Payload> Medium<LayerNode<P>> for FlitMedium {
    fn wire_length(&self, header: &FlitHeader, payload: usize) -> ByteCount {
        Medium::<FabricNode<P>>::wire_length(self, header, payload)
    }

    fn needed_length(&self, direction: Direction, header: &FlitHeader, whole: ByteCount) -> ByteCount {
        Medium::<FabricNode<P>>::needed_length(self, direction, header, whole)
    }
}
