//! Queue pairs for datagrams: what leaves once arrives once or not at all, and nobody says so.

use quincunx_collective::Numbers;
use quincunx_engine::Frame;
use quincunx_engine::verbs::{Completion, Memory, RegionId, SendRequest, WorkId};
use quincunx_roce::{
    DatagramQueuePair, DropReason, PostError, QueuePairConfig, QueuePairSink, QueuePairTimer, Reliability,
};
use quincunx_units::Duration;
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::{Deth, Operation, Psn, QpNumber, RoceHeader};

use crate::common::{ALICE, ALICE_PSN, BOB, alice, mirrored, receive, send, slice, write};

/// What a queue pair says.
#[derive(Default)]
struct Out {
    frames: Vec<(RoceHeader, Vec<u8>)>,
    completions: Vec<Completion>,
    drops: Vec<DropReason>,
}

impl QueuePairSink<Numbers> for Out {
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, Numbers>) {
        self.frames.push((*frame.header, frame.payload.to_vec()));
    }
    fn set_timer(&mut self, timer: QueuePairTimer, _: Duration) {
        panic!("{timer:?} is none of a datagram's");
    }
    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        panic!("{timer:?} is none of a datagram's");
    }
    fn complete(&mut self, completion: Completion) {
        self.completions.push(completion);
    }
    fn drop_frame(&mut self, reason: DropReason) {
        self.drops.push(reason);
    }
}

const REGION: RegionId = RegionId(0);

struct End {
    queue_pair: DatagramQueuePair,
    memory: Memory<Numbers>,
    out: Out,
}

impl End {
    fn new(config: QueuePairConfig, bytes: &[u8]) -> Self {
        let config = QueuePairConfig { reliability: Reliability::Datagrams, ..config };
        let mut memory = Memory::default();
        assert_eq!(memory.register(Numbers::from(bytes.to_vec())), REGION);
        Self { queue_pair: DatagramQueuePair::new(config).unwrap(), memory, out: Out::default() }
    }

    fn post(&mut self, id: u64, length: usize, immediate: u32) -> Result<(), PostError> {
        let request = SendRequest { immediate: Some(immediate), ..send(id, slice(REGION, 0, length)) };
        self.queue_pair.post_send(request, &self.memory)
    }

    fn leave(&mut self) -> Vec<(RoceHeader, Vec<u8>)> {
        while self.queue_pair.wants_transmit() {
            self.queue_pair.transmit(&self.memory, &mut self.out);
            self.queue_pair.assert_invariants();
        }
        std::mem::take(&mut self.out.frames)
    }

    fn arrive(&mut self, (header, payload): &(RoceHeader, Vec<u8>)) {
        let frame = Frame { header, payload: &payload[..] };
        self.queue_pair.handle_frame(frame, &mut self.memory, &mut self.out);
    }
}

fn ends() -> [End; 2] {
    [End::new(alice(), &[1, 2, 3, 4]), End::new(mirrored(alice()), &[0; 8])]
}

#[test]
fn a_message_is_one_packet_with_its_immediate_and_arrives_where_there_is_room() {
    let [mut alice, mut bob] = ends();
    alice.post(7, 4, 5).unwrap();
    let [frame] = &alice.leave()[..] else { panic!("one packet") };
    let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: ALICE.qp };
    assert_eq!(frame.0.operation, Operation::DatagramSendOnlyImmediate(deth, 5));
    assert_eq!((frame.0.destination, frame.0.destination_qp), (BOB.ip, BOB.qp));
    assert_eq!(alice.out.completions, [Completion::Sent { id: WorkId(7) }], "it ends when it has left");
    bob.queue_pair.post_receive(receive(9, slice(REGION, 0, 8)), &bob.memory).unwrap();
    bob.arrive(frame);
    let received = Completion::Received { id: WorkId(9), length: 4, immediate: Some(5) };
    assert_eq!(bob.out.completions, [received]);
    assert_eq!(bob.leave(), [], "nothing is answered");
    assert_eq!(bob.memory.view(slice(REGION, 0, 8)), [1, 2, 3, 4, 0, 0, 0, 0]);
}

