//! The round-trip time of a connection, measured as it goes, and the time-out that follows from it (RFC 6298; Karn and
//! Partridge, "Improving Round-Trip Time Estimates in Reliable Transport Protocols", SIGCOMM 1987).
//!
//! A sender times one packet at once, from when it leaves until it is answered. What was sent again is not timed. Nor is a packet
//! that was sent behind a missing one, as its acknowledge waits for that. A receiver times what it asks for once ([`Missing`]).
//!
//! The least time-out is 2 us: the 1 s of RFC 6298 and the 1 ms of RFC 9002 are longer than a collective takes. A time-out that comes
//! too early costs a question, and nothing is sent twice: behind all that it has sent the sender asks what has arrived, and the receiver
//! asks for what has not. So any progress ends the doubling of time-outs, as in RFC 9002 (6.2.1).
//!
//! Where the clock stands still, as in explorations, nothing is measured, and no wait ends: what is missing is asked for again when a
//! question is answered, and else by nothing here.

use quincunx_units::{Duration, Instant};

use crate::Sparse;

/// The first time-out, before anything is measured. RFC 6298 begins with 1 s, as a time-out there sends data.
const FIRST: Duration = Duration::from_micros(300);

/// The least time-out. Packets that come out of order may follow a request so soon that whoever takes them for answers would do nothing but ask.
const LEAST: Duration = Duration::from_micros(2);

/// Time-outs grow to 16 times the first. A peer may have good reason to be silent, such as another who is late; a question is a frame.
const DOUBLINGS: u8 = 4;

/// What is known of a connection's round-trip time. Packets are numbered in the order in which they leave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RoundTrip {
    estimate: Option<Estimate>,
    /// How long the peer takes to send what it is asked for, and when the newest request was made that it has answered
    /// ([`suppose`](Self::suppose)).
    requests: Option<Estimate>,
    answered: Instant,
    timed: Option<Timed>,
    /// How often the next time-out is doubled: once for each in a row.
    backoff: u8,
    /// How long nothing has been answered, over time-outs in a row, since that was last the longest time-out.
    waited: Duration,
    /// The newest packet that the peer has asked for since there was progress, or a time-out.
    requested: Option<u64>,
}

/// The smoothed time and its mean deviation: SRTT and RTTVAR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Estimate {
    smoothed: Duration,
    deviation: Duration,
}

impl Estimate {
    /// With one more measurement. None that took no time: the clock stands still.
    fn with(before: Option<Self>, time: Duration) -> Option<Self> {
        let (smoothed, deviation) = match before {
            _ if time == Duration::ZERO => return before,
            None => (time, time / 2),
            Some(Self { smoothed, deviation }) => {
                let error = if time > smoothed { time - smoothed } else { smoothed - time };
                ((smoothed * 7 + time) / 8, (deviation * 3 + error) / 4)
            }
        };
        Some(Self { smoothed, deviation })
    }

    /// An answer that takes longer is worth a question, which costs a frame without payload.
    fn usual(self) -> Duration {
        self.smoothed + self.deviation.max(self.smoothed / 4)
    }

    /// So long nearly every answer takes at most. On a path whose time hardly varies, half of it is left for what has not been seen yet.
    fn most(self) -> Duration {
        self.smoothed + (self.deviation * 4).max(self.smoothed / 2)
    }
}

/// A packet that is being timed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Timed {
    number: u64,
    sent: Instant,
    /// A packet before it is missing.
    is_held_up: bool,
    /// A time-out has passed since.
    is_late: bool,
}

impl RoundTrip {
    /// Packet `number` leaves for the first time, and asks for an answer.
    pub fn sent(&mut self, number: u64, now: Instant) {
        if self.timed.is_none() && now > Instant::ZERO {
            self.timed = Some(Timed { number, sent: now, is_held_up: false, is_late: false });
        }
    }

    /// All packets before `arrived` are acknowledged, which is news. Returns how long the answer took, if one was timed and the answer is known
    /// to be to what was sent once.
    pub fn acknowledged(&mut self, arrived: u64, now: Instant) -> Option<Duration> {
        (self.backoff, self.waited, self.requested) = (0, Duration::ZERO, None);
        let timed = self.timed.take_if(|timed| timed.number < arrived).filter(|timed| !timed.is_held_up)?;
        let time = now.since(timed.sent);
        let learnt = match self.estimate {
            // The answer may be to what was sent again: a longer time is learnt all the same, but not at once.
            Some(estimate) if timed.is_late => time.min(estimate.most() * 2),
            _ => time,
        };
        self.estimate = Estimate::with(self.estimate, learnt);
        (!timed.is_late && time > Duration::ZERO).then_some(time)
    }

