//! What several processes at one address get: each its own frames, whoever comes and goes.

use super::MAX_SHARES;
use crate::inbox::{Datagram, Inbox};
use crate::transport::{OpenError, Transport as _};
use crate::udp::{UdpOptions, UdpTransport};
use crate::{handover, sys};
use nix::libc;
use nix::sys::socket::{getsockopt, sockopt};
use proptest::prelude::*;
use quincunx_needs::{ipv6, need, root};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier};

/// Where frames of these tests say whose they are.
const AT: usize = 2;

/// Bytes of each.
const LENGTH: usize = 8;

/// An address of loopback that no other test has.
fn address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    SocketAddr::new(IpAddr::from([127, high, low, NEXT.fetch_add(1, Ordering::Relaxed)]), 4791)
}

fn try_open(local: SocketAddr) -> Result<UdpTransport, OpenError> {
    UdpTransport::open(local, UdpOptions { shared_by: Some(AT), ..UdpOptions::default() })
}

fn open(local: SocketAddr) -> UdpTransport {
    try_open(local).expect("an address to share")
}

/// A frame for the process with that share.
fn frame(share: u8, number: u8) -> [u8; LENGTH] {
    let mut frame = [number; LENGTH];
    frame[AT] = share;
    frame
}

/// All that has come to a process.
fn received(transport: &mut UdpTransport) -> Vec<(Datagram, Vec<u8>)> {
    let mut inbox = Inbox::new(4);
    let mut all = Vec::new();
    while transport.receive(&mut inbox, false).is_ok_and(|count| count > 0) {
        while let Some((datagram, bytes)) = inbox.next_frame() {
            all.push((*datagram, bytes.to_vec()));
        }
    }
    all
}

fn frames(transport: &mut UdpTransport) -> Vec<Vec<u8>> {
    received(transport).into_iter().map(|(_, bytes)| bytes).collect()
}

/// Sends a frame to each of them, and asserts that it gets that one alone.
fn assert_steered(local: SocketAddr, transports: &mut BTreeMap<u8, UdpTransport>) {
    let peer = UdpSocket::bind((local.ip(), 0)).expect("a port");
    for number in 0..2 {
        for share in transports.keys() {
            peer.send_to(&frame(*share, number), local).expect("loopback");
        }
    }
    for (share, transport) in transports.iter_mut() {
        assert_eq!(frames(transport), [0, 1].map(|number| frame(*share, number).to_vec()), "share {share}");
        assert_eq!(transport.handed_over(), 0, "the kernel picks the socket");
    }
}

/// The kernel then looks up a frame's socket as it does for anybody else, which is what a rank with an address of its own pays for.
#[test]
fn the_kernel_asks_whose_a_frame_is_from_the_second_process_on() {
    let local = address();
    let asks = |transport: &UdpTransport| getsockopt(&transport.socket(), sockopt::ReusePort).unwrap();
    let first = open(local);
    assert!(!asks(&first));
    let second = open(local);
    assert!(asks(&first) && asks(&second));
}

fn open_many(local: SocketAddr, count: u8) -> BTreeMap<u8, UdpTransport> {
    (0..count).map(|_| open(local)).map(|transport| (transport.share(), transport)).collect()
}

#[test]
fn each_process_at_an_address_gets_the_frames_that_name_it() {
    let local = address();
    let mut transports = open_many(local, 5);
    assert!(transports.keys().copied().eq(0..5));
    assert_steered(local, &mut transports);
}

#[test]
fn processes_share_an_address_of_ipv6() {
    need!(ipv6());
    // Of the one address there is, a port that no other process has.
    let port = UdpSocket::bind("[::1]:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let local = SocketAddr::new("::1".parse().expect("an address"), port);
    let mut transports = open_many(local, 3);
    assert_steered(local, &mut transports);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A number opens a socket, or closes that one of those there are.
    #[test]
    fn whoever_comes_and_goes_the_others_frames_stay_theirs(steps in prop::collection::vec(0..12_usize, 1..16)) {
        let local = address();
        let mut transports = BTreeMap::new();
        for step in steps {
            match transports.keys().nth(step).copied() {
                Some(share) => drop(transports.remove(&share)),
                None => {
                    let transport = open(local);
                    let free = (0..MAX_SHARES).find(|share| !transports.contains_key(share)).expect("a free one");
                    prop_assert_eq!(transport.share(), free);
                    transports.insert(free, transport);
                }
            }
            assert_steered(local, &mut transports);
        }
    }
}

#[test]
fn processes_that_start_at_once_have_a_share_each() {
    let local = address();
    for _ in 0..10 {
        let all_there = Arc::new(Barrier::new(8));
        let start = |_| {
            let all_there = Arc::clone(&all_there);
            std::thread::spawn(move || {
                all_there.wait();
                open(local)
            })
        };
        let threads: Vec<_> = (0..8).map(start).collect();
        let opened = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        let mut transports: BTreeMap<_, _> = opened.map(|transport| (transport.share(), transport)).collect();
        assert!(transports.keys().copied().eq(0..8));
        assert_steered(local, &mut transports);
    }
}

#[test]
fn who_takes_the_share_of_another_gets_nothing_that_was_that_one_s() {
    let local = address();
    let mut transports = open_many(local, 3);
    let peer = UdpSocket::bind((local.ip(), 0)).expect("a port");
    peer.send_to(&frame(1, 7), local).expect("loopback");
    drop(transports.remove(&1));
    peer.send_to(&frame(1, 8), local).expect("loopback");
    let mut again = open(local);
    assert_eq!(again.share(), 1);
    assert_eq!(frames(&mut again), Vec::<Vec<u8>>::new());
    transports.insert(1, again);
    assert_steered(local, &mut transports);
}

#[test]
fn frames_that_came_as_one_datagram_reach_those_that_they_are_for() {
    let local = address();
    let mut transports = open_many(local, 3);
    let peer = UdpSocket::bind((local.ip(), 0)).expect("a port");
    sys::set_option(peer.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, LENGTH as i32).expect("segmentation");
    let shares = [1, 1, 0, 2, 1, 0, 9, 2, 2];
    let all: Vec<_> = (1..).zip(shares).map(|(number, share)| frame(share, number).to_vec()).collect();
    peer.send_to(&all.concat(), local).expect("loopback");
    let of =
        |shares: &[u8]| all.iter().filter(|frame| shares.contains(&frame[AT])).cloned().collect::<Vec<_>>();
    // The first frame's owner gets all, with what is nobody's.
    let found = received(transports.get_mut(&1).expect("it is there"));
    assert_eq!(found.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), of(&[1, 9]));
    let [(first, _), ..] = &found[..] else { panic!("{found:?}") };
    assert_eq!(first.source, peer.local_addr().expect("bound"));
    for share in [0, 2] {
        let found = received(transports.get_mut(&share).expect("it is there"));
        let expected: Vec<_> = of(&[share]).into_iter().map(|bytes| (*first, bytes)).collect();
        assert_eq!(found, expected, "with who sent them and by which interface");
    }
    assert_eq!(transports[&1].handed_over(), 5);
}

