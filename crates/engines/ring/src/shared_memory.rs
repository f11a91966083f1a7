//! The software ring of accelerators on a memory fabric: data, fence, flag (SCIN 4.1).
//!
//! At each step every rank writes a chunk to its successor, over all links at once, waits until the writes have taken
//! effect, and then sets a flag there, one for each link. Chunks on their way to being summed go to scratch memory
//! behind the vector, a place for each step; sums go to where they belong. Within a collective a rank may be ahead of its successor by as
//! many steps as it likes. Into the next one it must not be: it would write over chunks that the successor has not added up, or over a
//! vector that it still uses. An AllReduce cannot end before all others have begun its second half; in a ReduceScatter or an AllGather a
//! rank writes nothing before its successor has said that it has begun, too (which SCIN does not say, and costs a flight of a word).
//!
//! Adding up takes the time that the accelerator says ([`SharedMemory::compute`]), a chunk at a time: it is consumable when
//! its flag is there, not before.

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{
    InPlaceRequest, Kernel, KernelRefusal, MemoryEvent, SharedMemory, Span, WordId,
};

/// A rank's place in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedRingConfig {
    /// Ranks.
    pub ranks: u16,
    /// This one.
    pub rank: Rank,
    /// What chunks and shares of links are cut at: whole elements, best whole packets.
    pub granule: usize,
    /// Memory for chunks of others: as much as [`SharedRing::scratch_bytes`].
    pub scratch: Span,
    /// The flag that comes by the first link; those of the others follow it, and then the word in which the successor counts the
    /// collectives with one half that it has begun.
    pub first_flag: WordId,
}

/// Why a collective is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum SharedRingRejected {
    /// One at a time.
    #[error("expected an idle ring, found one that still runs a collective; wait for its end")]
    Busy,
    /// A collective that it does not do.
    #[error("expected all_reduce, reduce_scatter or all_gather on a ring of accelerators, found {0}")]
    Unsupported(Collective),
    /// A vector that does not split, or too little scratch memory.
    #[error(
        "expected a vector of whole granules for each rank and {expected} bytes of scratch memory, found {found}"
    )]
    Scratch {
        /// Bytes.
        expected: usize,
        /// Bytes.
        found: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Running {
    request: InPlaceRequest,
    /// From 0 to 2 (n - 1): the first half scatters sums, the second gathers them.
    step: usize,
    end: usize,
    /// Nothing has gone out, as the successor has not begun yet.
    waiting: bool,
    /// The flags of this step are set.
    flagged: bool,
    /// What has arrived is being added.
    adding: bool,
}

/// A rank of the ring.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SharedRing {
    config: SharedRingConfig,
    running: Option<Running>,
    /// Collectives with one half that have begun.
    halves: u64,
    /// Steps of all collectives that are done: what the predecessor's flags are held against.
    done: u64,
}

impl SharedRing {
    /// A rank that has not run yet.
    pub const fn new(config: SharedRingConfig) -> Self {
        Self { config, running: None, halves: 0, done: 0 }
    }

    /// Scratch memory for vectors of `length` bytes: a chunk, cut at the granule or not, for each step but the last.
    pub fn scratch_bytes(ranks: u16, length: usize, granule: usize) -> usize {
        let longest = length.div_ceil(usize::from(ranks)).next_multiple_of(granule);
        longest * usize::from(ranks - 1)
    }

    fn ranks(&self) -> usize {
        usize::from(self.config.ranks)
    }

    fn chunk_at(&self, request: &InPlaceRequest, index: usize) -> Span {
        let granule = match request.collective {
            Collective::AllReduce => self.config.granule,
            // A rank's part is its part, whatever packets are.
            _ => request.span.length.div_ceil(self.ranks()).max(1),
        };
        request.span.part(index, self.ranks(), granule)
    }

    /// The chunk that lies `back` ranks before this one's.
    fn chunk(&self, request: &InPlaceRequest, back: usize) -> Span {
        let ranks = self.ranks();
        self.chunk_at(request, (self.config.rank.index() + 2 * ranks - back) % ranks)
    }

    /// Where the predecessor's chunk of a scattering step lies. The first chunk is the longest.
    fn scratch(&self, running: &Running, length: usize) -> Span {
        let place = self.chunk_at(&running.request, 0).length;
        Span { offset: self.config.scratch.offset + running.step * place, length }
    }

    /// What goes to the successor at a step, and where.
    fn outgoing(&self, running: &Running) -> (Span, usize) {
        let scattering = self.ranks() - 1;
        match running.step.checked_sub(scattering) {
            None => {
                let chunk = self.chunk(&running.request, running.step + 1);
                (chunk, self.scratch(running, chunk.length).offset)
            }
            Some(step) => {
                let chunk = self.chunk(&running.request, step);
                (chunk, chunk.offset)
            }
        }
    }

