//! The sending half: cuts work requests into packets, keeps a window of them on the wire, and sends again from the
//! oldest packet that the peer has not acknowledged (InfiniBand Architecture 9.7.3 to 9.7.5), or, where reliability is
//! selective, the packets that it asks for.
//!
//! Packets are counted without end from the start; PSNs are the low 24 bits of the counts. In order:
//! `acknowledged <= next <= sent <= posted`, and no packet is sent a window or more ahead of `acknowledged`. Numbers that are
//! skipped (EPIC 4.3, group PSN synchronisation) belong to no work: they count as acknowledged with what comes before them.

use crate::congestion::Congestion;
use crate::{
    DropReason, INFINITE_RNR_RETRIES, Mutation, QueuePairConfig, QueuePairSink, QueuePairTimer, Reliability,
    packet,
};
use alloc::collections::VecDeque;
use quincunx_collective::Payload;
use quincunx_engine::verbs::{
    Completion, Failure, Memory, RegionId, SendRequest, Slice, UNLIMITED_RETRIES, Verb,
};
use quincunx_engine::{Frame, Missing, RoundTrip, Sparse};
use quincunx_units::{ByteCount, Duration, Instant, Packets};
use quincunx_wire::aeth::{credits, receiver_not_ready_delay};
use quincunx_wire::{Aeth, NakCode, Operation, Psn, Syndrome};

/// A work request and the packets that it is cut into.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Work {
    request: SendRequest,
    /// Count of its first packet.
    first: u64,
    /// Count behind its last packet.
    end: u64,
    /// It asks for an acknowledge by itself, whatever follows.
    is_final: bool,
    /// How many messages came before it.
    number: u64,
}

