//! Measured times of a GPU's products of matrices, and what the roofline says of the same products. A profile is a JSON file that one whole
//! GPU has written (`data/profiles/`).

use crate::{Gemm, Transformer};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A product of matrices, measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredGemm {
    /// The model that it is of, and over how many GPUs that is split.
    pub model: String,
    /// GPUs.
    pub split: u16,
    /// Which of the layer's products: `qkv`, `out`, `up` or `down`.
    pub kernel: String,
    /// Its shape.
    pub gemm: Gemm,
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
    /// Products of the models that there are, in the order of the file.
    pub gemms: Vec<MeasuredGemm>,
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
    gemm: String,
    kernels: BTreeMap<String, f64>,
}

impl Profile {
    /// Reads a profile. Of its rows those are taken that measure, in 16 bits, products of the models that there are.
    ///
    /// # Errors
    /// If it is no profile, in microseconds, of such products.
    pub fn parse(place: &str, text: &str) -> Result<Self, ProfileError> {
        let wrong = |error: String| ProfileError::Wrong { place: place.into(), error };
        let file: File = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if file.unit != "us" {
            return Err(wrong(format!("expected times in \"us\", found \"{}\" in `unit`", file.unit)));
        }
        let mut gemms = Vec::new();
        for row in file.rows.iter().filter(|row| row.gemm == "fp16") {
            // A profile measures other models, too.
            let Ok(model) = Transformer::find(&row.model) else { continue };
            let (m, hidden, ffn) = (model.tokens(), u64::from(model.hidden), u64::from(model.ffn));
            let split = u64::from(row.tp.max(1));
            for (kernel, &micros) in &row.kernels {
                let (k, n) = match kernel.as_str() {
                    "qkv" => (hidden, 3 * hidden / split),
                    "out" => (hidden / split, hidden),
                    "up" => (hidden, ffn / split),
                    "down" => (ffn / split, hidden),
                    _ => return Err(wrong(format!("expected qkv, out, up or down, found \"{kernel}\""))),
                };
                if !(micros.is_finite() && micros > 0.0) {
                    return Err(wrong(format!("expected a time above zero, found {micros} for {kernel}")));
                }
                gemms.push(MeasuredGemm {
                    model: row.model.clone(),
                    split: row.tp,
                    kernel: kernel.clone(),
                    gemm: Gemm { m, n, k },
                    time: Duration::from_picos((micros * 1e6).round() as u64),
                });
            }
        }
        if gemms.is_empty() {
            let known = Transformer::names().join(", ");
            return Err(wrong(format!("expected rows in fp16 of {known}, found none")));
        }
        Ok(Self { device: file.device, sms: file.sms, gemms })
    }

    /// What the GPU has reached over all of these products: their operations over their times.
    pub fn reached(&self) -> Option<FlopRate> {
        let operations: u64 = self.gemms.iter().map(|measured| measured.gemm.operations()).sum();
        let time: Duration = self.gemms.iter().map(|measured| measured.time).sum();
        FlopRate::new((operations as f64 / time.as_secs_f64()) as u64)
    }
}

impl MeasuredGemm {
    /// What a roofline says of the product in 16 bits: the longer of its arithmetic and of its traffic to memory (Williams et al., 2009).
    pub fn roofline(&self, tensor: FlopRate, memory: BitRate) -> Duration {
        let traffic = memory.time_for(ByteCount::new(2 * self.gemm.values()));
        tensor.time_for(self.gemm.operations()).max(traffic)
    }

    /// By which share of the measured time the roofline is off; below zero if it is too fast.
    pub fn error(&self, tensor: FlopRate, memory: BitRate) -> f64 {
        self.roofline(tensor, memory).as_secs_f64() / self.time.as_secs_f64() - 1.0
    }
}
