//! A node: an engine, its socket, and the loop between them.
//!
//! A turn receives a batch of datagrams, hands their frames to the engine, fires what is due, offers transmit slots to
//! the ports in turn, and gives everything that was sent to the kernel at once. While the kernel takes no more, no slot is
//! offered, and when the send buffer is half full received frames wait too: a frame is lost only where a network would
//! lose it. When there is nothing to do the node waits in the kernel for a datagram, a deadline or a [`Waker`].

use crate::clock::Clock;
use crate::codec::{Aside, Codec, Direction, Observer};
use crate::error::NodeError;
use crate::faults::{ArrivalFaults, SendFaults};
use crate::io::{Io, Pause};
use crate::pace::{Arrivals, Departures, Pace};
use crate::spin::Spin;
use crate::statistics::{Dropped, Phase, Statistics, Stopwatch, Traffic};
use crate::timers::Timers;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_network::{Fate, FaultPlan, FaultRates};
use quincunx_sockets::{Datagram, Inbox, Outbox, Transport};
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Transmit slots offered in a turn, all ports together: the next receive is never further away than that.
const TRANSMIT_BUDGET: usize = 128;

/// Bytes of frames that may wait to be handed to the kernel.
const SEND_ARENA: usize = 1 << 20;

/// A wait longer than this may begin with a blocking receive, the quickest way to wait: it overstays its time-out by some ticks of the kernel.
pub const BLOCKING_MARGIN: Duration = Duration::from_millis(8);

/// So long a timer that is due may wait for what has arrived already.
const TIMER_GRACE: Duration = Duration::from_millis(20);

/// Frames handled between two readings of the clock.
const FRAMES_PER_CLOCK_READ: usize = 64;

/// How a node runs.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeOptions {
    /// How long to look for datagrams, yielding the processor between looks, before waiting in the kernel. The next
    /// datagram of a collective is mostly nearer than what going to sleep and waking up cost. Not behind ports, where others wait, too.
    pub spin: Duration,
    /// Measure where the time goes.
    pub profile: bool,
    /// Faults of arriving frames.
    pub faults: FaultRates,
    /// Whose frames meet them; everybody's if nobody is named.
    pub faulty_peers: Vec<IpAddr>,
    /// The rate that its links are held to; none: as fast as they are.
    pub pace: Option<Pace>,
    /// With a frame's number it decides what becomes of that.
    pub seed: u64,
}

impl Default for NodeOptions {
    /// 50 us of looking, no profile, no faults.
    fn default() -> Self {
        Self {
            spin: Duration::from_micros(50),
            profile: false,
            faults: FaultRates::default(),
            faulty_peers: Vec::new(),
            pace: None,
            seed: 0,
        }
    }
}

/// Ends a node's wait from another thread.
#[derive(Clone)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// One of a wait that is none of a [`Node`]'s: whoever waits looks at its [`file`](Self::file), and [clears](Self::clear) it.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new() -> Result<Self, std::io::Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self(Arc::new(EventFd::from_flags(flags)?)))
    }

    /// Readable once it was woken.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Forgets that it was woken.
    pub fn clear(&self) {
        // It fails if nobody woke it.
        let _ = self.0.read();
    }

    /// Makes the node's current wait, or else its next one, end within some milliseconds: those of a receive call that
    /// may come first.
    pub fn wake(&self) {
        // It fails only when 2^64 - 2 wakes are pending, and then the node is awake.
        let _ = self.0.write(1);
    }
}

/// An engine on a socket.
pub struct Node<E: Engine, C: Codec<E>, T> {
    engine: E,
    pub(crate) io: Io<E, C, T>,
    inbox: Inbox,
    /// All that the kernel had was taken the last time somebody looked.
    drained: bool,
    /// A turn has passed since without looking.
    skipped: bool,
    /// Since when a timer is due that has not fired: see [`TIMER_GRACE`].
    due_since: Option<Instant>,
    ports: u16,
    next_port: u16,
    arrival_link: Option<Arrivals>,
    arrival_faults: Option<ArrivalFaults>,
    spin: Spin,
    waker: Waker,
}

