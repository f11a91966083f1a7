//! The merge unit of a switch: the two micro-functions, the rules of eviction, and the time-out (CAIS III-A3, III-A4, figure 6).

use crate::groups::{Arrival, BOUNDARY, Groups};
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

    /// Micro-function 1 (III-A3): a load.
    fn load(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        length: usize,
    ) -> Result<Buffer, MergeDrop> {
        let home = self.home(header, length)?;
        self.statistics.0[home].loads += 1;
        let table = &mut self.tables[home];
        let waiting = Waiting { requester: header.source, tag: header.tag };
        if self.config.mutation == Some(Mutation::IgnoresType)
            && let Some(sum) = table.find(header.address, Kind::Reduction)
        {
            let data = table.entry(sum).data.clone();
            self.answer(now, home, header.address, waiting, data);
            return Ok(Buffer::Free);
        }
        // Step 1: a match in the lookup table.
        let Some(number) = table.find(header.address, Kind::Load) else {
            // Step 2: a new entry, and the request goes on to the home.
            let mut held = Some((port, Channel::new(Class::Read, true)));
            if !self.make_room(now, home, &mut held) {
                return Ok(self.bypass(now, home, header, P::zeroed(0)));
            }
            let table = &mut self.tables[home];
            let number = table.insert(header.address, Status::LoadWait, length, now, P::zeroed(0));
            let entry = table.entry_mut(number);
            (entry.count, entry.seen) = (1, 1 << port.0);
            entry.waiting.push(waiting);
            let read = Transaction::Read { length: length as u16 };
            let read =
                FlitHeader::new(self.config.node, header.destination, false, header.address, number, read);
            self.send(now, Leaving::Core(PortId(home as u16), read, P::zeroed(0), None));
            self.tell_level(home);
            return Ok(if held.is_none() { Buffer::Held } else { Buffer::Free });
        };
        let most = 2 * usize::from(self.config.accelerators);
        let entry = table.entry_mut(number);
        if entry.length != length || entry.waiting.len() >= most {
            return Ok(self.bypass(now, home, header, P::zeroed(0)));
        }
        // Step 4: a hit.
        entry.count += 1;
        entry.seen |= 1 << port.0;
        entry.requested.0[1] = now;
        let data = match entry.status {
            Status::LoadWait if self.config.mutation == Some(Mutation::AnswersBeforeData) => {
                Some(P::zeroed(length))
            }
            Status::LoadWait => {
                entry.waiting.push(waiting);
                None
            }
            _ => Some(P::from_view(entry.data.view(0..length))),
        };
        let is_ready = entry.status == Status::LoadReady;
        table.touch(number, now);
        self.statistics.0[home].merged_loads += 1;
        if let Some(data) = data {
            self.answer(now, home, header.address, waiting, data);
        }
        if is_ready && self.is_over(home, number) {
            self.end(home, number);
        }
        Ok(Buffer::Free)
    }

    /// Step 3 of micro-function 1: the data of a load.
    fn fill(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, MergeDrop> {
        let (home, number) = (usize::from(port.0), header.tag);
        let length = P::view_length(P::reborrow(payload));
        let table = &mut self.tables[home];
        // An entry that waits for data is never given up, so that no answer can come too late.
        let expected = |entry: &Entry<P>| {
            entry.status == Status::LoadWait && entry.address == header.address && entry.length == length
        };
        let is_ours = header.destination == self.config.node && !header.inc;
        if !is_ours || !table.known(number).is_some_and(expected) {
            return Err(MergeDrop::UnexpectedResponse);
        }
        let entry = table.entry_mut(number);
        entry.status = Status::LoadReady;
        entry.data = P::from_view(payload);
        let waiting = core::mem::take(&mut entry.waiting);
        table.touch(number, now);
        for &each in &waiting {
            let is_first = self.config.mutation == Some(Mutation::AnswersFirstAgain);
            let each = if is_first { waiting[0] } else { each };
            let data = P::from_view(self.tables[home].entry(number).data.view(0..length));
            self.answer(now, home, header.address, each, data);
        }
        // Its room is used again.
        let mut waiting = waiting;
        waiting.clear();
        self.tables[home].entry_mut(number).waiting = waiting;
        // Step 5: all have been served.
        if self.is_over(home, number) {
            self.end(home, number);
        }
        Ok(Buffer::Free)
    }

    /// Micro-function 2 (III-A3): a reduction.
    fn reduce(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, MergeDrop> {
        let length = P::view_length(P::reborrow(payload));
        let home = self.home(header, length)?;
        if !length.is_multiple_of(self.config.reduction.data_type.size()) {
            return Err(MergeDrop::BadLength);
        }
        let contributions = header.tag;
        if !(1..=u32::from(self.config.participants)).contains(&contributions) {
            return Err(MergeDrop::Contributions);
        }
        self.statistics.0[home].reductions += 1;
        let mut held = Some((port, Channel::new(Class::Write, true)));
        let table = &mut self.tables[home];
        if self.config.mutation == Some(Mutation::IgnoresType)
            && let Some(load) = table.find(header.address, Kind::Load)
        {
            // What is added to cached data never goes home.
            table.entry_mut(load).count += 1;
            return Ok(Buffer::Free);
        }
        let number = match table.find(header.address, Kind::Reduction) {
            Some(number) if table.entry(number).length == length => {
                let entry = table.entry_mut(number);
                entry.data.reduce(0, payload, self.config.reduction);
                entry.requested.0[1] = now;
                table.touch(number, now);
                self.statistics.0[home].merged_reductions += 1;
                number
            }
            Some(_) => return Ok(self.bypass(now, home, header, P::from_view(payload))),
            // Nothing to wait for: what comes is whole.
            None if contributions >= self.least() => {
                self.send_sum(now, home, header.address, contributions, P::from_view(payload), held);
                return Ok(Buffer::Held);
            }
            None => {
                if !self.make_room(now, home, &mut held) {
                    return Ok(self.bypass(now, home, header, P::from_view(payload)));
                }
                let sum = P::from_view(payload);
                let number = self.tables[home].insert(header.address, Status::Reduction, length, now, sum);
                self.tell_level(home);
                number
            }
        };
        let least = self.least();
        let entry = self.tables[home].entry_mut(number);
        entry.count += contributions;
        entry.seen |= 1 << port.0;
        if entry.count >= least {
            let (address, count) = (entry.address, entry.count);
            let sum = if self.config.mutation == Some(Mutation::KeepsSum) {
                (entry.count, entry.seen) = (0, 0);
                entry.data.clone()
            } else {
                self.end(home, number)
            };
            self.send_sum(now, home, address, count, sum, held.take());
        }
        Ok(if held.is_none() { Buffer::Held } else { Buffer::Free })
    }

    /// Contributions at which a sum is whole.
    fn least(&self) -> u32 {
        let participants = u32::from(self.config.participants);
        match self.config.mutation {
            Some(Mutation::ReleasesEarly) => participants.saturating_sub(1).max(1),
            _ => participants,
        }
    }

    /// Whether a load entry has served all who may ask. Different accelerators are counted, for two thread blocks of one may load the
    /// same.
    fn is_over(&self, home: usize, number: u32) -> bool {
        let entry = self.tables[home].entry(number);
        let served = match self.config.mutation {
            Some(Mutation::CountsRequests) => entry.count,
            _ => entry.seen.count_ones(),
        };
        served >= u32::from(self.config.participants)
    }

    /// Has room for a new entry in a table, if the rules of eviction (III-A4) let it. What leaves for it keeps the buffer of the packet that
    /// needs the room.
    fn make_room(&mut self, now: Instant, home: usize, held: &mut Option<Held>) -> bool {
        let table = &self.tables[home];
        if !table.is_full() {
            return true;
        }
        let oldest = table.oldest().expect("a table that is full has an oldest entry");
        let Entry { status, address, count, .. } = *table.entry(oldest);
        match status {
            Status::LoadWait if self.config.mutation == Some(Mutation::EvictsWaiting) => {
                self.end(home, oldest);
            }
            // It is deferred; who wants its place goes past the unit, and nothing else is evicted.
            Status::LoadWait => return false,
            // All who have asked have been answered.
            Status::LoadReady => {
                self.end(home, oldest);
            }
            Status::Reduction => {
                let sum = self.end(home, oldest);
                if self.config.mutation != Some(Mutation::EvictionDropsPartial) {
                    self.send_sum(now, home, address, count, sum, held.take());
                }
            }
        }
        self.statistics.0[home].evicted += 1;
        true
    }

    /// Sends a request on as if the unit were not there: the home answers it itself. It keeps its buffer until then.
    fn bypass(&mut self, now: Instant, home: usize, header: &FlitHeader, payload: P) -> Buffer {
        self.statistics.0[home].bypassed += 1;
        if self.config.mutation == Some(Mutation::BypassEvicts)
            && let Some(oldest) = self.tables[home].oldest()
        {
            self.end(home, oldest);
        }
        let FlitHeader { source, destination, address, tag, transaction, .. } = *header;
        let held = header.channel().map(|channel| (PortId(source.0), channel));
        let header = FlitHeader::new(source, destination, false, address, tag, transaction);
        self.send(now, Leaving::Core(PortId(home as u16), header, payload, held));
        Buffer::Held
    }

    /// An entry is over. What it held is the caller's.
    fn end(&mut self, home: usize, number: u32) -> P {
        self.statistics.0[home].end(self.tables[home].entry(number).requested);
        let data = self.tables[home].remove(number);
        self.tell_level(home);
        data
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
                self.forget();
            }
            self.release(now, (group, point), present);
        }
        Ok(Buffer::Free)
    }

    /// Lets those go on who are `present`.
    fn release(&mut self, now: Instant, (group, point): (u64, u32), present: u64) {
        for member in (0..self.config.accelerators).filter(|member| present & 1 << member != 0) {
            let (from, to) = (self.config.node, NodeId(member));
            let header = FlitHeader::new(from, to, true, group, point, Transaction::Release);
            self.send(now, Leaving::Own(PortId(member), header, P::zeroed(0)));
        }
    }

    /// Forgets all cached data.
    fn forget(&mut self) {
        for home in 0..self.tables.len() {
            let mut next = self.tables[home].oldest();
            while let Some(number) = next {
                next = self.tables[home].newer(number);
                if self.tables[home].entry(number).status == Status::LoadReady {
                    self.end(home, number);
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

    /// How long until something is due; `None` if nothing is, or the timer is armed for it already. To be asked after every call.
    pub fn arm(&mut self, now: Instant) -> Option<Duration> {
        let leaves = self.delayed.front().map(|&(at, _)| at);
        // No entry that is accessed later is due before those that the timer is armed for.
        if let Some(armed) = self.armed
            && armed > now
            && leaves.is_none_or(|leaves| armed <= leaves)
        {
            return None;
        }
        let timeout = self.config.timeout;
        let entries =
            self.tables.iter().filter_map(|table| Self::first_to_expire(table, now, Duration::ZERO));
        let oldest = entries.map(|(_, last)| last).chain(self.groups.oldest()).min();
        let due = oldest.map(|oldest| oldest + timeout).into_iter().chain(leaves).min()?;
        self.armed = Some(due);
        Some(due.max(now).since(now))
    }

    /// The entry that nobody has accessed for the longest time, at least for `timeout`, and its last access. A load that waits for its data
    /// outlives the time-out.
    fn first_to_expire(table: &Table<P>, now: Instant, timeout: Duration) -> Option<(u32, Instant)> {
        let mut next = table.oldest();
        while let Some(number) = next {
            let entry = table.entry(number);
            if now < entry.last_access + timeout {
                return None;
            }
            if entry.status != Status::LoadWait {
                return Some((number, entry.last_access));
            }
            next = table.newer(number);
        }
        None
    }

    /// The timer has fired: what it was armed for is due, whatever a driver without a clock calls now.
    pub fn handle_timer(&mut self, now: Instant) {
        let due = self.armed.take().map_or(now, |armed| armed.max(now));
        self.advance(due);
        let timeout = self.config.timeout;
        for home in 0..self.tables.len() {
            while let Some((number, _)) = Self::first_to_expire(&self.tables[home], due, timeout) {
                let Entry { kind, address, count, .. } = *self.tables[home].entry(number);
                let data = self.end(home, number);
                self.statistics.0[home].timed_out += 1;
                if kind == Kind::Reduction && self.config.mutation != Some(Mutation::TimeoutDropsPartial) {
                    self.send_sum(now, home, address, count, data, None);
                }
            }
        }
        while let Some((key, present)) = self.groups.expire(due, timeout) {
            self.release(now, key, present);
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

    /// Packets that the unit holds in buffers of `port`'s `channel`.
    pub fn held(&self, port: PortId, channel: Channel) -> usize {
        let holds = |leaving: &Leaving<P>| matches!(leaving, Leaving::Core(_, _, _, Some(held)) if *held == (port, channel));
        self.delayed.iter().filter(|(_, leaving)| holds(leaving)).count()
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
