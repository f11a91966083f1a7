//! Faults in two places. Where frames arrive: a node's [`FaultRates`] with a seed decide by arrival number alone, so that the same
//! seed does the same to the n-th frame in every run; they may be for some peers' frames only. Where frames leave: a [`FaultPlan`] for each peer, by the number of the
//! frame in the order in which they are sent, as `driver-des` counts them.

use quincunx_network::{Delay, Fate, FaultPlan, FaultRates, Injector};
use quincunx_sockets::Datagram;
use quincunx_units::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A frame that waits to be overtaken is released after this time at the latest, or a quiet link would keep it for ever.
pub(crate) const MAX_HOLD: Duration = Duration::from_micros(300);

/// A frame kept for later: its bytes are copied, for the receive buffer will not wait.
pub(crate) struct HeldFrame {
    pub(crate) datagram: Datagram,
    pub(crate) bytes: Vec<u8>,
    release_index: u64,
    release_time: Instant,
}

/// The faults of arriving frames as they happen.
pub(crate) struct ArrivalFaults {
    injector: Injector,
    /// Whose frames; everybody's if this is empty.
    peers: Vec<IpAddr>,
    arrivals: u64,
    held: Vec<HeldFrame>,
}

impl ArrivalFaults {
    pub(crate) fn new(rates: FaultRates, peers: Vec<IpAddr>, seed: u64) -> Self {
        Self { injector: Injector::new(rates.into(), seed), peers, arrivals: 0, held: Vec::new() }
    }

    /// Numbers the next arrival and says what becomes of it. Frames of peers that are not meant have no number.
    pub(crate) fn arrive(&mut self, source: IpAddr) -> Fate {
        if !self.peers.is_empty() && !self.peers.contains(&source) {
            return Fate::Delivered;
        }
        let fate = self.injector.fate(self.arrivals);
        self.arrivals += 1;
        fate
    }

    /// Keeps the frame that arrived last.
    pub(crate) fn hold(&mut self, now: Instant, delay: Delay, datagram: Datagram, bytes: &[u8]) {
        let (release_index, release_time) = match delay {
            Delay::OvertakenBy(frames) => (self.arrivals + frames, now + MAX_HOLD),
            Delay::HeldBack(time) => (u64::MAX, now + time),
            Delay::Until(time) => (u64::MAX, time),
        };
        self.held.push(HeldFrame { datagram, bytes: bytes.to_vec(), release_index, release_time });
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

/// The faults of frames on the way to each peer, and how many have been sent there.
#[derive(Default)]
pub(crate) struct SendFaults {
    peers: BTreeMap<SocketAddr, (u64, Injector)>,
}

impl SendFaults {
    /// Frames to `peer` are counted from 0 from now on.
    pub(crate) fn set(&mut self, peer: SocketAddr, plan: FaultPlan, seed: u64) {
        let is_delayed = plan.fates.values().any(|fate| fate.arrivals().any(|delay| delay.is_some()));
        assert!(
            !is_delayed && plan.rates.reordering.value() == 0.0,
            "expected frames to a peer to be lost or doubled, found one that is late; delay frames where they arrive"
        );
        self.peers.insert(peer, (0, Injector::new(plan, seed)));
    }

    /// Numbers the next frame to `peer` and says how often it leaves.
    pub(crate) fn send(&mut self, peer: SocketAddr) -> usize {
        let Some((index, injector)) = self.peers.get_mut(&peer) else { return 1 };
        let fate = injector.fate(*index);
        *index += 1;
        fate.arrivals().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn only_frames_of_the_peers_that_are_named_meet_faults() {
        let [one, other] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        let rates = FaultRates { loss: "100%".parse().expect("a probability"), ..FaultRates::default() };
        let mut faults = ArrivalFaults::new(rates, vec![one], 0);
        assert_eq!(
            [one, other, one].map(|peer| faults.arrive(peer)),
            [Fate::Lost, Fate::Delivered, Fate::Lost]
        );
        assert_eq!(ArrivalFaults::new(rates, Vec::new(), 0).arrive(other), Fate::Lost);
    }

    #[test]
    fn listed_frames_are_lost_or_doubled_each_on_its_way() {
        let peers = [1, 2].map(|last| SocketAddr::new(IpAddr::from([127, 0, 0, last]), 4791));
        let mut faults = SendFaults::default();
        let fates = [(0, Fate::Lost), (2, Fate::DUPLICATED), (3, Fate::Lost)];
        faults.set(peers[0], FaultPlan::listed(fates), 0);
        let sent: Vec<usize> = (0..5).map(|_| faults.send(peers[0])).collect();
        assert_eq!(sent, [0, 1, 2, 0, 1]);
        assert_eq!(faults.send(peers[1]), 1);
    }

    #[test]
    #[should_panic(expected = "expected frames to a peer to be lost or doubled")]
    fn a_frame_is_not_delayed_where_it_is_sent() {
        let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4791);
        SendFaults::default().set(peer, FaultPlan::listed([(0, Fate::Late(Delay::OvertakenBy(1)))]), 0);
    }

    #[test]
    fn a_held_frame_comes_back_after_its_overtakers_or_in_time() {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4791);
        let datagram =
            Datagram { source: address, destination: address, tos: 0, identification: 0, interface: 0 };
        let mut faults = ArrivalFaults::new(FaultRates::default(), Vec::new(), 0);
        let now = Instant::ZERO;
        faults.arrive(IpAddr::V4(Ipv4Addr::LOCALHOST));
        faults.hold(now, Delay::OvertakenBy(2), datagram, b"late");
        faults.arrive(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(faults.release(now).is_none());
        faults.arrive(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(faults.release(now).map(|held| held.bytes), Some(b"late".to_vec()));
        faults.arrive(IpAddr::V4(Ipv4Addr::LOCALHOST));
        faults.hold(now, Delay::OvertakenBy(2), datagram, b"later");
        assert_eq!(faults.next_release(), Some(now + MAX_HOLD));
        assert!(faults.release(now + MAX_HOLD).is_some());
        assert_eq!(faults.next_release(), None);
        faults.hold(now, Delay::HeldBack(Duration::from_micros(7)), datagram, b"held back");
        assert_eq!(faults.next_release(), Some(now + Duration::from_micros(7)));
    }
}
