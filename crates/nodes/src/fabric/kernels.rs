//! All communication kernels as one type.

use quincunx_collective::Payload;
use quincunx_engine::shared_memory::{InPlaceRequest, Kernel, MemoryEvent, SharedMemory};
use quincunx_nvls::{NvlsKernel, NvlsRejected};
use quincunx_ring::{
    QuantizedRing, QuantizedRingRejected, SharedDirect, SharedDirectRejected, SharedRing, SharedRingRejected,
};
use quincunx_scin::{Participant, ParticipantRejected};

/// A communication kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kernels {
    /// SCIN: the switches compute.
    Scin(Participant),
    /// The software ring.
    Ring(SharedRing),
    /// The software ring that quantises at every hop.
    QuantizedRing(QuantizedRing),
    /// Everybody writes to everybody.
    Direct(SharedDirect),
    /// NVLS.
    Nvls(NvlsKernel),
}

/// Why a kernel does not start; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KernelRejected {
    /// SCIN's.
    #[error(transparent)]
    Scin(#[from] ParticipantRejected),
    /// The ring's.
    #[error(transparent)]
    Ring(#[from] SharedRingRejected),
    /// That of the ring that quantises.
    #[error(transparent)]
    QuantizedRing(#[from] QuantizedRingRejected),
    /// That of direct writes.
    #[error(transparent)]
    Direct(#[from] SharedDirectRejected),
    /// NVLS's.
    #[error(transparent)]
    Nvls(#[from] NvlsRejected),
}

impl<P: Payload> Kernel<P> for Kernels {
    type Rejected = KernelRejected;

    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRejected> {
        match self {
            Self::Scin(kernel) => Ok(kernel.start(request, memory)?),
            Self::Ring(kernel) => Ok(kernel.start(request, memory)?),
            Self::QuantizedRing(kernel) => Ok(kernel.start(request, memory)?),
            Self::Direct(kernel) => Ok(kernel.start(request, memory)?),
            Self::Nvls(kernel) => Ok(kernel.start(request, memory)?),
        }
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        match self {
            Self::Scin(kernel) => kernel.handle_event(event, memory),
            Self::Ring(kernel) => kernel.handle_event(event, memory),
            Self::QuantizedRing(kernel) => kernel.handle_event(event, memory),
            Self::Direct(kernel) => kernel.handle_event(event, memory),
            Self::Nvls(kernel) => kernel.handle_event(event, memory),
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Scin(kernel) => Kernel::<P>::assert_invariants(kernel),
            Self::Ring(kernel) => Kernel::<P>::assert_invariants(kernel),
            Self::QuantizedRing(kernel) => Kernel::<P>::assert_invariants(kernel),
            Self::Direct(kernel) => Kernel::<P>::assert_invariants(kernel),
            Self::Nvls(kernel) => Kernel::<P>::assert_invariants(kernel),
        }
    }
}