    fn send<P: Payload>(&self, running: &Running, memory: &mut dyn SharedMemory<P>) {
        let (chunk, target) = self.outgoing(running);
        let links = memory.links();
        for link in 0..links {
            let share = chunk.part(usize::from(link), usize::from(links), self.config.granule);
            memory.write(PortId(link), self.successor(), share, target + share.offset - chunk.offset);
        }
        memory.fence();
    }

    fn successor(&self) -> Rank {
        Rank((self.config.rank.0 + 1) % self.config.ranks)
    }

    fn predecessor(&self) -> Rank {
        Rank((self.config.rank.0 + self.config.ranks - 1) % self.config.ranks)
    }

    /// The word behind the flags.
    fn successor_begun(&self, links: u16) -> WordId {
        WordId(self.config.first_flag.0 + links)
    }

    fn flag(&self, link: u16) -> WordId {
        WordId(self.config.first_flag.0 + link)
    }

    /// Goes on for as long as the predecessor's flags allow; whether the collective is over.
    fn proceed<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) -> bool {
        if let Some(running) = self.running.filter(|running| running.waiting) {
            if memory.word(self.successor_begun(memory.links())) < self.halves {
                return false;
            }
            self.running = Some(Running { waiting: false, ..running });
            self.send(&running, memory);
        }
        while let Some(running) = &mut self.running {
            let (first, done) = (self.config.first_flag.0, self.done);
            let arrived = |link| memory.word(WordId(first + link)) > done;
            if running.adding || !running.flagged || !(0..memory.links()).all(arrived) {
                return false;
            }
            if running.step < usize::from(self.config.ranks) - 1 {
                running.adding = true;
                let running = *running;
                memory.compute(self.chunk(&running.request, running.step + 2).length);
                return false;
            }
            if self.next_step(memory) {
                return true;
            }
        }
        false
    }

    /// Adds what has arrived to the chunk that it belongs to.
    fn add<P: Payload>(&self, running: &Running, memory: &mut dyn SharedMemory<P>) {
        let chunk = self.chunk(&running.request, running.step + 2);
        let source = self.scratch(running, chunk.length);
        let arrived = P::from_view(memory.memory().view(source.offset..source.offset + source.length));
        let view = arrived.view(0..chunk.length);
        memory.memory().reduce(chunk.offset, view, running.request.reduction);
    }

    /// Goes to the next step; whether there was none.
    fn next_step<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) -> bool {
        let mut running = self.running.take().expect("a step that is done");
        self.done += 1;
        running.step += 1;
        (running.flagged, running.adding) = (false, false);
        if running.step == running.end {
            return true;
        }
        self.running = Some(running);
        self.send(&running, memory);
        false
    }
}

impl From<SharedRingRejected> for KernelRefusal {
    fn from(rejected: SharedRingRejected) -> Self {
        Self::of(&rejected)
    }
}

impl<P: Payload> Kernel<P> for SharedRing {
    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal> {
        if self.running.is_some() {
            return Err(SharedRingRejected::Busy.into());
        }
        let half = self.ranks() - 1;
        let (step, end) = match request.collective {
            Collective::AllReduce => (0, 2 * half),
            Collective::ReduceScatter => (0, half),
            Collective::AllGather => (half, 2 * half),
            other => return Err(SharedRingRejected::Unsupported(other).into()),
        };
        let (expected, found) = (self.chunk_at(&request, 0).length * half, self.config.scratch.length);
        if expected > found {
            return Err(SharedRingRejected::Scratch { expected, found }.into());
        }
        if half == 0 {
            return Ok(true);
        }
        let waiting = end - step == half;
        let running = Running { request, step, end, waiting, flagged: false, adding: false };
        self.running = Some(running);
        if waiting {
            self.halves += 1;
            let word = self.successor_begun(memory.links());
            memory.store(PortId(0), self.predecessor(), word, self.halves);
            return Ok(self.proceed(memory));
        }
        self.send(&running, memory);
        Ok(false)
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        match (event, &mut self.running) {
            (MemoryEvent::Fenced, Some(running)) => {
                running.flagged = true;
                for link in 0..memory.links() {
                    memory.store(PortId(link), self.successor(), self.flag(link), self.done + 1);
                }
                self.proceed(memory)
            }
            (MemoryEvent::Changed { .. }, Some(_)) => self.proceed(memory),
            (MemoryEvent::Computed, &mut Some(running)) => {
                self.add(&running, memory);
                self.next_step(memory) || self.proceed(memory)
            }
            _ => false,
        }
    }

    fn assert_invariants(&self) {
        let Some(running) = self.running else { return };
        assert!(
            running.step < running.end && running.end <= 2 * (self.ranks() - 1),
            "a step of the collective"
        );
    }
}
