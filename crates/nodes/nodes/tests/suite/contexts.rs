//! Contexts that make no sense: whatever a manager says, a node takes it or refuses it in a line, and does not panic.

use proptest::prelude::*;
use quincunx_collective::{GroupId, Numbers, Rank};
use quincunx_design::{
    AnyDesign, Demand, FabricKind, GroupContext, Member, Naming, Node, Peer, Placement, Role, Settings, Value,
};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_epic::{EPIC_1, EPIC_2, EPIC_3};
use quincunx_fabric::IncTree;
use quincunx_multiwrite::{MULTIWRITE, WRITES};
use quincunx_netreduce::NETREDUCE;
use quincunx_nodes::{Host, HostCommand, Switch, SwitchCommand, host_group, switch_group};
use quincunx_ring::{DIRECT, RING, TREE};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Listens to nothing.
struct Deaf;

impl<E> Sink<E> for Deaf
where
    E: Engine<Header = RoceHeader, Payload = Numbers>,
{
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Numbers>) {}
    fn set_timer(&mut self, _: E::Timer, _: Duration) {}
    fn cancel_timer(&mut self, _: E::Timer) {}
    fn emit(&mut self, _: E::Event) {}
    fn drop_frame(&mut self, _: PortId, _: E::DropReason) {}
}

