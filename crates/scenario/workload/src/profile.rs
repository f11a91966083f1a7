//! Measured times of a GPU's kernels, and what the roofline says of the same kernels. A profile is a JSON file that one whole GPU has written
//! (`data/profiles/`).
//!
//! Of its rows those of the models of [`Transformer`] are taken: phase `cais` has the four products of a layer, `cais-layer` its other kernels,
//! too, forward and backward. Phases `prefill` and `decode` measure other models.

use crate::{Gemm, Transformer, Work};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Bytes of a value: 16 bits.
const VALUE: u64 = 2;

/// What a kernel is of. Kernels of a kind reach the same share of what the data sheet says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelKind {
    /// Products of matrices, forward and backward.
    Product,
    /// Attention, causal, in one kernel.
    Attention,
    /// LayerNorm.
    Norm,
    /// Its gradient.
    NormBackward,
    /// Something done to each value: activations and sums, forward and backward.
    Elements,
}

/// A kernel, measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredKernel {
    /// The model that it is of, and over how many GPUs that is split.
    pub model: String,
    /// GPUs.
    pub split: u16,
    /// Its name in the file: `qkv`, `norm_backward_all`.
    pub kernel: String,
    /// What it is of.
    pub kind: KernelKind,
    /// What it does.
    pub work: Work,
    /// What it took.
    pub time: Duration,
}

/// What a GPU has been measured to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The GPU, as its driver calls it.
    pub device: String,
    /// Its SMs.
    pub sms: u16,
    /// Kernels of the models that there are, in the order of the file.
    pub kernels: Vec<MeasuredKernel>,
}

/// The time of kernels of a kind as a line: a constant, and what they do at a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fit {
    /// The rate as a share of the data sheet's, in operations for products and attention, in bytes of memory for the others; one at most, for what
    /// a cache has kept can be faster than memory.
    pub efficiency: f64,
    /// What each of them takes besides: the launch, ramps, SMs without a block at the end.
    pub constant: Duration,
}

/// Why a text is no profile.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// It is no JSON, or lacks something.
    #[error("{place}: {error}")]
    Wrong {
        /// The file.
        place: String,
        /// What was expected and found.
        error: String,
    },
}

#[derive(Deserialize)]
struct File {
    device: String,
    unit: String,
    sms: u16,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    model: String,
    tp: u16,
    phase: Phase,
    gemm: String,
    kernels: BTreeMap<String, f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    /// The products of a layer.
    #[serde(rename = "cais")]
    Products,
    /// All kernels of one.
    #[serde(rename = "cais-layer")]
    Layer,
    Prefill,
    Decode,
}

impl Phase {
    const fn name(self) -> &'static str {
        match self {
            Self::Products => "qkv, out, up or down",
            Self::Layer => {
                "qkv, out, up or down with _input_gradient or _weight_gradient, norm, norm_backward or add with _all or _share, gelu, \
                 gelu_backward or attention"
            }
            Self::Prefill | Self::Decode => "kernels of another model",
        }
    }
}

impl Profile {
    /// Reads a profile. Of its rows those are taken that measure, in 16 bits, kernels of the models that there are.
    ///
    /// # Errors
    /// If it is no profile, in microseconds, of such kernels.
    pub fn parse(place: &str, text: &str) -> Result<Self, ProfileError> {
        let wrong = |error: String| ProfileError::Wrong { place: place.into(), error };
        let file: File = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if file.unit != "us" {
            return Err(wrong(format!("expected times in \"us\", found \"{}\" in `unit`", file.unit)));
        }
        let mut kernels = Vec::new();
        for row in file.rows.iter().filter(|row| row.gemm == "fp16") {
            // A profile measures other models, too.
            let Ok(model) = Transformer::find(&row.model) else { continue };
            if matches!(row.phase, Phase::Prefill | Phase::Decode) {
                continue;
            }
            for (kernel, &micros) in &row.kernels {
                let (kind, work) = work(&model, u64::from(row.tp.max(1)), row.phase, kernel)
                    .ok_or_else(|| wrong(format!("expected {}, found \"{kernel}\"", row.phase.name())))?;
                if !(micros.is_finite() && micros > 0.0) {
                    return Err(wrong(format!("expected a time above zero, found {micros} for {kernel}")));
                }
                kernels.push(MeasuredKernel {
                    model: row.model.clone(),
                    split: row.tp,
                    kernel: kernel.clone(),
                    kind,
                    work,
                    time: Duration::from_picos((micros * 1e6).round() as u64),
                });
            }
        }
        if !kernels.iter().any(|kernel| kernel.kind == KernelKind::Product) {
            let known = Transformer::names().join(", ");
            return Err(wrong(format!("expected products in fp16 of {known}, found none")));
        }
        Ok(Self { device: file.device, sms: file.sms, kernels })
    }

    /// Kernels of a kind.
    pub fn of(&self, kind: KernelKind) -> impl Iterator<Item = &MeasuredKernel> {
        self.kernels.iter().filter(move |kernel| kernel.kind == kind)
    }

