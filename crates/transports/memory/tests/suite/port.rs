//! Credits and turns of one end of a link.

use quincunx_memory::{Port, PortConfig, PortFault};
use quincunx_units::{BitRate, Duration};
use quincunx_wire::flit::*;

const SLOTS: u16 = 4;
const READS: Channel = Channel::new(Class::Read, false);
const WRITES: Channel = Channel::new(Class::Write, true);

fn port() -> Port {
    Port::new(PortConfig::uniform(SLOTS, FlitFormat::DGX))
}

fn header(channel: Channel) -> FlitHeader {
    let transaction = match channel.class() {
        Class::Read => Transaction::Read { length: 128 },
        Class::Write => Transaction::Write,
        Class::ReadResponse => Transaction::ReadResponse,
        Class::WriteResponse => Transaction::WriteResponse,
    };
    FlitHeader::new(NodeId(0), NodeId(1), channel.inc(), 0, 0, transaction)
}

fn set(channels: &[Channel]) -> ChannelSet {
    let mut set = ChannelSet::NONE;
    channels.iter().for_each(|channel| set.set(*channel, true));
    set
}

/// Sends whatever may be sent of `ready`, with 128 bytes where there is data; the channels in order.
fn send(port: &mut Port, ready: ChannelSet, packets: usize) -> Vec<Channel> {
    (0..packets)
        .map_while(|_| {
            let channel = port.arbitrate(ready)?;
            port.seal(&mut header(channel), if channel.class() == Class::Write { 128 } else { 0 });
            port.assert_invariants();
            Some(channel)
        })
        .collect()
}

#[test]
fn a_channel_sends_as_many_packets_as_the_peer_has_room_for() {
    let mut port = port();
    assert_eq!(send(&mut port, set(&[READS]), 100).len(), usize::from(SLOTS));
    assert!(!port.wants_transmit(set(&[READS])));
    assert!(port.wants_transmit(set(&[WRITES])), "the other channel has room of its own");
}

#[test]
fn credits_come_back_in_the_headers_of_the_other_direction() {
    let (mut near, mut far) = (port(), port());
    send(&mut near, set(&[READS]), 1);
    let taken = far.accept(&header(READS));
    assert_eq!(taken, Ok(Some(READS)));
    far.release(READS);
    let mut answer = header(WRITES);
    far.seal(&mut answer, 128);
    assert_eq!(answer.credit, CreditReturn { channel: READS, packets: 1 });
    near.accept(&answer).expect("room");
    assert_eq!(send(&mut near, set(&[READS]), 100).len(), usize::from(SLOTS));
}

#[test]
fn credits_travel_alone_when_half_the_buffers_are_owed() {
    let mut port = port();
    for released in 1..=2 {
        port.accept(&header(READS)).expect("room");
        port.release(READS);
        assert_eq!(port.wants_transmit(ChannelSet::NONE), released == 2);
    }
    assert_eq!(port.arbitrate(ChannelSet::NONE), None);
    let mut credit = FlitHeader::new(NodeId(0), NodeId(0), false, 0, 0, Transaction::Credit);
    port.seal(&mut credit, 0);
    assert_eq!(credit.credit.packets, 2);
    assert!(!port.wants_transmit(ChannelSet::NONE));
}

#[test]
fn a_peer_that_sends_without_credit_is_refused() {
    let mut port = port();
    for _ in 0..SLOTS {
        port.accept(&header(READS)).expect("room");
    }
    assert_eq!(port.accept(&header(READS)), Err(PortFault::Overrun));
    port.assert_invariants();
}

#[test]
fn a_peer_that_returns_what_it_never_got_is_refused() {
    let credit = CreditReturn { channel: READS, packets: 1 };
    let header = FlitHeader { credit, ..header(WRITES) };
    assert_eq!(port().accept(&header), Err(PortFault::TooManyCredits));
}

#[test]
fn channels_share_the_bandwidth_not_the_packets() {
    // A write of 128 bytes has nine flits, a read one.
    let mut port = Port::new(PortConfig::uniform(100, FlitFormat::DGX));
    let sent = send(&mut port, set(&[READS, WRITES]), 40);
    let reads = sent.iter().filter(|channel| **channel == READS).count();
    assert_eq!((reads, sent.len() - reads), (36, 4));
}

/// Flits of 40 packets that each set of queues has sent, the switch core's first.
fn flits_of_sets(ready: &[Channel]) -> [usize; 2] {
    let mut port = Port::new(PortConfig::uniform(100, FlitFormat::DGX));
    let mut flits = [0; 2];
    for channel in send(&mut port, set(ready), 40) {
        flits[usize::from(channel.inc())] += if channel.class() == Class::Write { 9 } else { 1 };
    }
    flits
}

#[test]
fn the_accelerator_in_the_switch_has_half_of_the_bandwidth_whatever_waits_beside_it() {
    let core = [Class::Read, Class::Write, Class::WriteResponse].map(|class| Channel::new(class, false));
    let [others, accelerator] = flits_of_sets(&[&core[..], &[WRITES]].concat());
    assert!(others.abs_diff(accelerator) <= 9, "{others} and {accelerator}");
    let own = [Class::Read, Class::Write].map(|class| Channel::new(class, true));
    let [others, accelerator] = flits_of_sets(&[&own[..], &[core[1]]].concat());
    assert!(others.abs_diff(accelerator) <= 9, "{others} and {accelerator}");
}

#[test]
fn nothing_to_send_leaves_turns_as_they_are() {
    let mut port = port();
    let before = port.clone();
    assert_eq!(port.arbitrate(ChannelSet::NONE), None);
    assert_eq!(port, before);
}

#[test]
fn a_channel_alone_has_the_link_for_itself() {
    let mut port = Port::new(PortConfig::uniform(100, FlitFormat::DGX));
    assert_eq!(send(&mut port, set(&[WRITES]), 100).len(), 100);
}

#[test]
fn buffers_cover_the_round_trip_for_each_channel_alone() {
    let rate = BitRate::new(900_000_000_000).expect("a rate");
    let config = PortConfig::covering_round_trip(rate, Duration::from_nanos(250), &FlitFormat::DGX);
    let mut port = Port::new(config);
    // 500 ns of 112.5 GB/s are 56,250 bytes: 390.6 packets of 144 bytes, 3515.6 of 16; and 32 more for what waits to
    // be returned.
    assert_eq!(send(&mut port, set(&[WRITES]), 10_000).len(), 391 + 32);
    assert_eq!(send(&mut port, set(&[READS]), 10_000).len(), 3516 + 32);
}
