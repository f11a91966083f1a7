//! What waits to leave by a link: transfers that packets are cut from as the link takes them, of which each link carries the lines that are its own.

use crate::routing::next_line;
use alloc::collections::VecDeque;
use core::ops::Range;
use quincunx_wire::flit::{Channel, ChannelSet, Class, FlitHeader, Transaction};

/// A transfer's part that goes by one link.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Job {
    /// The header of its packets, but for address and length.
    pub(crate) header: FlitHeader,
    /// The transfer's first byte, where it is read or written.
    pub(crate) address: u64,
    /// The same byte in one's own memory.
    pub(crate) local: usize,
    /// The transfer's bytes.
    pub(crate) length: u32,
    /// The next line that is sent, and the one that no longer is.
    pub(crate) lines: Range<u64>,
    /// The block that waits until all has left.
    pub(crate) owner: Option<u32>,
    /// The order in which transfers were asked for.
    pub(crate) sequence: u64,
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
    /// reduction that may be merged.
    pub(crate) fn ready(&self, window: u32, shared: bool) -> ChannelSet {
        let mut ready = self.ready;
        let is_full = self.loads >= window;
        if shared && ready.contains(MERGED_LOADS) && ready.contains(MERGED_REDUCTIONS) {
            let first = |channel: Channel| self.queues[channel.index()].front().map(|job| job.sequence);
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

    /// Cuts the next packet of a channel of `link`.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn cut(&mut self, channel: Channel, link: u64, links: u64, line: u64) -> Cut {
        let queue = &mut self.queues[channel.index()];
        let job = queue.front_mut().expect("a channel that is ready has a job");
        let mut header = job.header;
        let owner = job.owner;
        let end = job.address + u64::from(job.length);
        let start = (job.lines.start * line).max(job.address);
        let length = ((job.lines.start + 1) * line).min(end).saturating_sub(start);
        let mut carried = 0..0;
        if job.length > 0 {
            header.address = start;
            let local = job.local + (start - job.address) as usize;
            match &mut header.transaction {
                Transaction::Read { length: asked } | Transaction::MultimemLoadReduce { length: asked } => {
                    *asked = length as u16;
                    self.loads += 1;
                }
                transaction if transaction.carries_data() => carried = local..local + length as usize,
                _ => {}
            }
        }
        job.lines.start = next_line(job.lines.start + 1, link, links);
        if job.lines.is_empty() {
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
