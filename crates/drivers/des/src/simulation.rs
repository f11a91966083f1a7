//! The simulation: nodes on links, run until something that its owner waits for.

use crate::channel::Channel;
use crate::network::{Emitted, Network, Outgoing, Outlet, Source};
use crate::pausing::Buffer;
use crate::timers::Due;
use crate::{
    BusyOverTime, Direction, DirectionStatistics, LinkConfig, LinkIndex, Medium, NodeIndex, Observer,
    PauseConfig, QueueConfig,
};
use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_network::{Delay, FaultList, FaultPlan, Firing, Hold, Injector, LinkDirection};
use quincunx_units::{BitRate, Instant};
use std::collections::BTreeMap;

/// How far a run may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Nothing later than this is done.
    pub time: Instant,
    /// Steps in all, since the simulation began. An owner that shows progress moves this on in portions.
    pub steps: u64,
}

/// Why a run has come back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stopped<T> {
    /// A node has told something. Running on goes on from there.
    Event(Emitted<T>),
    /// Nothing is due any more, ever.
    Idle,
    /// What is due next is later than the time limit, which it now is.
    TimeLimit,
    /// As many steps as allowed were done.
    StepLimit,
}

/// Nodes, links, and what is due. All state is in here.
pub struct Simulation<E: Engine, M, O = ()> {
    engines: Vec<E>,
    network: Network<E, M, O>,
    seed: u64,
    steps: u64,
}

impl Limits {
    /// None.
    pub const NONE: Self = Self { time: Instant::from_picos(u64::MAX), steps: u64::MAX };

    /// Until `time`.
    pub const fn until(time: Instant) -> Self {
        Self { time, ..Self::NONE }
    }
}

impl<E: Engine, M: Medium<E>> Simulation<E, M> {
    /// An empty simulation at time zero that nobody watches.
    pub fn new(medium: M, seed: u64) -> Self {
        Self::with_observer(medium, seed, ())
    }
}

impl<E: Engine, M: Medium<E>, O: Observer<E>> Simulation<E, M, O> {
    /// An empty simulation at time zero.
    pub fn with_observer(medium: M, seed: u64, observer: O) -> Self {
        Self { engines: Vec::new(), network: Network::new(medium, observer), seed, steps: 0 }
    }

    /// Adds a node without links.
    pub fn add_node(&mut self, engine: E) -> NodeIndex {
        self.engines.push(engine);
        self.network.add_node();
        NodeIndex(self.engines.len() as u32 - 1)
    }

    /// Joins two nodes. Each end names the ports of its node's engine that share the link, as many as the other: what is
    /// sent at one arrives at the one in the same place at the other end. Ports that share a link get transmit slots
    /// in turn.
    ///
    /// # Panics
    /// If a node does not exist, a port is plugged in already, or the ends name different numbers of ports.
    pub fn connect(
        &mut self,
        a: (NodeIndex, &[PortId]),
        b: (NodeIndex, &[PortId]),
        config: LinkConfig,
    ) -> LinkIndex {
        assert_eq!(a.1.len(), b.1.len(), "both ends of a link name equally many ports");
        let link = LinkIndex(self.network.channels.len() as u32 / 2);
        for (from, to) in [(a, b), (b, a)] {
            let ports = from.1.iter().copied().zip(to.1.iter().copied()).collect();
            self.network.add_channel(Channel::new(from.0.0, to.0.0, ports, config));
        }
        link
    }

    /// Sets the faults of a direction, for frames queued from now on.
    ///
    /// # Panics
    /// If frames are to be held back for a number of frames: a simulation holds them back in time.
    pub fn set_faults(&mut self, direction: Direction, plan: FaultPlan) {
        let is_counted = |delay: Option<Delay>| matches!(delay, Some(Delay::OvertakenBy(_)));
        let is_listed = plan.fates.values().any(|fate| fate.arrivals().any(is_counted));
        let is_drawn =
            plan.rates.reordering.value() > 0.0 && matches!(plan.rates.longest_hold, Hold::Frames(_));
        assert!(
            !is_listed && !is_drawn,
            "expected frames to be held back in time, found a number of frames; give Hold::Time or Delay::HeldBack"
        );
        let number = direction.number();
        let injector = Injector::of_direction(plan, self.seed, number as u64);
        self.network.channels[number].set_injector(injector);
    }

