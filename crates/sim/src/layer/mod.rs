//! Sub-layers of tensor-parallel models on a memory fabric: compute kernels at the granularity of thread blocks, whose requests are packets
//! on the fabric's links, by a [schedule](quincunx_accelerator::Schedule).

mod measure;
mod node;
mod run;

pub use measure::{
    LayerMeasurement, LayerRequest, PartMeasurement, Schedules, communication_share, find_schedule,
    measure_layer, profile,
};
pub use quincunx_workload::Profile;
pub use run::{KernelSpan, LayerError, LayerOutcome, LayerRun, machine, run_filled, run_layer};
