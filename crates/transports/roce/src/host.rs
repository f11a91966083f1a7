//! A queue pair and its memory as a node of its own: what the checker and the tests drive when they want the transport
//! alone.

use crate::{ConfigError, DropReason, PostError, QueuePair, QueuePairConfig, QueuePairSink, QueuePairTimer};
use quincunx_collective::Payload;
use quincunx_engine::verbs::{Completion, Memory, ReceiveRequest, RegionId, SendRequest};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

/// The only port.
const PORT: PortId = PortId(0);

/// A host with one queue pair on one port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoceHost<P> {
    queue_pair: QueuePair<P>,
    memory: Memory<P>,
}

/// What the owner of a [`RoceHost`] asks of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoceCommand<P> {
    /// Takes a region of memory in; answered by [`RoceEvent::Registered`].
    Register(P),
    /// Gives a region back; answered by [`RoceEvent::Released`].
    Release(RegionId),
    /// Queues a message to the peer.
    PostSend(SendRequest),
    /// Queues a place for one message of the peer's.
    PostReceive(ReceiveRequest),
    /// Numbers the next message sent, and the next one expected, so many packets further on.
    Skip {
        /// Of what is sent.
        sends: u32,
        /// Of what is received.
        receives: u32,
    },
}

/// What the owner of a [`RoceHost`] is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoceEvent<P> {
    /// The region's number.
    Registered(RegionId),
    /// The region, with what was written to it.
    Released(P),
    /// The end of a work request.
    Completion(Completion),
}

/// Why a command is refused: nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RoceRejected {
    /// The queue pair refuses.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The region is not registered.
    #[error("expected a registered region, found {0:?}; release each region once")]
    NoSuchRegion(RegionId),
    /// A request without a completion names the region.
    #[error("expected a region that no request uses, found {0:?} in use; wait for the completions")]
    RegionInUse(RegionId),
}

impl<P: Payload> RoceHost<P> {
    /// The registered memory.
    pub fn memory(&self) -> &Memory<P> {
        &self.memory
    }

    /// The queue pair.
    pub fn queue_pair(&self) -> &QueuePair<P> {
        &self.queue_pair
    }
}

/// Passes a queue pair's answers on to the driver.
struct HostSink<'a, S>(&'a mut S);

impl<P: Payload, S: Sink<RoceHost<P>>> QueuePairSink<P> for HostSink<'_, S> {
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, P>) {
        self.0.transmit(PORT, frame);
    }

    fn set_timer(&mut self, timer: QueuePairTimer, after: Duration) {
        self.0.set_timer(timer, after);
    }

    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        self.0.cancel_timer(timer);
    }

    fn complete(&mut self, completion: Completion) {
        self.0.emit(RoceEvent::Completion(completion));
    }

    fn drop_frame(&mut self, reason: DropReason) {
        self.0.drop_frame(PORT, reason);
    }
}

impl<P: Payload> Engine for RoceHost<P> {
    type Config = QueuePairConfig;
    type ConfigError = ConfigError;
    type Header = RoceHeader;
    type Payload = P;
    type Timer = QueuePairTimer;
    type Command = RoceCommand<P>;
    type Rejected = RoceRejected;
    type Event = RoceEvent<P>;
    type DropReason = DropReason;

    fn new(config: QueuePairConfig) -> Result<Self, ConfigError> {
        Ok(Self { queue_pair: QueuePair::new(config)?, memory: Memory::default() })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        _port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        self.queue_pair.handle_frame(now, frame, &mut self.memory, &mut HostSink(out));
    }

    fn handle_timer(&mut self, now: Instant, timer: QueuePairTimer, out: &mut impl Sink<Self>) {
        self.queue_pair.handle_timer(now, timer, &mut HostSink(out));
    }

    fn handle_command(
        &mut self,
        _now: Instant,
        command: RoceCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), RoceRejected> {
        match command {
            RoceCommand::Register(region) => out.emit(RoceEvent::Registered(self.memory.register(region))),
            RoceCommand::Release(region) => {
                if self.queue_pair.uses(region) {
                    return Err(RoceRejected::RegionInUse(region));
                }
                let payload = self.memory.release(region).ok_or(RoceRejected::NoSuchRegion(region))?;
                out.emit(RoceEvent::Released(payload));
            }
            RoceCommand::PostSend(request) => self.queue_pair.post_send(request, &self.memory)?,
            RoceCommand::PostReceive(request) => self.queue_pair.post_receive(request, &self.memory)?,
            RoceCommand::Skip { sends, receives } => {
                self.queue_pair.skip(sends, receives, &mut HostSink(out))?;
            }
        }
        Ok(())
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        port == PORT && self.queue_pair.wants_transmit()
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        if port == PORT {
            self.queue_pair.transmit(now, &self.memory, &mut HostSink(out));
        }
    }

    fn assert_invariants(&self) {
        self.queue_pair.assert_invariants();
    }
}
