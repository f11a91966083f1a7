//! What a group that contends for switches' memory has beside its tree, and what its members are told of that.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use quincunx_collective::Rank;
use quincunx_design::{
    AnyDesign, ConnectionContext, Contention, GroupContext, Member, Naming, Peer, Plan, Settings,
};
use quincunx_fabric::{IncTree, TreeEnd, TreeNodeId, TreeRole};
use quincunx_units::Duration;
use quincunx_wire::Endpoint;

/// What a group that contends has beside its tree.
pub(super) struct Contending {
    /// What it runs among its hosts.
    pub(super) design: &'static dyn AnyDesign,
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    /// Its locks are asked for up this tree.
    pub(super) tree: IncTree,
    /// How long it asks for them.
    pub(super) patience: Duration,
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
                patience: self.patience,
            };
            (member, Box::new(contention))
        };
        edges.into_iter().map(told).collect()
    }
}

/// The rank's or the switch's name of a member, for `endpoint` of [`Contending::contexts`].
pub(super) fn name_of(member: Member, members: &[String], names: &BTreeMap<TreeNodeId, String>) -> String {
    match member {
        Member::Rank(Rank(rank)) => members[usize::from(rank)].clone(),
        Member::Switch(node) => names[&node].clone(),
    }
}
