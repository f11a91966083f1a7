//! The data of a trial, and what must come of it: one collective, or a Dispatch and the Combine behind it.

use quincunx_cluster::{Cluster, Ports};
use quincunx_collective::{
    Collective, Fold, GroupId, Numbers, Payload, Provenance, Rank, Routes, noise, reduce_in_tree, reference,
    reference_combine, reference_dispatch,
};
use quincunx_design::{PayloadKind, Refusal};
use quincunx_engine::Terms;
use quincunx_fabric::{IncTree, TreeNodeId, TreeRole};
use quincunx_nodes::{HostCommand, NodeCommand};

use crate::Trial;
use crate::trial::TOKENS;

/// The group that clusters are set up with.
const GROUP: GroupId = GroupId(1);

/// A kind of payload that trials have data of.
pub(crate) trait Data: PayloadKind {
    /// What a rank brings in: so many bytes, no two elements of which are alike as far as the kind can tell them apart.
    fn sample(trial: &Trial, rank: Rank, length: usize) -> Self;
}

impl Data for Numbers {
    fn sample(trial: &Trial, rank: Rank, length: usize) -> Self {
        noise(trial.seed << 16 | u64::from(rank.0), length, trial.reduction.data_type)
    }
}

impl Data for Provenance {
    fn sample(_: &Trial, rank: Rank, length: usize) -> Self {
        Self::of_rank(rank, length)
    }
}

/// A collective with its data.
pub(crate) struct Step<P> {
    pub(crate) collective: Collective,
    /// By rank: whom tokens are for, if that is to be said before.
    pub(crate) routes: Vec<Routes>,
    /// By rank.
    pub(crate) inputs: Vec<P>,
    /// By rank.
    pub(crate) expected: Vec<P>,
}

impl<P: Payload> Step<P> {
    /// What a rank is asked for.
    pub(crate) fn commands(&self, trial: &Trial, rank: Rank) -> Vec<NodeCommand<P>> {
        let route = |routes: &Routes| HostCommand::Route { group: GROUP, routes: routes.clone() };
        let start = HostCommand::Start {
            group: GROUP,
            collective: self.collective,
            reduction: trial.reduction,
            input: self.inputs[rank.index()].clone(),
            output: P::zeroed(self.expected[rank.index()].length()),
            terms: Terms::WHOLE,
        };
        let route = self.routes.get(rank.index()).map(route);
        route.into_iter().chain([start]).map(NodeCommand::Host).collect()
    }
}

/// What is run one after the other.
pub(crate) fn steps<P: Data>(trial: &Trial) -> Vec<Step<P>> {
    let ranks = || (0..trial.scenario.ranks()).map(Rank);
    let collective = trial.collective;
    if !collective.is_routed() {
        let inputs: Vec<P> = ranks().map(|rank| input(trial, rank)).collect();
        let expected = expected(trial, &inputs);
        return vec![Step { collective, routes: Vec::new(), inputs, expected }];
    }
    let token = trial.token();
    let routes = Routes::with_incoming(ranks().map(|rank| trial.routes(rank).collect()).collect());
    let inputs: Vec<P> = ranks().map(|rank| P::sample(trial, rank, TOKENS * token)).collect();
    let places: Vec<P> =
        ranks().map(|rank| reference_dispatch(&routes, &inputs, rank, TOKENS, token)).collect();
    let combine = (collective == Collective::Combine).then(|| {
        // What ranks make of tokens: nothing. Each gets its own back, as often as it has sent it.
        let sum = |rank: Rank| {
            reference_combine(&routes[rank.index()], &places, rank, TOKENS, token, trial.reduction)
        };
        let expected = ranks().map(sum).collect();
        Step { collective, routes: Vec::new(), inputs: places.clone(), expected }
    });
    let dispatch =
        Step { collective: Collective::Dispatch, routes: routes.clone(), inputs, expected: places.clone() };
    [dispatch].into_iter().chain(combine).collect()
}

fn input<P: Data>(trial: &Trial, rank: Rank) -> P {
    let length = match trial.collective {
        Collective::Barrier => 0,
        Collective::ReduceScatter => trial.length * usize::from(trial.scenario.ranks()),
        _ => trial.length,
    };
    P::sample(trial, rank, length)
}

/// Each rank's right result, of those that gather together. If the order of ranks matters it is that of the fabric, where the design has
/// one, or that of the ranks.
fn expected<P: Payload>(trial: &Trial, inputs: &[P]) -> Vec<P> {
    let (collective, reduction) = (trial.collective, trial.reduction);
    let tree = trial.tree().filter(|_| trial.is_reproducible());
    let Some(tree) = tree else {
        let domains = inputs.chunks(trial.members());
        return domains.flat_map(|inputs| reference(collective, reduction, inputs)).collect();
    };
    let ranks = || 0..inputs.len();
    let at = |rank: usize| reduce_in_tree(&at_rank(&tree, Rank(rank as u16)), reduction, inputs);
    match collective {
        Collective::AllReduce => {
            let whole = reduce_in_tree(&from_edges(&tree, tree.root(), None), reduction, inputs);
            vec![whole; inputs.len()]
        }
        Collective::Reduce { root } => {
            ranks().map(|rank| if rank == root.index() { at(rank) } else { P::zeroed(0) }).collect()
        }
        // A Reduce for each rank.
        Collective::ReduceScatter => {
            let part = trial.length;
            ranks().map(|rank| P::from_view(at(rank).view(rank * part..(rank + 1) * part))).collect()
        }
        _ => reference(collective, reduction, inputs),
    }
}

/// The order in which all is combined on the way to a rank, which adds its own.
fn at_rank(tree: &IncTree, rank: Rank) -> Fold {
    let switch = tree.across(tree.leaf(rank), 0);
    Fold::Node(vec![from_edges(tree, switch.node, Some(switch.index)), Fold::Rank(rank)])
}

/// The order in which a switch combines what comes over its edges, but for the one over which the sum leaves.
fn from_edges(tree: &IncTree, node: TreeNodeId, out: Option<u16>) -> Fold {
    if let TreeRole::Rank(rank) = tree.node(node).role() {
        return Fold::Rank(rank);
    }
    let edges = (0..tree.node(node).edges().len() as u16).filter(|edge| Some(*edge) != out);
    let across = |edge| {
        let far = tree.across(node, edge);
        from_edges(tree, far.node, Some(far.index))
    };
    Fold::Node(edges.map(across).collect())
}

/// By node: what sets it up.
pub(crate) fn set_up<P: PayloadKind>(
    cluster: &Cluster,
    ports: Ports,
) -> Result<Vec<Vec<NodeCommand<P>>>, Refusal> {
    (0..cluster.wiring().nodes().len()).map(|node| cluster.commands(node, ports, None)).collect()
}
