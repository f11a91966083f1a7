//! A frame counts by the port behind which its sender is, and by no other, whatever is written in it.

use quincunx_collective::{GroupId, Numbers};
use quincunx_design::{
    AnyDesign, ConnectionContext, FabricKind, GroupContext, Member, Naming, Peer, Placement, Value,
};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_epic::{EPIC_1, EPIC_2, EPIC_3};
use quincunx_fabric::IncTree;
use quincunx_nodes::{Host, HostCommand, NodeDrop, Switch, SwitchCommand, host_group, switch_group};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};

/// What a node says of a frame.
#[derive(Default)]
struct RecordingSink {
    sent: usize,
    dropped: Vec<NodeDrop>,
}

impl<E> Sink<E> for RecordingSink
where
    E: Engine<Header = RoceHeader, Payload = Numbers, DropReason = NodeDrop>,
{
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Numbers>) {
        self.sent += 1;
    }
    fn set_timer(&mut self, _: E::Timer, _: Duration) {}
    fn cancel_timer(&mut self, _: E::Timer) {}
    fn emit(&mut self, _: E::Event) {}
    fn drop_frame(&mut self, _: PortId, reason: NodeDrop) {
        self.dropped.push(reason);
    }
}

/// A group of two ranks at one switch.
fn contexts(design: &dyn AnyDesign) -> Vec<(Member, GroupContext)> {
    let tree = IncTree::from_shape(&"star-2".parse().unwrap());
    let mut settings = design.defaults();
    design.set(&mut settings, "group.mtu", &Value::from(64)).unwrap();
    let plan = design.plan(&settings, &Placement::new(2, Some(tree), ByteCount::new(1 << 10))).unwrap();
    let naming = Naming {
        group: GroupId(1),
        design: design.name().to_string(),
        version: design.about().version,
        settings,
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: Psn::new(0),
    };
    let mut next = 16;
    plan.contexts(
        &naming,
        |_| "switch".to_string(),
        |member| {
            next += 1;
            let last = match member {
                Member::Rank(rank) => rank.0 as u8 + 1,
                Member::Switch(_) => 100,
            };
            Endpoint { ip: Gid::from([10, 0, 0, last]), qp: QpNumber::new(next) }
        },
    )
}

fn header(source: Endpoint, destination: Endpoint) -> RoceHeader {
    RoceHeader::new(source.ip, destination.ip, destination.qp, Psn::new(0), Operation::SendOnlyImmediate(0))
}

fn hand<E>(node: &mut E, port: u16, header: &RoceHeader) -> RecordingSink
where
    E: Engine<Header = RoceHeader, Payload = Numbers, DropReason = NodeDrop>,
{
    let mut sink = RecordingSink::default();
    node.handle_frame(Instant::ZERO, PortId(port), Frame { header, payload: &[] }, &mut sink);
    node.assert_invariants();
    sink
}

#[test]
fn a_switch_drops_what_comes_by_another_port_than_its_neighbours() {
    for design in [&EPIC_1, &EPIC_2, &EPIC_3] {
        let (_, context) =
            contexts(design).into_iter().find(|(who, _)| matches!(who, Member::Switch(_))).unwrap();
        let Ok(mut switch) = Switch::<Numbers>::new(());
        let port = |connection: &ConnectionContext| match &connection.peer {
            Peer::Rank(rank) => PortId(rank.0),
            Peer::Switch(_) => unreachable!("it is alone"),
        };
        let group = switch_group(design, &context, None, port).unwrap();
        switch
            .handle_command(
                Instant::ZERO,
                SwitchCommand::Install(Box::new(group)),
                &mut RecordingSink::default(),
            )
            .unwrap();
        let before = switch.clone();
        for connection in &context.connections {
            let right = port(connection).0;
            let frame = header(connection.remote, connection.local);
            for other in (0..4).filter(|port| *port != right) {
                assert_eq!(hand(&mut switch, other, &frame).dropped, [NodeDrop::ForeignPort]);
                assert_eq!(switch, before, "nothing has changed");
            }
            assert!(!hand(&mut switch.clone(), right, &frame).dropped.contains(&NodeDrop::ForeignPort));
        }
    }
}

#[test]
fn a_host_drops_what_comes_by_another_port_than_its_switchs() {
    for (who, context) in contexts(&EPIC_2) {
        let Member::Rank(_) = who else { continue };
        let Ok(mut host) = Host::<Numbers>::new(());
        let group = host_group(&EPIC_2, &context, None, |_| PortId(1)).unwrap();
        host.handle_command(
            Instant::ZERO,
            HostCommand::Install(Box::new(group)),
            &mut RecordingSink::default(),
        )
        .unwrap();
        let before = host.clone();
        let frame = header(context.connections[0].remote, context.connections[0].local);
        assert_eq!(hand(&mut host, 0, &frame).dropped, [NodeDrop::ForeignPort]);
        assert_eq!(host, before, "nothing has changed");
        assert!(!hand(&mut host, 1, &frame).dropped.contains(&NodeDrop::ForeignPort));
    }
}

#[test]
fn what_passes_comes_from_where_its_sender_is() {
    let Ok(mut switch) = Switch::<Numbers>::new(());
    let end = |last| Endpoint { ip: Gid::from([10, 0, 0, last]), qp: QpNumber::new(17) };
    for port in [0, 1] {
        let route = SwitchCommand::Route { destination: end(1 + port as u8).ip, ports: vec![PortId(port)] };
        switch.handle_command(Instant::ZERO, route, &mut RecordingSink::default()).unwrap();
    }
    let frame = header(end(1), end(2));
    let forged = hand(&mut switch, 2, &frame);
    assert_eq!((forged.sent, forged.dropped), (0, vec![NodeDrop::ForeignPort]));
    let right = hand(&mut switch, 0, &frame);
    assert_eq!((right.sent, right.dropped), (1, vec![]));
}
