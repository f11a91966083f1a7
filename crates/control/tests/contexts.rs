//! The contexts of one group fit together, whatever its tree.

use proptest::prelude::*;
use quincunx_collective::{GroupId, Rank};
use quincunx_control::{
    Design, GroupParameters, HostDesign, Peer, RankContext, Retry, SwitchContext, host_contexts,
    tree_contexts,
};
use quincunx_fabric::{IncTree, Mode, TreeNodeId, TreeRole};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Endpoint, Psn, QpNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

fn parameters(ranks: u16) -> GroupParameters {
    GroupParameters {
        group: GroupId(7),
        ranks,
        mtu: ByteCount::new(1024),
        message_packets: 2,
        window_messages: 4,
        reproducible: false,
        initial_psn: Psn::new(0xff_fff0),
        retry: Retry { timeout: Duration::from_millis(20), count: 7 },
    }
}

/// Hands out queue pairs, counting up at each address.
#[derive(Default)]
struct Endpoints(BTreeMap<Ipv4Addr, u32>);

impl Endpoints {
    fn next(&mut self, node: u16) -> Endpoint {
        let [high, low] = node.to_be_bytes();
        let ip = Ipv4Addr::new(127, 1, high, low);
        let qp = self.0.entry(ip).or_insert(16);
        *qp += 1;
        Endpoint { ip, qp: QpNumber::new(*qp) }
    }
}

/// One end of an edge as a node's context has it.
struct End {
    owner: String,
    local: Endpoint,
    remote: Endpoint,
    peer: String,
}

fn ends(switches: &[(String, SwitchContext)], ranks: &[RankContext]) -> Vec<End> {
    let of_switch = |(name, context): &(String, SwitchContext)| {
        let end = |edge: &quincunx_control::EdgeContext| End {
            owner: format!("switch {name}"),
            local: edge.local,
            remote: edge.remote,
            peer: edge.peer.to_string(),
        };
        context.edges.iter().map(end).collect::<Vec<_>>()
    };
    let of_rank = |context: &RankContext| {
        let end = |pair: &quincunx_control::QueuePairContext| End {
            owner: Peer::Rank(context.rank).to_string(),
            local: pair.local,
            remote: pair.remote,
            peer: pair.peer.to_string(),
        };
        context.queue_pairs.iter().map(end).collect::<Vec<_>>()
    };
    switches.iter().flat_map(of_switch).chain(ranks.iter().flat_map(of_rank)).collect()
}

/// The remote of my remote is me, by endpoint and by name; no endpoint is used twice; one address a node.
fn check_ends(ends: &[End]) -> Result<(), TestCaseError> {
    let by_local: BTreeMap<Endpoint, &End> = ends.iter().map(|end| (end.local, end)).collect();
    prop_assert_eq!(by_local.len(), ends.len(), "an endpoint is used twice");
    for end in ends {
        let far = by_local.get(&end.remote);
        prop_assert!(far.is_some_and(|far| far.remote == end.local), "{} talks into the void", end.owner);
        let far = far.unwrap();
        prop_assert_eq!((&far.owner, &far.peer), (&end.peer, &end.owner));
    }
    let addresses: BTreeSet<_> = ends.iter().map(|end| (&end.owner, end.local.ip)).collect();
    let owners: BTreeSet<_> = ends.iter().map(|end| &end.owner).collect();
    prop_assert_eq!(addresses.len(), owners.len(), "a node has two addresses");
    Ok(())
}

/// Any tree: each node hangs on an earlier switch; switches that end up childless get a rank.
fn any_tree() -> impl Strategy<Value = IncTree> {
    prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..16).prop_map(|choices| {
        let mut nodes = vec![(TreeRole::Switch, None)];
        let mut switches = vec![0u16];
        for (is_switch, parent) in choices {
            let parent = Some(TreeNodeId(*parent.get(&switches)));
            if is_switch {
                switches.push(nodes.len() as u16);
            }
            let role = if is_switch { TreeRole::Switch } else { TreeRole::Rank(Rank(0)) };
            nodes.push((role, parent));
        }
        for &switch in &switches {
            if !nodes.iter().any(|(_, parent)| *parent == Some(TreeNodeId(switch))) {
                nodes.push((TreeRole::Rank(Rank(0)), Some(TreeNodeId(switch))));
            }
        }
        let mut next = 0;
        for (role, _) in &mut nodes {
            if let TreeRole::Rank(rank) = role {
                *rank = Rank(next);
                next += 1;
            }
        }
        IncTree::new(&nodes).unwrap()
    })
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::I, Mode::II, Mode::III])
}