    /// Prescribes when timers fire, in place of the durations that engines ask for. A timer that is not armed when its time
    /// comes does nothing; one that is armed and not listed does not fire.
    ///
    /// # Panics
    /// If anything has been done already, or prescribed.
    pub fn prescribe_timers(&mut self, firings: &[Firing<NodeIndex, E::Timer>]) {
        let network = &mut self.network;
        assert!(network.queue.is_empty() && self.steps == 0, "timers are prescribed before anything is done");
        let numbers = network.timers.prescribe(firings.iter().map(|firing| (firing.node.0, firing.timer)));
        for (number, firing) in numbers.into_iter().zip(firings) {
            network.schedule(firing.at, Source::Timer(number));
        }
    }

    /// Prescribes a whole run: the fates of frames on every direction that the list names, and when timers fire.
    ///
    /// # Panics
    /// As [`set_faults`](Self::set_faults) and [`prescribe_timers`](Self::prescribe_timers) do, or if the list names a direction that
    /// there is not.
    pub fn prescribe(&mut self, list: &FaultList<NodeIndex, E::Timer>) {
        for (direction, plan) in list.plans() {
            let number = match *direction {
                LinkDirection::From(node, port) => self.network.channel_of(node.0, port) as usize,
                LinkDirection::Between(from, to) => {
                    let is_it = |channel: &Channel<E>| (channel.from, channel.to) == (from.0, to.0);
                    let number = self.network.channels.iter().position(is_it);
                    number.unwrap_or_else(|| panic!("expected a link from {from:?} to {to:?}, found none"))
                }
            };
            self.set_faults(Direction::from_number(number), plan);
        }
        self.prescribe_timers(&list.firings);
    }

    /// Sets the limits of a direction's queue, for frames queued from now on.
    pub fn set_queue(&mut self, direction: Direction, queue: QueueConfig) {
        self.network.channels[direction.number()].set_queue(queue);
    }

    /// Has the node at the end of a direction pause its sender when its input buffer fills up; for frames that arrive from now on.
    ///
    /// # Panics
    /// If the threshold to resume lies above the one to pause.
    pub fn set_pause(&mut self, direction: Direction, pause: PauseConfig) {
        self.network.channels[direction.number()].pausing_mut().buffer = Some(Buffer::new(pause));
    }

    /// The directions that are paused now. What is in their queues does not leave: if nothing is due any more, they wait for each
    /// other.
    pub fn paused(&self) -> impl Iterator<Item = Direction> {
        let channels = self.network.channels.iter().enumerate();
        channels.filter(|(_, channel)| channel.is_paused()).map(|(number, _)| Direction::from_number(number))
    }

    /// Lets traffic of others take `rate` of a direction, for frames queued from now on; `None` ends it.
    ///
    /// # Panics
    /// If that leaves nothing.
    pub fn set_background(&mut self, direction: Direction, rate: Option<BitRate>) {
        self.network.channels[direction.number()].set_background(rate);
    }

    /// Hands an order to a node, now.
    ///
    /// # Errors
    /// Those of the engine; nothing has changed then.
    pub fn command(&mut self, node: NodeIndex, command: E::Command) -> Result<(), E::Rejected> {
        let now = self.network.now;
        let mut outlet = Outlet { network: &mut self.network, node: node.0 };
        let done = self.engines[node.0 as usize].handle_command(now, command, &mut outlet);
        self.settle(node.0);
        done
    }

    /// Queues a frame at a port in the place of its node: traffic of others, which shares the link and which the node's engine
    /// knows nothing of.
    ///
    /// # Panics
    /// If no link is plugged into the port.
    pub fn send(&mut self, node: NodeIndex, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        self.network.send(node.0, port, frame);
    }

    /// Lets time pass in which nothing is due: for owners that do something of their own at `time`.
    ///
    /// # Panics
    /// If something is due before.
    pub fn pass(&mut self, time: Instant) {
        let due = self.network.queue.next_time();
        assert!(due.is_none_or(|due| due >= time), "what is due before is done first");
        self.network.now = self.network.now.max(time);
    }

