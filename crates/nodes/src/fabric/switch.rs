//! A switch of the memory fabric: ports, the core that forwards between them, and what computes beside it.

use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::{Frame, PortId, Sink};
use quincunx_memory::{ChannelSet, Forwarded, MemoryDrop, Port, PortConfig, SwitchCore};
use quincunx_nvls::{Multicast, MulticastConfig, Output};
use quincunx_scin::{ConfigError, Instruction, Isa, IsaConfig, LoadError};
use quincunx_units::Instant;
use quincunx_wire::flit::{Channel, Class, FlitHeader, NodeId, Transaction};

use super::node::{FabricDrop, FabricEvent, FabricNode, FabricTimer, send_credit};

/// What a switch is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FabricSwitchConfig {
    /// Its own node number, above those of the accelerators.
    pub node: NodeId,
    /// Ports; accelerator n is at port n.
    pub ports: u16,
    /// The buffers of each link.
    pub port: PortConfig,
    /// Answers writes when it takes them, in the place of the node that they are for.
    pub early_write_response: bool,
    /// The in-switch accelerator, if there is one.
    pub isa: Option<IsaConfig>,
    /// The multicast unit, if there is one.
    pub multicast: Option<MulticastConfig>,
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FabricSwitch<P> {
    node: NodeId,
    early_write_response: bool,
    ports: Vec<Port>,
    core: SwitchCore<P>,
    isa: Option<Isa<P>>,
    multicast: Option<Multicast<P>>,
}

