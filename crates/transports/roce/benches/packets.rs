//! What a packet costs: one message of 1 MiB from queue pair to queue pair, acknowledges included, with payloads that
//! are only lengths (the engine alone) and with real ones (and one copy).
#![allow(missing_docs, reason = "criterion's macro makes a public function without any")]

use core::hint::black_box;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quincunx_collective::{LengthOnly, Numbers, Payload};
use quincunx_engine::Frame;
use quincunx_engine::verbs::{Completion, Memory, ReceiveRequest, SendRequest, Slice, Verb, WorkId};
use quincunx_roce::{DropReason, QueuePair, QueuePairConfig, QueuePairSink, QueuePairTimer, Reliability};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};

/// Bytes of a message.
const MESSAGE: usize = 1 << 20;

/// Keeps the acknowledges of a receiver, and counts completions.
#[derive(Default)]
struct Replies {
    headers: Vec<RoceHeader>,
    completions: u64,
}

impl<P: Payload> QueuePairSink<P> for Replies {
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, P>) {
        self.headers.push(*frame.header);
    }

    fn set_timer(&mut self, _timer: QueuePairTimer, _after: Duration) {}

    fn cancel_timer(&mut self, _timer: QueuePairTimer) {}

    fn complete(&mut self, _completion: Completion) {
        self.completions += 1;
    }

    fn drop_frame(&mut self, reason: DropReason) {
        panic!("a frame was dropped: {reason:?}");
    }
}

/// A queue pair, its memory, and what it has said to itself.
struct End<P> {
    queue_pair: QueuePair<P>,
    memory: Memory<P>,
    region: Slice,
    replies: Replies,
}

/// Hands a sender's packets to the receiver as they come.
struct Wire<'a, P>(&'a mut End<P>);

impl<P: Payload> QueuePairSink<P> for Wire<'_, P> {
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, P>) {
        let End { queue_pair, memory, replies, .. } = &mut *self.0;
        queue_pair.handle_frame(Instant::ZERO, frame, memory, replies);
    }

    fn set_timer(&mut self, _timer: QueuePairTimer, _after: Duration) {}

    fn cancel_timer(&mut self, _timer: QueuePairTimer) {}

    fn complete(&mut self, _completion: Completion) {}

    fn drop_frame(&mut self, reason: DropReason) {
        panic!("a frame was dropped: {reason:?}");
    }
}

fn end<P: Payload>(local: Endpoint, remote: Endpoint, mtu: usize) -> End<P> {
    let config = QueuePairConfig {
        local,
        remote,
        mtu,
        send_psn: Psn::new(0),
        expected_psn: Psn::new(0),
        acknowledge_every: Packets::new(16),
        retry_timeout: Duration::from_millis(1),
        retry_count: 7,
        rnr_timer: 12,
        rnr_retry_count: 7,
        credits: false,
        window: Packets::new(64),
        congestion_window: false,
        remote_write: true,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    };
    let mut memory = Memory::default();
    let region = memory.register(P::zeroed(MESSAGE));
    let queue_pair = QueuePair::new(config).expect("the set-up is valid");
    End {
        queue_pair,
        memory,
        region: Slice { region, offset: 0, length: MESSAGE },
        replies: Replies::default(),
    }
}

/// Sends one message.
fn exchange<P: Payload>(sender: &mut End<P>, receiver: &mut End<P>) {
    let request = ReceiveRequest { id: WorkId(1), sink: receiver.region };
    receiver.queue_pair.post_receive(request, &receiver.memory).expect("the region is registered");
    let request = SendRequest { id: WorkId(2), verb: Verb::Send, source: sender.region, immediate: None };
    sender.queue_pair.post_send(request, &sender.memory).expect("the region is registered");
    while sender.queue_pair.wants_transmit() {
        sender.queue_pair.transmit(Instant::ZERO, &sender.memory, &mut Wire(receiver));
        for header in receiver.replies.headers.drain(..) {
            let frame = Frame { header: &header, payload: P::empty() };
            sender.queue_pair.handle_frame(Instant::ZERO, frame, &mut sender.memory, &mut sender.replies);
        }
    }
}

fn messages<P: Payload>(criterion: &mut Criterion, kind: &str) {
    let one = Endpoint { ip: Gid::from([10, 0, 0, 1]), qp: QpNumber::new(1) };
    let other = Endpoint { ip: Gid::from([10, 0, 0, 2]), qp: QpNumber::new(2) };
    let mut group = criterion.benchmark_group(format!("packets/{kind}"));
    for mtu in [1024, 4096] {
        group.throughput(Throughput::Elements((MESSAGE / mtu) as u64));
        group.bench_with_input(BenchmarkId::from_parameter(mtu), &mtu, |bencher, &mtu| {
            let (mut sender, mut receiver) = (end::<P>(one, other, mtu), end::<P>(other, one, mtu));
            bencher.iter(|| exchange(black_box(&mut sender), black_box(&mut receiver)));
            assert_eq!(
                sender.replies.completions, receiver.replies.completions,
                "a message has no completion"
            );
        });
    }
    group.finish();
}

fn packets(criterion: &mut Criterion) {
    messages::<LengthOnly>(criterion, "lengths");
    messages::<Numbers>(criterion, "numbers");
}

criterion_group!(benches, packets);
criterion_main!(benches);
