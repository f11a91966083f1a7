//! What the catalog holds: names are told apart where they would be mixed up, and every name is found.

use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AcceleratorFabric, AnyDesign, FabricKind, Form, Placement, Plan, Refusal};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_wire::flit::FlitFormat;

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
}

#[test]
fn a_name_that_nobody_has_is_refused_with_those_that_there_are() {
    let refused = CATALOG.find("abacus", FabricKind::Memory).expect_err("no such design").to_string();
    assert!(refused.contains("\"abacus\""), "{refused}");
    assert!(CATALOG.find("abacus", FabricKind::Tree).is_err());
}

#[test]
fn the_fallback_runs_among_hosts_of_a_tree() {
    assert!(CATALOG.find(FALLBACK, FabricKind::Tree).is_ok());
}

/// What a stream of four accelerators at two switches needs.
fn planned(design: &dyn AnyDesign, collective: Collective) -> Result<Plan, Refusal> {
    let fabric = AcceleratorFabric { accelerators: 4, switches: 2, format: FlitFormat::DGX, load_window: 4 };
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    let request = InPlaceRequest { collective, reduction, span: Span { offset: 0, length: 1024 } };
    design.plan(&design.defaults_on(FabricKind::Memory), &Placement::on_memory(fabric, request))
}

#[test]
fn a_memory_design_is_exact_if_and_only_if_its_form_is() {
    for design in CATALOG.on(FabricKind::Memory) {
        let form = planned(design, Collective::AllReduce).expect("all of them offer it").form;
        assert_eq!(design.about().is_exact, form == Form::Exact, "{}", design.name());
    }
    let quantised: Vec<&str> = CATALOG
        .on(FabricKind::Memory)
        .filter(|design| !design.about().is_exact)
        .map(|design| design.name())
        .collect();
    assert_eq!(quantised, ["scin-inq", "ring-rq"]);
}

#[test]
fn every_key_of_a_memory_design_is_explained() {
    for design in CATALOG.on(FabricKind::Memory) {
        let keys: Vec<String> = design.defaults().flat().into_iter().map(|(key, _)| key).collect();
        let mut explained: Vec<&str> = design.help().into_iter().map(|(key, _)| key).collect();
        explained.sort_unstable();
        assert_eq!(keys, explained, "{}", design.name());
    }
}

#[test]
fn a_collective_that_a_memory_design_does_not_offer_is_refused_with_those_that_it_does() {
    let design = CATALOG.find("scin-inq", FabricKind::Memory).expect("a design of the catalog");
    let refused = planned(design, Collective::Barrier).expect_err("no quantised barrier");
    assert_eq!(
        refused.to_string(),
        "expected a collective that scin-inq offers (all_reduce), found barrier; name another design or another collective"
    );
    let needs = planned(design, Collective::AllReduce).expect("an all-reduce").memory;
    assert_eq!((needs.words, needs.tail, needs.scratch), (2, 1024 / 64 * 2, 0));
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
fn one_that_runs_on_two_fabrics_has_the_keys_that_mean_something_there() {
    let ring = CATALOG.named("ring").unwrap();
    assert_eq!(
        CATALOG.find("ring", FabricKind::Memory).map(AnyDesign::summary),
        Ok(ring.summary()),
        "one value"
    );
    assert!(ring.defaults_on(FabricKind::Tree).has("hosts.chunk"));
    let mut on_memory = ring.defaults_on(FabricKind::Memory);
    assert_eq!(on_memory.flat(), [], "accelerators have no queue pairs and no messages");
    let refused = ring.set(&mut on_memory, "hosts.chunk", &"4KiB".into()).expect_err("no such key here");
    assert!(refused.to_string().ends_with("found \"hosts.chunk\"; name one of them"), "{refused}");
}

#[test]
fn a_program_adds_designs_of_its_own() {
    static RING: quincunx_design::Catalog = quincunx_design::Catalog::new(&[], &[]);
    let ring = CATALOG.named("ring").unwrap();
    let own = RING.with(&[ring]);
    assert_eq!(own.names(), ["ring"]);
    assert_eq!(own.find("ring", FabricKind::Tree).map(AnyDesign::summary), Ok(ring.summary()));
}
