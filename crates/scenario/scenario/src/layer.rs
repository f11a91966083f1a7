//! What of a tensor-parallel model is run: the keys below `layer`. Which models there are, `quincunx-workload` knows.

use crate::fabric::Contradiction;
use schemars::JsonSchema;
use serde::Deserialize;

/// A part of a layer of a language model, split over all accelerators.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerWorkload {
    /// The model's name: `llama-7b`.
    pub model: Option<String>,
    /// A sub-layer, `L1` to `L4`, all of them, `sub-layers`, or a whole layer of a pass: `forward`, `backward` or `both`.
    pub part: String,
    /// Factor for hidden size, FFN and heads.
    pub scale: u32,
    /// Switches that are simulated, each with its share of every tile's lines, as all switches have the same; 0: all.
    pub planes: u16,
}

impl Default for LayerWorkload {
    fn default() -> Self {
        Self { model: None, part: "forward".into(), scale: 1, planes: 0 }
    }
}

impl LayerWorkload {
    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        if self.scale == 0 {
            return Err(("a `layer.scale` of one or more", "0".into(), "1: the model as it is"));
        }
        Ok(())
    }
}
