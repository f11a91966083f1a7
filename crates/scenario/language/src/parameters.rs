//! Weights of a model, and how many of them an accelerator has.

use crate::{Attention, Biases, Decoder, Split};

impl Decoder {
    /// Weights of a layer's attention, with its norm.
    pub const fn attention_parameters(&self) -> u64 {
        let hidden = self.hidden;
        let products = match self.attention {
            Attention::Grouped { heads, kept, width } => {
                let (queries, keys) = (heads * width, 2 * kept * width);
                let biases = match self.biases {
                    Biases::None => 0,
                    Biases::Attention => queries + keys,
                    Biases::HeadNorms => 2 * width,
                    Biases::All => queries + keys + hidden,
                };
                hidden * (queries + keys) + queries * hidden + biases
            }
            Attention::Latent { heads, query, kept, key: [turning, still], value } => {
                let queries = match query {
                    Some(rank) => hidden * rank + rank + rank * heads * (turning + still),
                    None => hidden * heads * (turning + still),
                };
                let keys = hidden * (kept + turning) + kept + kept * heads * (still + value);
                queries + keys + heads * value * hidden
            }
        };
        products + self.norm_parameters()
    }

    /// Weights of an FFN so wide.
    const fn ffn_of(&self, wide: u64) -> u64 {
        let biases = match self.biases {
            Biases::All => wide + self.hidden,
            _ => 0,
        };
        self.matrices * self.hidden * wide + biases
    }

    const fn norm_parameters(&self) -> u64 {
        match self.biases {
            Biases::All => 2 * self.hidden,
            _ => self.hidden,
        }
    }

    /// Layers with experts.
    pub const fn expert_layers(&self) -> u64 {
        match self.experts {
            Some(experts) => self.layers - experts.dense_layers,
            None => 0,
        }
    }

    /// Weights of the experts that tokens choose from, in all layers.
    pub fn routed_parameters(&self) -> u64 {
        self.experts.map_or(0, |experts| self.expert_layers() * experts.all * self.ffn_of(experts.ffn))
    }

    /// Weights of one expert.
    pub fn expert_parameters(&self) -> u64 {
        self.experts.map_or(0, |experts| self.ffn_of(experts.ffn))
    }

    /// Weights of all layers but those experts.
    pub fn common_parameters(&self) -> u64 {
        let dense = (self.layers - self.expert_layers()) * self.ffn_of(self.ffn);
        let experts = self.experts.map_or(0, |experts| {
            // The router has a weight for each value and a bias for each expert, where its choice is balanced by one.
            let router = experts.all * self.hidden + if experts.shared > 0 { experts.all } else { 0 };
            self.expert_layers() * (router + experts.shared * self.ffn_of(experts.ffn))
        });
        let norms = self.layers * self.norm_parameters();
        self.layers * self.attention_parameters() + dense + experts + norms
    }

    /// Weights before the first layer and behind the last one.
    pub const fn outer_parameters(&self) -> u64 {
        let tables = if self.tied { 1 } else { 2 };
        tables * self.vocabulary * self.hidden + self.positions * self.hidden + self.norm_parameters()
    }

    /// All weights.
    pub fn parameters(&self) -> u64 {
        self.common_parameters() + self.routed_parameters() + self.outer_parameters()
    }

    /// Weights that a token meets.
    pub fn active_parameters(&self) -> u64 {
        let taken =
            self.experts.map_or(0, |experts| self.expert_layers() * experts.taken * self.ffn_of(experts.ffn));
        self.common_parameters() + taken + self.outer_parameters()
    }

    /// Weights of an accelerator whose gradients all replicas add up, and of its experts, whose gradients those replicas add up that have the same
    /// ones. The first stage is taken, which has the embedding; where there is one stage alone, it has all.
    pub fn share(&self, split: &Split) -> [u64; 2] {
        let Split { tp, pp, ep, .. } = *split;
        let [tp, pp, ep] = [tp, pp, ep].map(u64::from);
        let outer = if pp == 1 { self.outer_parameters() } else { self.vocabulary * self.hidden };
        let common = self.common_parameters() / pp / tp + outer / tp;
        [common, self.routed_parameters() / pp / ep / if split.experts_are_split() { tp } else { 1 }]
    }
}
