//! The nodes of the earlier systems as one engine.

use core::convert::Infallible;

use quincunx_collective::{Provenance, Rank};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::Instant;

use crate::prior_systems::atp::{Aggregators, Server};
use crate::prior_systems::frame::{DropReason, Event, Header, Timer};
use crate::prior_systems::rules::Rules;
use crate::prior_systems::setup::StarSetup;
use crate::prior_systems::switch_ml::Pools;
use crate::prior_systems::worker::{AlreadyStarted, Worker};

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

/// What a worker is asked to do: to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start;

impl Engine for Node {
    type Config = (StarSetup, Role);
    type ConfigError = Infallible;
    type Header = Header;
    type Payload = Provenance;
    type Timer = Timer;
    type Command = Start;
    type Rejected = AlreadyStarted;
    type Event = Event;
    type DropReason = DropReason;

    fn new((setup, role): (StarSetup, Role)) -> Result<Self, Infallible> {
        Ok(match (role, setup.rules) {
            (Role::Worker(rank), _) => Self::Worker(Worker::new(&setup, rank)),
            (Role::Server, _) => Self::Server(Server::new(&setup)),
            (Role::Switch, Rules::SwitchMl(rule)) => Self::SwitchMl(Pools::new(&setup, rule)),
            (Role::Switch, Rules::Atp(rule)) => Self::Atp(Aggregators::new(&setup, rule)),
        })
    }

    fn handle_frame(
        &mut self,
        _: Instant,
        port: PortId,
        frame: Frame<'_, Header, Provenance>,
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
