//! What each member of a plan is told, and roles as text.

use quincunx_collective::{GroupId, Rank};
use quincunx_design::{Connection, FabricKind, Member, Naming, Node, Peer, Plan, Role, Settings, SwitchPlan};
use quincunx_fabric::TreeNodeId;
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};

const SWITCH: Member = Member::Switch(TreeNodeId(9));

fn rank(rank: u16) -> Member {
    Member::Rank(Rank(rank))
}

/// A switch and two ranks; rank 1 is the switch's first neighbour.
fn plan() -> Plan {
    let role = |number: u8| Role::of(&number).unwrap();
    let connections =
        vec![Connection::new((SWITCH, 1), (rank(0), 0)), Connection::new((SWITCH, 0), (rank(1), 0))];
    Plan {
        switches: vec![SwitchPlan {
            node: TreeNodeId(9),
            role: role(9),
            memory: ByteCount::new(64),
            passes: vec![],
        }],
        remote_write: true,
        ..Plan::new(vec![role(0), role(1)], connections)
    }
}

fn naming() -> Naming {
    Naming {
        group: GroupId(7),
        design: "toy".to_string(),
        version: 3,
        settings: Settings::parse("{}").unwrap(),
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: Psn::new(0xff_ffff),
    }
}

/// Hands out queue pairs, counting up; addresses tell members apart.
fn endpoints() -> impl FnMut(Member) -> Endpoint {
    let mut next = 16;
    move |member| {
        next += 1;
        let last = match member {
            Member::Rank(rank) => rank.0 as u8,
            Member::Switch(node) => 100 + node.0 as u8,
        };
        Endpoint { ip: Gid::from([127, 0, 0, last]), qp: QpNumber::new(next) }
    }
}

#[test]
fn each_member_is_told_its_own_part_and_switches_come_first() {
    let told = plan().contexts(&naming(), |node| format!("s{}", node.0), endpoints());
    let members: Vec<_> = told.iter().map(|(member, _)| *member).collect();
    assert_eq!(members, [SWITCH, rank(0), rank(1)]);
    let nodes: Vec<_> = told.iter().map(|(_, context)| context.node).collect();
    assert_eq!(nodes, [Node::Switch, Node::Rank(Rank(0)), Node::Rank(Rank(1))]);
    let roles: Vec<u8> = told.iter().map(|(_, context)| context.role.get().unwrap()).collect();
    assert_eq!(roles, [9, 0, 1]);
    let memory: Vec<_> = told.iter().map(|(_, context)| context.memory.bytes()).collect();
    assert_eq!(memory, [64, 0, 0]);
    for (_, context) in &told {
        assert_eq!(
            (context.ranks, context.initial_psn, context.remote_write),
            (2, Psn::new(0xff_ffff), true)
        );
    }
}

#[test]
fn connections_stand_by_number_and_their_ends_meet() {
    let told = plan().contexts(&naming(), |node| format!("s{}", node.0), endpoints());
    let (switch, first, second) = (&told[0].1, &told[1].1, &told[2].1);
    let peers: Vec<_> = switch.connections.iter().map(|connection| connection.peer.clone()).collect();
    assert_eq!(peers, [Peer::Rank(Rank(1)), Peer::Rank(Rank(0))]);
    for (at_switch, at_rank) in switch.connections.iter().zip([second, first]) {
        let [at_rank] = &at_rank.connections[..] else { panic!("a rank has one: {at_rank:?}") };
        assert_eq!(at_rank.peer, Peer::Switch("s9".to_string()));
        assert_eq!((at_switch.local, at_switch.remote), (at_rank.remote, at_rank.local));
        assert_eq!(at_switch.local.ip, Gid::from([127, 0, 0, 109]), "the switch's own end is at the switch");
    }
}

#[test]
#[should_panic(expected = "numbered from zero, each once")]
fn a_design_that_numbers_two_connections_alike_is_at_fault() {
    let mut plan = plan();
    plan.connections[0].ends[0].index = 0;
    plan.contexts(&naming(), |_| String::new(), endpoints());
}

#[test]
fn in_a_full_mesh_every_rank_meets_the_others_in_rank_order() {
    let connections = Connection::full_mesh(4);
    assert_eq!(connections.len(), 6);
    for at in 0..4 {
        let mut met: Vec<_> = connections
            .iter()
            .filter_map(|connection| {
                let [a, b] = connection.ends;
                let ends = if a.member == rank(at) { Some((a, b)) } else { Some((b, a)) };
                ends.filter(|(near, _)| near.member == rank(at)).map(|(near, far)| (near.index, far.member))
            })
            .collect();
        met.sort_unstable();
        let others = (0..4).filter(|other| *other != at).map(rank);
        assert_eq!(met, (0..).zip(others).collect::<Vec<_>>());
    }
}

#[test]
fn a_role_is_read_back_as_it_is_printed_and_as_no_other_type() {
    let role = Role::of(&vec![1u8, 2]).unwrap();
    assert_eq!(Role::parse(&role.to_text()), Ok(role.clone()));
    assert_eq!(role.get::<Vec<u8>>(), Ok(vec![1, 2]));
    let error = role.get::<()>().unwrap_err().to_string();
    assert!(
        error.starts_with("expected a role of this design and version, found ") && !error.contains('\n'),
        "{error}"
    );
}

#[test]
fn a_role_that_is_no_json_is_refused_in_one_line() {
    for text in ["", "{", "nothing"] {
        let error = Role::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("expected a role as JSON, found ") && !error.contains('\n'), "{error}");
    }
}
