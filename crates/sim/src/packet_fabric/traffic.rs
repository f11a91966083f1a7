//! Traffic on a packet fabric: frames of full payload from host to host, through the switches that collectives use.

use super::build::{Built, address};
use super::{Data, SimulationError};
use crate::progress::Progress;
use crate::traffic::{Arrival, Carrier, Meter, Metered, Population};
use quincunx_driver_des::{Limits, Medium, NodeIndex, Observer, Stopped};
use quincunx_engine::{Frame, PortId};
use quincunx_nodes::{Station, StationEvent};
use quincunx_units::Instant;
use quincunx_wire::{Operation, Psn, QpNumber, Reth, RoceHeader};

/// The queue pair that traffic is for: one of the reserved numbers, so that no host knows it, and drops what it gets.
const QUEUE_PAIR: QpNumber = QpNumber::new(0xf);

/// Its only link.
const PORT: PortId = PortId(0);

/// A frame of traffic. It is a write to an address that says when it was made, as generators of traffic put a time stamp
/// into what they send.
fn header(from: NodeIndex, to: NodeIndex, made: Instant, length: usize) -> RoceHeader {
    let reth = Reth { virtual_address: made.as_picos(), remote_key: 0, dma_length: length as u32 };
    RoceHeader::new(address(from), address(to), QUEUE_PAIR, Psn::new(0), Operation::WriteOnly(reth))
}

impl<P: Data, O: Observer<Station<P>>> Built<P, O> {
    /// Who sends, and how long a packet is on a link.
    pub(crate) fn population(&self) -> Result<Population, SimulationError> {
        let hosts = self.ranks.len() as u16;
        if hosts < 2 {
            return Err(SimulationError::OneHost);
        }
        let length = self.filling.length();
        let header = header(self.ranks[0], self.ranks[1], Instant::ZERO, length);
        let wire = Medium::<Station<P>>::wire_length(&self.medium, &header, length);
        Ok(Population { hosts, ways: 1, packet: self.link.rate.time_for(wire) })
    }
}

impl<P: Data, O: Observer<Station<P>>> Carrier for Built<P, O> {
    type Event = StationEvent<P>;

    fn run(&mut self, limits: Limits) -> Stopped<StationEvent<P>> {
        self.simulation.run(limits)
    }

    fn pass(&mut self, time: Instant) {
        self.simulation.pass(time);
    }

    fn inject(&mut self, arrival: &Arrival) {
        let [from, to] = [arrival.from, arrival.to].map(|host| self.ranks[usize::from(host)]);
        let length = self.filling.length();
        let header = header(from, to, arrival.at, length);
        self.simulation.send(from, PORT, Frame { header: &header, payload: self.filling.view(0..length) });
    }

    fn progress(&self) -> Progress {
        Progress { now: self.simulation.now(), steps: self.simulation.steps() }
    }
}

impl<P: Data> Metered for Built<P, Meter> {
    fn meter(&mut self) -> &mut Meter {
        self.simulation.observer_mut()
    }
}

impl<P: Data> Observer<Station<P>> for Meter {
    fn arrived(&mut self, at: Instant, node: NodeIndex, _: PortId, frame: Frame<'_, RoceHeader, P>) {
        let RoceHeader { destination, destination_qp, operation, .. } = *frame.header;
        if destination_qp == QUEUE_PAIR
            && destination == address(node)
            && let Operation::WriteOnly(reth) = operation
        {
            Meter::arrived(self, at, Instant::from_picos(reth.virtual_address));
        }
    }
}
