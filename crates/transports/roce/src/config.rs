//! What a queue pair is set up with, and why a set-up is refused.

use crate::{Mutation, RateConfig};
use quincunx_units::{Duration, Packets};
use quincunx_wire::{Endpoint, Psn};

/// The largest payload of a packet in bytes (InfiniBand Architecture 9.4.3: path MTU).
pub const MAX_MTU: usize = 4096;

/// The largest window in packets: with more, an old and a new PSN could not be told apart (9.7.1).
pub const MAX_WINDOW: u32 = (1 << 23) - 1;

/// The receiver-not-ready retry count that means "for ever" (9.7.5.2.8).
pub const INFINITE_RNR_RETRIES: u8 = 7;

/// How lost packets are sent again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reliability {
    /// Everything from the first lost packet on, as RoCE NICs do.
    GoBackN,
    /// What is missing and nothing else. The receiver keeps packets that come early, and asks for each missing one with a
    /// NAK of its own, which unlike InfiniBand's acknowledges nothing; after a time-out the sender asks what
    /// has arrived ([`Operation::QUESTION`](quincunx_wire::Operation::QUESTION)). Both ends must agree.
    Selective,
    /// Not at all: each message is a datagram, and what is lost is lost ([`DatagramQueuePair`](crate::DatagramQueuePair)).
    Datagrams,
}

/// What a queue pair is set up with. Both ends must agree on the MTU and on each other's first PSN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueuePairConfig {
    /// This end.
    pub local: Endpoint,
    /// The other end; frames from anywhere else are dropped.
    pub remote: Endpoint,
    /// Payload of a full packet in bytes: 4 to [`MAX_MTU`], a multiple of 4. Real NICs take powers of two from 256.
    pub mtu: usize,
    /// PSN of the first packet sent.
    pub send_psn: Psn,
    /// PSN of the first packet expected.
    pub expected_psn: Psn,
    /// Packets of a message between two that ask for an acknowledge. The last packet of a message asks too, unless another
    /// message follows at once and fewer packets than this have passed since somebody asked; and so
    /// does one that fills the window.
    pub acknowledge_every: Packets,
    /// How long nothing is acknowledged before everything outstanding is sent again. Where reliability is selective the peer is asked
    /// as soon as an answer would have come ([`RoundTrip`](quincunx_engine::RoundTrip)), and no later than this.
    pub retry_timeout: Duration,
    /// How many time-outs of that length in a row, without any progress, are followed by another try.
    pub retry_count: u16,
    /// How long a peer is told to wait at first when no receive request is posted: a code of
    /// [`receiver_not_ready_delay`](quincunx_wire::aeth::receiver_not_ready_delay), less than 32. One that has waited long waits longer,
    /// by an eighth, and 0.64 ms at most.
    pub rnr_timer: u8,
    /// How many receiver-not-ready answers in a row are followed by another try; [`INFINITE_RNR_RETRIES`]: all.
    pub rnr_retry_count: u8,
    /// Packets sent and not yet acknowledged, at most.
    pub window: Packets,
    /// Fewer of them while the way is congested, as notifications tell, or losses while the round trip is long. Where reliability is selective;
    /// elsewhere nothing is measured.
    pub congestion_window: bool,
    /// Acknowledges tell the peer how many receive requests there are, and no more messages are sent that consume one than the peer has told
    /// of (InfiniBand Architecture 9.7.7.2, end-to-end flow control). A peer that tells nothing is sent to as without.
    pub credits: bool,
    /// Whether the peer may write to any registered region; if not, its Writes are refused.
    pub remote_write: bool,
    /// How lost packets are sent again.
    pub reliability: Reliability,
    /// How the rate reacts to congestion; not at all if there is nothing here.
    pub rate: Option<RateConfig>,
    /// A rule that is broken, so that the checker can show that it would notice; none anywhere else.
    pub mutation: Option<Mutation>,
}

/// Why a set-up is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The MTU.
    #[error("expected mtu to be a multiple of 4 from 4 to 4096 bytes, found {0}; use 1024 or 4096")]
    Mtu(usize),
    /// The acknowledge interval.
    #[error(
        "expected acknowledge_every to be 1 packet or more, found 0; use 1 to have each packet acknowledged"
    )]
    AcknowledgeEvery,
    /// The retry time-out.
    #[error("expected retry_timeout to be longer than zero; use a few round-trip times")]
    RetryTimeout,
    /// The receiver-not-ready timer code.
    #[error("expected rnr_timer to be a code below 32, found {0}; 12 means 0.64 ms")]
    RnrTimer(u8),
    /// The receiver-not-ready retry count.
    #[error("expected rnr_retry_count to be 7 or less, found {0}; 7 means for ever")]
    RnrRetryCount(u8),
    /// The window.
    #[error("expected a window of 1 to 8388607 packets, found {0}; use the packets of a round trip")]
    Window(Packets),
}

impl QueuePairConfig {
    /// Checks every field.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(4..=MAX_MTU).contains(&self.mtu) || !self.mtu.is_multiple_of(4) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        if self.acknowledge_every == Packets::new(0) {
            return Err(ConfigError::AcknowledgeEvery);
        }
        if self.retry_timeout == Duration::ZERO {
            return Err(ConfigError::RetryTimeout);
        }
        if self.rnr_timer >= 32 {
            return Err(ConfigError::RnrTimer(self.rnr_timer));
        }
        if self.rnr_retry_count > INFINITE_RNR_RETRIES {
            return Err(ConfigError::RnrRetryCount(self.rnr_retry_count));
        }
        if !(1..=MAX_WINDOW).contains(&self.window.get()) {
            return Err(ConfigError::Window(self.window));
        }
        Ok(())
    }
}
