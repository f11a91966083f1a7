//! Links: what they are set up with, and the state and statistics of each direction.

use crate::Fate;
use crate::busy::BusyBins;
use crate::faults::Injector;
use crate::pause::Pausing;
use quincunx_engine::{Engine, PortId};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use std::collections::VecDeque;

/// A link, numbered from zero in the order in which links were made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkIndex(pub u32);

/// One of the two ways of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Direction {
    /// The link.
    pub link: LinkIndex,
    /// From the end that was named second, to the one that was named first.
    pub backward: bool,
}

/// What a link can do, each way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkConfig {
    /// Bits that go in a second.
    pub rate: BitRate,
    /// From the moment a bit is sent to the moment it arrives.
    pub latency: Duration,
}

/// How a direction's queue treats frames: those that wait, and the one that is being sent. Without limits by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct QueueConfig {
    /// Bytes that may be in it; a frame that finds no room is dropped.
    pub limit: Option<ByteCount>,
    /// A frame that finds more bytes than this in it is marked by the medium.
    pub mark_above: Option<ByteCount>,
}

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

impl Direction {
    pub(crate) fn from_number(number: usize) -> Self {
        Self { link: LinkIndex(number as u32 / 2), backward: number % 2 == 1 }
    }

    pub(crate) fn number(self) -> usize {
        self.link.0 as usize * 2 + usize::from(self.backward)
    }
}

impl LinkIndex {
    /// From the end that was named first to the other.
    pub const fn forward(self) -> Direction {
        Direction { link: self, backward: false }
    }

    /// From the end that was named second to the other.
    pub const fn backward(self) -> Direction {
        Direction { link: self, backward: true }
    }
}

/// A frame on its way.
pub(crate) struct InFlight<E: Engine> {
    /// When its first bit leaves.
    pub(crate) start: Instant,
    /// When it arrives.
    pub(crate) at: Instant,
    pub(crate) sequence: u64,
    pub(crate) urgent: bool,
    pub(crate) port: PortId,
    pub(crate) header: E::Header,
    pub(crate) payload: E::Payload,
}

/// One direction of a link. A frame's departure is settled when it is queued: so what waits is a time, and all frames are
/// already on their way. The rare frame that overtakes in the queue puts off those that it overtakes.
pub(crate) struct Channel<E: Engine> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The logical ports at either end that share the direction.
    pub(crate) lanes: Vec<(PortId, PortId)>,
    /// The lane that gets the next transmit slot.
    pub(crate) turn: usize,
    pub(crate) config: LinkConfig,
    pub(crate) background: Option<BitRate>,
    /// What background traffic leaves of the rate.
    pub(crate) rate: BitRate,
    pub(crate) queue: QueueConfig,
    pub(crate) injector: Option<Injector>,
    /// When everything queued so far has been sent.
    pub(crate) free_at: Instant,
    /// Which of the channels that start at its node it is.
    pub(crate) place: usize,
    /// In order of arrival.
    pub(crate) in_flight: VecDeque<InFlight<E>>,
    /// The frame that the event queue was told of last.
    announced: Option<u64>,
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
    pub(crate) fn new(from: u32, to: u32, lanes: Vec<(PortId, PortId)>, config: LinkConfig) -> Self {
        Self {
            from,
            to,
            lanes,
            turn: 0,
            config,
            background: None,
            rate: config.rate,
            queue: QueueConfig::default(),
            injector: None,
            free_at: Instant::ZERO,
            place: 0,
            in_flight: VecDeque::new(),
            announced: None,
            index: 0,
            statistics: DirectionStatistics::default(),
            busy: BusyBins::new(Instant::ZERO),
            peak_wait: Duration::ZERO,
            pausing: None,
        }
    }

    /// Bytes in the queue: what is sent until the port is free.
    pub(crate) fn queued_bytes(&self, now: Instant) -> ByteCount {
        self.rate.bytes_in(self.free_at.since(self.clock(now)))
    }

    /// When a frame that takes `time` can leave: behind all that is queued, or, if it is urgent, before what waits and is
    /// not. That is put off.
    pub(crate) fn make_room(&mut self, now: Instant, time: Duration, urgent: bool) -> Instant {
        if urgent && let Some(start) = self.make_room_in_pause(now, time) {
            return start;
        }
        let now = self.clock(now);
        let mut start = self.free_at.max(now);
        self.free_at = start + time;
        if !urgent || start == now {
            return start;
        }
        if let Some(pausing) = &mut self.pausing {
            pausing.put_off(now, time);
        }
        for frame in self.in_flight.iter_mut().filter(|frame| frame.start > now && !frame.urgent) {
            start = start.min(frame.start);
            frame.start = frame.start + time;
            frame.at = frame.at + time;
        }
        if self.injector.is_some() {
            // What was held back after it had left is not put off.
            self.in_flight.make_contiguous().sort_unstable_by_key(|frame| (frame.at, frame.sequence));
        }
        start
    }

    /// Takes a frame that is sent into the statistics.
    pub(crate) fn count(
        &mut self,
        now: Instant,
        length: ByteCount,
        time: Duration,
        marked: bool,
        fate: Fate,
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
            Fate::Duplicated | Fate::ArrivesTwiceAt(..) => statistics.duplicated += 1,
            Fate::HeldBack(_) => statistics.held_back += 1,
            Fate::Delivered | Fate::ArrivesAt(_) | Fate::Refused => {}
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
    pub(crate) fn launch(&mut self, frame: InFlight<E>) {
        let frames = self.unsent_mut(frame.urgent);
        let order = |frame: &InFlight<E>| (frame.at, frame.sequence);
        let later = frames.iter().rev().take_while(|other| order(other) > order(&frame)).count();
        match later {
            0 => frames.push_back(frame),
            _ => frames.insert(frames.len() - later, frame),
        }
    }

    /// Frames on their way or in the queue.
    pub(crate) fn under_way(&self) -> usize {
        self.in_flight.len() + self.pausing.as_ref().map_or(0, |pausing| pausing.waiting())
    }

    /// The first frame to arrive may be another than the event queue was told of.
    pub(crate) fn forget_announced(&mut self) {
        self.announced = None;
    }

    /// The first frame to arrive, if the event queue has not been told of it: when, and its number. It is told now.
    pub(crate) fn announce(&mut self) -> Option<(Instant, u64)> {
        let first = self.in_flight.front()?;
        let news = self.announced != Some(first.sequence);
        self.announced = Some(first.sequence);
        news.then_some((first.at, first.sequence))
    }
}
