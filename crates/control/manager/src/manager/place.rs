//! Where a group runs: trees by the policy, what the design plans on them, and whether switches have what that takes.

use super::Manager;
use super::planned::Planned;
use crate::map::{MapLink, MapNode, between};
use crate::policy::Sharing;
use crate::tree::{Candidate, Ground};
use crate::{
    Allowance, Fallback, GroupRequest, GroupSummary, Holder, InitGroupError, NodeDescription, Role,
    SwitchCount,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::{AnyDesign, Member, Placement, Plan, Refusal, Settings};
use quincunx_fabric::{IncTree, TreeNodeId, TreeShape};
use quincunx_units::ByteCount;

impl Manager {
    /// What the group runs and where, and why that is not what was asked for, if it is not.
    pub(super) fn choose(
        &self,
        wanted: &GroupRequest,
        ranks: u16,
    ) -> Result<(Planned, Option<Fallback>), InitGroupError> {
        let design = self.catalog.find(&wanted.design, wanted.fabric())?;
        let members = wanted.members.iter().filter_map(|name| self.nodes.get(name));
        let others = of_another_version(design, members);
        if !others.is_empty() {
            return self.fall_back(design, wanted, ranks, other_version(design, others));
        }
        let ours = design.about().version;
        if ours != wanted.version {
            let theirs = ("the program that asks", wanted.version);
            return Err(Refusal::of_versions(design.name(), ("the manager", ours), theirs).into());
        }
        if wanted.mesh.is_some() {
            let placement = wanted.placement(ranks, nominal(ranks)?)?;
            let plan = design.plan(&wanted.settings, &placement)?;
            return Ok((among_hosts(design, wanted.settings.clone(), plan), None));
        }
        let candidates = match self.candidates(design, wanted) {
            Ok(candidates) => candidates,
            Err(lack) => {
                // A design among hosts needs none.
                let placement = wanted.placement(ranks, nominal(ranks)?)?;
                match (design.plan(&wanted.settings, &placement), lack) {
                    (Ok(plan), _) if plan.switches.is_empty() => {
                        return Ok((among_hosts(design, wanted.settings.clone(), plan), None));
                    }
                    (_, None) => {
                        let switches = self.nodes.iter().filter(|node| node.role == Role::Switch).count();
                        let (design, found) = (design.name().to_string(), SwitchCount(switches));
                        return Err(InitGroupError::NoSwitch { design, found });
                    }
                    (_, Some(lack)) => return self.fall_back(design, wanted, ranks, lack),
                }
            }
        };
        let (mut first_lack, mut first_refusal) = (None, None);
        for candidate in candidates {
            let offered = |(&node, &place): (&TreeNodeId, &MapNode)| {
                let description = self.nodes.get(self.map.name(place))?;
                Some((node, description.designs.clone()))
            };
            let offers = candidate.switches.iter().filter_map(offered).collect();
            let placement = Placement { offers, ..wanted.placement(ranks, candidate.tree.clone())? };
            let plan = match design.plan(&wanted.settings, &placement) {
                Ok(plan) => plan,
                // Another tree may suit the design.
                Err(refusal) => {
                    first_refusal.get_or_insert(refusal);
                    continue;
                }
            };
            if plan.switches.is_empty() {
                return Ok((among_hosts(design, wanted.settings.clone(), plan), None));
            }
            let name = |place: MapNode| self.map.name(place).to_string();
            let contending = self.contending(design, wanted, ranks, &plan, &candidate.tree);
            let planned = Planned {
                design,
                contending,
                settings: wanted.settings.clone(),
                plan,
                names: candidate.switches.iter().map(|(&node, &place)| (node, name(place))).collect(),
                links: candidate.links.iter().copied().collect(),
                conflicts: candidate.conflicts,
            };
            match self.admit(&planned, wanted) {
                Ok(()) => return Ok((planned, None)),
                Err(lack) => {
                    first_lack.get_or_insert(lack);
                }
            }
        }
        match (first_lack, first_refusal) {
            (Some(lack), _) => self.fall_back(design, wanted, ranks, lack),
            (None, Some(refusal)) => Err(refusal.into()),
            (None, None) => Err(Refusal::new("a tree", "none", "try again").into()),
        }
    }

    /// Trees for the members, by the policy; otherwise why there are none, or nothing if no switch can run the design at all.
    fn candidates(
        &self,
        design: &'static dyn AnyDesign,
        wanted: &GroupRequest,
    ) -> Result<Vec<Candidate>, Option<Fallback>> {
        let can = |node: &&NodeDescription| {
            let offers = |name: &str| node.designs.contains(name);
            node.role == Role::Switch
                && (offers(design.name()) || design.about().uses_parts_of.iter().any(|name| offers(name)))
        };
        let drains = |node: &&NodeDescription| self.nodes.drains(&node.name);
        let draining: Vec<String> =
            self.nodes.iter().filter(can).filter(drains).map(|node| node.name.clone()).collect();
        let others = of_another_version(design, self.nodes.iter().filter(can));
        let able: BTreeSet<MapNode> = self
            .nodes
            .iter()
            .filter(can)
            .filter(|node| !drains(node) && node.may_run(design))
            .filter_map(|node| self.map.find(&node.name))
            .collect();
        // Those that a group passes by, if it is for them that there is no tree.
        let passed_by = |members: &[String]| {
            let (design_name, switches) = (design.name().to_string(), draining.clone());
            if !switches.is_empty() {
                return Some(Fallback::Draining { design: design_name, members: members.to_vec(), switches });
            }
            (!others.is_empty()).then(|| other_version(design, others.clone()))
        };
        if able.is_empty() {
            return Err(passed_by(&wanted.members));
        }
        let policy = self.config.policy;
        let capacity = |&place: &MapNode| (place, self.capacity(self.map.name(place), wanted));
        let capacities: BTreeMap<MapNode, ByteCount> = able.iter().map(capacity).collect();
        let memory = |place| capacities.get(&place).copied().unwrap_or_default();
        let ground = Ground {
            map: &self.map,
            able: &|place| able.contains(&place),
            usable: &|link| policy.may_use(&self.map, link),
            memory: &memory,
        };
        let members: Vec<MapNode> = wanted.members.iter().filter_map(|name| self.map.find(name)).collect();
        let lost = match ground.levels(&members) {
            Ok(levels) => {
                let found = policy.candidates(&ground, &levels, &members);
                if !found.is_empty() {
                    return Ok(found);
                }
                members.clone()
            }
            Err(lost) => lost,
        };
        let taken = |link: &MapLink| !policy.may_use(&self.map, *link);
        let at_members: BTreeSet<GroupId> = lost
            .iter()
            .flat_map(|&member| self.map.ports(member))
            .filter(|(link, _)| taken(link))
            .flat_map(|(link, _)| self.map.trees(*link))
            .copied()
            .collect();
        let in_the_way = match at_members.is_empty() {
            false => at_members,
            // Nobody is in the way there.
            true => {
                let lost: Vec<String> =
                    lost.iter().map(|&member| self.map.name(member).to_string()).collect();
                if let Some(lack) = passed_by(&lost) {
                    return Err(Some(lack));
                }
                self.map.links().filter(taken).flat_map(|link| self.map.trees(link)).copied().collect()
            }
        };
        Err(Some(Fallback::NoTree {
            design: design.name().to_string(),
            policy: policy.name().to_string(),
            members: lost.iter().map(|&member| self.map.name(member).to_string()).collect(),
            holders: in_the_way.into_iter().map(|group| self.holder(group, "links".into())).collect(),
        }))
    }

    /// Whether the owner may have the group, and the switches have room for it.
    fn admit(&self, planned: &Planned, wanted: &GroupRequest) -> Result<(), Fallback> {
        self.admit_owner(planned, &wanted.owner)?;
        let degrees = planned.degrees();
        for part in &planned.plan.switches {
            let name = &planned.names[&part.node];
            let description = self.nodes.get(name).expect("a tree's switches are attached");
            let degree = degrees.get(&Member::Switch(part.node)).copied().unwrap_or_default();
            // Each channel is added up by itself.
            let children = degree / u32::from(planned.plan.channels);
            if let Some(most) = description.max_fan_in.filter(|&most| children > u32::from(most)) {
                let needed = u16::try_from(children).unwrap_or(u16::MAX);
                return Err(Fallback::FanIn { switch: name.clone(), needed, most });
            }
            let free = self.nodes.free_endpoints(name);
            if free < degree {
                let holders = self.holders(name, |taken| format!("{} queue pairs", taken.endpoints.len()));
                return Err(Fallback::SwitchEndpoints {
                    switch: name.clone(),
                    needed: degree,
                    free,
                    holders,
                });
            }
            if description.one_group_a_port {
                self.admit_ports(name, &planned.links)?;
            }
            self.admit_memory(name, part.memory, planned, wanted)?;
        }
        Ok(())
    }

    /// Whether the owner may hold so much of switches. What a group that is over has not given back is not counted.
    fn admit_owner(&self, planned: &Planned, owner: &str) -> Result<(), Fallback> {
        let Allowance { groups, switch_memory } = self.allowances.of(owner);
        if groups.is_none() && switch_memory.is_none() {
            return Ok(());
        }
        let of_owner = self.groups.iter().filter(|(_, entry)| entry.request.owner == owner);
        let held: Vec<GroupSummary> = of_owner
            .filter(|(_, entry)| entry.holds_something() && !entry.switches.is_empty())
            .map(|(&group, entry)| self.summary(group, entry))
            .collect();
        let memory = |group: &GroupSummary| group.switches.iter().map(|held| held.memory).sum::<ByteCount>();
        let holders =
            || held.iter().map(|group| self.holder(group.group, memory(group).to_string())).collect();
        if let Some(limit) = groups.filter(|&limit| held.len() >= limit as usize) {
            return Err(Fallback::GroupQuota { owner: owner.to_string(), limit, holders: holders() });
        }
        let own = planned.plan.switches.iter().map(|part| part.memory);
        let total: ByteCount = held.iter().map(memory).chain(own).sum();
        match switch_memory.filter(|&limit| total > limit) {
            None => Ok(()),
            Some(limit) => {
                let owner = owner.to_string();
                Err(Fallback::MemoryQuota { owner, limit, wanted: total, holders: holders() })
            }
        }
    }

    /// Whether the tree's ports at a switch serve no other group (EPIC 6.2: ingress buffers of fixed functions cannot be shared).
    fn admit_ports(&self, switch: &str, links: &[MapLink]) -> Result<(), Fallback> {
        let has =
            |link: &&MapLink| self.map.ends(**link).contains(&switch) && !self.map.has_free_link(**link);
        let Some(&link) = links.iter().find(has) else { return Ok(()) };
        let holders = self.map.trees(link).iter();
        Err(Fallback::PortTaken {
            switch: switch.to_string(),
            link: between(self.map.ends(link)),
            holders: holders.map(|&group| self.holder(group, "it".into())).collect(),
        })
    }

    fn admit_memory(
        &self,
        switch: &str,
        needed: ByteCount,
        planned: &Planned,
        wanted: &GroupRequest,
    ) -> Result<(), Fallback> {
        let memory = self.nodes.memory(switch);
        let Err(shortage) = memory.has(needed) else { return Ok(()) };
        if shortage.free >= shortage.needed && self.may_move_memory(switch) {
            return Ok(());
        }
        let shares = memory.regions().any(|(region, holders)| {
            region.length >= shortage.needed && self.may_share(planned.contending.is_some(), wanted, holders)
        });
        if shares {
            return Ok(());
        }
        Err(Fallback::SwitchMemory {
            switch: switch.to_string(),
            needed: shortage.needed,
            free: shortage.free,
            longest: shortage.longest,
            holders: self.holders(switch, |taken| match taken.region {
                Some(region) => region.length.to_string(),
                None => "none".into(),
            }),
        })
    }

    /// Whether blocks of a switch's memory may be moved together: not those that somebody may be about to lock.
    pub(super) fn may_move_memory(&self, switch: &str) -> bool {
        self.config.policy.sharing() != Sharing::Locks && self.nodes.moves_memory(switch)
    }

    /// Whether a group, which locks its memory if it `contends`, may use a block by turns with its holders: groups that lock it, or groups of one
    /// job in phases of their own, which together take no more than all of the time.
    pub(super) fn may_share(
        &self,
        contends: bool,
        wanted: &GroupRequest,
        holders: &BTreeSet<GroupId>,
    ) -> bool {
        match self.config.policy.sharing() {
            Sharing::None => return false,
            Sharing::Locks => return contends && self.all_contend(holders),
            Sharing::Phases => {}
        }
        let Some(own) = &wanted.phase else { return false };
        let mut duty = u32::from(own.duty);
        holders.iter().all(|holder| {
            let group = self.groups.get(holder).filter(|group| group.holds_something());
            let Some(other) = group.and_then(|group| group.request.phase.as_ref()) else { return false };
            duty += u32::from(other.duty);
            let owners = group.map(|group| &group.request.owner) == Some(&wanted.owner);
            owners && other.job == own.job && other.number != own.number && duty <= 100
        })
    }

    /// Who has something of a switch, those with most of its memory first.
    fn holders(&self, switch: &str, what: impl Fn(&super::nodes::Taken) -> String) -> Vec<Holder> {
        let mut all: Vec<_> = self.nodes.all_taken(switch).collect();
        all.sort_by_key(|(group, taken)| {
            (core::cmp::Reverse(taken.region.map(|region| region.length)), *group)
        });
        all.into_iter().map(|(group, taken)| self.holder(group, what(taken))).collect()
    }

    fn holder(&self, group: GroupId, what: String) -> Holder {
        let lease = self.groups.get(&group).and_then(|entry| entry.lease_left(self.now));
        Holder { group, what, lease }
    }

    /// The design to fall back to, with those parameters of the one that was asked for that it has.
    pub(super) fn fall_back(
        &self,
        asked: &'static dyn AnyDesign,
        wanted: &GroupRequest,
        ranks: u16,
        lack: Fallback,
    ) -> Result<(Planned, Option<Fallback>), InitGroupError> {
        let Some(name) = self.config.fallback else { return Err(InitGroupError::NoRoom(lack)) };
        let design = self.catalog.find(name, wanted.fabric())?;
        // Nodes speak one framing.
        if design.about().framing != asked.about().framing {
            return Err(InitGroupError::NoRoom(lack));
        }
        let members = wanted.members.iter().filter_map(|name| self.nodes.get(name));
        if !of_another_version(design, members).is_empty() {
            return Err(InitGroupError::NoRoom(lack));
        }
        let mut settings = design.defaults();
        for (key, value) in wanted.settings.flat() {
            if settings.has(&key) {
                design.set(&mut settings, &key, &value)?;
            }
        }
        let plan = design.plan(&settings, &wanted.placement(ranks, nominal(ranks)?)?)?;
        if !plan.switches.is_empty() {
            return Err(InitGroupError::NoRoom(lack));
        }
        Ok((among_hosts(design, settings, plan), Some(lack)))
    }
}

/// Those whose program has another version of a design than this manager, by name.
fn of_another_version<'a>(
    design: &dyn AnyDesign,
    nodes: impl Iterator<Item = &'a NodeDescription>,
) -> Vec<String> {
    nodes.filter(|node| !node.may_run(design)).map(|node| node.name.clone()).collect()
}

fn other_version(design: &dyn AnyDesign, nodes: Vec<String>) -> Fallback {
    Fallback::OtherVersion { design: design.name().to_string(), version: design.about().version, nodes }
}

fn among_hosts(design: &'static dyn AnyDesign, settings: Settings, plan: Plan) -> Planned {
    Planned {
        design,
        settings,
        plan,
        names: BTreeMap::new(),
        links: Vec::new(),
        conflicts: 0,
        contending: None,
    }
}

/// The tree of hosts that run among themselves: that there is a network between them.
fn nominal(ranks: u16) -> Result<IncTree, InitGroupError> {
    let shape = TreeShape::star(ranks)
        .ok_or_else(|| Refusal::new("at most 65534 ranks", ranks, "make a smaller group"))?;
    Ok(IncTree::from_shape(&shape))
}
