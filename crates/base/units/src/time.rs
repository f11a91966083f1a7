//! Instants and durations in picoseconds: fine enough for one bit at 1 Tbit/s, wide enough for 213 days.

use crate::text::{self, ParseUnitError, Scale};
use core::fmt;
use core::iter::Sum;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Div, Mul, Sub};
use core::str::FromStr;

/// Picoseconds in a second.
pub(crate) const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

const SCALES: [Scale; 5] =
    [("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", PICOS_PER_SECOND)];

/// Leases and the like are written so, too; they are printed in seconds.
const READ: [Scale; 7] = {
    let [picos, nanos, micros, millis, seconds] = SCALES;
    [picos, nanos, micros, millis, seconds, ("m", 60 * PICOS_PER_SECOND), ("h", 3_600 * PICOS_PER_SECOND)]
};

/// A span of time in whole picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Duration(u64);

/// A mean time between rare events, in whole seconds: machines fail years apart, where [`Duration`] ends after 213 days. Zero is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeanTime(NonZeroU64);

/// A year has 365 days.
const MEAN_TIMES: [Scale; 5] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("y", 365 * 86_400)];

/// A point in time, in picoseconds since the driver's epoch. Only a driver makes one; an engine is handed it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A duration of whole picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// A duration of whole nanoseconds, saturating.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1_000))
    }

    /// A duration of whole microseconds, saturating.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000_000))
    }

    /// A duration of whole milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000_000))
    }

    /// A duration of whole seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(PICOS_PER_SECOND))
    }

    /// Whole picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// Microseconds as people read them.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds as people read them.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// The instant that lies `picos` picoseconds after the epoch.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// Picoseconds since the epoch.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to here; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    /// Saturating at the epoch.
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, rhs: u64) -> Self {
        Self(self.0 / rhs)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(durations: I) -> Self {
        durations.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Duration {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        text::parse(text, &READ, "a duration in whole picoseconds such as 250ns, 1us, 2.5ms, 3s or 10m")
            .map(Self)
    }
}

impl MeanTime {
    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0.get() as f64
    }
}

impl FromStr for MeanTime {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const EXPECTED: &str = "a mean time in whole seconds above zero such as 90s, 10m, 6000h, 30d or 5y";
        let seconds = text::parse(text, &MEAN_TIMES, EXPECTED)?;
        NonZeroU64::new(seconds)
            .map(Self)
            .ok_or_else(|| ParseUnitError { expected: EXPECTED, found: text.into() })
    }
}

/// The largest unit that divides it: `90s`, `6000h`.
impl fmt::Display for MeanTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::print_whole(f, self.0.get(), &MEAN_TIMES)
    }
}

/// The largest unit reached, exactly: `250ns`, `2.5ms`, `0s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::print_decimal(f, self.0, &SCALES, ("s", PICOS_PER_SECOND))
    }
}

/// For drivers that sleep or measure; saturating at 213 days.
impl From<core::time::Duration> for Duration {
    fn from(duration: core::time::Duration) -> Self {
        let picos = duration.as_nanos().saturating_mul(1_000);
        Self(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

/// For drivers that sleep; rounded up to the nanosecond, so that nothing fires early.
impl From<Duration> for core::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0.div_ceil(1_000))
    }
}