    /// The peer asks for packet `number` alone, as something behind it has arrived. Returns how long that took, as an acknowledge does.
    pub fn asked_for(&mut self, number: u64, now: Instant) -> Option<Duration> {
        let timed = self.timed.as_mut()?;
        if number < timed.number {
            timed.is_held_up = true;
            return None;
        }
        let time = now.since(timed.sent);
        let is_late = timed.is_late;
        self.timed = None;
        if is_late {
            return None;
        }
        self.estimate = Estimate::with(self.estimate, time);
        (time > Duration::ZERO).then_some(time)
    }

    /// Whether a time-out begins anew, as the peer is there, and packet `number`, which it asks for, takes a round trip from now. What it
    /// asks for once more does not put off the time-out of a packet that it does not know of, which nobody would ever ask for.
    pub fn puts_off(&mut self, number: u64, now: Instant) -> bool {
        let is_news = self.requested.is_none_or(|newest| newest < number);
        if is_news && now > Instant::ZERO {
            self.requested = Some(number);
        }
        is_news
    }

    /// What was asked for tells how long answers take, too. An acknowledge may wait for others than the peer, where it is of a sum of
    /// several (EPIC 4.3), and a question is answered by the peer alone: the shorter of the two times tells when to ask. A peer that
    /// answers is there, which ends the doubling of time-outs.
    pub fn suppose(&mut self, missing: &Missing) {
        self.requests = missing.answers;
        if missing.answered > self.answered {
            self.answered = missing.answered;
            self.backoff = 0;
        }
    }

    /// Packets leave once more, whatever was answered.
    pub fn forget(&mut self) {
        self.timed = None;
    }

    /// Nothing has been answered for a [`timeout`](Self::timeout), and perhaps for others before it. Whether that makes `longest`, after
    /// which one has heard too little of the peer.
    pub fn expired(&mut self, now: Instant, timeout: Duration, longest: Duration) -> bool {
        if now == Instant::ZERO {
            return true;
        }
        if let Some(timed) = &mut self.timed {
            timed.is_late = true;
        }
        self.requested = None;
        self.waited += timeout;
        let is_long = self.waited >= longest;
        if is_long {
            self.waited = Duration::ZERO;
        }
        if timeout < longest {
            self.backoff = DOUBLINGS.min(self.backoff + 1);
        }
        is_long
    }

    /// How long to wait for an answer before a question: the time that it takes with a deviation, doubled by each
    /// time-out. 0.3 ms at first, and never more than `longest`.
    pub fn timeout(&self, longest: Duration) -> Duration {
        let usual = self.estimate.into_iter().chain(self.requests).map(Estimate::usual).min();
        doubled(usual.map_or(FIRST, |usual| usual.max(LEAST)), self.backoff, longest)
    }
}

/// Packets that have not arrived though later ones have, and were asked for.
///
/// What was lost, or whose request was, is asked for once more: when a later request is known to be answered (as RACK tells losses,
/// RFC 8985), when what had come comes again behind a question, or else after the time that nearly every answer takes. That wait doubles for each packet: where an answer takes several peers, or
/// the way is full, asking more often brings more of the same.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Missing {
    asked: Sparse<Asked>,
    /// How long it takes from a request to the packet, and whether the packets of which that was learnt are known to be answers.
    answers: Option<Estimate>,
    are_known: bool,
    /// When the newest request was made that is known to be answered.
    answered: Instant,
    /// The peer seems to have answered a question.
    has_heard: bool,
    /// When the newest packet came that is known to be an answer.
    last_answer: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Asked {
    last: Instant,
    /// How often it was asked for once more: to which request the packet is the answer, nobody knows then.
    repeats: u8,
    /// A question followed.
    is_questioned: bool,
}

