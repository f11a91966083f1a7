//! The merge unit as a unit of a switch: it takes whatever has the CAIS bit, and the answers to its own reads.

use crate::statistics::{GroupStatistics, PortStatistics};
use crate::{Merge, MergeDrop};
use quincunx_collective::Payload;
use quincunx_design::{Buffer, SwitchUnit, UnitCounter, UnitEvent, UnitOutput};
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{Channel, ChannelSet, FlitHeader, Transaction};

impl<P: Payload> SwitchUnit<P> for Merge<P> {
    fn takes(&self, header: &FlitHeader) -> bool {
        header.inc || header.transaction == Transaction::ReadResponse && header.destination == self.node()
    }

    fn handle_packet(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, &'static str> {
        self.handle_packet(now, port, header, payload).map_err(MergeDrop::reason)
    }

    fn next_output(&mut self) -> Option<UnitOutput<P>> {
        self.next_output()
    }

    fn next_event(&mut self) -> Option<UnitEvent> {
        self.next_event()
    }

    fn arm(&mut self, now: Instant) -> Option<Duration> {
        self.arm(now)
    }

    fn handle_timer(&mut self, now: Instant) {
        self.handle_timer(now);
    }

    fn ready(&self, port: PortId) -> ChannelSet {
        self.ready(port)
    }

    fn has_queued(&mut self) -> bool {
        self.has_queued()
    }

    fn next_packet(&mut self, port: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        self.next_packet(port, channel)
    }

    fn each_held(&self, tell: &mut dyn FnMut(PortId, Channel)) {
        self.each_held(tell);
    }

    fn buffer_bytes(&self) -> usize {
        self.buffer_bytes()
    }

    fn count(&self, tell: &mut dyn FnMut(UnitCounter)) {
        for port in (0..self.accelerators()).map(PortId) {
            for (name, value) in self.statistics(port).named() {
                tell(UnitCounter { name, port: Some(port), value });
            }
            tell(UnitCounter { name: "waiting requests", port: Some(port), value: self.waiting(port) });
        }
        for (name, value) in self.group_statistics().named() {
            tell(UnitCounter { name, port: None, value });
        }
    }

    fn assert_invariants(&self) {
        self.assert_invariants();
    }
}

impl PortStatistics {
    /// Every number, with what it is. Times are in picoseconds.
    fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("entries", self.entries as u64),
            ("peak entries", self.peak as u64),
            ("loads", self.loads),
            ("merged loads", self.merged_loads),
            ("reductions", self.reductions),
            ("merged reductions", self.merged_reductions),
            ("whole sums", self.whole_sums),
            ("partial sums", self.partial_sums),
            ("bypassed", self.bypassed),
            ("evicted", self.evicted),
            ("timed out", self.timed_out),
            ("ended", self.ended),
            ("waited", self.waited.as_picos()),
        ]
    }
}

impl GroupStatistics {
    /// Every number, with what it is.
    fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("syncs", self.syncs),
            ("released groups", self.released),
            ("uncoordinated syncs", self.uncoordinated),
            ("timed-out groups", self.timed_out),
        ]
    }
}
