//! Frames on their way out: written one after the other into one arena, and strung together into batches of equally
//! long frames for one destination, which the kernel takes as one datagram and splits late (generic segmentation offload).
//!
//! A batch stays open while frames for other destinations pass, so a switch that answers eight children in turn still
//! gives the kernel eight large datagrams. What goes to one destination is sent in one go, so that a receiver which the
//! first datagram wakes finds the others too. Frames for one destination keep their order.

use std::net::SocketAddr;
use std::ops::Range;

/// Frames that the kernel accepts in one datagram (UDP_MAX_SEGMENTS was 64 until Linux 6.9).
pub(crate) const MAX_SEGMENTS: usize = 64;

/// The largest UDP payload over IPv4.
pub(crate) const MAX_DATAGRAM: usize = 65_507;

/// Batches that may wait at once; beyond it the outbox has no room.
const MAX_BATCHES: usize = 4096;

/// Open batches that are looked through for a match; the oldest is closed beyond it.
const MAX_OPEN: usize = 64;

/// What frames of one datagram have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flow {
    /// Whom they are for.
    pub destination: SocketAddr,
    /// Which of the processes at that address it is for.
    pub share: u8,
    /// IP type-of-service byte.
    pub tos: u8,
}

/// Equally long frames (the last may be shorter) for one destination.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Counts up from batch to batch.
    number: usize,
    flow: Flow,
    segment: usize,
    frames: usize,
    length: usize,
    pieces: Vec<Range<usize>>,
    /// The last piece is a short frame that lets the others pass.
    has_tail: bool,
    /// The only frame so far may be passed by later ones.
    may_wait: bool,
}

impl Batch {
    /// Whom it is for.
    #[inline]
    pub fn destination(&self) -> SocketAddr {
        self.flow.destination
    }

    /// What its frames have in common.
    #[inline]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// IP type-of-service byte.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.flow.tos
    }

    /// Bytes of each frame but perhaps the last.
    #[inline]
    pub fn segment(&self) -> u16 {
        self.segment as u16
    }

    /// How many there are.
    #[inline]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Bytes in all.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where the bytes lie in the arena, in order.
    #[inline]
    pub fn pieces(&self) -> &[Range<usize>] {
        &self.pieces
    }

    fn accepts(&self, flow: Flow, length: usize, max_frames: usize) -> bool {
        self.flow == flow
            && self.frames < max_frames
            && 0 < length
            && self.length + length <= MAX_DATAGRAM
            && (self.fits(length) || self.can_wait_for(length))
    }

    /// Whether the batch goes on with a frame of `length` bytes: equally long, or shorter and the last.
    fn fits(&self, length: usize) -> bool {
        if self.has_tail { length == self.segment } else { length <= self.segment && self.is_even() }
    }

    /// Whether all frames so far are equally long.
    fn is_even(&self) -> bool {
        self.length == self.frames * self.segment
    }

    /// Whether the only frame so far can be the short last one behind longer frames.
    fn can_wait_for(&self, length: usize) -> bool {
        self.may_wait && self.frames == 1 && !self.has_tail && length > self.segment
    }

    fn append(&mut self, bytes: Range<usize>) {
        if self.can_wait_for(bytes.len()) {
            self.has_tail = true;
            self.segment = bytes.len();
        }
        self.frames += 1;
        self.length += bytes.len();
        let tail = if self.has_tail { self.pieces.pop() } else { None };
        match self.pieces.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => self.pieces.push(bytes),
        }
        self.pieces.extend(tail);
    }
}

/// The arena and the batches in it.
pub struct Outbox {
    arena: Vec<u8>,
    used: usize,
    /// The first `live` are in use; the rest keep their memory for later.
    batches: Vec<Batch>,
    live: usize,
    /// The first `sent` of the live ones are gone.
    sent: usize,
    /// Batches that may still grow, oldest first; all at or behind `sent`.
    open: Vec<usize>,
    max_frames: usize,
}

impl Outbox {
    /// An outbox for `capacity` bytes whose batches hold at most `max_frames` frames.
    pub fn new(capacity: usize, max_frames: usize) -> Self {
        Self {
            arena: vec![0; capacity],
            used: 0,
            batches: Vec::new(),
            live: 0,
            sent: 0,
            open: Vec::with_capacity(MAX_OPEN),
            max_frames: max_frames.clamp(1, MAX_SEGMENTS),
        }
    }

