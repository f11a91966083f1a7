//! Everything but the engines: links, timers, the event queue; and the sink that engines' answers go to.

use crate::channel::Channel;
use crate::pausing::{Holds, InFlight};
use crate::places::Places;
use crate::queue::EventQueue;
use crate::timers::Timers;
use crate::{Departure, Direction, Medium, NodeIndex, Observer, QueueConfig};
use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_network::Fate;
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// What a node tells its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emitted<T> {
    /// When.
    pub at: Instant,
    /// Who.
    pub node: NodeIndex,
    /// What.
    pub event: T,
}

/// What an entry of the event queue is about. Two bits of its source say which kind.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// The first frame in flight on a channel arrives.
    Arrival(u32),
    /// The port at the start of a channel may be free.
    PortFree(u32),
    /// A timer may be due.
    Timer(u32),
    /// A pause of a channel may begin or end, or a frame may have left that kept another in its buffer.
    Pausing(u32),
}

const KIND_SHIFT: u32 = 22;

impl Source {
    #[inline]
    pub(crate) fn pack(self) -> u32 {
        let (kind, number) = match self {
            Self::Arrival(channel) => (0, channel),
            Self::PortFree(channel) => (1, channel),
            Self::Timer(timer) => (2, timer),
            Self::Pausing(channel) => (3, channel),
        };
        assert!(number < 1 << KIND_SHIFT, "more links or timers than the event queue can number");
        kind << KIND_SHIFT | number
    }

    pub(crate) fn unpack(source: u32) -> Self {
        let number = source & ((1 << KIND_SHIFT) - 1);
        match source >> KIND_SHIFT {
            0 => Self::Arrival(number),
            1 => Self::PortFree(number),
            2 => Self::Timer(number),
            _ => Self::Pausing(number),
        }
    }
}

/// What comes of a transmit slot that is offered to a port.
#[derive(PartialEq, Eq)]
enum Answer {
    /// It has nothing to send.
    Declined,
    /// It has, but it has to wait.
    Waits,
    /// It has sent a frame.
    Sent,
}

/// A logical port: the channel that it sends on, and the port at which frames arrive there.
#[derive(Clone, Copy)]
struct LogicalPort {
    channel: u32,
    peer: PortId,
}

/// A channel that starts at a node.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) channel: u32,
    /// The port that sends on it, or the first of several.
    port: PortId,
    is_shared: bool,
}

/// What a node has outside its engine.
#[derive(Default)]
pub(crate) struct Attachment<D> {
    ports: Vec<Option<LogicalPort>>,
    /// The channels that start here.
    pub(crate) channels: Vec<Outgoing>,
    /// Of these, the ones that are offered slots. The others have an entry in the event queue, which says when their port is free.
    pub(crate) offered: Places,
    pub(crate) drops: BTreeMap<D, u64>,
}

pub(crate) struct Network<E: Engine, M, O> {
    pub(crate) now: Instant,
    pub(crate) queue: EventQueue,
    sequence: u64,
    pub(crate) channels: Vec<Channel<E>>,
    pub(crate) nodes: Vec<Attachment<E::DropReason>>,
    pub(crate) timers: Timers<E::Timer>,
    pub(crate) emitted: VecDeque<Emitted<E::Event>>,
    pub(crate) medium: M,
    pub(crate) observer: O,
    pub(crate) holds: Holds,
}

impl<E: Engine, M: Medium<E>, O: Observer<E>> Network<E, M, O> {
    pub(crate) fn new(medium: M, observer: O) -> Self {
        Self {
            now: Instant::ZERO,
            queue: EventQueue::new(),
            sequence: 0,
            channels: Vec::new(),
            nodes: Vec::new(),
            timers: Timers::new(),
            emitted: VecDeque::new(),
            medium,
            observer,
            holds: Holds::default(),
        }
    }

    pub(crate) fn add_node(&mut self) {
        self.timers.add_node();
        self.nodes.push(Attachment {
            ports: Vec::new(),
            channels: Vec::new(),
            offered: Places::default(),
            drops: BTreeMap::new(),
        });
    }

    pub(crate) fn add_channel(&mut self, mut channel: Channel<E>) {
        let number = self.channels.len() as u32;
        let node = &mut self.nodes[channel.from as usize];
        channel.place = node.channels.len();
        node.channels.push(Outgoing {
            channel: number,
            port: channel.ports.first().map_or(PortId(0), |ports| ports.0),
            is_shared: channel.ports.len() != 1,
        });
        node.offered.grow(node.channels.len());
        node.offered.insert(channel.place);
        for &(port, peer) in &channel.ports {
            let index = usize::from(port.0);
            if node.ports.len() <= index {
                node.ports.resize(index + 1, None);
            }
            assert!(node.ports[index].is_none(), "{port:?} is plugged in already");
            node.ports[index] = Some(LogicalPort { channel: number, peer });
        }
        self.channels.push(channel);
    }

