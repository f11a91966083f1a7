//! What the catalog holds: names are told apart where they would be mixed up, and every name is found.

use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::{CATALOG, FALLBACK};

const KINDS: [FabricKind; 6] = [
    FabricKind::Tree,
    FabricKind::Ring,
    FabricKind::Mesh,
    FabricKind::Servers,
    FabricKind::Memory,
    FabricKind::MemoryMesh,
];

#[test]
fn every_design_is_found_by_its_name_where_it_runs() {
    for kind in KINDS {
        for design in CATALOG.on(kind) {
            assert_eq!(CATALOG.find(design.name(), kind).map(AnyDesign::summary), Ok(design.summary()));
        }
    }
    for design in CATALOG.memory() {
        let found = CATALOG.find_memory(design.name()).expect("a design of the catalog");
        assert_eq!(found.summary(), design.summary());
    }
}

#[test]
fn a_name_that_nobody_has_is_refused_with_those_that_there_are() {
    let refused = CATALOG.find_memory("abacus").expect_err("no such design").to_string();
    assert!(refused.contains("\"abacus\""), "{refused}");
    assert!(CATALOG.find("abacus", FabricKind::Tree).is_err());
}

#[test]
fn the_fallback_runs_among_hosts_of_a_tree() {
    assert!(CATALOG.find(FALLBACK, FabricKind::Tree).is_ok());
}

#[test]
fn designs_of_one_name_are_told_apart_by_the_fabric() {
    let [among_hosts, on_a_mesh] =
        [FabricKind::Tree, FabricKind::Mesh].map(|fabric| CATALOG.find("direct", fabric).unwrap());
    assert_ne!(among_hosts.summary(), on_a_mesh.summary());
    assert!(among_hosts.defaults().has("hosts.chunk") && on_a_mesh.defaults().has("relay.piece"));
    assert_eq!(CATALOG.named("direct").map(AnyDesign::summary), Ok(among_hosts.summary()), "the first one");
    let names = CATALOG.names();
    assert_eq!(names.iter().filter(|name| **name == "direct").count(), 1, "{names:?}");
    // One that runs elsewhere is none here.
    assert!(
        CATALOG.find("epic-2", FabricKind::Mesh).is_err()
            && CATALOG.find("writes", FabricKind::Tree).is_err()
    );
}

#[test]
fn a_program_adds_designs_of_its_own() {
    static RING: quincunx_design::Catalog = quincunx_design::Catalog::new(&[], &[]);
    let ring = CATALOG.named("ring").unwrap();
    let own = RING.with(&[ring], &[]);
    assert_eq!(own.names(), ["ring"]);
    assert_eq!(own.find("ring", FabricKind::Tree).map(AnyDesign::summary), Ok(ring.summary()));
}
