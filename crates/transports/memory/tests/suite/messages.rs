//! Messages over direct links: what is posted at one end completes there and arrives at the other, in order, whole, and not before
//! there is a receive request.

use proptest::prelude::*;
use quincunx_collective::{Numbers, Payload};
use quincunx_engine::PortId;
use quincunx_engine::verbs::{
    Completion, Failure, QpIndex, ReceiveRequest, RegionId, SendRequest, Slice, Verb, Verbs, WorkId,
};
use quincunx_memory::{MemoryDrop, Messages, MessagesConfig};
use quincunx_wire::flit::{Channel, Class, FlitFormat, FlitHeader, NodeId, Transaction, word_address};

const LINK: PortId = PortId(0);
const QP: QpIndex = QpIndex(0);
const WRITES: Channel = Channel::new(Class::Write, false);
const FORMAT: FlitFormat = FlitFormat { flit: 4, header_flits: 1, max_payload: 4 };

/// A node with one link, and a window of 16 bytes for its peer.
fn node(node: u16, peer: u16, window: &[u8; 16]) -> Messages<Numbers> {
    let config = MessagesConfig { node: NodeId(node), neighbours: vec![NodeId(peer)], format: FORMAT };
    let mut messages = Messages::new(config);
    messages.memory().register(Numbers::from(window.to_vec()));
    messages
}

fn pair() -> [Messages<Numbers>; 2] {
    [node(0, 1, &[7; 16]), node(1, 0, &[0; 16])]
}

fn write(id: u64, length: usize, target: u64) -> SendRequest {
    SendRequest {
        id: WorkId(id),
        verb: Verb::Write { remote_address: target, remote_key: 0 },
        source: Slice { region: RegionId(0), offset: 0, length },
        immediate: Some(id as u32),
    }
}

fn word(id: u64) -> SendRequest {
    let source = Slice { region: RegionId(0), offset: 0, length: 0 };
    SendRequest { id: WorkId(id), verb: Verb::Send, source, immediate: Some(id as u32) }
}

fn receive(node: &mut Messages<Numbers>, id: u64) {
    let sink = Slice { region: RegionId(0), offset: 0, length: 0 };
    node.post_receive(QP, ReceiveRequest { id: WorkId(id), sink });
}

/// Carries one packet of `channel` over; what it was.
fn carry(from: &mut Messages<Numbers>, to: &mut Messages<Numbers>, channel: Channel) -> FlitHeader {
    let (header, payload) = from.next_packet(LINK, channel);
    to.handle_packet(LINK, &header, payload).expect("a packet that makes sense");
    header
}

fn carry_all(from: &mut Messages<Numbers>, to: &mut Messages<Numbers>) -> Vec<Transaction> {
    let mut carried = Vec::new();
    for channel in Channel::ALL {
        while from.ready(LINK).contains(channel) {
            carried.push(carry(from, to, channel).transaction);
        }
    }
    from.assert_invariants();
    to.assert_invariants();
    carried
}

fn completions(node: &mut Messages<Numbers>) -> Vec<Completion> {
    std::iter::from_fn(|| node.next_completion()).map(|(_, completion)| completion).collect()
}

#[test]
fn a_message_is_writes_and_a_multiwrite_and_is_complete_when_all_of_them_are_answered() {
    let [mut a, mut b] = pair();
    receive(&mut b, 9);
    a.post_send(QP, write(5, 10, 2));
    let sent = carry_all(&mut a, &mut b);
    assert_eq!(sent, [Transaction::Write, Transaction::Write, Transaction::MultiWrite { destinations: 5 }]);
    let target = Slice { region: RegionId(0), offset: 2, length: 10 };
    assert_eq!(completions(&mut b), [Completion::Written { id: WorkId(9), target, immediate: 5 }]);
    assert_eq!(b.memory().view(target), [7; 10]);
    for _ in 0..3 {
        assert_eq!(completions(&mut a), []);
        carry(&mut b, &mut a, Channel::new(Class::WriteResponse, false));
    }
    assert_eq!(completions(&mut a), [Completion::Sent { id: WorkId(5) }]);
}

#[test]
fn a_message_without_a_receive_request_keeps_its_buffer_and_its_answer_until_there_is_one() {
    let [mut a, mut b] = pair();
    a.post_send(QP, write(5, 4, 0));
    carry_all(&mut a, &mut b);
    assert_eq!((completions(&mut b), b.next_freed()), (vec![], None));
    assert!(b.ready(LINK).is_empty(), "no answer yet");
    receive(&mut b, 1);
    assert_eq!((completions(&mut b).len(), b.next_freed()), (1, Some((LINK, WRITES))));
    assert_eq!(carry_all(&mut b, &mut a), [Transaction::WriteResponse]);
}

