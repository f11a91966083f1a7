//! Direct collectives of accelerators on a memory fabric: everybody writes to everybody concerned, in one step, and adds up
//! what it gets (SCIN 2.1, item 3). Fewest steps, most traffic.
//!
//! A rank writes to the others over all links at once, beginning with the one after it, so that not all write to one at
//! once; waits until the writes have taken effect; and sets flags there, one for each link. What is to be summed goes to
//! scratch memory behind the vector, a place for each rank, and is added in rank order. A rank may be one collective ahead
//! of another, which has not added up yet: there are two sets of places, for every other collective. What is only gathered goes there, too, and is
//! copied, if it is short. If it is long, it goes to where it belongs: a rank writes to none that has not said that it has begun, too, and may
//! still use what it gathered before. That costs a flight of a word, which is less than a long copy.

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{
    InPlaceRequest, Kernel, KernelRefusal, MemoryEvent, SharedMemory, Span, WordId,
};

/// The longest vector that is gathered by way of scratch memory: an accelerator, whose memory has 1 TB/s and more, copies it in less time than a
/// word takes to a rank, 0.5 us.
pub(crate) const LONGEST_COPIED: usize = 256 * 1024;

/// A rank among the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedDirectConfig {
    /// Ranks.
    pub ranks: u16,
    /// This one.
    pub rank: Rank,
    /// What shares of links are cut at: whole elements, best whole packets.
    pub granule: usize,
    /// Memory for what others bring: as much as [`SharedDirect::scratch_bytes`].
    pub scratch: Span,
    /// The longest vector, in bytes, that is gathered in scratch memory and copied; the same at every rank.
    pub longest_copied: usize,
    /// The flag that comes by the first link from rank 0. Those of the other links follow it, then those of the other
    /// ranks, and then a word of each rank, in which it counts the collectives that only gather and that it has begun.
    pub first_flag: WordId,
}

/// Why a collective is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum SharedDirectRejected {
    /// One at a time.
    #[error("expected an idle accelerator, found one that still runs a collective; wait for its end")]
    Busy,
    /// A collective that it does not do.
    #[error("expected all_reduce, reduce_scatter or all_gather by direct writes, found {0}")]
    Unsupported(Collective),
    /// Too little scratch memory.
    #[error("expected {expected} bytes of scratch memory, found {found}")]
    Scratch {
        /// Bytes.
        expected: usize,
        /// Bytes.
        found: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// Until all have begun to gather.
    Entering(InPlaceRequest),
    /// Until what goes out has taken effect.
    Writing(InPlaceRequest),
    /// Until all flags are there.
    Waiting(InPlaceRequest),
    /// Until what has come is added, or copied to where it belongs.
    Adding(InPlaceRequest),
}

/// One rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SharedDirect {
    config: SharedDirectConfig,
    phase: Phase,
    /// Collectives begun: what flags are set to.
    begun: u64,
}

impl SharedDirect {
    /// A rank that has not run yet.
    pub const fn new(config: SharedDirectConfig) -> Self {
        Self { config, phase: Phase::Idle, begun: 0 }
    }

    /// Scratch memory for vectors of `length` bytes: twice a place for each other rank.
    pub const fn scratch_bytes(ranks: u16, length: usize) -> usize {
        2 * (ranks as usize - 1) * length
    }

    fn ranks(&self) -> usize {
        usize::from(self.config.ranks)
    }

