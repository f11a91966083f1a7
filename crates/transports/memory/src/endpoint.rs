//! An accelerator's end of the memory fabric: it serves its memory to the others, and issues the requests of its own
//! kernel.

use crate::outbound::{Job, Outbound};
use crate::{MemoryDrop, Scatter};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank, Reduction};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{MemoryEvent, SharedMemory, Span, WordId};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use quincunx_wire::flit::{
    Channel, ChannelSet, Class, FlitFormat, FlitHeader, MAX_TAG, NodeId, Transaction, word_address, word_at,
};

/// The tag of a read response that answers nothing: data one way, for traffic that no kernel knows of. Our choice; no
/// request has it.
pub const UNSOLICITED: u32 = MAX_TAG;

/// What an endpoint is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EndpointConfig {
    /// Its accelerator; node number and rank are one.
    pub rank: Rank,
    /// The switch at the other end of each link.
    pub switches: Vec<NodeId>,
    /// Bytes of memory.
    pub memory: usize,
    /// Synchronisation words.
    pub words: u16,
    /// How packets are cut.
    pub format: FlitFormat,
    /// From a request's arrival to its response: L_acc of SCIN's equation 1.
    pub response_latency: Duration,
    /// How much later some responses come than others; none for responses in order.
    pub scatter: Option<Scatter>,
    /// Most reduced loads a link may wait for.
    pub load_window: u32,
    /// How fast its kernel adds vectors; none if that takes no time.
    pub add_rate: Option<BitRate>,
    /// What it does with what others send to be added to memory; none if it takes nothing of the kind.
    pub reduction: Option<Reduction>,
}

/// A merged load without a response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct MergedLoad {
    from: NodeId,
    address: u64,
    span: Span,
}

/// A response in the making.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pending {
    ready_at: Instant,
    response: Job,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct EndpointLink {
    outbound: Outbound,
    /// By the time they are ready; equal times in order of arrival.
    pending: VecDeque<Pending>,
    /// When the timer fires, if it is armed.
    armed: Option<Instant>,
    /// Reduced loads without a response.
    loads: u32,
}

/// An accelerator's memory, and what it has asked of that of others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint<P> {
    config: EndpointConfig,
    memory: P,
    words: Vec<u64>,
    links: Vec<EndpointLink>,
    /// Merged loads without a response, by their tag less one: tag 0 is that of reduced loads.
    merged: Vec<Option<MergedLoad>>,
    /// Places of these that are empty.
    free: Vec<u32>,
    /// Requests served, ever: what the scatter counts by.
    served: u64,
    /// Bytes that writes of ours still have to be answered for.
    unanswered: usize,
    fenced: bool,
    /// How long what the kernel computes will take, until a timer has been armed for it.
    computing: Option<Duration>,
    events: VecDeque<MemoryEvent>,
}

impl<P: Payload> Endpoint<P> {
    /// An endpoint whose memory and words are all zero.
    pub fn new(config: EndpointConfig) -> Self {
        Self {
            memory: P::zeroed(config.memory),
            words: vec![0; usize::from(config.words)],
            links: vec![EndpointLink::default(); config.switches.len()],
            merged: Vec::new(),
            free: Vec::new(),
            served: 0,
            unanswered: 0,
            fenced: false,
            computing: None,
            events: VecDeque::new(),
            config,
        }
    }

