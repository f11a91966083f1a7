//! One direction of a link: its state, its statistics, and what a pause does to it.

use crate::busy::BusyBins;
use crate::pausing::{InFlight, Pause, Pausing};
use crate::{LinkConfig, QueueConfig};
use quincunx_engine::{Engine, PortId};
use quincunx_network::{Delay, Fate, Injector};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use std::collections::VecDeque;

/// What a direction of a link has carried so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DirectionStatistics {
    /// Frames sent, lost ones among them.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: ByteCount,
    /// How long bits were on the wire until now.
    pub busy: Duration,
    /// Frames that found no room in the queue.
    pub refused: u64,
    /// Frames lost on the way.
    pub lost: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were held back.
    pub held_back: u64,
    /// Frames marked for congestion.
    pub marked: u64,
    /// The most bytes that were in the queue at once.
    pub peak_queue: ByteCount,
    /// How often it was paused.
    pub pauses: u64,
    /// For how long.
    pub paused: Duration,
    /// The most bytes that were in the input buffer at its end; none without pauses.
    pub peak_buffer: ByteCount,
}

/// One direction of a link. A frame's departure is settled when it is queued: so what waits is a time, and all frames are
/// already on their way. The rare frame that overtakes in the queue puts off those that it overtakes.
pub(crate) struct Channel<E: Engine> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The logical ports at either end that share the direction.
    pub(crate) ports: Vec<(PortId, PortId)>,
    /// The logical port that gets the next transmit slot.
    pub(crate) turn: usize,
    pub(crate) config: LinkConfig,
    /// What background traffic leaves of the rate.
    pub(crate) rate: BitRate,
    /// What frames of the last two lengths take at this rate: most links have hardly more of them.
    times: [(ByteCount, Duration); 2],
    pub(crate) queue: QueueConfig,
    pub(crate) injector: Option<Injector>,
    /// Frames are delivered, each behind the one before, and nothing else can become of them: what [`note_plain`](Self::note_plain) found last.
    is_plain: bool,
    /// When everything queued so far has been sent.
    pub(crate) free_at: Instant,
    /// Which of the channels that start at its node it is.
    pub(crate) place: usize,
    /// In order of arrival.
    pub(crate) in_flight: VecDeque<InFlight<E>>,
    /// By how much frames in flight, from the place on, leave and arrive later than is written in them: what urgent ones that have overtaken
    /// them took. One that has begun to leave is before that place, as is an urgent one and whoever is the first. Zero if there is no frame from there on.
    later: Duration,
    later_from: usize,
    /// The frame that the event queue was told of last; frames are numbered from one.
    announced: u64,
    /// Frames queued so far: what faults count by.
    pub(crate) index: u64,
    pub(crate) statistics: DirectionStatistics,
    pub(crate) busy: BusyBins,
    /// The longest that the queue was, as a time: the peak in bytes follows from it and the rate.
    pub(crate) peak_wait: Duration,
    /// Nothing as long as no pause has to do with it.
    pub(crate) pausing: Option<Box<Pausing<E>>>,
}

impl<E: Engine> Channel<E> {
    pub(crate) fn new(from: u32, to: u32, ports: Vec<(PortId, PortId)>, config: LinkConfig) -> Self {
        Self {
            from,
            to,
            ports,
            turn: 0,
            config,
            rate: config.rate,
            times: Default::default(),
            queue: QueueConfig::default(),
            injector: None,
            is_plain: true,
            free_at: Instant::ZERO,
            place: 0,
            in_flight: VecDeque::new(),
            later: Duration::ZERO,
            later_from: 0,
            announced: 0,
            index: 0,
            statistics: DirectionStatistics::default(),
            busy: BusyBins::new(Instant::ZERO),
            peak_wait: Duration::ZERO,
            pausing: None,
        }
    }

