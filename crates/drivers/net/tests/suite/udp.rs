//! The loop over real UDP sockets on loopback: what arrives, what is counted, what waits.

use crate::support::{Command, Config, Event, Fault, ToyCodec, Transfer, address};
use quincunx_driver_net::{Direction, Dropped, Node, NodeError, NodeOptions, Observer, Phase};
use quincunx_engine::{Engine, PortId};
use quincunx_needs::{ipv6, need};
use quincunx_network::{Fate, FaultPlan, FaultRates};
use quincunx_sockets::{UdpOptions, UdpTransport};
use quincunx_units::{ByteCount, Duration, Instant};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const LIMIT: Duration = Duration::from_millis(20_000);

type ToyNode = Node<Transfer, ToyCodec, UdpTransport>;

fn config(ports: u16) -> Config {
    Config { ports, window: 64, ack_every: 16, retry: Duration::from_millis(20) }
}

/// A node whose engine takes nothing for lost on a machine that is busy: what it counts is exact.
fn patient(local: SocketAddr, peer: SocketAddr, udp: UdpOptions) -> ToyNode {
    open_with(
        Config { retry: Duration::from_secs(10), ..config(1) },
        local,
        &[peer],
        udp,
        NodeOptions::default(),
    )
}

fn open(local: SocketAddr, peers: &[SocketAddr], udp: UdpOptions, options: NodeOptions) -> ToyNode {
    open_with(config(peers.len() as u16), local, peers, udp, options)
}

fn open_with(
    config: Config,
    local: SocketAddr,
    peers: &[SocketAddr],
    udp: UdpOptions,
    options: NodeOptions,
) -> ToyNode {
    let engine = Transfer::new(config).expect("a valid configuration");
    let transport = UdpTransport::open(local, udp).expect("a free loopback address");
    let codec = ToyCodec { peers: peers.to_vec(), tos: 0 };
    Node::new(engine, peers.len() as u16, codec, transport, options).expect("a node")
}

fn pair(scene: u8, udp: UdpOptions) -> (ToyNode, ToyNode) {
    let (a, b) = (address(scene, 0), address(scene, 1));
    (patient(a, b, udp), patient(b, a, udp))
}

/// Turns both nodes until `receiver` has a whole transfer and `sender` knows it.
fn transfer(sender: &mut ToyNode, receiver: &mut ToyNode, count: u32, length: usize) -> (u32, u64) {
    sender.command(Command::Send { port: PortId(0), count, length }).expect("port 0 exists");
    let mut received = None;
    let mut sent = false;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while (received.is_none() || !sent) && std::time::Instant::now() < end {
        sender.turn(Duration::from_micros(100)).expect("the sender works");
        receiver.turn(Duration::from_micros(100)).expect("the receiver works");
        while let Some(event) = sender.next_event() {
            sent |= event == Event::Sent(PortId(0));
        }
        while let Some(event) = receiver.next_event() {
            if let Event::Received { frames, bytes, .. } = event {
                received = Some((frames, bytes));
            }
        }
    }
    assert!(sent, "every frame is acknowledged: {:?}", sender.statistics());
    received.expect("the transfer arrives")
}

#[test]
fn what_finds_room_is_kept_until_the_node_runs() {
    let sizes = UdpOptions { receive_buffer: ByteCount::new(64 << 10), ..UdpOptions::default() };
    let local = address(20, 0);
    let mut node = open(local, &[address(20, 1)], sizes, NodeOptions::default());
    let room = node.grow_receive_buffer(ByteCount::new(256 << 10)).expect("a socket that works");
    let sender = UdpSocket::bind(address(20, 1)).expect("a free loopback address");
    // A frame of 1 KiB takes less than 4 KiB of the kernel's memory.
    let frames = room.bytes() / (4 << 10);
    assert!(frames >= 64, "{room} are no more than before");
    for _ in 0..frames {
        sender.send_to(&[9; 1024], local).expect("room to send");
    }
    while node.statistics().received.frames < frames {
        let before = node.statistics().received.frames;
        node.serve(Duration::from_millis(5)).expect("the node works");
        assert!(node.statistics().received.frames > before, "{frames} frames, {before} came");
    }
}

