//! Links of a set rate where the machine has none: what a node sends waits in queues of its own until a link of that rate would have
//! carried it. It needs no privilege, and a newcomer sees what a network is worth whose links are slower than the processors.

use quincunx_sockets::{Batch, Datagram, Flow, Outbox};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Bytes of an Ethernet frame around what a node counts of it: Ethernet 14, IPv4 20, UDP 8. Preamble, FCS and gaps are left out, as the
/// rates of namespaces leave them out.
const BELOW: usize = 42;

/// Bytes that may wait for a link.
const QUEUE: usize = 256 << 10;

/// Frames that are handed to the kernel at once, in bytes.
const READY: usize = 512 << 10;

/// How a node's links are held to a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// What a link carries each way in a second.
    pub rate: BitRate,
    /// A switch has a link for each neighbour, which holds to the rate what it sends there; a host has one for all it sends and gets.
    pub is_switch: bool,
}

/// One direction of a link, which carries one frame after the other.
#[derive(Clone, Copy, Debug)]
struct PacedLink {
    rate: BitRate,
    free_at: Instant,
}

impl PacedLink {
    const fn new(rate: BitRate) -> Self {
        Self { rate, free_at: Instant::ZERO }
    }

    fn time(&self, length: usize) -> Duration {
        self.rate.time_for(ByteCount::new((length + BELOW) as u64))
    }

    /// When a frame has left that is handed over now.
    fn depart(&mut self, now: Instant, length: usize) -> Instant {
        self.free_at = self.free_at.max(now) + self.time(length);
        self.free_at
    }

    /// When a frame is here whose last bit could have come now.
    fn arrive(&mut self, now: Instant, length: usize) -> Instant {
        self.free_at = (self.free_at + self.time(length)).max(now);
        self.free_at
    }
}

/// A frame on a link.
struct Waiting {
    due: Instant,
    flow: Flow,
    bytes: Vec<u8>,
}

/// A link and what waits for it.
struct Line {
    link: PacedLink,
    queue: VecDeque<Waiting>,
    bytes: usize,
}

/// What leaves a node.
pub(crate) struct Departures {
    pace: Pace,
    /// By neighbour; a host's is that of no address.
    lines: BTreeMap<Option<SocketAddr>, Line>,
    /// Frames whose time has come.
    pub(crate) ready: Outbox,
}

impl Departures {
    pub(crate) fn new(pace: Pace, max_frames: usize) -> Self {
        Self { pace, lines: BTreeMap::new(), ready: Outbox::new(READY, max_frames) }
    }

    fn line(&mut self, destination: SocketAddr) -> &mut Line {
        let Pace { rate, is_switch } = self.pace;
        let new = || Line { link: PacedLink::new(rate), queue: VecDeque::new(), bytes: 0 };
        self.lines.entry(is_switch.then_some(destination)).or_insert_with(new)
    }

    /// Takes a batch, if there is room where it waits.
    pub(crate) fn take(&mut self, now: Instant, arena: &[u8], batch: &Batch) -> bool {
        let flow = batch.flow();
        let line = self.line(flow.destination);
        if line.bytes > 0 && line.bytes + batch.length() > QUEUE {
            return false;
        }
        // Frames never straddle pieces, and all but the last of a piece are as long as the batch says.
        for piece in batch.pieces() {
            for frame in arena[piece.clone()].chunks(usize::from(batch.segment()).max(1)) {
                let due = line.link.depart(now, frame.len());
                line.queue.push_back(Waiting { due, flow, bytes: frame.to_vec() });
                line.bytes += frame.len();
            }
        }
        true
    }

    /// Moves what has left its link by now to where the kernel takes it from, as far as there is room.
    pub(crate) fn release(&mut self, now: Instant) {
        for line in self.lines.values_mut() {
            while let Some(Waiting { flow, bytes, .. }) = line.queue.front().filter(|frame| frame.due <= now)
            {
                let Some(space) = self.ready.reserve(bytes.len()) else { return };
                space.copy_from_slice(bytes);
                self.ready.commit(bytes.len(), *flow, false);
                line.bytes -= bytes.len();
                line.queue.pop_front();
            }
        }
    }

    /// When the next frame has left its link.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.lines.values().filter_map(|line| Some(line.queue.front()?.due)).min()
    }
}

/// What comes to a host over its one link.
pub(crate) struct Arrivals {
    link: PacedLink,
    queue: VecDeque<(Instant, Datagram, Vec<u8>)>,
}

