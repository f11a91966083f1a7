//! What happens to the frames of one direction of a link: with probabilities, and to listed frames.

use alloc::collections::BTreeMap;
use quincunx_units::{Duration, Probability};

use crate::Fate;

/// How long a frame is held back at most: from one picosecond, or one frame, up to this.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hold {
    /// In time.
    Time(Duration),
    /// In later frames that pass it.
    Frames(u64),
}

impl Default for Hold {
    /// Eight frames.
    fn default() -> Self {
        Self::Frames(8)
    }
}

/// How often frames of a direction meet a fault. Never by default.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FaultRates {
    /// A frame is lost.
    pub loss: Probability,
    /// A frame arrives twice.
    pub duplication: Probability,
    /// A frame is held back, so that later ones overtake it.
    pub reordering: Probability,
    /// For how long at most.
    pub longest_hold: Hold,
}

impl FaultRates {
    /// Whether any fault can happen.
    pub fn is_active(&self) -> bool {
        [self.loss, self.duplication, self.reordering].iter().any(|probability| probability.value() > 0.0)
    }
}

/// What happens to the frames of one direction of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultPlan {
    /// What happens to frames that are not listed.
    pub rates: FaultRates,
    /// What becomes of listed frames, counted from 0 in the order in which they are sent.
    pub fates: BTreeMap<u64, Fate>,
}

impl FaultPlan {
    /// Every frame is lost with this probability.
    pub fn losing(loss: Probability) -> Self {
        FaultRates { loss, ..FaultRates::default() }.into()
    }

    /// These frames have these fates, counted from 0 in the order in which they are sent.
    pub fn listed(fates: impl IntoIterator<Item = (u64, Fate)>) -> Self {
        Self { rates: FaultRates::default(), fates: fates.into_iter().collect() }
    }

    /// Whether any fault can happen.
    pub fn is_active(&self) -> bool {
        self.rates.is_active() || !self.fates.is_empty()
    }
}

impl From<FaultRates> for FaultPlan {
    fn from(rates: FaultRates) -> Self {
        Self { rates, fates: BTreeMap::new() }
    }
}
