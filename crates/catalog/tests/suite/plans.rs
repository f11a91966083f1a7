//! What holds of the plan of every design on whatever it runs on: its contexts fit together, and nodes take them.

use proptest::prelude::*;
use quincunx_collective::{GroupId, LengthOnly};
use quincunx_design::{
    AnyDesign, Context, Demand, FabricKind, GroupContext, LinkRates, Member, Naming, Node, Parts, Peer,
    Placement,
};
use quincunx_designs::CATALOG;
use quincunx_fabric::{IncTree, TreeShape};
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::collections::{BTreeMap, BTreeSet};

const PSN: Psn = Psn::new(0xff_fff0);

/// Trees, and meshes of domains.
fn any_placement() -> impl Strategy<Value = (FabricKind, Placement)> {
    let longest = ByteCount::new(1 << 16);
    let tree = prop::collection::vec(2u16..5, 1..4).prop_map(move |branches| {
        let branches: Vec<String> = branches.iter().map(u16::to_string).collect();
        let shape: TreeShape = format!("tree-{}", branches.join("x")).parse().unwrap();
        (FabricKind::Tree, Placement::new(shape.ranks(), Some(IncTree::from_shape(&shape)), longest))
    });
    let mesh = (1u16..4, 2u16..5, any::<bool>()).prop_map(move |(domains, members, writes)| {
        let length = ByteCount::new(512);
        let demand = if writes { Demand::Writes { slots: 3, length } } else { Demand::Vectors { longest } };
        let placement = Placement { domains, demand, ..Placement::new(domains * members, None, longest) };
        (FabricKind::Mesh, Placement { rates: LinkRates::ALIKE, ..placement })
    });
    let ring = (1u16..9).prop_map(move |ranks| (FabricKind::Ring, Placement::new(ranks, None, longest)));
    let servers = (1u16..4, 2u16..5).prop_map(move |(domains, members)| {
        let demand = Demand::Tokens { most: 5, length: ByteCount::new(64) };
        let placement = Placement { domains, demand, ..Placement::new(domains * members, None, longest) };
        (FabricKind::Servers, placement)
    });
    prop_oneof![tree, mesh, ring, servers]
}

fn address(member: Member) -> Gid {
    let [high, low] = match member {
        Member::Rank(rank) => rank.0.to_be_bytes(),
        Member::Switch(node) => (1 << 15 | node.0).to_be_bytes(),
    };
    Gid::from([127, 1, high, low])
}

/// What each member is told; queue pairs count up at each address.
fn contexts(
    design: &dyn AnyDesign,
    fabric: FabricKind,
    placement: &Placement,
) -> Option<Vec<(Member, GroupContext)>> {
    let settings = design.defaults();
    let plan = design.plan(&settings, placement).ok()?;
    let naming = Naming {
        group: GroupId(7),
        design: design.name().to_string(),
        version: design.about().version,
        settings,
        fabric,
        domains: placement.domains,
        initial_psn: PSN,
    };
    let mut next: BTreeMap<Gid, u32> = BTreeMap::new();
    let told = plan.contexts(
        &naming,
        |node| node.0.to_string(),
        |member| {
            let ip = address(member);
            let qp = next.entry(ip).or_insert(16);
            *qp += 1;
            Endpoint { ip, qp: QpNumber::new(*qp) }
        },
    );
    Some(told)
}

fn named(member: Member) -> Peer {
    match member {
        Member::Rank(rank) => Peer::Rank(rank),
        Member::Switch(node) => Peer::Switch(node.0.to_string()),
    }
}