    /// The other ranks, from the next one on.
    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let (rank, ranks) = (self.config.rank.index(), self.ranks());
        (1..ranks).map(move |step| Rank(((rank + step) % ranks) as u16))
    }

    /// A rank's part of the vector.
    fn part(&self, request: &InPlaceRequest, rank: Rank) -> Span {
        request.span.part(rank.index(), self.ranks(), request.span.length.div_ceil(self.ranks()).max(1))
    }

    /// Whether what comes goes to where it belongs.
    fn arrives_in_place(&self, request: &InPlaceRequest) -> bool {
        request.collective == Collective::AllGather && request.span.length > self.config.longest_copied
    }

    /// What of the vector `receiver` adds up; none if it only gathers.
    fn summed(&self, request: &InPlaceRequest, receiver: Rank) -> Option<Span> {
        match request.collective {
            Collective::AllReduce => Some(request.span),
            Collective::ReduceScatter => Some(self.part(request, receiver)),
            _ => None,
        }
    }

    /// Where what `sender` brings `receiver` lies.
    fn place(&self, request: &InPlaceRequest, sender: Rank, receiver: Rank) -> usize {
        let before = (sender.index() + self.ranks() - receiver.index() - 1) % self.ranks();
        let set = self.begun as usize % 2 * (self.ranks() - 1);
        self.config.scratch.offset + (set + before) * request.span.length
    }

    fn flag(&self, sender: Rank, link: u16, links: u16) -> WordId {
        WordId(self.config.first_flag.0 + sender.0 * links + link)
    }

    /// The word in which a rank counts here what it has begun.
    fn entered(&self, rank: Rank, links: u16) -> WordId {
        WordId(self.config.first_flag.0 + self.config.ranks * links + rank.0)
    }

    fn send<P: Payload>(&self, request: &InPlaceRequest, memory: &mut dyn SharedMemory<P>) {
        let (me, links) = (self.config.rank, memory.links());
        for receiver in self.others() {
            let (source, target) = match self.summed(request, receiver) {
                Some(span) => (span, self.place(request, me, receiver)),
                None if self.arrives_in_place(request) => {
                    (self.part(request, me), self.part(request, me).offset)
                }
                None => (self.part(request, me), self.place(request, me, receiver)),
            };
            for link in 0..links {
                let share = source.part(usize::from(link), usize::from(links), self.config.granule);
                memory.write(PortId(link), receiver, share, target + share.offset - source.offset);
            }
        }
        memory.fence();
    }

    /// Writes if all have begun.
    fn enter<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) {
        let Phase::Entering(request) = self.phase else { return };
        let links = memory.links();
        if self.others().all(|rank| memory.word(self.entered(rank, links)) >= self.begun) {
            self.phase = Phase::Writing(request);
            self.send(&request, memory);
        }
    }

    /// Goes on if all flags are there; whether the collective is over.
    fn proceed<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) -> bool {
        let Phase::Waiting(request) = self.phase else { return false };
        let links = memory.links();
        let set = |sender, link| memory.word(self.flag(sender, link, links)) >= self.begun;
        if !self.others().all(|sender| (0..links).all(|link| set(sender, link))) {
            return false;
        }
        let come = match self.summed(&request, self.config.rank) {
            Some(span) => span.length * (self.ranks() - 1),
            None if self.arrives_in_place(&request) => {
                self.phase = Phase::Idle;
                return true;
            }
            None => request.span.length - self.part(&request, self.config.rank).length,
        };
        self.phase = Phase::Adding(request);
        memory.compute(come);
        false
    }

    /// Adds up in rank order, or copies.
    fn add<P: Payload>(&self, request: &InPlaceRequest, memory: &mut dyn SharedMemory<P>) {
        let me = self.config.rank;
        let Some(span) = self.summed(request, me) else {
            for sender in self.others() {
                let (place, part) = (self.place(request, sender, me), self.part(request, sender));
                let come = P::from_view(memory.memory().view(place..place + part.length));
                memory.memory().write(part.offset, come.view(0..part.length));
            }
            return;
        };
        let vector = |rank: Rank, memory: &P| {
            let start = if rank == me { span.offset } else { self.place(request, rank, me) };
            P::from_view(memory.view(start..start + span.length))
        };
        let mut sum = vector(Rank(0), memory.memory());
        for rank in 1..self.config.ranks {
            sum.reduce(0, vector(Rank(rank), memory.memory()).view(0..span.length), request.reduction);
        }
        memory.memory().write(span.offset, sum.view(0..span.length));
    }
}

impl From<SharedDirectRejected> for KernelRefusal {
    fn from(rejected: SharedDirectRejected) -> Self {
        Self::of(&rejected)
    }
}

impl<P: Payload> Kernel<P> for SharedDirect {
    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal> {
        if self.phase != Phase::Idle {
            return Err(SharedDirectRejected::Busy.into());
        }
        match request.collective {
            Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather => {}
            other => return Err(SharedDirectRejected::Unsupported(other).into()),
        }
        let (expected, found) =
            (Self::scratch_bytes(self.config.ranks, request.span.length), self.config.scratch.length);
        if expected > found {
            return Err(SharedDirectRejected::Scratch { expected, found }.into());
        }
        self.begun += 1;
        if self.arrives_in_place(&request) {
            self.phase = Phase::Entering(request);
            let word = self.entered(self.config.rank, memory.links());
            for rank in self.others() {
                memory.store(PortId(0), rank, word, self.begun);
            }
            self.enter(memory);
            return Ok(false);
        }
        self.phase = Phase::Writing(request);
        self.send(&request, memory);
        Ok(false)
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        match (event, self.phase) {
            (MemoryEvent::Fenced, Phase::Writing(request)) => {
                self.phase = Phase::Waiting(request);
                let links = memory.links();
                for receiver in self.others() {
                    for link in 0..links {
                        let flag = self.flag(self.config.rank, link, links);
                        memory.store(PortId(link), receiver, flag, self.begun);
                    }
                }
                self.proceed(memory)
            }
            (MemoryEvent::Changed { .. }, Phase::Entering(_)) => {
                self.enter(memory);
                false
            }
            (MemoryEvent::Changed { .. }, Phase::Waiting(_)) => self.proceed(memory),
            (MemoryEvent::Computed, Phase::Adding(request)) => {
                self.add(&request, memory);
                self.phase = Phase::Idle;
                true
            }
            _ => false,
        }
    }

    fn assert_invariants(&self) {
        assert!(self.phase == Phase::Idle || self.begun > 0, "runs what it has begun");
    }
}
