//! What forwarding costs: frames a second from one cable to another through a switch's ports, and processor time for each, by packet sockets, by
//! XDP sockets and by the kernel's bridge, in turns. Needs root.
//! `cargo bench -p quincunx-driver-net --bench ports -- [rounds]`
//!
//! A host sends as fast as it can, in frames of a length; what the switch does not take is lost. The kernel does what belongs to receiving a
//! frame while the sender sends it, so the time of the sender's thread is told, too. The least times and the most frames of all rounds are shown.

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/suite/support/mod.rs"]
mod support;

use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use nix::unistd::{Pid, gettid};
use quincunx_driver_net::{Node, NodeOptions};
use quincunx_engine::Engine;
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_ports::{PortSockets, PortsOptions, PortsTransport};
use quincunx_units::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;
use support::{Config, ToyCodec, Transfer};

const SWITCH: NetnsNode = NetnsNode::Switch(0);
const TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// Length of frames and MTU of links, in bytes.
const LENGTHS: [(usize, u16); 3] = [(64, 1500), (1024, 1500), (9000, 9000)];

/// What forwards.
#[derive(Clone, Copy)]
enum Kind {
    Ports(PortSockets),
    Bridge,
}

const KINDS: [(&str, Kind); 3] = [
    ("packet sockets", Kind::Ports(PortSockets::Packet)),
    ("XDP sockets", Kind::Ports(PortSockets::Xdp)),
    ("kernel's bridge", Kind::Bridge),
];

/// Of one round.
#[derive(Clone, Copy)]
struct Measured {
    forwarded: f64,
    /// Nanoseconds of the switch's thread for a frame that was forwarded, and of the sender's for one sent.
    switch: f64,
    sender: f64,
}

/// Processor time of a thread of this process.
fn time_of(thread: Pid) -> std::time::Duration {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).expect("it is told");
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    std::time::Duration::from_nanos(nanos)
}

/// Runs something in a thread of its own at a node.
fn there<R: Send>(fabric: &NetnsFabric, node: NetnsNode, act: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            fabric.enter(node).expect("the namespace is there");
            act()
        });
        done.join().expect("it ends")
    })
}

/// A host's cable.
struct Cable(OwnedFd, LinkAddr);

impl Cable {
    fn of(fabric: &NetnsFabric, host: usize) -> Self {
        there(fabric, NetnsNode::Host(host), || {
            let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).expect("root");
            let mut all =
                nix::ifaddrs::getifaddrs().expect("interfaces").filter(|it| it.interface_name == "eth0");
            Self(socket, all.find_map(|it| it.address?.as_link_addr().copied()).expect("its address"))
        })
    }

    /// A frame that the kernel has no room for now is not sent.
    fn send(&self, frame: &[u8]) -> bool {
        sendto(self.0.as_raw_fd(), frame, &self.1, MsgFlags::empty()).is_ok()
    }
}

/// A frame of a type for experiments, between stations that are none of the hosts.
fn frame(from: u8, to: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![0x06, 0, 0, 0, 0, to, 0x06, 0, 0, 0, 0, from, 0x88, 0xb5];
    // An MTU does not count the 14 bytes before it.
    frame.resize(length.max(14), 0);
    frame
}

fn received(fabric: &NetnsFabric) -> u64 {
    let mut command = fabric.command(NetnsNode::Host(1), "cat");
    let done = command.arg("/sys/class/net/eth0/statistics/rx_packets").output().expect("cat runs");
    String::from_utf8_lossy(&done.stdout).trim().parse().expect("a number")
}

/// Sends for a while; how many frames went, the time that took, and the thread's own.
fn send(fabric: &NetnsFabric, length: usize) -> (u64, std::time::Duration, std::time::Duration) {
    let cables = [0, 1].map(|host| Cable::of(fabric, host));
    // The switch hears where the other station is.
    cables[1].send(&frame(2, 1, 64));
    thread::sleep(TIME / 20);
    let (frame, mut count) = (frame(1, 2, length), 0_u64);
    let (start, begin) = (Instant::now(), time_of(gettid()));
    while start.elapsed() < TIME {
        count += (0..64).filter(|_| cables[0].send(&frame)).count() as u64;
    }
    (count, start.elapsed(), time_of(gettid()) - begin)
}

