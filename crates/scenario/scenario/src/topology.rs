//! How hosts and switches on Ethernet are joined.

use quincunx_fabric::{NodeKind, SwitchedShape, Topology, TreeShape};
use quincunx_units::{BitRate, ByteCount, Duration};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// How nodes are joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyName {
    /// `star-8`, `tree-3-2` (levels-branches), `tree-2x4` (branches by level).
    Tree(TreeShape),
    /// `ring-8`: hosts alone, each linked to the next.
    Ring(u16),
    /// `leaf-spine-8x4x8`, `fat-tree-4`: switches with several ways between two hosts.
    Switched(SwitchedShape),
    /// `[[node]]` and `[[link]]` of a file.
    Listed(Box<Topology>),
}

/// An Ethernet link, each way.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketLink {
    /// Bits a second.
    pub rate: BitRate,
    /// Time from sending a bit to its arrival.
    pub latency: Duration,
    /// Bytes of headers and framing in each frame; default: those of Ethernet, IP, UDP and RoCE.
    pub framing: Option<ByteCount>,
}

/// Time in hosts and switches beside that on links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeDelays {
    /// A frame's time through a host and its NIC, at each end.
    pub nic: Duration,
    /// A frame's time through a switch.
    pub switch: Duration,
}

impl FromStr for TopologyName {
    type Err = quincunx_fabric::ShapeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if SwitchedShape::is_meant(text) {
            return text.parse().map(Self::Switched);
        }
        let ring = text.strip_prefix("ring-").and_then(|ranks| ranks.parse().ok()).filter(|&ranks| ranks > 1);
        match ring {
            Some(ranks) => Ok(Self::Ring(ranks)),
            None => text.parse().map(Self::Tree),
        }
    }
}

impl TopologyName {
    /// Hosts on it.
    pub(crate) fn hosts(&self) -> u16 {
        match self {
            Self::Tree(shape) => shape.ranks(),
            Self::Ring(hosts) => *hosts,
            Self::Switched(shape) => shape.hosts(),
            Self::Listed(topology) => {
                topology.nodes().iter().filter(|node| node.kind == NodeKind::Host).count() as u16
            }
        }
    }
}

impl fmt::Display for TopologyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(shape) => shape.fmt(f),
            Self::Ring(hosts) => write!(f, "ring-{hosts}"),
            Self::Switched(shape) => shape.fmt(f),
            Self::Listed(topology) => write!(f, "{} nodes of a file", topology.nodes().len()),
        }
    }
}