#[test]
fn what_is_sent_again_has_the_same_number() {
    let [mut alice, _] = ends();
    for (id, immediate) in [(0, 0), (1, 3), (2, 5), (3, 0)] {
        alice.post(id, 4, immediate).unwrap();
    }
    let numbers: Vec<Psn> = alice.leave().iter().map(|frame| frame.0.psn).collect();
    assert_eq!(numbers, [0, 3, 5, 0].map(|immediate| ALICE_PSN.plus(immediate)), "in order");
}

#[test]
fn what_finds_no_room_is_lost() {
    let [mut alice, mut bob] = ends();
    alice.post(0, 4, 0).unwrap();
    let [frame] = &alice.leave()[..] else { panic!("one packet") };
    bob.arrive(frame);
    bob.queue_pair.post_receive(receive(0, slice(REGION, 0, 3)), &bob.memory).unwrap();
    bob.arrive(frame);
    assert_eq!(bob.out.drops, [DropReason::ReceiverNotReady, DropReason::Refused]);
    assert_eq!(bob.out.completions, []);
    alice.post(1, 3, 1).unwrap();
    bob.arrive(&alice.leave()[0]);
    let received = Completion::Received { id: WorkId(0), length: 3, immediate: Some(1) };
    assert_eq!(bob.out.completions, [received], "what was refused has taken no place");
}

#[test]
fn places_are_filled_in_the_order_in_which_they_were_posted() {
    let [mut alice, mut bob] = ends();
    for id in [4, 5] {
        bob.queue_pair.post_receive(receive(id, slice(REGION, 0, 8)), &bob.memory).unwrap();
        alice.post(id, 4, id as u32).unwrap();
    }
    alice.leave().iter().for_each(|frame| bob.arrive(frame));
    let received = |id| Completion::Received { id: WorkId(id), length: 4, immediate: Some(id as u32) };
    assert_eq!(bob.out.completions, [received(4), received(5)]);
}

#[test]
fn only_the_peers_datagrams_are_taken() {
    let [mut alice, mut bob] = ends();
    alice.post(0, 4, 0).unwrap();
    let [(header, payload)] = &alice.leave()[..] else { panic!("one packet") };
    bob.queue_pair.post_receive(receive(0, slice(REGION, 0, 8)), &bob.memory).unwrap();
    let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: ALICE.qp };
    let of = |deth| RoceHeader { operation: Operation::DatagramSendOnlyImmediate(deth, 0), ..*header };
    for (header, reason) in [
        (RoceHeader { destination_qp: QpNumber::new(1), ..*header }, DropReason::NotForUs),
        (RoceHeader { destination: ALICE.ip, ..*header }, DropReason::NotForUs),
        (RoceHeader { source: BOB.ip, ..*header }, DropReason::WrongSource),
        (of(Deth { source_qp: QpNumber::new(1), ..deth }), DropReason::WrongSource),
        (of(Deth { queue_key: 1, ..deth }), DropReason::WrongSource),
        (RoceHeader { operation: Operation::SendOnlyImmediate(0), ..*header }, DropReason::Unexpected),
    ] {
        bob.arrive(&(header, payload.clone()));
        assert_eq!(bob.out.drops.pop(), Some(reason), "{header:?}");
    }
    assert_eq!(bob.out.completions, []);
}

#[test]
fn what_is_no_datagram_is_refused() {
    let mut alice = End::new(alice(), &[0; 5000]);
    assert_eq!(alice.post(0, 4100, 0), Err(PostError::DatagramTooLong(4100)));
    let request = send(0, slice(REGION, 0, 4));
    assert_eq!(alice.queue_pair.post_send(request, &alice.memory), Err(PostError::NoDatagram));
    let request = SendRequest { immediate: Some(0), ..write(0, slice(REGION, 0, 4), REGION, 0) };
    assert_eq!(alice.queue_pair.post_send(request, &alice.memory), Err(PostError::NoDatagram));
    let nowhere = slice(RegionId(1), 0, 4);
    let request = SendRequest { immediate: Some(0), ..send(0, nowhere) };
    assert_eq!(alice.queue_pair.post_send(request, &alice.memory), Err(PostError::NotRegistered(nowhere)));
    let refused = alice.queue_pair.post_receive(receive(0, nowhere), &alice.memory);
    assert_eq!(refused, Err(PostError::NotRegistered(nowhere)));
    assert_eq!(alice.leave(), []);
}
