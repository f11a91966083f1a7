//! The language models of CAIS's table I, split over the GPUs of a tensor-parallel group: which products each GPU does, and what lies
//! between them.
//!
//! A layer is attention and a feed-forward network (FFN), each of a column-parallel product, something local, and a row-parallel product
//! (CAIS figure 1). Row-parallel products leave partial sums on every GPU; behind them come LayerNorm and the next column-parallel product.
//! These three are a [`SubLayer`]; what no sub-layer holds is [`Transformer::outside`] it. Together they are the layer.
//!
//! What the paper leaves open, and what we decide:
//! - **Two FFN matrices**, LLaMA's too: the sub-layers name a first and a second FFN layer and no gate. With `ffn_matrices = 3` gate and first
//!   matrix are one product of twice the columns.
//! - **Heads** do not enter the products. Scores and their sums over all heads of a GPU are as much work as one head of the GPU's share of the
//!   hidden size, so that 24 heads of 2048, or fewer heads than GPUs, need no rounding.
//! - **Attention is whole**: no mask spares work. It is one kernel that keeps scores on the chip, and does them again in the backward pass
//!   (Dao et al., FlashAttention, arXiv:2205.14135).
//! - **Weights' gradients** are products of their own, outside of sub-layers, of inputs that a GPU has kept.
//! - Values are counted, not bytes: their width is whoever's who runs them.

use core::fmt::{self, Display};
use core::str::FromStr;
use include_dir::{Dir, include_dir};
use serde::Deserialize;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/transformers");

/// A language model, as CAIS's table I gives it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    /// `llama-7b`.
    pub name: String,
    /// Where its numbers are published.
    pub source: String,
    /// Values of a token.
    pub hidden: u32,
    /// Values of a token inside the FFN.
    pub ffn: u32,
    /// Attention heads; data alone.
    pub heads: u32,
    /// Tokens of a sequence.
    pub sequence: u32,
    /// Sequences of a batch.
    pub batch: u32,
    /// 2, or 3 with a gate.
    pub ffn_matrices: u32,
}

/// Why there is no model, or no split of one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransformerError {
    /// None of that name.
    #[error("expected a language model ({known}), found \"{found}\"; name one of them")]
    Unknown {
        /// All that there are.
        known: String,
        /// What was given.
        found: String,
    },
    /// Its text is wrong.
    #[error("{place}: {error}")]
    Wrong {
        /// The file.
        place: String,
        /// What was expected and found.
        error: String,
    },
    /// It does not divide.
    #[error(
        "expected {what} that {gpus} GPUs share evenly, found {found} in {model}; choose a number of GPUs that divides it"
    )]
    Split {
        /// The model.
        model: String,
        /// What does not divide.
        what: &'static str,
        /// How much that is.
        found: u64,
        /// GPUs.
        gpus: u16,
    },
    /// Not a sub-layer or a pass.
    #[error("expected {expected}, found \"{found}\"; name one of them")]
    Name {
        /// What there is.
        expected: &'static str,
        /// What was given.
        found: String,
    },
}

/// A product of an `m` by `k` and a `k` by `n` matrix: one GPU's part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gemm {
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Products in each sum.
    pub k: u64,
}

impl Gemm {
    /// Operations; a multiplication and an addition are two.
    pub const fn operations(self) -> u64 {
        2 * self.m * self.n * self.k
    }

    /// Values of both operands and the result.
    pub const fn values(self) -> u64 {
        self.m * self.k + self.k * self.n + self.m * self.n
    }
}

/// A row-parallel product, LayerNorm, a column-parallel product (CAIS V-A2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SubLayer {
    /// Output projection, LayerNorm, first FFN layer; forward.
    L1,
    /// Second FFN layer, LayerNorm, input projection (queries, keys and values); forward.
    L2,
    /// First FFN layer, LayerNorm, output projection; backward.
    L3,
    /// Input projection, LayerNorm, second FFN layer; backward.
    L4,
}

/// Which way through a layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// All that inference does (its prefill), and the first half of training.
    Forward,
    /// Gradients of inputs and weights.
    Backward,
}

/// What a sub-layer computes on one GPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SubLayerShape {
    /// Row-parallel: its `m` by `n` result is a partial sum, to be added up over all GPUs.
    pub before: Gemm,
    /// Rows and columns of LayerNorm, of all GPUs together: with sequence parallelism each has its share of the rows, without each has all.
    pub norm: (u64, u64),
    /// Column-parallel: its `m` by `k` operand is on no GPU whole before it is gathered.
    pub after: Gemm,
}

