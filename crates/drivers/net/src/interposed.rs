//! Nodes of one process, and everything between them under the owner's hand: no socket, no clock of the machine's.
//!
//! Engines and codecs are those of real nodes, and so is the loop around them: frames travel as the bytes that the codec writes, from
//! one node's outbox to another's inbox. On the way a [`FaultList`] says what becomes of each frame, and when which timer fires. So a run
//! that another driver has seen is seen again here, frame by frame. The call loop of the owner:
//!
//! ```text
//! let mut network = Interposed::new(nodes, &links, LATENCY, &faults)?;
//! network.command(node, order)?;
//! network.run(until)?;
//! while let Some((node, event)) = network.next_event() { .. }
//! ```

use crate::clock::Clock;
use crate::codec::Codec;
use crate::error::NodeError;
use crate::faults::MAX_HOLD;
use crate::in_process::{Departed, InProcess};
use crate::node::{Node, NodeOptions};
use quincunx_engine::{Engine, PortId};
use quincunx_network::{Delay, FaultList, FaultPlan, Firing, Injector, LinkDirection};
use quincunx_sockets::Datagram;
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// An end of a link: a node, by its place in the list of nodes, and a port of it.
pub type LinkEnd = (usize, PortId);

/// A frame that has left a node, as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentFrame {
    /// Where it has left.
    pub from: LinkEnd,
    /// Who sends it to whom.
    pub datagram: Datagram,
    /// What the codec has written.
    pub bytes: Vec<u8>,
}

/// One direction of a link.
struct Way {
    from: LinkEnd,
    faults: Injector,
    sent: u64,
    /// Frames that wait to be overtaken: by which number of sent frames they have been, and where they are among those in flight.
    waiting: Vec<(u64, (Instant, u64))>,
}

/// Nodes, links, and what is under way.
pub struct Interposed<E: Engine, C: Codec<E>> {
    nodes: Vec<Node<E, C, InProcess>>,
    /// By the addresses of both ends.
    ways: BTreeMap<(usize, SocketAddr), Way>,
    latency: Duration,
    now: Instant,
    sequence: u64,
    /// By time of arrival, and in the order of sending: for which node.
    in_flight: BTreeMap<(Instant, u64), (usize, Datagram, Vec<u8>)>,
    firings: VecDeque<Firing<usize, E::Timer>>,
    events: VecDeque<(usize, E::Event)>,
    sent: Vec<SentFrame>,
}

/// The address of an end of a link. What a codec sends there arrives at that port, as the port of the datagram's destination.
pub fn end_address((node, port): LinkEnd) -> SocketAddr {
    let [high, low] = u16::try_from(node).expect("fewer than 65,536 nodes").to_be_bytes();
    SocketAddr::new(IpAddr::from([127, 0, high, low]), port.0)
}

