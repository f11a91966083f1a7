//! What a link's direction does to frames: decided by seed, direction and the frame's number there alone, so that the
//! n-th frame of a direction meets the same fate whatever happens elsewhere; or prescribed frame by frame.

use crate::Fate;
use quincunx_collective::SplitMix64;
use quincunx_units::{Duration, Probability};
use std::collections::BTreeMap;

/// Faults of one direction of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// A frame is lost.
    pub loss: Probability,
    /// What becomes of these frames, whatever the probabilities: counted from 0 in the order in which they are sent.
    pub fates: BTreeMap<u64, Fate>,
    /// A frame arrives twice.
    pub duplication: Probability,
    /// A frame is held back, so that later ones overtake it.
    pub reordering: Probability,
    /// For how long at most.
    pub longest_hold: Duration,
}

/// The faults of a direction as they happen.
#[derive(Clone, Debug)]
pub(crate) struct Injector {
    faults: Faults,
    seed: u64,
}

impl Injector {
    /// `seed` is the direction's own.
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, seed }
    }

    /// The fate of the direction's frame number `index`.
    pub(crate) fn fate(&self, index: u64) -> Fate {
        let faults = &self.faults;
        if let Some(&fate) = faults.fates.get(&index) {
            return fate;
        }
        let mut draws = SplitMix64::new(self.seed ^ SplitMix64::new(index).draw());
        if faults.loss.hits(draws.draw()) {
            Fate::Lost
        } else if faults.duplication.hits(draws.draw()) {
            Fate::Duplicated
        } else if faults.reordering.hits(draws.draw()) {
            let longest = faults.longest_hold.as_picos().max(1);
            Fate::HeldBack(Duration::from_picos(1 + draws.draw() % longest))
        } else {
            Fate::Delivered
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probability(value: f64) -> Probability {
        Probability::new(value).expect("a probability")
    }

    #[test]
    fn a_frame_meets_the_same_fate_for_the_same_seed() {
        let faults = Faults { loss: probability(0.3), ..Faults::default() };
        let fates = |seed| (0..200).map(|n| Injector::new(faults.clone(), seed).fate(n)).collect::<Vec<_>>();
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let faults = Faults {
            loss: probability(0.05),
            duplication: probability(0.02),
            reordering: probability(0.05),
            longest_hold: Duration::from_nanos(1),
            ..Faults::default()
        };
        let injector = Injector::new(faults, 1);
        let count = |wanted: fn(&Fate) -> bool| (0..100_000).map(|n| injector.fate(n)).filter(wanted).count();
        assert!((4700..5300).contains(&count(|fate| *fate == Fate::Lost)));
        assert!((1750..2050).contains(&count(|fate| *fate == Fate::Duplicated)));
        assert!((4350..4950).contains(&count(|fate| matches!(fate, Fate::HeldBack(_)))));
    }

    #[test]
    fn listed_frames_meet_the_fate_that_is_listed() {
        let fates = BTreeMap::from([(0, Fate::Lost), (3, Fate::Duplicated)]);
        let injector = Injector::new(Faults { fates, ..Faults::default() }, 9);
        let fates: Vec<Fate> = (0..5).map(|n| injector.fate(n)).collect();
        assert_eq!(fates, [Fate::Lost, Fate::Delivered, Fate::Delivered, Fate::Duplicated, Fate::Delivered]);
    }
}
