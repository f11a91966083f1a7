//! What a node says of itself when it attaches (EPIC 3.3.1, bootup).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use quincunx_design::AnyDesign;
use quincunx_units::{BitRate, ByteCount};
use quincunx_wire::{MAX_QPN, QpNumber};

/// The first of a share's numbers that is given away.
const FIRST_QP: u32 = 16;

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
    /// UDP datagrams: RoCEv2, or whole RoCE v1 frames as if that were a cable.
    Udp,
    /// Ethernet frames of their own type: RoCE v1.
    Ethernet,
}

/// A link, as the node at one end reports it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LinkReport {
    /// The name of the node at the other end.
    pub neighbour: String,
    /// Cables side by side that are up; none: it is down.
    pub parallel_links: u16,
    /// What it carries each way, if that is known.
    pub rate: Option<BitRate>,
    /// The interface that leads there, if the node was told.
    pub interface: Option<String>,
}

/// A node and what it can do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeDescription {
    /// Unique among the attached nodes.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// Address of its data plane; unique among the attached nodes, but for hosts with shares of one.
    pub address: IpAddr,
    /// Which of the hosts at its address it is, where several processes of a machine have one: the upper byte of its queue pairs' numbers.
    pub share: u8,
    /// The addresses of a switch's further cores, each with threads and groups of its own; empty: its first address has one core for all.
    pub cores: Vec<IpAddr>,
    /// What its frames travel in; the same at all nodes of a group.
    pub encapsulation: Encapsulation,
    /// The designs that its program can run, by name.
    pub designs: BTreeSet<String>,
    /// The version of each design's parameters that its program has; of those that it does not tell nothing is known.
    pub versions: BTreeMap<String, u32>,
    /// How many queue pairs it can have at once.
    pub max_endpoints: u32,
    /// The queue pairs that it has, where a NIC or the kernel chooses their numbers; empty if it makes them with any number.
    pub queue_pairs: Vec<QpNumber>,
    /// Memory that a switch has for payload and degree buffers; zero for a host.
    pub memory: ByteCount,
    /// Memory is given away in multiples of this.
    pub memory_unit: ByteCount,
    /// Whether a switch's ports have buffers of their own, each for one group at a time, as fixed functions have them (EPIC 6.2).
    pub one_group_a_port: bool,
    /// How many children a switch can add up; none: as many as it has queue pairs.
    pub max_fan_in: Option<u16>,
    /// Its links; none if it does not know them.
    pub links: Vec<LinkReport>,
}

impl NodeDescription {
    /// A host with UDP datagrams that knows no links.
    pub const fn host(name: String, address: IpAddr, max_endpoints: u32) -> Self {
        Self {
            name,
            role: Role::Host,
            address,
            share: 0,
            cores: Vec::new(),
            encapsulation: Encapsulation::Udp,
            designs: BTreeSet::new(),
            versions: BTreeMap::new(),
            max_endpoints,
            queue_pairs: Vec::new(),
            memory: ByteCount::new(0),
            memory_unit: ByteCount::new(1),
            one_group_a_port: false,
            max_fan_in: None,
            links: Vec::new(),
        }
    }

    /// The same node, with these designs as its program has them.
    #[must_use]
    pub fn offering(mut self, designs: impl IntoIterator<Item = &'static dyn AnyDesign>) -> Self {
        for design in designs {
            self.designs.insert(design.name().to_string());
            self.versions.insert(design.name().to_string(), design.about().version);
        }
        self
    }

    /// Whether it may have the manager's version of a design.
    pub fn may_run(&self, design: &dyn AnyDesign) -> bool {
        self.versions.get(design.name()).is_none_or(|version| *version == design.about().version)
    }

    /// Whether its program moves blocks of its memory when it is told to: those that tell versions do.
    pub fn moves_memory(&self) -> bool {
        !self.versions.is_empty()
    }

    /// The addresses of its data plane, one a core.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = IpAddr> + Clone + '_ {
        // Chained iterators do not know their length.
        (0..1 + self.cores.len()).map(|core| match core {
            0 => self.address,
            core => self.cores[core - 1],
        })
    }

    /// The numbers that its queue pairs may have, if it makes them with any: 0 and 1 have a meaning of their own, and the next few of each
    /// share are left to whatever else runs at the address.
    pub const fn numbers(&self) -> RangeInclusive<u32> {
        match self.role {
            Role::Host => {
                let first = (self.share as u32) << 16;
                first + FIRST_QP..=first + 0xffff
            }
            Role::Switch => FIRST_QP..=MAX_QPN,
        }
    }

    /// Whether both can have one address, as hosts of different shares whose queue pairs get their numbers here.
    pub fn shares_with(&self, other: &Self) -> bool {
        let can =
            |node: &Self| node.role == Role::Host && node.cores.is_empty() && node.queue_pairs.is_empty();
        can(self) && can(other) && self.share != other.share
    }

    /// Its addresses for people: `10.0.0.1,10.0.0.2`.
    pub fn address_list(&self) -> String {
        self.addresses().map(|address| address.to_string()).collect::<Vec<_>>().join(",")
    }
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
