//! Decoder-only Transformers, read from a `config.json` as model hubs have it. Only shapes are taken, and keys that say nothing of them are passed
//! over; a family that is not known is refused, for its layers may have more than their sizes say.

use include_dir::{Dir, include_dir};
use quincunx_scenario::read_text;
use serde::Deserialize;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/decoders");

/// The shape of a language model.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Decoder {
    /// `llama2-70b`, or the file that it came from.
    pub name: String,
    /// Values of a token.
    pub hidden: u64,
    /// Layers.
    pub layers: u64,
    /// How tokens look at each other.
    pub attention: Attention,
    /// Values of a token inside the FFN of a dense layer.
    pub ffn: u64,
    /// Matrices of an FFN: 2, or 3 with a gate.
    pub matrices: u64,
    /// Experts in place of the FFN of most layers.
    pub experts: Option<Experts>,
    /// Tokens that there are.
    pub vocabulary: u64,
    /// Whether the output has the embedding's weights.
    pub tied: bool,
    /// Positions with weights of their own.
    pub positions: u64,
    /// What else has weights.
    pub biases: Biases,
}

/// Queries, keys and values of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Attention {
    /// Queries share keys and values in groups (Ainslie et al., GQA, 2023); as many keys as queries: none share.
    Grouped {
        /// Heads of queries.
        heads: u64,
        /// Heads of keys, and of values.
        kept: u64,
        /// Values of a head.
        width: u64,
    },
    /// Keys and values are made of a vector that heads share (DeepSeek-V2, 2024, section 2.1).
    Latent {
        /// Heads.
        heads: u64,
        /// Values that queries are made of; none: of the token.
        query: Option<u64>,
        /// Values that keys and values are made of.
        kept: u64,
        /// Values of a head that turn with the position, and those that do not.
        key: [u64; 2],
        /// Values of a head's value.
        value: u64,
    },
}

/// A layer's experts, of which each token takes some.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Experts {
    /// How many.
    pub all: u64,
    /// Those that a token takes.
    pub taken: u64,
    /// Those that all tokens take besides.
    pub shared: u64,
    /// Values of a token inside one.
    pub ffn: u64,
    /// Layers at the beginning that have none.
    pub dense_layers: u64,
}

/// Biases and norms of a family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Biases {
    /// RMSNorm and no bias.
    None,
    /// Those of queries, keys and values.
    Attention,
    /// A norm for the heads of queries and keys.
    HeadNorms,
    /// Everywhere, and LayerNorm has one, too.
    All,
}

/// Why there is no such model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecoderError {
    /// None of that name.
    #[error("expected a language model ({known}) or a config.json, found \"{found}\"; name one of them")]
    Unknown {
        /// All that there are.
        known: String,
        /// What was given.
        found: String,
    },
    /// Its file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        error: String,
    },
    /// Its text is wrong.
    #[error("{place}: {error}")]
    Wrong {
        /// The file.
        place: String,
        /// What was expected and found, and what to do.
        error: String,
    },
}

/// The keys that say something of a shape, under all names that families have for them.
#[derive(Deserialize)]
struct Config {
    model_type: Option<String>,
    #[serde(alias = "n_embd")]
    hidden_size: Option<u64>,
    #[serde(alias = "n_layer")]
    num_hidden_layers: Option<u64>,
    #[serde(alias = "n_head")]
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    #[serde(alias = "n_inner")]
    intermediate_size: Option<u64>,
    vocab_size: Option<u64>,
    tie_word_embeddings: Option<bool>,
    #[serde(alias = "n_positions")]
    max_position_embeddings: Option<u64>,
    #[serde(alias = "num_local_experts")]
    n_routed_experts: Option<u64>,
    num_experts_per_tok: Option<u64>,
    n_shared_experts: Option<u64>,
    moe_intermediate_size: Option<u64>,
    first_k_dense_replace: Option<u64>,
    q_lora_rank: Option<u64>,
    kv_lora_rank: Option<u64>,
    qk_rope_head_dim: Option<u64>,
    qk_nope_head_dim: Option<u64>,
    v_head_dim: Option<u64>,
}

/// Families: how they are called, matrices of an FFN, biases.
const FAMILIES: [(&str, u64, Biases); 8] = [
    ("llama", 3, Biases::None),
    ("mistral", 3, Biases::None),
    ("mixtral", 3, Biases::None),
    ("qwen2", 3, Biases::Attention),
    ("qwen3", 3, Biases::HeadNorms),
    ("deepseek_v2", 3, Biases::None),
    ("deepseek_v3", 3, Biases::None),
    ("gpt2", 2, Biases::All),
];

/// More than any size of a model: products of four of them are still counted in 128 bits, and of two in 64.
const LARGEST: u64 = 1 << 24;

impl Decoder {
    /// The model of that name, or of the `config.json` at that path.
    ///
    /// # Errors
    /// If there is none, or it lacks a size.
    pub fn find(name: &str) -> Result<Self, DecoderError> {
        // A name without a folder or an ending of a file is no file's; a version has a dot, too.
        if name.contains('/') || std::path::Path::new(name).extension().is_some_and(|ending| ending == "json")
        {
            let text = read_text(name)
                .map_err(|error| DecoderError::Unreadable { path: name.into(), error: error.to_string() })?;
            return Self::parse(name, name, &text);
        }
        let file = FILES.get_file(format!("{name}.json")).and_then(include_dir::File::contents_utf8);
        let text = file
            .ok_or_else(|| DecoderError::Unknown { known: Self::names().join(", "), found: name.into() })?;
        Self::parse(name, &format!("decoders/{name}.json"), text)
    }

