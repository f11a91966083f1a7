//! The fabrics that scenarios run on, by name.

use core::str::FromStr;

use quincunx_cluster::Wiring;
use quincunx_design::FabricKind;
use quincunx_fabric::{IncTree, LinkProperties, MeshShape, TreeShape};
use quincunx_units::{BitRate, Duration};

use crate::RunError;

/// Where a scenario runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fabric {
    /// Hosts at the leaves of switches: `star-4`, `tree-2x2`.
    Tree(TreeShape),
    /// Hosts joined to their neighbours: `ring-4`.
    Ring(u16),
    /// Hosts joined each with each, in domains: `mesh-2x2`.
    Mesh(MeshShape),
    /// The same with a network between the domains: `servers-2x2`.
    Servers(MeshShape),
}

impl Fabric {
    /// What kind it is, for the catalog.
    pub fn kind(&self) -> FabricKind {
        match self {
            Self::Tree(_) => FabricKind::Tree,
            Self::Ring(_) => FabricKind::Ring,
            Self::Mesh(_) => FabricKind::Mesh,
            Self::Servers(_) => FabricKind::Servers,
        }
    }

    /// How many ranks it has.
    pub fn ranks(&self) -> u16 {
        match self {
            Self::Tree(tree) => tree.ranks(),
            Self::Ring(ranks) => *ranks,
            Self::Mesh(mesh) | Self::Servers(mesh) => mesh.ranks(),
        }
    }

    /// How many ranks gather together: those of a domain.
    pub fn members(&self) -> u16 {
        match self {
            Self::Mesh(mesh) | Self::Servers(mesh) => mesh.members(),
            Self::Tree(_) | Self::Ring(_) => self.ranks(),
        }
    }

    /// The switches as a tree, if they are one.
    pub(crate) fn tree(&self) -> Option<IncTree> {
        match self {
            Self::Tree(shape) => Some(IncTree::from_shape(shape)),
            _ => None,
        }
    }

    /// Nodes, which are called `host-N` and `switch-N` (`switch-0` is the root) or `network`, and links, which are all alike.
    pub fn wiring(&self) -> Wiring {
        let rate = BitRate::new(100_000_000_000).expect("a rate");
        let link = LinkProperties { rate, latency: Duration::from_micros(1) };
        match self {
            Self::Tree(shape) => Wiring::tree(shape, link),
            Self::Ring(ranks) => Wiring::ring(*ranks, link),
            Self::Mesh(mesh) => Wiring::mesh(mesh.domains(), mesh.members(), link, "host-"),
            Self::Servers(mesh) => Wiring::servers(mesh.domains(), mesh.members(), link, link),
        }
    }
}

impl FromStr for Fabric {
    type Err = RunError;

    fn from_str(text: &str) -> Result<Self, RunError> {
        let unknown = || RunError::NoFabric { found: text.to_owned() };
        let mesh = |name: &str| format!("mesh-{name}").parse().map_err(|_| unknown());
        if let Some(ranks) = text.strip_prefix("ring-") {
            return ranks.parse().map(Self::Ring).map_err(|_| unknown());
        }
        match (text.strip_prefix("mesh-"), text.strip_prefix("servers-")) {
            (Some(name), _) => mesh(name).map(Self::Mesh),
            (_, Some(name)) => mesh(name).map(Self::Servers),
            _ => text.parse().map(Self::Tree).map_err(|_| unknown()),
        }
    }
}
