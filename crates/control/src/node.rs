//! What a node says of itself when it attaches (EPIC 3.3.1, bootup).

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;
use core::net::Ipv4Addr;
use quincunx_units::ByteCount;

/// What a node does in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Runs a rank.
    Host,
    /// Aggregates and replicates.
    Switch,
}

/// What a node's frames travel in, as its neighbours see them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Encapsulation {
    /// UDP datagrams over IPv4: RoCEv2, or whole RoCE v1 frames as if that were a cable.
    Udp,
    /// Ethernet frames of their own type: RoCE v1.
    Ethernet,
}

/// A node and what it can do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeDescription {
    /// Unique among the attached nodes.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Address of its data plane; unique among the attached nodes.
    pub address: Ipv4Addr,
    /// What its frames travel in; the same at all nodes of a group.
    pub encapsulation: Encapsulation,
    /// The designs that a switch can run, by name; empty for a host.
    pub designs: BTreeSet<String>,
    /// How many queue pairs it can have at once.
    pub max_endpoints: u32,
    /// Memory that a switch has for payload and degree buffers; zero for a host.
    pub memory: ByteCount,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Switch => "switch",
        })
    }
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP datagrams",
            Self::Ethernet => "Ethernet frames of their own type",
        })
    }
}
