//! The fates of a direction's frames, decided by the plan, a seed and the frame's number alone: the n-th frame of a direction has
//! the same fate whatever happens elsewhere.

use quincunx_collective::SplitMix64;
use quincunx_units::Duration;

use crate::{Delay, Fate, FaultPlan, Hold};

/// The faults of one direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct Injector {
    plan: FaultPlan,
    seed: u64,
}

impl Injector {
    /// An injector whose `seed` is the direction's own.
    pub fn new(plan: FaultPlan, seed: u64) -> Self {
        Self { plan, seed }
    }

    /// The injector of direction `number` of a run whose one seed is `seed`.
    pub fn of_direction(plan: FaultPlan, seed: u64, number: u64) -> Self {
        let mut seeds = SplitMix64::new(seed ^ SplitMix64::new(number).draw());
        Self::new(plan, seeds.draw())
    }

    /// The fate of frame `index` of the direction.
    pub fn fate(&self, index: u64) -> Fate {
        if let Some(&fate) = self.plan.fates.get(&index) {
            return fate;
        }
        let rates = &self.plan.rates;
        let mut draws = SplitMix64::new(self.seed ^ SplitMix64::new(index).draw());
        if rates.loss.hits(draws.draw()) {
            Fate::Lost
        } else if rates.duplication.hits(draws.draw()) {
            Fate::DUPLICATED
        } else if rates.reordering.hits(draws.draw()) {
            let draw = draws.draw();
            Fate::Late(match rates.longest_hold {
                Hold::Time(longest) => {
                    Delay::HeldBack(Duration::from_picos(1 + draw % longest.as_picos().max(1)))
                }
                Hold::Frames(most) => Delay::OvertakenBy(1 + draw % most.max(1)),
            })
        } else {
            Fate::Delivered
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultRates;
    use alloc::vec::Vec;
    use quincunx_units::Probability;

    fn rates(loss: f64, duplication: f64, reordering: f64) -> FaultRates {
        let probability = |value| Probability::new(value).expect("a probability");
        FaultRates {
            loss: probability(loss),
            duplication: probability(duplication),
            reordering: probability(reordering),
            ..FaultRates::default()
        }
    }

    fn fates(plan: impl Into<FaultPlan>, seed: u64, frames: u64) -> Vec<Fate> {
        let injector = Injector::new(plan.into(), seed);
        (0..frames).map(|frame| injector.fate(frame)).collect()
    }

    #[test]
    fn the_same_seed_gives_every_frame_the_same_fate() {
        let rates = rates(0.1, 0.1, 0.1);
        assert_eq!(fates(rates, 7, 1000), fates(rates, 7, 1000));
        assert_ne!(fates(rates, 7, 1000), fates(rates, 8, 1000));
    }

    /// What these seeds drew when results were published: it must never change.
    #[test]
    fn seeds_replay_as_they_were_published() {
        let faults = |injector: Injector| -> Vec<(u64, Fate)> {
            let fates = (0..24).map(|frame| (frame, injector.fate(frame)));
            fates.filter(|(_, fate)| *fate != Fate::Delivered).collect()
        };
        let by_frames = rates(0.1, 0.1, 0.1);
        let overtaken = Fate::Late(Delay::OvertakenBy(5));
        assert_eq!(
            faults(Injector::new(by_frames.into(), 11)),
            [(3, Fate::Lost), (6, Fate::Lost), (11, Fate::Lost), (14, overtaken), (22, Fate::Lost)]
        );
        let held = |picos| Fate::Late(Delay::HeldBack(Duration::from_picos(picos)));
        let by_time = FaultRates { longest_hold: Hold::Time(Duration::from_nanos(1)), ..by_frames };
        assert_eq!(
            faults(Injector::of_direction(by_time.into(), 42, 3)),
            [
                (0, Fate::DUPLICATED),
                (3, held(481)),
                (10, held(731)),
                (11, Fate::Lost),
                (17, held(119)),
                (20, Fate::DUPLICATED)
            ]
        );
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let fates = fates(rates(0.05, 0.02, 0.05), 1, 100_000);
        let count = |wanted: fn(&Fate) -> bool| fates.iter().filter(|fate| wanted(fate)).count();
        assert!((4700..5300).contains(&count(|fate| *fate == Fate::Lost)));
        assert!((1750..2050).contains(&count(|fate| *fate == Fate::DUPLICATED)));
        assert!((4350..4950).contains(&count(|fate| matches!(fate, Fate::Late(Delay::OvertakenBy(1..=8))))));
    }

    #[test]
    fn certainty_and_impossibility_are_exact() {
        assert!(fates(rates(1.0, 0.0, 0.0), 3, 1000).iter().all(|fate| *fate == Fate::Lost));
        assert!(fates(rates(0.0, 0.0, 0.0), 3, 1000).iter().all(|fate| *fate == Fate::Delivered));
        assert!(!FaultPlan::default().is_active());
    }

    #[test]
    fn listed_frames_have_their_fate_whatever_the_probabilities() {
        let listed = [(0, Fate::Delivered), (3, Fate::DUPLICATED)];
        let plan = FaultPlan { rates: rates(1.0, 0.0, 0.0), ..FaultPlan::listed(listed) };
        assert_eq!(
            fates(plan, 9, 5),
            [Fate::Delivered, Fate::Lost, Fate::Lost, Fate::DUPLICATED, Fate::Lost]
        );
    }
}
