//! What waits to leave by a link: transfers, from which packets are cut as the link takes them.

use alloc::collections::VecDeque;
use core::ops::Range;
use quincunx_wire::flit::{Channel, ChannelSet, FlitHeader, Transaction};

/// A transfer of any length. A response is one packet of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Job {
    /// The header of the next packet, but for its length.
    pub(crate) header: FlitHeader,
    /// The next byte of one's own memory that it reads or asks to fill.
    pub(crate) local: usize,
    /// Bytes left. A transaction without bytes is one packet.
    pub(crate) remaining: usize,
}

/// The queues of one link, one a channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Outbound {
    queues: [VecDeque<Job>; Channel::COUNT],
    ready: ChannelSet,
}

impl Outbound {
    /// Channels with a packet to send.
    pub(crate) const fn ready(&self) -> ChannelSet {
        self.ready
    }

    /// Queues a copy of a job, which is made in one go: taken apart and put together again it would be stored and loaded in pieces that do
    /// not fit, for which processors wait.
    #[inline]
    pub(crate) fn push(&mut self, job: &Job) {
        let channel = job.header.channel().expect("credits alone are not queued");
        self.queues[channel.index()].push_back(job.clone());
        self.ready.set(channel, true);
    }

    /// Cuts the next packet of a channel: its header, and the bytes of one's own memory that it carries or asks to fill.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn next_packet(&mut self, channel: Channel, max_payload: usize) -> (FlitHeader, Range<usize>) {
        let queue = &mut self.queues[channel.index()];
        let job = queue.front_mut().expect("a channel that is ready has a job");
        let piece = job.remaining.min(max_payload);
        let mut header = job.header;
        if let Transaction::Read { length } | Transaction::MultimemLoadReduce { length } =
            &mut header.transaction
        {
            *length = piece as u16;
        }
        let local = job.local..job.local + piece;
        if job.remaining == piece {
            queue.pop_front();
            self.ready.set(channel, !queue.is_empty());
        } else {
            job.header.address += piece as u64;
            job.local += piece;
            job.remaining -= piece;
        }
        (header, local)
    }

    pub(crate) fn assert_invariants(&self) {
        for channel in Channel::ALL {
            let queue = &self.queues[channel.index()];
            assert_eq!(self.ready.contains(channel), !queue.is_empty(), "{channel:?}: ready with a job");
            assert!(
                queue.iter().all(|job| job.header.channel() == Some(channel)),
                "jobs wait in their channel"
            );
        }
    }
}
