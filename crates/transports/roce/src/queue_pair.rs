//! The queue pair: a requester and a responder that fail together.

use crate::rate::Rate;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::{ConfigError, DropReason, QueuePairConfig, QueuePairSink, QueuePairTimer};
use quincunx_collective::Payload;
use quincunx_engine::Frame;
use quincunx_engine::verbs::{Failure, Memory, ReceiveRequest, RegionId, SendRequest, Slice};
use quincunx_units::{BitRate, Instant, Packets};
use quincunx_wire::{Operation, Psn, RoceHeader};

/// The longest message in bytes (InfiniBand Architecture 9.7.1).
pub const MAX_MESSAGE: usize = 1 << 31;

/// Why a post, or to skip numbers, is refused: nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// The queue pair has failed.
    #[error("expected a working queue pair, found one that has failed; connect a new one")]
    Failed,
    /// The slice does not lie in registered memory.
    #[error("expected a slice inside a registered region, found {0:?}; register the region first")]
    NotRegistered(Slice),
    /// The message is longer than [`MAX_MESSAGE`].
    #[error("expected a message of at most 2147483648 bytes, found {0}; cut it into several")]
    TooLong(usize),
    /// The datagram is longer than [`MAX_MTU`](crate::MAX_MTU).
    #[error("expected a datagram of at most {max} bytes, found {0}; cut it into several", max = crate::MAX_MTU)]
    DatagramTooLong(usize),
    /// A datagram that is no Send, or has no immediate.
    #[error("expected a Send with an immediate, found another message; datagrams are that alone")]
    NoDatagram,
    /// A Write has arrived in part.
    #[error("expected no message that has arrived in part when numbers are skipped; wait for its end")]
    MessageInProgress,
}

/// One end of a reliable connection.
///
/// It owns no memory: a node lends its [`Memory`], the same one to all of its queue pairs. Regions that posted
/// requests name must stay registered until the completions ([`uses`](Self::uses) tells).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueuePair<P> {
    config: QueuePairConfig,
    requester: Requester,
    responder: Responder<P>,
    has_failed: bool,
    rate: Option<Rate>,
}

