//! Probabilities, as people write them and as random draws are held against them.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// A probability, read as `0.05` or `5%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Probability(f64);

/// Why a text or a number is no probability.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("expected a probability from 0 to 1 such as 0.05 or 5%, found \"{found}\"")]
pub struct ProbabilityError {
    /// What was given.
    pub found: String,
}

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0.0);

    /// The probability `value`.
    ///
    /// # Errors
    /// If it is not from 0 to 1.
    pub fn new(value: f64) -> Result<Self, ProbabilityError> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(ProbabilityError { found: value.to_string() })
        }
    }

    /// From 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }

    /// Whether a uniform `draw` of 64 bits hits.
    pub fn hits(self, draw: u64) -> bool {
        // 53 bits are what an f64 holds exactly, so 0 never hits and 1 always does.
        ((draw >> 11) as f64) < self.0 * (1_u64 << 53) as f64
    }
}

/// As a fraction, which reads back as the same probability.
impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Probability {
    type Err = ProbabilityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ProbabilityError { found: text.to_string() };
        let value = match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| error())? / 100.0,
            None => text.trim().parse::<f64>().map_err(|_| error())?,
        };
        Self::new(value).map_err(|_| error())
    }
}
