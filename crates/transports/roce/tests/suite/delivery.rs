//! Over links that lose, duplicate and reorder, every message arrives once, in order, with the right bytes, and every
//! request has its completion.

use crate::common::links::{Dice, Links, Trouble};
use crate::common::{MTU, alice, receive, send, slice};
use proptest::prelude::*;
use quincunx_engine::verbs::{Completion, RegionId, SendRequest, Verb, WorkId};
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, Reliability};
use quincunx_units::{Duration, Packets};
use quincunx_wire::Psn;

/// What one host sends to the other.
#[derive(Clone, Copy, Debug)]
enum Message {
    Send { length: usize, immediate: Option<u32> },
    Write { length: usize, immediate: Option<u32> },
}

impl Message {
    const fn length(self) -> usize {
        match self {
            Self::Send { length, .. } | Self::Write { length, .. } => length,
        }
    }

    const fn immediate(self) -> Option<u32> {
        match self {
            Self::Send { immediate, .. } | Self::Write { immediate, .. } => immediate,
        }
    }

    const fn consumes_receive(self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { immediate: Some(_), .. })
    }
}

/// Bytes that each message owns in the sender's and in the receiver's region.
const ROOM: usize = 3 * MTU + 4;

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let message = (any::<bool>(), 0..=ROOM, proptest::option::of(any::<u32>())).prop_map(
        |(is_send, length, immediate)| match is_send {
            true => Message::Send { length, immediate },
            false => Message::Write { length, immediate },
        },
    );
    proptest::collection::vec(message, 1..8)
}

fn troubles() -> impl Strategy<Value = Trouble> {
    (0..30_u64, 0..20_u64, 0..30_u64).prop_map(|(loss, duplication, reordering)| Trouble {
        loss,
        duplication,
        reordering,
    })
}

/// A host's regions: what it sends, where its peer's Sends go, where its peer's Writes go.
#[derive(Clone, Copy)]
struct Regions {
    source: RegionId,
    received: RegionId,
    written: RegionId,
}

fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..length).map(|_| dice.below(255) as u8 + 1).collect()
}

/// Runs `plans` (what each host sends) to the end, and checks everything that arrived. Receives are posted `late` after
/// the sends.
fn check_delivery(
    config: QueuePairConfig,
    trouble: Trouble,
    seed: u64,
    late: Duration,
    plans: &[Vec<Message>; 2],
) {
    let mut links = Links::new(config, trouble, seed);
    let contents = [content(seed ^ 1, plans[0].len() * ROOM), content(seed ^ 2, plans[1].len() * ROOM)];
    let mut regions = Vec::new();
    for index in 0..2 {
        let incoming = plans[1 - index].len() * ROOM;
        let node = &mut links.nodes[index];
        let source = node.register(contents[index].clone());
        let received = node.register(vec![0; incoming]);
        let written = node.register(vec![0; incoming]);
        regions.push(Regions { source, received, written });
    }
    for index in 0..2 {
        for (id, &message) in plans[index].iter().enumerate() {
            let source = slice(regions[index].source, id * ROOM, message.length());
            let verb = match message {
                Message::Send { .. } => Verb::Send,
                Message::Write { .. } => Verb::Write {
                    remote_address: (id * ROOM) as u64,
                    remote_key: regions[1 - index].written.0,
                },
            };
            let request = SendRequest { id: WorkId(id as u64), verb, source, immediate: message.immediate() };
            links.nodes[index].post_send(request);
        }
    }
    links.run_for(late);
    for index in 0..2 {
        for (id, message) in plans[1 - index].iter().enumerate() {
            if message.consumes_receive() {
                let sink = slice(regions[index].received, id * ROOM, ROOM);
                links.nodes[index].post_receive(receive(1_000 + id as u64, sink));
            }
        }
    }
    links.run(200_000);

    for index in 0..2 {
        let node = &links.nodes[index];
        let sent: Vec<_> = node.completions.iter().filter(|c| matches!(c, Completion::Sent { .. })).collect();
        let expected_sent: Vec<_> =
            (0..plans[index].len()).map(|id| Completion::Sent { id: WorkId(id as u64) }).collect();
        assert_eq!(sent, expected_sent.iter().collect::<Vec<_>>(), "sends of host {index}");

        let incoming = &plans[1 - index];
        let arrived: Vec<_> =
            node.completions.iter().filter(|c| !matches!(c, Completion::Sent { .. })).copied().collect();
        let expected_arrived: Vec<_> = incoming
            .iter()
            .enumerate()
            .filter(|(_, message)| message.consumes_receive())
            .map(|(id, message)| {
                let (work, length) = (WorkId(1_000 + id as u64), message.length());
                match (message, message.immediate()) {
                    (Message::Write { .. }, Some(immediate)) => {
                        let target = slice(regions[index].written, id * ROOM, length);
                        Completion::Written { id: work, target, immediate }
                    }
                    (_, immediate) => Completion::Received { id: work, length, immediate },
                }
            })
            .collect();
        assert_eq!(arrived, expected_arrived, "receives of host {index}");

        let mut received = vec![0; incoming.len() * ROOM];
        let mut written = received.clone();
        for (id, &message) in incoming.iter().enumerate() {
            let place = id * ROOM..id * ROOM + message.length();
            let target = match message {
                Message::Send { .. } => &mut received,
                Message::Write { .. } => &mut written,
            };
            target[place.clone()].copy_from_slice(&contents[1 - index][place]);
        }
        assert_eq!(node.bytes(regions[index].received, received.len()), received, "Sends to host {index}");
        assert_eq!(node.bytes(regions[index].written, written.len()), written, "Writes to host {index}");
    }
}