    #[inline]
    pub(crate) fn schedule(&mut self, at: Instant, source: Source) {
        self.sequence += 1;
        self.queue.push(at, self.sequence, source.pack());
    }

    /// Offers a transmit slot to the ports of `node` on its channel at `place` in turn if that is free; sees to it that they are asked again
    /// when it is. Whether one used it.
    #[inline(always)]
    pub(crate) fn offer(&mut self, engine: &mut E, node: u32, place: usize, to: Outgoing) -> bool {
        if to.is_shared {
            return self.offer_in_turn(engine, node, place);
        }
        self.offer_port(engine, node, place, to) == Answer::Sent
    }

    /// The same where several ports share the channel, or none has it.
    #[inline(never)]
    fn offer_in_turn(&mut self, engine: &mut E, node: u32, place: usize) -> bool {
        let to = self.nodes[node as usize].channels[place];
        let number = to.channel as usize;
        let ports = self.channels[number].ports.len();
        let mut turn = self.channels[number].turn;
        for _ in 0..ports {
            let port = self.channels[number].ports[turn].0;
            turn = if turn + 1 == ports { 0 } else { turn + 1 };
            match self.offer_port(engine, node, place, Outgoing { port, ..to }) {
                Answer::Declined => {}
                Answer::Waits => return false,
                Answer::Sent => {
                    self.channels[number].turn = turn;
                    return true;
                }
            }
        }
        false
    }

    /// Offers a transmit slot to a port. If the channel is not free, it is offered no more until it is; if it is paused, the end of that
    /// offers it anew.
    #[inline(always)]
    fn offer_port(&mut self, engine: &mut E, node: u32, place: usize, to: Outgoing) -> Answer {
        if !engine.wants_transmit(to.port) {
            return Answer::Declined;
        }
        let number = to.channel as usize;
        let channel = &self.channels[number];
        if channel.is_paused() {
            self.nodes[node as usize].offered.remove(place);
            return Answer::Waits;
        }
        if channel.free_at > self.now {
            self.wait(node, place, to.channel, channel.free_at);
            return Answer::Waits;
        }
        let before = channel.index;
        engine.handle_transmit_slot(self.now, to.port, &mut Outlet { network: self, node });
        if self.channels[number].index > before { Answer::Sent } else { Answer::Declined }
    }

    /// Offers a channel no slots until it is free.
    #[inline(always)]
    fn wait(&mut self, node: u32, place: usize, channel: u32, free_at: Instant) {
        self.nodes[node as usize].offered.remove(place);
        self.schedule(free_at, Source::PortFree(channel));
    }

    /// Offers a slot to the port that has just used one, as far as that is all there is to do: its channel is busy now, and no other one of the
    /// node is offered slots. Whether that is so.
    #[inline(always)]
    pub(crate) fn offer_again(&mut self, engine: &mut E, node: u32, place: usize, to: Outgoing) -> bool {
        let Outgoing { channel: number, port, is_shared } = to;
        let channel = &self.channels[number as usize];
        let free_at = channel.free_at;
        let is_only = self.nodes[node as usize].offered.is_only(place);
        if is_shared || free_at <= self.now || !is_only {
            return false;
        }
        debug_assert!(!channel.is_paused(), "a channel that is paused sends nothing in a slot");
        if engine.may_want_transmit() && engine.wants_transmit(port) {
            self.wait(node, place, number, free_at);
        }
        true
    }

    fn logical_port(&self, node: u32, port: PortId) -> LogicalPort {
        let ports = &self.nodes[node as usize].ports;
        let found = ports.get(usize::from(port.0)).copied().flatten();
        found.unwrap_or_else(|| panic!("expected a link at {port:?} of node {node}, found none"))
    }

    /// The channel that a port sends on.
    pub(crate) fn channel_of(&self, node: u32, port: PortId) -> u32 {
        self.logical_port(node, port).channel
    }