#[test]
fn a_receive_buffer_never_shrinks() {
    let mut node = open(address(21, 0), &[address(21, 1)], UdpOptions::default(), NodeOptions::default());
    let before = node.grow_receive_buffer(ByteCount::new(0)).expect("a socket that works");
    assert_eq!(node.grow_receive_buffer(ByteCount::new(4 << 10)).expect("a socket that works"), before);
}

#[test]
fn frames_arrive_whole_and_in_order() {
    let (mut a, mut b) = pair(0, UdpOptions::default());
    assert_eq!(transfer(&mut a, &mut b, 500, 1000), (500, 500_000));
    assert!(b.dropped().is_empty(), "{:?}", b.dropped());
}

#[test]
fn equally_long_frames_share_a_datagram_both_ways() {
    let (mut a, mut b) = pair(1, UdpOptions::default());
    transfer(&mut a, &mut b, 512, 1000);
    let (sent, received) = (a.statistics().sent, b.statistics().received);
    assert_eq!((sent.frames, sent.bytes), (512, 512 * 1005));
    assert_eq!((received.frames, received.bytes), (512, 512 * 1005));
    assert!(a.statistics().merging);
    assert!(sent.datagrams <= 64, "windows of 64 go out merged: {sent:?}");
    assert!(received.datagrams <= 64, "and arrive merged: {received:?}");
}

#[test]
fn without_merging_every_frame_is_a_datagram_and_batches_share_a_system_call() {
    let plain = UdpOptions { merge_sent: 1, merge_received: false, ..UdpOptions::default() };
    let (mut a, mut b) = pair(2, plain);
    transfer(&mut a, &mut b, 512, 1000);
    let (sent, received) = (a.statistics().sent, b.statistics().received);
    assert_eq!((sent.datagrams, received.datagrams), (512, 512));
    assert!(sent.system_calls < 128, "{sent:?}");
}

#[test]
fn no_datagram_holds_more_frames_than_asked() {
    let (mut a, mut b) = pair(17, UdpOptions { merge_sent: 4, ..UdpOptions::default() });
    transfer(&mut a, &mut b, 128, 1000);
    assert_eq!(a.statistics().sent.datagrams, 32);
}

#[test]
fn a_turn_sends_so_much_and_then_looks_what_has_come() {
    let (local, peer) = (address(18, 0), address(18, 1));
    let wide = Config { window: 100_000, ..config(1) };
    let mut node = open_with(wide, local, &[peer], UdpOptions::default(), NodeOptions::default());
    node.command(Command::Send { port: PortId(0), count: 100_000, length: 100 }).expect("port 0 exists");
    UdpSocket::bind(peer).expect("the peer's address").send_to(&[9; 9], local).expect("loopback");
    while node.dropped().is_empty() {
        node.turn(Duration::ZERO).expect("a turn");
        assert!(node.statistics().sent.frames < 1000, "the frame that came is looked at soon");
    }
}

#[test]
fn merged_datagrams_are_split_for_a_receiver_that_does_not_merge() {
    let (a, b) = (address(3, 0), address(3, 1));
    let mut sender = patient(a, b, UdpOptions::default());
    let mut receiver = patient(b, a, UdpOptions { merge_received: false, ..UdpOptions::default() });
    transfer(&mut sender, &mut receiver, 128, 1000);
    assert_eq!(receiver.statistics().received.datagrams, 128);
    assert!(sender.statistics().sent.datagrams < 32);
}

#[test]
fn a_timer_fires_when_nothing_else_happens() {
    let mut node = open(address(4, 0), &[address(4, 1)], UdpOptions::default(), NodeOptions::default());
    node.command(Command::Alarm { after: Duration::from_millis(5) }).expect("an alarm");
    let event = node.run_until(LIMIT, Some).expect("the alarm comes");
    assert_eq!(event, Event::Alarm);
    assert_eq!(node.statistics().timers, 1);
}