    /// Whether frames are delivered, each behind the one before, and nothing else can become of them.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    fn note_plain(&mut self) {
        self.is_plain =
            self.queue == QueueConfig::default() && self.injector.is_none() && self.pausing.is_none();
    }

    pub(crate) fn set_queue(&mut self, queue: QueueConfig) {
        self.queue = queue;
        self.note_plain();
    }

    pub(crate) fn set_injector(&mut self, injector: Injector) {
        self.settle();
        self.injector = Some(injector);
        self.note_plain();
    }

    /// How long a frame of `length` is on the wire.
    #[inline]
    pub(crate) fn time_for(&mut self, length: ByteCount) -> Duration {
        match self.times {
            [(known, time), _] | [_, (known, time)] if known == length => time,
            [last, _] => {
                let time = self.rate.time_for(length);
                self.times = [(length, time), last];
                time
            }
        }
    }

    /// Lets traffic of others have `rate`, and frames that are queued from now on the rest.
    ///
    /// # Panics
    /// If that is nothing.
    pub(crate) fn set_background(&mut self, rate: Option<BitRate>) {
        let whole = self.config.rate.bits_per_second();
        let left = whole.checked_sub(rate.map_or(0, BitRate::bits_per_second)).and_then(BitRate::new);
        self.rate = left.expect("background traffic leaves some of the rate");
        self.times = Default::default();
    }

    /// Bytes in the queue: what is sent until the port is free.
    pub(crate) fn queued_bytes(&self, now: Instant) -> ByteCount {
        self.rate.bytes_in(self.free_at.since(self.clock(now)))
    }

    /// When a frame that takes `time` can leave: behind all that is queued, or, if it is urgent, before what waits and is
    /// not. That is put off.
    pub(crate) fn reserve_slot(&mut self, now: Instant, time: Duration, urgent: bool) -> Instant {
        if urgent && let Some(start) = self.reserve_slot_in_pause(now, time) {
            return start;
        }
        let now = self.clock(now);
        let start = self.free_at.max(now);
        self.free_at = start + time;
        if !urgent {
            return start;
        }
        if self.is_in_order() {
            self.settle_sent(now);
            let first = self.in_flight.get(self.later_from).map(|frame| frame.start + self.later);
            if first.is_some() {
                self.later += time;
            }
            return first.unwrap_or(start);
        }
        if start == now { start } else { self.put_off_each(now, time, start) }
    }

    /// Whether frames arrive in the order in which they leave, and all that wait do so for the line.
    fn is_in_order(&self) -> bool {
        self.injector.is_none() && self.pausing.is_none()
    }

    /// Puts off each frame that waits and is not urgent; when the first of them would have left, or else `start`.
    fn put_off_each(&mut self, now: Instant, time: Duration, mut start: Instant) -> Instant {
        if let Some(pausing) = &mut self.pausing {
            pausing.put_off(now, time);
        }
        for frame in self.in_flight.iter_mut().filter(|frame| frame.start > now && !frame.urgent) {
            start = start.min(frame.start);
            frame.start = frame.start + time;
            frame.at = frame.at + time;
        }
        // What was held back after it had left is not put off.
        self.in_flight.make_contiguous().sort_unstable_by_key(|frame| (frame.at, frame.sequence));
        start
    }

    /// Has `later` hold for those that wait at `now` and are not urgent, and for no others: looks at those that have left since it was done last.
    fn settle_sent(&mut self, now: Instant) {
        if self.later == Duration::ZERO {
            self.later_from = self.in_flight.partition_point(|frame| frame.urgent || frame.start <= now);
            return;
        }
        while self.in_flight.get(self.later_from).is_some_and(|frame| frame.start + self.later <= now) {
            self.settle_next();
        }
        // The first is told apart before it leaves.
        while let Some(place) = self.later_from.checked_sub(1)
            && let frame = &mut self.in_flight[place]
            && !frame.urgent
            && frame.start > now
        {
            frame.start = frame.start - self.later;
            frame.at = frame.at - self.later;
            self.later_from = place;
        }
    }

    /// Writes into one more frame when it leaves and arrives.
    fn settle_next(&mut self) {
        let frame = &mut self.in_flight[self.later_from];
        frame.start = frame.start + self.later;
        frame.at = frame.at + self.later;
        self.later_from += 1;
        if self.later_from == self.in_flight.len() {
            self.later = Duration::ZERO;
        }
    }

    /// Writes into all frames when they leave and arrive.
    pub(crate) fn settle(&mut self) {
        while self.later != Duration::ZERO {
            self.settle_next();
        }
    }

    /// Takes a frame that leaves at `start` and is delivered into the statistics of a direction that is not paused.
    #[inline(always)]
    pub(crate) fn count_plain(&mut self, now: Instant, start: Instant, length: ByteCount, time: Duration) {
        self.index += 1;
        self.peak_wait = self.peak_wait.max(self.free_at.since(now));
        self.busy.extend(start, self.free_at);
        let statistics = &mut self.statistics;
        statistics.frames += 1;
        statistics.bytes += length;
        statistics.busy += time;
    }

    /// Takes a frame that is sent into the statistics.
    pub(crate) fn count(
        &mut self,
        now: Instant,
        length: ByteCount,
        time: Duration,
        marked: bool,
        fate: &Fate,
    ) {
        self.index += 1;
        self.peak_wait = self.peak_wait.max(self.free_at.since(self.clock(now)));
        self.busy.extend(self.free_at - time, self.free_at);
        let statistics = &mut self.statistics;
        statistics.frames += 1;
        statistics.bytes += length;
        statistics.busy += time;
        statistics.marked += u64::from(marked);
        match fate {
            Fate::Lost => statistics.lost += 1,
            Fate::Doubled { .. } => statistics.duplicated += 1,
            Fate::Late(Delay::Until(_)) | Fate::Delivered => {}
            Fate::Late(_) => statistics.held_back += 1,
        }
    }

    /// Counts from `now` on: of what was queued before, the time that it is still on the wire.
    pub(crate) fn reset_statistics(&mut self, now: Instant) {
        let left = self.free_at.since(self.clock(now));
        self.statistics = DirectionStatistics { busy: left, ..DirectionStatistics::default() };
        self.peak_wait = left;
        self.busy.restart(now);
    }

    /// Puts a frame in the order of arrival.
    #[inline(always)]
    pub(crate) fn launch(&mut self, mut frame: InFlight<E>) {
        if self.later != Duration::ZERO {
            if frame.urgent {
                self.in_flight.insert(self.later_from, frame);
                self.later_from += 1;
                return;
            }
            frame.start = frame.start - self.later;
            frame.at = frame.at - self.later;
        }
        let (frames, key) = (self.unsent_mut(frame.urgent), (frame.at, frame.sequence));
        let is_before = |other: &InFlight<E>| (other.at, other.sequence) <= key;
        if frames.back().is_none_or(is_before) {
            frames.push_back(frame);
        } else {
            let place = frames.partition_point(is_before);
            frames.insert(place, frame);
        }
    }

    /// Puts a frame that is neither urgent nor has another fate than to arrive behind all others. Whether it is the first.
    #[inline(always)]
    pub(crate) fn launch_plain(&mut self, frame: InFlight<E>) -> bool {
        let is_first = self.in_flight.is_empty();
        if is_first {
            self.announced = frame.sequence;
        } else if self.later != Duration::ZERO {
            self.launch(frame);
            return false;
        }
        debug_assert!(self.in_flight.back().is_none_or(|last| last.at <= frame.at), "one behind the other");
        self.in_flight.push_back(frame);
        is_first
    }

    /// When the first frame in flight arrives, if it is the one of that number. Otherwise another has been put before it, of which the queue has
    /// been told.
    #[inline(always)]
    pub(crate) fn first_if(&self, sequence: u64) -> Option<Instant> {
        self.in_flight.front().filter(|first| first.sequence == sequence).map(|first| first.at)
    }

    /// The first frame in flight, to be taken apart and then [dropped](Self::drop_first).
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn first_mut(&mut self) -> &mut InFlight<E> {
        self.in_flight.front_mut().expect("a frame in flight")
    }

    /// The first frame in flight has arrived.
    #[inline(always)]
    pub(crate) fn drop_first(&mut self) {
        self.in_flight.pop_front();
        if self.later != Duration::ZERO {
            self.later_from -= 1;
        }
    }

    /// Puts a frame in the order of arrival as often, and as late, as its fate has it. Arrivals are numbered from the frame's number on;
    /// the last number that is taken then.
    #[cold]
    pub(crate) fn launch_by_fate(&mut self, frame: InFlight<E>, fate: Fate) -> u64 {
        let InFlight { start, at, mut sequence, urgent, port, header, payload } = frame;
        sequence -= 1;
        for delay in fate.arrivals() {
            let at = match delay {
                None => at,
                Some(Delay::HeldBack(longer)) => at + longer,
                Some(Delay::Until(at)) => at.max(start),
                Some(Delay::OvertakenBy(_)) => unreachable!("a plan that asks for it is refused"),
            };
            sequence += 1;
            let (header, payload) = (header.clone(), payload.clone());
            self.launch(InFlight { start, at, sequence, urgent, port, header, payload });
        }
        sequence
    }

    /// Frames on their way or in the queue.
    pub(crate) fn under_way(&self) -> usize {
        self.in_flight.len() + self.pausing.as_ref().map_or(0, |pausing| pausing.waiting())
    }

    /// The first frame to arrive may be another than the event queue was told of.
    pub(crate) fn forget_announced(&mut self) {
        self.announced = 0;
    }

    /// The first frame to arrive, if the event queue has not been told of it: when, and its number. It is told now.
    #[inline(always)]
    pub(crate) fn announce(&mut self) -> Option<(Instant, u64)> {
        if self.later != Duration::ZERO && self.later_from == 0 {
            self.settle_next();
        }
        let first = self.in_flight.front()?;
        let is_new = std::mem::replace(&mut self.announced, first.sequence) != first.sequence;
        is_new.then_some((first.at, first.sequence))
    }
}

