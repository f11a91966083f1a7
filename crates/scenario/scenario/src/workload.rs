//! What is asked of a fabric beside a vector's length: the batch of tokens that is dispatched to experts (MultiWrite 3.2).

use crate::fabric::Contradiction;
use crate::gate::Shape;
use crate::{GateSource, ScenarioError, text};
use quincunx_units::ByteCount;
use schemars::JsonSchema;
use serde::Deserialize;

/// Tokens, and how they choose their experts.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBatch {
    /// Tokens of each rank, or the most of them that are taken from a file.
    pub tokens: u32,
    /// Bytes of a token's values.
    pub token: ByteCount,
    /// Experts, as many on each rank.
    pub experts: u16,
    /// Experts of a token.
    pub top_k: u16,
    /// How a token's experts are chosen: `uniform`, `skewed`, `balanced`, or a file with a line for each token.
    #[serde(deserialize_with = "text::deserialize")]
    #[schemars(with = "String")]
    pub gate: GateSource,
}

impl TokenBatch {
    /// The most tokens that a rank has.
    pub fn most_tokens(&self) -> usize {
        let wanted = self.tokens as usize;
        match &self.gate {
            GateSource::Drawn(_) => wanted,
            GateSource::Written(written) => {
                wanted.min(written.tokens.iter().map(Vec::len).max().unwrap_or_default())
            }
        }
    }

    /// The values of as many tokens.
    pub fn bytes(&self) -> ByteCount {
        self.token * self.most_tokens() as u64
    }

    /// Reads the gate's file, if it has one.
    pub(crate) fn read_gate(&mut self, ranks: u16) -> Result<(), ScenarioError> {
        let shape = Shape { ranks, experts: self.experts, top_k: self.top_k };
        match &mut self.gate {
            GateSource::Drawn(_) => Ok(()),
            GateSource::Written(written) => written.read(shape),
        }
    }

    pub(crate) fn check(&self, ranks: u16) -> Result<(), Contradiction> {
        if self.experts == 0 || !self.experts.is_multiple_of(ranks) {
            let found = format!("{} on {ranks} accelerators", self.experts);
            return Err((
                "`experts` on every accelerator, as many on each",
                found,
                "make it a multiple of them",
            ));
        }
        if self.top_k == 0 || self.top_k > self.experts {
            let found = format!("{} of {}", self.top_k, self.experts);
            return Err(("`top_k` of one to all `experts`", found, "a token has each expert once"));
        }
        if self.tokens == 0 {
            return Err(("`tokens` of one or more", "0".into(), "nothing would be dispatched"));
        }
        if self.token.bytes() == 0 || !self.token.bytes().is_multiple_of(4) {
            return Err(("a `token` of whole words of four bytes", self.token.to_string(), "round it"));
        }
        Ok(())
    }
}
