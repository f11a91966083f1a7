//! Pauses: a node whose input buffer fills up has the sender of that link stop, until the buffer has drained (IEEE 802.1Qbb).
//! Then queues upstream grow instead of dropping, and may pause theirs. What is urgent has a class of its own, which goes on: an
//! acknowledge that waits for data to drain, which waits for the acknowledge, would wait for ever.
//!
//! A frame that arrives is in its input buffer until all that the node sends at once because of it has left; what the engine keeps,
//! or sends later in a transmit slot, is the engine's own affair. The order to pause travels back over the link: it goes before
//! all frames there, but for the one that is being sent, and takes none of their time.
//!
//! A paused direction's clock stands still, so that departures keep their order and distances; on resuming, all that has
//! not left is put off by as long as the pause kept it.

use crate::link::{Channel, InFlight};
use crate::network::{Network, Source};
use crate::{Medium, Observer};
use quincunx_engine::Engine;
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::VecDeque;

/// The order to pause or resume on the wire: the shortest Ethernet frame with preamble and gap.
const ORDER: ByteCount = ByteCount::new(84);

/// When the node at the end of a direction pauses its sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PauseConfig {
    /// More bytes than this in the input buffer pause it. What arrives until that takes effect is two latencies and two frames.
    pub xoff: ByteCount,
    /// So few bytes resume it; no more than `xoff`.
    pub xon: ByteCount,
}

/// The input buffer at the end of a direction.
pub(crate) struct Buffer {
    pub(crate) config: PauseConfig,
    filled: ByteCount,
    /// The sender has been told to pause, and not yet to resume.
    is_pausing: bool,
}

/// An arrived frame that is still in its input buffer.
struct Hold {
    input: u32,
    length: ByteCount,
    /// Frames sent because of it that have not left.
    copies: u32,
}

/// A frame in a queue that keeps one in an input buffer.
struct Leaving {
    start: Instant,
    end: Instant,
    urgent: bool,
    hold: usize,
}

/// Since when a direction is paused.
#[derive(Clone, Copy)]
struct Pause {
    since: Instant,
    /// From here on, in the direction's own time, frames wait.
    boundary: Instant,
    /// When the frame that was being sent and the urgent ones since have left.
    free_at: Instant,
}

/// What pauses have to do with one direction.
pub(crate) struct Pausing<E: Engine> {
    pub(crate) buffer: Option<Buffer>,
    pause: Option<Pause>,
    /// Frames that had not begun to leave when it was paused, and those queued since, but for urgent ones; in order of arrival.
    waiting: VecDeque<InFlight<E>>,
    /// In order of departure.
    leaving: VecDeque<Leaving>,
    /// To pause (`true`) or resume, and when.
    orders: VecDeque<(Instant, bool)>,
    /// When the event queue will ask for frames that have left.
    watched: Option<Instant>,
    paused: Duration,
    pauses: u64,
    peak: ByteCount,
}

impl<E: Engine> Default for Pausing<E> {
    fn default() -> Self {
        Self {
            buffer: None,
            pause: None,
            waiting: VecDeque::new(),
            leaving: VecDeque::new(),
            orders: VecDeque::new(),
            watched: None,
            paused: Duration::ZERO,
            pauses: 0,
            peak: ByteCount::default(),
        }
    }
}

impl Buffer {
    pub(crate) fn new(config: PauseConfig) -> Self {
        assert!(
            config.xon <= config.xoff,
            "a pause ends at {}, above its beginning at {}",
            config.xon,
            config.xoff
        );
        Self { config, filled: ByteCount::default(), is_pausing: false }
    }
}

impl<E: Engine> Pausing<E> {
    /// How often it was paused, and for how long until `now`; the most bytes in the buffer at its end.
    pub(crate) fn statistics(&self, now: Instant) -> (u64, Duration, ByteCount) {
        let running = self.pause.map_or(Duration::ZERO, |pause| now.since(pause.since));
        (self.pauses, self.paused + running, self.peak)
    }

    /// How many frames wait for the end of a pause.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A frame that takes `time` goes before what waits at `now` and is not urgent.
    pub(crate) fn put_off(&mut self, now: Instant, time: Duration) {
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.start > now && !leaving.urgent) {
            leaving.start = leaving.start + time;
            leaving.end = leaving.end + time;
        }
    }

    fn leave(&mut self, entry: Leaving) {
        let later = self.leaving.iter().rev().take_while(|other| other.start > entry.start).count();
        self.leaving.insert(self.leaving.len() - later, entry);
    }

    /// Takes one that has left by `now`; what it holds.
    fn take_left(&mut self, now: Instant) -> Option<usize> {
        let next = self.next_leaving().filter(|&next| self.leaving[next].end <= now)?;
        self.leaving.remove(next).map(|leaving| leaving.hold)
    }

    /// The next frame to leave, unless a pause keeps it.
    fn next_leaving(&self) -> Option<usize> {
        let leaves =
            |leaving: &Leaving| leaving.urgent || self.pause.is_none_or(|pause| leaving.start <= pause.since);
        self.leaving.iter().position(leaves)
    }

    /// When the frame has left that leaves next.
    fn next_end(&self) -> Option<Instant> {
        self.next_leaving().map(|next| self.leaving[next].end)
    }
}

