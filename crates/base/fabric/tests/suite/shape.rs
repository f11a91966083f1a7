//! Which names mean which trees.

use proptest::prelude::*;
use quincunx_fabric::{IncTree, ShapeError, TreeShape};

fn shape(name: &str) -> TreeShape {
    name.parse().unwrap()
}

#[test]
fn a_star_has_one_switch() {
    let star = shape("star-8");
    assert_eq!((star.ranks(), star.switches(), star.depth()), (8, 1, 2));
}

#[test]
fn the_papers_notation_counts_levels_and_branches() {
    assert_eq!(shape("tree-2-4"), shape("star-4"));
    let tree = shape("tree-3-2");
    assert_eq!(tree.branches(), [2, 2]);
    assert_eq!((tree.ranks(), tree.switches(), tree.depth()), (4, 3, 3));
}

#[test]
fn branches_can_be_given_level_by_level() {
    let tree = shape("tree-2x4");
    assert_eq!((tree.ranks(), tree.switches(), tree.depth()), (8, 3, 3));
    assert_eq!(shape("tree-2x2x3").switches(), 7);
}

#[test]
fn a_bare_star_takes_its_size_from_the_group() {
    assert_eq!(TreeShape::for_ranks("star", 8), Ok(shape("star-8")));
    assert_eq!("star".parse::<TreeShape>(), Err(ShapeError::NoRanks));
}

#[test]
fn a_tree_of_another_size_than_the_group_is_refused() {
    let error = TreeShape::for_ranks("tree-3-2", 8).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected 8 ranks, found the tree tree-2x2 with 4; choose another tree or number of ranks"
    );
}

#[test]
fn what_names_no_tree_is_refused_on_one_line() {
    for name in
        ["", "tree", "tree-", "tree-1-4", "tree-0x4", "star-0", "star-", "tree-3-2-1", "ring-8", "tree-2x"]
    {
        let error = name.parse::<TreeShape>().unwrap_err();
        assert_eq!(error, ShapeError::Unknown { found: name.into() });
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn more_nodes_than_node_numbers_are_refused() {
    for name in ["star-65535", "star-65536", "tree-65535-2", "tree-300x300", "tree-2-99999999999999999999"] {
        assert_eq!(name.parse::<TreeShape>(), Err(ShapeError::TooLarge { found: name.into() }));
    }
}

#[test]
fn the_largest_trees_can_be_laid_out() {
    assert_eq!(IncTree::from_shape(&shape("star-65534")).ranks(), 65534);
    assert_eq!(IncTree::from_shape(&shape("tree-65535-1")).depth(), 65535);
}

proptest! {
    #[test]
    fn every_shape_reads_back_as_printed(branches in prop::collection::vec(1u16..6, 1..6)) {
        let name = format!("tree-{}", branches.iter().map(u16::to_string).collect::<Vec<_>>().join("x"));
        let tree = shape(&name);
        prop_assert_eq!(tree.branches(), &branches[..]);
        prop_assert_eq!(shape(&tree.to_string()), tree);
    }

    #[test]
    fn no_name_makes_the_parser_panic(name in "(star|tree)?-?[0-9x-]{0,12}") {
        let _ = name.parse::<TreeShape>();
    }
}