/// Designs with something to run them on: trees of four, and two domains of two.
fn designs() -> Vec<(&'static dyn AnyDesign, FabricKind, Placement)> {
    let longest = ByteCount::new(1 << 10);
    let tree = IncTree::from_shape(&"tree-2x2".parse().unwrap());
    let tree = Placement::new(4, Some(tree), longest);
    let mesh = Placement { domains: 2, ..Placement::new(4, None, longest) };
    let writes = Demand::Writes { slots: 2, length: ByteCount::new(64) };
    let writes = Placement { demand: writes, ..mesh.clone() };
    let on_tree: [&'static dyn AnyDesign; 6] = [&EPIC_1, &EPIC_2, &EPIC_3, &RING, &TREE, &DIRECT];
    let mut all: Vec<_> =
        on_tree.into_iter().map(|design| (design, FabricKind::Tree, tree.clone())).collect();
    let star = IncTree::from_shape(&"star-4".parse().unwrap());
    all.push((&NETREDUCE, FabricKind::Tree, Placement::new(4, Some(star), longest)));
    all.push((&MULTIWRITE, FabricKind::Mesh, mesh));
    all.push((&WRITES, FabricKind::Mesh, writes));
    all
}

fn contexts(design: &dyn AnyDesign, fabric: FabricKind, placement: &Placement) -> Vec<GroupContext> {
    let mut settings = design.defaults();
    for (key, value) in [("group.mtu", 64), ("group.message", 2), ("group.window", 2)] {
        design.set(&mut settings, key, &Value::from(value)).unwrap();
    }
    let plan = design.plan(&settings, placement).unwrap();
    let naming = Naming {
        group: GroupId(1),
        design: design.name().to_string(),
        version: design.about().version,
        settings,
        fabric,
        domains: placement.domains,
        initial_psn: Psn::new(0),
    };
    let mut next = 16;
    let endpoint = |_: Member| {
        next += 1;
        Endpoint { ip: Gid::from(Ipv4Addr::LOCALHOST), qp: QpNumber::new(next) }
    };
    let told = plan.contexts(&naming, |node| node.0.to_string(), endpoint);
    told.into_iter().map(|(_, context)| context).collect()
}

/// What a node says to a context: nothing if it takes it.
fn install(design: &dyn AnyDesign, context: &GroupContext) -> Result<(), String> {
    let line = |error: &dyn std::fmt::Display| error.to_string();
    let group = GroupId(1);
    match context.node {
        Node::Rank(_) => {
            let host =
                host_group::<Numbers>(design, context, None, |_| PortId(0)).map_err(|error| line(&error))?;
            let Ok(mut node) = Host::new(());
            let install = HostCommand::Install(Box::new(host));
            node.handle_command(Instant::ZERO, install, &mut Deaf).map_err(|error| line(&error))?;
            node.assert_invariants();
            node.handle_command(Instant::ZERO, HostCommand::Remove(group), &mut Deaf)
                .map_err(|error| line(&error))
        }
        Node::Switch => {
            let switch = switch_group::<Numbers>(design, context, None, |_| PortId(0))
                .map_err(|error| line(&error))?;
            let Ok(mut node) = Switch::new(());
            let install = SwitchCommand::Install(Box::new(switch));
            node.handle_command(Instant::ZERO, install, &mut Deaf).map_err(|error| line(&error))?;
            node.assert_invariants();
            assert!(ByteCount::new(node.buffer_bytes() as u64) <= context.memory, "more than was booked");
            let removed = node.handle_command(Instant::ZERO, SwitchCommand::Remove(group), &mut Deaf);
            node.assert_invariants();
            removed.map_err(|error| line(&error))
        }
    }
}

fn is_a_line(refusal: &str) -> bool {
    refusal.starts_with("expected ") && !refusal.contains('\n')
}

#[test]
fn nodes_take_what_a_plan_says() {
    for (design, fabric, placement) in designs() {
        for context in contexts(design, fabric, &placement) {
            assert_eq!(install(design, &context), Ok(()), "{}: {:?}", design.name(), context.node);
        }
    }
}

#[test]
fn numbers_that_no_queue_pair_could_carry_out_are_refused_before_anything_is_made_of_them() {
    for (design, fabric, placement) in designs() {
        for good in contexts(design, fabric, &placement) {
            for (key, value) in [
                ("window", "0"),
                ("window", "4294967295"),
                ("message", "0"),
                ("message", "4294967295"),
                // 2^40 packets.
                ("window", "1099511627776"),
                ("mtu", "5"),
                ("mtu", "\"1GiB\""),
                ("acknowledge_every", "0"),
                ("retry_timeout", "\"0s\""),
                ("retry_timeout", "null"),
                ("windows", "3"),
            ] {
                let mut text: serde_json::Map<String, Value> =
                    serde_json::from_str(&good.settings.to_text()).unwrap();
                text["group"][key] = serde_json::from_str(value).unwrap();
                let settings = Settings::parse(&Value::Object(text).to_string()).unwrap();
                let refused = install(design, &GroupContext { settings, ..good.clone() }).unwrap_err();
                assert!(refused.contains(key) && !refused.contains('\n'), "{}: {refused}", design.name());
            }
        }
    }
}

#[test]
fn a_role_of_another_design_is_refused() {
    let all = designs();
    for (design, fabric, placement) in &all {
        for (other, other_fabric, other_placement) in &all {
            let theirs = contexts(*other, *other_fabric, other_placement);
            for good in contexts(*design, *fabric, placement) {
                let same_kind = theirs.iter().filter(|context| {
                    matches!(
                        (context.node, good.node),
                        (Node::Switch, Node::Switch) | (Node::Rank(_), Node::Rank(_))
                    )
                });
                for role in same_kind.map(|context| context.role.clone()).filter(|role| *role != good.role) {
                    // Roles of one type are told apart by what they say, and then there is nothing to refuse.
                    if let Err(refused) = install(*design, &GroupContext { role, ..good.clone() }) {
                        assert!(is_a_line(&refused), "{refused}");
                    }
                }
            }
        }
    }
    let ring = contexts(&RING, FabricKind::Tree, &all[0].2);
    let mesh = contexts(&MULTIWRITE, FabricKind::Mesh, &all[6].2);
    let swapped = GroupContext { role: mesh[0].role.clone(), ..ring[0].clone() };
    assert!(install(&RING, &swapped).unwrap_err().starts_with("expected a role of this design and version"));
    let swapped = GroupContext { role: ring[0].role.clone(), ..mesh[0].clone() };
    assert!(
        install(&MULTIWRITE, &swapped).unwrap_err().starts_with("expected a role of this design and version")
    );
}

#[test]
fn a_rank_is_no_switch_and_a_switch_no_rank() {
    for (design, fabric, placement) in designs() {
        for good in contexts(design, fabric, &placement) {
            let node = match good.node {
                Node::Rank(_) => Node::Switch,
                Node::Switch => Node::Rank(Rank(0)),
            };
            let refused = install(design, &GroupContext { node, ..good }).unwrap_err();
            assert!(is_a_line(&refused), "{}: {refused}", design.name());
        }
    }
}

/// A change that a manager with a fault might make.
#[derive(Clone, Debug)]
enum Change {
    Ranks(u16),
    Domains(u16),
    Rank(u16),
    Connections(usize),
    Swap(prop::sample::Index, prop::sample::Index),
    Peer(prop::sample::Index, u16),
    Named(prop::sample::Index),
    QueuePair(prop::sample::Index, u32),
    Memory(u64),
    RemoteWrite,
    Setting(prop::sample::Index, u16),
    Role(Vec<(prop::sample::Index, u16)>),
}

fn any_change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    let small = || prop_oneof![0u16..6, any::<u16>()];
    prop_oneof![
        small().prop_map(Change::Ranks),
        small().prop_map(Change::Domains),
        small().prop_map(Change::Rank),
        (0usize..5).prop_map(Change::Connections),
        (index(), index()).prop_map(|(a, b)| Change::Swap(a, b)),
        (index(), small()).prop_map(|(at, rank)| Change::Peer(at, rank)),
        index().prop_map(Change::Named),
        (index(), 0u32..20).prop_map(|(at, qp)| Change::QueuePair(at, qp)),
        (0u64..1 << 20).prop_map(Change::Memory),
        Just(Change::RemoteWrite),
        (index(), small()).prop_map(|(at, value)| Change::Setting(at, value)),
        prop::collection::vec((index(), small()), 1..4).prop_map(Change::Role),
    ]
}

