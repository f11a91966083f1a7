//! Who has which switches: trees by the manager's policies on its map, and its books of switches' memory.

use crate::cost::Designs;
use crate::fabric::Cluster;
use crate::outages::Outages;
use quincunx_collective::GroupId;
use quincunx_control::map::{Map, MapLink, MapNode};
use quincunx_control::memory::SwitchMemory;
use quincunx_control::policy::{EdgeDisjoint, Policy, Prefer, Spatial};
use quincunx_control::tree::{Candidate, Ground, Levels};
use quincunx_design::{Catalog, Refusal};
use quincunx_fabric::IncTree;
use quincunx_scenario::{Slots, Tenancy, TenancyPolicy};
use quincunx_units::ByteCount;

/// A tree that a group may have.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) links: Vec<MapLink>,
    /// What it takes of which switch.
    pub(crate) needs: Vec<(MapNode, ByteCount)>,
    /// Links from the root to the farthest member.
    pub(crate) depth: u16,
}

impl Tree {
    /// Whether nothing of it has failed.
    pub(crate) fn is_whole(&self, cluster: &Cluster, outages: &Outages) -> bool {
        self.links.iter().all(|&link| outages.carries(cluster, link))
    }
}

/// The map with all trees, and the memory of all switches.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    map: Map,
    /// By node; a host has none.
    memory: Vec<SwitchMemory>,
    policy: Option<&'static dyn Policy>,
    /// Whether it looks at the lowest level and no other.
    is_lowest_alone: bool,
    slots: Slots,
    /// Of each switch.
    all: ByteCount,
}

