//! Rates of arithmetic.

use crate::text::{self, ParseUnitError, Scale};
use crate::{Duration, PICOS_PER_SECOND};
use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

/// What rates of arithmetic are read and printed in.
const FLOP_RATES: [Scale; 5] = [
    ("FLOP/s", 1),
    ("kFLOP/s", 1_000),
    ("MFLOP/s", 1_000_000),
    ("GFLOP/s", 1_000_000_000),
    ("TFLOP/s", 1_000_000_000_000),
];

/// Floating-point operations a second, in whole ones. A multiplication and an addition are two. Zero is not a rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlopRate(NonZeroU64);

impl FlopRate {
    /// A rate of `operations` a second; `None` for zero.
    pub const fn new(operations: u64) -> Option<Self> {
        match NonZeroU64::new(operations) {
            Some(operations) => Some(Self(operations)),
            None => None,
        }
    }

    /// Operations a second.
    pub const fn operations_per_second(self) -> u64 {
        self.0.get()
    }

    /// How long so many operations take, rounded up to the picosecond, saturating.
    pub fn time_for(self, operations: u64) -> Duration {
        let picos =
            (u128::from(operations) * u128::from(PICOS_PER_SECOND)).div_ceil(u128::from(self.0.get()));
        Duration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

impl FromStr for FlopRate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const EXPECTED: &str = "a rate of arithmetic above zero such as 500GFLOP/s or 10.07TFLOP/s";
        let operations = text::parse(text, &FLOP_RATES, EXPECTED)?;
        Self::new(operations).ok_or_else(|| ParseUnitError { expected: EXPECTED, found: text.into() })
    }
}

/// In the largest unit reached: `10.07TFLOP/s`.
impl fmt::Display for FlopRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::print_decimal(f, self.0.get(), &FLOP_RATES, FLOP_RATES[0])
    }
}
