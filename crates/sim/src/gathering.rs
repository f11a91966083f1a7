//! Groups on a full mesh that gather each for itself and relay for each other (MultiWrite 3.1): what runs on each rank, whatever
//! joins them.

use crate::packet_fabric::SimulationError;
use quincunx_collective::Rank;
use quincunx_engine::verbs::QpIndex;
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, Paths, RelayCost, Strategy, Table, Window, WriterConfig, split,
};
use quincunx_units::{BitRate, ByteCount, Duration};

/// Groups, and how their ranks relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathering {
    /// Groups.
    pub(crate) groups: u16,
    /// Ranks of a group.
    pub(crate) members: u16,
    /// Every link, each way.
    pub(crate) rate: BitRate,
    /// Whether every rank of the next group relays for a rank, or only its partner.
    pub(crate) full: bool,
    /// The longest message.
    pub(crate) piece: ByteCount,
    /// To prepare more than one way.
    pub(crate) preparation: Duration,
    /// What relaying a message takes.
    pub(crate) cost: RelayCost,
    /// Messages that may arrive from a peer before the rank gets to run.
    pub(crate) receives: usize,
}

impl Gathering {
    /// Ranks.
    pub(crate) const fn ranks(&self) -> u16 {
        self.groups * self.members
    }

    /// Those that a rank is joined with, in the order of its queue pairs.
    pub(crate) fn peers(&self, rank: u16) -> impl Iterator<Item = u16> + use<> {
        (0..self.ranks()).filter(move |peer| *peer != rank)
    }

    /// What runs on a rank, for inputs of up to `length` bytes.
    pub(crate) fn program(
        &self,
        strategy: Strategy,
        length: usize,
        rank: u16,
    ) -> Result<AllGather, SimulationError> {
        let paths = Paths {
            direct: self.rate,
            cross: self.rate,
            members: self.members,
            others: self.members,
            relays: if self.full { self.members } else { 1 },
            relay: (self.cost, self.piece),
        };
        let neighbours = self.peers(rank).map(Rank).collect();
        let ways = (0..self.ranks()).map(|peer| self.ways(rank, peer)).collect();
        let piece = self.piece.as_usize();
        let writer = WriterConfig {
            table: Table::new(Rank(rank), self.ranks(), neighbours, ways)?,
            window: Window::new(self.ranks(), length.div_ceil(piece).max(1), piece),
            receives: self.receives,
            cost: self.cost,
        };
        let first = rank / self.members * self.members;
        let group = (first..first + self.members).map(Rank).collect();
        let parts = split(strategy, &paths);
        Ok(AllGather::new(AllGatherConfig { writer, group, parts, preparation: self.preparation })?)
    }

    /// The ways from a rank to another one: the direct one; within a group also by way of its partner in the next group, and of
    /// that group's others.
    fn ways(&self, rank: u16, to: u16) -> Vec<QpIndex> {
        if rank == to {
            return Vec::new();
        }
        let (group, place) = (rank / self.members, rank % self.members);
        let next = (group + 1) % self.groups * self.members;
        let relay = |step| queue_pair_to(rank, next + (place + step) % self.members);
        let relays = (0..self.members).map(relay).filter(|_| to / self.members == group);
        [queue_pair_to(rank, to)].into_iter().chain(relays).collect()
    }
}

/// A rank's queue pairs lead to the others in order.
pub(crate) fn queue_pair_to(rank: u16, peer: u16) -> QpIndex {
    QpIndex(if peer < rank { peer } else { peer - 1 })
}