impl Missing {
    /// Packet `number` is asked for, perhaps once more.
    pub fn ask(&mut self, number: u64, now: Instant) {
        let repeats = self.asked.get(number).map_or(0, |asked| asked.repeats + u8::from(asked.last < now));
        let repeats = repeats.min(DOUBLINGS);
        self.asked.insert(number, Asked { last: now, repeats, is_questioned: false });
    }

    /// Packet `number` has arrived. Whether it is known to be an answer: where packets come out of order anyway, what was asked for may
    /// have been on its way, and tells nothing of answers once there has been one that is known.
    pub fn arrived(&mut self, number: u64, now: Instant, is_answer: bool) {
        let Some(Asked { last, repeats, .. }) = self.asked.remove(number) else { return };
        if is_answer {
            self.last_answer = now;
        }
        if repeats > 0 {
            return;
        }
        if is_answer && !self.are_known {
            (self.are_known, self.answers) = (true, None);
        }
        if is_answer == self.are_known {
            self.answers = Estimate::with(self.answers, now.since(last));
        }
        if is_answer {
            self.answered = self.answered.max(last);
        }
    }

    /// The peer is asked what has arrived of all that was sent to it.
    pub fn question(&mut self) {
        self.asked.iter_mut().for_each(|(_, asked)| asked.is_questioned = true);
    }

    /// What had come comes once more, as by a peer that answers a question: it has heard what was asked for before that, too.
    pub fn come_again(&mut self, now: Instant, is_answer: bool) {
        self.has_heard = true;
        if is_answer {
            self.last_answer = now;
        }
    }

    /// Nothing before `number` is missing.
    pub fn forget_before(&mut self, number: u64) {
        while self.asked.pop_before(number).is_some() {}
    }

    /// Nothing is missing.
    pub fn clear(&mut self) {
        self.asked.clear();
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// What is missing, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.asked.numbers()
    }

    /// Asks once more, by `ask`, for what was lost, or whose request was. Nothing is waited for for longer than half of `longest`, the
    /// sender's longest time-out.
    pub fn ask_again(&mut self, now: Instant, longest: Duration, mut ask: impl FnMut(u64)) {
        let longest = longest / 2;
        let patience = self.answers.map_or(longest, Estimate::most);
        let has_heard = core::mem::take(&mut self.has_heard);
        for (number, asked) in self.asked.iter_mut() {
            let is_overtaken = asked.last < self.answered || has_heard && asked.is_questioned;
            let is_overdue =
                || now.since(asked.last.max(self.last_answer)) >= doubled(patience, asked.repeats, longest);
            if is_overtaken || is_overdue() {
                let repeats = DOUBLINGS.min(asked.repeats + 1);
                *asked = Asked { last: now, repeats, is_questioned: false };
                ask(number);
            }
        }
    }
}