/// What one GPU does outside of sub-layers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// A product.
    Gemm(Gemm),
    /// Products in one kernel, which reads and writes so many values of memory: what lies between the products stays on the chip.
    Fused {
        /// One after the other.
        gemms: Vec<Gemm>,
        /// Values read and written.
        values: u64,
    },
    /// Something done to each value, bound by memory alone.
    Elements {
        /// Values read and written.
        values: u64,
    },
}

impl Work {
    /// Operations of its products; a multiplication and an addition are two.
    pub fn operations(&self) -> u64 {
        match self {
            Self::Gemm(gemm) => gemm.operations(),
            Self::Fused { gemms, .. } => gemms.iter().map(|gemm| gemm.operations()).sum(),
            Self::Elements { .. } => 0,
        }
    }

    /// Values that it reads from memory and writes there, each once.
    pub const fn values(&self) -> u64 {
        match self {
            Self::Gemm(gemm) => gemm.values(),
            Self::Fused { values, .. } | Self::Elements { values } => *values,
        }
    }
}

impl SubLayer {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::L1, Self::L2, Self::L3, Self::L4];

    /// Which way through the layer it is.
    pub const fn direction(self) -> Direction {
        match self {
            Self::L1 | Self::L2 => Direction::Forward,
            Self::L3 | Self::L4 => Direction::Backward,
        }
    }
}

impl Direction {
    /// The sub-layers of this pass, in their order.
    pub const fn sub_layers(self) -> [SubLayer; 2] {
        match self {
            Self::Forward => [SubLayer::L1, SubLayer::L2],
            Self::Backward => [SubLayer::L3, SubLayer::L4],
        }
    }
}

/// What one GPU has of a model.
struct Share {
    tokens: u64,
    sequence: u64,
    /// Whole, and this GPU's part.
    hidden: u64,
    own_hidden: u64,
    /// Columns of the first FFN layer, with the gate, and rows of the second: this GPU's part.
    own_first: u64,
    own_second: u64,
}

