//! Sub-layers of tensor-parallel models on a memory fabric: compute kernels at the granularity of thread blocks, whose requests are packets
//! on the fabric's links, by a [schedule](quincunx_accelerator::Schedule).

mod node;
mod run;

pub use run::{KernelSpan, LayerError, LayerOutcome, LayerRun, machine, run_filled, run_layer};