#[test]
fn a_word_is_a_store_that_is_complete_when_it_has_left_but_not_before_what_went_before_it() {
    let [mut a, mut b] = pair();
    (0..2).for_each(|id| receive(&mut b, id));
    a.post_send(QP, write(5, 4, 0));
    a.post_send(QP, word(6));
    let sent = carry_all(&mut a, &mut b);
    assert_eq!(sent[1], Transaction::Store { operand: 6 });
    assert_eq!(completions(&mut a), []);
    let received = Completion::Received { id: WorkId(1), length: 0, immediate: Some(6) };
    assert_eq!(completions(&mut b)[1], received);
    carry_all(&mut b, &mut a);
    assert_eq!(completions(&mut a), [5, 6].map(|id| Completion::Sent { id: WorkId(id) }));
}

#[test]
fn what_cannot_be_sent_completes_as_an_invalid_request() {
    let [mut a, _] = pair();
    let data = SendRequest { source: Slice { length: 4, ..word(1).source }, ..word(1) };
    let no_immediate = SendRequest { immediate: None, ..write(1, 4, 0) };
    let elsewhere = Verb::Write { remote_address: 0, remote_key: 1 };
    for wrong in [data, no_immediate, SendRequest { verb: elsewhere, ..write(1, 4, 0) }, write(1, 17, 0)] {
        a.post_send(QP, wrong);
        let failed = Completion::Failed { id: WorkId(1), failure: Failure::InvalidRequest };
        assert_eq!(completions(&mut a), [failed], "{wrong:?}");
        assert!(a.ready(LINK).is_empty());
    }
}

#[test]
fn what_a_peer_may_not_send_is_dropped_with_the_reason_and_changes_nothing() {
    let header =
        |transaction, address, tag| FlitHeader::new(NodeId(0), NodeId(1), false, address, tag, transaction);
    let last = Transaction::MultiWrite { destinations: 1 };
    let stranger = FlitHeader { source: NodeId(3), ..header(Transaction::Write, 0, 4) };
    for (header, length, reason) in [
        (stranger, 4, MemoryDrop::NoRoute),
        (header(Transaction::Write, 13, 4), 4, MemoryDrop::NoSuchAddress),
        (header(Transaction::Write, 0, 5), 5, MemoryDrop::BadLength),
        (header(last, 4, 3), 4, MemoryDrop::BadLength),
        (header(last, 4, 9), 4, MemoryDrop::NoSuchAddress),
        (header(Transaction::MultiWrite { destinations: 1 << 32 }, 0, 4), 4, MemoryDrop::NoSuchAddress),
        (header(Transaction::Store { operand: 1 }, word_address(1), 0), 0, MemoryDrop::NoSuchAddress),
        (header(Transaction::WriteResponse, 0, 0), 0, MemoryDrop::UnexpectedResponse),
        (header(Transaction::Read { length: 4 }, 0, 0), 0, MemoryDrop::UnexpectedTransaction),
    ] {
        let [_, mut b] = pair();
        let before = b.clone();
        let payload = Numbers::zeroed(length);
        let found = b.handle_packet(LINK, &header, payload.view(0..length));
        assert_eq!((found, &b), (Err(reason), &before), "{header:?}");
    }
}

proptest! {
    #[test]
    fn everything_arrives_once_and_in_order_whatever_is_carried_when(
        posts in proptest::collection::vec((0..2usize, 0..17usize), 1..20),
        turns in proptest::collection::vec((0..2usize, any::<bool>()), 0..200),
    ) {
        let mut nodes = pair();
        let mut posted = [Vec::new(), Vec::new()];
        for (id, (at, length)) in posts.into_iter().enumerate() {
            let request = if length == 0 { word(id as u64) } else { write(id as u64, length, 0) };
            nodes[at].post_send(QP, request);
            posted[at].push(id as u64);
        }
        let mut seen = [Vec::new(), Vec::new()];
        let rest = (0..400).map(|turn| (turn % 2, turn % 4 < 2));
        for (at, receives) in turns.into_iter().chain(rest) {
            let [a, b] = &mut nodes;
            let (from, to) = if at == 0 { (a, b) } else { (b, a) };
            if receives {
                receive(to, 0);
            }
            let channel = Channel::ALL.into_iter().find(|channel| from.ready(LINK).contains(*channel));
            if let Some(channel) = channel {
                carry(from, to, channel);
            }
            for (node, seen) in nodes.iter_mut().zip(&mut seen) {
                node.assert_invariants();
                seen.extend(completions(node));
            }
        }
        for at in 0..2 {
            let sent = seen[at].iter().filter_map(|completion| match completion {
                Completion::Sent { id } => Some(id.0),
                _ => None,
            });
            prop_assert_eq!(&sent.collect::<Vec<_>>(), &posted[at]);
            let arrived = seen[1 - at].iter().filter_map(|completion| match completion {
                Completion::Written { immediate, .. } => Some(u64::from(*immediate)),
                Completion::Received { immediate, .. } => immediate.map(u64::from),
                _ => None,
            });
            prop_assert_eq!(&arrived.collect::<Vec<_>>(), &posted[at]);
        }
    }
}
