//! In steady state, moving frames allocates nothing.

use crate::support::{Command, Config, Event, ToyCodec, Transfer, address};
use quincunx_driver_net::{Node, NodeOptions};
use quincunx_engine::{Engine, PortId};
use quincunx_sockets::{UdpOptions, UdpTransport};
use quincunx_units::Duration;

#[test]
fn a_transfer_on_a_warm_node_allocates_nothing() {
    let addresses = [address(0, 0), address(0, 1)];
    let [mut sender, mut receiver] = [0, 1].map(|host| {
        let config = Config { ports: 1, window: 64, ack_every: 16, retry: Duration::from_millis(1000) };
        let engine = Transfer::new(config).expect("a valid configuration");
        let transport = UdpTransport::open(addresses[host], UdpOptions::default()).expect("a free address");
        let codec = ToyCodec { peers: vec![addresses[1 - host]], tos: 0 };
        Node::new(engine, 1, codec, transport, NodeOptions::default()).expect("a node")
    });
    let mut transfer = || {
        sender.command(Command::Send { port: PortId(0), count: 1000, length: 1000 }).expect("port 0 exists");
        let mut left = 2;
        while left > 0 {
            sender.turn(Duration::from_micros(100)).expect("the sender works");
            receiver.turn(Duration::from_micros(100)).expect("the receiver works");
            while let Some(event) = sender.next_event() {
                left -= u32::from(matches!(event, Event::Sent(_)));
            }
            while let Some(event) = receiver.next_event() {
                left -= u32::from(matches!(event, Event::Received { .. }));
            }
        }
    };
    transfer();
    let counted = allocation_counter::measure(&mut transfer);
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert_eq!(receiver.statistics().received.frames, 2000, "both transfers passed without a loss");
}