impl Work {
    /// Whether the peer needs a receive request for it.
    fn consumes_receive(&self) -> bool {
        self.request.verb == Verb::Send || self.request.immediate.is_some()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Requester {
    /// Work that the peer has not acknowledged whole, oldest first.
    queue: VecDeque<Work>,
    /// The work that `next` belongs to; the queue's length when all is sent.
    cursor: usize,
    /// The oldest packet that is not acknowledged.
    acknowledged: u64,
    /// The packet to send next; goes back when packets are lost.
    next: u64,
    /// One more than the newest packet ever sent.
    sent: u64,
    /// Packets before `next` that go out again before it does; none unless reliability is selective.
    again: Sparse<()>,
    /// One more than the last packet of all work.
    posted: u64,
    /// One more than the last packet that asked for an acknowledge.
    asked: u64,
    retries_left: u16,
    rnr_retries_left: u8,
    /// The retry timer is armed at the driver.
    retry_armed: bool,
    /// How long answers take; measured where reliability is selective.
    round_trip: RoundTrip,
    /// The peer is to be asked what has arrived.
    is_question_due: bool,
    /// The peer was not ready: nothing is sent until the timer fires.
    waiting: bool,
    /// Messages posted so far.
    messages: u64,
    /// The peer has receive requests for the messages before this one, as far as it has said (9.7.7.2), by credits or by not being ready;
    /// nothing if it has not, or keeps no count.
    limit: Option<u64>,
    /// What is left of the window where the way is congested, if it reacts to that.
    congestion: Option<Congestion>,
}

impl Requester {
    pub(crate) fn new(config: &QueuePairConfig) -> Self {
        let start = crate::first_count(config.send_psn);
        let has_window = config.congestion_window && config.reliability == Reliability::Selective;
        Self {
            queue: VecDeque::new(),
            congestion: has_window.then(|| Congestion::new(config.window.get(), start)),
            cursor: 0,
            acknowledged: start,
            next: start,
            sent: start,
            again: Sparse::default(),
            posted: start,
            asked: start,
            retries_left: config.retry_count,
            rnr_retries_left: config.rnr_retry_count,
            retry_armed: false,
            round_trip: RoundTrip::default(),
            is_question_due: false,
            waiting: false,
            messages: 0,
            limit: None,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn posted_psn(&self) -> Psn {
        Psn::from_count(self.posted)
    }

    pub(crate) fn uses(&self, region: RegionId) -> bool {
        self.queue.iter().any(|work| work.request.source.region == region)
    }

    pub(crate) fn post(&mut self, config: &QueuePairConfig, request: SendRequest) {
        let first = self.posted;
        self.posted += request.source.length.div_ceil(config.mtu).max(1) as u64;
        let number = self.messages;
        self.messages += 1;
        self.queue.push_back(Work { request, first, end: self.posted, is_final: false, number });
    }

    /// Numbers the next message posted `packets` further on. What was posted before asks for its acknowledge by itself: what
    /// follows may be for somebody else.
    pub(crate) fn skip(&mut self, packets: u64) {
        self.posted += packets;
        match self.queue.back_mut() {
            Some(work) => work.is_final = true,
            None => {
                let count = self.posted;
                (self.acknowledged, self.next, self.sent, self.asked) = (count, count, count, count);
            }
        }
    }

    /// Whether what is sent next asks what has arrived.
    pub(crate) fn is_question_due(&self) -> bool {
        self.is_question_due
    }

    #[inline]
    pub(crate) fn wants_transmit(&self, config: &QueuePairConfig) -> bool {
        let has_new =
            || self.next_packet().is_some_and(|next| self.has_room(config, next)) && self.may_go_on();
        !self.waiting && (self.is_question_due || !self.again.is_empty() || has_new())
    }

    /// Packets on the wire, at most.
    pub(crate) fn window(&self, config: &QueuePairConfig) -> Packets {
        self.congestion.as_ref().map_or(config.window, |congestion| Packets::new(congestion.window()))
    }

    /// Whether packet `next` may be on the wire, too. Of a window that was narrowed one more may be where nothing on the wire asks for an acknowledge:
    /// it does.
    fn has_room(&self, config: &QueuePairConfig, next: u64) -> bool {
        let ahead = next - self.acknowledged;
        ahead < u64::from(self.window(config))
            || self.asked <= self.acknowledged && ahead < u64::from(config.window)
    }

    /// Whether the peer has a receive request for a message; or has not told.
    fn has_credit(&self, work: &Work) -> bool {
        self.limit.is_none_or(|limit| work.number < limit) || !work.consumes_receive()
    }

    /// Whether the message at the cursor may be sent; or one packet of it, which asks for an acknowledge, where nothing else that is on its way
    /// finds out whether the peer has a receive request by now.
    fn may_go_on(&self) -> bool {
        let Some(work) = self.queue.get(self.cursor) else { return false };
        self.has_credit(work) || self.asked <= self.acknowledged
    }

    /// The packet to send next, behind numbers that are skipped.
    #[inline]
    fn next_packet(&self) -> Option<u64> {
        self.queue.get(self.cursor).map(|work| self.next.max(work.first))
    }

    /// Sends one packet, which must be wanted; returns the bytes of its payload.
    pub(crate) fn transmit<P: Payload>(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        memory: &Memory<P>,
        out: &mut impl QueuePairSink<P>,
    ) -> ByteCount {
        assert!(self.wants_transmit(config), "a packet is due");
        // What the peer has asked for goes before any question: of one that asks often nothing else would leave.
        let again = self.again.pop_before(u64::MAX).map(|(count, ())| count);
        if again.is_none() && core::mem::replace(&mut self.is_question_due, false) {
            self.ask(config, out);
            return ByteCount::new(0);
        }
        let count = again.or_else(|| self.next_packet()).expect("a packet is due");
        let place = match again {
            Some(count) => self.queue.partition_point(|work| work.end <= count),
            None => self.cursor,
        };
        let work = &self.queue[place];
        let source = work.request.source;
        let index = count - work.first;
        let begin = index as usize * config.mtu;
        let length = config.mtu.min(source.length - begin);
        let is_last = count + 1 == work.end;
        let following = match self.queue.get(place + 1) {
            Some(work) if is_last => work.first,
            _ => count + 1,
        };
        let fills_window = following - self.acknowledged >= u64::from(self.window(config));

        let mut header = crate::header_to_remote(
            config,
            Psn::from_count(count),
            packet::operation(&work.request, index == 0, is_last),
        );
        // A message that another one follows at once leaves the asking to that one, unless it is long enough itself: one
        // acknowledge answers for both.
        let every = self.acknowledge_every(config);
        let is_followed = self.queue.get(place + 1).is_some_and(|next| self.has_credit(next));
        let ends_burst = work.is_final || !is_followed || count + 1 >= self.asked + every;
        let asks = fills_window || (index + 1).is_multiple_of(every) || !self.has_credit(work);
        header.acknowledge_request = (is_last && ends_burst) || asks || again.is_some();
        let was_due = self.is_answer_due();
        if header.acknowledge_request {
            self.asked = self.asked.max(count + 1);
        }
        let resends_next = config.mutation == Some(Mutation::ResendsNext) && count < self.sent && !is_last;
        let begin = if resends_next { begin + config.mtu } else { begin };
        let length = length.min(source.length - begin);
        let piece = Slice { region: source.region, offset: source.offset + begin, length };
        out.transmit(Frame { header: &header, payload: memory.view(piece) });

        if again.is_none() {
            let is_measured = count >= self.sent && config.reliability == Reliability::Selective;
            if is_measured && header.acknowledge_request {
                self.round_trip.sent(count, now);
            }
            if let Some(congestion) = self.congestion.as_mut().filter(|_| is_measured) {
                congestion.sent(count, now);
            }
            self.move_next(count + 1);
            self.sent = self.sent.max(self.next);
        }
        if !self.retry_armed || self.is_answer_due() && !was_due {
            self.arm(config, out);
        }
        ByteCount::new(length as u64)
    }

    /// Asks what has arrived, by the number of the newest packet on the wire: those behind that have left before the sender went back go out
    /// anyway, and in a window that was narrowed they may have to wait for what is asked about.
    fn ask<P: Payload>(&mut self, config: &QueuePairConfig, out: &mut impl QueuePairSink<P>) {
        if let Some(congestion) = &mut self.congestion {
            congestion.forget();
        }
        let psn = Psn::from_count(self.next.max(self.acknowledged + 1) - 1);
        let mut header = crate::header_to_remote(config, psn, Operation::QUESTION);
        header.acknowledge_request = true;
        out.transmit(Frame { header: &header, payload: P::empty() });
        self.arm(config, out);
    }

    /// What the other half has seen of the peer's answers, which is all that is known before this one has sent anything.
    pub(crate) fn suppose(&mut self, missing: &Missing) {
        self.round_trip.suppose(missing);
    }

    /// Packets between two that ask for an acknowledge: twice in a window that was narrowed, so that one half is on the wire while the other is
    /// answered.
    fn acknowledge_every(&self, config: &QueuePairConfig) -> u64 {
        let every = u64::from(config.acknowledge_every);
        match &self.congestion {
            Some(congestion) if congestion.is_narrowed() => every.min((congestion.window() / 2).into()),
            _ => every,
        }
    }

    /// Somebody tells of congestion. Whether the window reacts to that.
    pub(crate) fn slow_down(&mut self) -> bool {
        if let Some(congestion) = &mut self.congestion {
            congestion.notified(self.acknowledged, self.sent);
        }
        self.congestion.is_some()
    }

    /// How long an answer took, if that is known.
    fn measure(&mut self, time: Option<Duration>) {
        if let (Some(congestion), Some(time)) = (&mut self.congestion, time) {
            congestion.measured(time);
        }
    }

    /// Whether a packet is on the wire that asked for an acknowledge.
    fn is_answer_due(&self) -> bool {
        self.asked > self.acknowledged
    }

    /// How long answers are waited for. Packets that have not asked for an acknowledge get none within a round trip; going back costs a
    /// window each time.
    fn timeout(&self, config: &QueuePairConfig) -> Duration {
        let longest = config.retry_timeout;
        let is_probe = self.is_answer_due() && config.reliability == Reliability::Selective;
        if is_probe { self.round_trip.timeout(longest) } else { longest }
    }

    /// Arms the retry timer, in place of an earlier deadline.
    fn arm<P: Payload>(&mut self, config: &QueuePairConfig, out: &mut impl QueuePairSink<P>) {
        self.retry_armed = true;
        out.set_timer(QueuePairTimer::Retry, self.timeout(config));
    }

    /// Takes an acknowledge. An error means that the queue pair has failed, through its oldest work.
    pub(crate) fn handle_acknowledge<P: Payload>(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        psn: Psn,
        Aeth { syndrome, message_sequence }: Aeth,
        out: &mut impl QueuePairSink<P>,
    ) -> Result<(), Failure> {
        let more = match syndrome {
            Syndrome::Ack(code) if config.credits => self.take_credits(code, message_sequence),
            _ => false,
        };
        let count = match config.mutation {
            Some(Mutation::PsnNoWrap) => self.acknowledged >> 24 << 24 | u64::from(psn.value()),
            _ => psn.to_count_near(self.acknowledged),
        };
        let is_outstanding = (self.acknowledged..self.sent).contains(&count);
        match syndrome {
            Syndrome::Ack(_) if is_outstanding => self.advance(now, config, count + 1, out),
            // It acknowledges what was acknowledged, and tells of receive requests.
            Syndrome::Ack(_) if more => {}
            Syndrome::Nak(NakCode::SequenceError)
                if is_outstanding && config.mutation == Some(Mutation::NakAsAck) =>
            {
                self.advance(now, config, count + 1, out);
            }
            Syndrome::Nak(NakCode::SequenceError) if config.reliability == Reliability::Selective => {
                // From `next` on packets go out anyway; before the window the peer has been overtaken by its ACK.
                // A number that was skipped is nobody's packet.
                if (self.acknowledged..self.next).contains(&count) && self.is_carried(count) {
                    if config.mutation == Some(Mutation::NakAcknowledges) {
                        self.advance(now, config, count, out);
                    }
                    let time = self.round_trip.asked_for(count, now);
                    self.measure(time);
                    if let Some(congestion) = &mut self.congestion {
                        congestion.lost(count, self.sent, now);
                    }
                    self.again.insert(count, ());
                    if self.retry_armed && self.round_trip.puts_off(count, now) {
                        self.arm(config, out);
                    }
                } else {
                    out.drop_frame(DropReason::StaleAcknowledge);
                }
            }
            Syndrome::Nak(NakCode::SequenceError) if is_outstanding => {
                self.advance(now, config, count, out);
                self.go_back();
            }
            // A peer that asks for packets which it has acknowledged has lost its numbering (a switch that was set up
            // again) or was overtaken by its own acknowledge: both are well served by all that is outstanding.
            Syndrome::Nak(NakCode::SequenceError) if count < self.acknowledged && !self.queue.is_empty() => {
                self.go_back();
            }
            Syndrome::ReceiverNotReady(code) if is_outstanding => {
                self.advance(now, config, count, out);
                if config.credits {
                    // There is none for the message that it was not ready for.
                    self.limit = self.queue.front().map(|work| work.number);
                }
                return self.wait(code, out);
            }
            Syndrome::Nak(code) if is_outstanding && code != NakCode::SequenceError => {
                self.advance(now, config, count, out);
                return Err(match code {
                    NakCode::RemoteAccess => Failure::RemoteAccess,
                    NakCode::RemoteOperational => Failure::RemoteOperational,
                    NakCode::InvalidRequest | NakCode::SequenceError => Failure::InvalidRequest,
                });
            }
            _ => out.drop_frame(DropReason::StaleAcknowledge),
        }
        Ok(())
    }

    /// The peer has completed so many messages, modulo 2^24, and has receive requests for so many more. Whether there is room for more than it
    /// had told of.
    fn take_credits(&mut self, code: u8, message_sequence: u32) -> bool {
        let oldest = self.queue.front().map_or(self.messages, |work| work.number);
        let behind = (oldest as u32).wrapping_sub(message_sequence) << 8;
        let completed = oldest.saturating_add_signed(-i64::from(behind as i32 >> 8));
        let before = self.limit;
        self.limit = credits(code).map(|credits| before.unwrap_or(0).max(completed + u64::from(credits)));
        self.limit > before
    }

    /// Whether `count` is a packet of some work, not a number that was skipped.
    fn is_carried(&self, count: u64) -> bool {
        let place = self.queue.partition_point(|work| work.end <= count);
        self.queue.get(place).is_some_and(|work| work.first <= count)
    }

    /// Takes the expiry of the retry timer. An error means that the peer is given up.
    pub(crate) fn handle_retry_timer(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
    ) -> Result<(), Failure> {
        if !self.retry_armed {
            return Ok(());
        }
        self.retry_armed = false;
        let is_long = self.round_trip.expired(now, self.timeout(config), config.retry_timeout);
        if is_long && self.retries_left != UNLIMITED_RETRIES {
            self.retries_left = self.retries_left.checked_sub(1).ok_or(Failure::RetryExceeded)?;
        }
        match config.reliability {
            Reliability::GoBackN | Reliability::Datagrams => self.go_back(),
            Reliability::Selective => self.is_question_due = true,
        }
        Ok(())
    }

    /// Takes the expiry of the receiver-not-ready timer.
    pub(crate) fn handle_receiver_not_ready_timer(&mut self) {
        self.waiting = false;
    }

    /// Ends all work: the oldest with `failure`, the others as flushed. Disarms the timers.
    pub(crate) fn fail<P: Payload>(&mut self, mut failure: Failure, out: &mut impl QueuePairSink<P>) {
        if self.retry_armed {
            out.cancel_timer(QueuePairTimer::Retry);
        }
        if self.waiting {
            out.cancel_timer(QueuePairTimer::ReceiverNotReady);
        }
        (self.retry_armed, self.waiting, self.is_question_due) = (false, false, false);
        while let Some(work) = self.queue.pop_front() {
            out.complete(Completion::Failed { id: work.request.id, failure });
            failure = Failure::Flushed;
        }
        self.cursor = 0;
        self.again.clear();
        (self.acknowledged, self.next, self.sent) = (self.posted, self.posted, self.posted);
    }

    /// Everything before `count` has arrived. Progress starts the retry budgets and the timer anew.
    fn advance<P: Payload>(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        count: u64,
        out: &mut impl QueuePairSink<P>,
    ) {
        if count == self.acknowledged {
            return;
        }
        let time = self.round_trip.acknowledged(count, now);
        self.measure(time);
        if let Some(congestion) = &mut self.congestion {
            congestion.acknowledged(count, count - self.acknowledged);
        }
        self.is_question_due = false;
        // Numbers that are skipped are acknowledged with what comes before them.
        let open = self.queue.iter().find(|work| count < work.end);
        let count = open.map_or(self.posted, |work| count.max(work.first));
        self.acknowledged = count;
        while self.again.pop_before(count).is_some() {}
        self.retries_left = config.retry_count;
        self.rnr_retries_left = config.rnr_retry_count;
        if self.waiting {
            self.waiting = false;
            out.cancel_timer(QueuePairTimer::ReceiverNotReady);
        }
        while self.queue.front().is_some_and(|work| work.end <= count) {
            let work = self.queue.pop_front().expect("the front was just seen");
            self.cursor = self.cursor.saturating_sub(1);
            out.complete(Completion::Sent { id: work.request.id });
        }
        self.move_next(self.next.max(count));
        self.sent = self.sent.max(count);
        self.retry_armed = self.acknowledged < self.sent;
        if self.retry_armed {
            self.arm(config, out);
        } else {
            out.cancel_timer(QueuePairTimer::Retry);
        }
    }

    /// The peer has no receive request for the oldest packet.
    fn wait<P: Payload>(&mut self, code: u8, out: &mut impl QueuePairSink<P>) -> Result<(), Failure> {
        if self.waiting {
            // Another answer to a packet that was already on its way: the wait is running.
            out.drop_frame(DropReason::StaleAcknowledge);
            return Ok(());
        }
        if self.rnr_retries_left != INFINITE_RNR_RETRIES {
            self.rnr_retries_left =
                self.rnr_retries_left.checked_sub(1).ok_or(Failure::ReceiverNotReadyRetryExceeded)?;
        }
        self.go_back();
        self.waiting = true;
        if self.retry_armed {
            self.retry_armed = false;
            out.cancel_timer(QueuePairTimer::Retry);
        }
        out.set_timer(QueuePairTimer::ReceiverNotReady, receiver_not_ready_delay(code));
        Ok(())
    }

    /// Sends again from the oldest packet that is not acknowledged.
    fn go_back(&mut self) {
        self.again.clear();
        self.round_trip.forget();
        if let Some(congestion) = &mut self.congestion {
            congestion.forget();
        }
        self.cursor = 0;
        self.move_next(self.acknowledged);
    }

    /// Puts `next` at `count`, which is not before the work at the cursor.
    #[inline]
    fn move_next(&mut self, count: u64) {
        self.next = count;
        self.asked = self.asked.min(count);
        while self.queue.get(self.cursor).is_some_and(|work| work.end <= count) {
            self.cursor += 1;
        }
    }

    pub(crate) fn assert_invariants(&self, config: &QueuePairConfig) {
        if let Some(congestion) = &self.congestion {
            congestion.assert_invariants();
        }
        assert!(self.acknowledged >= crate::COUNT_BEFORE_START, "a PSN from before has no count");
        assert!(self.acknowledged <= self.next, "next {} fell behind {}", self.next, self.acknowledged);
        assert!(
            self.next <= self.sent && self.sent <= self.posted,
            "{} {} {}",
            self.next,
            self.sent,
            self.posted
        );
        assert!(
            self.sent <= self.acknowledged + u64::from(config.window),
            "window overrun: {} and {}",
            self.acknowledged,
            self.sent
        );
        let mut count = None;
        for work in &self.queue {
            assert!(work.first < work.end, "work of no packets");
            assert!(count.is_none_or(|end| end <= work.first), "work is not numbered in order");
            count = Some(work.end);
        }
        assert!(count.is_none_or(|end| end <= self.posted), "the last work ends after {}", self.posted);
        match self.queue.front() {
            Some(front) => {
                assert!((front.first..front.end).contains(&self.acknowledged), "complete work is queued")
            }
            None => assert_eq!(self.acknowledged, self.posted, "packets without work"),
        }
        match self.queue.get(self.cursor) {
            Some(work) => assert!(self.next < work.end, "the cursor is off"),
            None => {
                let end = self.queue.back().map_or(self.posted, |work| work.end);
                assert!(self.cursor == self.queue.len() && self.next == end, "the cursor is behind")
            }
        }
        assert!(
            self.again
                .numbers()
                .all(|again| (self.acknowledged..self.next).contains(&again) && self.is_carried(again)),
            "what goes out again has gone out and is not acknowledged"
        );
        assert!(!self.retry_armed || self.acknowledged < self.sent, "a timer for nothing");
        assert!(!self.waiting || !self.retry_armed, "both timers run");
        assert!(!self.is_question_due || self.acknowledged < self.sent, "a question about nothing");
        assert!(
            self.next == self.acknowledged
                || self.retry_armed
                || self.is_question_due
                || !self.again.is_empty(),
            "packets are on the wire, and no timer watches them"
        );
    }
}
