//! The node's side of an engine's answers: frames go through the codec to the outbox and on to the kernel, timers to
//! their queue, events and drops to the owner.

use crate::clock::Clock;
use crate::codec::{Codec, Direction, Emitted, Observer};
use crate::error::NodeError;
use crate::faults::SendFaults;
use crate::pace::Departures;
use crate::statistics::{Dropped, Phase, Statistics, Stopwatch, Traffic};
use crate::timers::Timers;
use nix::errno::Errno;
use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_sockets::{Batch, Datagram, Flow, Inbox, Outbox, Transport};
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// How long to leave a kernel alone that is short of memory.
const CONGESTION_PAUSE: Duration = Duration::from_micros(100);

/// Why nothing is sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// The socket's send buffer is full: the kernel says when it is not.
    Full,
    /// The kernel or a queue was short of memory, and will not say when that ends.
    Until(Instant),
}

/// Everything of a node but its engine and what has just arrived.
pub(crate) struct Io<E: Engine, C: Codec<E>, T> {
    pub(crate) codec: C,
    pub(crate) transport: T,
    pub(crate) outbox: Outbox,
    pub(crate) timers: Timers<E::Timer>,
    pub(crate) events: VecDeque<E::Event>,
    pub(crate) dropped: BTreeMap<Dropped<E::DropReason, C::Fault>, u64>,
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// What waits for links of a set rate, if they have one.
    pub(crate) departures: Option<Departures>,
    /// What happens to frames on the way to peers.
    pub(crate) send_faults: SendFaults,
    pub(crate) statistics: Statistics,
    pub(crate) sent_to: BTreeMap<SocketAddr, Traffic>,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) clock: Clock,
    /// The time as the engine is told it: read once for a batch of work.
    pub(crate) now: Instant,
    pub(crate) pause: Option<Pause>,
    /// What is sent may be too long for the path.
    pub(crate) is_aside: bool,
    /// A fault of the set-up, found while the engine was at work; the turn ends with it.
    pub(crate) failure: Option<NodeError>,
}

impl<E: Engine, C: Codec<E>, T: Transport> Io<E, C, T> {
    pub(crate) fn count(&mut self, dropped: Dropped<E::DropReason, C::Fault>, frames: u64) {
        *self.dropped.entry(dropped).or_insert(0) += frames;
    }

    pub(crate) fn lap(&mut self, phase: Phase) {
        self.stopwatch.lap(phase, &mut self.statistics.profile);
    }

    pub(crate) fn observe(&mut self, direction: Direction, datagram: &Datagram, bytes: &[u8]) {
        if let Some(observer) = &mut self.observer {
            observer.observe(self.now, direction, datagram, bytes);
        }
    }

