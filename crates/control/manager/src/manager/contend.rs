//! Groups that contend for switches' memory (EPIC 6.2, "contention-and-fallback"): they have a block together, lock it for each invocation at
//! the switches themselves, and run among their hosts when it is taken. What they fall back to is installed with them.

use super::place::Planned;
use super::{ManagedGroup, Manager};
use crate::policy::Sharing;
use crate::{Fallback, GroupRequest};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::{GroupId, Rank};
use quincunx_design::{
    AnyDesign, ConnectionContext, Contention, Demand, GroupContext, Member, Naming, Peer, Plan, Settings,
};
use quincunx_fabric::{IncTree, TreeEnd, TreeNodeId, TreeRole};
use quincunx_wire::Endpoint;

/// What a group that contends has beside its tree.
pub(super) struct Contending {
    /// What it runs among its hosts.
    pub(super) design: &'static dyn AnyDesign,
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    /// Its locks are asked for up this tree.
    pub(super) tree: IncTree,
}

/// How often a switch has granted a group its memory, and refused it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LockUse {
    /// Invocations that it granted.
    pub granted: u64,
    /// Invocations that it refused: another group had the memory.
    pub refused: u64,
    /// Of those, how often the other group made nothing of it, because another switch refused that one.
    pub in_vain: u64,
    /// Who had it the last time.
    pub held_by: Option<GroupId>,
}

/// What a group shares at a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SharedMemory {
    /// The switch.
    pub switch: String,
    /// Groups with the same block.
    pub with: Vec<GroupId>,
    /// As the switch has told.
    pub uses: LockUse,
}

impl Contending {
    /// Queue pairs and ends of edges that each member needs.
    pub(super) fn add_degrees(&self, degrees: &mut BTreeMap<Member, u32>) {
        for (member, degree) in self.plan.degrees() {
            *degrees.entry(member).or_insert(0) += degree;
        }
        for edge in self.tree.edges() {
            for end in [edge.parent, edge.child] {
                *degrees.entry(self.member(end)).or_insert(0) += 1;
            }
        }
    }

    fn member(&self, end: TreeEnd) -> Member {
        match self.tree.node(end.node).role() {
            TreeRole::Rank(rank) => Member::Rank(rank),
            TreeRole::Switch => Member::Switch(end.node),
        }
    }

    /// What each member is told beside its tree's context.
    pub(super) fn contexts(
        self,
        naming: &Naming,
        name: &impl Fn(TreeNodeId) -> String,
        mut endpoint: impl FnMut(Member) -> Endpoint,
    ) -> BTreeMap<Member, Box<Contention>> {
        let mut edges: BTreeMap<Member, BTreeMap<u16, ConnectionContext>> = BTreeMap::new();
        for edge in self.tree.edges() {
            let ends = [edge.parent, edge.child].map(|end| (end, self.member(end)));
            let [upper, lower] = ends.map(|(_, member)| endpoint(member));
            let [(parent, above), (child, below)] = ends;
            for (end, own, far, local, remote) in
                [(parent, above, below, upper, lower), (child, below, above, lower, upper)]
            {
                let peer = match far {
                    Member::Rank(rank) => Peer::Rank(rank),
                    Member::Switch(node) => Peer::Switch(name(node)),
                };
                let context = ConnectionContext { local, remote, peer };
                edges.entry(own).or_default().insert(end.index, context);
            }
        }
        let root = self.tree.root();
        let fallback: BTreeMap<Member, GroupContext> =
            self.plan.contexts(naming, name, endpoint).into_iter().collect();
        let told = |(member, edges): (Member, BTreeMap<u16, ConnectionContext>)| {
            let contention = Contention {
                fallback: fallback.get(&member).cloned(),
                // A node's edges lead to its children in order, and then to its parent.
                edges: edges.into_values().collect(),
                has_parent: member != Member::Switch(root),
            };
            (member, Box::new(contention))
        };
        edges.into_iter().map(told).collect()
    }
}

impl Manager {
    /// What a group needs to contend on this tree; none where it may not: it has memory for itself then.
    pub(super) fn contending(
        &self,
        asked: &'static dyn AnyDesign,
        wanted: &GroupRequest,
        ranks: u16,
        plan: &Plan,
        tree: &IncTree,
    ) -> Option<Contending> {
        let is_for_vectors = matches!(wanted.demand, Demand::Vectors { .. });
        // A lock is for one channel.
        if self.config.policy.sharing() != Sharing::Locks || !is_for_vectors || plan.channels > 1 {
            return None;
        }
        // Every switch of the tree has a recorder in it.
        let parts: BTreeSet<TreeNodeId> = plan.switches.iter().map(|part| part.node).collect();
        if !tree.switches().iter().all(|switch| parts.contains(switch)) {
            return None;
        }
        let nobody = Fallback::NoTree {
            design: wanted.design.clone(),
            policy: self.config.policy.name().into(),
            members: Vec::new(),
            holders: Vec::new(),
        };
        let (Planned { design, settings, plan, .. }, _) =
            self.fall_back(asked, wanted, ranks, nobody).ok()?;
        Some(Contending { design, settings, plan, tree: tree.clone() })
    }

    /// Whether a group that contends may have a block with these: all do.
    pub(super) fn all_contend(&self, holders: &BTreeSet<GroupId>) -> bool {
        let contends = |group: &ManagedGroup| group.holds_something() && group.uses.is_some();
        holders.iter().all(|holder| self.groups.get(holder).is_some_and(contends))
    }

    /// What a group shares with others, switch by switch; none if it has memory for itself.
    pub(super) fn shared(&self, group: GroupId, entry: &ManagedGroup) -> Option<Vec<SharedMemory>> {
        let uses = entry.uses.as_ref()?;
        let at = |switch: &String| {
            let is_there = self.nodes.get(switch).is_some();
            let memory = is_there.then(|| self.nodes.memory(switch));
            let own = memory.and_then(|memory| memory.region_of(group));
            let regions = memory.into_iter().flat_map(|memory| memory.regions());
            let holders = regions.filter(|(region, _)| Some(*region) == own).flat_map(|(_, holders)| holders);
            SharedMemory {
                switch: switch.clone(),
                with: holders.copied().filter(|&other| other != group).collect(),
                uses: uses.get(switch).copied().unwrap_or_default(),
            }
        };
        Some(entry.switches.iter().map(at).collect())
    }
}

/// The rank's or the switch's name of a member, for `endpoint` of [`Contending::contexts`].
pub(super) fn name_of(member: Member, members: &[String], names: &BTreeMap<TreeNodeId, String>) -> String {
    match member {
        Member::Rank(Rank(rank)) => members[usize::from(rank)].clone(),
        Member::Switch(node) => names[&node].clone(),
    }
}