impl Arrivals {
    /// Of a switch nothing is held: what its neighbours send is held to the rate there.
    pub(crate) fn new(pace: Pace) -> Option<Self> {
        (!pace.is_switch).then(|| Self { link: PacedLink::new(pace.rate), queue: VecDeque::new() })
    }

    pub(crate) fn take(&mut self, now: Instant, datagram: Datagram, bytes: &[u8]) {
        let due = self.link.arrive(now, bytes.len());
        self.queue.push_back((due, datagram, bytes.to_vec()));
    }

    /// The next frame that is here.
    pub(crate) fn release(&mut self, now: Instant) -> Option<(Datagram, Vec<u8>)> {
        let (due, ..) = self.queue.front()?;
        if *due > now {
            return None;
        }
        self.queue.pop_front().map(|(_, datagram, bytes)| (datagram, bytes))
    }

    /// When the next one is.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(due, ..)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    /// A byte takes a microsecond.
    const RATE: BitRate = BitRate::new(8_000_000).expect("not zero");

    fn micros(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::new(IpAddr::from([127, 0, 0, last]), 4791)
    }

    /// An outbox with frames of 58 bytes, each 100 microseconds long, for these peers.
    fn outbox(peers: &[u8]) -> Outbox {
        let mut outbox = Outbox::new(1 << 20, 64);
        for last in peers {
            outbox.reserve(58).unwrap().fill(*last);
            outbox.commit(58, Flow { destination: peer(*last), share: 0, tos: 0 }, false);
        }
        outbox
    }

    fn depart(is_switch: bool, peers: &[u8]) -> Departures {
        let mut departures = Departures::new(Pace { rate: RATE, is_switch }, 64);
        let outbox = outbox(peers);
        let (arena, batches) = outbox.unsent();
        assert!(batches.iter().all(|batch| departures.take(micros(50), arena, batch)));
        departures
    }

    fn released(departures: &mut Departures, now: u64) -> usize {
        departures.release(micros(now));
        let frames = departures.ready.unsent().1.iter().map(Batch::frames).sum();
        departures.ready.remove(departures.ready.unsent().1.len());
        frames
    }

    #[test]
    fn a_host_sends_one_frame_after_the_other_over_its_one_link() {
        let mut departures = depart(false, &[1, 2, 1]);
        assert_eq!(departures.next(), Some(micros(150)));
        let frames = [149, 150, 249, 250, 349, 350].map(|now| released(&mut departures, now));
        assert_eq!(frames, [0, 1, 0, 1, 0, 1]);
        assert_eq!(departures.next(), None);
    }

    #[test]
    fn a_switch_sends_to_each_neighbour_over_a_link_of_its_own() {
        let mut departures = depart(true, &[1, 2, 1]);
        let frames = [149, 150, 249, 250].map(|now| released(&mut departures, now));
        assert_eq!(frames, [0, 2, 0, 1]);
    }

    #[test]
    fn who_comes_late_finds_what_the_link_has_carried_meanwhile() {
        let mut departures = depart(false, &[1; 5]);
        assert_eq!(released(&mut departures, 470), 4);
    }

    #[test]
    fn a_link_whose_queue_is_full_takes_no_more_until_some_of_it_has_left() {
        let mut departures = Departures::new(Pace { rate: RATE, is_switch: true }, 64);
        let outbox = outbox(&[1; 60]);
        let (arena, batches) = outbox.unsent();
        let taken = (0..100).take_while(|_| departures.take(micros(0), arena, &batches[0])).count();
        assert_eq!(taken, QUEUE / (60 * 58));
        departures.release(micros(60 * 100));
        assert!(departures.take(micros(60 * 100), arena, &batches[0]));
    }

    #[test]
    fn what_comes_faster_than_the_link_carries_is_late_and_what_does_not_is_not() {
        let mut arrivals = Arrivals::new(Pace { rate: RATE, is_switch: false }).unwrap();
        let datagram =
            Datagram { source: peer(1), destination: peer(2), tos: 0, identification: 0, interface: 0 };
        for now in [500, 500, 500, 900] {
            arrivals.take(micros(now), datagram, &[0; 58]);
        }
        let mut here = Vec::new();
        for now in [499, 500, 600, 700, 899, 900] {
            here.push(std::iter::from_fn(|| arrivals.release(micros(now))).count());
        }
        assert_eq!(here, [0, 1, 1, 1, 0, 1]);
        assert!(Arrivals::new(Pace { rate: RATE, is_switch: true }).is_none());
    }
}
