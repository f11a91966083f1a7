//! What a switch does with frames for others where there are several ways: a flow keeps one, flows take all, and a tree's keep to theirs.

use quincunx_collective::Numbers;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{NodeDrop, Switch, SwitchCommand, way_of_flow};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};

/// By which ports frames left, and which were dropped.
#[derive(Default)]
struct RecordingSink {
    sent: Vec<PortId>,
    dropped: Vec<NodeDrop>,
}

impl Sink<Switch<Numbers>> for RecordingSink {
    fn transmit(&mut self, port: PortId, _: Frame<'_, RoceHeader, Numbers>) {
        self.sent.push(port);
    }
    fn set_timer(&mut self, _: quincunx_nodes::SwitchTimer, _: Duration) {}
    fn cancel_timer(&mut self, _: quincunx_nodes::SwitchTimer) {}
    fn emit(&mut self, _: quincunx_nodes::SwitchEvent) {}
    fn drop_frame(&mut self, _: PortId, reason: NodeDrop) {
        self.dropped.push(reason);
    }
}

fn end(last: u8, qp: u32) -> Endpoint {
    Endpoint { ip: Gid::from([10, 0, 0, last]), qp: QpNumber::new(qp) }
}

fn end_v6(last: u8, qp: u32) -> Endpoint {
    let ip = Gid::from([0xfd77, 0, 0, 0, 0, 0, 0, last.into()]);
    Endpoint { ip, qp: QpNumber::new(qp) }
}

fn tell(switch: &mut Switch<Numbers>, command: SwitchCommand<Numbers>) {
    switch.handle_command(Instant::ZERO, command, &mut RecordingSink::default()).unwrap();
}

/// Host 1 behind port 0; host 2 behind ports 1 to 4.
fn switch() -> Switch<Numbers> {
    let Ok(mut switch) = Switch::<Numbers>::new(());
    for (last, ports) in [(1, 0..1), (2, 1..5)] {
        let ports = ports.map(PortId).collect();
        tell(&mut switch, SwitchCommand::Route { destination: end(last, 0).ip, ports });
    }
    switch
}

fn hand(switch: &mut Switch<Numbers>, port: u16, from: Endpoint, to: Endpoint) -> RecordingSink {
    let header = RoceHeader::new(from.ip, to.ip, to.qp, Psn::new(0), Operation::SendOnlyImmediate(0));
    let mut sink = RecordingSink::default();
    switch.handle_frame(Instant::ZERO, PortId(port), Frame { header: &header, payload: &[] }, &mut sink);
    sink
}

#[test]
fn flows_take_all_ways_and_each_keeps_its_own() {
    let mut switch = switch();
    let mut flows = [0; 5];
    for qp in 0..4000 {
        let taken = hand(&mut switch, 0, end(1, 0), end(2, qp)).sent;
        assert_eq!(hand(&mut switch, 0, end(1, 0), end(2, qp)).sent, taken, "a flow keeps its way");
        flows[usize::from(taken[0].0)] += 1;
    }
    // 1000 each, with a deviation of 27 where each is as likely.
    assert!(flows[0] == 0 && flows[1..].iter().all(|flows| (880..1120).contains(flows)), "{flows:?}");
}

#[test]
fn another_seed_is_another_choice() {
    let ways = |seed| (0..64).map(|qp| way_of_flow(seed, end(1, 0).ip, end(2, qp), 4)).collect::<Vec<_>>();
    assert_eq!(ways(7), ways(7));
    let same = ways(7).iter().zip(ways(8)).filter(|(a, b)| *a == b).count();
    assert!((4..32).contains(&same), "16 of 64 by chance, found {same}");
    let mut seeded = switch();
    tell(&mut seeded, SwitchCommand::HashSeed(8));
    let found: Vec<usize> =
        (0..64).map(|qp| usize::from(hand(&mut seeded, 0, end(1, 0), end(2, qp)).sent[0].0) - 1).collect();
    assert_eq!(found, ways(8));
}

#[test]
fn the_ends_the_way_back_and_the_queue_pair_are_the_flow() {
    for end in [end, end_v6] {
        let differing = |other: &dyn Fn(u32) -> (Endpoint, Endpoint)| {
            let differs = |qp: &u32| {
                let (from, to) = other(*qp);
                way_of_flow(1, end(1, 0).ip, end(2, *qp), 4) != way_of_flow(1, from.ip, to, 4)
            };
            (0..200).filter(differs).count()
        };
        for (what, count) in [
            ("source", differing(&|qp| (end(3, 0), end(2, qp)))),
            ("destination", differing(&|qp| (end(1, 0), end(3, qp)))),
            ("way back", differing(&|qp| (end(2, 0), end(1, qp)))),
            ("queue pair", differing(&|qp| (end(1, 0), end(2, qp + 1000)))),
        ] {
            assert!((110..190).contains(&count), "{what}: 150 of 200 by chance, found {count}");
        }
    }
}

#[test]
fn a_sender_may_come_by_any_way_to_it_and_by_no_other_port() {
    let mut switch = switch();
    for port in 0..6 {
        let sink = hand(&mut switch, port, end(2, 0), end(1, 9));
        let expected: (&[PortId], &[NodeDrop]) =
            if (1..5).contains(&port) { (&[PortId(0)], &[]) } else { (&[], &[NodeDrop::ForeignPort]) };
        assert_eq!((&sink.sent[..], &sink.dropped[..]), expected, "port {port}");
    }
}

#[test]
fn a_pinned_flow_comes_and_goes_by_its_ports_and_others_as_before() {
    let mut switch = switch();
    let hashed = hand(&mut switch, 0, end(1, 0), end(2, 5)).sent[0].0;
    let to = PortId(if hashed == 3 { 4 } else { 3 });
    tell(&mut switch, SwitchCommand::Pin { destination: end(2, 5), from: PortId(7), to });
    assert_eq!(hand(&mut switch, 7, end(1, 0), end(2, 5)).sent, [to]);
    assert_eq!(hand(&mut switch, 0, end(1, 0), end(2, 5)).dropped, [NodeDrop::ForeignPort]);
    assert_eq!(hand(&mut switch, 7, end(1, 0), end(2, 6)).dropped, [NodeDrop::ForeignPort]);
    assert_eq!(hand(&mut switch, 0, end(1, 0), end(2, 6)).dropped, []);
}