/// A set-up that never gives up, and whose PSNs wrap after the first packet.
fn patient(window: u32, acknowledge_every: u32) -> QueuePairConfig {
    QueuePairConfig {
        send_psn: Psn::new(0x00ff_ffff),
        expected_psn: Psn::new(0x00ff_ffff),
        window: Packets::new(window),
        acknowledge_every: Packets::new(acknowledge_every),
        retry_count: u16::MAX,
        rnr_retry_count: INFINITE_RNR_RETRIES,
        ..alice()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_message_arrives_once_in_order_and_whole(
        window in 1..6_u32,
        acknowledge_every in 1..5_u32,
        reliability in proptest::sample::select(&[Reliability::GoBackN, Reliability::Selective][..]),
        trouble in troubles(),
        seed: u64,
        credits: bool,
        late_micros in prop_oneof![Just(0), 1..300_u64],
        plans in [messages(), messages()],
        congestion_window: bool,
    ) {
        let config =
            QueuePairConfig { reliability, credits, congestion_window, ..patient(window, acknowledge_every) };
        check_delivery(config, trouble, seed, Duration::from_micros(late_micros), &plans);
    }
}

#[test]
fn messages_sent_before_their_receives_are_posted_arrive_in_the_end() {
    let mut links = Links::new(patient(2, 1), Trouble::default(), 1);
    let source = links.nodes[0].register((0..8).collect());
    let sink = links.nodes[1].register(vec![0; 8]);
    links.nodes[0].post_send(send(7, slice(source, 0, 8)));
    links.run_for(crate::common::RETRY_TIMEOUT);
    assert!(links.nodes[1].completions.is_empty());
    links.nodes[1].post_receive(receive(8, slice(sink, 0, 8)));
    links.run(100);
    assert_eq!(
        links.nodes[1].completions,
        [Completion::Received { id: WorkId(8), length: 8, immediate: None }]
    );
    assert_eq!(links.nodes[1].bytes(sink, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(links.nodes[0].completions, [Completion::Sent { id: WorkId(7) }]);
}

#[test]
fn a_run_without_trouble_needs_no_retransmission() {
    let mut links = Links::new(patient(4, 2), Trouble::default(), 1);
    let source = links.nodes[0].register(vec![9; 64]);
    let sink = links.nodes[1].register(vec![0; 64]);
    links.nodes[1].post_receive(receive(1, slice(sink, 0, 64)));
    links.nodes[0].post_send(send(1, slice(source, 0, 64)));
    links.run(1_000);
    assert!(links.nodes.iter().all(|node| node.drops.is_empty()));
    assert_eq!(links.nodes[1].bytes(sink, 64), [9; 64]);
}