    /// Queues a frame on the channel that `port` of `node` is plugged into.
    #[inline]
    pub(crate) fn send(&mut self, node: u32, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        let LogicalPort { channel: number, peer } = self.logical_port(node, port);
        let again = Frame { header: frame.header, payload: E::Payload::reborrow(frame.payload) };
        self.observer.sent(NodeIndex(node), again);
        let channel = &mut self.channels[number as usize];
        if !channel.is_plain() || self.medium.is_urgent(frame.header) || self.observer.sees_departures() {
            return self.send_by_fate(number, peer, frame);
        }
        let payload = E::Payload::view_length(E::Payload::reborrow(frame.payload));
        let length = self.medium.wire_length(frame.header, payload);
        let direction = Direction::from_number(number as usize);
        let needed = self.medium.needed_length(direction, frame.header, length);
        let time = channel.time_for(length);
        let on_the_wire = if needed == length { time } else { channel.time_for(needed) };
        let start = channel.free_at.max(self.now);
        channel.free_at = start + time;
        channel.count_plain(self.now, start, length, time);
        self.sequence += 1;
        let (at, sequence) = (start + on_the_wire + channel.config.latency, self.sequence);
        let is_first = channel.launch_plain(InFlight {
            start,
            at,
            sequence,
            urgent: false,
            port: peer,
            header: frame.header.clone(),
            payload: E::Payload::from_view(frame.payload),
        });
        if is_first {
            self.queue.push(at, sequence, Source::Arrival(number).pack());
        }
        self.hold(number, start, start + time, false);
    }

    /// The same for a frame that may find no room, be marked, overtake, be lost or held up, or that is to be described.
    #[inline(never)]
    fn send_by_fate(&mut self, number: u32, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        let direction = Direction::from_number(number as usize);
        let channel = &mut self.channels[number as usize];
        let payload = E::Payload::view_length(E::Payload::reborrow(frame.payload));
        let length = self.medium.wire_length(frame.header, payload);
        let needed = self.medium.needed_length(direction, frame.header, length);
        let time = channel.time_for(length);
        let mut is_long = false;
        if channel.queue != QueueConfig::default() {
            let queued = channel.queued_bytes(self.now);
            if channel.queue.limit.is_some_and(|limit| queued + length > limit) {
                channel.statistics.refused += 1;
                if self.observer.sees_departures() {
                    let start = channel.free_at;
                    let (queued, end, fate, marked) = (self.now, start, None, false);
                    let departure = Departure { direction, queued, start, end, length, marked, fate };
                    self.observer.departed(&departure, frame);
                }
                return;
            }
            is_long = channel.queue.mark_above.is_some_and(|threshold| queued > threshold);
        }
        let urgent = self.medium.is_urgent(frame.header);
        let start = channel.reserve_slot(self.now, time, urgent);
        let fate = channel.injector.as_ref().map_or(Fate::Delivered, |injector| injector.fate(channel.index));
        let mut header = frame.header.clone();
        let marked = is_long && self.medium.mark_congestion(&mut header);
        channel.count(self.now, length, time, marked, &fate);
        if self.observer.sees_departures() {
            let departure = Departure {
                direction,
                queued: self.now,
                start,
                end: start + time,
                length,
                marked,
                fate: Some(fate),
            };
            self.observer.departed(&departure, frame);
        }

        let on_the_wire = if needed == length { time } else { channel.time_for(needed) };
        let at = start + on_the_wire + channel.config.latency;
        let payload = E::Payload::from_view(frame.payload);
        self.sequence += 1;
        let frame = InFlight { start, at, sequence: self.sequence, urgent, port, header, payload };
        if matches!(fate, Fate::Delivered) {
            channel.launch(frame);
        } else {
            self.sequence = channel.launch_by_fate(frame, fate);
        }
        self.announce(number);
        self.hold(number, start, start + time, urgent);
    }

    /// Tells the queue of the first frame to arrive on a channel, if it has not been told.
    #[inline]
    pub(crate) fn announce(&mut self, number: u32) {
        if let Some((at, sequence)) = self.channels[number as usize].announce() {
            self.queue.push(at, sequence, Source::Arrival(number).pack());
        }
    }
}

/// Where the answers of one node's engine go.
pub(crate) struct Outlet<'a, E: Engine, M, O> {
    pub(crate) network: &'a mut Network<E, M, O>,
    pub(crate) node: u32,
}

impl<E: Engine, M: Medium<E>, O: Observer<E>> Sink<E> for Outlet<'_, E, M, O> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        self.network.send(self.node, port, frame);
    }

    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        let deadline = self.network.now + after;
        if let Some(number) = self.network.timers.set(self.node, timer, deadline) {
            self.network.schedule(deadline, Source::Timer(number));
        }
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.network.timers.cancel(self.node, timer);
    }

    fn emit(&mut self, event: E::Event) {
        let (at, node) = (self.network.now, NodeIndex(self.node));
        self.network.observer.emitted(at, node, &event);
        self.network.emitted.push_back(Emitted { at, node, event });
    }

    fn drop_frame(&mut self, port: PortId, reason: E::DropReason) {
        self.network.observer.dropped(self.network.now, NodeIndex(self.node), port, reason);
        *self.network.nodes[self.node as usize].drops.entry(reason).or_default() += 1;
    }
}
