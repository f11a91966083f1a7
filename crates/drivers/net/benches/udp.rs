//! What the loop costs: packets a second over loopback, one by one, merged on the way out, merged both ways; the share of a
//! limited link that it fills (as root); and the time of a round trip, waiting in the kernel or spinning.
//! `cargo bench -p quincunx-driver-net --bench udp -- [words in the names of those wanted]`
//!
//! Two threads, one node each, a toy protocol without an invariant CRC or arithmetic: what remains is the driver and the
//! kernel.

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/suite/support/mod.rs"]
mod support;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use quincunx_driver_net::{Node, NodeOptions, Profile};
use quincunx_engine::{Engine, PortId};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_sockets::{UdpOptions, UdpTransport};
use quincunx_units::{BitRate, ByteCount, Duration};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use support::{Command, Config, Event, ToyCodec, Transfer, address};

const LIMIT: Duration = Duration::from_millis(120_000);

type ToyNode = Node<Transfer, ToyCodec, UdpTransport>;

fn open(scene: u8, host: u8, udp: UdpOptions, options: NodeOptions, window: u32) -> ToyNode {
    let (local, peer) = (address(scene, host), address(scene, 1 - host));
    let config = Config { ports: 1, window, ack_every: 32, retry: Duration::from_millis(50) };
    let engine = Transfer::new(config).expect("a valid configuration");
    let transport = UdpTransport::open(local, udp).expect("a free loopback address");
    Node::new(engine, 1, ToyCodec { peers: vec![peer], tos: 0 }, transport, options).expect("a node")
}

/// Processor time of the calling thread.
fn processor_time() -> std::time::Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has a clock").into()
}

/// Whether the words after `cargo bench -- ` ask for this one.
fn wanted(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

fn throughput(name: &str, udp: UdpOptions, length: usize, profile: bool) {
    if !wanted(name) {
        return;
    }
    let count = 400_000;
    let options = NodeOptions { profile, ..NodeOptions::default() };
    let (mut sender, mut receiver) = (open(0, 0, udp, options.clone(), 512), open(0, 1, udp, options, 512));
    let start = Instant::now();
    let (sent, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let begin = processor_time();
            receiver
                .run_until(LIMIT, |event| matches!(event, Event::Received { .. }).then_some(()))
                .expect("the transfer arrives");
            let busy = processor_time() - begin;
            receiver.serve(Duration::from_millis(100)).expect("the receiver works");
            busy
        });
        let sending = scope.spawn(|| {
            let begin = processor_time();
            sender.command(Command::Send { port: PortId(0), count, length }).expect("port 0 exists");
            sender
                .run_until(LIMIT, |event| matches!(event, Event::Sent(_)).then_some(()))
                .expect("the transfer is acknowledged");
            (processor_time() - begin, start.elapsed())
        });
        (sending.join().expect("the sender ends"), receiving.join().expect("the receiver ends"))
    });
    let (sender_busy, wall) = sent;
    let a_frame = |time: std::time::Duration| time.as_nanos() as f64 / f64::from(count);
    let busy = a_frame(sender_busy) + a_frame(received);
    let statistics = sender.statistics();
    println!(
        "{name:<28} {length:>5} B {:>9.0} frames/s {:>7.2} Gbit/s  sender {:>5.0} ns/frame  receiver {:>5.0} ns/frame  \
         {:>8.0} frames/s a core  {:>4.1} frames/datagram  {} retries",
        f64::from(count) / wall.as_secs_f64(),
        f64::from(count) * length as f64 * 8.0 / wall.as_secs_f64() / 1e9,
        a_frame(sender_busy),
        a_frame(received),
        1e9 / busy,
        statistics.sent.frames as f64 / statistics.sent.datagrams as f64,
        sender.engine().retries,
    );
    if profile {
        for (role, node) in [("sender", &sender), ("receiver", &receiver)] {
            let profile = node.statistics().profile;
            let shares = Profile::PHASES.map(|phase| {
                format!("{phase:?} {:.0}", profile.spent(phase).as_nanos() as f64 / f64::from(count))
            });
            println!("    {role}, ns/frame: {}", shares.join(", "));
        }
    }
}

fn report(name: &str, mut times: Vec<std::time::Duration>) {
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100].as_nanos() as f64 / 1e3;
    println!("{name:<44} round trip: median {:.1} us, p10 {:.1}, p99 {:.1}", at(50), at(10), at(99));
}

const ROUNDS: usize = 20_000;

