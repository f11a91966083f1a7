//! What a step runs through a model, and in which numbers.

use serde::Deserialize;

/// Bytes of a value that is not a weight: 16 bits.
pub(crate) const VALUE: u64 = 2;

/// What products are made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Products {
    /// 16 bits.
    #[default]
    Fp16,
    /// 8 bits; activations between products still have 16.
    Fp8,
}

/// What tokens are run through the model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// All tokens of `batch` sequences of `length` tokens at once.
    Prefill {
        /// Sequences.
        batch: u64,
        /// Tokens of each.
        length: u64,
    },
    /// One token of each of `batch` sequences that have `length` tokens already.
    Decode {
        /// Sequences.
        batch: u64,
        /// Tokens that each looks at.
        length: u64,
    },
}

impl Products {
    /// Bytes of a weight.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp16 => 2,
            Self::Fp8 => 1,
        }
    }

    /// As files have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
        }
    }
}

impl Phase {
    /// Tokens that are run through the model.
    pub const fn tokens(self) -> u64 {
        match self {
            Self::Prefill { batch, length } => batch * length,
            Self::Decode { batch, .. } => batch,
        }
    }

    /// Tokens that each of a sequence's looks at, together over all sequences.
    pub const fn scores(self) -> f64 {
        match self {
            // A token sees itself and those before it.
            Self::Prefill { batch, length } => batch as f64 * length as f64 * (length + 1) as f64 / 2.0,
            Self::Decode { batch, length } => batch as f64 * length as f64,
        }
    }

    /// Tokens whose keys and values are read.
    pub(crate) const fn kept(self) -> u64 {
        match self {
            Self::Prefill { batch, length } | Self::Decode { batch, length } => batch * length,
        }
    }
}
