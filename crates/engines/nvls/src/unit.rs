//! The multicast unit as a unit of a switch: it takes the packets that are for the switch itself, of the channels that all share.

use crate::{Multicast, MulticastDrop};
use quincunx_collective::Payload;
use quincunx_design::{Buffer, SwitchUnit, UnitOutput};
use quincunx_engine::PortId;
use quincunx_units::Instant;
use quincunx_wire::flit::{Channel, FlitHeader};

impl<P: Payload> SwitchUnit<P> for Multicast<P> {
    fn takes(&self, header: &FlitHeader) -> bool {
        !header.inc && header.destination == self.node()
    }

    fn handle_packet(
        &mut self,
        _now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, &'static str> {
        self.handle_packet(port, header, payload).map(|()| Buffer::Held).map_err(MulticastDrop::reason)
    }

    fn next_output(&mut self) -> Option<UnitOutput<P>> {
        self.next_output()
    }

    /// It has none.
    fn has_queued(&mut self) -> bool {
        false
    }

    fn each_held(&self, tell: &mut dyn FnMut(PortId, Channel)) {
        self.each_held(tell);
    }

    fn buffer_bytes(&self) -> usize {
        self.buffer_bytes()
    }

    fn assert_invariants(&self) {
        self.assert_invariants();
    }
}
