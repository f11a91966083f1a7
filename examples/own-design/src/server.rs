//! What runs in the switch: slots, in which messages of all ranks with the same number are added up. A message whose slot is not free yet
//! waits in its receive buffer, and its sender, once its window is full, with it.

use crate::rank::decode;
use quincunx_collective::{Payload, Reduction};
use quincunx_design::Transport;
use quincunx_engine::verbs::{
    Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RegionId, SendRequest, Slice, Verb,
    Verbs, WorkId,
};
use quincunx_units::{Instant, Messages};
use std::collections::VecDeque;

/// The server of a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    /// Bytes of a full message, and messages of a window.
    message: usize,
    window: usize,
    /// Where sums are: the region is registered behind those of the ranks.
    sums: RegionId,
    slots: Vec<Slot>,
    ranks: Vec<Peer>,
    /// By how many ranks a sum is complete too early: for the checker alone.
    missing: u16,
    failed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    /// Ranks whose message is in the sum, and sums that are not acknowledged.
    arrived: u16,
    under_way: u16,
    length: usize,
    /// What the message of each must say.
    immediate: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Peer {
    region: Option<RegionId>,
    /// Messages that are added up, and those that wait for their slot.
    taken: usize,
    waiting: VecDeque<(usize, Option<u32>)>,
    /// The slots of sums that are under way to it.
    sent: VecDeque<usize>,
}

impl Server {
    pub(crate) fn new(transport: &Transport, slots: Messages, ranks: u16, missing: u16) -> Self {
        let window = transport.window.as_usize();
        Self {
            message: transport.mtu.as_usize() * transport.message.as_usize(),
            window,
            sums: RegionId(0),
            slots: vec![Slot::default(); slots.as_usize()],
            ranks: vec![Peer::default(); ranks.into()],
            missing,
            failed: false,
        }
    }

    /// Where a rank's message is.
    fn buffer(&self, region: RegionId, message: usize, length: usize) -> Slice {
        Slice { region, offset: message % self.window * self.message, length }
    }

    /// Where the sum of the messages with a number is.
    fn sum(&self, message: usize, length: usize) -> Slice {
        Slice { region: self.sums, offset: self.slot(message) * self.message, length }
    }

    /// Whose slot it is, too, that many messages before and after.
    fn slot(&self, message: usize) -> usize {
        message % self.slots.len()
    }

    fn receive<P: Payload>(&self, rank: usize, message: usize, verbs: &mut dyn Verbs<P>) {
        let region = self.ranks[rank].region.expect("registered when the group began");
        let sink = self.buffer(region, message, self.message);
        verbs.post_receive(QpIndex(rank as u16), ReceiveRequest { id: WorkId(message as u64), sink });
    }

    /// Adds up what has a free slot.
    ///
    /// # Errors
    /// If a message makes no sense, or disagrees with the others.
    fn work<P: Payload>(&mut self, rank: usize, verbs: &mut dyn Verbs<P>) -> Result<(), Failure> {
        while let Some(&(length, immediate)) = self.ranks[rank].waiting.front() {
            let number = self.ranks[rank].taken;
            let slot = &self.slots[self.slot(number)];
            // The slot still has an earlier message, or sums of it are under way.
            let is_first = self.ranks.iter().all(|peer| peer.taken <= number);
            if slot.under_way > 0 || (is_first && slot.arrived > 0) {
                return Ok(());
            }
            let reduction: Option<Reduction> = immediate.and_then(decode);
            let reduction = reduction.ok_or(Failure::InvalidRequest)?;
            let is_first = slot.arrived == 0;
            if !length.is_multiple_of(reduction.data_type.size()) {
                return Err(Failure::InvalidRequest);
            }
            if !is_first && (slot.length, slot.immediate) != (length, immediate) {
                return Err(Failure::Disagreement);
            }
            let region = self.ranks[rank].region.expect("registered when the group began");
            let (source, target) = (self.buffer(region, number, length), self.sum(number, length));
            match is_first {
                true => verbs.memory().copy(target, source),
                false => verbs.memory().reduce(target, source, reduction),
            }
            let place = self.slot(number);
            let slot = &mut self.slots[place];
            (slot.length, slot.immediate, slot.arrived) = (length, immediate, slot.arrived + 1);
            if slot.arrived + self.missing >= self.ranks.len() as u16 {
                *slot = Slot { under_way: self.ranks.len() as u16, ..Slot::default() };
                for (to, peer) in self.ranks.iter_mut().enumerate() {
                    peer.sent.push_back(place);
                    let id = WorkId(number as u64);
                    let request = SendRequest { id, verb: Verb::Send, source: target, immediate: None };
                    verbs.post_send(QpIndex(to as u16), request);
                }
            }
            let peer = &mut self.ranks[rank];
            peer.waiting.pop_front();
            peer.taken += 1;
            self.receive(rank, number + self.window, verbs);
        }
        Ok(())
    }
}

impl<P: Payload> Program<P> for Server {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        for peer in &mut self.ranks {
            peer.region = Some(verbs.memory().register(P::zeroed(self.window * self.message)));
        }
        self.sums = verbs.memory().register(P::zeroed(self.slots.len() * self.message));
        for rank in 0..self.ranks.len() {
            (0..self.window).for_each(|message| self.receive(rank, message, verbs));
        }
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        let rank = usize::from(qp.0);
        let done = match completion {
            _ if self.failed => return None,
            Completion::Sent { .. } => {
                let slot = self.ranks[rank].sent.pop_front().expect("only sums that were sent complete");
                self.slots[slot].under_way -= 1;
                (0..self.ranks.len()).try_for_each(|rank| self.work(rank, verbs))
            }
            Completion::Received { length, immediate, .. } => {
                self.ranks[rank].waiting.push_back((length, immediate));
                self.work(rank, verbs)
            }
            Completion::Written { .. } => Err(Failure::InvalidRequest),
            Completion::Failed { failure, .. } => Err(failure),
        };
        let failure = done.err()?;
        self.failed = true;
        Some(Outcome::Failed { qp, failure })
    }

    fn buffer_bytes(&self) -> usize {
        self.message * (self.window * self.ranks.len() + self.slots.len())
    }

    fn assert_invariants(&self) {
        let taken = || self.ranks.iter().map(|peer| peer.taken);
        let spread = taken().max().unwrap_or(0) - taken().min().unwrap_or(0);
        assert!(spread <= self.window, "no rank is more than a window ahead of another");
    }
}
