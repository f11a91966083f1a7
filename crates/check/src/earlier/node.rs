//! The nodes of the earlier systems as one engine, and what they say to each other.

use core::convert::Infallible;

use quincunx_collective::{Contributions, Payload, Rank};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};

use crate::earlier::atp::{Aggregators, Server};
use crate::earlier::net_reduce::FlowBuffers;
use crate::earlier::switch_ml::Pools;
use crate::earlier::worker::{AlreadyStarted, Worker};
use crate::earlier::{Rules, Setup};
use crate::network::SUM;

/// How long timers run. No time passes in an exploration, and in virtual time it is prescribed when they fire.
const TIMEOUT: Duration = Duration::from_micros(100);

/// A node of an earlier system.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// A worker of any of them.
    Worker(Worker),
    /// SwitchML's switch.
    SwitchMl(Pools),
    /// ATP's switch.
    Atp(Aggregators),
    /// ATP's parameter server.
    Server(Server),
    /// NetReduce's switch.
    NetReduce(FlowBuffers),
}

/// What a node is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The worker of that rank.
    Worker(Rank),
    /// The switch.
    Switch,
    /// The parameter server.
    Server,
}

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

    fn with(self, ranks: impl Iterator<Item = Rank>) -> Self {
        ranks.fold(self, |set, rank| set.union(Self::one(rank)))
    }

    /// The same with other names.
    pub(crate) fn renamed(self, rename: impl Fn(Rank) -> Rank) -> Self {
        let ranks = (0..Contributions::RANKS).map(Rank).filter(|rank| self.overlaps(Self::one(*rank)));
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

/// What a worker is asked to do: to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start;

/// What the node's owner is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A worker has the result of a chunk.
    Result {
        /// Which chunk.
        chunk: u8,
        /// The result.
        sum: Contributions,
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

pub(crate) type View<'a> = <Contributions as Payload>::View<'a>;

/// Sends out of one port.
pub(crate) fn send(port: PortId, header: Header, sum: &Contributions, out: &mut impl Sink<Node>) {
    out.transmit(port, Frame { header: &header, payload: sum.view(0..sum.length()) });
}

/// Sends a result to all workers.
pub(crate) fn send_to_all(workers: u16, chunk: u8, sum: &Contributions, out: &mut impl Sink<Node>) {
    let copies = (0..workers).map(|worker| (PortId(worker), Header::Result { chunk }));
    out.replicate(sum.view(0..sum.length()), copies);
}

pub(crate) fn arm(timer: Timer, out: &mut impl Sink<Node>) {
    out.set_timer(timer, TIMEOUT);
}

/// Adds one sum to another.
pub(crate) fn add(sum: &mut Contributions, payload: View<'_>) {
    sum.reduce(0, payload, SUM);
}

impl Engine for Node {
    type Config = (Setup, Role);
    type ConfigError = Infallible;
    type Header = Header;
    type Payload = Contributions;
    type Timer = Timer;
    type Command = Start;
    type Rejected = AlreadyStarted;
    type Event = Event;
    type DropReason = DropReason;

    fn new((setup, role): (Setup, Role)) -> Result<Self, Infallible> {
        Ok(match (role, setup.rules) {
            (Role::Worker(rank), _) => Self::Worker(Worker::new(&setup, rank)),
            (Role::Server, _) => Self::Server(Server::new(&setup)),
            (Role::Switch, Rules::SwitchMl(rule)) => Self::SwitchMl(Pools::new(&setup, rule)),
            (Role::Switch, Rules::Atp(rule)) => Self::Atp(Aggregators::new(&setup, rule)),
            (Role::Switch, Rules::NetReduce(rule)) => Self::NetReduce(FlowBuffers::new(&setup, rule)),
        })
    }

    fn handle_frame(
        &mut self,
        _: Instant,
        port: PortId,
        frame: Frame<'_, Header, Contributions>,
        out: &mut impl Sink<Self>,
    ) {
        let payload = frame.payload;
        let done = match (self, *frame.header) {
            (Self::Worker(worker), Header::Result { chunk }) => worker.take(chunk, payload, out),
            (Self::SwitchMl(pools), Header::Contribution { chunk, .. }) => {
                pools.take(port, chunk, payload, out)
            }
            (Self::Atp(aggregators), header) => aggregators.take(port, header, payload, out),
            (Self::Server(server), Header::Contribution { chunk, workers, .. }) => {
                server.take(chunk, workers, payload, out)
            }
            (Self::NetReduce(buffers), Header::Contribution { chunk, .. }) => {
                buffers.take(port, chunk, payload, out)
            }
            _ => Err(DropReason::NoPlace),
        };
        if let Err(reason) = done {
            out.drop_frame(port, reason);
        }
    }

    fn handle_timer(&mut self, _: Instant, timer: Timer, out: &mut impl Sink<Self>) {
        match (self, timer) {
            (Self::Worker(worker), Timer::Resend(chunk)) => worker.send_again(chunk, out),
            (Self::Atp(aggregators), Timer::Deadline(index)) => aggregators.expire(index, out),
            _ => {}
        }
    }

    fn handle_command(
        &mut self,
        _: Instant,
        Start: Start,
        out: &mut impl Sink<Self>,
    ) -> Result<(), AlreadyStarted> {
        match self {
            Self::Worker(worker) => worker.start(out),
            _ => Err(AlreadyStarted),
        }
    }

    fn wants_transmit(&self, _: PortId) -> bool {
        false
    }

    fn handle_transmit_slot(&mut self, _: Instant, _: PortId, _: &mut impl Sink<Self>) {}

    /// What must hold is what workers are told.
    fn assert_invariants(&self) {}
}
