//! A node of the memory fabric whose owner sees its memory: as it is when a collective begins and when it has ended.
//!
//! It adds nothing to what the node does. Collectives are in place, so that events of the node carry no result; and on a fabric that loses
//! nothing a packet that is dropped is a fault, which the owner is told of, too.

use core::convert::Infallible;

use quincunx_collective::{Payload, Provenance};
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::fabric::{
    FabricCommand, FabricConfig, FabricDrop, FabricEvent, FabricNode, FabricRejected, FabricTimer,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::FlitHeader;

/// The node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemoryNode(FabricNode<Provenance>);

/// Asks an accelerator to begin a collective.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Where the accelerator puts what it brings in.
    pub offset: usize,
    /// What it brings in.
    pub input: Provenance,
    /// Which collective.
    pub request: InPlaceRequest,
}

/// What the owner of a node is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemoryNodeEvent {
    /// A collective begins.
    Begins {
        /// The accelerator's memory before it brings anything in.
        memory: Provenance,
    },
    /// A collective is over.
    Finished {
        /// The accelerator's memory.
        memory: Provenance,
    },
    /// A packet was dropped.
    Dropped {
        /// Why.
        reason: FabricDrop,
    },
}

/// Passes on what the node answers, and keeps what its owner is to be told.
struct Passing<'a, S> {
    out: &'a mut S,
    finished: u32,
    dropped: Vec<FabricDrop>,
}

impl<S: Sink<MemoryNode>> Sink<FabricNode<Provenance>> for Passing<'_, S> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, FlitHeader, Provenance>) {
        self.out.transmit(port, Frame { header: frame.header, payload: frame.payload });
    }

    fn set_timer(&mut self, timer: FabricTimer, after: Duration) {
        self.out.set_timer(timer, after);
    }

    fn cancel_timer(&mut self, timer: FabricTimer) {
        self.out.cancel_timer(timer);
    }

    fn emit(&mut self, event: FabricEvent) {
        match event {
            FabricEvent::Finished { .. } => self.finished += 1,
            // For those who draw what a switch does.
            FabricEvent::Unit { .. } => {}
        }
    }

    fn drop_frame(&mut self, port: PortId, reason: FabricDrop) {
        self.dropped.push(reason);
        self.out.drop_frame(port, reason);
    }
}

impl MemoryNode {
    fn memory(&self) -> Provenance {
        self.0.memory().expect("accelerators have memory").clone()
    }

    /// Asks the node, and tells the owner what has come of it.
    fn ask<T, S: Sink<Self>>(
        &mut self,
        out: &mut S,
        ask: impl FnOnce(&mut FabricNode<Provenance>, &mut Passing<'_, S>) -> T,
    ) -> T {
        let mut passing = Passing { out, finished: 0, dropped: Vec::new() };
        let answer = ask(&mut self.0, &mut passing);
        let Passing { finished, dropped, .. } = passing;
        for reason in dropped {
            out.emit(MemoryNodeEvent::Dropped { reason });
        }
        for _ in 0..finished {
            out.emit(MemoryNodeEvent::Finished { memory: self.memory() });
        }
        answer
    }
}

impl Engine for MemoryNode {
    type Config = FabricConfig<Provenance>;
    type ConfigError = Infallible;
    type Header = FlitHeader;
    type Payload = Provenance;
    type Timer = FabricTimer;
    type Command = Begin;
    type Rejected = FabricRejected;
    type Event = MemoryNodeEvent;
    type DropReason = FabricDrop;

    fn new(config: FabricConfig<Provenance>) -> Result<Self, Infallible> {
        FabricNode::new(config).map(Self)
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, FlitHeader, Provenance>,
        out: &mut impl Sink<Self>,
    ) {
        let frame = Frame { header: frame.header, payload: frame.payload };
        self.ask(out, |node, out| node.handle_frame(now, port, frame, out));
    }

    fn handle_timer(&mut self, now: Instant, timer: FabricTimer, out: &mut impl Sink<Self>) {
        self.ask(out, |node, out| node.handle_timer(now, timer, out));
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: Begin,
        out: &mut impl Sink<Self>,
    ) -> Result<(), FabricRejected> {
        let Begin { offset, input, request } = command;
        let mut memory = self.memory();
        out.emit(MemoryNodeEvent::Begins { memory: memory.clone() });
        memory.write(offset, input.view(0..input.length()));
        self.ask(out, |node, out| {
            node.handle_command(now, FabricCommand::Fill(memory), out)?;
            node.handle_command(now, FabricCommand::Start { kernel: 0, request }, out)
        })
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        self.0.wants_transmit(port)
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        self.ask(out, |node, out| node.handle_transmit_slot(now, port, out));
    }

    fn assert_invariants(&self) {
        self.0.assert_invariants();
    }
}
