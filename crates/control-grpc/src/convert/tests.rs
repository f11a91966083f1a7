//! What is encoded decodes to the same; what is wrong is refused; nothing panics.

use super::*;
use proptest::prelude::*;
use prost::Message;
use quincunx_fabric::MeshShape;
use std::net::Ipv4Addr;

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    (any::<u32>(), 0..=MAX_QPN)
        .prop_map(|(ip, qp)| Endpoint { ip: Ipv4Addr::from_bits(ip), qp: QpNumber::new(qp) })
}

fn any_peer() -> impl Strategy<Value = Peer> {
    prop_oneof![any::<u16>().prop_map(|rank| Peer::Rank(Rank(rank))), "\\PC{0,8}".prop_map(Peer::Switch)]
}

fn any_design() -> impl Strategy<Value = Design> {
    let names =
        ["epic-1", "epic-2", "epic-3", "ring", "tree", "direct", "multiwrite", "unicast-multipath", "writes"];
    prop::sample::select(names.map(|name| name.parse().unwrap()).to_vec())
}

prop_compose! {
    fn any_parameters()(
        (group, ranks, mtu) in (any::<u32>(), 1u16..20, any::<u16>()),
        (message_packets, window_messages) in (1u32..1 << 11, 1u32..1 << 11),
        reproducible: bool,
        psn in 0..=MAX_QPN,
        (timeout, count) in any::<(u64, u8)>(),
    ) -> GroupParameters {
        GroupParameters {
            group: GroupId(group),
            ranks,
            mtu: ByteCount::new(mtu.into()),
            message_packets,
            window_messages,
            reproducible,
            initial_psn: Psn::new(psn),
            retry: Retry { timeout: Duration::from_picos(timeout), count },
        }
    }
}

prop_compose! {
    fn any_switch()(
        parameters in any_parameters(),
        design in any_design(),
        slots: u32,
        edges in prop::collection::vec((any_endpoint(), any_endpoint(), any_peer()), 1..6),
        parent in prop::option::of(any::<prop::sample::Index>()),
        toward in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) -> SwitchContext {
        let index = |index: &prop::sample::Index| index.index(edges.len()) as u16;
        SwitchContext {
            mode: if let Design::Epic(mode) = design { mode } else { Mode::I },
            slots,
            parent: parent.as_ref().map(index),
            toward: toward.iter().take(parameters.ranks.into()).map(index).collect(),
            edges: edges.iter().cloned().map(|(local, remote, peer)| EdgeContext { local, remote, peer }).collect(),
            parameters,
        }
    }
}

fn rate(bits: u64) -> BitRate {
    BitRate::new(bits).unwrap()
}

prop_compose! {
    fn any_mesh(ranks: u16)(
        is_full: bool,
        (piece, limit) in (1u64.., any::<u64>()),
        (direct, cross) in (1u64.., 1u64..),
        is_halved: bool,
    ) -> Option<MeshSetup> {
        let domains = if is_halved && ranks.is_multiple_of(2) { 2 } else { 1 };
        let shape = MeshShape::new(domains, ranks / domains)?;
        Some(MeshSetup {
            shape,
            relays: if is_full { Relays::Full } else { Relays::Paired },
            piece: ByteCount::new(piece),
            limit: ByteCount::new(limit),
            rates: LinkRates { direct: rate(direct), cross: rate(cross) },
        })
    }
}

prop_compose! {
    fn any_rank()(
        (parameters, mesh) in any_parameters().prop_flat_map(|parameters| {
            let mesh = any_mesh(parameters.ranks);
            (Just(parameters), mesh)
        }),
        design in any_design(),
        rank: prop::sample::Index,
        pairs in prop::collection::vec((any_endpoint(), any_endpoint(), any_peer(), 0..=MAX_QPN, 0..=MAX_QPN), 0..6),
    ) -> RankContext {
        let pair = |(local, remote, peer, send, receive)| {
            QueuePairContext { local, remote, peer, send_psn: Psn::new(send), receive_psn: Psn::new(receive) }
        };
        RankContext {
            design,
            rank: Rank(rank.index(parameters.ranks.into()) as u16),
            mesh,
            queue_pairs: pairs.into_iter().map(pair).collect(),
            parameters,
        }
    }
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    prop_oneof![
        any_switch().prop_map(|context| Instruction::InstallSwitch(Box::new(context))),
        any_rank().prop_map(|context| Instruction::InstallRank(Box::new(context))),
        any::<u32>().prop_map(|group| Instruction::Ready(GroupId(group))),
        any::<u32>().prop_map(|group| Instruction::Remove(GroupId(group))),
        (any::<u32>(), "\\PC{0,8}", "\\PC{0,8}").prop_map(|(group, node, reason)| Instruction::Failed {
            group: GroupId(group),
            failure: GroupFailure { node, reason },
        }),
    ]
}

