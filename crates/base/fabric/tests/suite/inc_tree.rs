//! The IncTree: its edges, its ways, and what is refused.

use proptest::prelude::*;
use quincunx_collective::Rank;
use quincunx_fabric::{IncTree, TreeError, TreeNodeId, TreeRole, TreeShape};

const SWITCH: TreeRole = TreeRole::Switch;

fn rank(rank: u16) -> TreeRole {
    TreeRole::Rank(Rank(rank))
}

fn under(parent: u16) -> Option<TreeNodeId> {
    Some(TreeNodeId(parent))
}

fn shaped(name: &str) -> IncTree {
    IncTree::from_shape(&name.parse::<TreeShape>().unwrap())
}

#[test]
fn three_switches_and_eight_ranks_are_a_root_and_two_leaf_switches() {
    let tree = shaped("tree-2x4");
    assert_eq!(tree.switches(), [0, 1, 2].map(TreeNodeId));
    assert_eq!((tree.ranks(), tree.depth(), tree.edges().len()), (8, 3, 10));
    let leaf_switch = tree.across(tree.leaf(Rank(5)), 0).node;
    assert_eq!(leaf_switch, TreeNodeId(2));
    assert_eq!(tree.across(leaf_switch, tree.node(leaf_switch).parent_index().unwrap()).node, tree.root());
}

#[test]
fn a_switch_numbers_its_children_first_and_its_parent_last() {
    let tree = shaped("tree-3-2");
    let leaf_switch = tree.node(TreeNodeId(1));
    assert_eq!(leaf_switch.child_edges().len(), 2);
    assert_eq!(leaf_switch.parent_index(), Some(2));
    assert_eq!(tree.node(tree.root()).parent_edge(), None);
}

#[test]
fn ways_lead_down_to_own_ranks_and_up_to_others() {
    let tree = shaped("tree-3-2");
    let ways = |node| [0, 1, 2, 3].map(|rank| tree.node(TreeNodeId(node)).toward(Rank(rank)));
    assert_eq!(ways(0), [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!(ways(1), [Some(0), Some(1), Some(2), Some(2)]);
    assert_eq!(ways(2), [Some(2), Some(2), Some(0), Some(1)]);
    let own = tree.leaf(Rank(3));
    assert_eq!(tree.node(own).toward(Rank(3)), None);
    assert_eq!(tree.node(own).toward(Rank(0)), Some(0));
}

#[test]
fn depth_and_fan_in_may_differ_from_branch_to_branch() {
    let tree = IncTree::new(&[
        (SWITCH, None),
        (rank(0), under(0)),
        (SWITCH, under(0)),
        (rank(2), under(2)),
        (rank(1), under(2)),
        (rank(3), under(2)),
    ])
    .unwrap();
    assert_eq!(tree.depth(), 3);
    assert_eq!(
        tree.node(TreeNodeId(2)).toward(Rank(1)),
        Some(1),
        "children keep the order they were given in"
    );
}

#[test]
fn a_tree_has_exactly_one_root_and_it_is_a_switch() {
    assert_eq!(IncTree::new(&[]), Err(TreeError::Roots { found: 0 }));
    assert_eq!(IncTree::new(&[(SWITCH, None), (SWITCH, None)]), Err(TreeError::Roots { found: 2 }));
    assert_eq!(IncTree::new(&[(rank(0), None)]), Err(TreeError::RootIsRank { rank: 0 }));
}

#[test]
fn only_switches_of_the_tree_have_children() {
    let under_rank = IncTree::new(&[(SWITCH, None), (rank(0), under(0)), (rank(1), under(1))]);
    assert_eq!(
        under_rank.unwrap_err().to_string(),
        "expected a switch as parent of node 2, found node 1, which is a rank"
    );
    let under_nobody = IncTree::new(&[(SWITCH, None), (rank(0), under(9))]);
    assert_eq!(under_nobody, Err(TreeError::Parent { node: 1, parent: 9, what: "not in the tree" }));
}

#[test]
fn a_switch_without_children_is_refused() {
    let tree = IncTree::new(&[(SWITCH, None), (rank(0), under(0)), (SWITCH, under(0))]);
    assert_eq!(tree, Err(TreeError::Childless { node: 2 }));
}

#[test]
fn a_cycle_is_refused() {
    let tree = IncTree::new(&[
        (SWITCH, None),
        (rank(0), under(0)),
        (SWITCH, under(3)),
        (SWITCH, under(2)),
        (rank(1), under(3)),
    ]);
    assert_eq!(tree, Err(TreeError::Cycle { node: 2 }));
}

#[test]
fn ranks_count_from_zero_without_gap_or_double() {
    let double = IncTree::new(&[(SWITCH, None), (rank(0), under(0)), (rank(0), under(0))]);
    assert_eq!(double, Err(TreeError::Ranks { last: 1, problem: "a second", rank: 0 }));
    let gap = IncTree::new(&[(SWITCH, None), (rank(0), under(0)), (rank(2), under(0))]);
    assert_eq!(gap, Err(TreeError::Ranks { last: 1, problem: "no", rank: 1 }));
}

/// Any tree: each node hangs on an earlier switch; switches that end up childless get a rank.
fn any_tree() -> impl Strategy<Value = IncTree> {
    prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..24).prop_map(|choices| {
        let mut nodes = vec![(SWITCH, None)];
        let mut switches = vec![0u16];
        let mut ranks = 0;
        let mut add_rank = |nodes: &mut Vec<_>, parent| {
            nodes.push((rank(ranks), under(parent)));
            ranks += 1;
        };
        for (is_switch, parent) in choices {
            let parent = *parent.get(&switches);
            if is_switch {
                switches.push(nodes.len() as u16);
                nodes.push((SWITCH, under(parent)));
            } else {
                add_rank(&mut nodes, parent);
            }
        }
        for &switch in &switches {
            if !nodes.iter().any(|(_, parent)| *parent == under(switch)) {
                add_rank(&mut nodes, switch);
            }
        }
        IncTree::new(&nodes).unwrap()
    })
}

proptest! {
    #[test]
    fn following_the_ways_ends_at_the_rank_within_the_depth(tree in any_tree()) {
        for (start, _) in tree.nodes() {
            for target in (0..tree.ranks()).map(Rank) {
                let (mut node, mut steps) = (start, 0);
                while let Some(index) = tree.node(node).toward(target) {
                    node = tree.across(node, index).node;
                    steps += 1;
                    prop_assert!(steps <= 2 * (tree.depth() - 1), "from {start:?} to {target:?}");
                }
                prop_assert_eq!(node, tree.leaf(target));
            }
        }
    }

    #[test]
    fn crossing_an_edge_twice_comes_back(tree in any_tree()) {
        for (node, it) in tree.nodes() {
            for index in 0..it.edges().len() as u16 {
                let far = tree.across(node, index);
                let back = tree.across(far.node, far.index);
                prop_assert_eq!((back.node, back.index), (node, index));
            }
        }
    }

    #[test]
    fn parents_come_before_their_children_among_the_switches(tree in any_tree()) {
        let order = tree.switches();
        let place = |node| order.iter().position(|&other| other == node);
        for (node, it) in tree.nodes().filter(|(_, it)| it.role() == SWITCH) {
            let parent = it.parent_edge().map(|edge| tree.edge(edge).parent.node);
            prop_assert!(place(node).is_some());
            prop_assert!(parent.is_none_or(|parent| place(parent) < place(node)));
        }
    }
}