/// Pauses: see `pause.rs`.
impl<E: Engine> Channel<E> {
    pub(crate) fn pause_now(&self) -> Option<Pause> {
        self.pausing.as_ref().and_then(|pausing| pausing.pause)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pause_now().is_some()
    }

    /// The direction's own time: while it is paused, it stands just behind the moment in which that began.
    pub(crate) fn clock(&self, now: Instant) -> Instant {
        self.pause_now().map_or(now, |pause| pause.since + Duration::from_picos(1))
    }

    /// The frames among which one that is queued now takes its place.
    pub(crate) fn unsent_mut(&mut self, urgent: bool) -> &mut VecDeque<InFlight<E>> {
        match &mut self.pausing {
            Some(pausing) if pausing.pause.is_some() && !urgent => &mut pausing.waiting,
            _ => &mut self.in_flight,
        }
    }

    /// When an urgent frame that takes `time` leaves, if the direction is paused.
    pub(crate) fn reserve_slot_in_pause(&mut self, now: Instant, time: Duration) -> Option<Instant> {
        let pause = self.pausing.as_mut().and_then(|pausing| pausing.pause.as_mut())?;
        let start = pause.free_at.max(now);
        pause.free_at = start + time;
        Some(start)
    }

    pub(crate) fn pausing_mut(&mut self) -> &mut Pausing<E> {
        if self.pausing.is_none() {
            self.settle();
            self.is_plain = false;
        }
        self.pausing.get_or_insert_default()
    }

