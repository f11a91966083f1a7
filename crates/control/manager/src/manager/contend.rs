//! Groups that contend for switches' memory (EPIC 6.2, "contention-and-fallback"): they have a block together, lock it for each invocation at
//! the switches themselves, and run among their hosts when it is taken. What they fall back to is installed with them.

use super::Manager;
use super::contending::Contending;
use super::managed::ManagedGroup;
use super::planned::Planned;
use crate::policy::Sharing;
use crate::{Fallback, GroupRequest, SharedMemory};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::{AnyDesign, Demand, Plan};
use quincunx_fabric::{IncTree, TreeNodeId};

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