    /// Begins to count anew: what directions have carried from now on.
    pub fn reset_statistics(&mut self) {
        let now = self.network.now;
        for channel in &mut self.network.channels {
            channel.reset_statistics(now);
        }
    }

    /// Does what is due, in order, until a node tells something or a limit is reached.
    pub fn run(&mut self, limits: Limits) -> Stopped<E::Event> {
        loop {
            if let Some(emitted) = self.network.emitted.pop_front() {
                return Stopped::Event(emitted);
            }
            if self.steps >= limits.steps {
                return self.stop(limits.time);
            }
            let Some((at, sequence, source)) = self.network.queue.pop_until(limits.time) else {
                return self.stop(limits.time);
            };
            self.steps += 1;
            self.network.now = at;
            match Source::unpack(source) {
                Source::Arrival(channel) => self.arrive(channel, sequence),
                Source::PortFree(channel) => self.offer_anew(channel),
                Source::Pausing(channel) => {
                    if self.network.settle_pausing(channel) {
                        self.offer_anew(channel);
                    }
                }
                Source::Timer(number) => self.fire(number),
            }
        }
    }

    /// Why nothing is done any more, if nothing later than `limit` is to be done.
    #[cold]
    fn stop(&mut self, limit: Instant) -> Stopped<E::Event> {
        match self.network.queue.next_time() {
            None => Stopped::Idle,
            Some(at) if at > limit => {
                self.network.now = self.network.now.max(limit);
                Stopped::TimeLimit
            }
            Some(_) => Stopped::StepLimit,
        }
    }

    /// Offers slots on a channel that may be free again; on the node's others only if it takes one.
    #[inline]
    fn offer_anew(&mut self, channel: u32) {
        let Channel { from, place, .. } = self.network.channels[channel as usize];
        let (engine, network) = (&mut self.engines[from as usize], &mut self.network);
        let node = &mut network.nodes[from as usize];
        node.offered.insert(place);
        let to = node.channels[place];
        if network.offer(engine, from, place, to) && !network.offer_again(engine, from, place, to) {
            self.offer_all(from);
        }
        self.debug_assert_node(from);
    }

    #[inline]
    fn arrive(&mut self, number: u32, sequence: u64) {
        let now = self.network.now;
        let channel = &mut self.network.channels[number as usize];
        let node = channel.to;
        let has_buffer = channel.pausing.as_ref().is_some_and(|pausing| pausing.buffer.is_some());
        match channel.first_if(sequence) {
            None => return,
            Some(at) if at > now => {
                return self.network.queue.push(at, sequence, Source::Arrival(number).pack());
            }
            Some(_) => {}
        }
        let first = channel.first_mut();
        // Piece by piece: as a whole it would be stored and loaded in pieces that do not fit, for which processors wait.
        let (port, header) = (first.port, first.header.clone());
        let payload = std::mem::replace(&mut first.payload, E::Payload::zeroed(0));
        channel.drop_first();
        if let Some((at, sequence)) = channel.announce() {
            self.network.queue.push(at, sequence, Source::Arrival(number).pack());
        }
        let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
        self.network.observer.arrived(now, NodeIndex(node), port, frame);
        if has_buffer {
            let length = self.network.medium.wire_length(frame.header, payload.length());
            self.network.holds.begin(number, length);
        }
        let mut outlet = Outlet { network: &mut self.network, node };
        self.engines[node as usize].handle_frame(now, port, frame, &mut outlet);
        if has_buffer {
            self.network.holds.end();
        }
        self.settle(node);
    }

    fn fire(&mut self, number: u32) {
        let now = self.network.now;
        match self.network.timers.due(number, now) {
            Due::Nothing => {}
            Due::Later(deadline) => self.network.schedule(deadline, Source::Timer(number)),
            Due::Fire(node, timer) => {
                self.network.observer.fired(now, NodeIndex(node), timer);
                let mut outlet = Outlet { network: &mut self.network, node };
                self.engines[node as usize].handle_timer(now, timer, &mut outlet);
                self.settle(node);
            }
        }
    }

