//! The merge unit of a switch (CAIS III-A, figure 5): what comes to it and what leaves it. What it does with loads and reductions is in
//! `functions`, how its tables are kept within their size and free of what nobody asks for any more in `eviction`.

mod eviction;
mod functions;

use crate::groups::{ADDED, Arrival, BOUNDARY, Groups, LOADED};
use crate::statistics::{GroupStatistics, PortStatistics, Unseen};
use crate::table::{Entry, Kind, Status, Table, Waiting};
use crate::{ConfigError, MergeConfig, MergeDrop, Mutation};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::{Buffer, UnitEvent, UnitOutput};
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{Channel, ChannelSet, Class, FlitHeader, NodeId, Transaction};

/// The channel of loads' answers, of which the unit has queues of its own.
const ANSWERS: Channel = Channel::new(Class::ReadResponse, true);
/// The channel of releases.
const RELEASES: Channel = Channel::new(Class::WriteResponse, true);

/// The buffer of a packet: its port and channel.
type Held = (PortId, Channel);

/// What leaves the unit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Leaving<P> {
    /// By the core, holding a buffer until then or not.
    Core(PortId, FlitHeader, P, Option<Held>),
    /// By a queue of the unit's own.
    Own(PortId, FlitHeader, P),
}

/// What the unit has to send by a port, of its own channels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Queues<P> {
    answers: VecDeque<(FlitHeader, P)>,
    releases: VecDeque<FlitHeader>,
}

/// The point at which all who merge at an address have come to it.
const fn point_of(kind: Kind) -> u32 {
    match kind {
        Kind::Load => LOADED,
        Kind::Reduction => ADDED,
    }
}

/// The unit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Merge<P> {
    config: MergeConfig,
    /// By the port of the home.
    tables: Vec<Table<P>>,
    groups: Groups,
    queues: Vec<Queues<P>>,
    has_queued: bool,
    /// What has not gone through the unit yet, in order.
    delayed: VecDeque<(Instant, Leaving<P>)>,
    outputs: VecDeque<UnitOutput<P>>,
    events: VecDeque<UnitEvent>,
    armed: Option<Instant>,
    /// The payload of the packet that was taken last: what is lent to who sends it.
    departing: Unseen<Option<P>>,
    statistics: Unseen<Vec<PortStatistics>>,
}

impl<P: Payload> Merge<P> {
    /// A unit that is idle.
    ///
    /// # Errors
    /// If the set-up makes no sense.
    pub fn new(config: MergeConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let ports = usize::from(config.accelerators);
        let queues = Queues { answers: VecDeque::new(), releases: VecDeque::new() };
        Ok(Self {
            tables: (0..ports).map(|_| Table::new(config.capacity())).collect(),
            groups: Groups::new(config.groups, config.streams),
            queues: vec![queues; ports],
            has_queued: false,
            delayed: VecDeque::new(),
            outputs: VecDeque::new(),
            events: VecDeque::new(),
            armed: None,
            departing: Unseen(None),
            statistics: Unseen(vec![PortStatistics::default(); ports]),
            config,
        })
    }

    /// The switch that it is in.
    pub const fn node(&self) -> NodeId {
        self.config.node
    }

    /// Accelerators around the switch.
    pub const fn accelerators(&self) -> u16 {
        self.config.accelerators
    }

