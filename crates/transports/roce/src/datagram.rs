//! The unreliable-datagram queue pair, as far as a collective needs one: each message is a packet to the one peer that it is set up with,
//! and nothing is acknowledged, numbered in order or sent again (InfiniBand Architecture 9.8). That is up to the program above it.
//!
//! A message that has an immediate carries its low 24 bits as its number, too, in which receivers of datagrams see nothing: so a message that
//! the program sends again shows as one in captures.

use crate::{ConfigError, DropReason, PostError, QueuePairConfig, QueuePairSink, header_to_remote};
use alloc::collections::VecDeque;
use quincunx_collective::Payload;
use quincunx_engine::Frame;
use quincunx_engine::verbs::{Completion, Memory, ReceiveRequest, SendRequest, Slice, Verb};
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::{Deth, Operation, RoceHeader};

/// A queue pair for datagrams to and from one peer. As with [`QueuePair`](crate::QueuePair) a node lends it its memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DatagramQueuePair {
    config: QueuePairConfig,
    sends: VecDeque<SendRequest>,
    receives: VecDeque<ReceiveRequest>,
}

impl DatagramQueuePair {
    /// A queue pair that is ready to send.
    ///
    /// # Errors
    /// If the set-up makes no sense.
    pub fn new(config: QueuePairConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { config, sends: VecDeque::new(), receives: VecDeque::new() })
    }

    /// What it is set up with.
    pub fn config(&self) -> &QueuePairConfig {
        &self.config
    }

    /// Queues a message. It ends when it has been sent, whatever becomes of it.
    ///
    /// # Errors
    /// If it is no Send with an immediate, longer than a packet, or not in registered memory.
    pub fn post_send<P: Payload>(
        &mut self,
        request: SendRequest,
        memory: &Memory<P>,
    ) -> Result<(), PostError> {
        let Slice { length, .. } = request.source;
        if length > crate::MAX_MTU {
            return Err(PostError::DatagramTooLong(length));
        }
        if !memory.contains(request.source) {
            return Err(PostError::NotRegistered(request.source));
        }
        if request.verb != Verb::Send || request.immediate.is_none() {
            return Err(PostError::NoDatagram);
        }
        self.sends.push_back(request);
        Ok(())
    }

    /// Queues a place for one message of the peer's.
    ///
    /// # Errors
    /// If it is not in registered memory.
    pub fn post_receive<P: Payload>(
        &mut self,
        request: ReceiveRequest,
        memory: &Memory<P>,
    ) -> Result<(), PostError> {
        if !memory.contains(request.sink) {
            return Err(PostError::NotRegistered(request.sink));
        }
        self.receives.push_back(request);
        Ok(())
    }

    /// Takes a frame. One that finds no place, or is too long for it, is lost like any other.
    pub fn handle_frame<P: Payload>(
        &mut self,
        frame: Frame<'_, RoceHeader, P>,
        memory: &mut Memory<P>,
        out: &mut impl QueuePairSink<P>,
    ) {
        let QueuePairConfig { local, remote, .. } = self.config;
        let header = frame.header;
        if header.destination != local.ip || header.destination_qp != local.qp {
            return out.drop_frame(DropReason::NotForUs);
        }
        let Operation::DatagramSendOnlyImmediate(deth, immediate) = header.operation else {
            return out.drop_frame(DropReason::Unexpected);
        };
        let is_peer = header.source == remote.ip && deth.source_qp == remote.qp;
        if !is_peer || deth.queue_key != COLLECTIVE_QUEUE {
            return out.drop_frame(DropReason::WrongSource);
        }
        let length = P::view_length(P::reborrow(frame.payload));
        let Some(place) = self.receives.front() else { return out.drop_frame(DropReason::ReceiverNotReady) };
        if length > place.sink.length {
            return out.drop_frame(DropReason::Refused);
        }
        let ReceiveRequest { id, sink } = *place;
        self.receives.pop_front();
        memory.write(sink, frame.payload);
        out.complete(Completion::Received { id, length, immediate: Some(immediate) });
    }

    /// Whether [`transmit`](Self::transmit) would send a packet.
    pub fn wants_transmit(&self) -> bool {
        !self.sends.is_empty()
    }

    /// Sends at most one packet.
    ///
    /// # Panics
    /// If the region of a posted send is no longer registered.
    pub fn transmit<P: Payload>(&mut self, memory: &Memory<P>, out: &mut impl QueuePairSink<P>) {
        let Some(SendRequest { id, source, immediate: Some(immediate), .. }) = self.sends.pop_front() else {
            return;
        };
        let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: self.config.local.qp };
        let operation = Operation::DatagramSendOnlyImmediate(deth, immediate);
        let header = header_to_remote(&self.config, self.config.send_psn.plus(immediate), operation);
        out.transmit(Frame { header: &header, payload: memory.view(source) });
        out.complete(Completion::Sent { id });
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        assert!(
            self.sends.iter().all(|request| request.immediate.is_some()),
            "each message has an immediate"
        );
    }
}
