//! What waits to leave by a link: transfers that packets are cut from as the link takes them, of which each link carries the requests that are its own.

use crate::{Granularity, Request, Requests, Rows};
use alloc::collections::VecDeque;
use core::ops::Range;
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::link_of;
use quincunx_wire::flit::{Channel, ChannelSet, Class, FlitHeader, Transaction};

/// A transfer's part that goes by one link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Job {
    /// The header of its packets, but for address and length; the last alone asks to hear of the others.
    pub(crate) header: FlitHeader,
    /// What its packets carry or ask for; none for a single packet without data.
    pub(crate) transfer: Option<Transfer>,
    /// The block that waits until all has left.
    pub(crate) owner: Option<u32>,
    /// The order in which transfers were asked for.
    pub(crate) sequence: u64,
}

/// What is left of a transfer on one link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Transfer {
    /// The transfer's first byte, where it is read or written, and the same byte in one's own memory.
    pub(crate) address: u64,
    pub(crate) local: usize,
    next: Request,
    /// Those behind it, of all links.
    requests: Requests,
    link: PortId,
    links: u16,
    line: u64,
}

impl Transfer {
    /// The part of a transfer that goes by `link`, if there is one: of the requests those whose address the switch's hash gives to it.
    pub(crate) fn new(
        address: u64,
        local: usize,
        mut requests: Requests,
        line: u64,
        link: PortId,
        links: u16,
    ) -> Option<Self> {
        let next = Self::following(&mut requests, line, link, links)?;
        Some(Self { address, local, next, requests, link, links, line })
    }

    /// A single request, by whatever link.
    pub(crate) fn single(address: u64, local: usize, length: u32) -> Self {
        let next = Request { address, length };
        let requests = Requests::new(0, Rows { count: 0, bytes: 0, pitch: 0 }, Granularity::Bytes, 1);
        Self { address, local, next, requests, link: PortId(0), links: 1, line: 1 }
    }

    fn following(requests: &mut Requests, line: u64, link: PortId, links: u16) -> Option<Request> {
        requests.find(|request| link_of(request.address, line as usize, links) == link)
    }

    /// Goes on to the next request; whether there is one.
    fn advance(&mut self) -> bool {
        let next = Self::following(&mut self.requests, self.line, self.link, self.links);
        self.next = next.unwrap_or(self.next);
        next.is_some()
    }

    /// Where an address is in one's own memory.
    fn local(&self, address: u64) -> usize {
        ((self.local as u64 + address) - self.address) as usize
    }
}

/// A packet that is about to leave.
pub(crate) struct Cut {
    pub(crate) header: FlitHeader,
    /// The bytes of one's own memory that it carries.
    pub(crate) carried: Range<usize>,
    pub(crate) owner: Option<u32>,
}

/// The queues of one link, one a channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Sending {
    queues: [VecDeque<Job>; Channel::COUNT],
    ready: ChannelSet,
    /// Loads that are not answered.
    pub(crate) loads: u32,
}

const MERGED_LOADS: Channel = Channel::new(Class::Read, true);
const MERGED_REDUCTIONS: Channel = Channel::new(Class::Write, true);
const LOADS: Channel = Channel::new(Class::Read, false);

impl Sending {
    pub(crate) fn push(&mut self, job: Job) {
        let channel = job.header.channel().expect("credits alone are not queued");
        self.queues[channel.index()].push_back(job);
        self.ready.set(channel, true);
    }

    /// Channels with a packet to send, if so many loads may be under way. Where requests share a queue, only the older of a load and of a
    /// reduction that may be merged; syncs, empty packets that wait for nothing, are neither.
    pub(crate) fn ready(&self, window: u32, shared: bool) -> ChannelSet {
        let mut ready = self.ready;
        let is_full = self.loads >= window;
        let front = |channel: Channel| self.queues[channel.index()].front();
        let is_sync = front(MERGED_LOADS).is_some_and(|job| job.header.transaction == Transaction::Sync);
        if shared && ready.contains(MERGED_LOADS) && ready.contains(MERGED_REDUCTIONS) && !is_sync {
            let first = |channel: Channel| front(channel).map(|job| job.sequence);
            let loads_first = first(MERGED_LOADS) < first(MERGED_REDUCTIONS);
            ready.set(if loads_first { MERGED_REDUCTIONS } else { MERGED_LOADS }, false);
        }
        if is_full {
            // A sync is no load, and may pass.
            for channel in [LOADS, MERGED_LOADS] {
                let front = self.queues[channel.index()].front();
                if front.is_some_and(|job| job.header.transaction != Transaction::Sync) {
                    ready.set(channel, false);
                }
            }
        }
        ready
    }

    /// Cuts the next packet of a channel.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn cut(&mut self, channel: Channel) -> Cut {
        let queue = &mut self.queues[channel.index()];
        let job = queue.front_mut().expect("a channel that is ready has a job");
        let mut header = job.header;
        let owner = job.owner;
        let mut carried = 0..0;
        let mut is_last = true;
        if let Some(transfer) = &mut job.transfer {
            let Request { address, length } = transfer.next;
            let local = transfer.local(address);
            header.address = address;
            match &mut header.transaction {
                Transaction::Read { length: asked } | Transaction::MultimemLoadReduce { length: asked } => {
                    *asked = length as u16;
                    self.loads += 1;
                }
                transaction if transaction.carries_data() => carried = local..local + length as usize,
                _ => {}
            }
            is_last = !transfer.advance();
            header.notify &= is_last;
        }
        if is_last {
            queue.pop_front();
            self.ready.set(channel, !queue.is_empty());
        }
        Cut { header, carried, owner }
    }

    pub(crate) fn assert_invariants(&self) {
        for channel in Channel::ALL {
            let queue = &self.queues[channel.index()];
            assert_eq!(self.ready.contains(channel), !queue.is_empty(), "{channel:?}: ready with a job");
        }
    }
}
