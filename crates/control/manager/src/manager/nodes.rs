//! The attached nodes and what is taken of each: queue pairs and switch memory.

use crate::memory::{MovedBlock, Region, Shortage, SwitchMemory};
use crate::{AttachError, Holding, NodeDescription};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use quincunx_collective::GroupId;
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, QpNumber};

/// All attached nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Nodes {
    nodes: BTreeMap<String, AttachedNode>,
    /// By address and share, also of nodes that are gone: a node that comes back does not get the queue pairs of its former
    /// life, for which packets may still be under way.
    next_qp: BTreeMap<(IpAddr, u8), u32>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AttachedNode {
    description: NodeDescription,
    taken: BTreeMap<GroupId, Taken>,
    memory: SwitchMemory,
    /// No new group gets it: it is to be stopped.
    drains: bool,
}

/// What a group holds of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Taken {
    pub(super) endpoints: BTreeSet<QpNumber>,
    pub(super) region: Option<Region>,
    /// The group is over; the node has not yet said that it has forgotten it.
    pub(super) leaves: bool,
}

impl Taken {
    pub(super) fn holding(&self, node: &str) -> Holding {
        let none = Region { offset: ByteCount::new(0), length: ByteCount::new(0) };
        let Region { offset, length } = self.region.unwrap_or(none);
        Holding { node: node.to_string(), endpoints: self.endpoints.len() as u32, memory: length, offset }
    }
}

impl Nodes {
    pub(super) fn attach(&mut self, mut description: NodeDescription) -> Result<(), AttachError> {
        // One that is told twice is one.
        description.queue_pairs.sort_unstable();
        description.queue_pairs.dedup();
        let name = &description.name;
        if name.is_empty() {
            return Err(AttachError::NoName);
        }
        if self.nodes.contains_key(name) {
            return Err(AttachError::NameTaken { name: name.clone() });
        }
        for (core, address) in description.addresses().enumerate() {
            let has = |node: &&NodeDescription| {
                node.addresses().any(|other| other == address) && !node.shares_with(&description)
            };
            let other = self.iter().find(has);
            let twice = description.addresses().take(core).any(|other| other == address);
            if let Some(holder) = other.or(twice.then_some(&description)) {
                let (name, holder) = (name.clone(), holder.name.clone());
                return Err(AttachError::AddressTaken { name, address, holder });
            }
        }
        let memory = SwitchMemory::new(description.memory, description.memory_unit);
        self.nodes.insert(
            name.clone(),
            AttachedNode { description, taken: BTreeMap::new(), memory, drains: false },
        );
        Ok(())
    }