    /// The line through what kernels of a kind do and what they took, by the median of the slopes between each two of them, and of what that leaves
    /// (Theil, 1950; Sen, 1968): a kernel that something has held up once moves it little. Without a constant where that would be below zero,
    /// or where all of them do the same. None if there is no such kernel.
    pub fn fit(&self, kind: KernelKind, tensor: FlopRate, memory: BitRate) -> Option<Fit> {
        let seconds = Duration::as_secs_f64;
        let points: Vec<(f64, f64)> =
            self.of(kind).map(|each| (seconds(each.ideal(tensor, memory)), seconds(each.time))).collect();
        let between = |&(x, y): &(f64, f64)| {
            points.iter().filter(move |other| other.0 > x).map(move |other| (other.1 - y) / (other.0 - x))
        };
        let line = median(points.iter().flat_map(between).collect()).and_then(|slope| {
            let constant = median(points.iter().map(|(x, y)| y - slope * x).collect())?;
            (slope > 0.0 && constant > 0.0).then_some((slope, constant))
        });
        let through_zero = || median(points.iter().map(|(x, y)| y / x).collect()).map(|slope| (slope, 0.0));
        let (slope, constant) = line.or_else(through_zero)?;
        let constant = Duration::from_picos((constant * 1e12) as u64);
        Some(Fit { efficiency: (1.0 / slope).min(1.0), constant })
    }
}

/// The middle of some numbers, the upper one of two; none of none.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// What a kernel does on one of `split` GPUs; none if a row of that phase has no such kernel.
fn work(model: &Transformer, split: u64, phase: Phase, kernel: &str) -> Option<(KernelKind, Work)> {
    let (m, hidden, ffn) = (model.tokens(), u64::from(model.hidden), u64::from(model.ffn));
    let product = |name: &str| {
        Some(match name {
            "qkv" => Gemm { m, n: 3 * hidden / split, k: hidden },
            "out" => Gemm { m, n: hidden, k: hidden / split },
            "up" => Gemm { m, n: ffn / split, k: hidden },
            "down" => Gemm { m, n: hidden, k: ffn / split },
            _ => return None,
        })
    };
    if let Some(gemm) = product(kernel) {
        return Some((KernelKind::Product, Work::Gemm(gemm)));
    }
    if phase != Phase::Layer {
        return None;
    }
    if let Some(Gemm { m, n, k }) = kernel.strip_suffix("_input_gradient").and_then(product) {
        return Some((KernelKind::Product, Work::Gemm(Gemm { m, n: k, k: n })));
    }
    if let Some(Gemm { m, n, k }) = kernel.strip_suffix("_weight_gradient").and_then(product) {
        return Some((KernelKind::Product, Work::Gemm(Gemm { m: n, n: k, k: m })));
    }
    // Values of all rows, of a GPU's share of the rows, and of its share of the FFN.
    let (all, share, inner) = (m * hidden, m / split * hidden, m * ffn / split);
    let elements = |kind, accesses, values| (kind, Work::Elements { values: accesses * values });
    Some(match kernel {
        "norm_all" => elements(KernelKind::Norm, 2, all),
        "norm_share" => elements(KernelKind::Norm, 2, share),
        // Two kernels: the gradient of what it wrote and what it read in, the gradient of the latter out; the first two again for gain and bias.
        "norm_backward_all" => elements(KernelKind::NormBackward, 5, all),
        "norm_backward_share" => elements(KernelKind::NormBackward, 5, share),
        "add_all" => elements(KernelKind::Elements, 3, all),
        "add_share" => elements(KernelKind::Elements, 3, share),
        "gelu" => elements(KernelKind::Elements, 2, inner),
        "gelu_backward" => elements(KernelKind::Elements, 3, inner),
        "attention" => (KernelKind::Attention, attention(model, split)),
        _ => return None,
    })
}

/// Causal attention as it is measured: half of all scores; whole heads, one at least, of a width in multiples of eight.
fn attention(model: &Transformer, split: u64) -> Work {
    let (tokens, heads) = (model.tokens(), u64::from(model.heads));
    let width = (u64::from(model.hidden) / heads / 8 * 8) * (heads / split).max(1);
    let kept = u64::from(model.sequence) / 2;
    let gemms = vec![Gemm { m: tokens, n: kept, k: width }, Gemm { m: tokens, n: width, k: kept }];
    Work::Fused { gemms, values: 4 * tokens * width }
}

impl MeasuredKernel {
    /// What the rate that binds its kind makes of it: arithmetic for products and attention, traffic to memory for the others.
    fn ideal(&self, tensor: FlopRate, memory: BitRate) -> Duration {
        match self.kind {
            KernelKind::Product | KernelKind::Attention => tensor.time_for(self.work.operations()),
            KernelKind::Norm | KernelKind::NormBackward | KernelKind::Elements => {
                memory.time_for(ByteCount::new(VALUE * self.work.values()))
            }
        }
    }

    /// What a roofline says of the kernel in 16 bits: the longer of its arithmetic and of its traffic to memory (Williams et al., 2009).
    pub fn roofline(&self, tensor: FlopRate, memory: BitRate) -> Duration {
        let traffic = memory.time_for(ByteCount::new(VALUE * self.work.values()));
        tensor.time_for(self.work.operations()).max(traffic)
    }

    /// By which share of the measured time the roofline is off; below zero if it is too fast.
    pub fn error(&self, tensor: FlopRate, memory: BitRate) -> f64 {
        self.roofline(tensor, memory).as_secs_f64() / self.time.as_secs_f64() - 1.0
    }

    /// The same of its kind's fit, which has the constant and the rate that its kind has reached.
    pub fn error_of_fit(&self, fit: Fit, tensor: FlopRate, memory: BitRate) -> f64 {
        let fitted = self.ideal(tensor, memory).as_secs_f64() / fit.efficiency + fit.constant.as_secs_f64();
        fitted / self.time.as_secs_f64() - 1.0
    }
}

impl KernelKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Product, Self::Attention, Self::Norm, Self::NormBackward, Self::Elements];

    /// For those who look.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Product => "products",
            Self::Attention => "attention",
            Self::Norm => "LayerNorm",
            Self::NormBackward => "LayerNorm backward",
            Self::Elements => "element by element",
        }
    }
}