    /// Fills `inbox`, with `wait` waiting a little for a first datagram. Returns whether that was all there is.
    pub(crate) fn receive(&mut self, inbox: &mut Inbox, wait: bool) -> Result<bool, NodeError> {
        self.lap(Phase::Other);
        self.statistics.received.system_calls += 1;
        self.statistics.waits += u64::from(wait);
        let received = self.transport.receive(inbox, wait);
        self.lap(if wait { Phase::Waiting } else { Phase::SystemCalls });
        let malformed = inbox.take_malformed();
        if malformed > 0 {
            self.count(Dropped::Malformed, malformed);
        }
        match received {
            Ok(count) => {
                self.statistics.received.datagrams += count as u64;
                Ok(count < inbox.slots())
            }
            Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                Errno::EAGAIN => Ok(true),
                // Interrupted, or the kernel passes on what a router said about a datagram sent earlier.
                Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH => Ok(false),
                _ => Err(NodeError::Receive { local: self.transport.local(), error }),
            },
        }
    }

    /// Writes a frame into the outbox, and sends what is there when it is full.
    fn put(&mut self, emit: impl FnOnce(&mut C, &mut [u8]) -> Emitted) {
        let limit = self.codec.frame_limit();
        if self.outbox.reserve(limit).is_none() {
            self.flush();
        }
        let Some(space) = self.outbox.reserve(limit) else {
            self.count(Dropped::SendBufferFull, 1);
            return;
        };
        let emitted = emit(&mut self.codec, space);
        let Emitted { length, destination, share, tos, may_wait } = emitted;
        let flow = Flow { destination, share, tos };
        let departures = self.send_faults.send(destination);
        let mut copy = if departures == 2 { Some(space[..length].to_vec()) } else { None };
        let bytes = match departures {
            0 => &space[..length],
            _ => self.outbox.commit(length, flow, may_wait),
        };
        if let Some(observer) = &mut self.observer {
            let source = self.transport.local();
            let datagram = Datagram { source, destination, tos, identification: 0, interface: 0 };
            observer.observe(self.now, Direction::Sent, &datagram, bytes);
        }
        if departures == 0 {
            self.count(Dropped::InjectedLoss, 1);
        }
        // A copy that finds no room is lost: it never was a frame of its own.
        if let Some(copy) = copy.take()
            && let Some(space) = self.outbox.reserve(length)
        {
            space.copy_from_slice(&copy);
            self.outbox.commit(length, flow, may_wait);
        }
    }

    /// Puts what is none of the engine's among what is to be sent.
    pub(crate) fn put_aside(&mut self, destination: SocketAddr, share: u8, bytes: &[u8]) {
        self.put(|_, space| {
            space[..bytes.len()].copy_from_slice(bytes);
            Emitted { length: bytes.len(), destination, share, tos: 0, may_wait: false }
        });
    }

    /// Answers what was none of the engine's.
    pub(crate) fn answer_aside(&mut self, destination: SocketAddr, share: u8, bytes: &[u8]) {
        self.flush();
        if self.outbox.is_empty() && self.pause.is_none() {
            self.send_aside(destination, share, bytes);
        } else {
            self.put_aside(destination, share, bytes);
        }
    }

    /// The same by itself, and sends it. What the path is known not to carry is dropped; whether the kernel had room for it.
    pub(crate) fn send_aside(&mut self, destination: SocketAddr, share: u8, bytes: &[u8]) -> bool {
        self.put_aside(destination, share, bytes);
        self.is_aside = true;
        self.flush();
        self.is_aside = false;
        let is_taken = self.outbox.is_empty();
        if !is_taken {
            self.outbox.remove(1);
        }
        is_taken
    }

    /// Sends what is in the outbox as far as the kernel takes it.
    pub(crate) fn flush(&mut self) {
        if self.departures.is_some() {
            self.flush_to_links();
            return;
        }
        if self.pause.is_some() || self.outbox.is_empty() {
            return;
        }
        self.lap(Phase::Other);
        self.outbox.gather();
        while self.pause.is_none() && !self.outbox.is_empty() {
            self.statistics.sent.system_calls += 1;
            match self.transport.send(&self.outbox) {
                Ok(count) => {
                    let sent = &self.outbox.unsent().1[..count];
                    count_sent(&mut self.statistics.sent, &mut self.sent_to, sent);
                    self.outbox.remove(count);
                }
                Err(error) => self.handle_send_error(error),
            }
        }
        self.lap(Phase::SystemCalls);
    }

    /// Hands what is in the outbox to the links' queues, and to the kernel what has left them.
    fn flush_to_links(&mut self) {
        let now = self.clock.now();
        let Some(departures) = &mut self.departures else { return };
        if self.pause.is_none() && !self.outbox.is_empty() {
            self.outbox.gather();
            let (arena, batches) = self.outbox.unsent();
            let taken = batches.iter().take_while(|batch| departures.take(now, arena, batch)).count();
            count_sent(&mut self.statistics.sent, &mut self.sent_to, &batches[..taken]);
            self.outbox.remove(taken);
            if !self.outbox.is_empty() {
                self.statistics.send_blocked += 1;
                self.pause = Some(Pause::Until(now + CONGESTION_PAUSE));
            }
        }
        departures.release(now);
        let mut unreachable = 0;
        while !departures.ready.is_empty() {
            self.statistics.sent.system_calls += 1;
            match self.transport.send(&departures.ready) {
                Ok(count) => departures.ready.remove(count),
                Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                    Errno::EINTR => {}
                    // They are asked again with the next turn.
                    Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM => break,
                    _ => {
                        unreachable += departures.ready.unsent().1[0].frames() as u64;
                        departures.ready.remove(1);
                    }
                },
            }
        }
        if unreachable > 0 {
            self.count(Dropped::Unreachable, unreachable);
        }
    }

    /// When a link has carried the next frame, or the kernel is to be asked again.
    pub(crate) fn next_departure(&self) -> Option<Instant> {
        let departures = self.departures.as_ref()?;
        let again = (!departures.ready.is_empty()).then(|| self.now + CONGESTION_PAUSE);
        departures.next().into_iter().chain(again).min()
    }

    fn handle_send_error(&mut self, error: std::io::Error) {
        let first = &self.outbox.unsent().1[0];
        let (destination, length, frames) = (first.destination(), first.length(), first.frames());
        match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::EINTR => {}
            Errno::EAGAIN => {
                self.statistics.send_blocked += 1;
                self.pause = Some(Pause::Full);
            }
            Errno::ENOBUFS | Errno::ENOMEM => {
                self.statistics.send_blocked += 1;
                self.pause = Some(Pause::Until(self.clock.now() + CONGESTION_PAUSE));
            }
            _ if self.is_aside => {
                self.outbox.remove(1);
                self.count(Dropped::Unreachable, frames as u64);
            }
            // Segmentation needs a link with checksum offload and frames within its MTU. Without merging the frames
            // go one by one, and if one is too long for the link that is said then.
            _ if frames > 1 => {
                self.outbox.stop_merging();
                self.statistics.merging = false;
                tracing::warn!(%destination, %error, "the link refuses merged datagrams; frames go one by one");
            }
            Errno::ENETUNREACH
            | Errno::EHOSTUNREACH
            | Errno::ENETDOWN
            | Errno::EPERM
            | Errno::ECONNREFUSED => {
                self.outbox.remove(1);
                self.count(Dropped::Unreachable, frames as u64);
            }
            _ => {
                self.outbox.remove(1);
                self.failure = Some(NodeError::Send { destination, length, error });
            }
        }
    }
}

