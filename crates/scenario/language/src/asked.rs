//! What is asked of a model: answers, or iterations of training.

use crate::{Phase, Split};
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
}

const fn one() -> u64 {
    1
}

const fn yes() -> bool {
    true
}

impl TrainingSetup {
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