/// The remote of my remote is me, by endpoint and by name; no endpoint is used twice; one address a node. What passes through a switch
/// goes from one end of a connection to the other.
fn check_ends(told: &[(Member, GroupContext)]) -> Result<(), TestCaseError> {
    let all = told.iter().flat_map(|(member, context)| context.connections.iter().map(|end| (*member, end)));
    let (own, passing): (Vec<_>, Vec<_>) = all.partition(|(member, end)| end.local.ip == address(*member));
    let ends: Vec<_> = own.into_iter().map(|(member, end)| (named(member), end)).collect();
    let by_local: BTreeMap<Endpoint, _> = ends.iter().map(|end| (end.1.local, end)).collect();
    prop_assert_eq!(by_local.len(), ends.len(), "an endpoint is used twice");
    for (owner, end) in &ends {
        let far = by_local.get(&end.remote);
        prop_assert!(far.is_some_and(|far| far.1.remote == end.local), "{} talks into the void", owner);
        let far = far.unwrap();
        prop_assert_eq!((&far.0, &far.1.peer), (&end.peer, owner));
    }
    for (switch, end) in passing {
        prop_assert!(matches!(switch, Member::Switch(_)), "only switches stand on others' ways");
        let far = by_local.get(&end.local);
        prop_assert!(far.is_some_and(|far| far.1.remote == end.remote && far.1.peer == end.peer));
    }
    let addresses: BTreeSet<_> = ends.iter().map(|(owner, end)| (owner, end.local.ip)).collect();
    let owners: BTreeSet<_> = ends.iter().map(|(owner, _)| owner).collect();
    prop_assert_eq!(addresses.len(), owners.len(), "a node has two addresses");
    Ok(())
}

proptest! {
    #[test]
    fn the_ends_of_every_plan_meet_and_its_parts_can_be_made((fabric, placement) in any_placement()) {
        for design in CATALOG.on(fabric) {
            let Some(told) = contexts(design, fabric, &placement) else { continue };
            check_ends(&told)?;
            for (member, context) in &told {
                let Member::Rank(rank) = member else {
                    prop_assert_eq!(context.node, Node::Switch);
                    prop_assert!(Parts::<LengthOnly>::switch_part(design, &Context::of(context)).is_ok());
                    continue;
                };
                prop_assert_eq!(context.node, Node::Rank(*rank));
                let part = Parts::<LengthOnly>::endpoint_part(design, &Context::of(context));
                prop_assert!(part.is_ok(), "{}: {}", design.name(), part.unwrap_err());
            }
            prop_assert!(told.iter().all(|(_, context)| context.initial_psn == PSN));
        }
    }

    #[test]
    fn every_design_runs_on_some_placement((fabric, placement) in any_placement()) {
        // Those that refuse say why, in a line.
        for design in CATALOG.on(fabric) {
            if let Err(refusal) = design.plan(&design.defaults(), &placement) {
                let line = refusal.to_string();
                prop_assert!(line.starts_with("expected ") && !line.contains('\n'), "{}", line);
            }
        }
    }
}

#[test]
fn a_design_of_another_version_is_refused_by_name() {
    let placement =
        Placement::new(2, Some(IncTree::from_shape(&"star-2".parse().unwrap())), ByteCount::new(8));
    for design in CATALOG.on(FabricKind::Tree) {
        for (member, mut context) in contexts(design, FabricKind::Tree, &placement).unwrap_or_default() {
            context.version += 1;
            let refused = match member {
                Member::Rank(_) => Parts::<LengthOnly>::endpoint_part(design, &Context::of(&context)).err(),
                Member::Switch(_) => Parts::<LengthOnly>::switch_part(design, &Context::of(&context)).err(),
            };
            let line = refused.expect("another version").to_string();
            let expected = format!(
                "expected version {} of the parameters of {}, found version {}; this node is older than the manager: upgrade it, and run the same version at both ends",
                design.about().version,
                design.name(),
                design.about().version + 1
            );
            assert_eq!(line, expected);
        }
    }
}

#[test]
fn a_rule_to_break_is_one_of_those_that_the_design_names() {
    let placement =
        Placement::new(2, Some(IncTree::from_shape(&"star-2".parse().unwrap())), ByteCount::new(8));
    for design in CATALOG.on(FabricKind::Tree) {
        let names = (design.about().model.mutations)(FabricKind::Tree);
        for (member, context) in contexts(design, FabricKind::Tree, &placement).unwrap() {
            let told = |mutation| Context { mutation, ..Context::of(&context) };
            let made = |mutation| match member {
                Member::Rank(_) => Parts::<LengthOnly>::endpoint_part(design, &told(mutation)).map(drop),
                Member::Switch(_) => Parts::<LengthOnly>::switch_part(design, &told(mutation)).map(drop),
            };
            assert!(names.iter().all(|name| made(Some(name)).is_ok()), "{}", design.name());
            let line = made(Some("no-such-rule")).expect_err("there is no such rule").to_string();
            assert!(line.starts_with("expected ") && !line.contains('\n'), "{line}");
        }
    }
}
