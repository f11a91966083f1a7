//! Traffic on a packet fabric: frames of full payload from host to host, through the switches that collectives use.

use super::build::{Built, index};
use super::{Data, SimulationError};
use crate::progress::Progress;
use crate::session::Runs;
use crate::traffic::{Arrival, Carrier, Meter, Metered, Population};
use quincunx_cluster::address;
use quincunx_collective::Rank;
use quincunx_driver_des::{Limits, Medium, NodeIndex, Observer, Stopped};
use quincunx_engine::{Frame, PortId};
use quincunx_fabric::LinkProperties;
use quincunx_nodes::{Node, NodeEvent};
use quincunx_units::Instant;
use quincunx_wire::{Operation, Psn, QpNumber, Reth, RoceHeader};

/// The queue pair that traffic is for: one of the reserved numbers, so that no host knows it, and drops what it gets.
const QUEUE_PAIR: QpNumber = QpNumber::new(0xf);

/// Its only link.
const PORT: PortId = PortId(0);

/// When and in which stream a frame was made that has arrived at a node, if it is one of traffic for that node.
pub(crate) fn stamp(node: NodeIndex, header: &RoceHeader) -> Option<(Instant, u32)> {
    let RoceHeader { destination, destination_qp, operation, .. } = *header;
    match operation {
        Operation::WriteOnly(reth)
            if destination_qp == QUEUE_PAIR && destination == address(node.0 as usize) =>
        {
            Some((Instant::from_picos(reth.virtual_address), reth.remote_key))
        }
        _ => None,
    }
}

/// A frame of traffic. It is a write to an address that says when it was made, as generators of traffic put a time stamp
/// into what they send; its key is the number of the stream that it is of.
fn header([from, to]: [usize; 2], made: Instant, stream: u32, length: usize) -> RoceHeader {
    let reth = Reth { virtual_address: made.as_picos(), remote_key: stream, dma_length: length as u32 };
    RoceHeader::new(address(from), address(to), QUEUE_PAIR, Psn::new(0), Operation::WriteOnly(reth))
}

impl<P: Data, O: Observer<Node<P>>> Built<P, O> {
    /// What the first host's link can do.
    ///
    /// # Panics
    /// If it has none.
    pub(crate) fn link(&self) -> LinkProperties {
        let wiring = self.cluster.wiring();
        let link = *wiring.access(Rank(0)).first().expect("hosts have links");
        wiring.links()[link].properties
    }

    /// Has a host send a packet of a stream to another, now.
    pub(crate) fn send(&mut self, arrival: &Arrival, stream: u32) {
        let ends = self.ends_of(arrival.from, arrival.to);
        let length = self.filling.length();
        let header = header(ends, arrival.at, stream, length);
        let frame = Frame { header: &header, payload: self.filling.view(0..length) };
        self.simulation.send(index(ends[0]), PORT, frame);
    }

    /// The hosts of two ranks.
    fn ends_of(&self, from: u16, to: u16) -> [usize; 2] {
        [from, to].map(|rank| self.cluster.wiring().host(Rank(rank)))
    }

    /// Who sends, and how long a packet is on a link.
    pub(crate) fn population(&self) -> Result<Population, SimulationError> {
        let hosts = self.cluster.wiring().ranks();
        if hosts < 2 {
            return Err(SimulationError::OneHost);
        }
        let length = self.filling.length();
        let header = header(self.ends_of(0, 1), Instant::ZERO, 0, length);
        let wire = Medium::<Node<P>>::wire_length(&self.medium, &header, length);
        Ok(Population { hosts, ways: 1, packet: self.link().rate.time_for(wire) })
    }
}

impl<P: Data, O: Observer<Node<P>>> Runs for Built<P, O> {
    type Event = NodeEvent<P>;

    fn run(&mut self, limits: Limits) -> Stopped<NodeEvent<P>> {
        self.simulation.run(limits)
    }

    fn progress(&self) -> Progress {
        self.simulation.progress()
    }
}

impl<P: Data, O: Observer<Node<P>>> Carrier for Built<P, O> {
    fn pass(&mut self, time: Instant) {
        self.simulation.pass(time);
    }

    fn inject(&mut self, arrival: &Arrival) {
        self.send(arrival, 0);
    }
}

impl<P: Data, O: Observer<Node<P>>> Metered for Built<P, (Meter, O)> {
    fn meter(&mut self) -> &mut Meter {
        &mut self.simulation.observer_mut().0
    }
}

impl<P: Data> Observer<Node<P>> for Meter {
    fn sees_departures(&self) -> bool {
        false
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, _: PortId, frame: Frame<'_, RoceHeader, P>) {
        if let Some((made, _)) = stamp(node, frame.header) {
            Meter::arrived(self, at, made);
        }
    }
}
