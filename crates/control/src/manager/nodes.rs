//! The attached nodes and what is taken of each: queue pairs and switch memory.

use crate::{AttachError, Holding, NodeDescription};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use core::net::Ipv4Addr;
use quincunx_collective::GroupId;
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, MAX_QPN, QpNumber};

/// Queue pairs 0 and 1 have a meaning of their own; the next few are left to whatever
/// else runs at the address.
const FIRST_QP: u32 = 16;

/// All attached nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<String, Node>,
    /// By address, also of nodes that are gone: a node that comes back does not get the queue pairs of its former
    /// life, for which packets may still be under way.
    next_qp: BTreeMap<Ipv4Addr, u32>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    description: NodeDescription,
    taken: BTreeMap<GroupId, Taken>,
}

/// What a group holds of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Taken {
    endpoints: BTreeSet<QpNumber>,
    memory: ByteCount,
}

impl Taken {
    pub(super) fn holding(&self, node: &str) -> Holding {
        Holding { node: node.to_string(), endpoints: self.endpoints.len() as u32, memory: self.memory }
    }
}

impl Nodes {
    pub(super) fn attach(&mut self, description: NodeDescription) -> Result<(), AttachError> {
        let NodeDescription { name, address, .. } = &description;
        if name.is_empty() {
            return Err(AttachError::NoName);
        }
        if self.nodes.contains_key(name) {
            return Err(AttachError::NameTaken { name: name.clone() });
        }
        if let Some(holder) = self.iter().find(|node| node.address == *address) {
            let (name, address, holder) = (name.clone(), *address, holder.name.clone());
            return Err(AttachError::AddressTaken { name, address, holder });
        }
        self.nodes.insert(name.clone(), Node { description, taken: BTreeMap::new() });
        Ok(())
    }

    pub(super) fn detach(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub(super) fn get(&self, name: &str) -> Option<&NodeDescription> {
        self.nodes.get(name).map(|node| &node.description)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeDescription> {
        self.nodes.values().map(|node| &node.description)
    }

    pub(super) fn free_memory(&self, name: &str) -> ByteCount {
        let node = &self.nodes[name];
        node.description.memory - node.taken.values().map(|taken| taken.memory).sum()
    }

    pub(super) fn free_endpoints(&self, name: &str) -> u32 {
        let node = &self.nodes[name];
        let used: usize = node.taken.values().map(|taken| taken.endpoints.len()).sum();
        // A node that claims more than there are numbers has as many as there are numbers.
        node.description.max_endpoints.min(MAX_QPN - FIRST_QP + 1).saturating_sub(used as u32)
    }

    /// A queue pair for the group that the node does not use. The caller has asked how many are free.
    pub(super) fn take_endpoint(&mut self, name: &str, group: GroupId) -> Endpoint {
        assert!(self.free_endpoints(name) > 0, "node {name} has no queue pair left");
        let node = self.nodes.get_mut(name).expect("an attached node");
        let ip = node.description.address;
        let next = self.next_qp.entry(ip).or_insert(FIRST_QP);
        let qp = loop {
            let qp = QpNumber::new(*next);
            *next = if *next == MAX_QPN { FIRST_QP } else { *next + 1 };
            if !node.taken.values().any(|taken| taken.endpoints.contains(&qp)) {
                break qp;
            }
        };
        node.taken.entry(group).or_default().endpoints.insert(qp);
        Endpoint { ip, qp }
    }

    /// Memory for the group. The caller has asked how much is free.
    pub(super) fn take_memory(&mut self, name: &str, group: GroupId, memory: ByteCount) {
        assert!(self.free_memory(name) >= memory, "node {name} has not {memory} left");
        self.nodes.get_mut(name).expect("an attached node").taken.entry(group).or_default().memory += memory;
    }

    /// What the group holds of an attached node.
    pub(super) fn taken(&self, name: &str, group: GroupId) -> Taken {
        self.nodes[name].taken.get(&group).cloned().unwrap_or_default()
    }

    pub(super) fn release(&mut self, name: &str, group: GroupId) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.taken.remove(&group);
        }
    }

    /// Who holds something of whom.
    pub(super) fn holders(&self) -> impl Iterator<Item = (&str, GroupId)> {
        self.nodes.iter().flat_map(|(name, node)| node.taken.keys().map(|&group| (name.as_str(), group)))
    }

    pub(super) fn assert_invariants(&self) {
        for (name, node) in &self.nodes {
            assert_eq!(*name, node.description.name);
            let memory: ByteCount = node.taken.values().map(|taken| taken.memory).sum();
            assert!(memory <= node.description.memory, "node {name} has given {memory} away");
            let endpoints: usize = node.taken.values().map(|taken| taken.endpoints.len()).sum();
            let distinct: BTreeSet<_> = node.taken.values().flat_map(|taken| &taken.endpoints).collect();
            assert_eq!(endpoints, distinct.len(), "node {name} has given a queue pair to two groups");
        }
    }
}
