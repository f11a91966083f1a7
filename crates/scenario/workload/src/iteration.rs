//! An iteration of data-parallel training: a forward pass, a backward pass whose gradients become ready layer by layer from the last, their
//! sums over all ranks, and the step of gradient descent.
//!
//! Gradients are sent in the order in which they become ready, several together where several are ready (Horovod's tensor fusion). A bucket
//! begins when the one before is over. Computation and communication do not slow each other down, and all ranks are equally fast.

use crate::Pass;
use quincunx_scenario::Training;
use quincunx_units::{BitRate, ByteCount, Duration};

/// Which gradients are sent when, and together with which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fusion {
    /// Whether gradients are sent during the backward pass; otherwise after it.
    pub overlap: bool,
    /// Most bytes of ready gradients that one collective sends together; a longer gradient goes alone.
    pub most: ByteCount,
    /// Interval at which an idle rank checks for ready gradients; zero: it sends as soon as a gradient is ready.
    pub cycle: Duration,
    /// Rate of copies to the host's memory before sending, and back behind it.
    pub copy: Option<BitRate>,
}

impl Fusion {
    /// What a scenario says of it.
    pub const fn of(training: &Training) -> Self {
        let Training { overlap, fusion, cycle, copy, .. } = *training;
        Self { overlap, most: fusion, cycle, copy }
    }
}

/// Gradients that were added up together, and when they were on the network. Times are from the beginning of the iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Bytes.
    pub size: ByteCount,
    /// Layers.
    pub layers: usize,
    /// When its first gradient could have been sent.
    pub ready: Duration,
    /// When its AllReduce began, or the copy before it.
    pub begin: Duration,
    /// When all ranks had the sum, where the accelerator can use it.
    pub end: Duration,
}

/// An iteration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Iteration {
    /// From its beginning to the beginning of the next.
    pub time: Duration,
    /// Of that, what accelerators compute: both passes, and the step.
    pub compute: Duration,
    /// What all buckets take, copies included.
    pub communication: Duration,
    /// Each bucket, in the order of sending.
    pub buckets: Vec<Bucket>,
}

impl Iteration {
    /// What of the communication passes while accelerators compute.
    pub fn hidden(&self) -> Duration {
        self.communication - self.exposed()
    }

    /// How long accelerators wait for the network, and for the next look at what is ready.
    pub fn exposed(&self) -> Duration {
        self.time - self.compute
    }

    /// Samples a second of so many, each rank's counted.
    pub fn samples_per_second(&self, samples: u64) -> f64 {
        samples as f64 / self.time.as_secs_f64()
    }
}

/// How often the step reads and writes memory for a parameter: weight and gradient are read, the weight is written (gradient descent without
/// momentum, AllReduce-Switch V-B).
const STEP_ACCESSES: u64 = 3;

/// A gradient and when it may be sent.
type Ready = (ByteCount, Duration);

/// The gradients of layers of `passes` in the order in which they become ready. Layers without parameters have none.
fn gradients(passes: &[Pass], fusion: &Fusion) -> Vec<Ready> {
    let mut now: Duration = passes.iter().map(|pass| pass.forward).sum();
    let mut gradients: Vec<Ready> = Vec::new();
    for pass in passes.iter().rev() {
        now += pass.backward;
        gradients.push((pass.gradient, now));
    }
    gradients.retain(|(size, _)| size.bytes() > 0);
    if !fusion.overlap {
        gradients.iter_mut().for_each(|(_, ready)| *ready = now);
    }
    gradients
}

/// The first multiple of `cycle` that is not before `time`: when a rank looks for what is ready at that time.
pub fn tick(time: Duration, cycle: Duration) -> Duration {
    match cycle {
        Duration::ZERO => time,
        _ => cycle * time.as_picos().div_ceil(cycle.as_picos()),
    }
}

/// How long a step of gradient descent takes behind `passes`, on an accelerator with so much traffic to memory.
pub fn step(passes: &[Pass], memory: BitRate) -> Duration {
    let sum: ByteCount = passes.iter().map(|pass| pass.gradient).sum();
    memory.time_for(sum * STEP_ACCESSES)
}

/// An iteration with layers of `passes` and a `step`, where `all_reduce` says how long the sum of so many bytes over all ranks takes.
///
/// # Errors
/// That of `all_reduce`.
pub fn iterate<E>(
    passes: &[Pass],
    fusion: &Fusion,
    step: Duration,
    mut all_reduce: impl FnMut(ByteCount) -> Result<Duration, E>,
) -> Result<Iteration, E> {
    let computed: Duration = passes.iter().map(|pass| pass.forward + pass.backward).sum();
    let gradients = gradients(passes, fusion);
    let (mut over, mut communication) = (Duration::ZERO, Duration::ZERO);
    let mut buckets = Vec::new();
    let mut waiting = gradients.as_slice();
    while let [(first, ready), others @ ..] = waiting {
        let begin = tick(*ready, fusion.cycle).max(over);
        let (mut size, mut layers) = (*first, 1);
        for (more, ready) in others {
            if *ready > begin || size + *more > fusion.most {
                break;
            }
            size += *more;
            layers += 1;
        }
        let copies = fusion.copy.map_or(Duration::ZERO, |rate| rate.time_for(size) * 2);
        let takes = all_reduce(size)? + copies;
        over = begin + takes;
        communication += takes;
        buckets.push(Bucket { size, layers, ready: *ready, begin, end: over });
        waiting = &waiting[layers..];
    }
    Ok(Iteration { time: computed.max(over) + step, compute: computed + step, communication, buckets })
}
