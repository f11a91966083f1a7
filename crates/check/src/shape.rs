//! The networks that a group is explored on, by name.

use core::fmt;
use core::str::FromStr;

use quincunx_cluster::Wiring;
use quincunx_design::FabricKind;
use quincunx_fabric::{LinkProperties, MeshShape, ShapeError, TreeShape};
use quincunx_units::{BitRate, Duration};

/// A network: `star-N`, `tree-X-Y` or `tree-AxB`, `ring-N`, `mesh-DxM`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum NetworkShape {
    /// Hosts at the leaves of a tree of switches.
    Tree(TreeShape),
    /// So many hosts, each joined with the next.
    Ring(u16),
    /// Hosts joined each with each, in domains.
    Mesh(MeshShape),
}

impl NetworkShape {
    /// The kinds of fabrics that there are networks of, each with the smallest one on which a design shows what it does.
    const DEFAULTS: [(FabricKind, &str); 3] =
        [(FabricKind::Tree, "tree-3-2"), (FabricKind::Ring, "ring-3"), (FabricKind::Mesh, "mesh-2x2")];

    /// The name of the network that a design is explored on if nobody says another: the first that it runs on.
    pub fn default_name(fabrics: &[FabricKind]) -> Option<&'static str> {
        let name = |fabric: &FabricKind| Self::DEFAULTS.iter().find(|(known, _)| known == fabric);
        fabrics.iter().find_map(name).map(|(_, name)| *name)
    }

    /// The kind of fabric.
    pub fn fabric(&self) -> FabricKind {
        match self {
            Self::Tree(_) => FabricKind::Tree,
            Self::Ring(_) => FabricKind::Ring,
            Self::Mesh(_) => FabricKind::Mesh,
        }
    }

    /// Ranks on it.
    pub fn ranks(&self) -> u16 {
        match self {
            Self::Tree(shape) => shape.ranks(),
            Self::Ring(hosts) => *hosts,
            Self::Mesh(shape) => shape.ranks(),
        }
    }

    /// Nodes and links. No time passes in an exploration, so that links may be anything.
    pub(crate) fn wiring(&self) -> Wiring {
        let rate = BitRate::new(1).expect("above zero");
        let link = LinkProperties { rate, latency: Duration::from_micros(1) };
        match self {
            Self::Tree(shape) => Wiring::tree(shape, link),
            Self::Ring(hosts) => Wiring::ring(*hosts, link),
            Self::Mesh(shape) => Wiring::mesh(shape.domains(), shape.members(), link, "host-"),
        }
    }
}

impl FromStr for NetworkShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let ring = text.strip_prefix("ring-").and_then(|hosts| hosts.parse().ok());
        match ring.filter(|&hosts| hosts > 1) {
            Some(hosts) => Ok(Self::Ring(hosts)),
            None if text.starts_with("mesh-") => text.parse().map(Self::Mesh),
            None => text.parse().map(Self::Tree),
        }
    }
}

impl fmt::Display for NetworkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(shape) => shape.fmt(f),
            Self::Ring(hosts) => write!(f, "ring-{hosts}"),
            Self::Mesh(shape) => shape.fmt(f),
        }
    }
}