    /// Takes a packet with the CAIS bit, or an answer to a read of the unit's.
    ///
    /// # Errors
    /// Why it is dropped. Nothing has changed then.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, MergeDrop> {
        if header.source != NodeId(port.0) || port.0 >= self.config.accelerators {
            return Err(MergeDrop::Source);
        }
        self.advance(now);
        match header.transaction {
            Transaction::Read { length } => self.load(now, port, header, usize::from(length)),
            Transaction::Reduce => self.reduce(now, port, header, payload),
            Transaction::ReadResponse => self.fill(now, port, header, payload),
            Transaction::Sync => self.synchronise(now, port, header),
            _ => Err(MergeDrop::UnexpectedTransaction),
        }
    }

    /// The home of a request, and that it is one.
    fn home(&self, header: &FlitHeader, length: usize) -> Result<usize, MergeDrop> {
        let home = header.destination;
        if !header.inc || home.0 >= self.config.accelerators || home == header.source {
            return Err(MergeDrop::Home);
        }
        if length == 0 || length > self.config.format.max_payload {
            return Err(MergeDrop::BadLength);
        }
        Ok(usize::from(home.0))
    }

    /// Sends a request on as if the unit were not there: the home answers it itself. It keeps its buffer until then. Who wants to hear of the
    /// others hears at once, for nobody follows them.
    fn bypass(&mut self, now: Instant, home: usize, header: &FlitHeader, payload: P) -> Buffer {
        self.statistics.0[home].bypassed += 1;
        if self.config.mutation == Some(Mutation::BypassEvicts)
            && let Some(oldest) = self.tables[home].oldest()
        {
            self.end(now, home, oldest);
        }
        self.tell_sender(now, header);
        let FlitHeader { source, destination, address, tag, transaction, .. } = *header;
        let held = header.channel().map(|channel| (PortId(source.0), channel));
        let header = FlitHeader::new(source, destination, false, address, tag, transaction);
        self.send(now, Leaving::Core(PortId(home as u16), header, payload, held));
        Buffer::Held
    }

    /// An entry is over. What it held is the caller's. Nobody waits any longer for others to come to it.
    fn end(&mut self, now: Instant, home: usize, number: u32) -> P {
        self.tell_waiting(now, home, number);
        self.statistics.0[home].end(self.tables[home].entry(number).requested);
        let data = self.tables[home].remove(number);
        self.tell_level(home);
        data
    }

    /// Tells those who wait for it that all others have come to an entry.
    fn tell_waiting(&mut self, now: Instant, home: usize, number: u32) {
        let entry = self.tables[home].entry_mut(number);
        let waiting = core::mem::take(&mut entry.notify);
        let Entry { address, kind, .. } = *entry;
        self.release(now, (address, point_of(kind)), waiting);
    }

    /// Tells who sends a request, if it wants to hear it, that nobody is awaited at its address.
    fn tell_sender(&mut self, now: Instant, header: &FlitHeader) {
        if header.notify {
            let kind = match header.transaction {
                Transaction::Reduce => Kind::Reduction,
                _ => Kind::Load,
            };
            self.release(now, (header.address, point_of(kind)), 1 << header.source.0);
        }
    }

    /// Sends a sum home, and says how many contributions are in it.
    fn send_sum(&mut self, now: Instant, home: usize, address: u64, count: u32, sum: P, held: Option<Held>) {
        let participants = u32::from(self.config.participants);
        let is_whole = count >= participants;
        let statistics = &mut self.statistics.0[home];
        *if is_whole { &mut statistics.whole_sums } else { &mut statistics.partial_sums } += 1;
        let count = match self.config.mutation {
            Some(Mutation::SumCountsOne) => 1,
            Some(Mutation::PartialCountsAll | Mutation::ReleasesEarly) => participants,
            _ => count,
        };
        let to = NodeId(home as u16);
        let header = FlitHeader::new(self.config.node, to, false, address, count, Transaction::Reduce);
        self.send(now, Leaving::Core(PortId(to.0), header, sum, held));
    }

    /// Answers a load in the place of its home.
    fn answer(&mut self, now: Instant, home: usize, address: u64, to: Waiting, data: P) {
        let Waiting { requester, tag } = to;
        let home = NodeId(home as u16);
        let header = FlitHeader::new(home, requester, true, address, tag, Transaction::ReadResponse);
        self.send(now, Leaving::Own(PortId(requester.0), header, data));
    }

    /// A sync: the accelerator has come to a point of a group, or to the boundary of a stream.
    fn synchronise(&mut self, now: Instant, port: PortId, header: &FlitHeader) -> Result<Buffer, MergeDrop> {
        if header.destination != self.config.node || !header.inc {
            return Err(MergeDrop::UnexpectedTransaction);
        }
        let (group, point) = (header.address, header.tag);
        let all = u32::from(self.config.accelerators);
        let arrival = if point == BOUNDARY {
            let is_short = self.config.mutation == Some(Mutation::BoundaryShort);
            self.groups.arrive_at_boundary(group, port.0, if is_short { (all - 1).max(1) } else { all })
        } else {
            self.groups.arrive(now, (group, point), port.0, all)
        };
        if let Arrival::Released(mut present) = arrival.map_err(|_| MergeDrop::Sync)? {
            if point != BOUNDARY && self.config.mutation == Some(Mutation::GroupForgets) {
                present &= !(1 << port.0);
            }
            if point == BOUNDARY && self.config.mutation != Some(Mutation::BoundaryKeepsData) {
                self.forget(now);
            }
            self.release(now, (group, point), present);
        }
        Ok(Buffer::Free)
    }

    /// Lets those go on who are `present` at a point of a group, or of an address.
    fn release(&mut self, now: Instant, (group, point): (u64, u32), present: u64) {
        for member in (0..self.config.accelerators).filter(|member| present & 1 << member != 0) {
            let (from, to) = (self.config.node, NodeId(member));
            let header = FlitHeader::new(from, to, true, group, point, Transaction::Release);
            self.send(now, Leaving::Own(PortId(member), header, P::zeroed(0)));
        }
    }

    /// Forgets all cached data.
    fn forget(&mut self, now: Instant) {
        for home in 0..self.tables.len() {
            let mut next = self.tables[home].oldest();
            while let Some(number) = next {
                next = self.tables[home].newer(number);
                if self.tables[home].entry(number).status == Status::LoadReady {
                    self.end(now, home, number);
                }
            }
        }
    }

    fn send(&mut self, now: Instant, leaving: Leaving<P>) {
        if self.config.latency == Duration::ZERO {
            return self.dispatch(leaving);
        }
        self.delayed.push_back((now + self.config.latency, leaving));
    }

    fn dispatch(&mut self, leaving: Leaving<P>) {
        match leaving {
            Leaving::Core(to, header, payload, None) => {
                self.outputs.push_back(UnitOutput::Packet(to, header, payload));
            }
            Leaving::Core(to, header, payload, Some(held)) => {
                self.outputs.push_back(UnitOutput::Forward { to, header, payload, held });
            }
            Leaving::Own(to, header, payload) => {
                let queues = &mut self.queues[usize::from(to.0)];
                match header.transaction {
                    Transaction::Release => queues.releases.push_back(header),
                    _ => queues.answers.push_back((header, payload)),
                }
                self.has_queued = true;
            }
        }
    }

    /// Lets go what has been in the unit long enough.
    fn advance(&mut self, now: Instant) {
        while self.delayed.front().is_some_and(|&(at, _)| at <= now) {
            let (_, leaving) = self.delayed.pop_front().expect("there is a first");
            self.dispatch(leaving);
        }
    }

    fn tell_level(&mut self, home: usize) {
        let (taken, statistics) = (self.tables[home].taken(), &mut self.statistics.0[home]);
        statistics.entries = taken;
        statistics.peak = statistics.peak.max(taken);
        if self.config.levels {
            let (kind, number, level) = ("merge entries", home as u16, taken as u32);
            self.events.push_back(UnitEvent::Level { kind, number, level });
        }
    }

    /// What the switch has to do, in order.
    pub fn next_output(&mut self) -> Option<UnitOutput<P>> {
        self.outputs.pop_front()
    }

    /// How full the tables are, each time that this has changed.
    pub fn next_event(&mut self) -> Option<UnitEvent> {
        self.events.pop_front()
    }

    /// Channels with a packet of the unit's own for `port`.
    pub fn ready(&self, port: PortId) -> ChannelSet {
        let mut ready = ChannelSet::NONE;
        if let Some(queues) = self.queues.get(usize::from(port.0)) {
            ready.set(ANSWERS, !queues.answers.is_empty());
            ready.set(RELEASES, !queues.releases.is_empty());
        }
        ready
    }

    /// Whether packets have been queued for any port since the last call of this.
    pub fn has_queued(&mut self) -> bool {
        core::mem::take(&mut self.has_queued)
    }

    /// The next packet of a channel.
    ///
    /// # Panics
    /// If there is none.
    pub fn next_packet(&mut self, port: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        let queues = &mut self.queues[usize::from(port.0)];
        if channel == RELEASES {
            let header = queues.releases.pop_front().expect("a channel that is ready has a packet");
            return (header, P::empty());
        }
        let (header, data) = queues.answers.pop_front().expect("a channel that is ready has a packet");
        let data = self.departing.0.insert(data);
        (header, data.view(0..data.length()))
    }

    /// Tells of each packet that the unit holds in a buffer of a port which port and which channel that is.
    pub fn each_held(&self, tell: &mut dyn FnMut(PortId, Channel)) {
        for (_, leaving) in &self.delayed {
            if let Leaving::Core(_, _, _, Some((port, channel))) = leaving {
                tell(*port, *channel);
            }
        }
    }

    /// Bytes of the merging tables of all ports; of tables without a bound, what they ever needed.
    pub fn buffer_bytes(&self) -> usize {
        let entries = |table: &Table<P>| match self.config.entries {
            0 => table.most(),
            entries => entries,
        };
        self.tables.iter().map(entries).sum::<usize>() * self.config.format.max_payload
    }

    /// What has passed the tables of a home's port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn statistics(&self, home: PortId) -> PortStatistics {
        self.statistics.0[usize::from(home.0)]
    }

    /// Requests that wait in the tables of a home's port.
    pub(crate) fn waiting(&self, home: PortId) -> u64 {
        self.tables[usize::from(home.0)].waiting()
    }

    /// What has passed the group sync table.
    pub fn group_statistics(&self) -> GroupStatistics {
        self.groups.statistics.0
    }

    /// The status of an entry, and its count; none if there is no such entry.
    pub fn session(&self, home: PortId, address: u64, kind: Kind) -> Option<(Status, u32)> {
        let table = self.tables.get(usize::from(home.0))?;
        let entry = table.entry(table.find(address, kind)?);
        Some((entry.status, entry.count))
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        self.tables.iter().for_each(Table::assert_invariants);
        self.groups.assert_invariants();
        assert!(self.outputs.is_empty() && self.events.is_empty(), "outputs are taken after every call");
        assert!(self.delayed.is_empty() || self.armed.is_some(), "what is delayed has its timer");
        assert!(self.delayed.iter().map(|&(at, _)| at).is_sorted(), "what is delayed keeps its order");
    }
}