proptest! {
    #[test]
    fn every_instruction_arrives_as_it_was_sent(instruction in any_instruction()) {
        let bytes = encode_instruction(&instruction).encode_to_vec();
        let received = proto::Instruction::decode(&bytes[..]).unwrap();
        prop_assert_eq!(decode_instruction(received), Ok(instruction));
    }

    #[test]
    fn a_garbled_instruction_never_panics(
        instruction in any_instruction(),
        at: prop::sample::Index,
        flip in 1u8..,
    ) {
        let mut bytes = encode_instruction(&instruction).encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(received) = proto::Instruction::decode(&bytes[..])
            && let Ok(Instruction::InstallSwitch(context)) = decode_instruction(received)
        {
            // What passes can be used without a second look.
            prop_assert!(context.toward.iter().all(|&edge| usize::from(edge) < context.edges.len()));
            prop_assert!(context.parameters.window_packets() > 0);
            let _ = (context.children(), context.memory());
        }
    }

    #[test]
    fn every_node_description_arrives_as_it_was_sent(
        name in "\\PC{0,8}",
        is_switch: bool,
        (ip, max_endpoints, memory) in any::<(u32, u32, u64)>(),
        modes in prop::collection::btree_set(
            prop::sample::select(vec![Mode::I, Mode::II, Mode::III]), 0..3),
    ) {
        let role = if is_switch { Role::Switch } else { Role::Host };
        let (address, memory) = (Ipv4Addr::from_bits(ip), ByteCount::new(memory));
        let node = NodeDescription { name, role, address, modes, max_endpoints, memory };
        prop_assert_eq!(decode_node(encode_node(&node)), Ok(node));
    }
}

fn summary(state: GroupState, fallback: Option<Fallback>) -> GroupSummary {
    GroupSummary {
        group: GroupId(3),
        design: Design::Host(HostDesign::Ring),
        fallback,
        state,
        members: vec!["a".to_string(), "b".to_string()],
        switches: vec![Holding { node: "s".to_string(), endpoints: 2, memory: ByteCount::new(4096) }],
    }
}

#[test]
fn every_group_summary_arrives_as_it_was_sent() {
    let failure = GroupFailure { node: "a".to_string(), reason: "gone".to_string() };
    let switch = "s".to_string();
    let (needed, free) = (ByteCount::new(2), ByteCount::new(1));
    let fallbacks = [
        None,
        Some(Fallback::SwitchMemory { switch: switch.clone(), needed, free }),
        Some(Fallback::SwitchEndpoints { switch, needed: 2, free: 1 }),
    ];
    for state in [GroupState::Installing, GroupState::Ready, GroupState::Failed(failure)] {
        for fallback in &fallbacks {
            let group = summary(state.clone(), fallback.clone());
            assert_eq!(decode_group(encode_group(&group)), Ok(group));
        }
    }
}

#[test]
fn every_report_arrives_as_it_was_sent() {
    let reason = "x".to_string();
    let reports =
        [Report::Installed, Report::Refused { reason: reason.clone() }, Report::DataPlaneFailed { reason }];
    for report in reports {
        assert_eq!(decode_report(Some(encode_report(report.clone()))), Ok(report));
    }
}

#[test]
fn a_window_beyond_half_the_psn_space_is_refused() {
    let parameters = |window_messages| proto::GroupParameters {
        ranks: 1,
        message_packets: 1 << 11,
        window_messages,
        ..Default::default()
    };
    assert!(decode_parameters(Some(parameters(1 << 11))).is_ok());
    for window in [0, (1 << 11) + 1, u32::MAX] {
        let error = decode_parameters(Some(parameters(window))).unwrap_err();
        assert_eq!(error.field, "parameters.window_messages");
    }
}

#[test]
fn what_an_unknown_version_says_is_refused_by_field() {
    let errors = [
        decode_instruction(proto::Instruction { kind: None }).unwrap_err(),
        decode_design(99).unwrap_err(),
        decode_mode(0).unwrap_err(),
        decode_report(None).unwrap_err(),
    ];
    assert_eq!(errors.map(|error| error.field), ["kind", "design", "mode", "report"]);
}

#[test]
fn an_error_says_what_was_expected_where_and_what_to_do() {
    let node = proto::NodeDescription { role: 1, address: "localhost".to_string(), ..Default::default() };
    assert_eq!(
        decode_node(node).unwrap_err().to_string(),
        "expected a dotted IPv4 address in the field address, found localhost; run the same version at both ends"
    );
}
