//! Who has which switches: trees by the manager's policies on its map, and its books of switches' memory.

use crate::cost::Designs;
use crate::fabric::Cluster;
use crate::outages::Outages;
use quincunx_collective::GroupId;
use quincunx_control::map::{Map, MapLink, MapNode};
use quincunx_control::memory::{Region, SwitchMemory};
use quincunx_control::policy::{Contended, EdgeDisjoint, Policy, Prefer, Sharing, Spatial};
use quincunx_control::tree::{Candidate, Ground, Levels};
use quincunx_design::{Catalog, Refusal};
use quincunx_fabric::IncTree;
use quincunx_scenario::{Slots, Tenancy, TenancyPolicy};
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

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
    pub(crate) fn is_whole(&self, outages: &Outages) -> bool {
        self.links.iter().all(|&link| outages.carries(link))
    }
}

/// A unit where groups take one at each switch that their trees pass: any length, of which a share is something.
const PATH_UNIT: ByteCount = ByteCount::new(1 << 20);

/// How long a group has had its locks, until it last gave them back.
#[derive(Clone, Copy, Debug)]
struct Used {
    first: Instant,
    last: Instant,
    held: Duration,
}

/// The map with all trees, the memory of all switches, and what of it is locked.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    map: Map,
    /// By node; a host has none.
    memory: Vec<SwitchMemory>,
    /// Parts that a group uses right now, where several have them: of which switch, and where they begin.
    locked: BTreeSet<(MapNode, ByteCount)>,
    /// By group that has had locks: since when, and how long in all.
    used: BTreeMap<GroupId, Used>,
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
            Slots::Path => PATH_UNIT,
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
            TenancyPolicy::Contention => Some(&Contended),
        };
        Self {
            map,
            memory,
            locked: BTreeSet::new(),
            used: BTreeMap::new(),
            policy,
            is_lowest_alone,
            slots,
            all,
        }
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
        now: Instant,
    ) -> Option<Tree> {
        let policy = self.policy?;
        if self.lacks_a_leaf(members) {
            return None;
        }
        let found = {
            let ground = Ground {
                map: &self.map,
                able: &|node| !self.map.is_host(node),
                usable: &|link| outages.carries(link) && policy.may_use(&self.map, link),
                memory: &|node| self.capacity(node, now),
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
        self.take(group, &found, now);
        Some(found)
    }

    /// For which share of the time these groups have a switch's memory, all together, as far as it has been measured; at most all of it.
    fn duty(&self, holders: &BTreeSet<GroupId>, now: Instant) -> f64 {
        let share = |Used { first, held, .. }: &Used| held.as_secs_f64() / now.since(*first).as_secs_f64();
        let of = |group| self.used.get(group).filter(|used| now > used.first).map(share);
        holders.iter().filter_map(of).sum::<f64>().min(1.0)
    }

    /// What of a switch's memory a group may get, as the manager has it: a piece that nobody has, or with locks what a part's holders leave of the
    /// time.
    fn capacity(&self, node: MapNode, now: Instant) -> ByteCount {
        let memory = &self.memory[node.0 as usize];
        if !self.has_locks() {
            return memory.longest();
        }
        let left = |(region, holders): (Region, &BTreeSet<GroupId>)| {
            let free = 1.0 - self.duty(holders, now);
            ByteCount::new((region.length.bytes() as f64 * free) as u64)
        };
        memory.regions().map(left).fold(memory.longest(), ByteCount::max)
    }

    /// Whether groups lock the memory of their trees for each collective.
    pub(crate) fn has_locks(&self) -> bool {
        self.policy.is_some_and(|policy| policy.sharing() == Sharing::Locks)
    }

    /// Where a group's memory is, switch by switch; none at switches that need none.
    fn parts(&self, group: GroupId, tree: &Tree) -> impl Iterator<Item = (MapNode, ByteCount)> {
        let region = move |&(node, _): &(MapNode, ByteCount)| {
            Some((node, self.memory[node.0 as usize].region_of(group)?.offset))
        };
        tree.needs.iter().filter_map(region)
    }

    /// All of the memory of a group's tree, or nothing: whether nobody had locked any of it.
    pub(crate) fn lock(&mut self, group: GroupId, tree: &Tree, now: Instant) -> bool {
        let parts: Vec<_> = self.parts(group, tree).collect();
        let is_free = parts.iter().all(|part| !self.locked.contains(part));
        if is_free {
            self.locked.extend(parts);
            let used = Used { first: now, last: now, held: Duration::ZERO };
            self.used.entry(group).or_insert(used).last = now;
        }
        is_free
    }

    /// A group that had locked its memory has not any more.
    pub(crate) fn unlock(&mut self, group: GroupId, tree: &Tree, now: Instant) {
        let used = self.used.get_mut(&group).expect("it had locked it");
        used.held += now.since(used.last);
        let parts: Vec<_> = self.parts(group, tree).collect();
        for part in parts {
            assert!(self.locked.remove(&part), "what is unlocked has been locked");
        }
    }

    /// Whether no tree can have what it takes: all pass the one switch that a member is at, and it has nothing left.
    fn lacks_a_leaf(&self, members: &[MapNode]) -> bool {
        if self.has_locks() {
            return false;
        }
        let is_full = |member: &MapNode| match self.map.ports(*member) {
            [(_, leaf)] => self.memory[leaf.0 as usize].has(PATH_UNIT).is_err(),
            _ => false,
        };
        self.slots == Slots::Path && members.iter().any(is_full)
    }

    /// The tree that a group had before, if it is whole and its switches have what it takes.
    pub(crate) fn grant_again(
        &mut self,
        outages: &Outages,
        group: GroupId,
        tree: &Tree,
        now: Instant,
    ) -> bool {
        let can = tree.is_whole(outages) && self.has(&tree.needs);
        if can {
            self.take(group, tree, now);
        }
        can
    }

    /// Whether each switch has so much for a group: memory that nobody has, or with locks that of others.
    fn has(&self, needs: &[(MapNode, ByteCount)]) -> bool {
        needs.iter().all(|&(node, length)| {
            let memory = &self.memory[node.0 as usize];
            let fits = |region: Region| region.length >= length;
            memory.has(length).is_ok() || self.has_locks() && memory.regions().any(|(region, _)| fits(region))
        })
    }

    fn tree(&self, cluster: &Cluster, designs: &Designs, candidate: &Candidate) -> Option<Tree> {
        let needs = match self.slots {
            Slots::Path => {
                let ends = candidate.links.iter().flat_map(|&link| cluster.ends(link));
                let mut switches: Vec<_> = ends.filter(|&end| !self.map.is_host(end)).collect();
                switches.sort_unstable();
                switches.dedup();
                switches.into_iter().map(|node| (node, PATH_UNIT)).collect()
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

    fn take(&mut self, group: GroupId, tree: &Tree, now: Instant) {
        for &(node, length) in &tree.needs {
            let duties: BTreeMap<BTreeSet<GroupId>, u32> = match self.memory[node.0 as usize].has(length) {
                Ok(()) => BTreeMap::new(),
                Err(_) => {
                    let percent = |holders| (100.0 * self.duty(holders, now)) as u32;
                    let regions = self.memory[node.0 as usize].regions();
                    regions.map(|(_, holders)| (holders.clone(), percent(holders))).collect()
                }
            };
            let memory = &mut self.memory[node.0 as usize];
            let own = memory.take(group, length).ok();
            own.or_else(|| memory.share(group, length, |holders| duties.get(holders).copied()))
                .expect("it has been asked whether there is so much");
        }
        self.map.plant(group, &tree.links);
    }

    /// A group does not have its tree any more.
    pub(crate) fn release(&mut self, group: GroupId, tree: &Tree) {
        self.used.remove(&group);
        tree.needs.iter().for_each(|(node, _)| self.memory[node.0 as usize].release(group));
        self.map.uproot(group, &tree.links);
    }

    /// Panics if memory is taken twice.
    pub(crate) fn assert_invariants(&self) {
        self.memory.iter().for_each(SwitchMemory::assert_invariants);
        for &(node, offset) in &self.locked {
            let is_there = |(region, _): (Region, _)| region.offset == offset;
            assert!(self.memory[node.0 as usize].regions().any(is_there), "what is locked is somebody's");
        }
    }

    /// Whether nobody has anything.
    pub(crate) fn are_none(&self) -> bool {
        self.memory.iter().all(|memory| memory.regions().next().is_none())
            && self.locked.is_empty()
            && self.used.is_empty()
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
        let granted =
            self.grants.grant(self.cluster, &self.outages, &self.designs, group, &members, Instant::ZERO);
        self.grants.assert_invariants();
        granted.is_some()
    }
}
