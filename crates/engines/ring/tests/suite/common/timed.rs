//! The same group in virtual time: hosts around a switch, each with a link of one rate both ways, and a latency from
//! host to host. Packets cut through the switch; hosts compute in no time.

use super::{ProgramGroup, peer_of, qp_to};
use quincunx_collective::Payload;
use quincunx_engine::verbs::{CollectiveRequest, Completion, Outcome};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The links of a group.
pub(crate) struct Links {
    /// Nanoseconds a byte.
    pub(crate) per_byte: u64,
    /// Nanoseconds from host to host.
    pub(crate) latency: u64,
}

pub(crate) struct Timing {
    /// When the last rank had its outcome, in nanoseconds.
    pub(crate) end: u64,
    /// Messages that found no receive request.
    pub(crate) not_ready: usize,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    /// A message from a rank on a queue pair, that takes a link so long, begins to leave the switch.
    Switch(usize, usize, u64),
    /// The next message from a rank on a queue pair is whole at its peer.
    Arrive(usize, usize),
    /// Its acknowledgement is back.
    Acknowledge(usize, usize),
}

/// What is on its way on one queue pair, in one direction.
struct Flight<P> {
    messages: VecDeque<(P, Option<u32>)>,
    completions: VecDeque<Completion>,
    /// When the last message has left the host, and when it arrives.
    sent: u64,
    arrived: u64,
}

impl<P> Default for Flight<P> {
    fn default() -> Self {
        Self { messages: VecDeque::new(), completions: VecDeque::new(), sent: 0, arrived: 0 }
    }
}

/// How long a sender waits after receiver-not-ready.
const RETRY: u64 = 100_000;

impl<P: Payload> ProgramGroup<P> {
    /// Runs one collective; rank r starts at `starts[r]`.
    pub(crate) fn run_timed(
        &mut self,
        requests: &[CollectiveRequest],
        starts: &[u64],
        links: &Links,
    ) -> Timing {
        let ranks = self.hosts.len();
        let mut events: BinaryHeap<Reverse<(u64, u64, Event)>> = BinaryHeap::new();
        let mut sequence = 0;
        let mut up_free = vec![0u64; ranks];
        let mut down_free = vec![0u64; ranks];
        let mut flights: BTreeMap<(usize, usize), Flight<P>> = BTreeMap::new();
        let mut timing = Timing { end: 0, not_ready: 0 };
        let mut finished = 0;
        for (rank, start) in starts.iter().enumerate() {
            events.push(Reverse((*start, rank as u64, Event::Start(rank))));
            sequence += 1;
        }
        while let Some(Reverse((now, _, event))) = events.pop() {
            let mut at = |time, event| {
                sequence += 1;
                events.push(Reverse((time, sequence, event)));
            };
            let (rank, outcome) = match event {
                Event::Start(rank) => (rank, self.start(rank, requests[rank]).unwrap()),
                Event::Switch(rank, qp, busy) => {
                    let (peer, flight) = (peer_of(rank, qp), flights.get_mut(&(rank, qp)).unwrap());
                    if busy > 0 {
                        down_free[peer] = down_free[peer].max(now) + busy;
                        flight.arrived = down_free[peer];
                    } else {
                        flight.arrived = flight.arrived.max(now);
                    }
                    at(flight.arrived, Event::Arrive(rank, qp));
                    continue;
                }
                Event::Arrive(rank, qp) => {
                    let peer = peer_of(rank, qp);
                    let back = qp_to(peer, rank);
                    let Some(receive) = self.hosts[peer].qps[back].receives.pop_front() else {
                        timing.not_ready += 1;
                        at(now + RETRY, Event::Arrive(rank, qp));
                        continue;
                    };
                    let flight = flights.get_mut(&(rank, qp)).unwrap();
                    let (message, immediate) = flight.messages.pop_front().unwrap();
                    let length = message.length();
                    self.hosts[peer].memory.write(receive.sink, message.view(0..length));
                    at(now + links.latency, Event::Acknowledge(rank, qp));
                    let completion = Completion::Received { id: receive.id, length, immediate };
                    (peer, self.complete(peer, back, completion))
                }
                Event::Acknowledge(rank, qp) => {
                    let completion = flights.get_mut(&(rank, qp)).unwrap().completions.pop_front().unwrap();
                    (rank, self.complete(rank, qp, completion))
                }
            };
            if let Some(outcome) = outcome {
                assert_eq!(outcome, Outcome::Done);
                (finished, timing.end) = (finished + 1, now);
            }
            // Queue pairs take turns, beginning with the one to the rank after us.
            let qps = self.hosts[rank].qps.len();
            let longest = self.hosts[rank].qps.iter().map(|qp| qp.sends.len()).max().unwrap_or(0);
            for turn in 0..longest * qps {
                let qp = (rank + turn) % qps;
                if let Some((send, message)) = self.hosts[rank].qps[qp].sends.pop_front() {
                    let flight = flights.entry((rank, qp)).or_default();
                    let busy = message.length() as u64 * links.per_byte;
                    if busy > 0 {
                        up_free[rank] = up_free[rank].max(now) + busy;
                        flight.sent = up_free[rank];
                    } else {
                        // A lone packet waits for those of its own queue pair; others let it in between.
                        flight.sent = flight.sent.max(now);
                    }
                    at(flight.sent + links.latency - busy, Event::Switch(rank, qp, busy));
                    flight.messages.push_back((message, send.immediate));
                    flight.completions.push_back(Completion::Sent { id: send.id });
                }
            }
        }
        assert_eq!(finished, ranks, "stuck");
        timing
    }
}
