//! Which names mean which meshes, and who is where in one.

use quincunx_fabric::{MeshShape, Shape};

fn mesh(name: &str) -> MeshShape {
    name.parse().unwrap()
}

#[test]
fn a_mesh_is_domains_by_members() {
    let mesh = mesh("mesh-2x4");
    assert_eq!((mesh.domains(), mesh.members(), mesh.ranks()), (2, 4, 8));
    assert_eq!(mesh.to_string(), "mesh-2x4");
    assert_eq!((mesh.domain(0), mesh.domain(3), mesh.domain(4)), (0..4, 0..4, 4..8));
}

#[test]
fn what_is_no_mesh_is_refused_in_one_line() {
    for (name, says) in [
        (
            "mesh-8",
            "expected a mesh such as mesh-2x4: domains by ranks of each, two of them at least, found \"mesh-8\"",
        ),
        (
            "mesh-8x1",
            "expected a mesh such as mesh-2x4: domains by ranks of each, two of them at least, found \"mesh-8x1\"",
        ),
        (
            "mesh-0x4",
            "expected a mesh such as mesh-2x4: domains by ranks of each, two of them at least, found \"mesh-0x4\"",
        ),
        (
            "mesh-300x300",
            "expected a mesh such as mesh-2x4: domains by ranks of each, two of them at least, found \"mesh-300x300\"",
        ),
        (
            "mesh-3x2",
            "expected 8 ranks, found the mesh mesh-3x2 with 6; choose another mesh or number of ranks",
        ),
        (
            "leaf-spine-2x2x2",
            "expected 8 ranks, found the fabric leaf-spine-2x2x2 with 4; choose another fabric or number of ranks",
        ),
        (
            "tree-3-2",
            "expected 8 ranks, found the tree tree-2x2 with 4; choose another tree or number of ranks",
        ),
    ] {
        assert_eq!(Shape::for_ranks(name, 8).unwrap_err().to_string(), says);
    }
}

#[test]
fn a_shape_is_a_tree_a_mesh_or_has_several_ways() {
    let shape = Shape::for_ranks("leaf-spine-2x3x4", 8).unwrap();
    assert_eq!((shape.ranks(), shape.switches(), shape.to_string()), (8, 5, "leaf-spine-2x3x4".into()));
    let shape = Shape::for_ranks("mesh-2x4", 8).unwrap();
    assert_eq!((shape.ranks(), shape.switches(), shape.to_string()), (8, 0, "mesh-2x4".into()));
    let shape = Shape::for_ranks("star", 8).unwrap();
    assert_eq!((shape.ranks(), shape.switches(), shape.to_string()), (8, 1, "star-8".into()));
}
