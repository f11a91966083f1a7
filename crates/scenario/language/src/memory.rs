//! What an accelerator keeps in its memory.

use crate::phase::VALUE;
use crate::{Attention, Decoder, Phase, Products, Split, TrainingSetup};
use quincunx_units::ByteCount;

/// Bytes of an accelerator's memory, of the stage with most of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Weights.
    pub weights: ByteCount,
    /// Their gradients.
    pub gradients: ByteCount,
    /// What Adam keeps: weights, means and variances of 32 bits each.
    pub optimizer: ByteCount,
    /// What the backward pass needs of the forward pass.
    pub activations: ByteCount,
    /// Keys and values of tokens.
    pub kept: ByteCount,
}

/// Bytes that the optimizer keeps of a weight (Rajbhandari et al., ZeRO, 2020, section 3.1).
const OPTIMIZER: u64 = 12;

impl Memory {
    /// All of it.
    pub fn all(&self) -> ByteCount {
        [self.weights, self.gradients, self.optimizer, self.activations, self.kept].into_iter().sum()
    }

    /// Of inference: weights, and keys and values of all tokens that a phase looks at.
    pub fn of_inference(model: &Decoder, split: &Split, phase: Phase, products: Products) -> Self {
        let weights: u64 = model.share(split).iter().sum();
        let (Phase::Prefill { batch, length } | Phase::Decode { batch, length }) = phase;
        let kept = batch * length * model.kept_values(split) * split.layers(model) * VALUE;
        Self {
            weights: ByteCount::new(weights * products.bytes()),
            kept: ByteCount::new(kept),
            ..Self::default()
        }
    }

    /// Of training with Adam in mixed precision.
    pub fn of_training(model: &Decoder, split: &Split, training: &TrainingSetup) -> Self {
        let [common, experts] = model.share(split);
        let replicas = u64::from(split.dp);
        let owners = u64::from(split.tp) * replicas / u64::from(split.ep);
        let owners = if split.experts_are_split() { replicas } else { owners.max(1) };
        let bytes = |each: u64, is_shared: bool| {
            let [by, experts_by] = if is_shared { [replicas, owners] } else { [1, 1] };
            ByteCount::new(each * (common / by + experts / experts_by))
        };
        let layers = split.layers(model) as f64;
        let (tp, hidden) = (f64::from(split.tp), model.hidden as f64);
        let tokens = (training.micro_batch * training.sequence) as f64;
        // Korthikanti et al., Reducing Activation Recomputation, 2022, equations 2 and 4, without scores, which attention does again.
        let values = match (split.recompute, split.sequence_parallel) {
            (true, _) => 2.0,
            (false, true) => 34.0 / tp,
            (false, false) => 10.0 + 24.0 / tp,
        };
        // The first stage has as many microbatches under way as there are stages (1F1B), and some of its parts' more.
        let (stages, parts) = (f64::from(split.pp), f64::from(split.interleave));
        let more = if split.interleave > 1 { 1.0 + (stages - 1.0) / (stages * parts) } else { 1.0 };
        let under_way = stages.min(training.micro_batches(split) as f64) * more;
        Self {
            weights: bytes(VALUE, split.zero == 3),
            gradients: bytes(VALUE, split.zero >= 2),
            optimizer: bytes(OPTIMIZER, split.zero >= 1),
            activations: ByteCount::new((tokens * hidden * layers * values * under_way) as u64),
            kept: ByteCount::new(0),
        }
    }
}

impl Decoder {
    /// Values that an accelerator keeps of a token in a layer.
    pub fn kept_values(&self, split: &Split) -> u64 {
        match self.attention {
            Attention::Grouped { kept, width, .. } => 2 * (kept / u64::from(split.tp)).max(1) * width,
            // The latent is whole on each.
            Attention::Latent { kept, key: [turning, _], .. } => kept + turning,
        }
    }
}
