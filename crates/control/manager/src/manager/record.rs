//! What is kept of groups, and how a manager starts again from it.

use super::action::{Action, ManagerTimer};
use super::kept::GroupRecord;
use super::managed::{ManagedGroup, State};
use super::nodes::Taken;
use super::{Manager, ManagerConfig};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::Catalog;

impl Manager {
    /// A manager that starts again: groups are ready as they were, and their nodes have to come back with them. Their leases begin anew.
    pub fn restore(
        catalog: Catalog,
        config: ManagerConfig,
        numbers: u32,
        records: Vec<GroupRecord>,
        out: &mut Vec<Action>,
    ) -> Self {
        let mut manager = Self::new(catalog, config);
        (manager.next_group, manager.kept_numbers) = (numbers.max(1), numbers.max(1));
        for record in records {
            let contends = record.contends;
            let GroupRecord { group, request, design, fallback, nodes, switches, links, .. } = record;
            let (conflicts, recreated) = (record.conflicts, record.recreated);
            let taken = |(endpoints, region)| Taken { endpoints, region, leaves: false };
            let entry = ManagedGroup {
                request,
                design,
                fallback,
                state: State::Ready,
                nodes: nodes.keys().cloned().collect(),
                // Their nodes say so again when they come back.
                released: BTreeSet::new(),
                away: nodes.into_iter().map(|(node, held)| (node, taken(held))).collect(),
                lost: None,
                switches,
                links,
                conflicts,
                lease: None,
                recreated,
                uses: contends.then(BTreeMap::new),
            };
            let earlier = entry.recreated.iter().flat_map(|recreated| &recreated.earlier);
            manager.became.extend(earlier.map(|&earlier| (earlier, group)));
            manager.next_group = manager.next_group.max(group.0 + 1);
            manager.groups.insert(group, entry);
            out.push(Action::SetTimer { timer: ManagerTimer::Return(group), after: config.restart_timeout });
            manager.renew(group, out).expect("it is ready");
        }
        manager.check();
        manager
    }

    pub(super) fn record(&self, group: GroupId) -> GroupRecord {
        let entry = &self.groups[&group];
        let held = |node: &String| {
            let taken = self.nodes.taken(node, group).or(entry.away.get(node)).cloned().unwrap_or_default();
            (node.clone(), (taken.endpoints, taken.region))
        };
        GroupRecord {
            group,
            request: entry.request.clone(),
            design: entry.design.clone(),
            fallback: entry.fallback.clone(),
            nodes: entry.nodes.iter().map(held).collect(),
            switches: entry.switches.clone(),
            links: entry.links.clone(),
            conflicts: entry.conflicts,
            recreated: entry.recreated.clone(),
            contends: entry.uses.is_some(),
        }
    }
}
