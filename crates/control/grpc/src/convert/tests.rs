//! What is encoded decodes to the same; what is wrong is refused; nothing panics.

use super::*;
use proptest::prelude::*;
use prost::Message;
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_control::{PathTarget, ProbePaths};
use quincunx_design::Value;
use quincunx_wire::Psn;
use std::net::IpAddr;

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    (any::<IpAddr>(), 0..=MAX_QPN).prop_map(|(ip, qp)| Endpoint { ip: ip.into(), qp: QpNumber::new(qp) })
}

fn any_peer() -> impl Strategy<Value = Peer> {
    prop_oneof![any::<u16>().prop_map(|rank| Peer::Rank(Rank(rank))), "\\PC{0,8}".prop_map(Peer::Switch)]
}

/// Documents as designs may have them: numbers, texts, lists, tables.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    prop::collection::btree_map("[a-z]{1,4}", any_value(), 0..4).prop_map(|map| {
        let map = Value::Object(map.into_iter().collect());
        Settings::parse(&map.to_string()).unwrap()
    })
}

fn any_fabric() -> impl Strategy<Value = FabricKind> {
    prop::sample::select(vec![FabricKind::Tree, FabricKind::Ring, FabricKind::Mesh, FabricKind::Servers])
}

prop_compose! {
    fn any_context()(
        (group, members, domains) in (any::<u32>(), 1u16..20, 1u16..5),
        (design, version, settings) in ("\\PC{0,8}", any::<u32>(), any_settings()),
        (rank, role) in (prop::option::of(any::<prop::sample::Index>()), any_value()),
        fabric in any_fabric(),
        psn in 0..=MAX_QPN,
        (remote_write, memory, memory_offset) in any::<(bool, u64, u64)>(),
        (credits, channels) in (any::<bool>(), 1u16..),
        connections in prop::collection::vec((any_endpoint(), any_endpoint(), any_peer()), 0..6),
        (contends, has_parent, patience) in any::<(bool, bool, u32)>(),
    ) -> GroupContext {
        let ranks = members * domains;
        let connection = |(local, remote, peer)| ConnectionContext { local, remote, peer };
        let connections: Vec<_> = connections.into_iter().map(connection).collect();
        let edges = connections.clone();
        let has_parent = has_parent && !edges.is_empty();
        let context = GroupContext {
            group: GroupId(group),
            design,
            version,
            settings,
            node: rank.map_or(Node::Switch, |rank| Node::Rank(Rank(rank.index(ranks.into()) as u16))),
            role: DesignRole::of(&role).unwrap(),
            ranks,
            fabric,
            domains,
            initial_psn: Psn::new(psn),
            remote_write,
            credits,
            channels,
            memory: ByteCount::new(memory),
            memory_offset: ByteCount::new(memory_offset),
            connections,
            contention: None,
        };
        let fallback = rank.map(|_| context.clone());
        let patience = Duration::from_micros(patience.into());
        let contention = contends.then(|| Box::new(Contention { fallback, edges, has_parent, patience }));
        GroupContext { contention, ..context }
    }
}

fn any_demand() -> impl Strategy<Value = Demand> {
    let length = || any::<u64>().prop_map(ByteCount::new);
    prop_oneof![
        length().prop_map(|longest| Demand::Vectors { longest }),
        (any::<u32>(), length()).prop_map(|(most, length)| Demand::Tokens { most, length }),
        (any::<u32>(), length()).prop_map(|(slots, length)| Demand::Writes { slots, length }),
    ]
}

fn any_phase() -> impl Strategy<Value = Option<Phase>> {
    let phase =
        ("\\PC{0,8}", any::<u16>(), 0u8..=100).prop_map(|(job, number, duty)| Phase { job, number, duty });
    prop::option::of(phase)
}