    /// Offers transmit slots on all free ports of a node, until nobody wants one: after every call to its engine.
    #[inline]
    fn settle(&mut self, node: u32) {
        self.debug_assert_node(node);
        // Where traffic is dense most ports are busy, and are asked when they are free.
        if !self.network.nodes[node as usize].offered.is_empty() {
            self.offer_all(node);
            self.debug_assert_node(node);
        }
    }

    /// The same if there may be free ports.
    fn offer_all(&mut self, node: u32) {
        let Self { engines, network, .. } = self;
        let engine = &mut engines[node as usize];
        // A node with one port is asked for that at once.
        let has_one = network.nodes[node as usize].channels.len() == 1;
        while has_one || engine.may_want_transmit() {
            let mut used = false;
            for word in 0..network.nodes[node as usize].offered.count_words() {
                // Who is offered a slot changes nothing for those behind it.
                let mut left = network.nodes[node as usize].offered.word(word);
                while left != 0 {
                    let place = word * 64 + left.trailing_zeros() as usize;
                    let to = network.nodes[node as usize].channels[place];
                    used |= network.offer(engine, node, place, to);
                    left &= left - 1;
                }
            }
            if !used {
                break;
            }
        }
    }

    /// In debug builds, panics if a node's state breaks a rule, or if a port wants a slot of a node that says that none may.
    fn debug_assert_node(&self, node: u32) {
        if !cfg!(debug_assertions) {
            return;
        }
        let engine = &self.engines[node as usize];
        engine.assert_invariants();
        if engine.may_want_transmit() {
            return;
        }
        for &Outgoing { channel: number, .. } in &self.network.nodes[node as usize].channels {
            for &(port, _) in &self.network.channels[number as usize].ports {
                assert!(
                    !engine.wants_transmit(port),
                    "{port:?} of node {node} wants a slot, and its node says that no port does"
                );
            }
        }
    }

    /// The time it is.
    pub fn now(&self) -> Instant {
        self.network.now
    }

    /// Steps done: arrivals, timers and port-free times that came up.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Frames on their way or in queues. Lost ones do not count: they never arrive.
    pub fn frames_under_way(&self) -> usize {
        self.network.channels.iter().map(Channel::under_way).sum()
    }

    /// A node's engine.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn engine(&self, node: NodeIndex) -> &E {
        &self.engines[node.0 as usize]
    }

    /// All nodes' engines.
    pub fn engines(&self) -> impl ExactSizeIterator<Item = (NodeIndex, &E)> {
        self.engines.iter().enumerate().map(|(number, engine)| (NodeIndex(number as u32), engine))
    }

    /// All directions of all links, with what they have carried.
    pub fn statistics(&self) -> impl ExactSizeIterator<Item = (Direction, DirectionStatistics)> {
        let directions = (0..self.network.channels.len()).map(Direction::from_number);
        directions.map(|direction| (direction, self.direction(direction)))
    }

    /// What a direction has carried.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn direction(&self, direction: Direction) -> DirectionStatistics {
        let channel = &self.network.channels[direction.number()];
        let now = self.network.now;
        // What is queued has been counted, and is on the wire later.
        let busy = channel.statistics.busy - channel.free_at.since(channel.clock(now));
        let peak_queue = channel.rate.bytes_in(channel.peak_wait);
        let of_pauses = channel.pausing.as_ref().map(|pausing| pausing.statistics(now));
        let (pauses, paused, peak_buffer) = of_pauses.unwrap_or_default();
        DirectionStatistics { busy, peak_queue, pauses, paused, peak_buffer, ..channel.statistics }
    }

    /// How busy each direction was over time, since the beginning or since [`reset_statistics`](Self::reset_statistics).
    pub fn busy_over_time(&self) -> BusyOverTime {
        let all = self.network.channels.iter().map(|channel| (&channel.busy, channel.is_paused()));
        BusyOverTime::new(all, self.network.now)
    }

    /// Frames that a node's engine has dropped, by reason.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn drops(&self, node: NodeIndex) -> &BTreeMap<E::DropReason, u64> {
        &self.network.nodes[node.0 as usize].drops
    }

    /// Who watches.
    pub fn observer(&self) -> &O {
        &self.network.observer
    }

    /// Who watches, to be told something, or another.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.network.observer
    }

    /// Ends the simulation, and gives the observer back.
    pub fn into_observer(self) -> O {
        self.network.observer
    }
}