/// One round: `switch` says what its thread has taken so far.
fn measure(fabric: &NetnsFabric, length: usize, switch: impl Fn() -> std::time::Duration) -> Measured {
    let (before, begin) = (received(fabric), switch());
    let (sent, wall, sender) = send(fabric, length);
    // What waits in sockets is forwarded, too.
    thread::sleep(TIME / 10);
    let (forwarded, switch) = ((received(fabric) - before) as f64, switch() - begin);
    Measured {
        forwarded: forwarded / wall.as_secs_f64(),
        switch: switch.as_nanos() as f64 / forwarded,
        sender: sender.as_nanos() as f64 / sent as f64,
    }
}

fn by_ports(fabric: &NetnsFabric, sockets: PortSockets, length: usize) -> Measured {
    let (stop, (told, tells)) = (AtomicBool::new(false), channel());
    let stop = &stop;
    thread::scope(|scope| {
        scope.spawn(move || {
            fabric.enter(SWITCH).expect("the namespace is there");
            let at = |node: NetnsNode| SocketAddr::new(node.address(), support::PORT);
            let options = PortsOptions::new(vec!["h0".into(), "h1".into()], 24);
            let transport =
                PortsTransport::open(at(SWITCH), &PortsOptions { sockets, ..options }).expect("ports");
            let config = Config { ports: 1, window: 1, ack_every: 1, retry: Duration::from_millis(100) };
            let engine = Transfer::new(config).expect("a valid configuration");
            let codec = ToyCodec { peers: vec![at(NetnsNode::Host(0))], tos: 0 };
            // It sleeps where it has nothing to do.
            let options = NodeOptions { spin: Duration::ZERO, ..NodeOptions::default() };
            let mut node = Node::new(engine, 1, codec, transport, options).expect("a node");
            told.send(gettid()).expect("somebody listens");
            while !stop.load(Ordering::Relaxed) {
                node.turn(Duration::from_millis(5)).expect("it works");
            }
        });
        let thread = tells.recv().expect("the switch starts");
        let measured = measure(fabric, length, || time_of(thread));
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let rounds: usize = words.next().map_or(5, |word| word.parse().expect("how many rounds"));
    println!("{:>6} {:<16} {:>10} {:>18} {:>18}", "B", "", "frames/s", "switch ns/frame", "sender ns/frame");
    for (length, mtu) in LENGTHS {
        let fabrics = [Layout::star(2, mtu, None).ports(), Layout::star(2, mtu, None).bridged()];
        let [ports, bridge] = match fabrics.map(NetnsFabric::new) {
            [Ok(ports), Ok(bridge)] => [ports, bridge],
            [Err(why), _] | [_, Err(why)] => return println!("{why}"),
        };
        let mut best =
            [Measured { forwarded: 0.0, switch: f64::INFINITY, sender: f64::INFINITY }; KINDS.len()];
        for _ in 0..rounds {
            for (best, (_, kind)) in best.iter_mut().zip(KINDS) {
                let found = match kind {
                    Kind::Ports(sockets) => by_ports(&ports, sockets, length),
                    Kind::Bridge => measure(&bridge, length, || std::time::Duration::ZERO),
                };
                *best = Measured {
                    forwarded: best.forwarded.max(found.forwarded),
                    switch: best.switch.min(found.switch),
                    sender: best.sender.min(found.sender),
                };
            }
        }
        for (Measured { forwarded, switch, sender }, (name, _)) in best.iter().zip(KINDS) {
            // A bridge has no thread.
            let switch = if *switch > 0.0 { format!("{switch:.0}") } else { "-".to_owned() };
            println!("{length:>6} {name:<16} {forwarded:>10.0} {switch:>18} {sender:>18.0}");
        }
    }
}
