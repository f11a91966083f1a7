//! Ranks whose tables disagree, on real sockets: a bitmap that names an unknown rank ends the group where it arrives, and the write is never said to have ended.

use crate::common;
use crate::common::{HostNode, StaticGroup, address};
use quincunx_collective::{GroupId, Numbers, Rank};
use quincunx_design::{Demand, FabricKind, Member, Placement, Value};
use quincunx_driver_net::NodeOptions;
use quincunx_engine::verbs::{Failure, WorkId};
use quincunx_engine::writes::Target;
use quincunx_nodes::{HostCommand, HostEvent};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Endpoint, Psn};

const GROUP: GroupId = GroupId(1);

/// A group on a mesh, as one who takes it for that would have it.
fn group(domains: u16, members: u16) -> StaticGroup {
    let parameters = [
        ("group.mtu", Value::from(1024)),
        ("group.message", Value::from(1)),
        ("group.window", Value::from(4)),
        ("group.retry_timeout", Value::from("5ms")),
        ("group.retry_count", Value::from(5)),
    ];
    let writes = common::design("writes", FabricKind::Mesh, &parameters);
    let length = ByteCount::new(1024);
    let demand = Demand::Writes { slots: 1, length };
    let placement = Placement { domains, demand, ..Placement::new(domains * members, None, length) };
    StaticGroup::new(1, writes, (FabricKind::Mesh, &placement), Psn::new(0))
}

fn open(group: StaticGroup, rank: u16, at: u16) -> HostNode {
    common::host(&[group], address(at), Rank(rank), NodeOptions::default())
}

#[test]
fn a_bitmap_with_an_unknown_rank_ends_the_group_and_nothing_is_delivered() {
    let _alone = common::alone();
    // One takes itself for rank 0 of six; the one that it takes for rank 3, its partner, knows of two ranks alone.
    let (mut six, mut two) = (group(2, 3), group(1, 2));
    let far = &mut two.contexts.get_mut(&Member::Rank(Rank(1))).unwrap().connections[0];
    let near = &mut six.contexts.get_mut(&Member::Rank(Rank(0))).unwrap().connections[2];
    far.local.ip = address(3).into();
    near.remote = Endpoint { ip: address(3).into(), ..far.local };
    far.remote = near.local;
    let mut writer = open(six, 0, 0);
    let mut relay = open(two, 1, 3);
    let serving = std::thread::spawn(move || {
        let ended = relay.run_until(Duration::from_secs(20), Some).unwrap();
        relay.serve(Duration::from_millis(200)).unwrap();
        (ended, relay.next_event())
    });
    let targets = [1, 2].map(|rank| Target { rank: Rank(rank), slot: 0 }).to_vec();
    let data = Numbers::from(vec![7; 1024]);
    writer.command(HostCommand::Write { group: GROUP, id: WorkId(1), targets, way: 1, data }).unwrap();
    writer.serve(Duration::from_millis(500)).unwrap();
    let (ended, then) = serving.join().unwrap();
    let HostEvent::Failed { group: GROUP, failure: Failure::InvalidRequest, .. } = ended else {
        panic!("expected the end of the group, found {ended:?}");
    };
    assert_eq!(then, None, "nothing is delivered");
    // The relay's process reports that to the manager, which tells all; here nobody does.
    let written =
        std::iter::from_fn(|| writer.next_event()).find(|event| matches!(event, HostEvent::Written { .. }));
    assert_eq!(written, None, "nobody has it");
}