    /// Whether everything is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent == self.live
    }

    /// Whether less than half is used: then frames may be handled whose answers will fit.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.used < self.arena.len() / 2 && self.live < MAX_BATCHES / 2
    }

    /// Memory for one frame of at most `length` bytes, or nothing when full.
    #[inline]
    pub fn reserve(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.live >= MAX_BATCHES {
            return None;
        }
        self.arena.get_mut(self.used..self.used.checked_add(length)?)
    }

    /// The first `length` bytes of what was reserved are a frame of `flow`, which later ones of the same
    /// flow may pass if it `may_wait`. Returns them.
    pub fn commit(&mut self, length: usize, flow: Flow, may_wait: bool) -> &[u8] {
        let bytes = self.used..self.used + length;
        self.used = bytes.end;
        let found = self.open.iter().rposition(|&index| self.batches[index].flow == flow);
        match found {
            Some(at) if self.batches[self.open[at]].accepts(flow, length, self.max_frames) => {
                self.batches[self.open[at]].append(bytes.clone());
            }
            Some(at) => {
                self.open[at] = self.begin(flow, bytes.clone());
                self.batches[self.open[at]].may_wait = may_wait;
            }
            None => {
                if self.open.len() == MAX_OPEN {
                    self.open.remove(0);
                }
                let index = self.begin(flow, bytes.clone());
                self.batches[index].may_wait = may_wait;
                self.open.push(index);
            }
        }
        &self.arena[bytes]
    }

    /// Brings the unsent batches of each destination together, in the order in which they were begun.
    pub fn gather(&mut self) {
        let unsent = &mut self.batches[self.sent..self.live];
        let receiver = |batch: &Batch| (batch.flow.destination, batch.flow.share);
        let key = |batch: &Batch| (receiver(batch), batch.number);
        if unsent.is_sorted_by_key(key) {
            return;
        }
        unsent.sort_unstable_by_key(key);
        self.open.clear();
        let lasts = (self.sent..self.live).filter(|&index| {
            index + 1 == self.live || receiver(&self.batches[index]) != receiver(&self.batches[index + 1])
        });
        self.open.extend(lasts.take(MAX_OPEN));
    }

    /// What is still to be sent: the arena, and the batches in the order to send them in.
    #[inline]
    pub fn unsent(&self) -> (&[u8], &[Batch]) {
        (&self.arena, &self.batches[self.sent..self.live])
    }

    /// Forgets the first `count` unsent batches; when none is left, all memory is free again.
    pub fn remove(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.live, "{} of {} batches sent", self.sent, self.live);
        if self.sent == self.live {
            self.live = 0;
            self.sent = 0;
            self.used = 0;
            self.open.clear();
        } else {
            self.open.retain(|&index| index >= self.sent);
        }
    }

    /// Splits what is unsent into batches of one frame, and keeps doing so: the kernel or the link cannot segment.
    pub fn stop_merging(&mut self) {
        let merged: Vec<Batch> = self.batches[self.sent..self.live].to_vec();
        self.max_frames = 1;
        self.live = 0;
        self.sent = 0;
        self.open.clear();
        for batch in merged {
            // Frames never straddle pieces, and all but the last of a batch are `segment` long.
            for piece in &batch.pieces {
                let mut start = piece.start;
                loop {
                    let end = piece.end.min(start + batch.segment);
                    self.begin(batch.flow, start..end);
                    start = end;
                    if start == piece.end {
                        break;
                    }
                }
            }
        }
    }

    fn begin(&mut self, flow: Flow, bytes: Range<usize>) -> usize {
        let index = self.live;
        self.live += 1;
        if index == self.batches.len() {
            self.batches.push(Batch {
                number: 0,
                flow,
                segment: 0,
                frames: 0,
                length: 0,
                // As many as it can ever hold: which batch becomes how long is another one every time.
                pieces: Vec::with_capacity(self.max_frames),
                has_tail: false,
                may_wait: false,
            });
        }
        let batch = &mut self.batches[index];
        batch.number = index;
        batch.flow = flow;
        batch.segment = bytes.len();
        batch.frames = 0;
        batch.length = 0;
        batch.pieces.clear();
        batch.has_tail = false;
        batch.may_wait = false;
        batch.append(bytes);
        index
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
