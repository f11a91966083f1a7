//! What is kept of pauses: frames on their way, those that a pause holds up, and those that stay in an input buffer.

use crate::PauseConfig;
use quincunx_engine::{Engine, PortId};
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::VecDeque;

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

/// The input buffer at the end of a direction.
pub(crate) struct Buffer {
    pub(crate) config: PauseConfig,
    pub(crate) filled: ByteCount,
    /// The sender has been told to pause, and not yet to resume.
    pub(crate) is_pausing: bool,
}

/// An arrived frame that is still in its input buffer.
pub(crate) struct Hold {
    pub(crate) input: u32,
    pub(crate) length: ByteCount,
    /// Frames sent because of it that have not left.
    pub(crate) copies: u32,
}

/// A frame in a queue that keeps one in an input buffer.
pub(crate) struct Leaving {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) urgent: bool,
    pub(crate) hold: usize,
}

/// Since when a direction is paused.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) since: Instant,
    /// From here on, in the direction's own time, frames wait.
    pub(crate) boundary: Instant,
    /// When the frame that was being sent and the urgent ones since have left.
    pub(crate) free_at: Instant,
}

/// What pauses have to do with one direction.
pub(crate) struct Pausing<E: Engine> {
    pub(crate) buffer: Option<Buffer>,
    pub(crate) pause: Option<Pause>,
    /// Frames that had not begun to leave when it was paused, and those queued since, but for urgent ones; in order of arrival.
    pub(crate) waiting: VecDeque<InFlight<E>>,
    /// In order of departure.
    pub(crate) leaving: VecDeque<Leaving>,
    /// To pause (`true`) or resume, and when.
    pub(crate) orders: VecDeque<(Instant, bool)>,
    /// When the event queue will ask for frames that have left.
    pub(crate) watched: Option<Instant>,
    pub(crate) paused: Duration,
    pub(crate) pauses: u64,
    pub(crate) peak: ByteCount,
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

    pub(crate) fn leave(&mut self, entry: Leaving) {
        let later = self.leaving.iter().rev().take_while(|other| other.start > entry.start).count();
        self.leaving.insert(self.leaving.len() - later, entry);
    }

    /// Takes one that has left by `now`; what it holds.
    pub(crate) fn take_left(&mut self, now: Instant) -> Option<usize> {
        let next = self.next_leaving().filter(|&next| self.leaving[next].end <= now)?;
        self.leaving.remove(next).map(|leaving| leaving.hold)
    }

    /// The next frame to leave, unless a pause keeps it.
    pub(crate) fn next_leaving(&self) -> Option<usize> {
        let leaves =
            |leaving: &Leaving| leaving.urgent || self.pause.is_none_or(|pause| leaving.start <= pause.since);
        self.leaving.iter().position(leaves)
    }

    /// When the frame has left that leaves next.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.next_leaving().map(|next| self.leaving[next].end)
    }
}

/// The arrival that a node is being handed, if it came through a buffer.
#[derive(Default)]
pub(crate) struct Holds {
    /// Its channel and its length; its place in `holds` once something was sent because of it.
    pub(crate) input: Option<(u32, ByteCount, Option<usize>)>,
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

    /// One more frame is sent because of it. The place of what is held for it, and the frame's channel and length if that is new; none
    /// if nothing is held.
    pub(crate) fn add(&mut self) -> Option<(usize, Option<(u32, ByteCount)>)> {
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
    pub(crate) fn remove(&mut self, place: usize) -> Option<(u32, ByteCount)> {
        let hold = &mut self.holds[place];
        hold.copies -= 1;
        if hold.copies > 0 {
            return None;
        }
        self.free.push(place);
        Some((hold.input, hold.length))
    }
}
