//! What the nodes of the earlier systems say to each other and tell their owners, and how they send it.

use quincunx_collective::{Payload, Provenance, Rank};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::Duration;

use crate::network::SUM;

/// How long timers run. No time passes in an exploration, and in virtual time it is prescribed when they fire.
const TIMEOUT: Duration = Duration::from_micros(100);

/// A set of workers, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Workers(u16);

impl Workers {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn one(rank: Rank) -> Self {
        Self(1 << rank.0)
    }

    /// Those below `count`.
    pub(crate) fn all(count: u16) -> Self {
        Self::NONE.with((0..count).map(Rank))
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    fn with(self, ranks: impl Iterator<Item = Rank>) -> Self {
        ranks.fold(self, |set, rank| set.union(Self::one(rank)))
    }

    /// The same with other names.
    pub(crate) fn renamed(self, rename: impl Fn(Rank) -> Rank) -> Self {
        let ranks = (0..Provenance::RANKS).map(Rank).filter(|rank| self.overlaps(Self::one(*rank)));
        Self::NONE.with(ranks.map(rename))
    }
}

/// A frame's header. Chunks are numbered through the vector; a chunk is what one frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Header {
    /// What workers have of a chunk, one of them or several added up.
    Contribution {
        /// Which chunk. Its slot, version and PSN follow from it.
        chunk: u8,
        /// Whose.
        workers: Workers,
        /// It is marked as sent again. Only ATP marks it.
        again: bool,
    },
    /// The sum of a chunk.
    Result {
        /// Which chunk.
        chunk: u8,
    },
}

/// A timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// A worker waits for the result of a chunk.
    Resend(u8),
    /// A switch waits for an aggregator to be used.
    Deadline(u8),
}

/// What the node's owner is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A worker has the result of a chunk.
    Result {
        /// Which chunk.
        chunk: u8,
        /// The result.
        sum: Provenance,
    },
    /// So many of a switch's aggregators are in use now.
    Held(usize),
}

/// Why a frame is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Nobody waits for this result.
    NotAwaited,
    /// It has been added up, and there is no result yet.
    HasIt,
    /// Its sender has gone on.
    Stale,
    /// Something before it is missing.
    Gap,
    /// There is no place for it.
    NoPlace,
}

pub(crate) type View<'a> = <Provenance as Payload>::View<'a>;

/// An engine whose parts are here: what all of them send, wait for and tell.
pub(crate) trait Whole:
    Engine<Header = Header, Payload = Provenance, Timer = Timer, Event = Event>
{
}

impl<E> Whole for E where E: Engine<Header = Header, Payload = Provenance, Timer = Timer, Event = Event> {}

/// Sends out of one port.
pub(crate) fn send<E: Whole>(port: PortId, header: Header, sum: &Provenance, out: &mut impl Sink<E>) {
    out.transmit(port, Frame { header: &header, payload: sum.view(0..sum.length()) });
}

/// Sends a result to all workers.
pub(crate) fn send_to_all<E: Whole>(workers: u16, chunk: u8, sum: &Provenance, out: &mut impl Sink<E>) {
    out.replicate(sum.view(0..sum.length()), |send| {
        for worker in 0..workers {
            send(PortId(worker), &Header::Result { chunk });
        }
    });
}

pub(crate) fn arm<E: Whole>(timer: Timer, out: &mut impl Sink<E>) {
    out.set_timer(timer, TIMEOUT);
}

/// Adds one sum to another.
pub(crate) fn add(sum: &mut Provenance, payload: View<'_>) {
    sum.reduce(0, payload, SUM);
}