impl<P: Payload> FabricSwitch<P> {
    pub(super) fn new(config: FabricSwitchConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            node: config.node,
            early_write_response: config.early_write_response,
            ports: vec![Port::new(config.port); usize::from(config.ports)],
            core: SwitchCore::new(config.ports),
            isa: config.isa.map(Isa::new).transpose()?,
            multicast: config.multicast.map(Multicast::new),
        })
    }

    /// Whether instructions can be loaded.
    pub(super) const fn has_isa(&self) -> bool {
        self.isa.is_some()
    }

    /// Bytes of what computes beside the core: wave tables, or the multicast unit's entries.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.isa.as_ref().map_or(0, Isa::buffer_bytes)
            + self.multicast.as_ref().map_or(0, Multicast::buffer_bytes)
    }

    pub(super) fn load(
        &mut self,
        now: Instant,
        controller: u16,
        instructions: Vec<Instruction>,
        out: &mut impl Sink<FabricNode<P>>,
    ) -> Result<(), LoadError> {
        let loaded = self.isa.as_mut().map_or(Ok(()), |isa| isa.load(controller, instructions));
        self.settle(now, out);
        loaded
    }

    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, FlitHeader, P>,
        out: &mut impl Sink<FabricNode<P>>,
    ) {
        let channel = match self.ports[usize::from(port.0)].accept(frame.header) {
            Ok(Some(channel)) => channel,
            Ok(None) => return,
            Err(fault) => return out.drop_frame(port, FabricDrop::Memory(fault.into())),
        };
        if channel.inc() {
            // The in-switch accelerator has reserved room for whatever it asked for (SCIN 3.4).
            self.ports[usize::from(port.0)].release(channel);
            let done = match &mut self.isa {
                Some(isa) => {
                    isa.handle_packet(now, port, frame.header, frame.payload).map_err(FabricDrop::Isa)
                }
                None => Err(FabricDrop::Memory(MemoryDrop::NoRoute)),
            };
            if let Err(reason) = done {
                out.drop_frame(port, reason);
            }
            self.settle(now, out);
        } else {
            let done = match &mut self.multicast {
                Some(unit) if frame.header.destination == self.node => {
                    unit.handle_packet(port, frame.header, frame.payload).map_err(FabricDrop::Multicast)
                }
                _ => self.forward(port, channel, frame).map_err(FabricDrop::Memory),
            };
            if let Err(reason) = done {
                self.ports[usize::from(port.0)].release(channel);
                out.drop_frame(port, reason);
            }
            self.take_outputs();
        }
    }

    /// Does what the multicast unit asks for.
    fn take_outputs(&mut self) {
        while let Some(output) = self.multicast.as_mut().and_then(Multicast::next_output) {
            match output {
                Output::Packet(port, header, payload) => {
                    self.core.enqueue(port, Forwarded { header, payload, input: None });
                }
                Output::Release(port, channel) => self.ports[usize::from(port.0)].release(channel),
            }
        }
    }

    /// Sends a packet on its way to its destination.
    fn forward(
        &mut self,
        input: PortId,
        channel: Channel,
        frame: Frame<'_, FlitHeader, P>,
    ) -> Result<(), MemoryDrop> {
        let header = frame.header;
        if header.source == header.destination || header.destination == self.node {
            return Err(MemoryDrop::NoRoute);
        }
        let output = self.core.route(header.destination)?;
        match header.transaction {
            Transaction::WriteResponse if self.early_write_response => {
                // The source has had its answer.
                self.ports[usize::from(input.0)].release(channel);
                return Ok(());
            }
            Transaction::Write if self.early_write_response => {
                let header = header.response(Transaction::WriteResponse);
                let packet = Forwarded { header, payload: P::zeroed(0), input: None };
                self.core.enqueue(input, packet);
            }
            _ => {}
        }
        let payload = P::from_view(frame.payload);
        self.core.enqueue(output, Forwarded { header: *header, payload, input: Some(input) });
        Ok(())
    }

    pub(super) fn handle_timer(&mut self, now: Instant, out: &mut impl Sink<FabricNode<P>>) {
        if let Some(isa) = &mut self.isa {
            isa.advance(now);
        }
        self.settle(now, out);
    }

    fn ready(&self, port: PortId) -> ChannelSet {
        let ready = self.core.ready(port);
        self.isa.as_ref().map_or(ready, |isa| {
            isa.ready(port).into_iter().fold(ready, |mut ready, (channel, present)| {
                ready.set(channel, present);
                ready
            })
        })
    }

    pub(super) fn wants_transmit(&self, port: PortId) -> bool {
        self.ports[usize::from(port.0)].wants_transmit(self.ready(port))
    }

    pub(super) fn handle_transmit_slot(&mut self, port: PortId, out: &mut impl Sink<FabricNode<P>>) {
        let ready = self.ready(port);
        let link = &mut self.ports[usize::from(port.0)];
        match (link.arbitrate(ready), &mut self.isa) {
            (Some(channel), Some(isa)) if channel.inc() => {
                let (mut header, payload) = isa.next_packet(port, channel);
                link.seal(&mut header, P::view_length(P::reborrow(payload)));
                out.transmit(port, Frame { header: &header, payload });
            }
            (Some(channel), _) => {
                let mut packet = self.core.dequeue(port, channel);
                link.seal(&mut packet.header, packet.payload.length());
                let payload = packet.payload.view(0..packet.payload.length());
                out.transmit(port, Frame { header: &packet.header, payload });
                if let Some(input) = packet.input {
                    self.ports[usize::from(input.0)].release(channel);
                }
            }
            (None, _) => send_credit(port, link, out),
        }
    }

    /// Passes on what the in-switch accelerator tells, and arms its timer.
    fn settle(&mut self, now: Instant, out: &mut impl Sink<FabricNode<P>>) {
        let Some(isa) = &mut self.isa else { return };
        while let Some(event) = isa.next_event() {
            out.emit(FabricEvent::Isa(event));
        }
        if let Some(after) = isa.arm(now) {
            out.set_timer(FabricTimer::Accumulator, after);
        }
    }

    pub(super) fn assert_invariants(&self) {
        self.core.assert_invariants();
        if let Some(isa) = &self.isa {
            isa.assert_invariants();
        }
        if let Some(unit) = &self.multicast {
            unit.assert_invariants();
        }
        for (port, number) in self.ports.iter().zip(0..) {
            port.assert_invariants();
            for class in Class::ALL {
                let channel = Channel::new(class, false);
                let waiting = |unit: &Multicast<P>| unit.held(PortId(number), channel);
                let held =
                    self.core.held(PortId(number), channel) + self.multicast.as_ref().map_or(0, waiting);
                assert_eq!(
                    held,
                    usize::from(port.buffered(channel)),
                    "{channel:?}: buffers of queued packets"
                );
            }
        }
    }
}
