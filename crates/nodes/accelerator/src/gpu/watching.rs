//! What an accelerator says of itself to those who watch it. Nothing that it does depends on any of it.

use super::Gpu;
use quincunx_units::Duration;

/// How far a kernel has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelProgress {
    /// How long SMs have computed for it, together; a stage counts when it ends.
    pub busy: Duration,
    /// Its blocks that have a place now.
    pub resident: u16,
    /// Those that have ended.
    pub done: u32,
    /// All that it has.
    pub blocks: u32,
}

impl<P> Gpu<P> {
    /// How long all SMs have computed, together.
    pub fn busy(&self) -> Duration {
        self.busy.iter().copied().sum()
    }

    /// Every kernel of the program, in its order.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = KernelProgress> {
        let kernels = self.busy.iter().zip(&self.blocks.kernels).zip(&self.config.program.kernels);
        kernels.map(|((&busy, state), kernel)| KernelProgress {
            busy,
            resident: state.resident,
            done: state.done,
            blocks: kernel.blocks.len() as u32,
        })
    }

    /// Loads that have left and are not answered.
    pub fn loads(&self) -> u32 {
        self.links.iter().map(|link| link.sending.loads).sum()
    }
}