    /// The names of all that there are.
    pub fn names() -> Vec<String> {
        let stem =
            |file: &include_dir::File<'_>| file.path().with_extension("").to_string_lossy().into_owned();
        let mut names: Vec<_> = FILES.files().map(stem).collect();
        names.sort();
        names
    }

    /// Reads a `config.json`.
    ///
    /// # Errors
    /// If it is none, of a family that is not known, or lacks a size.
    pub fn parse(name: &str, place: &str, text: &str) -> Result<Self, DecoderError> {
        let wrong = |error: String| DecoderError::Wrong { place: place.into(), error };
        let config: Config = serde_json::from_str(text)
            .map_err(|error| wrong(format!("expected a config.json of a model, found {error}")))?;
        config.decoder(name).map_err(wrong)
    }

    /// Whether a layer does the same work as one of `other`.
    pub fn has_layers_of(&self, other: &Self) -> bool {
        (self.hidden, self.attention, self.ffn, self.matrices, self.experts)
            == (other.hidden, other.attention, other.ffn, other.matrices, other.experts)
    }
}

impl Attention {
    /// Heads of queries.
    pub const fn heads(self) -> u64 {
        match self {
            Self::Grouped { heads, .. } | Self::Latent { heads, .. } => heads,
        }
    }
}

impl Config {
    fn decoder(&self, name: &str) -> Result<Decoder, String> {
        let family = self.model_type.as_deref();
        let known = FAMILIES.iter().find(|(known, ..)| family == Some(*known));
        let Some(&(family, matrices, biases)) = known else {
            let known = FAMILIES.map(|(name, ..)| name).join(", ");
            let found = family.map_or("none".into(), |family| format!("\"{family}\""));
            return Err(format!(
                "expected a `model_type` that is known ({known}), found {found}; take the nearest, if its layers are the same"
            ));
        };
        let hidden = size("hidden_size", self.hidden_size)?;
        let heads = size("num_attention_heads", self.num_attention_heads)?;
        let attention = match self.kv_lora_rank {
            Some(_) => Attention::Latent {
                heads,
                query: self.q_lora_rank.map(|rank| size("q_lora_rank", Some(rank))).transpose()?,
                kept: size("kv_lora_rank", self.kv_lora_rank)?,
                key: [
                    size("qk_rope_head_dim", self.qk_rope_head_dim)?,
                    size("qk_nope_head_dim", self.qk_nope_head_dim)?,
                ],
                value: size("v_head_dim", self.v_head_dim)?,
            },
            None => {
                if self.head_dim.is_none() && !hidden.is_multiple_of(heads) {
                    return Err(format!(
                        "expected a `hidden_size` in multiples of `num_attention_heads`, found {hidden} and {heads}; say `head_dim`"
                    ));
                }
                let kept = size("num_key_value_heads", self.num_key_value_heads.or(Some(heads)))?;
                if !heads.is_multiple_of(kept) {
                    return Err(format!(
                        "expected `num_attention_heads` in multiples of `num_key_value_heads`, found {heads} and {kept}; correct them"
                    ));
                }
                let width = size("head_dim", self.head_dim.or(Some(hidden / heads)))?;
                Attention::Grouped { heads, kept, width }
            }
        };
        let layers = size("num_hidden_layers", self.num_hidden_layers)?;
        // GPT-2 says nothing where it is four times as wide.
        let wide = self.intermediate_size.or_else(|| (biases == Biases::All).then_some(4 * hidden));
        let ffn = size("intermediate_size", wide)?;
        let experts = match self.n_routed_experts {
            None => None,
            Some(all) => Some(self.experts(all, ffn, layers)?),
        };
        let positions = match biases {
            Biases::All => size("max_position_embeddings", self.max_position_embeddings)?,
            _ => 0,
        };
        Ok(Decoder {
            name: name.into(),
            hidden,
            layers,
            attention,
            ffn,
            matrices,
            experts,
            vocabulary: size("vocab_size", self.vocab_size)?,
            tied: self.tie_word_embeddings.unwrap_or(family == "gpt2"),
            positions,
            biases,
        })
    }

    fn experts(&self, all: u64, ffn: u64, layers: u64) -> Result<Experts, String> {
        let experts = Experts {
            all: size("n_routed_experts", Some(all))?,
            taken: size("num_experts_per_tok", self.num_experts_per_tok)?,
            shared: self.n_shared_experts.unwrap_or(0).min(LARGEST),
            ffn: size("moe_intermediate_size", self.moe_intermediate_size.or(Some(ffn)))?,
            dense_layers: self.first_k_dense_replace.unwrap_or(0),
        };
        if experts.taken > experts.all || experts.dense_layers >= layers {
            return Err(format!(
                "expected at most {all} experts a token and a layer with experts, found {} and {} layers of {layers} without; correct them",
                experts.taken, experts.dense_layers
            ));
        }
        Ok(experts)
    }
}

/// A size that has to be there.
fn size(key: &str, value: Option<u64>) -> Result<u64, String> {
    match value {
        Some(1..=LARGEST) => Ok(value.unwrap_or_default()),
        Some(value) => {
            Err(format!("expected 1 to {LARGEST} in `{key}`, found {value}; give the model's own"))
        }
        None => Err(format!("expected `{key}`, found none; add it")),
    }
}
