//! A switch of the memory fabric: ports, the core that forwards between them, and units that compute beside it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::{AnySwitchUnit, Buffer, UnitCounter, UnitEvent, UnitOutput, UnitSink};
use quincunx_engine::{Frame, PortId};
use quincunx_memory::{Forwarded, MemoryDrop, Port, PortConfig, SwitchCore};
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{Channel, ChannelSet, FlitHeader, NodeId, Transaction};

use super::sink::{FabricDrop, FabricEvent, FabricSink, FabricTimer, send_credit};

/// What a switch is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FabricSwitchConfig<P: Payload> {
    /// Its own node number, above those of the accelerators.
    pub node: NodeId,
    /// Ports; accelerator n is at port n.
    pub ports: u16,
    /// The buffers of each link.
    pub port: PortConfig,
    /// Answers writes when it takes them, in the place of the node that they are for.
    pub early_write_response: bool,
    /// What computes in it. The first unit that takes a packet gets it.
    pub units: Vec<Box<dyn AnySwitchUnit<P>>>,
}

/// A unit in its switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Seat<P: Payload> {
    unit: Box<dyn AnySwitchUnit<P>>,
    /// The channels that it has packets for, by port: what it said after the last call.
    ready: Vec<ChannelSet>,
}

/// An end of a link, and the channels that core and units have packets for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct LinkEnd {
    port: Port,
    ready: ChannelSet,
}

/// Where a unit's answers go.
struct SeatSink<'a, P, S> {
    core: &'a mut SwitchCore<P>,
    ends: &'a mut [LinkEnd],
    unit: u16,
    out: &'a mut S,
}

impl<P: Payload, S: FabricSink<P>> UnitSink<P> for SeatSink<'_, P, S> {
    fn act(&mut self, output: UnitOutput<P>) {
        match output {
            UnitOutput::Packet(port, header, payload) => {
                enqueue(self.core, self.ends, port, Forwarded { header, payload, held: None });
            }
            UnitOutput::Forward { to, header, payload, held } => {
                enqueue(self.core, self.ends, to, Forwarded { header, payload, held: Some(held) });
            }
            UnitOutput::Release(port, channel) => self.ends[usize::from(port.0)].port.release(channel),
        }
    }

    fn tell(&mut self, event: UnitEvent) {
        self.out.emit(FabricEvent::Unit { unit: self.unit, event });
    }

    fn arm(&mut self, after: Duration) {
        self.out.set_timer(FabricTimer::Unit(self.unit), after);
    }
}