impl<E: Engine, C: Codec<E>, T: Transport> Node<E, C, T> {
    /// A node of `ports` ports, all of them reached through `transport`.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(
        engine: E,
        ports: u16,
        codec: C,
        transport: T,
        options: NodeOptions,
    ) -> Result<Self, NodeError> {
        let waker = Waker::new().map_err(|error| NodeError::Wait { local: transport.local(), error })?;
        let (max_frames, batch) = (transport.max_frames(), transport.receive_batch());
        let spin = if transport.serves_others() { Duration::ZERO } else { options.spin };
        Ok(Self {
            engine,
            io: Io {
                codec,
                transport,
                outbox: Outbox::new(SEND_ARENA, max_frames),
                timers: Timers::new(),
                events: VecDeque::new(),
                dropped: BTreeMap::new(),
                observer: None,
                departures: options.pace.map(|pace| Departures::new(pace, max_frames)),
                send_faults: SendFaults::default(),
                sent_to: BTreeMap::new(),
                statistics: Statistics { merging: max_frames > 1, ..Statistics::default() },
                stopwatch: Stopwatch::new(options.profile),
                clock: Clock::new(),
                now: Instant::ZERO,
                pause: None,
                is_aside: false,
                failure: None,
            },
            inbox: Inbox::new(batch),
            drained: false,
            skipped: false,
            due_since: None,
            ports,
            next_port: 0,
            arrival_link: options.pace.and_then(Arrivals::new),
            arrival_faults: options
                .faults
                .is_active()
                .then(|| ArrivalFaults::new(options.faults, options.faulty_peers, options.seed)),
            spin: Spin::new(spin),
            waker,
        })
    }

    /// The node's address.
    pub fn local(&self) -> SocketAddr {
        self.io.transport.local()
    }

    /// What its frames go through, which may count by itself.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.io.transport
    }

    /// The engine, to read results from.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// The codec, whose tables may change while the node runs.
    pub fn codec_mut(&mut self) -> &mut C {
        &mut self.io.codec
    }

    /// What has been counted since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.io.statistics
    }

    /// What left since the start, by destination.
    pub fn sent_to(&self) -> &BTreeMap<SocketAddr, Traffic> {
        &self.io.sent_to
    }

    /// Frames dropped since the start, by reason.
    pub fn dropped(&self) -> &BTreeMap<Dropped<E::DropReason, C::Fault>, u64> {
        &self.io.dropped
    }

    /// Index of the interface by which frames of `peer` come in: the one through which this machine sends there, as its routing table says.
    /// No frame changes that. 0 if the transport cannot tell.
    ///
    /// # Errors
    /// If there is no way to `peer`.
    pub fn interface_to(&self, peer: IpAddr) -> std::io::Result<u32> {
        self.io.transport.interface_to(peer)
    }

    /// How many ports the engine has from now on, if these are more than before.
    pub fn grow_ports(&mut self, ports: u16) {
        self.ports = self.ports.max(ports);
    }

    /// Has every frame that passes watched from now on, or none.
    pub fn set_observer(&mut self, observer: Option<Box<dyn Observer>>) {
        self.io.observer = observer;
    }

    /// Sets the faults of frames on the way to `peer`, which are counted from 0 from now on. A lost frame is observed like the others.
    ///
    /// # Panics
    /// If frames are to be late: that is for [`NodeOptions::faults`], where frames arrive.
    pub fn set_faults(&mut self, peer: SocketAddr, plan: FaultPlan, seed: u64) {
        self.io.send_faults.set(peer, plan, seed);
    }

    /// Makes room for `bytes` that peers may have under way to this node at once, counted with the kernel's overhead: frames
    /// that find the socket's receive buffer full are lost. Returns the room there is: without CAP_NET_ADMIN the system's
    /// limit (net.core.rmem_max) ends it. It never shrinks.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn grow_receive_buffer(&mut self, bytes: ByteCount) -> Result<ByteCount, NodeError> {
        let grown = self.io.transport.grow_receive_buffer(bytes);
        grown.map_err(|error| NodeError::Receive { local: self.local(), error })
    }

    /// Lets `bytes` wait to be sent, counted with the kernel's overhead: a node with several links through its one socket is held up on all
    /// of them by one whose queue has taken all the room. Returns the room there is; it never shrinks.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn grow_send_buffer(&mut self, bytes: ByteCount) -> Result<ByteCount, NodeError> {
        let grown = self.io.transport.grow_send_buffer(bytes);
        grown.map_err(|error| NodeError::Receive { local: self.local(), error })
    }

    /// Sends what is none of the engine's, at once, if the network takes it now. It may be longer than the path carries.
    pub fn send_aside(&mut self, destination: SocketAddr, share: u8, bytes: &[u8]) -> bool {
        self.io.flush();
        self.io.pause.is_none() && self.io.outbox.is_empty() && self.io.send_aside(destination, share, bytes)
    }

    /// Has what is none of the engine's sent with its frames, many at once, if there is room. The path must be known to carry it.
    pub fn queue_aside(&mut self, destination: SocketAddr, share: u8, bytes: &[u8]) -> bool {
        let has_room = self.io.pause.is_none() && self.io.outbox.has_room();
        if has_room {
            self.io.put_aside(destination, share, bytes);
        }
        has_room
    }

    /// What its clock shows.
    pub fn now(&self) -> Instant {
        self.io.clock.now()
    }

    /// Ends this node's waits from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Gives the engine an order. What it sends leaves with the next turn.
    ///
    /// # Errors
    /// The engine's refusal.
    pub fn command(&mut self, command: E::Command) -> Result<(), E::Rejected> {
        self.io.now = self.io.clock.now();
        self.io.lap(Phase::Other);
        let answer = self.engine.handle_command(self.io.now, command, &mut self.io);
        self.io.lap(Phase::Engine);
        self.check();
        answer
    }

    /// The oldest event not yet taken.
    pub fn next_event(&mut self) -> Option<E::Event> {
        self.io.events.pop_front()
    }

    /// Turns until `decide` makes something of an event, for at most `limit`. Events after that one wait for the next call.
    ///
    /// # Errors
    /// If the time is over, or the socket fails.
    pub fn run_until<R>(
        &mut self,
        limit: Duration,
        mut decide: impl FnMut(E::Event) -> Option<R>,
    ) -> Result<R, NodeError> {
        self.io.now = self.io.clock.now();
        let end = self.io.now + limit;
        loop {
            while let Some(event) = self.next_event() {
                if let Some(result) = decide(event) {
                    return Ok(result);
                }
            }
            // Read in every turn; how little it is behind does not matter here.
            if self.io.now >= end {
                return Err(NodeError::TimedOut { local: self.local(), limit });
            }
            self.turn(end.since(self.io.now))?;
        }
    }

    /// Turns for `time`, so that peers get their answers while the owner wants nothing. Events wait for the next call.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn serve(&mut self, time: Duration) -> Result<(), NodeError> {
        let end = self.io.clock.now() + time;
        loop {
            let now = self.io.clock.now();
            if now >= end {
                return Ok(());
            }
            self.wait_if_idle(end.since(now))?;
            self.work()?;
        }
    }

    /// Does what is due. If nothing is, and no event waits to be taken, waits for at most `max_wait` first.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn turn(&mut self, max_wait: Duration) -> Result<(), NodeError> {
        if self.io.events.is_empty() {
            self.wait_if_idle(max_wait)?;
        }
        self.work()
    }

    fn wait_if_idle(&mut self, max_wait: Duration) -> Result<(), NodeError> {
        let paused = self.io.pause.is_some();
        let can_handle = !self.inbox.is_empty() && self.io.outbox.has_room();
        let can_send = !paused && (!self.io.outbox.is_empty() || self.wants_transmit());
        let can_receive = self.inbox.is_empty() && !self.drained;
        if can_handle || can_send || can_receive {
            // Whoever is busy looks at the socket in every second turn, so that an order given to an idle node costs no
            // vain look.
            self.drained = self.drained && !std::mem::replace(&mut self.skipped, true);
            Ok(())
        } else {
            self.wait(max_wait)
        }
    }

    fn wants_transmit(&self) -> bool {
        (0..self.ports).any(|port| self.engine.wants_transmit(PortId(port)))
    }

    /// Waits for a datagram, room to send, a deadline or the waker.
    fn wait(&mut self, max_wait: Duration) -> Result<(), NodeError> {
        let start = self.io.clock.now();
        let mut now = start;
        let deadlines = [
            self.io.timers.next_check(start + BLOCKING_MARGIN),
            self.arrival_faults.as_ref().and_then(ArrivalFaults::next_release),
            self.arrival_link.as_ref().and_then(Arrivals::next),
            self.io.next_departure(),
            match self.io.pause {
                Some(Pause::Until(end)) => Some(end),
                _ => None,
            },
        ];
        let end = deadlines.into_iter().flatten().fold(start + max_wait, Instant::min);
        if self.inbox.is_empty() && self.io.pause.is_none() {
            let end_of_spin = end.min(self.spin.end(start));
            while now < end_of_spin {
                self.receive(false)?;
                if !self.inbox.is_empty() {
                    return Ok(());
                }
                std::thread::yield_now();
                let before = std::mem::replace(&mut now, self.io.clock.now());
                self.spin.note_look(before, now);
            }
            // The quickest way to wait, if no deadline can be missed by it.
            if end.since(now) > BLOCKING_MARGIN {
                self.receive(true)?;
                if !self.inbox.is_empty() {
                    return Ok(());
                }
                now = self.io.clock.now();
            }
        }
        self.io.lap(Phase::Other);
        self.poll(end.since(now))?;
        self.io.lap(Phase::Waiting);
        Ok(())
    }

    fn poll(&mut self, time: Duration) -> Result<(), NodeError> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::POLLIN, self.inbox.is_empty());
        interest.set(PollFlags::POLLOUT, self.io.pause == Some(Pause::Full));
        let mut fds = [
            PollFd::new(self.io.transport.socket(), interest),
            PollFd::new(self.waker.0.as_fd(), PollFlags::POLLIN),
        ];
        let timeout = TimeSpec::from_duration(std::time::Duration::from_nanos(time.as_nanos()));
        self.io.statistics.waits += 1;
        let polled = ppoll(&mut fds, Some(timeout), None);
        let [socket, waker] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        match polled {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(NodeError::Wait { local: self.local(), error: error.into() }),
        }
        // Whatever else the socket says (an error, a hang-up), receiving brings to light.
        if socket.intersects(PollFlags::all() - PollFlags::POLLOUT) {
            self.drained = false;
        }
        if waker.contains(PollFlags::POLLIN) {
            self.waker.clear();
        }
        Ok(())
    }

    /// One pass over everything that can be done without waiting.
    fn work(&mut self) -> Result<(), NodeError> {
        self.io.statistics.turns += 1;
        if self.inbox.is_empty() && !self.drained {
            self.receive(false)?;
        }
        self.resume_sending();
        self.handle_frames();
        self.fire_timers()?;
        self.offer_slots();
        self.io.flush();
        self.io.lap(Phase::Other);
        match self.io.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Does all that can be done at this instant without waiting, but for firing timers.
    pub(crate) fn settle(&mut self) -> Result<(), NodeError> {
        self.drained = false;
        loop {
            if self.inbox.is_empty() {
                self.receive(false)?;
            }
            self.resume_sending();
            self.handle_frames();
            self.offer_slots();
            self.io.flush();
            if let Some(failure) = self.io.failure.take() {
                return Err(failure);
            }
            if self.inbox.is_empty() && self.drained && !self.wants_transmit() {
                return Ok(());
            }
        }
    }

    /// Fires a timer if it is armed, whatever its deadline.
    pub(crate) fn fire(&mut self, timer: E::Timer) {
        self.io.now = self.io.clock.now();
        if self.io.timers.take(timer) {
            self.handle_timer(timer);
        }
    }

    fn receive(&mut self, wait: bool) -> Result<(), NodeError> {
        self.drained = self.io.receive(&mut self.inbox, wait)?;
        self.skipped = false;
        Ok(())
    }

    /// Tries again after a pause: the kernel has said that there is room, or enough time has passed, or it costs one
    /// call to find out.
    fn resume_sending(&mut self) {
        self.io.now = self.io.clock.now();
        match self.io.pause {
            Some(Pause::Until(end)) if end > self.io.now => {}
            Some(_) => {
                self.io.pause = None;
                self.io.flush();
            }
            None => {}
        }
    }

    fn handle_frames(&mut self) {
        let mut handled = 0;
        loop {
            self.release_held();
            if !self.io.outbox.has_room() {
                self.io.flush();
                if !self.io.outbox.has_room() {
                    return;
                }
            }
            let carried = self.arrival_link.as_mut().and_then(|link| link.release(self.io.now));
            let (datagram, bytes) = match &carried {
                Some((datagram, bytes)) => (datagram, &bytes[..]),
                None => {
                    let Some((datagram, bytes)) = self.inbox.next_frame() else { return };
                    self.io.statistics.received.frames += 1;
                    self.io.statistics.received.bytes += bytes.len() as u64;
                    handled += 1;
                    if handled == FRAMES_PER_CLOCK_READ {
                        handled = 0;
                        self.io.now = self.io.clock.now();
                    }
                    if let Some(link) = &mut self.arrival_link {
                        link.take(self.io.now, *datagram, bytes);
                        continue;
                    }
                    (datagram, bytes)
                }
            };
            self.io.observe(Direction::Received, datagram, bytes);
            let source = datagram.source.ip();
            let fate = self.arrival_faults.as_mut().map_or(Fate::Delivered, |faults| faults.arrive(source));
            if fate == Fate::Lost {
                self.io.count(Dropped::InjectedLoss, 1);
            }
            for delay in fate.arrivals() {
                match (delay, &mut self.arrival_faults) {
                    (Some(delay), Some(faults)) => faults.hold(self.io.now, delay, *datagram, bytes),
                    _ => deliver(&mut self.engine, &mut self.io, datagram, bytes),
                }
            }
        }
    }

    /// Hands over frames that were held back long enough.
    fn release_held(&mut self) {
        let Some(faults) = &mut self.arrival_faults else { return };
        while let Some(held) = faults.release(self.io.now) {
            deliver(&mut self.engine, &mut self.io, &held.datagram, &held.bytes);
        }
    }

    /// Fires what is due when all is handled that has arrived: a process that did not run for longer than a time-out has what it waits for
    /// in its socket. Of one that is flooded they fire all the same, a little later.
    fn fire_timers(&mut self) -> Result<(), NodeError> {
        let now = self.io.now;
        if self.io.timers.next_check(now).is_none_or(|next| next > now) {
            self.due_since = None;
            return Ok(());
        }
        let since = *self.due_since.get_or_insert(now);
        if self.inbox.is_empty() {
            self.receive(false)?;
        }
        let can_handle = !self.inbox.is_empty() && self.io.outbox.has_room();
        if can_handle && now.since(since) < TIMER_GRACE {
            return Ok(());
        }
        self.due_since = None;
        // No more than are armed now: one that re-arms itself for at once must not hold up the loop.
        for _ in 0..self.io.timers.len() {
            let Some(timer) = self.io.timers.pop_due(self.io.now) else { break };
            self.handle_timer(timer);
        }
        Ok(())
    }

    fn handle_timer(&mut self, timer: E::Timer) {
        self.io.statistics.timers += 1;
        self.io.lap(Phase::Other);
        self.engine.handle_timer(self.io.now, timer, &mut self.io);
        self.io.lap(Phase::Engine);
        self.check();
    }

    /// Offers slots to the ports in turn, one frame each, until none wants more, the budget is used, or sending pauses.
    fn offer_slots(&mut self) {
        let mut idle_ports = 0;
        let mut budget = TRANSMIT_BUDGET;
        while budget > 0 && idle_ports < self.ports {
            if !self.io.outbox.has_room() {
                self.io.flush();
            }
            if self.io.pause.is_some() || !self.io.outbox.has_room() {
                return;
            }
            let port = PortId(self.next_port);
            self.next_port = (self.next_port + 1) % self.ports;
            if self.engine.wants_transmit(port) {
                self.io.lap(Phase::Other);
                self.engine.handle_transmit_slot(self.io.now, port, &mut self.io);
                self.io.lap(Phase::Engine);
                self.check();
                budget -= 1;
                idle_ports = 0;
            } else {
                idle_ports += 1;
            }
        }
    }

    fn check(&self) {
        check(&self.engine);
    }
}

/// A walk over the whole state after every step, which only tests can afford.
fn check<E: Engine>(engine: &E) {
    if cfg!(debug_assertions) {
        engine.assert_invariants();
    }
}

/// Hands one frame to the engine, or counts why not.
fn deliver<E: Engine, C: Codec<E>, T: Transport>(
    engine: &mut E,
    io: &mut Io<E, C, T>,
    datagram: &Datagram,
    bytes: &[u8],
) {
    io.lap(Phase::Other);
    match io.codec.take_aside(io.now, datagram, bytes) {
        Aside::Frame => {}
        Aside::Taken => return,
        Aside::Answer { bytes, destination, share } => return io.answer_aside(destination, share, &bytes),
    }
    let parsed = io.codec.parse(datagram, bytes);
    io.lap(Phase::Parse);
    // By reference: a header is copied for no one.
    match &parsed {
        Ok((header, payload)) => {
            let port = io.codec.port(datagram);
            engine.handle_frame(io.now, port, Frame { header, payload: E::Payload::reborrow(*payload) }, io);
            io.lap(Phase::Engine);
            check(engine);
        }
        Err(fault) => io.count(Dropped::Codec(*fault), 1),
    }
}
