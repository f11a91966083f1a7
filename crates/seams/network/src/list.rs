//! All faults of one run, in terms that every driver understands.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use quincunx_engine::PortId;
use quincunx_units::Instant;

use crate::{Fate, FaultPlan};

/// One direction of a link. Nodes are named as the driver names them: by number, or by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkDirection<N> {
    /// What leaves a node through a port.
    From(N, PortId),
    /// What one node sends to another.
    Between(N, N),
}

impl<N> LinkDirection<N> {
    fn map<M>(self, rename: impl Fn(N) -> M) -> LinkDirection<M> {
        match self {
            Self::From(node, port) => LinkDirection::From(rename(node), port),
            Self::Between(from, to) => LinkDirection::Between(rename(from), rename(to)),
        }
    }
}

/// A timer fires, if it is armed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Firing<N, T> {
    /// When.
    pub at: Instant,
    /// On which node.
    pub node: N,
    /// Which.
    pub timer: T,
}

/// All faults of one run. A frame that is not listed is delivered; a timer that is not listed does not fire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultList<N, T> {
    /// For each direction, what becomes of its frames, counted from 0 in the order in which they are sent.
    pub fates: BTreeMap<LinkDirection<N>, BTreeMap<u64, Fate>>,
    /// In the order in which they happen.
    pub firings: Vec<Firing<N, T>>,
}

impl<N, T> Default for FaultList<N, T> {
    fn default() -> Self {
        Self { fates: BTreeMap::new(), firings: Vec::new() }
    }
}

impl<N: Ord, T> FaultList<N, T> {
    /// Notes what becomes of a frame.
    pub fn set_fate(&mut self, direction: LinkDirection<N>, frame: u64, fate: Fate) {
        self.fates.entry(direction).or_default().insert(frame, fate);
    }

    /// The plan of each direction that has one.
    pub fn plans(&self) -> impl Iterator<Item = (&LinkDirection<N>, FaultPlan)> {
        self.fates.iter().map(|(direction, fates)| {
            (direction, FaultPlan::listed(fates.iter().map(|(&frame, &fate)| (frame, fate))))
        })
    }

    /// The same list with other names for the nodes.
    pub fn renamed<M: Ord>(self, rename: impl Fn(N) -> M) -> FaultList<M, T> {
        let fates = self.fates.into_iter().map(|(direction, fates)| (direction.map(&rename), fates));
        let firings = self.firings.into_iter();
        FaultList {
            fates: fates.collect(),
            firings: firings
                .map(|Firing { at, node, timer }| Firing { at, node: rename(node), timer })
                .collect(),
        }
    }
}