#[test]
fn long_frames_that_came_as_one_datagram_are_handed_over_whole() {
    const LONG: usize = 4096;
    let local = address();
    let mut transports = open_many(local, 2);
    let peer = UdpSocket::bind((local.ip(), 0)).expect("a port");
    sys::set_option(peer.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, LONG as i32).expect("segmentation");
    let mut all = vec![7; 15 * LONG];
    all.chunks_mut(LONG).enumerate().for_each(|(index, frame)| frame[AT] = u8::from(index > 0));
    peer.send_to(&all, local).expect("loopback");
    assert_eq!(frames(transports.get_mut(&0).expect("it is there")).len(), 1);
    let found = frames(transports.get_mut(&1).expect("it is there"));
    assert_eq!(found.concat(), all[LONG..]);
}

#[test]
fn what_is_for_nobody_at_the_address_comes_to_one_of_them_once() {
    let local = address();
    let mut transports = open_many(local, 3);
    let peer = UdpSocket::bind((local.ip(), 0)).expect("a port");
    for bytes in [&frame(3, 1)[..], &frame(200, 2), &[1], &[]] {
        peer.send_to(bytes, local).expect("loopback");
    }
    let mut all: Vec<_> = transports.values_mut().flat_map(frames).collect();
    all.sort();
    assert_eq!(all, [vec![], vec![1], frame(3, 1).to_vec(), frame(200, 2).to_vec()]);
}

#[test]
fn who_does_not_know_their_token_hands_nothing_over() {
    let local = address();
    let mut transports = open_many(local, 2);
    // Nobody but a process at the address can send from it. All is as it should be but for the token.
    let who = [&[0; 10][..], &[0xff, 0xff, 10, 0, 0, 9], &4791_u16.to_be_bytes(), &[0; 5]].concat();
    let behind = [&[0; 8][..], &who, &(LENGTH as u16).to_be_bytes()].concat();
    assert_eq!(behind.len(), handover::BEHIND);
    let forged = [&[handover::MARK; AT][..], &[0], &behind, &frame(0, 1)].concat();
    let own = transports[&1].socket();
    let to = nix::sys::socket::SockaddrStorage::from(local);
    nix::sys::socket::sendto(
        std::os::fd::AsRawFd::as_raw_fd(&own),
        &forged,
        &to,
        nix::sys::socket::MsgFlags::empty(),
    )
    .expect("loopback");
    let found = received(transports.get_mut(&0).expect("it is there"));
    assert_eq!(found.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [forged.len()]);
}

#[test]
fn an_address_that_somebody_has_alone_is_not_shared() {
    let local = address();
    let alone = UdpTransport::open(local, UdpOptions::default()).expect("a free address");
    let error = try_open(local).map(drop).expect_err("it is taken").to_string();
    assert!(
        error.contains("a UDP port at an address of this machine") && error.contains("in use"),
        "{error}"
    );
    drop(alone);
    let _shared = open(local);
    UdpTransport::open(local, UdpOptions::default()).map(drop).expect_err("others have it");
}

#[test]
fn a_process_of_another_user_is_told_that_all_must_be_of_one() {
    need!(root());
    let local = address();
    let _own = open(local);
    let other = std::thread::spawn(move || {
        // Of this thread alone; the kernel asks by whom a socket was made.
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
        try_open(local).map(drop)
    });
    let error = other.join().expect("no panic").expect_err("another user's").to_string();
    assert!(error.contains("as another user"), "{error}");
}

#[test]
fn there_are_so_many_shares_and_no_more() {
    let local = address();
    let mut transports = open_many(local, MAX_SHARES);
    let error = try_open(local).map(drop).expect_err("all are taken").to_string();
    assert!(error.contains("a free share of the address"), "{error}");
    assert_steered(local, &mut transports);
}