impl Transformer {
    /// The model of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, TransformerError> {
        let file = FILES.get_file(format!("{name}.toml")).and_then(include_dir::File::contents_utf8);
        let text = file.ok_or_else(|| TransformerError::Unknown {
            known: Self::names().join(", "),
            found: name.into(),
        })?;
        Self::parse(&format!("transformers/{name}.toml"), text)
    }

    /// The names of all models.
    pub fn names() -> Vec<String> {
        let stem =
            |file: &include_dir::File<'_>| file.path().with_extension("").to_string_lossy().into_owned();
        let mut names: Vec<_> = FILES.files().map(stem).collect();
        names.sort();
        names
    }

    /// Reads one.
    ///
    /// # Errors
    /// If a key is unknown or missing, a size is zero, or there are not two or three FFN matrices.
    pub fn parse(place: &str, text: &str) -> Result<Self, TransformerError> {
        let wrong = |error: String| TransformerError::Wrong { place: place.into(), error };
        let model: Self =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim().replace('\n', " ")))?;
        let sizes = [model.hidden, model.ffn, model.heads, model.sequence, model.batch];
        if sizes.contains(&0) || !(2..=3).contains(&model.ffn_matrices) {
            return Err(wrong(format!(
                "expected sizes of one or more and 2 or 3 `ffn_matrices`, found {sizes:?} and {}; correct them",
                model.ffn_matrices
            )));
        }
        Ok(model)
    }

    /// Tokens of a batch.
    pub fn tokens(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.sequence)
    }

    /// The model with `factor` times the hidden size, and so the FFN and the heads: CAIS V-C1, where it grows with the GPUs, and table II.
    ///
    /// # Panics
    /// If a size is above 32 bits.
    #[must_use]
    pub fn scaled(&self, factor: u32) -> Self {
        let scale = |size: u32| size.checked_mul(factor).expect("a size of 32 bits");
        Self { hidden: scale(self.hidden), ffn: scale(self.ffn), heads: scale(self.heads), ..self.clone() }
    }

    /// What each of `gpus` has.
    fn share(&self, gpus: u16) -> Result<Share, TransformerError> {
        let tokens = self.tokens();
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        for (what, found) in [("a hidden size", hidden), ("an FFN size", ffn), ("tokens", tokens)] {
            if gpus == 0 || !found.is_multiple_of(u64::from(gpus)) {
                return Err(TransformerError::Split { model: self.name.clone(), what, found, gpus });
            }
        }
        let gpus = u64::from(gpus);
        Ok(Share {
            tokens,
            sequence: self.sequence.into(),
            hidden,
            own_hidden: hidden / gpus,
            own_first: ffn / gpus * (u64::from(self.ffn_matrices) - 1),
            own_second: ffn / gpus,
        })
    }

    /// What a sub-layer computes on each of `gpus`. Backward it is gradients of inputs; those of weights are [outside](Self::outside).
    ///
    /// # Errors
    /// If GPUs do not share the model evenly.
    pub fn sub_layer(&self, which: SubLayer, gpus: u16) -> Result<SubLayerShape, TransformerError> {
        let Share { tokens: m, hidden, own_hidden, own_first, own_second, .. } = self.share(gpus)?;
        let (before, after) = match which {
            SubLayer::L1 => (own_hidden, own_first),
            SubLayer::L2 => (own_second, 3 * own_hidden),
            SubLayer::L3 => (own_first, own_hidden),
            SubLayer::L4 => (3 * own_hidden, own_second),
        };
        Ok(SubLayerShape {
            before: Gemm { m, n: hidden, k: before },
            norm: (m, hidden),
            after: Gemm { m, n: after, k: hidden },
        })
    }

    /// What each of `gpus` does in a pass that no sub-layer holds, in its order, by name: attention, the activation of the FFN, and backward
    /// the gradients of the weights.
    ///
    /// # Errors
    /// If GPUs do not share the model evenly.
    pub fn outside(
        &self,
        direction: Direction,
        gpus: u16,
    ) -> Result<Vec<(&'static str, Work)>, TransformerError> {
        let Share { tokens, sequence, hidden, own_hidden, own_first, own_second } = self.share(gpus)?;
        // Scores of queries against keys, and sums of values by scores; over all heads and sequences.
        let scores = Gemm { m: tokens, n: sequence, k: own_hidden };
        let sums = Gemm { m: tokens, n: own_hidden, k: sequence };
        let (token, activated) = (tokens * own_hidden, tokens * (own_first + own_second));
        // The product of a layer's inputs, transposed, and the gradients of its outputs.
        let weights = |inputs, outputs| Work::Gemm(Gemm { m: inputs, n: outputs, k: tokens });
        Ok(match direction {
            Direction::Forward => vec![
                // Queries, keys and values in, their sums out.
                ("attention", Work::Fused { gemms: vec![scores, sums], values: 4 * token }),
                ("activation", Work::Elements { values: activated }),
            ],
            Direction::Backward => vec![
                ("second FFN weights", weights(own_second, hidden)),
                // Inputs and the outputs' gradient in, the inputs' gradient out.
                ("activation", Work::Elements { values: activated + tokens * own_first }),
                ("first FFN weights", weights(hidden, own_first)),
                ("output projection weights", weights(own_hidden, hidden)),
                (
                    "attention",
                    // Scores again; gradients of scores, of values, of queries, of keys. What the forward pass moves, the output's gradient
                    // in, three gradients out.
                    Work::Fused { gemms: vec![scores, scores, sums, sums, sums], values: 8 * token },
                ),
                ("input projection weights", weights(hidden, 3 * own_hidden)),
                // Of gain and bias of both: inputs and gradients of a GPU's share of the rows.
                ("LayerNorm weights", Work::Elements { values: 4 * token }),
            ],
        })
    }
}

impl Display for SubLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::L4 => "L4",
        })
    }
}

impl FromStr for SubLayer {
    type Err = TransformerError;

    fn from_str(text: &str) -> Result<Self, TransformerError> {
        let known = Self::ALL.into_iter().find(|known| known.to_string().eq_ignore_ascii_case(text));
        let expected = "a sub-layer (L1, L2, L3, L4)";
        known.ok_or_else(|| TransformerError::Name { expected, found: text.into() })
    }
}

impl Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        })
    }
}

impl FromStr for Direction {
    type Err = TransformerError;

    fn from_str(text: &str) -> Result<Self, TransformerError> {
        let known = [Self::Forward, Self::Backward].into_iter().find(|known| known.to_string() == text);
        let expected = "a pass (forward, backward)";
        known.ok_or_else(|| TransformerError::Name { expected, found: text.into() })
    }
}
