//! What EPIC plans for a group on a tree, whatever the tree, and what it refuses.

use proptest::prelude::*;
use quincunx_collective::{Collective, LengthOnly, Rank};
use quincunx_design::{
    AnyDesign, ClosedForm, Context, Design, FabricKind, GroupContext, Member, Naming, Params, Parts,
    Placement, Plan, Premises, Refusal, Settings, Value,
};
use quincunx_epic::{
    CLOSED_FORMS, EPIC_1, EPIC_2, EPIC_3, EPIC_MIXED, Epic, EpicParams, EpicRank, EpicSwitch, GroupParams,
    Mode,
};
use quincunx_fabric::{IncTree, LinkProperties, TreeNodeId, TreeRole};
use quincunx_units::{BitRate, ByteCount, Duration, Messages, Packets, Probability};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

const ALL: [Epic; 3] = [EPIC_1, EPIC_2, EPIC_3];

/// Any tree: each node hangs on an earlier switch; switches that end up childless get a rank, the root two branches.
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
        let count = |nodes: &[(TreeRole, Option<TreeNodeId>)], switch| {
            nodes.iter().filter(|(_, parent)| *parent == Some(TreeNodeId(switch))).count()
        };
        for &switch in &switches {
            while count(&nodes, switch) < if switch == 0 { 2 } else { 1 } {
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

fn on(tree: IncTree) -> Placement {
    Placement::new(tree.ranks(), Some(tree), ByteCount::new(1 << 20))
}

fn planned(design: Epic, tree: IncTree) -> Plan<EpicRank, EpicSwitch> {
    Design::plan(&design, &EpicParams::default(), &on(tree)).unwrap()
}

fn named(shape: &str) -> IncTree {
    IncTree::from_shape(&shape.parse().unwrap())
}

/// By member and number: who is at the other end.
fn far_ends(plan: &Plan<EpicRank, EpicSwitch>) -> BTreeMap<(Member, u16), Member> {
    let both = plan.connections.iter().flat_map(|connection| {
        let [a, b] = connection.ends;
        [((a.member, a.index), b.member), ((b.member, b.index), a.member)]
    });
    both.collect()
}

proptest! {
    #[test]
    fn toward_a_rank_every_switch_leads_closer(tree in any_tree(), which in 0usize..3) {
        let plan = planned(ALL[which], tree);
        let (far, ranks) = (far_ends(&plan), plan.ranks.len() as u16);
        let roles: BTreeMap<_, _> = plan.switches.iter().map(|switch| (switch.node, &switch.role)).collect();
        for &start in roles.keys() {
            for target in 0..ranks {
                let mut at = Member::Switch(start);
                let mut visited = BTreeSet::new();
                while let Member::Switch(node) = at {
                    prop_assert!(visited.insert(node), "round in circles at {node:?}");
                    at = far[&(at, roles[&node].toward[usize::from(target)])];
                }
                prop_assert_eq!(at, Member::Rank(Rank(target)));
            }
        }
    }

    #[test]
    fn the_parents_edge_is_the_last_and_only_the_root_has_none(tree in any_tree()) {
        let plan = planned(EPIC_2, tree);
        for (number, switch) in plan.switches.iter().enumerate() {
            prop_assert_eq!(switch.role.parent.is_none(), number == 0);
            if let Some(parent) = switch.role.parent {
                prop_assert_eq!(u32::from(parent), plan.degree(Member::Switch(switch.node)) - 1);
            }
        }
    }

    #[test]
    fn every_rank_has_one_connection_and_leads_no_collective_elsewhere(tree in any_tree(), which in 0usize..3) {
        let plan = planned(ALL[which], tree);
        for rank in 0..plan.ranks.len() as u16 {
            prop_assert_eq!(plan.degree(Member::Rank(Rank(rank))), 1);
        }
        prop_assert!(!plan.remote_write && plan.relayed.is_none());
    }
}

#[test]
fn what_no_tree_of_switches_can_do_is_refused_in_one_line() {
    let hosts = Placement::new(4, None, ByteCount::new(1));
    let other = Placement { ranks: 3, ..on(named("star-4")) };
    let cases = [
        (hosts, "expected a fabric with switches for epic-2, found hosts that are joined directly"),
        (other, "expected a tree of 3 ranks, found 4"),
        (on(named("star-1")), "expected a tree with at least two branches at the root, found one"),
        (on(named("tree-1x2")), "expected a tree with at least two branches at the root, found one"),
        (
            on(named("star-64")),
            "expected a tree of at most 1024 ranks, with at most 63 neighbours of a switch, found 64 ranks and 64",
        ),
    ];
    for (placement, expected) in cases {
        let error = Design::plan(&EPIC_2, &EpicParams::default(), &placement).unwrap_err().to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_switch_has_up_to_sixty_three_neighbours() {
    assert!(Design::plan(&EPIC_2, &EpicParams::default(), &on(named("star-63"))).is_ok());
}

#[test]
fn all_but_dispatch_and_combine_is_offered() {
    for design in ALL {
        assert_eq!(design.collectives(FabricKind::Tree), &Collective::PRIMITIVES[..]);
    }
}

#[test]
fn what_only_mode_iii_has_is_refused_by_name_elsewhere() {
    let with = |change: &dyn Fn(&mut GroupParams)| {
        let mut params = EpicParams::default();
        change(&mut params.group);
        params
    };
    let cases = [
        ("group.slots", with(&|group| group.slots = Some(512))),
        ("group.run_ahead", with(&|group| group.run_ahead = true)),
        ("group.synchronize_rates", with(&|group| group.synchronize_rates = false)),
    ];
    for (key, params) in cases {
        for design in [EPIC_1, EPIC_2] {
            let error = Design::plan(&design, &params, &on(named("star-4"))).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("only epic-3 has it"), "{error}");
        }
        assert!(Design::plan(&EPIC_3, &params, &on(named("star-4"))).is_ok(), "{key}");
    }
}

#[test]
fn what_only_mode_ii_has_is_refused_by_name_elsewhere() {
    let mut params = EpicParams::default();
    params.group.resend_results = false;
    for design in [EPIC_1, EPIC_3] {
        let error = Design::plan(&design, &params, &on(named("star-4"))).unwrap_err().to_string();
        assert!(error.contains("group.resend_results") && error.contains("only epic-2 has it"), "{error}");
    }
    assert!(Design::plan(&EPIC_2, &params, &on(named("star-4"))).is_ok());
}

#[test]
fn pipes_hold_a_message_at_least_and_a_window_of_packet_numbers_at_most() {
    let plan = |slots| {
        let mut settings = EPIC_3.defaults();
        EPIC_3.set(&mut settings, "group.slots", &Value::from(slots)).unwrap();
        AnyDesign::plan(&EPIC_3, &settings, &on(named("star-2")))
    };
    assert!(plan(16).is_ok() && plan(1 << 22).is_ok());
    for slots in [15u32, (1 << 22) + 1, u32::MAX] {
        let error = plan(slots).unwrap_err().to_string();
        assert!(error.starts_with("expected `group.slots` of"), "{error}");
    }
}

#[test]
fn pipes_hold_a_message_of_whatever_length() {
    let mut params = EpicParams::default();
    (params.group.transport.message, params.group.transport.window) = (Packets::new(4), Messages::new(1));
    params.group.slots = Some(4);
    assert!(params.check().is_ok());
    params.group.slots = Some(3);
    assert!(params.check().is_err());
}

#[test]
fn what_is_broadcast_by_each_rank_in_turn_runs_in_steps_only_without_overlap() {
    let in_steps = |overlap, collective| {
        let mut params = EpicParams::default();
        params.group.overlap = overlap;
        let plan = Design::plan(&EPIC_2, &params, &on(named("star-2"))).unwrap();
        plan.in_steps.contains(&collective)
    };
    for collective in [Collective::ReduceScatter, Collective::AllGather] {
        assert!(in_steps(false, collective) && !in_steps(true, collective), "{collective}");
    }
    assert!(!in_steps(false, Collective::AllReduce) && !in_steps(true, Collective::AllReduce));
}

#[test]
fn formulas_take_depth_and_degree_of_the_tree_and_rate_and_latency_of_its_links() {
    let tree = named("star-8");
    let link =
        LinkProperties { rate: BitRate::new(100_000_000_000).unwrap(), latency: Duration::from_micros(1) };
    let premises =
        Premises { tree: &tree, link, size: ByteCount::new(125_000), loss: Probability::new(0.25).unwrap() };
    let params = EpicParams::default();
    let [_, epic_2, _] = CLOSED_FORMS;
    let formula = |form| (epic_2.value)(form, &EPIC_2.defaults(), &premises).unwrap();
    // 12 500 bytes a microsecond: twice the latency, three packets of a default MTU, ten microseconds of data.
    let packets = 3.0 * params.group.transport.mtu.bytes() as f64 / 12_500.0;
    assert_eq!(formula(ClosedForm::Latency), 2.0 + packets + 10.0);
    assert_eq!(formula(ClosedForm::SwitchMemory), 2.0 * 2.0 * 12_500.0);
    assert_eq!(formula(ClosedForm::LossTolerance), 0.75_f64.powi(2 * 7));
}

/// What each member of a star of two is told.
fn contexts(design: Epic) -> Vec<(Member, GroupContext)> {
    let settings = design.defaults();
    let plan = AnyDesign::plan(&design, &settings, &on(named("star-2"))).unwrap();
    let naming = Naming {
        group: quincunx_collective::GroupId(1),
        design: design.name().to_string(),
        version: AnyDesign::about(&design).version,
        settings,
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: Psn::new(0),
    };
    let mut next = 16;
    plan.contexts(
        &naming,
        |node| format!("s{}", node.0),
        |_| {
            next += 1;
            Endpoint { ip: Gid::from(Ipv4Addr::LOCALHOST), qp: QpNumber::new(next) }
        },
    )
}

fn refusal(design: Epic, context: &GroupContext) -> Refusal {
    let refusal = match context.node {
        quincunx_design::Node::Rank(_) => {
            Parts::<LengthOnly>::endpoint_part(&design, &Context::of(context)).err()
        }
        quincunx_design::Node::Switch => {
            Parts::<LengthOnly>::switch_part(&design, &Context::of(context)).err()
        }
    };
    let refusal = refusal.expect("such a context is refused");
    assert!(!refusal.to_string().contains('\n'), "{refusal}");
    refusal
}

#[test]
fn a_switch_takes_no_more_than_was_booked() {
    for design in ALL {
        let (_, mut context) = contexts(design).remove(0);
        let booked = context.memory;
        assert!(Parts::<LengthOnly>::switch_part(&design, &Context::of(&context)).is_ok());
        context.memory = ByteCount::new(booked.bytes() - 1);
        let expected = format!("expected {booked} of memory, booked for the group");
        assert!(refusal(design, &context).to_string().starts_with(&expected));
    }
}

#[test]
fn contexts_that_make_no_sense_are_refused_by_ranks_and_switches() {
    for design in ALL {
        for (_, good) in contexts(design) {
            let refused = |change: &dyn Fn(&mut GroupContext), expected: &str| {
                let mut context = good.clone();
                change(&mut context);
                let refusal = refusal(design, &context).to_string();
                assert!(refusal.starts_with(expected), "{refusal}");
            };
            refused(&|context| context.connections.clear(), "expected ");
            refused(&|context| context.version = 9, "expected version 6 of the parameters of epic-");
            refused(&|context| context.ranks = 0, "expected ranks in domains of one size, found 0 in 1");
            refused(&|context| context.domains = 3, "expected ranks in domains of one size, found 2 in 3");
            let set = |key: &'static str, value: &'static str| {
                move |context: &mut GroupContext| {
                    let text = format!("{{\"group\":{{\"{key}\":{value}}}}}");
                    context.settings = Settings::parse(&text).unwrap();
                }
            };
            let window = "expected `group.message` times `group.window` of 1 to 4194304 packets";
            refused(&set("window", "0"), window);
            refused(&set("window", "4294967295"), window);
            refused(&set("mtu", "5"), "expected `group.mtu` of a multiple of 4 bytes up to 4096, found 5B");
            refused(&set("windows", "5"), "expected one of the keys group.acknowledge_every, ");
        }
    }
}

/// The modes of a tree's switches, the root first, as the parameters say or as switches offer them.
fn modes(said: Option<&str>, offers: &[(u16, &str)], unproved: bool) -> Result<Vec<Mode>, String> {
    let tree = named("tree-2x2");
    let switches = tree.switches();
    let offers = offers.iter().map(|&(switch, designs)| {
        (switches[usize::from(switch)], designs.split(' ').map(str::to_owned).collect())
    });
    let placement = Placement { offers: offers.collect(), ..on(tree.clone()) };
    let mut params = EpicParams::default();
    params.group.modes = said.map(|said| said.parse().unwrap());
    params.group.unproved = unproved;
    let plan = Design::plan(&EPIC_MIXED, &params, &placement).map_err(|refusal| refusal.to_string())?;
    Ok(plan.switches.iter().map(|switch| switch.role.mode).collect())
}

#[test]
fn modes_are_said_from_the_root_down() {
    assert_eq!(modes(Some("II/I"), &[], false).unwrap(), [Mode::II, Mode::I, Mode::I]);
    assert_eq!(modes(Some("I"), &[], false).unwrap(), [Mode::I; 3]);
    assert!("I/IV".parse::<quincunx_epic::Levels>().is_err());
}

#[test]
fn a_switch_runs_the_best_mode_that_it_offers() {
    assert_eq!(modes(None, &[], false).unwrap(), [Mode::III; 3]);
    let found = modes(None, &[(0, "epic-1 epic-3"), (1, "epic-1"), (2, "epic-2 epic-3")], false);
    assert_eq!(found.unwrap(), [Mode::III, Mode::I, Mode::III]);
}

#[test]
fn all_above_a_switch_that_has_only_mode_ii_are_in_it() {
    assert_eq!(modes(None, &[(1, "epic-2")], false).unwrap(), [Mode::II, Mode::II, Mode::III]);
    let error = modes(None, &[(0, "epic-3"), (1, "epic-2")], false).unwrap_err();
    assert!(error.starts_with("expected switches that offer epic-2 where the tree has them"), "{error}");
}

#[test]
fn mode_ii_below_another_is_refused_but_for_the_checker() {
    let error = modes(Some("III/II"), &[], false).unwrap_err();
    assert!(error.contains("found it below Mode-III") && error.contains("II/III"), "{error}");
    assert_eq!(modes(Some("III/II"), &[], true).unwrap(), [Mode::III, Mode::II, Mode::II]);
    let params = EpicParams { group: GroupParams { unproved: true, ..GroupParams::default() } };
    assert!(Design::plan(&EPIC_3, &params, &on(named("star-2"))).is_err());
}

#[test]
fn a_switch_knows_the_modes_of_its_neighbours_and_a_rank_whether_to_skip_numbers() {
    let mut params = EpicParams::default();
    params.group.modes = Some("III/I".parse().unwrap());
    let plan = Design::plan(&EPIC_MIXED, &params, &on(named("tree-2x2"))).unwrap();
    let neighbours = plan.switches.iter().map(|switch| switch.role.neighbours.clone()).collect::<Vec<_>>();
    let leaf = vec![None, None, Some(Mode::III)];
    assert_eq!(neighbours, [vec![Some(Mode::I); 2], leaf.clone(), leaf]);
    assert!(plan.ranks.iter().all(|role| !role.skips), "the first hop counts messages");
    assert!(planned(EPIC_3, named("tree-2x2")).ranks.iter().all(|role| role.skips));
}