/// `time`, doubled so many times, and `longest` at most.
fn doubled(time: Duration, times: u8, longest: Duration) -> Duration {
    let mut doubled = time;
    for _ in 0..times {
        if doubled >= longest {
            break;
        }
        doubled = doubled * 2;
    }
    doubled.min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const LONGEST: Duration = Duration::from_millis(20);
    const NONE: [u64; 0] = [];

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// A time-out: how long it was, and whether that and those before it were long enough to count.
    fn expire(round_trip: &mut RoundTrip) -> (Duration, bool) {
        let timeout = round_trip.timeout(LONGEST);
        (timeout, round_trip.expired(at(1), timeout, LONGEST))
    }

    fn overdue(missing: &mut Missing, now: Instant) -> Vec<u64> {
        let mut overdue = Vec::new();
        missing.ask_again(now, LONGEST, |number| overdue.push(number));
        overdue
    }

    /// After one measurement of 100 us.
    fn measured() -> RoundTrip {
        let mut round_trip = RoundTrip::default();
        round_trip.sent(0, at(10));
        round_trip.acknowledged(1, at(110));
        round_trip
    }

    #[test]
    fn before_the_first_answer_a_fixed_time_out_is_doubled() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent(0, at(10));
        round_trip.acknowledged(0, at(20));
        let timeouts: [Duration; 6] = core::array::from_fn(|_| expire(&mut round_trip).0);
        assert_eq!(timeouts, [300, 600, 1_200, 2_400, 4_800, 4_800].map(Duration::from_micros));
        assert_eq!(RoundTrip::default().timeout(Duration::from_micros(100)), Duration::from_micros(100));
    }

    #[test]
    fn the_time_out_is_the_smoothed_time_and_a_deviation() {
        // RFC 6298, 2.2: 100 us and half of that.
        assert_eq!(measured().timeout(LONGEST), Duration::from_micros(150));
        let mut round_trip = measured();
        round_trip.sent(1, at(200));
        round_trip.acknowledged(2, at(480));
        // 2.3: 7/8 of 100 us and 1/8 of 280 us; 3/4 of 50 us and 1/4 of 180 us.
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_nanos(122_500 + 82_500));
    }

    #[test]
    fn answers_that_seem_to_take_no_time_leave_a_least_time_out() {
        let mut missing = Missing::default();
        missing.ask(3, Instant::ZERO + Duration::from_nanos(100));
        missing.arrived(3, Instant::ZERO + Duration::from_nanos(200), false);
        let mut round_trip = RoundTrip::default();
        round_trip.suppose(&missing);
        assert_eq!(round_trip.timeout(LONGEST), LEAST);
        assert_eq!(round_trip.timeout(LEAST / 2), LEAST / 2, "the longest is the longest");
    }

    #[test]
    fn a_quarter_of_the_time_is_left_where_it_does_not_vary() {
        let mut round_trip = measured();
        for number in 1..50 {
            round_trip.sent(number, at(200 * number));
            round_trip.acknowledged(number + 1, at(200 * number + 100));
        }
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(125));
    }

    #[test]
    fn each_time_out_doubles_the_next_up_to_a_bound_until_something_is_acknowledged() {
        let mut round_trip = measured();
        let timeouts: [Duration; 6] = core::array::from_fn(|_| expire(&mut round_trip).0);
        assert_eq!(timeouts, [150, 300, 600, 1_200, 2_400, 2_400].map(Duration::from_micros));
        round_trip.acknowledged(2, at(100_100));
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
    }

    #[test]
    fn whoever_has_waited_for_the_longest_time_out_in_parts_has_waited_for_it() {
        let mut round_trip = measured();
        // 4.65 ms, and seven times 2.4; from then on 2.4 ms nine times.
        let counts = [12, 9].map(|most| (1..=most).find(|_| expire(&mut round_trip).1));
        assert_eq!(counts, [Some(12), Some(9)]);
    }

    #[test]
    fn what_timed_out_counts_for_twice_the_time_out_at_most() {
        let mut round_trip = measured();
        round_trip.sent(1, at(200));
        expire(&mut round_trip);
        round_trip.acknowledged(2, at(5_000));
        // 7/8 of 100 us and 1/8 of 600 us; 3/4 of 50 us and 1/4 of 500 us.
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_nanos(162_500 + 162_500));
    }

    #[test]
    fn what_timed_out_and_was_asked_for_is_not_measured() {
        let mut round_trip = measured();
        round_trip.sent(1, at(200));
        expire(&mut round_trip);
        round_trip.asked_for(1, at(5_000));
        round_trip.acknowledged(2, at(5_100));
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
    }

    #[test]
    fn a_packet_behind_a_missing_one_is_not_measured() {
        let mut round_trip = measured();
        round_trip.sent(7, at(200));
        round_trip.asked_for(6, at(250));
        round_trip.acknowledged(8, at(5_000));
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
    }

    #[test]
    fn a_request_for_it_or_for_what_was_sent_behind_it_answers_a_packet() {
        for missing in [7, 9] {
            let mut round_trip = RoundTrip::default();
            round_trip.sent(7, at(200));
            round_trip.asked_for(missing, at(300));
            assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150), "{missing}");
        }
    }

    #[test]
    fn how_long_an_answer_took_is_told_if_it_is_to_what_was_sent_once() {
        let sent = |micros| {
            let mut round_trip = measured();
            round_trip.sent(7, at(micros));
            round_trip
        };
        let took = Some(Duration::from_micros(300));
        assert_eq!(sent(200).acknowledged(8, at(500)), took);
        assert_eq!(sent(200).asked_for(7, at(500)), took);
        assert_eq!(sent(200).acknowledged(7, at(500)), None, "it is not answered");
        let mut held_up = sent(200);
        assert_eq!([held_up.asked_for(6, at(300)), held_up.acknowledged(8, at(500))], [None; 2]);
        let late = || {
            let mut round_trip = sent(200);
            expire(&mut round_trip);
            round_trip
        };
        assert_eq!([late().acknowledged(8, at(500)), late().asked_for(7, at(500))], [None; 2]);
        assert_eq!([sent(200).acknowledged(8, at(200)), sent(200).asked_for(7, at(200))], [None; 2]);
        assert_eq!([measured().acknowledged(8, at(500)), measured().asked_for(7, at(500))], [None; 2]);
    }

    #[test]
    fn one_packet_at_a_time_is_timed() {
        let mut round_trip = RoundTrip::default();
        round_trip.sent(0, at(10));
        round_trip.sent(1, at(100));
        round_trip.acknowledged(2, at(110));
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
    }

    #[test]
    fn a_clock_that_stands_still_leaves_no_trace() {
        assert!(
            [1, 1].map(|number| RoundTrip::default().puts_off(number, Instant::ZERO)).iter().all(|is| *is)
        );
        for now in [Instant::ZERO, at(5)] {
            let mut round_trip = RoundTrip::default();
            round_trip.puts_off(1, Instant::ZERO);
            round_trip.sent(0, now);
            round_trip.acknowledged(1, now);
            assert!(round_trip.expired(Instant::ZERO, FIRST, LONGEST));
            assert_eq!(round_trip, RoundTrip::default());
        }
    }

    #[test]
    fn what_is_missing_is_asked_for_again_when_an_answer_would_have_come() {
        let mut missing = Missing::default();
        for number in [3, 4] {
            missing.ask(number, at(10));
        }
        assert_eq!(overdue(&mut missing, at(1_000)), NONE);
        missing.arrived(3, at(1_010), false);
        // The packet took 1 ms; one is waited for for 3 ms.
        assert_eq!(overdue(&mut missing, at(3_009)), NONE);
        assert_eq!(overdue(&mut missing, at(3_010)), [4]);
    }

    /// Three packets are asked for, and the first comes 1 ms later.
    fn three_asked() -> Missing {
        let mut missing = Missing::default();
        for number in [3, 4, 5] {
            missing.ask(number, at(10));
        }
        missing.arrived(3, at(1_010), true);
        missing
    }

    #[test]
    fn while_answers_come_one_more_is_waited_for() {
        let mut missing = three_asked();
        missing.arrived(5, at(2_010), true);
        // The two took 1.125 ms, with a deviation of 0.625 ms.
        assert_eq!(overdue(&mut missing, at(2_010 + 3_624)), NONE);
        assert_eq!(overdue(&mut missing, at(2_010 + 3_625)), [4]);
        let mut missing = three_asked();
        missing.come_again(at(2_010), true);
        assert_eq!(overdue(&mut missing, at(2_010 + 2_999)), NONE);
        assert_eq!(overdue(&mut missing, at(2_010 + 3_000)), [4, 5]);
    }

    #[test]
    fn what_was_not_asked_for_is_no_answer() {
        let mut missing = three_asked();
        missing.arrived(9, at(2_010), true);
        assert_eq!(overdue(&mut missing, at(1_010 + 3_000)), [4, 5]);
    }

    #[test]
    fn each_request_in_vain_doubles_the_wait_for_its_packet_up_to_half_the_longest_time_out() {
        let mut missing = Missing::default();
        for number in [3, 4] {
            missing.ask(number, at(0));
        }
        missing.arrived(3, at(1_000), false);
        // 3 ms, 6 ms, and 10 ms in place of 12.
        for before in [3_000, 9_000, 19_000, 29_000] {
            assert_eq!(overdue(&mut missing, at(before - 1)), NONE);
            assert_eq!(overdue(&mut missing, at(before)), [4]);
        }
    }

    #[test]
    fn what_was_asked_for_before_something_that_is_answered_is_lost() {
        let mut missing = Missing::default();
        for (number, now) in [(3, 10), (4, 20), (5, 20), (6, 30)] {
            missing.ask(number, at(now));
        }
        missing.arrived(5, at(120), true);
        assert_eq!(overdue(&mut missing, at(120)), [3]);
        // Once for each that overtakes it.
        assert_eq!(overdue(&mut missing, at(121)), NONE);
        missing.ask(7, at(130));
        missing.arrived(7, at(230), true);
        assert_eq!(overdue(&mut missing, at(230)), [3, 4, 6]);
    }

    #[test]
    fn what_may_have_been_on_its_way_overtakes_nothing() {
        let mut missing = Missing::default();
        for (number, now) in [(3, 10), (4, 20)] {
            missing.ask(number, at(now));
        }
        missing.arrived(4, at(120), false);
        assert_eq!(overdue(&mut missing, at(120)), NONE);
    }

    #[test]
    fn an_answer_to_one_of_two_requests_overtakes_nothing() {
        let mut missing = Missing::default();
        for (number, now) in [(3, 20), (4, 10), (4, 30)] {
            missing.ask(number, at(now));
        }
        missing.arrived(4, at(120), true);
        assert_eq!(overdue(&mut missing, at(120)), NONE);
    }

    #[test]
    fn whoever_answers_a_question_has_heard_what_was_asked_for_before_it() {
        let mut missing = Missing::default();
        missing.ask(3, at(10));
        missing.question();
        missing.ask(4, at(30));
        missing.come_again(at(120), false);
        assert_eq!(overdue(&mut missing, at(120)), [3]);
        missing.come_again(at(121), false);
        assert_eq!(overdue(&mut missing, at(121)), NONE, "once for a question");
        missing.question();
        assert_eq!(overdue(&mut missing, at(122)), NONE, "the next one is not answered yet");
    }

    #[test]
    fn known_answers_alone_tell_how_long_answers_take() {
        let mut missing = Missing::default();
        for number in 3..7 {
            missing.ask(number, at(0));
        }
        // 1 ms, of what may have been on its way; then 100 us, and nothing of 5 ms.
        for (number, now, is_answer) in [(3, 1_000, false), (4, 100, true), (5, 5_000, false)] {
            missing.arrived(number, at(now), is_answer);
        }
        let mut round_trip = RoundTrip::default();
        round_trip.suppose(&missing);
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
    }

    #[test]
    fn which_of_two_requests_was_answered_nobody_knows() {
        let mut missing = Missing::default();
        missing.ask(3, at(10));
        missing.ask(3, at(20));
        missing.arrived(3, at(21), false);
        assert_eq!(missing, Missing::default());
    }

    #[test]
    fn two_requests_at_once_are_one() {
        let [mut once, mut twice] = [(); 2].map(|()| Missing::default());
        once.ask(3, at(10));
        twice.ask(3, at(10));
        twice.ask(3, at(10));
        assert_eq!(once, twice);
    }

    #[test]
    fn before_any_answer_half_the_longest_time_out_passes() {
        let mut missing = Missing::default();
        missing.ask(3, at(0));
        assert_eq!(overdue(&mut missing, at(9_999)), NONE);
        assert_eq!(overdue(&mut missing, at(10_000)), [3]);
    }

    #[test]
    fn answers_to_repeated_requests_are_not_measured() {
        let mut missing = Missing::default();
        missing.ask(3, at(0));
        overdue(&mut missing, at(10_000));
        missing.arrived(3, at(10_001), false);
        assert_eq!(missing, Missing::default());
    }

    /// One packet was asked for, and came after 100 us.
    fn asked() -> Missing {
        let mut missing = Missing::default();
        missing.ask(3, at(10));
        missing.arrived(3, at(110), true);
        missing
    }

    #[test]
    fn who_has_sent_nothing_supposes_what_it_has_seen_of_requests() {
        let mut round_trip = RoundTrip::default();
        round_trip.suppose(&asked());
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
        let mut before = measured();
        before.suppose(&Missing::default());
        assert_eq!(before, measured());
    }

    #[test]
    fn an_answer_to_a_request_ends_the_doubling() {
        let mut round_trip = measured();
        expire(&mut round_trip);
        expire(&mut round_trip);
        round_trip.suppose(&asked());
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(150));
        expire(&mut round_trip);
        round_trip.suppose(&asked());
        assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(300), "once");
    }

    #[test]
    fn of_what_acknowledges_and_requests_take_the_shorter_tells_when_to_ask() {
        for (acknowledge, timeout) in [(40, 60), (5_000, 150)] {
            let mut round_trip = RoundTrip::default();
            round_trip.sent(0, at(10));
            round_trip.acknowledged(1, at(10 + acknowledge));
            round_trip.suppose(&asked());
            assert_eq!(round_trip.timeout(LONGEST), Duration::from_micros(timeout));
        }
    }
}
