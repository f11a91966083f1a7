//! Traffic on a memory fabric: packets of full payload from accelerator to accelerator, through the virtual channels, the
//! credits and the switches that collectives use. Each asks for no answer, so that a load is one way.

use super::build::Built;
use super::{MemoryFabric, RunError};
use crate::progress::Progress;
use crate::session::Runs;
use crate::traffic::{Arrival, Carrier, Meter, Metered, Offered, Population, Source};
use quincunx_collective::{Payload, Rank};
use quincunx_driver_des::{Limits, NodeIndex, Observer, Stopped};
use quincunx_engine::{Frame, PortId};
use quincunx_memory::UNSOLICITED;
use quincunx_nodes::fabric::{FabricCommand, FabricEvent, FabricNode};
use quincunx_units::{ByteCount, Instant};
use quincunx_wire::flit::{FlitHeader, Transaction};

impl MemoryFabric {
    /// Who sends, and how long a packet is on a link.
    pub(crate) fn population(&self) -> Result<Population, RunError> {
        if self.accelerators < 2 {
            return Err(RunError::OneAccelerator);
        }
        let bytes = self.format.wire_bytes(Transaction::ReadResponse, self.format.max_payload);
        let packet = self.link.rate.time_for(ByteCount::new(bytes as u64));
        Ok(Population { hosts: self.accelerators, ways: self.switches, packet })
    }
}

impl<P: Payload, O: Observer<FabricNode<P>>> Built<P, O> {
    /// Lets traffic begin, and queues fill as they will stay.
    pub(super) fn settle(
        &mut self,
        offered: Offered,
        fabric: &MemoryFabric,
        seed: u64,
    ) -> Result<Source, RunError> {
        let mut source = Source::new(offered, fabric.population()?, seed);
        let settled = Instant::ZERO + source.settling_time(fabric.link.latency);
        source.run(self, Limits::until(settled));
        self.simulation.reset_statistics();
        Ok(source)
    }
}

impl<P: Payload, O: Observer<FabricNode<P>>> Runs for Built<P, O> {
    type Event = FabricEvent;

    fn run(&mut self, limits: Limits) -> Stopped<FabricEvent> {
        self.simulation.run(limits)
    }

    fn progress(&self) -> Progress {
        self.simulation.progress()
    }
}

impl<P: Payload, O: Observer<FabricNode<P>>> Carrier for Built<P, O> {
    fn pass(&mut self, time: Instant) {
        self.simulation.pass(time);
    }

    fn inject(&mut self, arrival: &Arrival) {
        let send = FabricCommand::Send {
            link: PortId(arrival.way),
            to: Rank(arrival.to),
            length: self.packet,
            address: arrival.at.as_picos(),
        };
        let from = self.accelerators[usize::from(arrival.from)];
        self.simulation.command(from, send).expect("accelerators have the links, and room for a packet");
    }
}

impl<P: Payload, O: Observer<FabricNode<P>>> Metered for Built<P, (Meter, O)> {
    fn meter(&mut self) -> &mut Meter {
        &mut self.simulation.observer_mut().0
    }
}

impl<P: Payload> Observer<FabricNode<P>> for Meter {
    fn sees_departures(&self) -> bool {
        false
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, _: PortId, frame: Frame<'_, FlitHeader, P>) {
        let header = frame.header;
        // Accelerators are the first nodes, by rank; no other response has this tag.
        if header.tag == UNSOLICITED
            && header.transaction == Transaction::ReadResponse
            && u32::from(header.destination.0) == node.0
        {
            Meter::arrived(self, at, Instant::from_picos(header.address));
        }
    }
}