    /// Takes a packet that arrived by `link`.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        link: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<(), MemoryDrop> {
        if header.destination != self.node() {
            return Err(MemoryDrop::NoRoute);
        }
        let length = P::view_length(payload);
        match header.transaction {
            Transaction::Read { length } => {
                let length = usize::from(length);
                if length == 0 || length > self.config.format.max_payload {
                    return Err(MemoryDrop::BadLength);
                }
                let local = self.local(header.address, length)?;
                let header = header.response(Transaction::ReadResponse);
                self.respond(now, link, Job { header, local, remaining: length });
            }
            Transaction::Write => {
                let local = self.local(header.address, length)?;
                self.memory.write(local, payload);
                let header = header.response(Transaction::WriteResponse);
                self.respond(now, link, Job { header, local: 0, remaining: 0 });
            }
            Transaction::Add { operand } => {
                let value = self.word_mut(header.address)?;
                *value = value.wrapping_add(operand);
                self.announce(header.address);
            }
            Transaction::Store { operand } => {
                *self.word_mut(header.address)? = operand;
                self.announce(header.address);
            }
            Transaction::ReadResponse if header.tag == UNSOLICITED => {}
            Transaction::ReadResponse if header.tag > 0 => {
                let place = header.tag as usize - 1;
                let load = self.merged.get_mut(place).ok_or(MemoryDrop::UnexpectedResponse)?;
                let answers = |load: &mut MergedLoad| {
                    load.from == header.source && load.address == header.address && load.span.length == length
                };
                let load = load.take_if(answers).ok_or(MemoryDrop::UnexpectedResponse)?;
                self.free.push(place as u32);
                self.memory.write(load.span.offset, payload);
                self.events.push_back(MemoryEvent::Loaded { link, span: load.span });
            }
            Transaction::ReadResponse => {
                let loads = &mut self.links[usize::from(link.0)].loads;
                *loads = loads.checked_sub(1).ok_or(MemoryDrop::UnexpectedResponse)?;
                let local = self.local(header.address, length)?;
                self.memory.write(local, payload);
                self.events.push_back(MemoryEvent::Loaded { link, span: Span { offset: local, length } });
            }
            Transaction::WriteResponse => {
                // The tag of a write is its length.
                let left = self.unanswered.checked_sub(header.tag as usize);
                self.unanswered = left.ok_or(MemoryDrop::UnexpectedResponse)?;
                self.settle_fence();
            }
            Transaction::Reduce => {
                let reduction = self.config.reduction.ok_or(MemoryDrop::UnexpectedTransaction)?;
                if length == 0 || !length.is_multiple_of(reduction.data_type.size()) || header.tag == 0 {
                    return Err(MemoryDrop::BadLength);
                }
                let local = self.local(header.address, length)?;
                self.memory.reduce(local, payload, reduction);
                let span = Span { offset: local, length };
                self.events.push_back(MemoryEvent::Contributed { span, contributions: header.tag });
            }
            Transaction::Release => {
                let (group, point) = (header.address, header.tag);
                self.events.push_back(MemoryEvent::Released { link, group, point });
            }
            Transaction::Credit
            | Transaction::MultimemLoadReduce { .. }
            | Transaction::MultimemStore
            | Transaction::MultimemAdd { .. }
            | Transaction::MultiWrite { .. }
            | Transaction::MultimemReduce
            | Transaction::Sync => return Err(MemoryDrop::UnexpectedTransaction),
        }
        Ok(())
    }

    /// The most bytes that [`send_unsolicited`](Self::send_unsolicited) takes: those of a packet, or of memory.
    pub fn longest_unsolicited(&self) -> usize {
        self.memory.length().min(self.config.format.max_payload)
    }

    /// Sends the first `length` bytes of memory in one packet to another accelerator, which takes them and does nothing.
    /// The packet has the given address, for whoever watches it, and goes once the responses before it have gone.
    ///
    /// # Panics
    /// If that is longer than it can be.
    pub fn send_unsolicited(&mut self, link: PortId, to: Rank, length: usize, address: u64) {
        assert!(length <= self.longest_unsolicited(), "one packet of memory, found {length} bytes");
        let header = FlitHeader::new(
            self.node(),
            NodeId(to.0),
            false,
            address,
            UNSOLICITED,
            Transaction::ReadResponse,
        );
        let job = Job { header, local: 0, remaining: length };
        self.links[usize::from(link.0)].outbound.push(&job);
    }

    /// What has come of the kernel's requests, in order.
    pub fn next_event(&mut self) -> Option<MemoryEvent> {
        self.events.pop_front()
    }

    /// The timer of `link` has fired: what it was armed for is ready, whatever a driver without a clock calls now.
    pub fn handle_timer(&mut self, now: Instant, link: PortId) {
        let due = self.links[usize::from(link.0)].armed.take().map_or(now, |armed| armed.max(now));
        self.advance(due, link);
    }

    /// Lets responses that are ready by now take their place among what `link` sends. To be called before it is asked for a packet.
    #[inline]
    pub fn advance(&mut self, now: Instant, link: PortId) {
        let link = &mut self.links[usize::from(link.0)];
        while let Some(first) = link.pending.front()
            && first.ready_at <= now
        {
            link.outbound.push(&first.response);
            link.pending.pop_front();
        }
    }

    /// How long until the next response of `link` is ready; `None` if there is none or the timer is armed already. To
    /// be asked when the link has nothing to send: while it has, [`advance`](Self::advance) comes by itself, and a
    /// timer would only cost.
    pub fn arm(&mut self, now: Instant, link: PortId) -> Option<Duration> {
        let link = &mut self.links[usize::from(link.0)];
        let ready_at = link.pending.front()?.ready_at;
        if link.armed.is_some_and(|armed| armed > now && armed <= ready_at) {
            return None;
        }
        link.armed = Some(ready_at);
        Some(ready_at.since(now))
    }

    /// How long what the kernel has begun to compute takes; told once. To be asked after every event that a kernel is handed;
    /// [`computed`](Self::computed) is due so much later.
    pub fn arm_computation(&mut self) -> Option<Duration> {
        self.computing.take()
    }

    /// What the kernel computes is done.
    pub fn computed(&mut self) {
        self.events.push_back(MemoryEvent::Computed);
    }

    /// Channels with a packet to send by `link`.
    #[inline]
    pub fn ready(&self, link: PortId) -> ChannelSet {
        let link = &self.links[usize::from(link.0)];
        let ready = link.outbound.ready();
        // What waits is bounded for requests alone.
        if ready.intersection(ChannelSet::of(Class::Read)).is_empty() {
            ready
        } else {
            self.ready_in_bounds(link)
        }
    }

    fn ready_in_bounds(&self, link: &EndpointLink) -> ChannelSet {
        let mut ready = link.outbound.ready();
        if link.loads >= self.config.load_window {
            ready.set(Channel::new(Class::Read, false), false);
        }
        if self.free.is_empty() && self.merged.len() >= MOST_MERGED {
            ready.set(Channel::new(Class::Read, true), false);
        }
        ready
    }

    /// The next packet of a channel.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn next_packet(&mut self, link: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        let link = &mut self.links[usize::from(link.0)];
        let (mut header, local) = link.outbound.next_packet(channel, self.config.format.max_payload);
        let bytes = if header.transaction.carries_data() { local.clone() } else { 0..0 };
        match header.transaction {
            // Those of accelerators are merged loads, all of them.
            Transaction::Read { .. } => {
                let span = Span { offset: local.start, length: local.len() };
                let load = MergedLoad { from: header.destination, address: header.address, span };
                let place = self.free.pop().unwrap_or_else(|| {
                    self.merged.push(None);
                    self.merged.len() as u32 - 1
                });
                self.merged[place as usize] = Some(load);
                header.tag = place + 1;
            }
            Transaction::MultimemLoadReduce { .. } => link.loads += 1,
            Transaction::Write | Transaction::MultimemStore | Transaction::MultimemReduce => {
                header.tag = bytes.len() as u32;
            }
            _ => {}
        }
        (header, self.memory.view(bytes))
    }

    /// The accelerator's memory, given back for another.
    pub fn exchange_memory(&mut self, memory: P) -> P {
        core::mem::replace(&mut self.memory, memory)
    }

    /// The accelerator's memory.
    pub const fn contents(&self) -> &P {
        &self.memory
    }

    fn node(&self) -> NodeId {
        NodeId(self.config.rank.0)
    }

    fn local(&self, address: u64, length: usize) -> Result<usize, MemoryDrop> {
        let offset = usize::try_from(address).map_err(|_| MemoryDrop::NoSuchAddress)?;
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.memory.length());
        if inside { Ok(offset) } else { Err(MemoryDrop::NoSuchAddress) }
    }

    fn word_mut(&mut self, address: u64) -> Result<&mut u64, MemoryDrop> {
        let word = word_at(address).ok_or(MemoryDrop::NoSuchAddress)?;
        self.words.get_mut(usize::from(word)).ok_or(MemoryDrop::NoSuchAddress)
    }

    fn announce(&mut self, address: u64) {
        let word = word_at(address).expect("a word that has just been changed");
        let value = self.words[usize::from(word)];
        self.events.push_back(MemoryEvent::Changed { word: WordId(word), value });
    }

    #[inline]
    fn respond(&mut self, now: Instant, link: PortId, response: Job) {
        let late = self.config.scatter.map_or(Duration::ZERO, |scatter| scatter.delay(self.served));
        self.served += 1;
        let ready_at = now + (self.config.response_latency + late);
        let link = &mut self.links[usize::from(link.0)];
        if ready_at == now && link.pending.is_empty() {
            // What takes no time needs no timer.
            return link.outbound.push(&response);
        }
        let pending = Pending { ready_at, response };
        // Without scatter this is the end of the queue.
        match link.pending.back() {
            Some(last) if last.ready_at > ready_at => {
                let place = link.pending.partition_point(|other| other.ready_at <= ready_at);
                link.pending.insert(place, pending);
            }
            _ => link.pending.push_back(pending),
        }
    }

    fn settle_fence(&mut self) {
        if self.fenced && self.unanswered == 0 {
            self.fenced = false;
            self.events.push_back(MemoryEvent::Fenced);
        }
    }

    fn issue(&mut self, link: PortId, to: NodeId, address: u64, transaction: Transaction, span: Span) {
        let inc =
            matches!(transaction, Transaction::Add { .. } | Transaction::Read { .. } | Transaction::Reduce);
        // Of a reduction the tag is how many contributions are in it.
        let tag = u32::from(transaction == Transaction::Reduce);
        let header = FlitHeader::new(self.node(), to, inc, address, tag, transaction);
        let job = Job { header, local: span.offset, remaining: span.length };
        self.links[usize::from(link.0)].outbound.push(&job);
    }

    fn switch(&self, link: PortId) -> NodeId {
        self.config.switches[usize::from(link.0)]
    }

    fn assert_inside(&self, span: Span) {
        let end = span.offset.checked_add(span.length);
        assert!(end.is_some_and(|end| end <= self.memory.length()), "{span:?} of {}", self.memory.length());
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        for link in &self.links {
            link.outbound.assert_invariants();
            assert!(link.loads <= self.config.load_window, "more loads than the window");
            let times = link.pending.iter().map(|pending| pending.ready_at);
            assert!(times.is_sorted(), "responses in order of time");
        }
        let empty = self.merged.iter().filter(|load| load.is_none()).count();
        assert_eq!(empty, self.free.len(), "a place for a merged load is empty or awaits an answer");
        assert!(!self.fenced || self.unanswered > 0, "a fence waits for something");
    }
}

