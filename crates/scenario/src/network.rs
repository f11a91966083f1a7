//! Networks that are named by their shape, for scenarios without a file: what they are made of, as keys of a file.

use crate::TopologyName;
use core::str::FromStr;
use quincunx_fabric::{MeshShape, ShapeError};

/// A network by its shape: `star-N`, `tree-X-Y`, `tree-AxB`, `ring-N`, `mesh-DxM` (domains by ranks of each), `servers-SxM`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkName {
    /// Hosts at switches, or in a ring.
    Hosts(TopologyName),
    /// Hosts joined each with each, in domains.
    Mesh(MeshShape),
    /// The same with a network between the domains.
    Servers(MeshShape),
}

impl NetworkName {
    /// All notations, for messages.
    pub const KNOWN: &str = "star-N, tree-X-Y, tree-AxB, ring-N, mesh-DxM, servers-SxM";

    /// The kind of a scenario's fabric.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Hosts(_) => "packet",
            Self::Mesh(_) => "mesh",
            Self::Servers(_) => "servers",
        }
    }

    /// The keys that say its shape.
    pub(crate) fn keys(&self) -> Vec<(&'static str, toml::Value)> {
        let mesh = |outer, shape: &MeshShape| {
            vec![(outer, i64::from(shape.domains()).into()), ("members", i64::from(shape.members()).into())]
        };
        match self {
            Self::Hosts(topology) => vec![("topology", topology.to_string().into())],
            Self::Mesh(shape) => mesh("groups", shape),
            Self::Servers(shape) => mesh("servers", shape),
        }
    }
}

impl FromStr for NetworkName {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        match text.strip_prefix("servers-") {
            Some(shape) => format!("mesh-{shape}").parse().map(Self::Servers),
            None if text.starts_with("mesh-") => text.parse().map(Self::Mesh),
            None => text.parse().map(Self::Hosts),
        }
    }
}
