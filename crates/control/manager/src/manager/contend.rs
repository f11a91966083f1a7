//! Groups that contend for switches' memory (EPIC 6.2, "contention-and-fallback"): they have a block together, lock it for each invocation at
//! the switches themselves, and run among their hosts when it is taken. What they fall back to is installed with them.

use super::Manager;
use super::contending::Contending;
use super::managed::ManagedGroup;
use super::planned::Planned;
use crate::memory::Region;
use crate::policy::Sharing;
use crate::{Fallback, GroupRequest, SharedMemory};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::{AnyDesign, Demand, Plan};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_units::ByteCount;

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
        Some(Contending { design, settings, plan, tree: tree.clone(), patience: self.config.patience })
    }

    /// Whether a group that contends may have a block with these: all do.
    pub(super) fn all_contend(&self, holders: &BTreeSet<GroupId>) -> bool {
        let contends = |group: &ManagedGroup| group.holds_something() && group.uses.is_some();
        holders.iter().all(|holder| self.groups.get(holder).is_some_and(contends))
    }

    /// For how much of the time these groups use a switch's memory, all together, in per cent: as the switch has measured, or before that as their
    /// jobs have told. None if nothing is known of any.
    pub(super) fn duty(&self, switch: &str, holders: &BTreeSet<GroupId>) -> Option<u32> {
        let of = |holder| {
            let group = self.groups.get(holder)?;
            let measured = group.uses.as_ref().and_then(|uses| uses.get(switch)?.duty(self.now));
            let told = || group.request.phase.as_ref().map(|phase| phase.duty);
            measured.or_else(told).map(u32::from)
        };
        holders.iter().filter_map(of).reduce(|all, more| all + more).map(|duty| duty.min(100))
    }

    /// What of a switch's memory a group may get (EPIC 6.2): the longest piece that nobody has, or of a block that it may share what its holders
    /// leave of the time, whichever is more.
    pub(super) fn capacity(&self, switch: &str, wanted: &GroupRequest) -> ByteCount {
        let memory = self.nodes.memory(switch);
        let contends = matches!(wanted.demand, Demand::Vectors { .. });
        let left = |(region, holders): (Region, &BTreeSet<GroupId>)| {
            let free = 100 - self.duty(switch, holders).unwrap_or(0);
            let may = self.may_share(contends, wanted, holders);
            may.then(|| ByteCount::new(region.length.bytes() * u64::from(free) / 100))
        };
        memory.regions().filter_map(left).fold(memory.longest(), ByteCount::max)
    }

    /// What a group shares with others, switch by switch; none if it has memory for itself.
    pub(super) fn shared(&self, group: GroupId, entry: &ManagedGroup) -> Option<Vec<SharedMemory>> {
        let uses = entry.uses.as_ref()?;
        let at = |switch: &String| {
            let is_there = self.nodes.get(switch).is_some();
            let memory = is_there.then(|| self.nodes.memory(switch));
            let own = memory.and_then(|memory| memory.region_of(group));
            let regions = memory.into_iter().flat_map(|memory| memory.regions());
            let mut holders = regions.filter(|(region, _)| Some(*region) == own).map(|(_, holders)| holders);
            let holders = holders.next().cloned().unwrap_or_default();
            SharedMemory {
                switch: switch.clone(),
                duty: self.duty(switch, &holders).map(|duty| duty as u8),
                with: holders.into_iter().filter(|&other| other != group).collect(),
                uses: uses.get(switch).map(|measured| measured.uses).unwrap_or_default(),
            }
        };
        Some(entry.switches.iter().map(at).collect())
    }
}
