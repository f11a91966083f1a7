//! One queue pair driven by hand, frame by frame.

use super::{Bytes, alice};
use quincunx_engine::Frame;
use quincunx_engine::verbs::{Completion, Memory, RegionId};
use quincunx_roce::{DropReason, QueuePair, QueuePairConfig, QueuePairSink, QueuePairTimer};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Aeth, NakCode, Operation, Psn, RoceHeader, Syndrome};
use std::collections::BTreeMap;

/// What a queue pair has said.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) frames: Vec<(RoceHeader, Vec<u8>)>,
    pub(crate) armed: BTreeMap<QueuePairTimer, Duration>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) drops: Vec<DropReason>,
}

impl QueuePairSink<Bytes> for Answers {
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, Bytes>) {
        self.frames.push((*frame.header, frame.payload.to_vec()));
    }

    fn set_timer(&mut self, timer: QueuePairTimer, after: Duration) {
        self.armed.insert(timer, after);
    }

    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        self.armed.remove(&timer);
    }

    fn complete(&mut self, completion: Completion) {
        self.completions.push(completion);
    }

    fn drop_frame(&mut self, reason: DropReason) {
        self.drops.push(reason);
    }
}

/// One end's queue pair; the test plays the other.
pub(crate) struct Bench {
    pub(crate) qp: QueuePair<Bytes>,
    pub(crate) memory: Memory<Bytes>,
    pub(crate) out: Answers,
    /// When frames come and go, and timers fire.
    pub(crate) now: Instant,
}

impl Bench {
    pub(crate) fn new(config: QueuePairConfig) -> Self {
        let qp = QueuePair::new(config).expect("the test's set-up is valid");
        Self { qp, memory: Memory::default(), out: Answers::default(), now: Instant::ZERO }
    }

    pub(crate) fn default_alice() -> Self {
        Self::new(alice())
    }

    /// Registers a region of `length` bytes 0, 1, 2, ...
    pub(crate) fn region(&mut self, length: usize) -> RegionId {
        self.memory.register(Bytes((0..length).map(|byte| byte as u8).collect()))
    }

    /// Registers a region of zeroes.
    pub(crate) fn blank(&mut self, length: usize) -> RegionId {
        self.memory.register(Bytes(vec![0; length]))
    }

    pub(crate) fn bytes(&self, region: RegionId, length: usize) -> Vec<u8> {
        self.memory.view(super::slice(region, 0, length)).to_vec()
    }

    /// Takes transmit slots until none is wanted; returns the PSNs sent.
    pub(crate) fn transmit_all(&mut self) -> Vec<Psn> {
        let before = self.out.frames.len();
        while self.qp.wants_transmit() {
            self.qp.transmit(self.now, &self.memory, &mut self.out);
            self.qp.assert_invariants();
        }
        self.out.frames[before..].iter().map(|(header, _)| header.psn).collect()
    }

    /// A header from the peer.
    pub(crate) fn peer_header(&self, psn: Psn, operation: Operation) -> RoceHeader {
        let config = self.qp.config();
        RoceHeader::new(config.remote.ip, config.local.ip, config.local.qp, psn, operation)
    }

    /// Hands in a frame from the peer.
    pub(crate) fn frame(&mut self, psn: Psn, operation: Operation, payload: &[u8]) {
        self.header(self.peer_header(psn, operation), payload);
    }

    /// Hands in a frame from the peer that asks for an acknowledge.
    pub(crate) fn asking_frame(&mut self, psn: Psn, operation: Operation, payload: &[u8]) {
        let header = RoceHeader { acknowledge_request: true, ..self.peer_header(psn, operation) };
        self.header(header, payload);
    }

    pub(crate) fn header(&mut self, header: RoceHeader, payload: &[u8]) {
        self.qp.handle_frame(self.now, Frame { header: &header, payload }, &mut self.memory, &mut self.out);
        self.qp.assert_invariants();
    }

    pub(crate) fn answer(&mut self, psn: Psn, syndrome: Syndrome) {
        self.frame(psn, Operation::Acknowledge(Aeth { syndrome, message_sequence: 0 }), &[]);
    }

    pub(crate) fn ack(&mut self, psn: Psn) {
        self.answer(psn, Syndrome::Ack(31));
    }

    pub(crate) fn nak(&mut self, psn: Psn, code: NakCode) {
        self.answer(psn, Syndrome::Nak(code));
    }

    pub(crate) fn fire(&mut self, timer: QueuePairTimer) {
        self.out.armed.remove(&timer);
        self.qp.handle_timer(self.now, timer, &mut self.out);
        self.qp.assert_invariants();
    }

    /// The answers sent: PSN, syndrome, message sequence number.
    pub(crate) fn answers(&self) -> Vec<(Psn, Syndrome, u32)> {
        self.out
            .frames
            .iter()
            .filter_map(|(header, _)| match header.operation {
                Operation::Acknowledge(aeth) => Some((header.psn, aeth.syndrome, aeth.message_sequence)),
                _ => None,
            })
            .collect()
    }
}