impl<P: Payload> QueuePair<P> {
    /// A connected queue pair, ready to send.
    pub fn new(config: QueuePairConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            requester: Requester::new(&config),
            responder: Responder::new(&config),
            rate: config.rate.map(Rate::new),
            config,
            has_failed: false,
        })
    }

    /// Queues a message to the peer. Completions come in the order of the posts.
    pub fn post_send(&mut self, request: SendRequest, memory: &Memory<P>) -> Result<(), PostError> {
        self.check_post(request.source, memory)?;
        self.requester.post(&self.config, request);
        Ok(())
    }

    /// Queues a place for one message of the peer's.
    pub fn post_receive(&mut self, request: ReceiveRequest, memory: &Memory<P>) -> Result<(), PostError> {
        self.check_post(request.sink, memory)?;
        self.responder.post(request);
        Ok(())
    }

    /// Takes a frame: a request is executed and answered at once, an acknowledge may complete sends.
    pub fn handle_frame(
        &mut self,
        now: Instant,
        frame: Frame<'_, RoceHeader, P>,
        memory: &mut Memory<P>,
        out: &mut impl QueuePairSink<P>,
    ) {
        let header = frame.header;
        if header.destination != self.config.local.ip || header.destination_qp != self.config.local.qp {
            return out.drop_frame(DropReason::NotForUs);
        }
        if header.source != self.config.remote.ip {
            return out.drop_frame(DropReason::WrongSource);
        }
        if self.has_failed {
            return out.drop_frame(DropReason::Failed);
        }
        self.notify(now, header, out);
        match header.operation {
            Operation::Acknowledge(aeth) => {
                let done = self.requester.handle_acknowledge(now, &self.config, header.psn, aeth, out);
                if let Err(failure) = done {
                    self.fail(failure, Failure::Flushed, out);
                }
            }
            Operation::CongestionNotification => self.slow_down(now, out),
            Operation::ReadResponseFirst(_)
            | Operation::ReadResponseMiddle
            | Operation::ReadResponseLast(_)
            | Operation::ReadResponseOnly(_)
            | Operation::AtomicAcknowledge(..)
            | Operation::DatagramSendOnly(_)
            | Operation::DatagramSendOnlyImmediate(..) => out.drop_frame(DropReason::Unexpected),
            _ => {
                let done = self.responder.handle_request(now, &self.config, frame, memory, out);
                self.requester.suppose(self.responder.missing());
                if let Err(failure) = done {
                    self.fail(Failure::Flushed, failure, out);
                }
            }
        }
    }

    /// Takes the expiry of `timer`; one that was cancelled meanwhile does nothing.
    pub fn handle_timer(&mut self, now: Instant, timer: QueuePairTimer, out: &mut impl QueuePairSink<P>) {
        match (timer, &mut self.rate) {
            (QueuePairTimer::Retry, _) => {
                if let Err(failure) = self.requester.handle_retry_timer(now, &self.config) {
                    return self.fail(failure, Failure::Flushed, out);
                }
                // Nothing comes that would be the occasion.
                self.responder.ask_again(now, &self.config, out);
            }
            (QueuePairTimer::ReceiverNotReady, _) => self.requester.handle_receiver_not_ready_timer(),
            (QueuePairTimer::Pace, Some(rate)) => rate.clear(),
            (QueuePairTimer::Alpha, Some(rate)) if rate.is_slowed() => {
                rate.shrink_alpha();
                out.set_timer(timer, rate.config().alpha_interval);
            }
            (QueuePairTimer::Raise, Some(rate)) if rate.is_slowed() => {
                rate.raise_by_time();
                if rate.is_slowed() {
                    out.set_timer(timer, rate.config().raise_interval);
                }
            }
            (QueuePairTimer::Pace | QueuePairTimer::Alpha | QueuePairTimer::Raise, _) => {}
        }
    }

    /// Whether [`transmit`](Self::transmit) would send a packet. To be asked again after every call.
    pub fn wants_transmit(&self) -> bool {
        self.responder.owes_credits() || self.may_request()
    }

    fn may_request(&self) -> bool {
        self.requester.wants_transmit(&self.config) && !self.rate.as_ref().is_some_and(Rate::is_waiting)
    }

    /// Sends at most one request packet, or tells of receive requests. Other acknowledges do not wait for it.
    ///
    /// # Panics
    /// If the region of a posted send is no longer registered.
    pub fn transmit(&mut self, now: Instant, memory: &Memory<P>, out: &mut impl QueuePairSink<P>) {
        if self.responder.owes_credits() {
            return self.responder.tell_credits(&self.config, out);
        }
        if !self.may_request() {
            return;
        }
        if self.requester.is_question_due() {
            self.responder.question();
        }
        let length = self.requester.transmit(now, &self.config, memory, out);
        let pause = self.rate.as_mut().and_then(|rate| rate.sent(now, length));
        if let Some(pause) = pause {
            out.set_timer(QueuePairTimer::Pace, pause);
        }
    }

    /// Numbers the next message posted `sends` packets further on, and expects the one that meets the next receive request
    /// `receives` packets further on (EPIC 4.3, group PSN synchronisation, "RoCE-refined"). What was posted before keeps its
    /// numbers, and asks for its acknowledge by itself. Refused while a Write is arriving.
    ///
    /// A peer that was ahead and was told to go back is told the new number at once, if it is known now, so that it need not wait
    /// for a time-out.
    pub fn skip(
        &mut self,
        sends: u32,
        receives: u32,
        out: &mut impl QueuePairSink<P>,
    ) -> Result<(), PostError> {
        if self.has_failed {
            return Err(PostError::Failed);
        }
        if self.responder.is_being_written() && receives > 0 {
            return Err(PostError::MessageInProgress);
        }
        self.requester.skip(u64::from(sends));
        self.responder.skip(&self.config, u64::from(receives), out);
        Ok(())
    }

    /// Expects the peer's next message `packets` further on; receive requests keep their order. A peer that was told to go back is told
    /// the new number at once.
    ///
    /// # Errors
    /// If a message has arrived in part, or the queue pair has failed: nothing has changed.
    pub fn skip_next(&mut self, packets: Packets, out: &mut impl QueuePairSink<P>) -> Result<(), PostError> {
        if self.has_failed {
            return Err(PostError::Failed);
        }
        if !self.responder.is_between_messages() {
            return Err(PostError::MessageInProgress);
        }
        self.responder.skip_next(&self.config, u64::from(packets), out);
        Ok(())
    }

    /// What the queue pair was set up with.
    pub fn config(&self) -> &QueuePairConfig {
        &self.config
    }

    /// PSN of the first packet of the next message posted.
    pub fn send_psn(&self) -> Psn {
        self.requester.posted_psn()
    }

    /// PSN of the packet expected next.
    pub fn expected_psn(&self) -> Psn {
        self.responder.expected_psn()
    }

    /// Whether it has failed: every request has its completion, and no more are taken.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether a request without a completion names `region`.
    pub fn uses(&self, region: RegionId) -> bool {
        self.requester.uses(region) || self.responder.uses(region)
    }

    /// The rate at which packets leave, if it reacts to congestion.
    pub fn rate(&self) -> Option<BitRate> {
        self.rate.as_ref().map(Rate::current)
    }

    /// Packets sent and not yet acknowledged, at most: fewer than it is set up with while the way is congested.
    pub fn window(&self) -> Packets {
        self.requester.window(&self.config)
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        self.requester.assert_invariants(&self.config);
        self.responder.assert_invariants();
        if let Some(rate) = &self.rate {
            rate.assert_invariants();
        }
        assert!(!self.has_failed || self.requester.is_idle(), "a failed queue pair holds work");
    }

    fn check_post(&self, slice: Slice, memory: &Memory<P>) -> Result<(), PostError> {
        if self.has_failed {
            Err(PostError::Failed)
        } else if slice.length > MAX_MESSAGE {
            Err(PostError::TooLong(slice.length))
        } else if !memory.contains(slice) {
            Err(PostError::NotRegistered(slice))
        } else {
            Ok(())
        }
    }

    /// Takes a congestion notification.
    fn slow_down(&mut self, now: Instant, out: &mut impl QueuePairSink<P>) {
        let reacts = self.requester.slow_down();
        let Some(rate) = &mut self.rate else {
            if !reacts {
                out.drop_frame(DropReason::NoRateControl);
            }
            return;
        };
        rate.slow_down(now);
        out.set_timer(QueuePairTimer::Alpha, rate.config().alpha_interval);
        out.set_timer(QueuePairTimer::Raise, rate.config().raise_interval);
    }

    /// Tells the peer if its frame met congestion on the way.
    fn notify(&mut self, now: Instant, header: &RoceHeader, out: &mut impl QueuePairSink<P>) {
        if header.has_met_congestion() && self.rate.as_mut().is_some_and(|rate| rate.notifies(now)) {
            let header =
                crate::header_to_remote(&self.config, Psn::new(0), Operation::CongestionNotification);
            out.transmit(Frame { header: &header, payload: P::empty() });
        }
    }

    /// Ends all work. The oldest send ends with `send`, the oldest receive with `receive`, the others as flushed.
    fn fail(&mut self, send: Failure, receive: Failure, out: &mut impl QueuePairSink<P>) {
        self.has_failed = true;
        if let Some(rate) = self.rate.as_mut().filter(|rate| rate.is_slowed()) {
            *rate = Rate::new(*rate.config());
            for timer in [QueuePairTimer::Pace, QueuePairTimer::Alpha, QueuePairTimer::Raise] {
                out.cancel_timer(timer);
            }
        }
        self.requester.fail(send, out);
        self.responder.fail(receive, out);
    }
}
