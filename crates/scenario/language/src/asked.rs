//! What is asked of a model: answers, or iterations of training.

use crate::{Phase, Split};
use quincunx_units::ByteCount;
use serde::Deserialize;

/// What is asked of a model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferenceSetup {
    /// Sequences at once.
    pub batch: u64,
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens that a token of the answer looks at; the prompt's if not said.
    pub context: Option<u64>,
}

/// How a model is trained.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSetup {
    /// Sequences of an iteration, over all replicas.
    pub batch: u64,
    /// Tokens of each.
    pub sequence: u64,
    /// Sequences that a replica runs at once.
    #[serde(default = "one")]
    pub micro_batch: u64,
    /// Whether replicas exchange gradients while the last backward pass goes on.
    #[serde(default = "yes")]
    pub overlap: bool,
    /// Most bytes of gradients that they exchange together then; a layer that has more goes alone. PyTorch's `bucket_cap_mb` if not said.
    #[serde(default = "bucket")]
    pub fusion: ByteCount,
}

const fn one() -> u64 {
    1
}

const fn bucket() -> ByteCount {
    ByteCount::new(25 << 20)
}

const fn yes() -> bool {
    true
}

impl TrainingSetup {
    /// So many sequences of so many tokens, one at a time on each replica; what a file has that says no more.
    pub const fn new(batch: u64, sequence: u64) -> Self {
        Self { batch, sequence, micro_batch: one(), overlap: yes(), fusion: bucket() }
    }

    /// Parts of a replica's batch, one after the other.
    pub fn micro_batches(&self, split: &Split) -> u64 {
        (self.batch / u64::from(split.dp) / self.micro_batch).max(1)
    }
}

impl InferenceSetup {
    /// Prompts.
    pub const fn prefill(&self) -> Phase {
        Phase::Prefill { batch: self.batch, length: self.prompt }
    }

    /// A token of each answer.
    pub fn decode(&self) -> Phase {
        Phase::Decode { batch: self.batch, length: self.context.unwrap_or(self.prompt) }
    }
}