impl<E: Engine, C: Codec<E>> Interposed<E, C> {
    /// Nodes with their numbers of ports, on links. A frame that `faults` does not name arrives after `latency`. A timer fires when
    /// `faults` says so, if it is armed then, and at no other time.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    ///
    /// # Panics
    /// If `faults` names a direction that there is not.
    pub fn new(
        nodes: impl IntoIterator<Item = (E, u16, C)>,
        links: &[[LinkEnd; 2]],
        latency: Duration,
        faults: FaultList<usize, E::Timer>,
    ) -> Result<Self, NodeError> {
        let nodes = nodes.into_iter().enumerate().map(|(index, (engine, ports, codec))| {
            let local = end_address((index, PortId(0)));
            let transport = InProcess::new(local).map_err(|error| NodeError::Wait { local, error })?;
            let mut node = Node::new(engine, ports, codec, transport, NodeOptions::default())?;
            node.io.clock = Clock::Hand(Instant::ZERO);
            Ok(node)
        });
        let nodes = nodes.collect::<Result<Vec<_>, NodeError>>()?;
        let mut ways: BTreeMap<_, Way> = BTreeMap::new();
        for (from, to) in links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]) {
            let faults = Injector::new(FaultPlan::default(), 0);
            ways.insert((from.0, end_address(to)), Way { from, faults, sent: 0, waiting: Vec::new() });
        }
        for (&direction, plan) in faults.plans() {
            let found = ways.iter_mut().find(|((_, to), way)| match direction {
                LinkDirection::From(node, port) => way.from == (node, port),
                LinkDirection::Between(a, b) => {
                    way.from.0 == a && to.ip() == end_address((b, PortId(0))).ip()
                }
            });
            let (_, way) = found.unwrap_or_else(|| panic!("expected a link {direction:?}, found none"));
            way.faults = Injector::new(plan, 0);
        }
        let mut firings = faults.firings;
        firings.sort_by_key(|firing| firing.at);
        Ok(Self {
            nodes,
            ways,
            latency,
            now: Instant::ZERO,
            sequence: 0,
            in_flight: BTreeMap::new(),
            firings: firings.into(),
            events: VecDeque::new(),
            sent: Vec::new(),
        })
    }

    /// A node.
    pub fn engine(&self, node: usize) -> &E {
        self.nodes[node].engine()
    }

    /// Frames that a node's codec could not read.
    pub fn unreadable(&self, node: usize) -> u64 {
        let dropped = self.nodes[node].dropped().iter();
        dropped.filter(|(reason, _)| matches!(reason, crate::Dropped::Codec(_))).map(|(_, count)| count).sum()
    }

    /// Gives a node an order, now.
    ///
    /// # Errors
    /// The engine's refusal; nothing has changed then.
    pub fn command(&mut self, node: usize, command: E::Command) -> Result<(), E::Rejected> {
        self.nodes[node].command(command)?;
        self.settle(node).expect("nothing fails between nodes of one process");
        Ok(())
    }

    /// Does what is due until `time`, which it then is: arrivals and firings in the order of their times.
    ///
    /// # Errors
    /// As of [`Node::turn`].
    pub fn run(&mut self, time: Instant) -> Result<(), NodeError> {
        loop {
            let arrival = self.in_flight.first_key_value().map(|(&(at, _), _)| at);
            let firing = self.firings.front().map(|firing| firing.at);
            let Some(next) = arrival.into_iter().chain(firing).min().filter(|next| *next <= time) else {
                break;
            };
            self.turn_clock(next);
            if arrival == Some(next) {
                let (_, (node, datagram, bytes)) = self.in_flight.pop_first().expect("it was looked at");
                self.nodes[node].io.transport.arriving.push_back((datagram, bytes));
                self.settle(node)?;
            } else {
                let Firing { node, timer, .. } = self.firings.pop_front().expect("it was looked at");
                self.nodes[node].fire(timer);
                self.settle(node)?;
            }
        }
        self.turn_clock(time);
        Ok(())
    }

    /// The oldest event not yet taken, and who tells it.
    pub fn next_event(&mut self) -> Option<(usize, E::Event)> {
        self.events.pop_front()
    }

    /// What has left since the last call, in the order of each direction.
    pub fn take_sent(&mut self) -> Vec<SentFrame> {
        std::mem::take(&mut self.sent)
    }

    fn turn_clock(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for node in &mut self.nodes {
            node.io.clock = Clock::Hand(self.now);
        }
    }

    /// Lets a node do what it can, and puts what it has sent on its way.
    fn settle(&mut self, node: usize) -> Result<(), NodeError> {
        self.nodes[node].settle()?;
        while let Some(event) = self.nodes[node].next_event() {
            self.events.push_back((node, event));
        }
        for departed in std::mem::take(&mut self.nodes[node].io.transport.departed) {
            self.launch(node, departed);
        }
        Ok(())
    }

    /// Decides what becomes of a frame. One that goes where no link leads is lost.
    fn launch(&mut self, node: usize, Departed { destination, tos, bytes }: Departed) {
        let Some(way) = self.ways.get_mut(&(node, destination)) else { return };
        let datagram =
            Datagram { source: end_address(way.from), destination, tos, identification: 0, interface: 0 };
        let fate = way.faults.fate(way.sent);
        way.sent += 1;
        self.sent.push(SentFrame { from: way.from, datagram, bytes: bytes.clone() });
        let IpAddr::V4(ip) = destination.ip() else { return };
        let [.., high, low] = ip.octets();
        let to = usize::from(u16::from_be_bytes([high, low]));
        let in_turn = self.now + self.latency;
        for delay in fate.arrivals() {
            self.sequence += 1;
            let at = match delay {
                None => in_turn,
                Some(Delay::HeldBack(longer)) => in_turn + longer,
                Some(Delay::Until(at)) => at.max(self.now),
                Some(Delay::OvertakenBy(frames)) => {
                    way.waiting.push((way.sent + frames, (in_turn + MAX_HOLD, self.sequence)));
                    in_turn + MAX_HOLD
                }
            };
            self.in_flight.insert((at, self.sequence), (to, datagram, bytes.clone()));
        }
        // Frames that have been overtaken by enough others arrive behind the last of these.
        let overtaken: Vec<_> = way.waiting.extract_if(.., |(by, _)| *by <= way.sent).collect();
        for (_, key) in overtaken {
            if let Some(frame) = self.in_flight.remove(&key) {
                self.sequence += 1;
                self.in_flight.insert((in_turn, self.sequence), frame);
            }
        }
    }
}