/// Queues a packet in the core.
fn enqueue<P: Payload>(core: &mut SwitchCore<P>, ends: &mut [LinkEnd], port: PortId, packet: Forwarded<P>) {
    core.enqueue(port, packet);
    let end = &mut ends[usize::from(port.0)];
    end.ready = end.ready.union(core.ready(port));
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FabricSwitch<P: Payload> {
    node: NodeId,
    early_write_response: bool,
    ends: Vec<LinkEnd>,
    core: SwitchCore<P>,
    units: Vec<Seat<P>>,
}

impl<P: Payload> FabricSwitch<P> {
    pub(super) fn new(config: FabricSwitchConfig<P>) -> Self {
        let seat = |unit: Box<dyn AnySwitchUnit<P>>| {
            let ready = (0..config.ports).map(|port| unit.ready(PortId(port))).collect();
            Seat { unit, ready }
        };
        let end = LinkEnd { port: Port::new(config.port), ready: ChannelSet::NONE };
        let mut switch = Self {
            node: config.node,
            early_write_response: config.early_write_response,
            ends: vec![end; usize::from(config.ports)],
            core: SwitchCore::new(config.ports),
            units: config.units.into_iter().map(seat).collect(),
        };
        switch.note_all();
        switch
    }

    /// What the units have counted.
    pub(super) fn count(&self, tell: &mut dyn FnMut(UnitCounter)) {
        self.units.iter().for_each(|seat| seat.unit.count(tell));
    }

    /// Bytes of the units' tables.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.units.iter().map(|seat| seat.unit.buffer_bytes()).sum()
    }

    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, FlitHeader, P>,
        out: &mut impl FabricSink<P>,
    ) {
        let channel = match self.ends[usize::from(port.0)].port.accept(frame.header) {
            Ok(Some(channel)) => channel,
            Ok(None) => return,
            Err(fault) => return out.drop_frame(port, FabricDrop::Memory(fault.into())),
        };
        let taker = self.units.iter().position(|seat| seat.unit.takes(frame.header));
        let done = match taker {
            Some(unit) => {
                let unit = &mut self.units[unit].unit;
                unit.handle_packet(now, port, frame.header, frame.payload).map_err(FabricDrop::Unit)
            }
            None => self.forward(port, channel, frame).map_err(FabricDrop::Memory),
        };
        match done {
            Ok(Buffer::Free) => self.ends[usize::from(port.0)].port.release(channel),
            Ok(Buffer::Held) => {}
            Err(reason) => {
                self.ends[usize::from(port.0)].port.release(channel);
                out.drop_frame(port, reason);
            }
        }
        if let Some(unit) = taker {
            self.settle(now, unit, out);
        }
    }

    /// Sends a packet on its way to its destination.
    fn forward(
        &mut self,
        input: PortId,
        channel: Channel,
        frame: Frame<'_, FlitHeader, P>,
    ) -> Result<Buffer, MemoryDrop> {
        let header = frame.header;
        // Channels with the INC bit are those of units.
        if channel.inc() || header.source == header.destination || header.destination == self.node {
            return Err(MemoryDrop::NoRoute);
        }
        let output = self.core.route(header.destination)?;
        match header.transaction {
            Transaction::WriteResponse if self.early_write_response => {
                // The source has had its answer.
                return Ok(Buffer::Free);
            }
            Transaction::Write if self.early_write_response => {
                let header = header.response(Transaction::WriteResponse);
                let packet = Forwarded { header, payload: P::zeroed(0), held: None };
                enqueue(&mut self.core, &mut self.ends, input, packet);
            }
            _ => {}
        }
        let payload = P::from_view(frame.payload);
        let packet = Forwarded { header: *header, payload, held: Some((input, channel)) };
        enqueue(&mut self.core, &mut self.ends, output, packet);
        Ok(Buffer::Held)
    }

    pub(super) fn handle_timer(&mut self, now: Instant, unit: u16, out: &mut impl FabricSink<P>) {
        let unit = usize::from(unit);
        self.units[unit].unit.handle_timer(now);
        self.settle(now, unit, out);
    }

    fn ready(&self, port: PortId) -> ChannelSet {
        self.units
            .iter()
            .fold(self.core.ready(port), |ready, seat| ready.union(seat.ready[usize::from(port.0)]))
    }

    /// Packets for `port` have gone from the core or a unit.
    fn note(&mut self, port: PortId) {
        self.ends[usize::from(port.0)].ready = self.ready(port);
    }

    /// A unit may have packets for any port.
    fn note_all(&mut self) {
        (0..self.ends.len() as u16).for_each(|port| self.note(PortId(port)));
    }

    #[inline]
    pub(super) fn wants_transmit(&self, port: PortId) -> bool {
        let LinkEnd { port, ready } = &self.ends[usize::from(port.0)];
        port.wants_transmit(*ready)
    }

    #[inline]
    pub(super) fn handle_transmit_slot(&mut self, port: PortId, out: &mut impl FabricSink<P>) {
        let index = usize::from(port.0);
        let LinkEnd { port: link, ready } = &mut self.ends[index];
        let Some(channel) = link.arbitrate(*ready) else { return send_credit(port, link, out) };
        if let Some(seat) = self.units.iter_mut().find(|seat| seat.ready[index].contains(channel)) {
            let (mut header, payload) = seat.unit.next_packet(port, channel);
            link.seal(&mut header, P::view_length(P::reborrow(payload)));
            out.transmit(port, Frame { header: &header, payload });
            seat.ready[index] = seat.unit.ready(port);
            return self.note(port);
        }
        let mut packet = self.core.dequeue(port, channel);
        link.seal(&mut packet.header, packet.payload.length());
        let payload = packet.payload.view(0..packet.payload.length());
        out.transmit(port, Frame { header: &packet.header, payload });
        if let Some((input, channel)) = packet.held {
            self.ends[usize::from(input.0)].port.release(channel);
        }
        self.note(port);
    }

    /// Does what a unit asks for, passes on what it tells, and arms its timer.
    fn settle(&mut self, now: Instant, number: usize, out: &mut impl FabricSink<P>) {
        let Self { core, ends, units, .. } = self;
        let Seat { unit, ready } = &mut units[number];
        if unit.answer(now, ready, &mut SeatSink { core, ends, unit: number as u16, out }) {
            self.note_all();
        }
    }

    pub(super) fn assert_invariants(&self) {
        let mut held = vec![[0; Channel::ALL.len()]; self.ends.len()];
        let mut hold = |port: PortId, channel: Channel| held[usize::from(port.0)][channel.index()] += 1;
        self.core.each_held(&mut hold);
        self.units.iter().for_each(|seat| seat.unit.each_held(&mut hold));
        self.core.assert_invariants();
        self.units.iter().for_each(|seat| seat.unit.assert_invariants());
        for (LinkEnd { port, ready }, number) in self.ends.iter().zip(0..) {
            port.assert_invariants();
            assert_eq!(*ready, self.ready(PortId(number)), "channels with packets for port {number}");
            for Seat { unit, ready } in &self.units {
                let (known, says) = (ready[usize::from(number)], unit.ready(PortId(number)));
                assert_eq!(known, says, "channels that a unit has packets for at port {number}");
            }
            for channel in Channel::ALL {
                let held = held[usize::from(number)][channel.index()];
                assert_eq!(held, port.buffered(channel), "{channel:?}: buffers of queued packets");
            }
        }
    }
}