/// Merged loads that tags can name, beside those of reduced loads and of what nobody has asked for.
const MOST_MERGED: usize = MAX_TAG as usize - 1;

const NO_BYTES: Span = Span { offset: 0, length: 0 };

impl<P: Payload> SharedMemory<P> for Endpoint<P> {
    fn links(&self) -> u16 {
        self.links.len() as u16
    }

    fn memory(&mut self) -> &mut P {
        &mut self.memory
    }

    fn word(&self, word: WordId) -> u64 {
        self.words[usize::from(word.0)]
    }

    fn write(&mut self, link: PortId, to: Rank, source: Span, target: usize) {
        self.assert_inside(source);
        if source.length > 0 {
            self.unanswered += source.length;
            self.issue(link, NodeId(to.0), target as u64, Transaction::Write, source);
        }
    }

    fn store(&mut self, link: PortId, to: Rank, word: WordId, value: u64) {
        let transaction = Transaction::Store { operand: value };
        self.issue(link, NodeId(to.0), word_address(word.0), transaction, NO_BYTES);
    }

    fn fence(&mut self) {
        self.fenced = true;
        self.settle_fence();
    }

    fn compute(&mut self, bytes: usize) {
        match self.config.add_rate {
            Some(rate) => self.computing = Some(rate.time_for(ByteCount::new(bytes as u64))),
            None => self.computed(),
        }
    }

