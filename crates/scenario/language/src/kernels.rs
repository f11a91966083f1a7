//! What an accelerator computes in a layer: ten launches, norm and addition twice each (SCIN 4.1), with their operations and their traffic to memory.

use crate::phase::VALUE;
use crate::{Attention, Decoder, Phase, Products, Split};

/// What binds a kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelKind {
    /// Products of matrices.
    Product,
    /// Attention in one kernel, which keeps scores on the chip.
    Attention,
    /// Norms, activations, additions: traffic to memory alone.
    Elements,
}

/// A kernel of a layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kernel {
    /// As profiles call it: `gate_up`.
    pub name: &'static str,
    /// What binds it.
    pub kind: KernelKind,
    /// Times that it is launched in a layer.
    pub launches: u64,
    /// Operations of a launch; a multiplication and an addition are two.
    pub operations: f64,
    /// Bytes that a launch reads and writes.
    pub bytes: f64,
}

/// The kernels of a layer on one of the accelerators of `split`; with experts, of a layer that has them.
pub fn kernels(model: &Decoder, split: &Split, phase: Phase, products: Products) -> Vec<Kernel> {
    let (m, hidden, tp) = (phase.tokens(), model.hidden, u64::from(split.tp));
    let rows = if split.sequence_parallel { m.div_ceil(tp) } else { m };
    let product = |name, n: u64, k: u64| product(name, m, n, k, products);
    let elements = |name, launches, values: u64| Kernel {
        name,
        kind: KernelKind::Elements,
        launches,
        operations: 0.0,
        bytes: (values * VALUE) as f64,
    };
    let mut all = vec![elements("norm", 2, 2 * rows * hidden)];
    let (scores, kept) = (phase.scores(), phase.kept());
    let attention = |width: u64, read: u64, values: u64| Kernel {
        name: "attention",
        kind: KernelKind::Attention,
        launches: 1,
        operations: 2.0 * scores * width as f64,
        bytes: ((kept * read + m * values) * VALUE) as f64,
    };
    match model.attention {
        Attention::Grouped { heads, kept, width } => {
            let (heads, kept) = (heads / tp, (kept / tp).max(1));
            all.push(product("qkv", (heads + 2 * kept) * width, hidden));
            all.push(attention(2 * heads * width, 2 * kept * width, 2 * heads * width));
            all.push(product("out", hidden, heads * width));
        }
        Attention::Latent { heads, query, kept, key: [turning, still], value } => {
            let heads = heads / tp;
            let queries = heads * (turning + still);
            if let Some(rank) = query {
                all.push(product("query_down", rank, hidden));
            }
            all.push(product("query", queries, query.unwrap_or(hidden)));
            all.push(product("latent", kept + turning, hidden));
            match phase {
                // Keys and values are made once of all tokens.
                Phase::Prefill { .. } => {
                    all.push(product("keys_values", heads * (still + value), kept));
                    let width = heads * (turning + still + value);
                    all.push(attention(width, width, queries + heads * value));
                }
                // Queries are turned to the latent's side instead, and look at it alone.
                Phase::Decode { .. } => {
                    all.push(product("keys_values", heads * kept, still));
                    all.push(attention(heads * (2 * kept + turning), kept + turning, 2 * heads * kept));
                }
            }
            all.push(product("out", hidden, heads * value));
        }
    }
    match model.experts {
        None => {
            let own = model.ffn / tp;
            all.push(product("gate_up", (model.matrices - 1) * own, hidden));
            all.push(elements("activation", 1, model.matrices * m * own));
            all.push(product("down", hidden, own));
        }
        Some(experts) => {
            let (ep, width) = match split.experts_are_split() {
                true => (1, experts.ffn / tp),
                false => (u64::from(split.ep), experts.ffn),
            };
            // With experts apart, an accelerator has the tokens of all that share them, and an even part of what they take.
            let here = experts.all.div_ceil(ep);
            let taken = (m * experts.taken) as f64;
            let used = (here as f64).min(taken);
            let expert = |name, n: u64, k: u64| {
                let weights = used * (n * k * products.bytes()) as f64;
                Kernel {
                    name,
                    kind: KernelKind::Product,
                    launches: 1,
                    operations: 2.0 * taken * (n * k) as f64,
                    bytes: weights + taken * ((n + k) * VALUE) as f64,
                }
            };
            all.push(product("router", experts.all, hidden));
            all.push(expert("gate_up", (model.matrices - 1) * width, hidden));
            all.push(elements("activation", 1, model.matrices * m * experts.taken * width));
            all.push(expert("down", hidden, width));
            if experts.shared > 0 {
                let own = experts.shared * experts.ffn / tp;
                all.push(product("shared_gate_up", (model.matrices - 1) * own, hidden));
                all.push(product("shared_down", hidden, own));
            }
        }
    }
    all.push(elements("add", 2, 3 * rows * hidden));
    all
}

/// The output's product: of a prefill the last token of each sequence alone needs it.
pub(crate) fn head(model: &Decoder, split: &Split, tokens: u64, products: Products) -> Kernel {
    product("head", tokens, model.vocabulary.div_ceil(u64::from(split.tp)), model.hidden, products)
}

fn product(name: &'static str, m: u64, n: u64, k: u64, products: Products) -> Kernel {
    Kernel {
        name,
        kind: KernelKind::Product,
        launches: 1,
        operations: 2.0 * m as f64 * (n * k) as f64,
        bytes: (n * k * products.bytes() + (m * k + m * n) * VALUE) as f64,
    }
}