fn on_tree(tree: &IncTree, mode: Mode) -> (Vec<(String, SwitchContext)>, Vec<RankContext>) {
    let names: BTreeMap<_, _> = tree.switches().into_iter().map(|id| (id, format!("s{}", id.0))).collect();
    let mut endpoints = Endpoints::default();
    let contexts =
        tree_contexts(tree, mode, &parameters(tree.ranks()), &names, |end| endpoints.next(end.node.0));
    let switches = contexts.switches.into_iter().map(|(id, context)| (names[&id].clone(), context)).collect();
    (switches, contexts.ranks)
}

proptest! {
    #[test]
    fn the_ends_of_a_tree_meet(tree in any_tree(), mode in any_mode()) {
        let (switches, ranks) = on_tree(&tree, mode);
        check_ends(&ends(&switches, &ranks))?;
        prop_assert!(ranks.iter().all(|rank| rank.queue_pairs.len() == 1));
    }

    #[test]
    fn toward_a_rank_every_switch_leads_closer(tree in any_tree()) {
        let (switches, _) = on_tree(&tree, Mode::III);
        let switches: BTreeMap<_, _> = switches.into_iter().collect();
        for start in switches.keys() {
            for target in 0..tree.ranks() {
                let mut at = Peer::Switch(start.clone());
                let mut visited = BTreeSet::new();
                while let Peer::Switch(name) = &at {
                    prop_assert!(visited.insert(name.clone()), "round in circles at {name}");
                    let context = &switches[name];
                    at = context.edges[usize::from(context.toward[usize::from(target)])].peer.clone();
                }
                prop_assert_eq!(at, Peer::Rank(Rank(target)));
            }
        }
    }

    #[test]
    fn the_parents_edge_is_the_last_and_only_the_root_has_none(tree in any_tree()) {
        let (switches, _) = on_tree(&tree, Mode::II);
        for (number, (_, context)) in switches.iter().enumerate() {
            prop_assert_eq!(context.parent.is_none(), number == 0);
            if let Some(parent) = context.parent {
                prop_assert_eq!(usize::from(parent), context.edges.len() - 1);
                prop_assert_eq!(context.children(), parent);
            }
        }
    }

    #[test]
    fn every_flow_starts_with_the_groups_psn(tree in any_tree(), mode in any_mode()) {
        let (switches, ranks) = on_tree(&tree, mode);
        let initial = parameters(0).initial_psn;
        for pair in ranks.iter().flat_map(|rank| &rank.queue_pairs) {
            prop_assert_eq!((pair.send_psn, pair.receive_psn), (initial, initial));
        }
        prop_assert!(switches.iter().all(|(_, context)| context.parameters.initial_psn == initial));
    }

    #[test]
    fn the_ends_among_hosts_meet(ranks in 1u16..20, which in 0usize..3) {
        let design = [HostDesign::Ring, HostDesign::Tree, HostDesign::Direct][which];
        let mut endpoints = Endpoints::default();
        let contexts = host_contexts(design, &parameters(ranks), |rank| endpoints.next(rank.0));
        check_ends(&ends(&[], &contexts))?;
        let others = usize::from(ranks) - 1;
        let expected = if design == HostDesign::Ring { others.min(2) } else { others };
        for context in &contexts {
            prop_assert_eq!(context.queue_pairs.len(), expected);
            prop_assert_eq!(context.design, Design::Host(design));
        }
    }
}

fn peers(design: HostDesign, ranks: u16) -> Vec<Vec<u16>> {
    let mut endpoints = Endpoints::default();
    let contexts = host_contexts(design, &parameters(ranks), |rank| endpoints.next(rank.0));
    let rank_of = |pair: &quincunx_control::QueuePairContext| match &pair.peer {
        Peer::Rank(rank) => rank.0,
        Peer::Switch(name) => panic!("a switch {name} among hosts"),
    };
    contexts.iter().map(|context| context.queue_pairs.iter().map(rank_of).collect()).collect()
}

#[test]
fn a_ring_goes_to_the_next_rank_first_and_then_to_the_previous() {
    assert_eq!(peers(HostDesign::Ring, 4), [[1, 3], [2, 0], [3, 1], [0, 2]]);
    assert_eq!(peers(HostDesign::Ring, 2), [[1], [0]]);
    assert_eq!(peers(HostDesign::Ring, 1), [[0; 0]]);
}

#[test]
fn direct_and_tree_go_to_all_others_in_rank_order() {
    assert_eq!(peers(HostDesign::Direct, 3), [[1, 2], [0, 2], [0, 1]]);
    assert_eq!(peers(HostDesign::Tree, 3), [[1, 2], [0, 2], [0, 1]]);
}