impl<E: Engine> Channel<E> {
    fn pause_now(&self) -> Option<Pause> {
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
    pub(crate) fn make_room_in_pause(&mut self, now: Instant, time: Duration) -> Option<Instant> {
        let pause = self.pausing.as_mut().and_then(|pausing| pausing.pause.as_mut())?;
        let start = pause.free_at.max(now);
        pause.free_at = start + time;
        Some(start)
    }

    pub(crate) fn pausing_mut(&mut self) -> &mut Pausing<E> {
        self.pausing.get_or_insert_default()
    }

    /// When the frame that is being sent at `now`, and those that are urgent, have left.
    fn boundary(&self, now: Instant) -> Instant {
        if let Some(pause) = self.pause_now() {
            return pause.free_at.max(now);
        }
        let waiting = self.in_flight.iter().filter(|frame| frame.start > now && !frame.urgent);
        waiting.map(|frame| frame.start).min().unwrap_or(self.free_at).max(now)
    }

    /// Nothing that has not begun to leave does so until it is resumed.
    fn pause(&mut self, now: Instant) {
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
    fn resume(&mut self, now: Instant) {
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

/// The arrival that a node is being handed, if it came through a buffer.
#[derive(Default)]
pub(crate) struct Holds {
    /// Its channel and its length; its place in `holds` once something was sent because of it.
    input: Option<(u32, ByteCount, Option<usize>)>,
    holds: Vec<Hold>,
    free: Vec<usize>,
}

impl Holds {
    /// A node is handed a frame of so many bytes from `channel`.
    pub(crate) fn begin(&mut self, channel: u32, length: ByteCount) {
        self.input = Some((channel, length, None));
    }

    /// It has dealt with it.
    pub(crate) fn end(&mut self) {
        self.input = None;
    }

    /// One more frame is sent because of it.
    fn add(&mut self) -> Option<(usize, Option<(u32, ByteCount)>)> {
        let (input, length, place) = self.input.as_mut()?;
        if let Some(place) = *place {
            self.holds[place].copies += 1;
            return Some((place, None));
        }
        let hold = Hold { input: *input, length: *length, copies: 1 };
        let new = match self.free.pop() {
            Some(free) => {
                self.holds[free] = hold;
                free
            }
            None => {
                self.holds.push(hold);
                self.holds.len() - 1
            }
        };
        *place = Some(new);
        Some((new, Some((*input, *length))))
    }

    /// One of them has left. The frame's channel and length if it was the last.
    fn remove(&mut self, place: usize) -> Option<(u32, ByteCount)> {
        let hold = &mut self.holds[place];
        hold.copies -= 1;
        if hold.copies > 0 {
            return None;
        }
        self.free.push(place);
        Some((hold.input, hold.length))
    }
}

impl<E: Engine, M: Medium<E>, O: Observer<E>> Network<E, M, O> {
    /// A frame was queued on `channel`: if it was sent because of another, that one stays in its buffer until it has left.
    pub(crate) fn hold(&mut self, channel: u32, start: Instant, end: Instant, urgent: bool) {
        let Some((hold, new)) = self.holds.add() else { return };
        self.channels[channel as usize].pausing_mut().leave(Leaving { start, end, urgent, hold });
        self.watch(channel);
        if let Some((input, length)) = new {
            let pausing = self.channels[input as usize].pausing_mut();
            let buffer = pausing.buffer.as_mut().expect("frames are held in buffers");
            buffer.filled += length;
            pausing.peak = pausing.peak.max(buffer.filled);
            if buffer.filled > buffer.config.xoff && !std::mem::replace(&mut buffer.is_pausing, true) {
                self.order(input, true);
            }
        }
    }

    /// Sends the order to pause or resume to the sender of `channel`.
    fn order(&mut self, channel: u32, pause: bool) {
        let back = &self.channels[channel as usize ^ 1];
        let at = back.boundary(self.now) + back.config.rate.time_for(ORDER) + back.config.latency;
        self.channels[channel as usize].pausing_mut().orders.push_back((at, pause));
        self.schedule(at, Source::Pausing(channel));
    }

    /// Something may be due on `channel`: an order has come, or a frame has left that kept another in its buffer. Whether its
    /// sender may go on.
    pub(crate) fn settle_pausing(&mut self, number: u32) -> bool {
        let now = self.now;
        let mut resumed = false;
        while let Some(&(at, pause)) = self.channels[number as usize].pausing_mut().orders.front()
            && at <= now
        {
            let channel = &mut self.channels[number as usize];
            channel.pausing_mut().orders.pop_front();
            if pause {
                channel.pause(now);
            } else {
                channel.resume(now);
            }
            resumed = !pause;
            if let Some((at, sequence)) = channel.announce() {
                self.queue.push(at, sequence, Source::Arrival(number).pack());
            }
        }
        let pausing = self.channels[number as usize].pausing_mut();
        if pausing.watched.is_some_and(|watched| watched <= now) {
            pausing.watched = None;
        }
        while let Some(hold) = self.channels[number as usize].pausing_mut().take_left(now) {
            if let Some((input, length)) = self.holds.remove(hold) {
                self.drain(input, length);
            }
        }
        self.watch(number);
        resumed
    }

    /// Sees to it that the next frame to leave is asked for when it has.
    fn watch(&mut self, channel: u32) {
        let pausing = self.channels[channel as usize].pausing_mut();
        let Some(end) = pausing.next_end() else { return };
        if pausing.watched.is_none_or(|watched| end < watched) {
            pausing.watched = Some(end);
            self.schedule(end, Source::Pausing(channel));
        }
    }

    /// `length` bytes have left the buffer at the end of `channel`.
    fn drain(&mut self, channel: u32, length: ByteCount) {
        let pausing = self.channels[channel as usize].pausing_mut();
        let buffer = pausing.buffer.as_mut().expect("frames are held in buffers");
        buffer.filled = buffer.filled - length;
        if buffer.filled <= buffer.config.xon && std::mem::replace(&mut buffer.is_pausing, false) {
            self.order(channel, false);
        }
    }
}
