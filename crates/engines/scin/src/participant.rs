//! What SCIN leaves to an accelerator: to count up a counter in each switch, and to wait for the flag that each sets
//! (SCIN 3.3).

use quincunx_collective::Payload;
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{
    InPlaceRequest, Kernel, KernelRefusal, MemoryEvent, SharedMemory, WordId,
};

/// How an accelerator takes part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ParticipantConfig {
    /// The counter, the same in every switch.
    pub counter: WordId,
    /// The flag that the first switch sets; those of the others follow it.
    pub first_flag: WordId,
}

/// Why a collective is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum ParticipantRejected {
    /// One at a time.
    #[error("expected an idle accelerator, found one that still waits for its switches; wait for its end")]
    Busy,
}

/// The kernel of an accelerator in SCIN. What is computed, and where, the switches' instructions say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant {
    config: ParticipantConfig,
    /// Collectives begun: what a flag is set to at the end of the last.
    begun: u64,
    /// Switches that have not set their flag yet.
    waiting: u16,
}

impl Participant {
    /// An accelerator that has not taken part yet.
    pub const fn new(config: ParticipantConfig) -> Self {
        Self { config, begun: 0, waiting: 0 }
    }
}

impl From<ParticipantRejected> for KernelRefusal {
    fn from(rejected: ParticipantRejected) -> Self {
        Self::of(&rejected)
    }
}

impl<P: Payload> Kernel<P> for Participant {
    fn start(
        &mut self,
        _request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal> {
        if self.waiting > 0 {
            return Err(ParticipantRejected::Busy.into());
        }
        self.begun += 1;
        self.waiting = memory.links();
        for link in 0..memory.links() {
            memory.add_at_switch(PortId(link), self.config.counter, 1);
        }
        Ok(false)
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        let MemoryEvent::Changed { word, value } = event else { return false };
        let first = self.config.first_flag.0;
        if !(first..first + memory.links()).contains(&word.0) || value != self.begun || self.waiting == 0 {
            return false;
        }
        self.waiting -= 1;
        self.waiting == 0
    }

    fn assert_invariants(&self) {
        assert!(self.waiting == 0 || self.begun > 0, "waits for what it has begun");
    }
}