prop_compose! {
    fn any_request()(
        mesh in prop::sample::select(vec![None, Some("mesh-2x4"), Some("mesh-1x2")]),
        members in prop::collection::vec("\\PC{0,8}", 0..9),
        (design, version, settings) in ("\\PC{0,8}", any::<u32>(), any_settings()),
        (direct, cross) in (1u64.., 1u64..),
        demand in any_demand(),
        (lease, phase) in (prop::option::of(1u64..1_000_000_000_000), any_phase()),
        key in prop::option::of(any::<u128>()),
    ) -> GroupRequest {
        let rate = |bits| BitRate::new(bits).unwrap();
        GroupRequest {
            owner: String::new(),
            members,
            design,
            version,
            settings,
            mesh: mesh.map(|name| name.parse().unwrap()),
            rates: LinkRates { direct: rate(direct), cross: rate(cross) },
            demand,
            lease: lease.map(Duration::from_micros),
            phase,
            key,
        }
    }
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    prop_oneof![
        any_context().prop_map(|context| Instruction::Install(Box::new(context))),
        any::<u32>().prop_map(|group| Instruction::Ready(GroupId(group))),
        any::<u32>().prop_map(|group| Instruction::Remove(GroupId(group))),
        any::<u32>().prop_map(|group| Instruction::TellCalls(GroupId(group))),
        any::<u32>().prop_map(|group| Instruction::TellTimes(GroupId(group))),
        any::<u64>().prop_map(Instruction::TellPaths),
        any::<[u64; 3]>().prop_map(|bytes| {
            let [offset, length, to] = bytes.map(ByteCount::new);
            Instruction::MoveMemory(MovedBlock { from: Region { offset, length }, to })
        }),
        (any::<u64>(), any::<u32>(), proptest::collection::vec(any::<(u32, IpAddr, u8)>(), 0..4)).prop_map(
            |(run, own, targets)| {
                let target = |(number, address, share)| PathTarget { number, address, share };
                let targets = targets.into_iter().map(target).collect();
                Instruction::ProbePaths(Box::new(ProbePaths { run, own, targets }))
            }
        ),
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
    fn every_request_arrives_as_it_was_sent(wanted in any_request()) {
        let bytes = encode_request(&wanted).encode_to_vec();
        let received = proto::InitGroupRequest::decode(&bytes[..]).unwrap();
        prop_assert_eq!(decode_request(received), Ok(wanted));
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
            && let Ok(Instruction::Install(context)) = decode_instruction(received)
        {
            // The frame of what passes fits together; parameters and role the design looks at.
            prop_assert!(context.domains > 0 && context.ranks.is_multiple_of(context.domains));
            if let Node::Rank(rank) = context.node {
                prop_assert!(rank.0 < context.ranks);
            }
        }
    }

    #[test]
    fn every_node_description_arrives_as_it_was_sent(
        name in "\\PC{0,8}",
        (is_switch, is_ethernet) in any::<(bool, bool)>(),
        (ip, share, max_endpoints, memory) in any::<(IpAddr, u8, u32, u64)>(),
        cores in prop::collection::vec(any::<IpAddr>(), 0..3),
        designs in prop::collection::btree_set("\\PC{0,8}", 0..3),
        versions in prop::collection::btree_map("\\PC{0,8}", any::<u32>(), 0..3),
        (memory_unit, one_group_a_port, max_fan_in) in (1u64.., any::<bool>(), any::<u16>()),
        links in prop::collection::vec(("\\PC{0,8}", 1u16.., any::<u64>()), 0..3),
        queue_pairs in prop::collection::vec(0..1_u32 << 24, 0..3),
    ) {
        let role = if is_switch { Role::Switch } else { Role::Host };
        let (address, memory) = (ip, ByteCount::new(memory));
        let encapsulation = if is_ethernet { Encapsulation::Ethernet } else { Encapsulation::Udp };
        let links = links.into_iter().map(|(neighbour, parallel_links, rate)| {
            LinkReport { interface: None, neighbour, parallel_links, rate: BitRate::new(rate) }
        });
        let node = NodeDescription {
            role,
            share,
            cores,
            encapsulation,
            designs,
            versions,
            memory,
            memory_unit: ByteCount::new(memory_unit),
            one_group_a_port,
            max_fan_in: (max_fan_in > 0).then_some(max_fan_in),
            links: links.collect(),
            queue_pairs: queue_pairs.into_iter().map(QpNumber::new).collect(),
            ..NodeDescription::host(name, address, max_endpoints)
        };
        prop_assert_eq!(decode_node(encode_node(&node)), Ok(node));
    }
}

fn summary(state: GroupState, fallback: Option<Fallback>) -> GroupSummary {
    let [memory, offset] = [4096, 512].map(ByteCount::new);
    GroupSummary {
        group: GroupId(3),
        owner: "team".to_string(),
        design: "ring".to_string(),
        fallback,
        state,
        members: vec!["a".to_string(), "b".to_string()],
        switches: vec![Holding { node: "s".to_string(), endpoints: 2, memory, offset }],
        conflicts: 1,
        lease: Some(Duration::from_secs(3)),
        recreated: Some(RecreatedGroup {
            earlier: vec![GroupId(1), GroupId(2)],
            first: 7,
            failure: GroupFailure { node: "s".to_string(), reason: "gone".to_string() },
        }),
        shared: Some(vec![SharedMemory {
            switch: "s".to_string(),
            with: vec![GroupId(5)],
            uses: LockUse {
                granted: 3,
                refused: 2,
                in_vain: 1,
                held_by: Some(GroupId(5)),
                held: Duration::from_millis(7),
            },
            duty: Some(45),
        }]),
    }
}

#[test]
fn every_word_on_a_group_that_is_made_anew_arrives_as_it_was_sent() {
    let failure = GroupFailure { node: "s".to_string(), reason: "gone".to_string() };
    let suspend = Instruction::Suspend { group: GroupId(3), failure };
    let resume = Instruction::Resume { group: GroupId(4), from: GroupId(3), first: 1 << 40 };
    for instruction in [suspend, resume] {
        assert_eq!(decode_instruction(encode_instruction(&instruction)), Ok(instruction));
    }
}

#[test]
fn every_group_summary_arrives_as_it_was_sent() {
    let failure = GroupFailure { node: "a".to_string(), reason: "gone".to_string() };
    let text = |text: &str| text.to_string();
    let [needed, free, longest] = [3, 2, 1].map(ByteCount::new);
    let lease = Some(Duration::from_millis(1));
    let holders = vec![
        Claim { group: GroupId(1), what: text("1B"), lease },
        Claim { group: GroupId(2), what: text("2B"), lease: None },
    ];
    let (switch, members) = (text("s"), vec![text("a"), text("b")]);
    let (design, policy) = (text("epic-2"), text("edge-disjoint"));
    let fallbacks = [
        None,
        Some(Fallback::SwitchMemory {
            switch: switch.clone(),
            needed,
            free,
            longest,
            holders: holders.clone(),
        }),
        Some(Fallback::SwitchEndpoints {
            switch: switch.clone(),
            needed: 2,
            free: 1,
            holders: holders.clone(),
        }),
        Some(Fallback::FanIn { switch: switch.clone(), needed: 3, most: 2 }),
        Some(Fallback::PortTaken { switch, link: text("s - a"), holders: holders.clone() }),
        Some(Fallback::GroupQuota { owner: text("blue"), limit: 2, holders: holders.clone() }),
        Some(Fallback::MemoryQuota {
            owner: text("blue"),
            limit: free,
            wanted: needed,
            holders: holders.clone(),
        }),
        Some(Fallback::Draining {
            design: design.clone(),
            members: members.clone(),
            switches: vec![text("s")],
        }),
        Some(Fallback::OtherVersion { design: design.clone(), version: 5, nodes: vec![text("s")] }),
        Some(Fallback::NoTree { design, policy, members, holders }),
    ];
    let suspended = GroupState::Suspended(failure.clone());
    for state in [GroupState::Installing, GroupState::Ready, suspended, GroupState::Failed(failure)] {
        for fallback in &fallbacks {
            let group = summary(state.clone(), fallback.clone());
            assert_eq!(decode_group(encode_group(&group)), Ok(group));
        }
    }
}

#[test]
fn every_report_arrives_as_it_was_sent() {
    let reason = "x".to_string();
    let refused = Report::Refused { reason: reason.clone() };
    let suspended = Report::Suspended(Progress { complete: 7, repeats_from: 6 });
    let reports = [
        Report::Installed,
        refused,
        Report::DataPlaneFailed { reason: reason.clone() },
        Report::Corrupted { reason },
        Report::Removed,
        suspended,
        Report::Locked(LockUse {
            granted: 3,
            refused: 2,
            in_vain: 1,
            held_by: Some(GroupId(5)),
            held: Duration::from_micros(9),
        }),
        Report::Locked(LockUse::default()),
        Report::Released,
    ];
    for report in reports {
        assert_eq!(decode_report(Some(encode_report(report.clone()))), Ok(report));
    }
}

fn context() -> proto::GroupContext {
    proto::GroupContext {
        design: Some(proto::Design { name: "ring".to_string(), version: 1, parameters: "{}".to_string() }),
        node: Some(proto::group_context::Node::Rank(1)),
        role: "null".to_string(),
        ranks: 4,
        fabric: proto::Fabric::Tree.into(),
        domains: 2,
        ..Default::default()
    }
}

#[test]
fn a_context_that_does_not_fit_together_is_refused_by_field() {
    assert!(decode_context(context()).is_ok());
    let refused = |field: &str, change: &dyn Fn(&mut proto::GroupContext)| {
        let mut context = context();
        change(&mut context);
        let error = decode_context(context).unwrap_err();
        assert_eq!(error.field, field);
        assert!(!error.to_string().contains('\n'), "{error}");
    };
    refused("domains", &|context| context.domains = 0);
    refused("domains", &|context| context.domains = 3);
    refused("ranks", &|context| context.ranks = 1 << 16);
    refused("rank", &|context| context.node = Some(proto::group_context::Node::Rank(4)));
    refused("node", &|context| context.node = None);
    refused("role", &|context| context.role = "{".to_string());
    refused("design", &|context| context.design = None);
    refused("fabric", &|context| context.fabric = 0);
    refused("fabric", &|context| context.fabric = 99);
    refused("initial_psn", &|context| context.initial_psn = 1 << 24);
    for text in ["", "[]", "3", "null", "{\n"] {
        refused("design.parameters", &|context| {
            context.design.as_mut().unwrap().parameters = text.to_string();
        });
    }
}

#[test]
fn a_mesh_is_read_by_name_and_without_one_there_is_none() {
    let read = |mesh: &str| {
        let design = proto::Design { parameters: "{}".to_string(), ..Default::default() };
        decode_request(proto::InitGroupRequest {
            design: Some(design),
            mesh: mesh.to_string(),
            direct_rate: 1,
            cross_rate: 1,
            demand: Some(proto::init_group_request::Demand::Vectors(proto::Vectors { longest_bytes: 1 })),
            ..Default::default()
        })
    };
    assert_eq!(read("").unwrap().mesh, None);
    assert_eq!(read("mesh-2x4").unwrap().mesh.map(|mesh| mesh.ranks()), Some(8));
    for name in ["hexagon", "star-3", "mesh-", "mesh-2", "mesh-\n"] {
        let error = read(name).unwrap_err();
        assert_eq!(error.field, "mesh");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn what_a_node_has_arrives_as_it_was_sent() {
    let [offset, length] = [8, 16].map(ByteCount::new);
    let held = [None, Some(Region { offset, length })].map(|region| HeldGroup {
        group: GroupId(7),
        region,
        endpoints: [17, MAX_QPN].map(QpNumber::new).into(),
        is_released: region.is_none(),
    });
    assert_eq!(decode_held(held.iter().map(encode_held).collect()), Ok(held.to_vec()));
    let wrong = proto::HeldGroup { queue_pairs: vec![MAX_QPN + 1], ..Default::default() };
    assert_eq!(decode_held(vec![wrong]).unwrap_err().field, "held.queue_pairs");
}

#[test]
fn what_an_unknown_version_says_is_refused_by_field() {
    let errors = [
        decode_instruction(proto::Instruction { kind: None }).unwrap_err(),
        decode_design(None).unwrap_err(),
        decode_fabric(99).map(drop).unwrap_err(),
        decode_report(None).unwrap_err(),
    ];
    assert_eq!(errors.map(|error| error.field), ["kind", "design", "fabric", "report"]);
}

#[test]
fn a_node_says_what_its_frames_travel_in() {
    let node = proto::NodeDescription { role: 1, address: "10.0.0.1".to_string(), ..Default::default() };
    assert_eq!(
        decode_node(node).unwrap_err().to_string(),
        "expected UDP or Ethernet in the field encapsulation, found 0; run the same version at both ends"
    );
}

#[test]
fn an_error_says_what_was_expected_where_and_what_to_do() {
    let node = proto::NodeDescription {
        role: 1,
        encapsulation: 1,
        address: "localhost".to_string(),
        ..Default::default()
    };
    assert_eq!(
        decode_node(node).unwrap_err().to_string(),
        "expected an IP address in the field address, found localhost; run the same version at both ends"
    );
}
