//! Groups of some of a fabric's hosts, as the manager makes them: its own code finds their trees, gives switches' memory away, and has a
//! group run among its hosts where there is none. Each tree then keeps to the links that it was given, and of several cables side by
//! side to one.

use crate::cluster::Installed;
use crate::embedding::descriptions;
use crate::{Cluster, NodeIndex, Wiring, address};
use quincunx_collective::{GroupId, Rank};
use quincunx_control::map::MapLink;
use quincunx_control::policy::{self, Policy};
use quincunx_control::{
    Action, GroupRequest, InitGroupError, Instruction, Manager, ManagerConfig, Report, RequestId,
};
use quincunx_design::{AnyDesign, Catalog, Demand, GroupContext, Refusal, Settings};
use quincunx_units::{ByteCount, Duration};
use std::collections::{BTreeMap, BTreeSet};

/// A manager's set-up.
#[derive(Clone, Copy, Debug)]
pub struct ManagedSetup<'a> {
    /// The designs that there are, which all switches can run.
    pub catalog: Catalog,
    /// Which trees groups get, by the policy's name; [`edge-disjoint`](Self::POLICY) unless somebody says otherwise.
    pub policy: &'a str,
    /// How long groups ask for locks that are not free, if that policy has them.
    pub patience: Duration,
    /// What each switch has for buffers of groups.
    pub memory: ByteCount,
    /// What groups run for which there is no tree or no memory, by name; nothing: they are refused.
    pub fallback: Option<&'static str>,
}

impl ManagedSetup<'_> {
    /// A tree for each group that shares no link with another.
    pub const POLICY: &'static str = "edge-disjoint";

    /// What a switch has where nobody says it: as much as the process that is one.
    pub const MEMORY: ByteCount = ByteCount::new(64 << 20);

    /// The policy of its name.
    fn policy(&self) -> Result<&'static dyn Policy, Refusal> {
        policy::find(self.policy).ok_or_else(|| {
            let names: Vec<_> = policy::ALL.iter().copied().map(Policy::name).collect();
            let expected = format!("one of the policies {}", names.join(", "));
            Refusal::new(expected, format!("\"{}\"", self.policy), "name one of them")
        })
    }
}

/// A group as it was made.
#[derive(Clone, Debug)]
pub struct MadeGroup {
    /// Its number.
    pub group: GroupId,
    /// What it runs.
    pub design: &'static dyn AnyDesign,
    /// Why that is not what was asked for, if it is not.
    pub fell_back: Option<String>,
    /// The switches of its tree by name, from the root down.
    pub switches: Vec<String>,
}

/// A fabric whose groups a manager makes.
pub struct ManagedCluster {
    cluster: Cluster,
    manager: Manager,
    catalog: Catalog,
    /// By link: trees that keep to it.
    trees: Vec<u32>,
    requests: u64,
}

impl ManagedCluster {
    /// All nodes of a wiring, attached to a manager that knows their links.
    ///
    /// # Errors
    /// If there is no such policy.
    pub fn new(wiring: Wiring, setup: &ManagedSetup<'_>) -> Result<Self, Refusal> {
        let ManagedSetup { catalog, patience, memory, fallback, .. } = *setup;
        let policy = setup.policy()?;
        let config = ManagerConfig { policy, patience, fallback, ..ManagerConfig::default() };
        config.check()?;
        let mut manager = Manager::new(catalog, config);
        let designs: BTreeSet<String> =
            catalog.above_queue_pairs().map(|design| design.name().to_owned()).collect();
        for node in descriptions(&wiring, &address, &designs, memory) {
            manager.attach(node, &[], &mut Vec::new()).expect("names and addresses of nodes differ");
        }
        let trees = vec![0; wiring.links().len()];
        Ok(Self { cluster: Cluster::bare(wiring, address), manager, catalog, trees, requests: 0 })
    }

    /// Makes a group of the hosts of these numbers, in rank order. What it runs may be another design than the one that was asked for:
    /// then it says why.
    ///
    /// # Errors
    /// If the manager refuses it, or its frames are of another kind than those of earlier groups.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn add(
        &mut self,
        hosts: &[u16],
        design: &'static dyn AnyDesign,
        settings: Settings,
        demand: Demand,
    ) -> Result<MadeGroup, InitGroupError> {
        let wiring = self.cluster.wiring();
        let hosts: Vec<NodeIndex> = hosts.iter().map(|&host| wiring.host(Rank(host))).collect();
        let members = hosts.iter().map(|&host| wiring.nodes()[host].name.clone()).collect();
        if let Some(first) =
            self.cluster.design().filter(|first| first.about().framing != design.about().framing)
        {
            let expected = format!("designs with frames of one kind, as {} has them", first.name());
            return Err(Refusal::new(expected, design.name(), "run them apart").into());
        }
        let wanted =
            GroupRequest { settings, demand, ..GroupRequest::new(members, design, ByteCount::new(0)) };
        self.requests += 1;
        let mut actions = Vec::new();
        self.manager.init_group(RequestId(self.requests), &wanted, &mut actions);
        let mut contexts = BTreeMap::new();
        let mut group = None;
        for action in actions {
            match action {
                Action::Begin { group: begun, .. } => group = Some(begun),
                Action::Answer { answer, .. } => {
                    answer?;
                }
                Action::Instruct { node, instruction: Instruction::Install(context) } => {
                    let node =
                        self.cluster.wiring().find(&node).expect("the manager knows these nodes alone");
                    contexts.insert(node, *context);
                }
                _ => {}
            }
        }
        let group = group.expect("a group begins, or is refused");
        for &node in contexts.keys() {
            let name = &self.cluster.wiring().nodes()[node].name;
            let heard = self.manager.handle_report(name, group, Report::Installed, &mut Vec::new());
            heard.expect("the node is attached, and in the group");
        }
        let summary = self.manager.group(group).expect("it has just begun");
        let runs = self.catalog.find(&summary.design, wanted.fabric())?;
        let links = self.keep_links(group);
        // At a switch there is none.
        let among_hosts =
            |context: &'_ GroupContext| context.contention.as_ref().and_then(|with| with.fallback.clone());
        let fallback = contexts
            .values()
            .find_map(among_hosts)
            .map(|context| self.catalog.find(&context.design, context.fabric));
        let mut installed = Installed::new(runs, hosts, contexts, links);
        installed.fallback = fallback.transpose()?;
        self.cluster.install(installed)?;
        Ok(MadeGroup {
            group,
            design: runs,
            fell_back: summary.fallback.map(|reason| reason.to_string()),
            switches: summary.switches.into_iter().map(|held| held.node).collect(),
        })
    }

    /// Gives a group's tree a link of its own for each pair of nodes that it crosses, as far as there are any: the one with the fewest
    /// trees.
    fn keep_links(&mut self, group: GroupId) -> BTreeSet<usize> {
        let map = self.manager.map();
        let wiring = self.cluster.wiring();
        let index = |name: &str| wiring.find(name).expect("the map has these nodes alone");
        let pair = |link: MapLink| map.ends(link).map(index);
        let crossed = map.links().filter(|&link| map.trees(link).contains(&group));
        let fewest = |link| {
            let cables = wiring.between(pair(link));
            cables.min_by_key(|&cable| (self.trees[cable], cable)).expect("the map's links are there")
        };
        let links: BTreeSet<usize> = crossed.map(fewest).collect();
        links.iter().for_each(|&link| self.trees[link] += 1);
        links
    }

    /// The fabric with all groups.
    pub fn into_cluster(self) -> Cluster {
        self.cluster
    }
}
