//! Streams of traffic on their way into a run of jobs: the owner's loop around the driver's, for several at once.

use crate::packet_fabric::{Built, Data};
use crate::progress::Progress;
use crate::session::Runs;
use crate::traffic::{Arrival, Carrier, Generator, Population};
use quincunx_collective::SplitMix64;
use quincunx_driver_des::{Limits, Observer, Stopped};
use quincunx_nodes::{Node, NodeEvent};
use quincunx_scenario::{Load, Offered, Pattern};
use quincunx_units::{Duration, Instant};

/// Where a stream goes.
pub(super) enum Hosts {
    /// A pattern over these.
    Pattern(Pattern, Vec<u16>),
    /// From each of some to any of some.
    Between(Vec<u16>, Vec<u16>),
}

/// A stream from its beginning on.
pub(super) struct Stream {
    generator: Generator,
    hosts: Hosts,
    draws: SplitMix64,
    pub(super) sent: u64,
    next: Arrival,
}

impl Stream {
    /// A stream of packets that each take `packet` on a link.
    pub(super) fn new(hosts: Hosts, load: Load, packet: Duration, start: Instant, seed: u64) -> Self {
        // Those of a list send as those do that all send to one: each by itself, and nobody else.
        let (pattern, count) = match &hosts {
            Hosts::Pattern(pattern, hosts) => (*pattern, hosts.len()),
            Hosts::Between(from, _) => (Pattern::Hotspot, from.len() + 1),
        };
        let population = Population { hosts: count as u16, ways: 1, packet };
        let mut generator = Generator::new(Offered { pattern, load }, population, start, seed);
        let mut draws = SplitMix64::new(!seed);
        let next = hosts.place(generator.arrival(), &mut draws);
        Self { generator, hosts, draws, sent: 0, next }
    }

    /// The packet that is due, and then the one after it.
    fn take(&mut self) -> Arrival {
        self.sent += 1;
        let next = self.hosts.place(self.generator.arrival(), &mut self.draws);
        std::mem::replace(&mut self.next, next)
    }
}

impl Hosts {
    /// A packet as it was drawn, between the hosts that are meant.
    fn place(&self, drawn: Arrival, draws: &mut SplitMix64) -> Arrival {
        let (from, to) = match self {
            Self::Pattern(_, hosts) => (hosts[usize::from(drawn.from)], hosts[usize::from(drawn.to)]),
            Self::Between(from, to) => {
                let from = from[usize::from(drawn.from) - 1];
                let others = to.iter().filter(|&&to| to != from).count();
                // Of who has nobody else to send to the packets go to the first, which may be itself: it does not send those.
                let chosen = ((u128::from(draws.draw()) * others as u128) >> 64) as usize;
                (from, to.iter().copied().filter(|&to| to != from).nth(chosen).unwrap_or(from))
            }
        };
        Arrival { from, to, ..drawn }
    }
}

/// A simulation into which streams send packets when they are due.
pub(super) struct Streaming<'a, P: Data, O> {
    pub(super) streams: &'a mut [Stream],
    pub(super) built: &'a mut Built<P, O>,
    /// The share of the work that is done.
    pub(super) share: Option<f64>,
}

impl<P: Data, O: Observer<Node<P>>> Runs for Streaming<'_, P, O> {
    type Event = NodeEvent<P>;

    fn run(&mut self, limits: Limits) -> Stopped<NodeEvent<P>> {
        run(self.streams, self.built, limits)
    }

    fn progress(&self) -> Progress {
        Progress { share: self.share, ..self.built.progress() }
    }
}

fn run<P: Data, O: Observer<Node<P>>>(
    streams: &mut [Stream],
    built: &mut Built<P, O>,
    limits: Limits,
) -> Stopped<NodeEvent<P>> {
    loop {
        let first = streams.iter_mut().zip(0..).min_by_key(|(stream, number)| (stream.next.at, *number));
        let Some((stream, number)) = first.filter(|(stream, _)| stream.next.at <= limits.time) else {
            let stopped = built.run(limits);
            if stopped == Stopped::Idle && !streams.is_empty() {
                built.pass(limits.time);
                return Stopped::TimeLimit;
            }
            return stopped;
        };
        let due = stream.next.at;
        match built.run(Limits { time: due, ..limits }) {
            Stopped::Idle => built.pass(due),
            Stopped::TimeLimit => {}
            stopped => return stopped,
        }
        let packet = stream.take();
        if packet.from != packet.to {
            built.send(&packet, number);
        }
    }
}
