//! The loop over namespaces with limited links. Needs root and iproute2; says so and passes without.

mod support;

use quincunx_driver_net::netns::{Fabric, Layout, Place, available, sweep};
use quincunx_driver_net::{Node, NodeOptions, Statistics, UdpOptions, UdpTransport};
use quincunx_engine::{Engine, PortId};
use quincunx_units::{BitRate, Duration};
use std::net::SocketAddrV4;
use std::process::Command as Process;
use std::sync::{Barrier, Mutex, MutexGuard};
use support::{Command, Config, Event, ToyCodec, Transfer};

/// Leave to use namespaces, one test at a time: a fabric in the making sweeps what another test left on purpose. None,
/// after saying why on the test's output, where there are no namespaces.
fn leave() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    match available() {
        Ok(()) => Some(ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn at(place: Place) -> SocketAddrV4 {
    SocketAddrV4::new(place.address(), support::PORT)
}

/// Sends `count` frames of `length` bytes between two places; returns both ends' statistics.
fn transfer(fabric: &Fabric, from: Place, to: Place, count: u32, length: usize) -> [Statistics; 2] {
    let ready = Barrier::new(2);
    let run = |here: Place, peer: Place, sends: bool| {
        fabric.enter(here).expect("the namespace is there");
        let config = Config { ports: 1, window: 64, ack_every: 8, retry: Duration::from_millis(20) };
        let engine = Transfer::new(config).expect("a valid configuration");
        let transport = UdpTransport::open(at(here), UdpOptions::default()).expect("the place's address");
        let codec = ToyCodec { peers: vec![at(peer)], tos: 0 };
        let mut node = Node::new(engine, 1, codec, transport, NodeOptions::default()).expect("a node");
        ready.wait();
        if sends {
            node.command(Command::Send { port: PortId(0), count, length }).expect("port 0 exists");
        }
        let limit = Duration::from_millis(30_000);
        let done = |event| match event {
            Event::Sent(_) if sends => Some((count, u64::from(count) * length as u64)),
            Event::Received { frames, bytes, .. } if !sends => Some((frames, bytes)),
            _ => None,
        };
        let result = node.run_until(limit, done).expect("the transfer ends");
        assert_eq!(result, (count, u64::from(count) * length as u64));
        if !sends {
            // The last acknowledge may need to be sent again.
            node.serve(Duration::from_millis(50)).expect("the receiver works");
        }
        *node.statistics()
    };
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| run(to, from, false));
        let sender = scope.spawn(|| run(from, to, true));
        [sender.join().expect("the sender ends"), receiver.join().expect("the receiver ends")]
    })
}

#[test]
fn hosts_and_switches_of_a_tree_reach_each_other() {
    let Some(_leave) = leave() else { return };
    let fabric = Fabric::new(Layout::two_level(2, 1, 1500, None)).expect("a tree");
    transfer(&fabric, Place::Host(0), Place::Host(1), 100, 1000);
    transfer(&fabric, Place::Host(0), Place::Switch(1), 100, 1000);
    transfer(&fabric, Place::Switch(2), Place::Switch(0), 100, 1000);
}

#[test]
fn merged_datagrams_pass_a_limited_link_without_loss() {
    let Some(_leave) = leave() else { return };
    let rate = BitRate::new(500_000_000);
    let fabric = Fabric::new(Layout::star(2, 1500, rate)).expect("a star");
    let [sent, received] = transfer(&fabric, Place::Host(0), Place::Host(1), 2000, 1400);
    assert!(sent.sent.datagrams < 500, "merged on the way out: {sent:?}");
    assert!(received.received.datagrams < 500, "and still merged on arrival: {received:?}");
    assert_eq!(sent.sent.frames, 2000, "nothing had to be sent twice");
}

#[test]
fn a_program_runs_at_its_place() {
    let Some(_leave) = leave() else { return };
    let fabric = Fabric::new(Layout::star(1, 1500, None)).expect("a star");
    let shown = fabric.command(Place::Host(0), "ip").args(["-o", "-4", "addr"]).output().expect("ip runs");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("10.77.0.1/24"), "{shown:?}");
}

#[test]
fn a_fabric_leaves_nothing_behind_and_the_dead_are_swept() {
    let Some(_leave) = leave() else { return };
    let listed = |name: &str| {
        let output = Process::new("ip").args(["netns", "list"]).output().expect("ip runs");
        String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == name)
    };
    let fabric = Fabric::new(Layout::star(1, 1500, None)).expect("a star");
    let name = fabric.namespace(Place::Host(0));
    assert!(listed(&name));
    drop(fabric);
    assert!(!listed(&name));
    // A process that has ended and been waited for is dead for certain.
    let mut gone = Process::new("true").spawn().expect("true runs");
    gone.wait().expect("true ends");
    let orphan = format!("qx{}x0h0", gone.id());
    assert!(Process::new("ip").args(["netns", "add", &orphan]).status().expect("ip runs").success());
    sweep().expect("ip works");
    assert!(!listed(&orphan));
}
