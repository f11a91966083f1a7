//! Which port of a switch a frame for somebody else leaves by: that of its flow, if the flow is pinned; of several of equal cost, one by a
//! hash of the flow (ECMP, RFC 2992), so that a flow keeps its order; otherwise the only one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quincunx_collective::SplitMix64;
use quincunx_engine::PortId;
use quincunx_wire::{Endpoint, Gid, RoceHeader};

/// What a switch knows of where others are.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Forwarding {
    /// By address: every frame that passes is looked up here.
    routes: BTreeMap<Gid, Vec<PortId>>,
    /// By destination: where a flow comes from, and where it goes.
    pins: BTreeMap<Endpoint, [PortId; 2]>,
    seed: u64,
}

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// On, by this port.
    On(PortId),
    /// It came by a port behind which its sender is not.
    Foreign,
    /// Its destination is nobody who is known.
    Unknown,
}

/// Which of `count` ways a flow takes at a switch with this seed: for one flow always the same.
///
/// # Panics
/// If there is none.
pub fn way_of_flow(seed: u64, source: Gid, destination: Endpoint, count: usize) -> usize {
    assert!(count > 0, "a flow has a way");
    let addresses = [source, destination.ip];
    let ends = if addresses.iter().all(|end| end.is_ipv4()) {
        let [source, to] = addresses.map(|end| u64::from(end.to_bits() as u32));
        source << 32 | to
    } else {
        addresses.into_iter().fold(0, |drawn, end| {
            let [high, low] = [end.to_bits() >> 64, end.to_bits()].map(|half| half as u64);
            SplitMix64::new(SplitMix64::new(drawn ^ high).draw() ^ low).draw()
        })
    };
    let flow = SplitMix64::new(ends ^ u64::from(destination.qp.value()).rotate_left(40)).draw();
    let hash = SplitMix64::new(flow ^ seed).draw();
    ((u128::from(hash) * count as u128) >> 64) as usize
}

impl Forwarding {
    /// Frames for `destination` leave by one of `ports` from now on.
    pub(crate) fn route(&mut self, destination: Gid, ports: Vec<PortId>) {
        if ports.is_empty() {
            self.routes.remove(&destination);
        } else {
            self.routes.insert(destination, ports);
        }
    }

    /// Frames for `destination` come by the first port and leave by the second, whatever other ways there are.
    pub(crate) fn pin(&mut self, destination: Endpoint, ports: [PortId; 2]) {
        self.pins.insert(destination, ports);
    }

    /// What the hash begins with.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Whether a frame came from where its sender is, as far as that is known: by any of several ways of equal cost.
    #[inline]
    pub(crate) fn is_foreign(&self, port: PortId, header: &RoceHeader) -> bool {
        self.routes.get(&header.source).is_some_and(|bound| !bound.contains(&port))
    }

    /// The way of a frame whose flow is pinned.
    #[inline]
    pub(crate) fn pinned(&self, port: PortId, header: &RoceHeader) -> Option<Way> {
        if self.pins.is_empty() {
            return None;
        }
        let destination = Endpoint { ip: header.destination, qp: header.destination_qp };
        let [from, to] = *self.pins.get(&destination)?;
        Some(if from == port { Way::On(to) } else { Way::Foreign })
    }

    /// The way of any other.
    pub(crate) fn routed(&self, header: &RoceHeader) -> Way {
        match self.routes.get(&header.destination).map(Vec::as_slice) {
            None => Way::Unknown,
            Some(&[only]) => Way::On(only),
            Some(ports) => {
                let destination = Endpoint { ip: header.destination, qp: header.destination_qp };
                Way::On(ports[way_of_flow(self.seed, header.source, destination, ports.len())])
            }
        }
    }
}
