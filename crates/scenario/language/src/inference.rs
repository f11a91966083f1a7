//! Prefill and decode, whose collectives nothing hides: a layer's product needs the whole sum of the one before (SCIN 2.1).

use crate::{AcceleratorError, Decoder, Exchange, Phase, Source, Split, Timing, exchanges};
use quincunx_units::Duration;

/// A phase, as long as it takes.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseTime {
    /// All layers and the output's product.
    pub compute: Duration,
    /// All collectives and messages.
    pub communication: Duration,
    /// Where the time of computation is from.
    pub source: Source,
    /// What is exchanged, and how long each takes.
    pub exchanges: Vec<(Exchange, Duration)>,
}

/// What a request waits for.
#[derive(Clone, PartialEq, Debug)]
pub struct Inference {
    /// To the first token.
    pub prefill: PhaseTime,
    /// From one token to the next.
    pub decode: PhaseTime,
}

/// Lays a phase's computation and communication behind each other. `time` says how long an exchange takes.
///
/// # Errors
/// If the accelerator has no such products, or `time` has none.
pub fn infer<E: From<AcceleratorError>>(
    model: &Decoder,
    split: &Split,
    timing: &Timing,
    phase: Phase,
    mut time: impl FnMut(&Exchange) -> Result<Duration, E>,
) -> Result<PhaseTime, E> {
    let (layers, source) = timing.layers(model, split, phase, model.layers)?;
    let (Phase::Prefill { batch, .. } | Phase::Decode { batch, .. }) = phase;
    let compute = layers + timing.head(model, split, batch)?;
    let exchanges = exchanges(model, split, phase)
        .into_iter()
        .map(|exchange| Ok((exchange, time(&exchange)?)))
        .collect::<Result<Vec<_>, E>>()?;
    let communication = exchanges.iter().map(|(exchange, time)| *time * exchange.times).sum();
    Ok(PhaseTime { compute, communication, source, exchanges })
}

impl PhaseTime {
    /// As long as it takes.
    pub fn time(&self) -> Duration {
        self.compute + self.communication
    }

    /// The share of it that is communication.
    pub fn share(&self) -> f64 {
        self.communication.as_secs_f64() / self.time().as_secs_f64()
    }
}
