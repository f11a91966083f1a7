//! What the design plans, and what it refuses.

use quincunx_collective::{Collective, GroupId, LengthOnly, Rank};
use quincunx_design::{
    AnyDesign, Connection, Context, FabricKind, Member, Naming, Parts, Placement, Plan, Refusal, SwitchPart,
};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_netreduce::{ConfigError, NETREDUCE, Shape};
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};

fn placement(tree: &str) -> Placement {
    let tree = IncTree::from_shape(&tree.parse().unwrap());
    Placement::new(tree.ranks(), Some(tree), ByteCount::new(4096))
}

fn plan(tree: &str, keys: &[(&str, u64)]) -> Result<Plan, Refusal> {
    let design: &dyn AnyDesign = &NETREDUCE;
    let mut settings = design.defaults();
    for &(key, value) in keys {
        design.set(&mut settings, key, &value.into()).unwrap();
    }
    design.plan(&settings, &placement(tree))
}

#[track_caller]
fn refused(tree: &str, keys: &[(&str, u64)], expected: &str) {
    let line = plan(tree, keys).unwrap_err().to_string();
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn it_runs_on_trees_and_offers_what_one_sum_makes() {
    let design: &dyn AnyDesign = &NETREDUCE;
    assert_eq!((design.name(), design.about().offers.len()), ("netreduce", 1));
    assert_eq!(design.collectives(FabricKind::Tree), [Collective::AllReduce, Collective::Barrier]);
}

#[test]
fn each_rank_writes_to_the_next_one_past_the_switch() {
    let plan = plan("star-3", &[]).unwrap();
    let to_next =
        |rank: u16, next: u16| Connection::new((Member::Rank(Rank(rank)), 0), (Member::Rank(Rank(next)), 1));
    assert_eq!(plan.connections, [to_next(0, 1), to_next(1, 2), to_next(2, 0)]);
    let [switch] = &plan.switches[..] else { panic!("one switch") };
    assert_eq!((switch.node, &switch.passes[..]), (TreeNodeId(0), &[0, 1, 2][..]));
    // Payloads of three ports and the sums, 512 places each of 1,024 bytes.
    assert_eq!(switch.memory, ByteCount::new(4 * 512 * 1024));
    assert!(plan.remote_write);
}

#[test]
fn the_switch_is_told_who_passes_in_the_order_of_the_ranks() {
    let design: &dyn AnyDesign = &NETREDUCE;
    let naming = Naming {
        group: GroupId(1),
        design: "netreduce".to_owned(),
        version: 1,
        settings: design.defaults(),
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: Psn::new(0),
    };
    let address = |member| match member {
        Member::Rank(rank) => Gid::from([10, 0, 0, rank.0 as u8]),
        Member::Switch(_) => Gid::from([10, 0, 1, 0]),
    };
    let mut qp = 16;
    let endpoint = |member| {
        qp += 1;
        Endpoint { ip: address(member), qp: QpNumber::new(qp) }
    };
    let told = plan("star-3", &[]).unwrap().contexts(&naming, |_| "switch".to_owned(), endpoint);
    let (_, context) = told.iter().find(|(member, _)| matches!(member, Member::Switch(_))).unwrap();
    let from: Vec<_> = context.connections.iter().map(|end| last_octet(end.remote.ip)).collect();
    let to: Vec<_> = context.connections.iter().map(|end| last_octet(end.local.ip)).collect();
    assert_eq!((from, to), (vec![0, 1, 2], vec![1, 2, 0]));
    let part = Parts::<LengthOnly>::switch_part(design, &Context::of(context)).unwrap();
    assert!(matches!(part.part, SwitchPart::Passing(_)));
}

#[test]
fn more_switches_or_ranks_than_one_switch_has_are_refused() {
    refused("tree-2x2", &[], "expected one switch with all hosts at it for netreduce");
    refused("star-17", &[], "expected 2 to 16 ranks for netreduce, found 17");
    assert!(plan("star-16", &[]).is_ok());
    let nowhere = Placement { tree: None, ..placement("star-2") };
    let design: &dyn AnyDesign = &NETREDUCE;
    assert!(design.plan(&design.defaults(), &nowhere).is_err());
}

#[test]
fn what_the_switch_has_no_buffers_for_is_refused() {
    refused("star-2", &[("group.window", 5)], "expected `group.window` of 4 messages at most");
    refused("star-2", &[("group.message", 129)], "expected `group.message` of 2 to 128 frames");
    refused("star-2", &[("group.message", 1)], "expected `group.message` of 2 to 128 frames");
    assert!(plan("star-2", &[("group.message", 2), ("group.window", 1)]).is_ok());
    assert!(plan("star-2", &[("aggregation.flows", 8), ("group.window", 8)]).is_ok());
    let design: &dyn AnyDesign = &NETREDUCE;
    let mut settings = design.defaults();
    design.set(&mut settings, "group.selective", &true.into()).unwrap();
    let line = design.plan(&settings, &placement("star-2")).unwrap_err().to_string();
    assert_eq!(
        line,
        "expected `group.selective` off, found on; leave it out: the switch takes frames in their order alone"
    );
}

#[test]
fn presets_and_drivers_leave_its_frames_alone() {
    let design: &dyn AnyDesign = &NETREDUCE;
    assert_eq!(design.about().pinned_keys, ["group.mtu", "group.message", "group.window"]);
}

#[test]
fn switches_have_two_to_sixteen_ports_and_room_for_something() {
    let shape = Shape::of_ports;
    for ports in [2, 8, 16] {
        assert_eq!(shape(ports).check(), Ok(()));
    }
    for found in [0, 1, 17] {
        assert_eq!(shape(found).check(), Err(ConfigError::Ports { found }));
    }
    let least = Shape { ports: 2, flows: 1, frames: 2, payload: 24 };
    assert_eq!((least.check(), least.places()), (Ok(()), 2));
    for (flows, frames) in [(0, 2), (1, 1)] {
        assert_eq!(Shape { flows, frames, ..least }.check(), Err(ConfigError::Buffers { flows, frames }));
    }
    for found in [20, 22, 25] {
        assert_eq!(Shape { payload: found, ..least }.check(), Err(ConfigError::Payload { found }));
    }
}

#[test]
fn rules_that_can_be_broken_are_known_by_name() {
    let design: &dyn AnyDesign = &NETREDUCE;
    assert!((design.about().model.mutations)(FabricKind::Tree).contains(&"forwards-unknown"));
    // Frames of a header and an element.
    assert!(design.about().model.smallest.contains(&("group.mtu", "24B")));
}

fn last_octet(address: Gid) -> u8 {
    address.octets()[15]
}