    /// When the frame that is being sent at `now`, and those that are urgent, have left.
    pub(crate) fn boundary(&self, now: Instant) -> Instant {
        if let Some(pause) = self.pause_now() {
            return pause.free_at.max(now);
        }
        let departures =
            self.in_flight.iter().enumerate().filter(|(_, frame)| !frame.urgent).map(|(place, frame)| {
                if place < self.later_from { frame.start } else { frame.start + self.later }
            });
        departures.filter(|&start| start > now).min().unwrap_or(self.free_at).max(now)
    }

    /// Nothing that has not begun to leave does so until it is resumed.
    pub(crate) fn pause(&mut self, now: Instant) {
        if self.is_paused() {
            return;
        }
        let boundary = self.boundary(now).max(now + Duration::from_picos(1));
        let (mut sent, mut waiting) = (VecDeque::new(), VecDeque::new());
        for frame in self.in_flight.drain(..) {
            let waits = frame.start > now && !frame.urgent;
            if waits { waiting.push_back(frame) } else { sent.push_back(frame) }
        }
        self.in_flight = sent;
        self.busy.cut(boundary);
        let pausing = self.pausing_mut();
        pausing.waiting = waiting;
        pausing.pause = Some(Pause { since: now, boundary, free_at: boundary });
        pausing.pauses += 1;
        self.forget_announced();
    }

    /// What waits leaves from now on.
    pub(crate) fn resume(&mut self, now: Instant) {
        let pausing = self.pausing_mut();
        let Some(Pause { since, boundary, free_at }) = pausing.pause.take() else { return };
        let later = free_at.max(now).since(boundary);
        pausing.paused += now.since(since);
        for leaving in pausing.leaving.iter_mut().filter(|leaving| leaving.start > since && !leaving.urgent) {
            leaving.start = leaving.start + later;
            leaving.end = leaving.end + later;
        }
        pausing.leaving.make_contiguous().sort_by_key(|leaving| leaving.start);
        let waiting = std::mem::take(&mut pausing.waiting);
        self.busy.put_off(later);
        if self.free_at > since {
            self.free_at = self.free_at + later;
        }
        self.free_at = self.free_at.max(free_at);
        for mut frame in waiting {
            frame.start = frame.start + later;
            frame.at = frame.at + later;
            self.launch(frame);
        }
    }
}
