//! Faults of two kinds. Where frames arrive: loss, duplication, reordering, decided by seed and arrival index alone, so that
//! the same seed does the same to the n-th frame in every run. Where they leave: a list of frames to a peer that are lost,
//! by their number in the order in which they are sent, as `driver-des` counts them.

use crate::Datagram;
use quincunx_collective::SplitMix64;
use quincunx_units::{Duration, Instant, Probability};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

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
    Delivered,
    Lost,
    Duplicated,
    /// Until so many later frames have arrived.
    HeldBack(u64),
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
            Fate::Lost
        } else if self.duplication.hits(draws.draw()) {
            Fate::Duplicated
        } else if self.reordering.hits(draws.draw()) {
            Fate::HeldBack(1 + draws.draw() % MAX_OVERTAKERS)
        } else {
            Fate::Delivered
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

/// Frames that are lost on the way to each peer, and how many have been sent there.
#[derive(Default)]
pub(crate) struct LostFrames {
    peers: BTreeMap<SocketAddrV4, (u64, Vec<u64>)>,
}

impl LostFrames {
    /// `frames`, ascending, are lost on the way to `peer`, counted from 0 from now on.
    pub(crate) fn set(&mut self, peer: SocketAddrV4, frames: Vec<u64>) {
        self.peers.insert(peer, (0, frames));
    }

    /// Numbers the next frame to `peer` and says whether it is lost.
    pub(crate) fn send(&mut self, peer: SocketAddrV4) -> bool {
        let Some((index, frames)) = self.peers.get_mut(&peer) else { return false };
        let lost = frames.binary_search(index).is_ok();
        *index += 1;
        lost
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
        assert!((4700..5300).contains(&count(|fate| *fate == Fate::Lost)));
        assert!((1750..2050).contains(&count(|fate| *fate == Fate::Duplicated)));
        assert!((4350..4950).contains(&count(|fate| matches!(fate, Fate::HeldBack(1..=8)))));
    }

    #[test]
    fn certainty_and_impossibility_are_exact() {
        assert!((0..1000).all(|n| faults(3, 1.0, 0.0, 0.0).fate(n) == Fate::Lost));
        assert!((0..1000).all(|n| faults(3, 0.0, 0.0, 0.0).fate(n) == Fate::Delivered));
        assert!(!Faults::default().is_active());
    }

    #[test]
    fn listed_frames_are_lost_each_on_its_way() {
        let peers = [1, 2].map(|last| SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), 4791));
        let mut lost = LostFrames::default();
        lost.set(peers[0], vec![0, 3]);
        let sent: Vec<bool> = (0..5).map(|_| lost.send(peers[0])).collect();
        assert_eq!(sent, [true, false, false, true, false]);
        assert!(!lost.send(peers[1]));
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
