//! What ranks of a mesh are told of each other and of windows, and what is refused.

use quincunx_collective::{Collective, GroupId, LengthOnly, Rank};
use quincunx_design::{
    AnyDesign, Context, Demand, FabricKind, GroupContext, LinkRates, Member, Naming, Parts, Peer, Placement,
    Plan, Refusal, Role, Value,
};
use quincunx_multiwrite::{DIRECT, MULTIWRITE, MultiWrite, UNICAST_MULTIPATH, WRITES};
use quincunx_units::{BitRate, ByteCount};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::net::Ipv4Addr;

const VECTORS: Demand = Demand::Vectors { longest: ByteCount::new(1 << 20) };

fn mesh(domains: u16, members: u16) -> Placement {
    let rate = BitRate::new(100_000_000).unwrap();
    Placement {
        domains,
        rates: LinkRates { direct: rate, cross: rate },
        ..Placement::new(domains * members, None, ByteCount::new(1 << 20))
    }
}

fn asked(placement: Placement, demand: Demand) -> Placement {
    Placement { demand, ..placement }
}

fn writes(slots: u32, length: u64) -> Demand {
    Demand::Writes { slots, length: ByteCount::new(length) }
}

fn plan(design: MultiWrite, placement: &Placement) -> Result<Plan, Refusal> {
    AnyDesign::plan(&design, &design.defaults(), placement)
}

fn contexts(design: MultiWrite, placement: &Placement) -> Vec<GroupContext> {
    let naming = Naming {
        group: GroupId(1),
        design: AnyDesign::name(&design).to_string(),
        version: 1,
        settings: design.defaults(),
        fabric: FabricKind::Mesh,
        domains: placement.domains,
        initial_psn: Psn::new(0),
    };
    let mut next = 16;
    let endpoint = |_: Member| {
        next += 1;
        Endpoint { ip: Gid::from(Ipv4Addr::LOCALHOST), qp: QpNumber::new(next) }
    };
    let told = plan(design, placement).unwrap().contexts(&naming, |_| String::new(), endpoint);
    told.into_iter().map(|(_, context)| context).collect()
}

#[test]
fn each_rank_has_a_connection_to_each_other_and_knows_the_domains() {
    for (index, context) in (0..).zip(contexts(MULTIWRITE, &mesh(2, 4))) {
        let peers: Vec<Peer> = context.connections.iter().map(|end| end.peer.clone()).collect();
        let others = (0..8).filter(|rank| *rank != index);
        assert_eq!(peers, others.map(|rank| Peer::Rank(Rank(rank))).collect::<Vec<_>>());
        assert_eq!((context.ranks, context.domains, context.remote_write), (8, 2, true));
    }
}

#[test]
fn with_links_of_one_rate_half_of_the_data_is_relayed() {
    // In thousandths.
    let relayed = |design| plan(design, &mesh(2, 4)).unwrap().relayed.map(|share| (share * 1000.0).round());
    assert_eq!(relayed(MULTIWRITE), Some(500.0));
    assert_eq!(relayed(UNICAST_MULTIPATH), Some(250.0));
    assert_eq!(relayed(DIRECT), Some(0.0));
    assert_eq!(plan(WRITES, &asked(mesh(2, 4), writes(4, 64))).unwrap().relayed, None);
}

#[test]
fn a_mesh_of_one_domain_is_enough_for_direct_and_for_writes() {
    assert!(plan(DIRECT, &mesh(1, 8)).is_ok());
    assert!(plan(WRITES, &asked(mesh(1, 8), writes(4, 64))).is_ok());
}

#[test]
fn what_no_mesh_can_do_is_refused_in_one_line() {
    let with = |key, value: Value| {
        let mut settings = MULTIWRITE.defaults();
        MULTIWRITE.set(&mut settings, key, &value)?;
        AnyDesign::plan(&MULTIWRITE, &settings, &mesh(2, 4))
    };
    let longest = |longest| asked(mesh(2, 4), Demand::Vectors { longest: ByteCount::new(longest) });
    let ranks = "expected 2 to 1024 ranks in domains of one size for";
    let window = "expected windows of up to 64GiB with a slot at least, found 8 ranks with ";
    let cases = [
        (plan(MULTIWRITE, &mesh(1, 1)), ranks),
        (plan(DIRECT, &mesh(1, 1025)), ranks),
        (plan(DIRECT, &Placement { domains: 3, ..mesh(2, 4) }), ranks),
        (
            plan(UNICAST_MULTIPATH, &mesh(1, 8)),
            "expected two domains at least for unicast-multipath, found 1",
        ),
        (plan(MULTIWRITE, &mesh(1, 8)), "expected two domains at least for multiwrite, found 1"),
        (
            plan(UNICAST_MULTIPATH, &mesh(8, 1)),
            "expected two ranks at least in a domain for unicast-multipath",
        ),
        (plan(MULTIWRITE, &longest(u64::MAX / 2)), window),
        (plan(WRITES, &asked(mesh(2, 4), writes(u32::MAX, 1 << 20))), window),
        (plan(WRITES, &asked(mesh(2, 4), writes(0, 64))), window),
        (plan(WRITES, &asked(mesh(2, 4), writes(4, 0))), window),
        (with("relay.piece", 0.into()), "expected `relay.piece` of a multiple of 4 bytes, found 0B"),
        (with("relay.piece", 6.into()), "expected `relay.piece` of a multiple of 4 bytes, found 6B"),
        (with("group.mtu", 5.into()), "expected `group.mtu` of a multiple of 4 bytes up to 4096, found 5B"),
    ];
    for (refused, expected) in cases {
        let line = refused.unwrap_err().to_string();
        assert!(line.starts_with(expected) && !line.contains('\n'), "{line}");
    }
}