impl Grants {
    /// Nobody has anything, and each switch so many units of these bytes.
    pub(crate) fn new(
        cluster: &Cluster,
        policy: TenancyPolicy,
        slots: Slots,
        units: u32,
        unit: ByteCount,
    ) -> Self {
        let unit = match slots {
            Slots::Path => ByteCount::new(1),
            Slots::Sums => unit,
        };
        let map = cluster.map().clone();
        let all = unit * u64::from(units);
        let memory = |node| match map.is_host(MapNode(node)) {
            true => ByteCount::new(0),
            false => all,
        };
        let memory = (0..map.size() as u32).map(|node| SwitchMemory::new(memory(node), unit)).collect();
        let is_lowest_alone = policy == TenancyPolicy::Edt;
        let policy: Option<&'static dyn Policy> = match policy {
            TenancyPolicy::Ring => None,
            TenancyPolicy::Edt => Some(&EdgeDisjoint),
            TenancyPolicy::Spatial | TenancyPolicy::Temporal => Some(&Spatial { prefer: Prefer::Depth }),
        };
        Self { map, memory, policy, is_lowest_alone, slots, all }
    }

    /// The memory of each switch.
    pub(crate) const fn memory(&self) -> ByteCount {
        self.all
    }

    /// The first tree by the policy whose switches have what it takes, which the group has from now on.
    pub(crate) fn grant(
        &mut self,
        cluster: &Cluster,
        outages: &Outages,
        designs: &Designs,
        group: GroupId,
        members: &[MapNode],
    ) -> Option<Tree> {
        let policy = self.policy?;
        if self.lacks_a_leaf(members) {
            return None;
        }
        let found = {
            let ground = Ground {
                map: &self.map,
                able: &|node| !self.map.is_host(node),
                usable: &|link| outages.carries(cluster, link) && policy.may_use(&self.map, link),
                memory: &|node| self.memory[node.0 as usize].longest(),
            };
            let Levels(mut levels) = ground.levels(members).ok()?;
            if self.is_lowest_alone {
                levels = levels.pop_first().into_iter().collect();
            }
            // Level by level, the lowest first, as the policy has it: what is above is looked at only if there is none below.
            levels.into_iter().find_map(|level| {
                let candidates = policy.candidates(&ground, &Levels([level].into()), members);
                candidates.iter().find_map(|candidate| self.tree(cluster, designs, candidate))
            })?
        };
        self.take(group, &found);
        Some(found)
    }

    /// Whether no tree can have what it takes: all pass the one switch that a member is at, and it has nothing left.
    fn lacks_a_leaf(&self, members: &[MapNode]) -> bool {
        let is_full = |member: &MapNode| match self.map.ports(*member) {
            [(_, leaf)] => self.memory[leaf.0 as usize].has(ByteCount::new(1)).is_err(),
            _ => false,
        };
        self.slots == Slots::Path && members.iter().any(is_full)
    }

    /// The tree that a group had before, if it is whole and its switches have what it takes.
    pub(crate) fn grant_again(
        &mut self,
        cluster: &Cluster,
        outages: &Outages,
        group: GroupId,
        tree: &Tree,
    ) -> bool {
        let can = tree.is_whole(cluster, outages) && self.has(&tree.needs);
        if can {
            self.take(group, tree);
        }
        can
    }

    fn has(&self, needs: &[(MapNode, ByteCount)]) -> bool {
        needs.iter().all(|&(node, length)| self.memory[node.0 as usize].has(length).is_ok())
    }

    fn tree(&self, cluster: &Cluster, designs: &Designs, candidate: &Candidate) -> Option<Tree> {
        let needs = match self.slots {
            Slots::Path => {
                let ends = candidate.links.iter().flat_map(|&link| cluster.ends(link));
                let mut switches: Vec<_> = ends.filter(|&end| !self.map.is_host(end)).collect();
                switches.sort_unstable();
                switches.dedup();
                switches.into_iter().map(|node| (node, ByteCount::new(1))).collect()
            }
            Slots::Sums => self.sums(designs, &candidate.tree, candidate)?,
        };
        self.has(&needs).then(|| Tree {
            links: candidate.links.iter().copied().collect(),
            needs,
            depth: candidate.depth,
        })
    }

    fn sums(
        &self,
        designs: &Designs,
        tree: &IncTree,
        candidate: &Candidate,
    ) -> Option<Vec<(MapNode, ByteCount)>> {
        let parts = designs.memory(tree)?;
        Some(parts.into_iter().map(|(node, memory)| (candidate.switches[&node], memory)).collect())
    }

    fn take(&mut self, group: GroupId, tree: &Tree) {
        for &(node, length) in &tree.needs {
            self.memory[node.0 as usize]
                .take(group, length)
                .expect("it has been asked whether there is so much");
        }
        self.map.plant(group, &tree.links);
    }

    /// A group does not have its tree any more.
    pub(crate) fn release(&mut self, group: GroupId, tree: &Tree) {
        tree.needs.iter().for_each(|(node, _)| self.memory[node.0 as usize].release(group));
        self.map.uproot(group, &tree.links);
    }

    /// Panics if memory is taken twice.
    pub(crate) fn assert_invariants(&self) {
        self.memory.iter().for_each(SwitchMemory::assert_invariants);
    }

    /// Whether nobody has anything.
    pub(crate) fn are_none(&self) -> bool {
        self.memory.iter().all(|memory| memory.regions().next().is_none())
            && self.map.links().all(|link| self.map.trees(link).is_empty())
    }
}

/// Groups that ask for switches one after the other and keep them, outside of any run: what the manager answers to the same groups.
pub struct Admissions<'a> {
    cluster: &'a Cluster,
    designs: Designs,
    outages: Outages,
    grants: Grants,
    groups: u32,
}

impl<'a> Admissions<'a> {
    /// Nobody has asked, and each switch has so many units of memory.
    ///
    /// # Errors
    /// If there is no such design.
    pub fn new(
        tenancy: &Tenancy,
        cluster: &'a Cluster,
        catalog: Catalog,
        policy: TenancyPolicy,
        units: u32,
    ) -> Result<Self, Refusal> {
        let unit = tenancy.unit.unwrap_or(ByteCount::new(1));
        let grants = Grants::new(cluster, policy, tenancy.slots, units, unit);
        let outages = Outages::new(cluster, None, None, 0);
        Ok(Self { cluster, designs: Designs::new(tenancy, catalog)?, outages, grants, groups: 0 })
    }

    /// Whether a group of these hosts gets switches.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn grant(&mut self, hosts: &[u32]) -> bool {
        self.groups += 1;
        let members: Vec<MapNode> = hosts.iter().map(|&host| self.cluster.host(host)).collect();
        let group = GroupId(self.groups);
        let granted = self.grants.grant(self.cluster, &self.outages, &self.designs, group, &members);
        self.grants.assert_invariants();
        granted.is_some()
    }
}
