//! Accelerators by their data sheets, and how near to these their kernels come.

use crate::{Kernel, KernelKind, Products};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use serde::Deserialize;

/// An accelerator, where nobody has measured it.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Operations a second in products of 16 bits, dense.
    pub fp16: FlopRate,
    /// The same of 8 bits; none: there are no such products.
    pub fp8: Option<FlopRate>,
    /// Traffic to its memory.
    pub memory: BitRate,
    /// Its memory; none: whether a model fits is not asked.
    pub capacity: Option<ByteCount>,
    /// What of these rates kernels reach.
    #[serde(default)]
    pub efficiency: Efficiency,
    /// What each kernel takes besides: ramps at its beginning and its end.
    #[serde(default)]
    pub launch: Duration,
}

/// Shares of the data sheet's rates.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Efficiency {
    /// Of operations, in products.
    pub products: f64,
    /// Of operations, in attention.
    pub attention: f64,
    /// Of memory's traffic.
    pub memory: f64,
}

impl Default for Efficiency {
    fn default() -> Self {
        Self { products: 1.0, attention: 1.0, memory: 1.0 }
    }
}

/// Why there is no such accelerator.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AcceleratorError {
    /// None of that name.
    #[error(
        "expected an accelerator ({known}), found \"{found}\"; name one, or say its rates in [accelerator]"
    )]
    Unknown {
        /// All that there are.
        known: &'static str,
        /// What was given.
        found: String,
    },
    /// It has no products of 8 bits.
    #[error(
        "expected products of 16 bits, for the accelerator has none of 8, found fp8; set `products` to fp16"
    )]
    NoFp8,
}

/// What a data sheet says: name, TFLOP/s of 16 and of 8 bits, GB/s and GB of memory.
const SHEETS: [(&str, u64, u64, u64, u64); 4] = [
    ("v100", 125, 0, 900, 32),
    ("a100", 312, 0, 2039, 80),
    ("h100", 989, 1979, 3350, 80),
    ("h200", 989, 1979, 4800, 141),
];

/// Names of all accelerators.
const KNOWN: &str = "v100, a100, h100, h200";

/// What kernels of prefill and decode reach on an H200 and an H100 alike, fitted to all measured layers (`data/profiles`): 5 % off in the
/// middle at most, the worst 23 % (a test holds it to that).
const MEASURED: Efficiency = Efficiency { products: 0.65, attention: 0.4, memory: 0.85 };

/// What a launch in a graph takes besides its work, there.
const LAUNCH: Duration = Duration::from_micros(4);

impl Accelerator {
    /// The accelerator of that name, with what kernels were measured to reach of an H200's rates.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, AcceleratorError> {
        let sheet = SHEETS.iter().find(|sheet| sheet.0 == name);
        let Some(&(_, fp16, fp8, memory, capacity)) = sheet else {
            return Err(AcceleratorError::Unknown { known: KNOWN, found: name.into() });
        };
        let rate = |tera: u64| FlopRate::new(tera * 1_000_000_000_000);
        Ok(Self {
            fp16: rate(fp16).expect("above zero"),
            fp8: rate(fp8),
            memory: BitRate::new(memory * 8_000_000_000).expect("above zero"),
            capacity: Some(ByteCount::new(capacity * 1_000_000_000)),
            efficiency: MEASURED,
            launch: LAUNCH,
        })
    }

    /// Operations a second in such products.
    ///
    /// # Errors
    /// If there are none.
    pub fn rate(&self, products: Products) -> Result<FlopRate, AcceleratorError> {
        match products {
            Products::Fp16 => Ok(self.fp16),
            Products::Fp8 => self.fp8.ok_or(AcceleratorError::NoFp8),
        }
    }

    /// How long a kernel takes, with all its launches: the longer of its arithmetic and its traffic (Williams et al., Roofline, 2009), and what a
    /// launch takes besides. Seconds.
    ///
    /// # Errors
    /// If there are no such products.
    pub fn seconds(&self, kernel: &Kernel, products: Products) -> Result<f64, AcceleratorError> {
        let efficiency = &self.efficiency;
        let rate =
            |rate: FlopRate, share: f64| kernel.operations / (rate.operations_per_second() as f64 * share);
        let arithmetic = match kernel.kind {
            KernelKind::Product => rate(self.rate(products)?, efficiency.products),
            // Scores are of 16 bits, whatever the weights are.
            KernelKind::Attention => rate(self.fp16, efficiency.attention),
            KernelKind::Elements => 0.0,
        };
        let traffic = kernel.bytes * 8.0 / (self.memory.bits_per_second() as f64 * efficiency.memory);
        Ok(kernel.launches as f64 * (arithmetic.max(traffic) + self.launch.as_secs_f64()))
    }

    /// Refuses rates that no machine has.
    ///
    /// # Errors
    /// What was expected and found, and what to do.
    pub fn check(&self) -> Result<(), String> {
        let Efficiency { products, attention, memory } = self.efficiency;
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        if [products, attention, memory].into_iter().all(is_share) {
            return Ok(());
        }
        Err(format!(
            "expected efficiencies above 0 and up to 1, found {products}, {attention} and {memory}; correct them"
        ))
    }
}