/// What all ranks of two domains of four are told, with a parameter set.
fn role_with(design: MultiWrite, demand: Demand, key: &str, value: Value) -> String {
    let mut settings = design.defaults();
    design.set(&mut settings, key, &value).unwrap();
    let plan = AnyDesign::plan(&design, &settings, &asked(mesh(2, 4), demand)).unwrap();
    plan.ranks[0].to_text()
}

#[test]
fn a_slot_holds_a_full_message_unless_another_length_is_said() {
    let length = |key, value: Value| {
        let role = role_with(MULTIWRITE, VECTORS, key, value);
        let (_, length) = role.split_once("\"length\":\"").unwrap();
        length.split('"').next().unwrap().to_string()
    };
    assert_eq!(length("relay.piece", 512.into()), "512B");
    // Packets hold 4 KiB unless another length is said.
    let lengths = [1, 4].map(|packets| length("group.message", packets.into()));
    assert_eq!(lengths, ["4KiB", "16KiB"]);
}

#[test]
fn who_sends_tokens_by_direct_ways_alone_prepares_nothing() {
    let tokens = Demand::Tokens { most: 4, length: ByteCount::new(64) };
    let prepares = |design, demand| {
        let role = role_with(design, demand, "relay.preparation", "5us".into());
        role.contains("\"preparation\":\"5us\"")
    };
    let prepared = [(DIRECT, tokens), (MULTIWRITE, tokens), (MULTIWRITE, VECTORS)];
    assert_eq!(prepared.map(|(design, demand)| prepares(design, demand)), [false, true, true]);
}

#[test]
fn servers_exchange_tokens_and_meshes_gather() {
    let offered = |fabric| AnyDesign::collectives(&MULTIWRITE, fabric);
    assert_eq!(offered(FabricKind::Servers), [Collective::Dispatch, Collective::Combine]);
    assert_eq!(offered(FabricKind::Mesh), [Collective::AllGather, Collective::Barrier]);
    assert_eq!(AnyDesign::collectives(&WRITES, FabricKind::Mesh), []);
}

#[test]
fn a_rank_takes_no_role_that_no_plan_has() {
    for (design, demand) in [(MULTIWRITE, VECTORS), (WRITES, writes(4, 64))] {
        let good = contexts(design, &asked(mesh(2, 2), demand)).remove(1);
        assert!(Parts::<LengthOnly>::endpoint_part(&design, &Context::of(&good)).is_ok());
        let text = good.role.to_text();
        let field = |name: &str, value: &str| {
            let start = text.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
            // The value is a number, a text or the list of lists of ways.
            let end = match text.as_bytes()[start] {
                b'[' => start + text[start..].find("]]").unwrap() + 2,
                _ => start + text[start..].find([',', '}']).unwrap(),
            };
            format!("{}{value}{}", &text[..start], &text[end..])
        };
        let roles = [
            field("slots", "0"),
            field("slots", "4294967295"),
            field("slots", "-1"),
            field("length", "\"0B\""),
            field("length", "\"1099511627776B\""),
            field("ways", "[[]]"),
            field("ways", "[[9],[],[9],[9]]"),
            "null".to_string(),
            "[]".to_string(),
            "{}".to_string(),
        ];
        for role in roles {
            let context = GroupContext { role: Role::parse(&role).unwrap(), ..good.clone() };
            let refused = Parts::<LengthOnly>::endpoint_part(&design, &Context::of(&context));
            let line = refused.expect_err(&role).to_string();
            assert!(line.starts_with("expected ") && !line.contains('\n'), "{line}");
        }
    }
}

#[test]
fn a_rank_that_gathers_knows_a_way_to_each_that_it_gathers_with() {
    let good = contexts(MULTIWRITE, &mesh(2, 2)).remove(0);
    let without = good.role.to_text();
    let start = without.find("[[],").unwrap() + 4;
    let end = start + without[start..].find(']').unwrap() + 1;
    let role = Role::parse(&format!("{}[]{}", &without[..start], &without[end..])).unwrap();
    let context = GroupContext { role, ..good };
    let refused =
        Parts::<LengthOnly>::endpoint_part(&MULTIWRITE, &Context::of(&context)).unwrap_err().to_string();
    assert!(refused.starts_with("expected "), "{refused}");
}
