//! How the four hosts of MultiWrite are joined, and which ways their tables know.

use core::fmt;
use core::str::FromStr;

use quincunx_collective::Rank;
use quincunx_driver_check::{End, NodeId};
use quincunx_engine::PortId;

/// Hosts of every network, numbered first.
pub(crate) const RANKS: u16 = 4;

pub(crate) const SWITCH: NodeId = NodeId(RANKS);

/// How hosts are joined, and which ways their tables know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Topology {
    /// Each with each. Ranks 0 and 1 are a group, and 2 and 3; a second way within a group leads over the rank's partner in the other
    /// one, two ranks on.
    Mesh,
    /// Each with the next and the one before; all ways lead to the next.
    Ring,
    /// Two servers of two, each host joined with the other one and with a switch. Ways to the other server lead over the rank of the same
    /// place there.
    Servers,
    /// Each with each, with tables that contradict each other: rank 0 reaches rank 1 over rank 2, which leads back.
    ShortLoop,
    /// The same, but rank 2 leads on to rank 3, and that one back.
    LongLoop,
}

const NAMES: [(&str, Topology); 5] = [
    ("mesh-2x2", Topology::Mesh),
    ("ring-4", Topology::Ring),
    ("servers-2x2", Topology::Servers),
    ("loop-2", Topology::ShortLoop),
    ("loop-3", Topology::LongLoop),
];

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(_, topology)| topology == self).map_or("?", |(name, _)| name))
    }
}

/// No topology has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of mesh-2x2, ring-4, servers-2x2, loop-2, loop-3, found \"{0}\"")]
pub struct UnknownTopology(String);

impl FromStr for Topology {
    type Err = UnknownTopology;

    fn from_str(text: &str) -> Result<Self, UnknownTopology> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, topology)| *topology).ok_or_else(|| UnknownTopology(text.to_owned()))
    }
}

impl Topology {
    /// Neighbours of a rank, by queue pair. The same one leads the same way from every rank, or they would not be alike.
    pub(crate) fn neighbours(self, rank: u16) -> Vec<u16> {
        match self {
            Self::Ring => vec![(rank + 1) % RANKS, (rank + 3) % RANKS],
            _ => vec![rank ^ 1, rank ^ 2, rank ^ 3],
        }
    }

    /// The queue pairs that lead to `to`, the usual way first.
    pub(crate) fn ways(self, rank: u16, to: u16) -> Vec<u16> {
        match (self, rank ^ to, rank) {
            (_, 0, _) => vec![],
            (Self::Ring, ..) => vec![0],
            (Self::ShortLoop, 3, 2) => vec![1],
            (Self::LongLoop, 3, 2) => vec![0],
            (Self::LongLoop, 2, 3) => vec![2],
            (Self::Mesh | Self::ShortLoop | Self::LongLoop, 1, _) => vec![0, 1],
            (Self::Servers, 3, _) => vec![1],
            (_, difference, _) => vec![difference - 1],
        }
    }

    /// The rank that writes of a rank reach over most relays.
    pub(crate) fn far(self, rank: u16) -> u16 {
        match self {
            Self::Servers => rank ^ 3,
            Self::Ring => (rank + 3) % RANKS,
            Self::Mesh | Self::ShortLoop | Self::LongLoop => rank ^ 1,
        }
    }

    /// The ranks that gather together with this one.
    pub(crate) fn group(self, rank: u16) -> Vec<Rank> {
        let group = match self {
            // The barrier needs neighbours: of those, the ones between whom writes take the longest way.
            Self::Ring | Self::Servers if [0, 3].contains(&rank) => [0, 3],
            Self::Ring | Self::Servers => [1, 2],
            Self::Mesh | Self::ShortLoop | Self::LongLoop => [rank & 2, rank | 1],
        };
        group.into_iter().map(Rank).collect()
    }

    pub(crate) fn is_loop(self) -> bool {
        matches!(self, Self::ShortLoop | Self::LongLoop)
    }

    /// The port that a rank's queue pair speaks through.
    pub(crate) fn port(self, queue_pair: u16) -> PortId {
        PortId(if self == Self::Servers { queue_pair.min(1) } else { queue_pair })
    }

    pub(crate) fn switch(self) -> Option<NodeId> {
        (self == Self::Servers).then_some(SWITCH)
    }

    /// Port `i` of the switch leads to rank `i`.
    pub(crate) fn links(self) -> Vec<[End; 2]> {
        let end = |node, port| End { node: NodeId(node), port };
        let links = (0..RANKS).flat_map(|rank| {
            let neighbours = (0..).zip(self.neighbours(rank));
            neighbours.filter(move |(_, peer)| rank < *peer).map(move |(queue_pair, peer)| {
                [end(rank, self.port(queue_pair)), end(peer, self.port(self.back(rank, peer)))]
            })
        });
        match self.switch() {
            None => links.collect(),
            Some(switch) => {
                let joined = links.filter(|[end, _]| end.port == PortId(0));
                let up = (0..RANKS)
                    .map(|rank| [End { node: switch, port: PortId(rank) }, end(rank, self.port(1))]);
                joined.chain(up).collect()
            }
        }
    }

    /// The queue pair of `peer` that leads to `rank`.
    pub(crate) fn back(self, rank: u16, peer: u16) -> u16 {
        let back = self.neighbours(peer).into_iter().position(|other| other == rank);
        back.expect("neighbours are each other's") as u16
    }

    /// A renaming: ranks are turned or exchanged by `step`.
    pub(crate) fn renamed(self, step: u16) -> Vec<NodeId> {
        let rename = |rank| if self == Self::Ring { (rank + step) % RANKS } else { rank ^ step };
        (0..RANKS).map(|rank| NodeId(rename(rank))).chain(self.switch()).collect()
    }
}
