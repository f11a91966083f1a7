//! Faults injected where frames arrive: loss, duplication, reordering, decided by seed and arrival index alone, so that
//! the same seed does the same to the n-th frame in every run.

use crate::Datagram;
use quincunx_collective::SplitMix64;
use quincunx_units::{Duration, Instant, Probability};

/// A frame is held back for at most this many later ones.
const MAX_OVERTAKERS: u64 = 8;

/// A held-back frame is released after this time at the latest, or a quiet link would keep it for ever.
const MAX_HOLD: Duration = Duration::from_micros(300);

/// What happens to arriving frames.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Together with the arrival index it decides everything.
    pub seed: u64,
    /// A frame is lost.
    pub loss: Probability,
    /// A frame arrives twice.
    pub duplication: Probability,
    /// A frame is held back while up to eight later ones, or 300 us, pass.
    pub reordering: Probability,
}

/// What happens to one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Pass,
    Lose,
    Duplicate,
    /// Until so many later frames have arrived.
    HoldBack(u64),
}

impl Faults {
    /// Whether frames can suffer any fault at all.
    pub fn is_active(&self) -> bool {
        [self.loss, self.duplication, self.reordering].iter().any(|probability| probability.value() > 0.0)
    }

    /// The fate of the `index`-th frame to arrive.
    pub(crate) fn fate(&self, index: u64) -> Fate {
        let mut draws = SplitMix64::new(self.seed ^ SplitMix64::new(index).draw());
        if self.loss.hits(draws.draw()) {
            Fate::Lose
        } else if self.duplication.hits(draws.draw()) {
            Fate::Duplicate
        } else if self.reordering.hits(draws.draw()) {
            Fate::HoldBack(1 + draws.draw() % MAX_OVERTAKERS)
        } else {
            Fate::Pass
        }
    }
}

/// A frame kept for later: its bytes are copied, for the receive buffer will not wait.
pub(crate) struct HeldFrame {
    pub(crate) datagram: Datagram,
    pub(crate) bytes: Vec<u8>,
    release_index: u64,
    release_time: Instant,
}

/// The faults of one node as they happen.
pub(crate) struct Injector {
    faults: Faults,
    arrivals: u64,
    held: Vec<HeldFrame>,
}

impl Injector {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { faults, arrivals: 0, held: Vec::new() }
    }

    /// Numbers the next arrival and says what becomes of it.
    pub(crate) fn arrive(&mut self) -> Fate {
        let fate = self.faults.fate(self.arrivals);
        self.arrivals += 1;
        fate
    }

    /// Keeps the frame that arrived last while `overtakers` more arrive.
    pub(crate) fn hold(&mut self, now: Instant, overtakers: u64, datagram: Datagram, bytes: &[u8]) {
        self.held.push(HeldFrame {
            datagram,
            bytes: bytes.to_vec(),
            release_index: self.arrivals + overtakers,
            release_time: now + MAX_HOLD,
        });
    }

    /// A held frame whose time has come.
    pub(crate) fn release(&mut self, now: Instant) -> Option<HeldFrame> {
        let due = |held: &HeldFrame| held.release_index <= self.arrivals || held.release_time <= now;
        let index = self.held.iter().position(due)?;
        Some(self.held.remove(index))
    }

    /// When the next held frame is released even if nothing more arrives.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.release_time).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn faults(seed: u64, loss: f64, duplication: f64, reordering: f64) -> Faults {
        let probability = |value| Probability::new(value).expect("a probability");
        Faults {
            seed,
            loss: probability(loss),
            duplication: probability(duplication),
            reordering: probability(reordering),
        }
    }

    #[test]
    fn the_same_seed_gives_every_arrival_the_same_fate() {
        let fates = |seed| -> Vec<Fate> { (0..1000).map(|n| faults(seed, 0.1, 0.1, 0.1).fate(n)).collect() };
        assert_eq!(fates(7), fates(7));
        assert_ne!(fates(7), fates(8));
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let faults = faults(1, 0.05, 0.02, 0.05);
        let count = |wanted: fn(&Fate) -> bool| (0..100_000).map(|n| faults.fate(n)).filter(wanted).count();
        assert!((4700..5300).contains(&count(|fate| *fate == Fate::Lose)));
        assert!((1750..2050).contains(&count(|fate| *fate == Fate::Duplicate)));
        assert!((4350..4950).contains(&count(|fate| matches!(fate, Fate::HoldBack(1..=8)))));
    }

    #[test]
    fn certainty_and_impossibility_are_exact() {
        assert!((0..1000).all(|n| faults(3, 1.0, 0.0, 0.0).fate(n) == Fate::Lose));
        assert!((0..1000).all(|n| faults(3, 0.0, 0.0, 0.0).fate(n) == Fate::Pass));
        assert!(!Faults::default().is_active());
    }

    #[test]
    fn a_held_frame_comes_back_after_its_overtakers_or_in_time() {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4791);
        let datagram = Datagram { source: address, destination: address, tos: 0, identification: 0 };
        let mut injector = Injector::new(faults(0, 0.0, 0.0, 1.0));
        let now = Instant::ZERO;
        injector.arrive();
        injector.hold(now, 2, datagram, b"late");
        injector.arrive();
        assert!(injector.release(now).is_none());
        injector.arrive();
        assert_eq!(injector.release(now).map(|held| held.bytes), Some(b"late".to_vec()));
        injector.arrive();
        injector.hold(now, 2, datagram, b"later");
        assert_eq!(injector.next_release(), Some(now + MAX_HOLD));
        assert!(injector.release(now + MAX_HOLD).is_some());
        assert_eq!(injector.next_release(), None);
    }
}