/// A number of a document, the `at`th of them, becomes another.
fn renumber(value: &mut Value, at: &mut usize, number: u16) {
    match value {
        Value::Number(_) if *at == 0 => *value = Value::from(number),
        Value::Number(_) => *at -= 1,
        Value::Array(values) => values.iter_mut().for_each(|value| renumber(value, at, number)),
        Value::Object(map) => map.values_mut().for_each(|value| renumber(value, at, number)),
        _ => {}
    }
}

fn change(design: &dyn AnyDesign, context: &mut GroupContext, change: &Change) {
    let connections = &mut context.connections;
    match change {
        Change::Ranks(ranks) => context.ranks = *ranks,
        Change::Domains(domains) => context.domains = *domains,
        Change::Rank(rank) => {
            if let Node::Rank(own) = &mut context.node {
                own.0 = *rank;
            }
        }
        Change::Connections(count) => connections.truncate(*count),
        Change::Memory(memory) => context.memory = ByteCount::new(*memory),
        Change::RemoteWrite => context.remote_write ^= true,
        Change::Setting(at, value) => {
            let keys: Vec<String> = context.settings.flat().into_iter().map(|(key, _)| key).collect();
            let _ = design.set(&mut context.settings, at.get::<String>(&keys), &Value::from(*value));
        }
        Change::Role(numbers) => {
            let mut role: Value = serde_json::from_str(&context.role.to_text()).unwrap();
            for (at, number) in numbers {
                renumber(&mut role, &mut at.index(24), *number);
            }
            context.role = Role::parse(&role.to_string()).unwrap();
        }
        _ if connections.is_empty() => {}
        Change::Swap(a, b) => {
            let (a, b) = (a.index(connections.len()), b.index(connections.len()));
            connections.swap(a, b);
        }
        Change::Peer(at, rank) => at.get_mut(connections).peer = Peer::Rank(Rank(*rank)),
        Change::Named(at) => at.get_mut(connections).peer = Peer::Switch(String::new()),
        Change::QueuePair(at, qp) => at.get_mut(connections).local.qp = QpNumber::new(*qp),
    }
}

proptest! {
    #[test]
    fn whatever_a_manager_says_a_node_takes_it_or_refuses_it_in_a_line(
        which in 0usize..8,
        member: prop::sample::Index,
        changes in prop::collection::vec(any_change(), 1..4),
    ) {
        let (design, fabric, placement) = designs().swap_remove(which);
        let told = contexts(design, fabric, &placement);
        let mut context = member.get(&told).clone();
        for one in &changes {
            change(design, &mut context, one);
        }
        if let Err(refused) = install(design, &context) {
            prop_assert!(is_a_line(&refused), "{}", refused);
        }
    }
}

#[test]
fn a_connection_between_addresses_of_two_families_is_refused_in_one_line() {
    for (design, fabric, placement) in designs() {
        for mut context in
            contexts(design, fabric, &placement).into_iter().filter(|told| !told.connections.is_empty())
        {
            context.connections[0].remote.ip = Gid::from(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
            let refused = match context.node {
                Node::Rank(_) => host_group::<Numbers>(design, &context, None, |_| PortId(0)).map(|_| ()),
                Node::Switch => switch_group::<Numbers>(design, &context, None, |_| PortId(0)).map(|_| ()),
            };
            let line = refused.expect_err("frames go between addresses of one family").to_string();
            let expected = "expected connections between addresses of one IP family, found IPv4 and IPv6";
            assert!(line.starts_with(expected) && !line.contains('\n'), "{}: {line}", design.name());
        }
    }
}