#[test]
fn what_has_arrived_counts_before_a_timer_that_is_due() {
    let (a, b) = (address(20, 0), address(20, 1));
    let mut sender = open(a, &[b], UdpOptions::default(), NodeOptions::default());
    let mut receiver = patient(b, a, UdpOptions::default());
    let stranger = UdpSocket::bind(address(20, 2)).expect("a third address");
    sender.command(Command::Send { port: PortId(0), count: 2, length: 100 }).expect("port 0 exists");
    sender.turn(Duration::ZERO).expect("the sender works");
    // More than one look at the socket brings, and the acknowledge behind it.
    for _ in 0..500 {
        stranger.send_to(&[0; 40], a).expect("loopback");
    }
    receiver.run_until(LIMIT, Some).expect("the transfer arrives");
    receiver.serve(Duration::from_millis(1)).expect("the receiver works");
    // For longer than its time-out the sender does not run.
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(sender.run_until(LIMIT, Some).expect("the acknowledge"), Event::Sent(PortId(0)));
    assert_eq!((sender.engine().retries, sender.statistics().timers), (0, 0));
}

#[test]
fn a_node_that_is_flooded_fires_its_timers_all_the_same() {
    let local = address(21, 0);
    let mut node = open(local, &[address(21, 1)], UdpOptions::default(), NodeOptions::default());
    let stranger = UdpSocket::bind(address(21, 2)).expect("a third address");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = stranger.send_to(&[0; 40], local);
            }
        });
        node.command(Command::Alarm { after: Duration::from_millis(5) }).expect("an alarm");
        let event = node.run_until(LIMIT, Some);
        over.store(true, Ordering::Relaxed);
        assert_eq!(event.expect("the alarm comes"), Event::Alarm);
    });
}

#[test]
fn a_peer_that_is_not_there_costs_time_only() {
    let mut node = open(address(5, 0), &[address(5, 1)], UdpOptions::default(), NodeOptions::default());
    node.command(Command::Send { port: PortId(0), count: 10, length: 100 }).expect("port 0 exists");
    let limit = Duration::from_millis(100);
    let error = node.run_until(limit, Some).expect_err("nobody answers");
    assert!(matches!(error, NodeError::TimedOut { .. }), "{error}");
    assert!(node.engine().retries > 0, "the retry timer fired");
}

#[test]
fn a_refused_command_changes_nothing() {
    let mut node = open(address(6, 0), &[address(6, 1)], UdpOptions::default(), NodeOptions::default());
    let refused = node.command(Command::Send { port: PortId(7), count: 1, length: 1 });
    assert_eq!(
        refused.expect_err("there is one port").to_string(),
        "expected a port below 1, found 7; name a port of the node"
    );
}

#[test]
fn bytes_that_are_no_frame_are_counted_by_reason() {
    let (local, peer) = (address(7, 0), address(7, 1));
    let mut node = open(local, &[peer], UdpOptions::default(), NodeOptions::default());
    let peer = UdpSocket::bind(peer).expect("the peer's address");
    let stranger = UdpSocket::bind(address(7, 2)).expect("a third address");
    for bytes in [&b""[..], b"abc", &[9; 40]] {
        peer.send_to(bytes, local).expect("loopback");
    }
    stranger.send_to(&[0; 40], local).expect("loopback");
    node.serve(Duration::from_millis(20)).expect("strange bytes stop nobody");
    let counts: Vec<_> = node.dropped().iter().map(|(&reason, &count)| (reason, count)).collect();
    assert_eq!(
        counts,
        [
            (Dropped::Codec(Fault::Short), 2),
            (Dropped::Codec(Fault::UnknownKind), 1),
            (Dropped::Codec(Fault::UnknownPeer), 1)
        ]
    );
}