/// Data and acknowledge through two whole nodes.
fn node_round_trip(name: &str, spin: Duration) {
    if !wanted(name) {
        return;
    }
    let options = NodeOptions { spin, ..NodeOptions::default() };
    let udp = UdpOptions::default();
    let (mut ping, mut pong) = (open(1, 0, udp, options.clone(), 1), open(1, 1, udp, options, 1));
    let over = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                pong.turn(Duration::from_millis(10)).expect("the node works");
                while pong.next_event().is_some() {}
            }
        });
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            ping.command(Command::Send { port: PortId(0), count: 1, length: 64 }).expect("port 0 exists");
            ping.run_until(LIMIT, |event| matches!(event, Event::Sent(_)).then_some(()))
                .expect("an answer comes");
            times.push(start.elapsed());
        }
        over.store(true, Ordering::Relaxed);
        times
    });
    report(name, times);
}

/// The same by bare sockets: `receive` waits for a datagram.
fn socket_round_trip(name: &str, nonblocking: bool, receive: fn(&UdpSocket, &mut [u8]) -> usize) {
    if !wanted(name) {
        return;
    }
    let open = |host| {
        let socket = UdpSocket::bind(address(2, host)).expect("a free loopback address");
        socket.set_nonblocking(nonblocking).expect("an option every socket has");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("an option every socket has");
        socket
    };
    let (ping, pong) = (open(0), open(1));
    let times = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 128];
            for _ in 0..ROUNDS {
                let length = receive(&pong, &mut bytes);
                pong.send_to(&bytes[..length], address(2, 0)).expect("loopback");
            }
        });
        let mut bytes = [0; 128];
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            ping.send_to(&bytes[..69], address(2, 1)).expect("loopback");
            receive(&ping, &mut bytes);
            times.push(start.elapsed());
        }
        times
    });
    report(name, times);
}

/// One host sends to another over a limited link: what share of the link's rate arrives as payload.
fn limited_link(mtu: u16, length: usize, window: u32, merge_sent: usize) {
    let name = "limited link";
    let rate = BitRate::new(500_000_000);
    if !wanted(name) {
        return;
    }
    let fabric = match NetnsFabric::new(Layout::star(2, mtu, rate)) {
        Ok(fabric) => fabric,
        Err(why) => return println!("{name}: skipped: {why}"),
    };
    let count = (50 << 20) / length as u32;
    let open = |host: usize| {
        let [local, peer] =
            [host, 1 - host].map(|host| SocketAddr::new(NetnsNode::Host(host).address(), support::PORT));
        fabric.enter(NetnsNode::Host(host)).expect("the namespace is there");
        let udp = UdpOptions { merge_sent, ..UdpOptions::default() };
        let config = Config { ports: 1, window, ack_every: 8, retry: Duration::from_millis(200) };
        let engine = Transfer::new(config).expect("a valid configuration");
        let transport = UdpTransport::open(local, udp).expect("the host's address");
        let codec = ToyCodec { peers: vec![peer], tos: 0 };
        Node::new(engine, 1, codec, transport, NodeOptions::default()).expect("a node")
    };
    let ready = Barrier::new(2);
    let (wall, retries, busy) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut node = open(1);
            ready.wait();
            node.run_until(LIMIT, |event| matches!(event, Event::Received { .. }).then_some(()))
                .expect("the transfer arrives");
            node.serve(Duration::from_millis(100)).expect("the receiver works");
        });
        let sending = scope.spawn(|| {
            let mut node = open(0);
            ready.wait();
            let (start, begin) = (Instant::now(), processor_time());
            node.command(Command::Send { port: PortId(0), count, length }).expect("port 0 exists");
            node.run_until(LIMIT, |event| matches!(event, Event::Sent(_)).then_some(()))
                .expect("the transfer is acknowledged");
            (start.elapsed(), node.engine().retries, processor_time() - begin)
        });
        sending.join().expect("the sender ends")
    });
    println!(
        "{name} MTU {mtu:>4}, frames of {length:>4} B, window {window:>3}, merging {merge_sent:>2}: {:>5.1} % of the link is \
         payload, sender busy {:>4.1} %, {retries} retries",
        f64::from(count) * length as f64 * 8.0 / wall.as_secs_f64() / 500e6 * 100.0,
        busy.as_secs_f64() / wall.as_secs_f64() * 100.0,
    );
}

