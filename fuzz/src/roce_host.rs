//! Any sequence of posts, frames, time-outs and transmit slots at a host with one queue pair: no panic, invariants after each step,
//! and every work request ends once, in the order of the posts.

use crate::harness::{Input, MAX_EVENTS, MTU, Peer, Record, deliver, fire, transmit};
use quincunx_collective::{Numbers, Payload};
use quincunx_engine::verbs::{Completion, ReceiveRequest, RegionId, SendRequest, Slice, Verb, WorkId};
use quincunx_engine::{Engine, PortId};
use quincunx_roce::{QueuePairConfig, Reliability, RoceCommand, RoceEvent, RoceHost};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

type Host = RoceHost<Numbers>;

const PORT: PortId = PortId(0);
const FIRST: Psn = Psn::new(0xff_fffd);
const LOCAL: Endpoint =
    Endpoint { ip: Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))), qp: QpNumber::new(0x11) };
const REMOTE: Endpoint =
    Endpoint { ip: Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))), qp: QpNumber::new(0x12) };

/// Bytes of the region that is there from the start.
const REGION: usize = 64;

/// The work requests without a completion, oldest first, sends and receives apart.
#[derive(Default)]
struct Posted {
    next: u64,
    sends: VecDeque<WorkId>,
    receives: VecDeque<WorkId>,
}

impl Posted {
    fn name(&mut self) -> WorkId {
        self.next += 1;
        WorkId(self.next)
    }

    fn end(&mut self, completion: Completion) {
        let (id, queue) = match completion {
            Completion::Sent { id } => (id, &mut self.sends),
            Completion::Received { id, .. } | Completion::Written { id, .. } => (id, &mut self.receives),
            Completion::Failed { id, .. } if self.sends.front() == Some(&id) => (id, &mut self.sends),
            Completion::Failed { id, .. } => (id, &mut self.receives),
        };
        assert_eq!(queue.pop_front(), Some(id), "requests end once, in the order of the posts");
    }
}

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (acknowledge_every, retry_count, rnr_retry_count) = (input.below(4), input.below(3), input.below(8));
    // The window, and whether what is missing is sent again alone, and congestion narrows the window.
    let last = input.byte();
    let window = 1 + u32::from(last % 6);
    let config = QueuePairConfig {
        local: LOCAL,
        remote: REMOTE,
        mtu: MTU,
        send_psn: FIRST,
        expected_psn: FIRST,
        acknowledge_every: Packets::new(1 + u32::from(acknowledge_every)),
        retry_timeout: Duration::from_micros(300),
        retry_count: retry_count.into(),
        rnr_timer: 1,
        rnr_retry_count,
        credits: true,
        window: Packets::new(window),
        congestion_window: last >= 192,
        remote_write: true,
        reliability: if last < 128 { Reliability::GoBackN } else { Reliability::Selective },
        rate: None,
        mutation: None,
    };
    let mut host = Host::new(config).expect("a valid set-up");
    let mut out = Record::default();
    let (mut peer, mut posted) = (Peer::new(FIRST), Posted::default());
    host.handle_command(Instant::ZERO, RoceCommand::Register(Numbers::zeroed(REGION)), &mut out)
        .expect("a region");
    for _ in 0..MAX_EVENTS {
        if input.is_empty() {
            break;
        }
        event(&mut host, &mut peer, &mut posted, &mut input, &mut out);
        host.assert_invariants();
        // A window that is asked for, and an acknowledge.
        assert!(out.frames.len() <= 4.max(window as usize + 1), "{} frames in one step", out.frames.len());
        for (header, _) in out.frames.drain(..) {
            assert_eq!(
                (header.source, header.destination, header.destination_qp),
                (LOCAL.ip, REMOTE.ip, REMOTE.qp)
            );
            peer.hear(&header);
        }
        for event in out.events.drain(..) {
            if let RoceEvent::Completion(completion) = event {
                posted.end(completion);
            }
        }
        if host.queue_pair().has_failed() {
            assert!(
                posted.sends.is_empty() && posted.receives.is_empty(),
                "a failed queue pair holds requests"
            );
        }
    }
}

fn event(
    host: &mut Host,
    peer: &mut Peer,
    posted: &mut Posted,
    input: &mut Input<'_>,
    out: &mut Record<Host>,
) {
    let mut header = RoceHeader::new(REMOTE.ip, LOCAL.ip, LOCAL.qp, peer.next, Operation::WriteMiddle);
    match input.below(8) {
        0 => {
            let id = posted.name();
            let verb = match input.byte() {
                0..128 => Verb::Send,
                address => Verb::Write { remote_address: u64::from(address), remote_key: 0 },
            };
            let source = slice(input);
            let immediate = input.flag().then_some(7);
            let request = SendRequest { id, verb, source, immediate };
            if host.handle_command(Instant::ZERO, RoceCommand::PostSend(request), out).is_ok() {
                posted.sends.push_back(id);
            }
        }
        1 => {
            let id = posted.name();
            let request = ReceiveRequest { id, sink: slice(input) };
            if host.handle_command(Instant::ZERO, RoceCommand::PostReceive(request), out).is_ok() {
                posted.receives.push_back(id);
            }
        }
        2 | 3 => {
            let payload = Numbers::zeroed(peer.any_request(input, 9, &mut header));
            deliver(host, PORT, &header, &payload, out);
        }
        4 => {
            peer.any_acknowledge(input, &mut header);
            deliver(host, PORT, &header, &Numbers::zeroed(0), out);
        }
        5 => fire(host, input.byte(), out),
        6 => transmit(host, PORT, input.below(5), out),
        _ => {
            let command = match input.below(3) {
                0 => RoceCommand::Skip { sends: u32::from(input.byte()), receives: u32::from(input.byte()) },
                1 => RoceCommand::Release(RegionId(u32::from(input.below(3)))),
                _ => RoceCommand::Register(Numbers::zeroed(REGION)),
            };
            // Refused or not, whatever was posted still ends.
            let is_skip = matches!(command, RoceCommand::Skip { .. });
            if host.handle_command(Instant::ZERO, command, out).is_ok() && is_skip {
                *peer = Peer::new(host.queue_pair().expected_psn());
            }
        }
    }
}

/// A slice of the first region, mostly inside it.
fn slice(input: &mut Input<'_>) -> Slice {
    let (offset, length) = (usize::from(input.byte() / 4), usize::from(input.byte() / 4));
    Slice { region: RegionId(0), offset, length }
}