    fn add_at_switch(&mut self, link: PortId, word: WordId, operand: u64) {
        let transaction = Transaction::Add { operand };
        self.issue(link, self.switch(link), word_address(word.0), transaction, NO_BYTES);
    }

    fn reduced_load(&mut self, link: PortId, span: Span) {
        self.assert_inside(span);
        if span.length > 0 {
            // The length is set packet by packet.
            let transaction = Transaction::MultimemLoadReduce { length: 0 };
            self.issue(link, self.switch(link), span.offset as u64, transaction, span);
        }
    }

    fn multicast_store(&mut self, link: PortId, span: Span) {
        self.assert_inside(span);
        if span.length > 0 {
            self.unanswered += span.length;
            self.issue(link, self.switch(link), span.offset as u64, Transaction::MultimemStore, span);
        }
    }

    fn multicast_reduce(&mut self, link: PortId, span: Span) {
        self.assert_inside(span);
        if span.length > 0 {
            self.unanswered += span.length;
            self.issue(link, self.switch(link), span.offset as u64, Transaction::MultimemReduce, span);
        }
    }

    fn multicast_add(&mut self, link: PortId, word: WordId, operand: u64) {
        let transaction = Transaction::MultimemAdd { operand };
        self.issue(link, self.switch(link), word_address(word.0), transaction, NO_BYTES);
    }

    fn merged_load(&mut self, link: PortId, from: Rank, source: usize, span: Span) {
        self.assert_inside(span);
        if span.length > 0 {
            // The length is set packet by packet.
            let transaction = Transaction::Read { length: 0 };
            self.issue(link, NodeId(from.0), source as u64, transaction, span);
        }
    }

    fn merged_reduce(&mut self, link: PortId, to: Rank, span: Span, target: usize) {
        self.assert_inside(span);
        if span.length > 0 {
            self.issue(link, NodeId(to.0), target as u64, Transaction::Reduce, span);
        }
    }

    fn synchronise(&mut self, link: PortId, group: u64, point: u32) {
        let to = self.switch(link);
        let header = FlitHeader::new(self.node(), to, true, group, point, Transaction::Sync);
        self.links[usize::from(link.0)].outbound.push(&Job { header, local: 0, remaining: 0 });
    }
}