    pub(super) fn detach(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub(super) fn get(&self, name: &str) -> Option<&NodeDescription> {
        self.nodes.get(name).map(|node| &node.description)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeDescription> + Clone {
        self.nodes.values().map(|node| &node.description)
    }

    pub(super) fn memory(&self, name: &str) -> &SwitchMemory {
        &self.nodes[name].memory
    }

    pub(super) fn moves_memory(&self, name: &str) -> bool {
        self.nodes[name].description.moves_memory()
    }

    pub(super) fn drains(&self, name: &str) -> bool {
        self.nodes[name].drains
    }

    /// Whether a node of that name was there to be told.
    pub(super) fn set_draining(&mut self, name: &str, drains: bool) -> bool {
        self.nodes.get_mut(name).map(|node| node.drains = drains).is_some()
    }

    pub(super) fn free_endpoints(&self, name: &str) -> u32 {
        let node = &self.nodes[name];
        let used: usize = node.taken.values().map(|taken| taken.endpoints.len()).sum();
        // A node that claims more than there are numbers has as many as there are numbers.
        let numbers = match node.description.queue_pairs.len() as u32 {
            // One core may have to have all of them.
            0 => node.description.numbers().count() as u32 / node.description.addresses().len() as u32,
            own => own,
        };
        node.description.max_endpoints.min(numbers).saturating_sub(used as u32)
    }

    /// The core of a node that has fewest queue pairs, the first of these.
    pub(super) fn idlest_core(&self, name: &str) -> usize {
        let node = &self.nodes[name];
        let mut held = alloc::vec![0_u32; node.description.addresses().len()];
        let taken = node.taken.values().flat_map(|taken| &taken.endpoints);
        let cores = held.len();
        taken.for_each(|qp| held[core_of(*qp, cores)] += 1);
        (0..cores).min_by_key(|core| held[*core]).expect("a node has a core")
    }

    /// A queue pair of that core for the group that the node does not use. The caller has asked how many are free.
    pub(super) fn take_endpoint(&mut self, name: &str, group: GroupId, core: usize) -> Endpoint {
        assert!(self.free_endpoints(name) > 0, "node {name} has no queue pair left");
        let node = self.nodes.get_mut(name).expect("an attached node");
        let cores = node.description.addresses().len();
        let ip = node.description.addresses().nth(core).expect("a core of the node");
        let numbers = node.description.numbers();
        let key = (node.description.address, node.description.share);
        let next = self.next_qp.entry(key).or_insert(*numbers.start());
        let own = &node.description.queue_pairs;
        let qp = loop {
            // Those that it has come by turns: packets for the one before may still be under way.
            let qp = match own.len() {
                0 => QpNumber::new(*next),
                count => own[*next as usize % count],
            };
            *next = if *next == *numbers.end() { *numbers.start() } else { *next + 1 };
            if core_of(qp, cores) == core && !node.taken.values().any(|taken| taken.endpoints.contains(&qp)) {
                break qp;
            }
        };
        node.taken.entry(group).or_default().endpoints.insert(qp);
        Endpoint { ip: ip.into(), qp }
    }

    /// Memory for the group: a block of its own, or a place in one that its holders may use by turns with this group, by how much of the time they
    /// do. If the group `prefers_own`, it shares only what it cannot have alone. And what is moved to make room for it.
    pub(super) fn take_memory(
        &mut self,
        name: &str,
        group: GroupId,
        length: ByteCount,
        (prefers_own, may_move): (bool, bool),
        duty: impl Fn(&BTreeSet<GroupId>) -> Option<u32>,
    ) -> Result<(Region, Vec<MovedBlock>), Shortage> {
        let node = self.nodes.get_mut(name).expect("an attached node");
        let has_own = prefers_own && node.memory.has(length).is_ok();
        let shared = if has_own { None } else { node.memory.share(group, length, duty) };
        let mut moved = Vec::new();
        let region = match shared {
            Some(region) => region,
            None => {
                if may_move {
                    moved = node.memory.make_room(length);
                }
                for region in node.taken.values_mut().filter_map(|taken| taken.region.as_mut()) {
                    if let Some(block) = moved.iter().find(|block| block.from == *region) {
                        region.offset = block.to;
                    }
                }
                node.memory.take(group, length)?
            }
        };
        node.taken.entry(group).or_default().region = Some(region);
        Ok((region, moved))
    }

    /// What the group holds of a node, if that is attached.
    pub(super) fn taken(&self, name: &str, group: GroupId) -> Option<&Taken> {
        self.nodes.get(name)?.taken.get(&group)
    }

    /// What a node has given away, group by group.
    pub(super) fn all_taken(&self, name: &str) -> impl Iterator<Item = (GroupId, &Taken)> {
        self.nodes
            .get(name)
            .into_iter()
            .flat_map(|node| node.taken.iter().map(|(&group, taken)| (group, taken)))
    }

    /// The group is there, even if it holds nothing else.
    pub(super) fn hold(&mut self, name: &str, group: GroupId) {
        self.nodes.get_mut(name).expect("an attached node").taken.entry(group).or_default();
    }

    /// Groups that are over and that nodes have not yet forgotten.
    pub(super) fn leavers(&self) -> impl Iterator<Item = (&str, GroupId)> {
        self.nodes.iter().flat_map(|(name, node)| {
            let leaves = node.taken.iter().filter(|(_, taken)| taken.leaves);
            leaves.map(move |(&group, _)| (name.as_str(), group))
        })
    }

    /// Whether there is a node of that name.
    pub(super) fn set_links(&mut self, name: &str, links: alloc::vec::Vec<crate::LinkReport>) -> bool {
        self.nodes.get_mut(name).map(|node| node.description.links = links).is_some()
    }

    /// The group is over: what it holds is free when the node has forgotten it. Whether there is something.
    pub(super) fn leave(&mut self, name: &str, group: GroupId) -> bool {
        let taken = self.nodes.get_mut(name).and_then(|node| node.taken.get_mut(&group));
        taken.is_some_and(|taken| !core::mem::replace(&mut taken.leaves, true))
    }

    /// A node that comes again has a group: as it was, for the group's life or until it has forgotten it.
    pub(super) fn restore(&mut self, name: &str, group: GroupId, taken: Taken) -> Result<(), Shortage> {
        let node = self.nodes.get_mut(name).expect("an attached node");
        if let Some(region) = taken.region {
            node.memory.restore(group, region)?;
        }
        node.taken.insert(group, taken);
        Ok(())
    }

    /// The node has forgotten the group.
    pub(super) fn release(&mut self, name: &str, group: GroupId) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.taken.remove(&group);
            node.memory.release(group);
        }
    }

    /// Who holds something of whom, groups that are over apart.
    pub(super) fn holders(&self) -> impl Iterator<Item = (&str, GroupId)> {
        self.nodes.iter().flat_map(|(name, node)| {
            let lives = node.taken.iter().filter(|(_, taken)| !taken.leaves);
            lives.map(move |(&group, _)| (name.as_str(), group))
        })
    }

    pub(super) fn assert_invariants(&self) {
        for (name, node) in &self.nodes {
            assert_eq!(*name, node.description.name);
            node.memory.assert_invariants();
            for (&group, taken) in &node.taken {
                let region = node.memory.region_of(group);
                let held = taken.region.filter(|region| region.length.bytes() > 0);
                assert_eq!(region, held, "node {name} and its memory disagree on group {group}");
            }
            for (region, holders) in node.memory.regions() {
                let known = holders.iter().all(|group| node.taken.contains_key(group));
                assert!(known, "{region:?} of node {name} is held by a stranger");
            }
            let endpoints: usize = node.taken.values().map(|taken| taken.endpoints.len()).sum();
            let distinct: BTreeSet<_> = node.taken.values().flat_map(|taken| &taken.endpoints).collect();
            assert_eq!(endpoints, distinct.len(), "node {name} has given a queue pair to two groups");
        }
    }
}

/// Which of a node's cores has a queue pair: they go round by their numbers, so that whoever sees a number knows the core, a NIC that
/// steers frames by their queue pair as well.
const fn core_of(qp: QpNumber, cores: usize) -> usize {
    qp.value() as usize % cores
}
