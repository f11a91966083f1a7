//! The physical side: hosts and switches, their ports, and full-duplex links with a rate and a latency.

use crate::TreeShape;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_units::{BitRate, Duration};

/// A node of a [`Topology`], numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

/// A link of a [`Topology`], numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeKind {
    /// Runs a rank; forwards nothing, however many links it has.
    Host,
    /// Forwards, and computes for groups.
    Switch,
}

/// A node, and which link is plugged into each of its ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// Unique in the topology.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// By port number.
    pub ports: Vec<LinkId>,
}

/// A port of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortRef {
    /// The node.
    pub node: NodeId,
    /// The port's number there, from zero.
    pub port: u16,
}

/// What a link can do, each way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkProperties {
    /// Bits that go in a second.
    pub rate: BitRate,
    /// Time from the last bit in to the last bit out.
    pub latency: Duration,
}

/// A full-duplex link between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    /// Its two ends.
    pub ends: [PortRef; 2],
    /// What it can do.
    pub properties: LinkProperties,
    /// What ways over it cost: of all the cheapest are taken. One, where nothing is said.
    pub cost: u16,
}

/// Nodes and links, built piece by piece; always consistent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Topology {
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// By name: fabrics of some thousand hosts are read from files.
    numbers: BTreeMap<String, NodeId>,
}

/// Why a node or link is refused. All on one line; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("expected a new node name, found \"{name}\" a second time; rename one of the two")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A link to itself.
    #[error("expected a link between two nodes, found both ends at \"{name}\"; name another node")]
    SelfLink {
        /// The node.
        name: String,
    },
    /// Not everything can reach everything, or a host another without a way through a host.
    #[error(
        "expected a path from \"{from}\" to \"{to}\", found none that leads through switches alone; add a link"
    )]
    Unconnected {
        /// A node.
        from: String,
        /// Another, which it cannot reach.
        to: String,
    },
    /// Nothing at all.
    #[error("expected a topology with a node, found an empty one; add hosts and switches")]
    Empty,
}

impl Topology {
    /// The fabric that an IncTree of `shape` covers exactly: `switch-0` (the root), `switch-1`, ... level by level,
    /// then `host-0`, `host-1`, ... in rank order; nodes are numbered as in [`IncTree::from_shape`](crate::IncTree::from_shape).
    pub fn from_shape(shape: &TreeShape, properties: LinkProperties) -> Self {
        let mut topology = Self::default();
        let names = "names of one numbering differ";
        let mut level =
            alloc::vec![topology.add_node("switch-0".to_string(), NodeKind::Switch).expect(names)];
        let (mut switches, mut hosts) = (1, 0);
        for (depth, &branches) in shape.branches().iter().enumerate() {
            let last = depth + 1 == shape.branches().len();
            let mut next = Vec::new();
            for &parent in &level {
                for _ in 0..branches {
                    let (count, what, kind) = match last {
                        true => (&mut hosts, "host", NodeKind::Host),
                        false => (&mut switches, "switch", NodeKind::Switch),
                    };
                    let child = topology.add_node(format!("{what}-{count}"), kind).expect(names);
                    *count += 1;
                    topology.connect(child, parent, properties).expect("two nodes");
                    next.push(child);
                }
            }
            level = next;
        }
        topology
    }

    /// Adds a node without links.
    ///
    /// # Panics
    /// At the 65,536th node: their numbers have 16 bits.
    pub fn add_node(&mut self, name: String, kind: NodeKind) -> Result<NodeId, TopologyError> {
        assert!(self.nodes.len() < usize::from(u16::MAX), "the topology is full");
        if self.find(&name).is_some() {
            return Err(TopologyError::DuplicateName { name });
        }
        let number = NodeId(self.nodes.len() as u16);
        self.numbers.insert(name.clone(), number);
        self.nodes.push(Node { name, kind, ports: Vec::new() });
        Ok(number)
    }

    /// Adds `host-0`, `host-1`, ... in this order, each with a link to its switch.
    pub(crate) fn add_hosts(&mut self, switches: impl IntoIterator<Item = NodeId>, link: LinkProperties) {
        for (number, switch) in switches.into_iter().enumerate() {
            let host = self.add_node(format!("host-{number}"), NodeKind::Host);
            let host = host.expect("names of one numbering differ");
            self.connect(host, switch, link).expect("a host and its switch");
        }
    }

    /// Plugs a link into the next free port of either node.
    ///
    /// # Panics
    /// If a node is not of this topology.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        properties: LinkProperties,
    ) -> Result<LinkId, TopologyError> {
        self.connect_at_cost([a, b], properties, 1)
    }

    /// The same for a link that costs more than others.
    ///
    /// # Panics
    /// If a node is not of this topology.
    pub fn connect_at_cost(
        &mut self,
        [a, b]: [NodeId; 2],
        properties: LinkProperties,
        cost: u16,
    ) -> Result<LinkId, TopologyError> {
        if a == b {
            return Err(TopologyError::SelfLink { name: self.node(a).name.clone() });
        }
        let link = LinkId(self.links.len() as u32);
        let ends = [a, b].map(|node| {
            let ports = &mut self.nodes[usize::from(node.0)].ports;
            ports.push(link);
            PortRef { node, port: (ports.len() - 1) as u16 }
        });
        self.links.push(Link { ends, properties, cost });
        Ok(link)
    }

    /// Whether everything hangs together, and the first host reaches every other host through switches, for hosts forward nothing: to be
    /// asked when all is plugged in.
    pub fn check_connected(&self) -> Result<(), TopologyError> {
        if self.nodes.is_empty() {
            return Err(TopologyError::Empty);
        }
        let lost = |from: usize, seen: &[bool], is_meant: &dyn Fn(&Node) -> bool| {
            let lost = self.nodes.iter().zip(seen).find(|(node, seen)| is_meant(node) && !**seen);
            let names = |(lost, _): (&Node, _)| (self.nodes[from].name.clone(), lost.name.clone());
            lost.map(names).map_or(Ok(()), |(from, to)| Err(TopologyError::Unconnected { from, to }))
        };
        lost(0, &self.reached(0, &|_| true), &|_| true)?;
        let is_host = |node: &Node| node.kind == NodeKind::Host;
        match self.nodes.iter().position(is_host) {
            Some(host) => lost(host, &self.reached(host, &|node| !is_host(node)), &is_host),
            None => Ok(()),
        }
    }

    /// By node: whether there is a way to it through nodes that forward.
    fn reached(&self, from: usize, forwards: &dyn Fn(&Node) -> bool) -> Vec<bool> {
        let mut seen = alloc::vec![false; self.nodes.len()];
        seen[from] = true;
        let mut queue = alloc::vec![NodeId(from as u16)];
        while let Some(node) = queue.pop() {
            for port in 0..self.node(node).ports.len() {
                let neighbour = self.across(PortRef { node, port: port as u16 }).node;
                if !core::mem::replace(&mut seen[usize::from(neighbour.0)], true)
                    && forwards(self.node(neighbour))
                {
                    queue.push(neighbour);
                }
            }
        }
        seen
    }

    /// All nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links, in the order of their numbers.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A node.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[usize::from(node.0)]
    }

    /// A node by name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.numbers.get(name).copied()
    }

    /// The port at the other end of the link that is plugged in at `port`.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn across(&self, port: PortRef) -> PortRef {
        let link = self.node(port.node).ports[usize::from(port.port)];
        let [a, b] = self.links[link.0 as usize].ends;
        if a == port { b } else { a }
    }
}
