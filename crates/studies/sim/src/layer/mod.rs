//! Sub-layers of tensor-parallel models on a memory fabric: compute kernels at the granularity of thread blocks, whose requests are packets
//! on the fabric's links, by a [schedule](quincunx_accelerator::Schedule).

mod kept;
mod measure;
mod node;
mod run;
mod samples;
mod trace;

pub use kept::Remembered;
pub use measure::{
    LayerMeasurement, LayerRequest, PartMeasurement, Schedules, calibrated, communication_share,
    find_schedule, measure_layer, measure_over_time, measure_remembered, outside, profile,
};
pub use quincunx_workload::{KernelKind, MeasuredKernel, Profile};
pub use run::{KernelSpan, LayerError, LayerOutcome, LayerRun, machine, run_filled, run_layer, run_sampled};
pub use samples::{OverTime, Series, SeriesOf};
pub use trace::{TRACE_INTERVALS, write_trace};