/// Counts batches that have left the outbox, in all and by peer.
fn count_sent(all: &mut Traffic, by_peer: &mut BTreeMap<SocketAddr, Traffic>, batches: &[Batch]) {
    for batch in batches {
        for traffic in [&mut *all, by_peer.entry(batch.destination()).or_default()] {
            traffic.datagrams += 1;
            traffic.frames += batch.frames() as u64;
            traffic.bytes += batch.length() as u64;
        }
    }
}

impl<E: Engine, C: Codec<E>, T: Transport> Sink<E> for Io<E, C, T> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        self.lap(Phase::Engine);
        self.put(|codec, space| codec.emit(port, frame, space));
        self.lap(Phase::Emit);
    }

    fn replicate(
        &mut self,
        payload: <E::Payload as Payload>::View<'_>,
        copies: impl FnOnce(&mut dyn FnMut(PortId, &E::Header)),
    ) {
        self.lap(Phase::Engine);
        let shared = self.codec.share(payload);
        copies(&mut |port, header| {
            self.put(|codec, space| codec.emit_shared(port, header, &shared, space));
        });
        self.lap(Phase::Emit);
    }

    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        self.timers.set(timer, self.now + after);
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.timers.cancel(timer);
    }

    fn emit(&mut self, event: E::Event) {
        self.events.push_back(event);
    }

    fn drop_frame(&mut self, port: PortId, reason: E::DropReason) {
        self.count(Dropped::Engine(port, reason), 1);
    }
}
