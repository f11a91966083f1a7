//! Collectives that accelerators issue: reduce-scatter by reduced loads, all-gather by multicast stores (SCIN 2.2,
//! 3.3).

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{
    InPlaceRequest, Kernel, KernelRefusal, MemoryEvent, SharedMemory, Span, WordId,
};
use serde::{Deserialize, Serialize};

/// How an AllReduce moves data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AllReduceMode {
    /// Each accelerator loads its part reduced, and stores it at all (SCIN 2.2): `multimem.ld_reduce` and `multimem.st`.
    #[default]
    Pull,
    /// Each pushes its whole vector, and the switch writes the sums at all (CAIS II-C): `multimem.red`.
    Push,
}

/// An accelerator's place among the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NvlsConfig {
    /// Accelerators.
    pub ranks: u16,
    /// This one.
    pub rank: Rank,
    /// What parts and shares of links are cut at: whole elements, best whole packets.
    pub granule: usize,
    /// How AllReduce moves data.
    pub all_reduce: AllReduceMode,
    /// The word that all count up at a barrier, the same everywhere.
    pub counter: WordId,
}

/// Why a collective is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum NvlsRejected {
    /// One at a time.
    #[error("expected an idle accelerator, found one that still runs a collective; wait for its end")]
    Busy,
    /// A collective that it does not do.
    #[error("expected all_reduce, reduce_scatter, all_gather or barrier by NVLS, found {0}")]
    Unsupported(Collective),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// Until all have begun.
    Entering(InPlaceRequest),
    /// Until all of this rank's part is loaded: so many bytes are missing.
    Loading {
        request: InPlaceRequest,
        missing: usize,
    },
    /// Until what it has stored or pushed is everywhere.
    Storing,
    /// Until all are done.
    Leaving,
}

/// One accelerator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NvlsKernel {
    config: NvlsConfig,
    phase: Phase,
    /// What the counter reaches when all have come to the barrier that this one has come to.
    target: u64,
}

impl NvlsKernel {
    /// An accelerator that has not run yet.
    pub const fn new(config: NvlsConfig) -> Self {
        Self { config, phase: Phase::Idle, target: 0 }
    }

    /// Counts up the counters of all, by the first switch (SCIN 3.3).
    fn arrive<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) {
        self.target += u64::from(self.config.ranks);
        memory.multicast_add(PortId(0), self.config.counter, 1);
    }

    /// This rank's part of the vector.
    fn part(&self, request: &InPlaceRequest) -> Span {
        let ranks = usize::from(self.config.ranks);
        let granule = match request.collective {
            Collective::AllReduce => self.config.granule,
            // A rank's part is its part, whatever packets are.
            _ => request.span.length.div_ceil(ranks).max(1),
        };
        request.span.part(self.config.rank.index(), ranks, granule)
    }

    /// Begins what lies between the barriers.
    fn enter<P: Payload>(&mut self, request: InPlaceRequest, memory: &mut dyn SharedMemory<P>) {
        let pushes =
            request.collective == Collective::AllReduce && self.config.all_reduce == AllReduceMode::Push;
        let part = if pushes { request.span } else { self.part(&request) };
        let links = memory.links();
        let shares = (0..links).map(|link| {
            (PortId(link), part.part(usize::from(link), usize::from(links), self.config.granule))
        });
        match request.collective {
            Collective::AllReduce if pushes => {
                shares.for_each(|(link, share)| memory.multicast_reduce(link, share));
                self.phase = Phase::Storing;
                memory.fence();
            }
            Collective::AllReduce | Collective::ReduceScatter => {
                shares.for_each(|(link, share)| memory.reduced_load(link, share));
                self.phase = Phase::Loading { request, missing: part.length };
                self.end_loading(memory);
            }
            _ => {
                shares.for_each(|(link, share)| memory.multicast_store(link, share));
                self.phase = Phase::Storing;
                memory.fence();
            }
        }
    }

    fn end_loading<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) {
        if let Phase::Loading { missing: 0, .. } = self.phase {
            self.phase = Phase::Storing;
            memory.fence();
        }
    }
}

impl From<NvlsRejected> for KernelRefusal {
    fn from(rejected: NvlsRejected) -> Self {
        Self::of(&rejected)
    }
}

impl<P: Payload> Kernel<P> for NvlsKernel {
    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal> {
        if self.phase != Phase::Idle {
            return Err(NvlsRejected::Busy.into());
        }
        self.phase = match request.collective {
            Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather => {
                Phase::Entering(request)
            }
            Collective::Barrier => Phase::Leaving,
            other => return Err(NvlsRejected::Unsupported(other).into()),
        };
        self.arrive(memory);
        Ok(false)
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        match (event, &mut self.phase) {
            (MemoryEvent::Changed { word, value }, phase)
                if word == self.config.counter && value == self.target =>
            {
                match *phase {
                    Phase::Entering(request) => self.enter(request, memory),
                    Phase::Leaving => {
                        self.phase = Phase::Idle;
                        return true;
                    }
                    Phase::Idle | Phase::Loading { .. } | Phase::Storing => {}
                }
            }
            (MemoryEvent::Loaded { link, span }, Phase::Loading { request, missing }) => {
                *missing = missing.saturating_sub(span.length);
                if request.collective == Collective::AllReduce {
                    memory.multicast_store(link, span);
                }
                self.end_loading(memory);
            }
            (MemoryEvent::Fenced, Phase::Storing) => {
                self.phase = Phase::Leaving;
                self.arrive(memory);
            }
            _ => {}
        }
        false
    }

    fn assert_invariants(&self) {
        assert!(self.target.is_multiple_of(u64::from(self.config.ranks)), "barriers are of all ranks");
    }
}
