//! An iteration of training: stages that take turns with microbatches, and gradients that are added up behind the last of them or beside it.
//!
//! Which gradients go together beside it, and when, `quincunx-workload` says, as of every model that is trained.

use crate::{
    AcceleratorError, Decoder, Exchange, Group, Phase, Source, Split, Timing, TrainingSetup,
    training_exchanges,
};
use quincunx_collective::Collective;
use quincunx_units::{ByteCount, Duration};
use quincunx_workload::{Fusion, Pass, iterate};

/// An iteration, as long as it takes.
#[derive(Clone, PartialEq, Debug)]
pub struct TrainingTime {
    /// What an accelerator of the longest stage computes.
    pub compute: Duration,
    /// What it waits for others of its layers, and for those with its experts.
    pub within: Duration,
    /// What it has nothing to do, while others of the pipeline fill and drain it, with messages.
    pub bubble: Duration,
    /// What replicas exchange.
    pub replicas: Duration,
    /// The part of it that nothing hides.
    pub exposed: Duration,
    /// Where the time of computation is from.
    pub source: Source,
    /// What is exchanged, and how long each takes.
    pub exchanges: Vec<(Exchange, Duration)>,
}

/// Lays an iteration out: one-forward-one-backward over all stages (Narayanan et al., 2021), then what replicas exchange: at once, or, if `overlap`
/// is set, layer by layer from the last, as gradients become ready in the last microbatch's backward pass. `time` says how long an exchange takes.
///
/// # Errors
/// If the accelerator has no such products, or `time` has none.
pub fn train<E: From<AcceleratorError>>(
    model: &Decoder,
    split: &Split,
    timing: &Timing,
    training: &TrainingSetup,
    mut time: impl FnMut(&Exchange) -> Result<Duration, E>,
) -> Result<TrainingTime, E> {
    let layers = split.layers(model);
    let phase = Phase::Prefill { batch: training.micro_batch, length: training.sequence };
    let (forward, source) = timing.layers(model, split, phase, layers)?;
    // The output's product is on the last stage; where there are several, another may be the longest.
    let head = match split.pp {
        1 => timing.head(model, split, phase.tokens())?,
        _ => Duration::ZERO,
    };
    let exchanges = training_exchanges(model, split, training)
        .into_iter()
        .map(|exchange| Ok((exchange, time(&exchange)?)))
        .collect::<Result<Vec<_>, E>>()?;
    let of_groups = |groups: &[Group]| -> Duration {
        let those = exchanges.iter().filter(|(exchange, _)| groups.contains(&exchange.group));
        those.map(|(exchange, time)| *time * exchange.times).sum()
    };
    // Gradients of inputs and of weights are two products for one.
    let passes = if split.recompute { 4 } else { 3 };
    let micro_batches = training.micro_batches(split);
    let once = forward * passes + head * 3;
    let compute = once * micro_batches;
    let within = of_groups(&[Group::Tensor, Group::Expert]);
    let stages = u64::from(split.pp);
    let waits = (once + within / micro_batches) * (stages - 1) / u64::from(split.interleave);
    let hop = exchanges.iter().find(|(exchange, _)| exchange.group == Group::Pipeline);
    // Messages are hidden but for those that fill and drain the pipeline.
    let bubble = waits + hop.map_or(Duration::ZERO, |(_, time)| *time * (2 * (stages - 1)));
    let of_replicas = exchanges.iter().filter(|(exchange, _)| exchange.group == Group::Data);
    let of_replicas: Vec<Exchange> = of_replicas.map(|(exchange, _)| *exchange).collect();
    let (replicas, exposed) = match training.overlap {
        false => {
            let replicas = of_groups(&[Group::Data]);
            (replicas, replicas)
        }
        true => {
            let pass = |backward, gradient| Pass { forward: Duration::ZERO, backward, gradient };
            let gradients: ByteCount =
                of_replicas.iter().filter(|one| is_sum(one)).map(|one| one.bytes).sum();
            let layer = pass((once - forward - head * 3) / layers.max(1), gradients / layers.max(1));
            let passes = vec![layer; usize::try_from(layers).unwrap_or(usize::MAX)];
            let fusion = Fusion { overlap: true, most: training.fusion, cycle: Duration::ZERO, copy: None };
            let beside = iterate(&passes, &fusion, Duration::ZERO, |size| {
                // What else replicas exchange goes in the same parts.
                let part = |whole: ByteCount| {
                    let bytes = u128::from(whole.bytes()) * u128::from(size.bytes());
                    ByteCount::new((bytes / u128::from(gradients.bytes().max(1))) as u64)
                };
                let each = of_replicas.iter().map(|exchange| {
                    Ok(time(&Exchange { bytes: part(exchange.bytes), ..*exchange })? * exchange.times)
                });
                each.sum::<Result<Duration, E>>()
            })?;
            (beside.communication, beside.exposed())
        }
    };
    Ok(TrainingTime { compute, within, bubble, replicas, exposed, source, exchanges })
}

/// Whether it adds gradients up.
fn is_sum(exchange: &Exchange) -> bool {
    matches!(exchange.collective, Some(Collective::AllReduce | Collective::ReduceScatter))
}

impl TrainingTime {
    /// As long as it takes.
    pub fn time(&self) -> Duration {
        self.compute + self.within + self.bubble + self.exposed
    }

    /// The share of it that is communication which nothing hides.
    pub fn share(&self) -> f64 {
        (self.within + self.exposed).as_secs_f64() / self.time().as_secs_f64()
    }
}
