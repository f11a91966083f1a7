//! Observes a run of jobs: whose frames links mark and lose, and whose are sent again, and when packets of traffic arrive.

use crate::packet_fabric::{Data, Retransmissions, stamp};
use crate::traffic::Meter;
use quincunx_driver_des::{Departure, NodeIndex, Observer};
use quincunx_engine::{Frame, PortId};
use quincunx_nodes::Node;
use quincunx_units::Instant;
use quincunx_wire::{Endpoint, RoceHeader};
use std::collections::BTreeMap;

/// Frames of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Troubled {
    pub(super) marked: u64,
    pub(super) lost: u64,
}

/// Counts frames of jobs, and of streams when they arrive.
#[derive(Default)]
pub(super) struct JobObserver {
    /// Whether links mark or lose anything.
    pub(super) sees_departures: bool,
    /// By the queue pair that a frame is for: whose it is.
    pub(super) owners: BTreeMap<Endpoint, usize>,
    /// By job.
    pub(super) troubled: Vec<Troubled>,
    /// By job, too.
    pub(super) retransmissions: Retransmissions,
    /// By stream.
    pub(super) meters: Vec<Meter>,
}

impl<P: Data> Observer<Node<P>> for JobObserver {
    fn sees_departures(&self) -> bool {
        self.sees_departures
    }

    #[inline]
    fn sent(&mut self, node: NodeIndex, frame: Frame<'_, RoceHeader, P>) {
        self.retransmissions.sent(node, frame.header, P::view_length(frame.payload) == 0);
    }

    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, P>) {
        let arrives = departure.fate.is_some_and(|fate| fate.arrivals().next().is_some());
        if arrives && !departure.marked {
            return;
        }
        let destination = Endpoint { ip: frame.header.destination, qp: frame.header.destination_qp };
        if let Some(&owner) = self.owners.get(&destination) {
            self.troubled[owner].marked += u64::from(departure.marked);
            self.troubled[owner].lost += u64::from(!arrives);
        }
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, _: PortId, frame: Frame<'_, RoceHeader, P>) {
        if let Some((made, stream)) = stamp(node, frame.header)
            && let Some(meter) = self.meters.get_mut(stream as usize)
        {
            meter.arrived(at, made);
        }
    }
}