#[test]
fn slots_go_round_the_ports() {
    let peers = [address(8, 1), address(8, 2), address(8, 3)];
    let mut node = open(address(8, 0), &peers, UdpOptions::default(), NodeOptions::default());
    for port in 0..3 {
        node.command(Command::Send { port: PortId(port), count: 20, length: 100 }).expect("three ports");
    }
    node.turn(Duration::ZERO).expect("a turn");
    assert_eq!(node.engine().slots[..9], [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(node.statistics().sent.frames, 60);
    assert_eq!(node.statistics().sent.datagrams, 3, "interleaved destinations still merge");
}

#[test]
fn lost_duplicated_and_reordered_frames_are_made_good_by_the_protocol() {
    let (a, b) = (address(9, 0), address(9, 1));
    let faults = FaultRates {
        loss: "5%".parse().expect("a probability"),
        duplication: "2%".parse().expect("a probability"),
        reordering: "5%".parse().expect("a probability"),
        ..FaultRates::default()
    };
    let options = NodeOptions { faults, seed: 11, ..NodeOptions::default() };
    let mut sender = open(a, &[b], UdpOptions::default(), options.clone());
    let mut receiver = open(b, &[a], UdpOptions::default(), options);
    assert_eq!(transfer(&mut sender, &mut receiver, 300, 200), (300, 60_000));
    assert!(receiver.dropped()[&Dropped::InjectedLoss] > 0);
    assert!(sender.engine().retries > 0);
}

#[test]
fn the_same_seed_loses_the_same_arrivals() {
    let (local, peer) = (address(10, 0), address(10, 1));
    let survivors = || -> Vec<u8> {
        let faults = FaultRates { loss: "30%".parse().expect("a probability"), ..FaultRates::default() };
        let options = NodeOptions { faults, seed: 5, ..NodeOptions::default() };
        let mut node = open(local, &[peer], UdpOptions::default(), options);
        let peer = UdpSocket::bind(peer).expect("the peer's address");
        // What reaches the codec is counted by reason: odd arrivals are unknown kinds, even ones too short.
        let mut reached = Vec::new();
        for index in 0..100_usize {
            let bytes = if index % 2 == 0 { &[0; 3][..] } else { &[9; 9][..] };
            let before: u64 = lost(&node);
            peer.send_to(bytes, local).expect("loopback");
            let frames = node.statistics().received.frames;
            while node.statistics().received.frames == frames {
                node.turn(Duration::from_millis(100)).expect("a turn");
            }
            reached.push(u8::from(lost(&node) == before));
        }
        reached
    };
    let first = survivors();
    assert_eq!(first, survivors());
    assert!(first.contains(&0) && first.contains(&1));
}

fn lost(node: &ToyNode) -> u64 {
    node.dropped().get(&Dropped::InjectedLoss).copied().unwrap_or(0)
}

type Passed = (Direction, SocketAddr, SocketAddr, usize);

struct Tape(Arc<Mutex<Vec<Passed>>>);

impl Observer for Tape {
    fn observe(
        &mut self,
        _: Instant,
        direction: Direction,
        datagram: &quincunx_sockets::Datagram,
        bytes: &[u8],
    ) {
        self.0.lock().expect("one thread").push((
            direction,
            datagram.source,
            datagram.destination,
            bytes.len(),
        ));
    }
}

#[test]
fn an_observer_sees_every_frame_of_both_directions() {
    let (mut a, mut b) = pair(11, UdpOptions::default());
    let tape = Arc::new(Mutex::new(Vec::new()));
    a.set_observer(Some(Box::new(Tape(tape.clone()))));
    transfer(&mut a, &mut b, 16, 100);
    let tape = tape.lock().expect("one thread");
    let (here, there) = (a.local(), b.local());
    let sent = tape.iter().filter(|frame| **frame == (Direction::Sent, here, there, 105)).count();
    let received = tape.iter().filter(|frame| **frame == (Direction::Received, there, here, 5)).count();
    assert_eq!((sent, received, tape.len()), (16, 1, 17));
}

#[test]
fn the_type_of_service_travels_with_the_frame() {
    type_of_service_travels(address(12, 0), address(12, 1));
}

#[test]
fn over_ipv6_the_traffic_class_travels_with_the_frame() {
    need!(ipv6());
    let [local, peer] = on_ipv6_loopback();
    type_of_service_travels(local, peer);
}

#[test]
fn over_ipv6_equally_long_frames_travel_as_one_datagram_both_ways() {
    need!(ipv6());
    let [a, b] = on_ipv6_loopback();
    let (mut a, mut b) = (patient(a, b, UdpOptions::default()), patient(b, a, UdpOptions::default()));
    assert_eq!(transfer(&mut a, &mut b, 64, 1000), (64, 64_000));
    assert!(a.statistics().sent.datagrams < 16, "merged on the way out: {:?}", a.statistics());
    assert!(b.statistics().received.datagrams < 16, "and still merged on arrival: {:?}", b.statistics());
}

/// Two ports that are free on the one address of IPv6's loopback.
fn on_ipv6_loopback() -> [SocketAddr; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("[::1]:0").expect("loopback has an address of IPv6"));
    sockets.map(|socket| socket.local_addr().expect("it is bound"))
}

fn type_of_service_travels(local: SocketAddr, peer: SocketAddr) {
    let mut sender = open(local, &[peer], UdpOptions::default(), NodeOptions::default());
    sender.codec_mut().tos = 0x22;
    let seen = Arc::new(Mutex::new(Vec::new()));
    struct Tos(Arc<Mutex<Vec<u8>>>);
    impl Observer for Tos {
        fn observe(&mut self, _: Instant, _: Direction, datagram: &quincunx_sockets::Datagram, _: &[u8]) {
            self.0.lock().expect("one thread").push(datagram.tos);
        }
    }
    let mut receiver = open(peer, &[local], UdpOptions::default(), NodeOptions::default());
    receiver.set_observer(Some(Box::new(Tos(seen.clone()))));
    transfer(&mut sender, &mut receiver, 4, 100);
    assert_eq!(*seen.lock().expect("one thread"), [0x22, 0x22, 0x22, 0x22, 0], "four frames, and our answer");
}

#[test]
fn a_waker_ends_a_wait() {
    let mut node = open(address(13, 0), &[address(13, 1)], UdpOptions::default(), NodeOptions::default());
    node.turn(Duration::ZERO).expect("a turn");
    let waker = node.waker();
    let thread = std::thread::spawn(move || waker.wake());
    // Without the wake this would wait for an hour.
    node.turn(Duration::from_millis(3_600_000)).expect("a turn");
    thread.join().expect("the other thread ends");
}

#[test]
fn a_profile_accounts_for_all_phases_when_asked() {
    let (a, b) = (address(14, 0), address(14, 1));
    let options = NodeOptions { profile: true, ..NodeOptions::default() };
    let mut sender = open(a, &[b], UdpOptions::default(), options);
    let mut receiver = open(b, &[a], UdpOptions::default(), NodeOptions::default());
    transfer(&mut sender, &mut receiver, 200, 1000);
    let profile = sender.statistics().profile;
    for phase in [Phase::SystemCalls, Phase::Parse, Phase::Engine, Phase::Emit, Phase::Other] {
        assert!(profile.spent(phase) > Duration::ZERO, "{phase:?} in {profile:?}");
    }
    assert_eq!(receiver.statistics().profile.spent(Phase::Engine), Duration::ZERO, "not asked, not measured");
}

#[test]
fn a_frame_beyond_the_mtu_is_an_error_that_says_so() {
    let (mut node, _peer) = pair(15, UdpOptions::default());
    node.command(Command::Send { port: PortId(0), count: 1, length: 65_510 }).expect("port 0 exists");
    let error = node.turn(Duration::ZERO).expect_err("no datagram is that long").to_string();
    assert!(error.starts_with("expected to send a frame of 65515 bytes to 127."), "{error}");
    assert!(error.contains("MTU") && !error.contains('\n'), "{error}");
}

#[test]
fn an_address_in_use_is_refused_in_one_line() {
    let local = address(16, 0);
    let _first = UdpTransport::open(local, UdpOptions::default()).expect("a free address");
    let error = UdpTransport::open(local, UdpOptions::default()).err().expect("it is taken");
    let text = error.to_string();
    assert!(text.starts_with("expected a free UDP port at an address of this machine, found"), "{text}");
    assert!(text.contains(&local.to_string()) && !text.contains('\n'), "{text}");
}

#[test]
fn listed_frames_are_lost_on_the_way_and_sent_again() {
    let (mut a, mut b) = pair(40, UdpOptions::default());
    a.set_faults(address(40, 1), FaultPlan::listed([0, 9].map(|frame| (frame, Fate::Lost))), 0);
    let (frames, _) = transfer(&mut a, &mut b, 20, 100);
    assert_eq!(frames, 20);
    assert_eq!(a.dropped().get(&Dropped::InjectedLoss), Some(&2));
    assert!(a.engine().retries >= 1, "somebody noticed");
}

#[test]
fn listed_frames_are_doubled_on_the_way_and_taken_once() {
    let (mut a, mut b) = pair(41, UdpOptions::default());
    a.set_faults(address(41, 1), FaultPlan::listed([(3, Fate::DUPLICATED)]), 0);
    let (frames, _) = transfer(&mut a, &mut b, 20, 100);
    assert_eq!(frames, 20);
    assert_eq!(b.statistics().received.frames, 21);
}
