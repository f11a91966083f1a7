//! How long layers take: the longer of arithmetic and traffic to memory, and what is done to each value behind that, which is traffic alone
//! (Williams et al., Roofline, 2009). Kernels follow each other without a gap; samples are there when they are needed.

use crate::Model;
use crate::layer::Work;
use quincunx_scenario::{Gpu, Training};
use quincunx_units::{ByteCount, Duration};

/// A layer on an accelerator, for a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// The forward pass.
    pub forward: Duration,
    /// The backward pass, at whose end the gradient is there.
    pub backward: Duration,
    /// Bytes of the gradient.
    pub gradient: ByteCount,
}

/// How long the layers of `model` take, in the order of the forward pass.
pub fn passes(model: &Model, training: &Training) -> Vec<Pass> {
    let Training { gpu, batch, .. } = training;
    let (batch, tile) = (u64::from(batch.unwrap_or(model.batch)), u64::from(gpu.tile));
    let pass = |(number, layer): (usize, &crate::Layer)| Pass {
        forward: time(layer.forward(batch, tile), gpu),
        backward: time(layer.backward(batch, tile, number == 0), gpu),
        gradient: layer.gradient(),
    };
    model.layers.iter().enumerate().map(pass).collect()
}

fn time(work: Work, gpu: &Gpu) -> Duration {
    let [bytes, then] = [work.bytes, work.then].map(|bytes| gpu.memory.time_for(bytes));
    gpu.rate.time_for(work.operations).max(bytes) + then
}
