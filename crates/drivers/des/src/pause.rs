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

use crate::network::{Network, Source};
use crate::pausing::Leaving;
use crate::{Medium, Observer};
use quincunx_engine::Engine;
use quincunx_units::{ByteCount, Instant};

/// The order to pause or resume on the wire: the shortest Ethernet frame with preamble and gap.
const ORDER: ByteCount = ByteCount::new(84);

impl<E: Engine, M: Medium<E>, O: Observer<E>> Network<E, M, O> {
    /// A frame was queued on `channel`: if it was sent because of another, that one stays in its buffer until it has left.
    #[inline(always)]
    pub(crate) fn hold(&mut self, channel: u32, start: Instant, end: Instant, urgent: bool) {
        // Most links have no pauses, and every frame that is queued asks.
        if self.holds.input.is_some() {
            self.hold_input(channel, start, end, urgent);
        }
    }

    #[inline(never)]
    fn hold_input(&mut self, channel: u32, start: Instant, end: Instant, urgent: bool) {
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
            self.announce(number);
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