/// A switch sends to all its hosts at once through its one socket: what share of every link's rate arrives as payload.
fn limited_star(hosts: u16, length: usize, window: u32, merge_sent: usize) {
    let name = "limited star";
    if !wanted(name) {
        return;
    }
    let layout = Layout::star(usize::from(hosts), 1500, BitRate::new(500_000_000));
    let fabric = match NetnsFabric::new(layout) {
        Ok(fabric) => fabric,
        Err(why) => return println!("{name}: skipped: {why}"),
    };
    let count = (20 << 20) / length as u32;
    let at = |place: NetnsNode| SocketAddr::new(place.address(), support::PORT);
    let open = |here: NetnsNode, peers: Vec<SocketAddr>| {
        fabric.enter(here).expect("the namespace is there");
        let ports = peers.len() as u16;
        // 128 KiB out for each link, as many as two have at least.
        let send_buffer = ByteCount::new(u64::from(ports.max(2)) * (128 << 10));
        let udp = UdpOptions { merge_sent, send_buffer, ..UdpOptions::default() };
        let config = Config { ports, window, ack_every: 8, retry: Duration::from_millis(200) };
        let engine = Transfer::new(config).expect("a valid configuration");
        let transport = UdpTransport::open(at(here), udp).expect("the place's address");
        Node::new(engine, ports, ToyCodec { peers, tos: 0 }, transport, NodeOptions::default())
            .expect("a node")
    };
    let ready = Barrier::new(usize::from(hosts) + 1);
    let (wall, retries, blocked) = std::thread::scope(|scope| {
        for host in 0..usize::from(hosts) {
            let (open, at, ready) = (&open, &at, &ready);
            scope.spawn(move || {
                let mut node = open(NetnsNode::Host(host), vec![at(NetnsNode::Switch(0))]);
                ready.wait();
                node.run_until(LIMIT, |event| matches!(event, Event::Received { .. }).then_some(()))
                    .expect("the transfer arrives");
                node.serve(Duration::from_millis(300)).expect("the receiver works");
            });
        }
        let sending = scope.spawn(|| {
            let peers = (0..usize::from(hosts)).map(|host| at(NetnsNode::Host(host))).collect();
            let mut node = open(NetnsNode::Switch(0), peers);
            ready.wait();
            let start = Instant::now();
            for port in 0..hosts {
                node.command(Command::Send { port: PortId(port), count, length }).expect("a port a host");
            }
            let mut left = hosts;
            node.run_until(LIMIT, |event| {
                left -= u16::from(matches!(event, Event::Sent(_)));
                (left == 0).then_some(())
            })
            .expect("the transfers are acknowledged");
            (start.elapsed(), node.engine().retries, node.statistics().send_blocked)
        });
        sending.join().expect("the sender ends")
    });
    println!(
        "{name} of {hosts}, frames of {length} B, window {window:>3}, merging {merge_sent:>2}: {:>5.1} % of every link is \
         payload, blocked {blocked} times, {retries} retries",
        f64::from(count) * length as f64 * 8.0 / wall.as_secs_f64() / 500e6 * 100.0,
    );
}

fn main() {
    // `cargo test` builds benchmarks and runs them without this argument: nothing to test.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let both = UdpOptions::default();
    let out = UdpOptions { merge_received: false, ..both };
    let none = UdpOptions { merge_sent: 1, ..out };
    for length in [1024, 4096] {
        throughput("one by one", none, length, false);
        throughput("merged out", out, length, false);
        throughput("merged both ways", both, length, false);
    }
    throughput("merged both ways, profiled", both, 1024, true);
    throughput("merged both ways, profiled", both, 4096, true);
    for (mtu, length) in [(1500, 1024), (9000, 4096)] {
        for window in [32, 64, 256] {
            for merge_sent in [1, 8, 64] {
                limited_link(mtu, length, window, merge_sent);
            }
        }
    }
    for window in [32, 128] {
        for merge_sent in [1, 8, 64] {
            limited_star(8, 1024, window, merge_sent);
        }
    }
    socket_round_trip("sockets, blocking receive with time-out", false, |socket, bytes| {
        socket.recv(bytes).expect("a datagram comes")
    });
    socket_round_trip("sockets, ppoll and receive", true, |socket, bytes| {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        ppoll(&mut fds, Some(TimeSpec::from_duration(std::time::Duration::from_secs(1))), None)
            .expect("a poll");
        socket.recv(bytes).expect("a datagram comes")
    });
    node_round_trip("nodes, waiting in the kernel", Duration::ZERO);
    node_round_trip("nodes, spinning 50 us", Duration::from_micros(50));
}
