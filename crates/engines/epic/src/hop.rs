//! ReceiveAck, SendAck and Retransmission: the transmission states of one endpoint in Mode-III (EPIC 4.4, algorithm 3,
//! appendix H.4). All numbers are "one past": `acked` is lastAcked + 1.

use quincunx_engine::RoundTrip;
use quincunx_units::{Duration, Instant};

use crate::config::GroupConfig;

/// The transmission states of one edge, in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hop {
    /// ePSN: everything that this neighbour sent before it has arrived.
    pub(crate) expected: u64,
    /// Everything from here on has neither arrived nor been asked for; only kept where reliability is selective.
    pub(crate) reached: u64,
    /// A NAK has been sent since the last packet in order; another one would only repeat it (H.4).
    pub(crate) nak_sent: bool,
    /// The next packet in order was turned away because the pipe had no room; a NAK calls for it when there is.
    pub(crate) blocked: bool,
    /// Nothing from this number on was turned away, and when the last one was; only kept where reliability is selective, until all
    /// of it has been called for.
    pub(crate) turned_away: Option<(u64, Instant)>,
    /// When the neighbour was last told to slow down.
    pub(crate) notified: Option<Instant>,
    /// An ACK has been put off.
    pub(crate) owed: bool,
    /// The neighbour has asked for an ACK of what lies behind a collective that is not known yet: nothing can be said of it.
    pub(crate) is_ahead: bool,
    /// The acknowledge timer has fired since.
    pub(crate) overdue: bool,
    /// lastAcked + 1: the oldest number that the neighbour may still miss.
    pub(crate) acked: u64,
    /// The number to be sent next; before `sent` while packets are sent again.
    pub(crate) cursor: u64,
    /// maxPsnSent + 1.
    pub(crate) sent: u64,
    /// One more than the newest packet that asked for an ACK.
    pub(crate) asked: u64,
    /// Packets at `cursor` wait for transmit slots.
    pub(crate) resending: bool,
    /// The resend timer is armed.
    pub(crate) armed: bool,
    /// How long the neighbour's answers take; measured where reliability is selective.
    pub(crate) round_trip: RoundTrip,
    /// The neighbour was not ready: nothing is sent until the timer fires.
    pub(crate) paused: bool,
    /// Time-outs of full length since the neighbour was last heard of.
    pub(crate) silent: u16,
    /// The neighbour counts as unreachable.
    pub(crate) failed: bool,
}

/// What SendAck sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Nothing: the packet asked for nothing, or a NAK is under way.
    Nothing,
    /// Everything before the ePSN has arrived.
    Ack,
    /// The packet with the ePSN is missing.
    Nak,
}

impl Hop {
    pub(crate) fn new(first: u64) -> Self {
        Self {
            expected: first,
            reached: first,
            nak_sent: false,
            blocked: false,
            turned_away: None,
            notified: None,
            owed: false,
            is_ahead: false,
            overdue: false,
            acked: first,
            cursor: first,
            sent: first,
            asked: first,
            resending: false,
            armed: false,
            round_trip: RoundTrip::default(),
            paused: false,
            silent: 0,
            failed: false,
        }
    }

    /// ReceiveAck: everything before `arrived` is at the neighbour. Whether that is news.
    pub(crate) fn receive_ack(&mut self, now: Instant, arrived: u64) -> bool {
        let arrived = arrived.min(self.sent);
        if arrived <= self.acked {
            return false;
        }
        self.round_trip.acknowledged(arrived, now);
        self.acked = arrived;
        self.asked = self.asked.max(arrived);
        self.cursor = self.cursor.max(arrived);
        true
    }

    /// How long answers are waited for. Packets that have not asked for an ACK get none within a round trip; going back costs a window each
    /// time.
    pub(crate) fn timeout(&self, config: &GroupConfig) -> Duration {
        let longest = config.resend_timeout;
        if self.is_answer_due() && config.selective { self.round_trip.timeout(longest) } else { longest }
    }

    /// Nothing has been answered for a [`timeout`](Self::timeout). Whether that, with those before it, makes the longest.
    pub(crate) fn expired(&mut self, now: Instant, config: &GroupConfig) -> bool {
        self.round_trip.expired(now, self.timeout(config), config.resend_timeout)
    }

    /// Whether a packet is on the wire that asked for an ACK.
    pub(crate) fn is_answer_due(&self) -> bool {
        self.asked > self.acked
    }

    /// Retransmission: goes back to the oldest number that the neighbour may miss.
    pub(crate) fn go_back(&mut self) {
        if self.acked < self.sent {
            self.round_trip.forget();
            self.cursor = self.acked;
            self.resending = true;
        }
    }

    /// SendAck for a packet that arrived in order; `advanced` is how far the ePSN moved.
    pub(crate) fn in_order(&mut self, asked: bool, advanced: u64) -> Answer {
        self.nak_sent = false;
        self.blocked = self.turned_away.is_some();
        if asked || advanced > 1 { Answer::Ack } else { Answer::Nothing }
    }

    /// SendAck for a packet that leaves a gap before it.
    pub(crate) fn out_of_order(&mut self) -> Answer {
        if core::mem::replace(&mut self.nak_sent, true) { Answer::Nothing } else { Answer::Nak }
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.acked <= self.cursor && self.cursor <= self.sent, "acked <= cursor <= sent: {self:?}");
        assert!(self.owed || !self.overdue, "what is overdue is owed: {self:?}");
        assert!(!self.failed || !self.armed, "nothing is sent to a neighbour that counts as unreachable");
    }
}
