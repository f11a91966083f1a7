//! A toy protocol to drive: an end sends numbered frames as slots come and reports what arrives; a relay sends on.
#![allow(unreachable_pub, dead_code, unused_imports, reason = "each test file uses its part of it")]

pub use quincunx_collective::LengthOnly as Payload;
use quincunx_collective::LengthOnly;
use quincunx_driver_des::{Direction, LinkConfig, Medium, Simulation};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use std::convert::Infallible;

/// A frame's header: its number, and whether it has met congestion.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    pub number: u64,
    pub marked: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Toy {
    /// Sends as many frames as are left on each of its ports when slots come.
    End { left: Vec<u64>, next: u64, length: usize, says_so: bool },
    /// Sends what comes in at port 0 out of port 1, and the other way round.
    Relay,
    /// Sends whatever comes in out of port 1.
    Onward,
    /// Sends what it is asked for by its two ports in turn: a frame that leaves by one lets the other send.
    Alternating { left: u64, next: u64, length: usize },
}

pub enum Order {
    /// Send so many frames on a port, of so many bytes.
    Send { port: PortId, frames: u64, length: usize },
    /// Arm a timer, or disarm it.
    Timer { name: char, after: Option<Duration> },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ToyEvent {
    Arrived { port: PortId, number: u64, marked: bool },
    Fired(char),
}

impl Engine for Toy {
    type Config = ();
    type ConfigError = Infallible;
    type Header = Header;
    type Payload = LengthOnly;
    type Timer = char;
    type Command = Order;
    type Rejected = Infallible;
    type Event = ToyEvent;
    type DropReason = u8;

    fn new((): ()) -> Result<Self, Infallible> {
        Ok(Self::end())
    }

    fn handle_frame(
        &mut self,
        _: Instant,
        port: PortId,
        frame: Frame<'_, Header, LengthOnly>,
        out: &mut impl Sink<Self>,
    ) {
        let Header { number, marked } = *frame.header;
        match self {
            Self::End { .. } | Self::Alternating { .. } => {
                out.emit(ToyEvent::Arrived { port, number, marked })
            }
            Self::Relay => out.transmit(PortId(1 - port.0), frame),
            Self::Onward => out.transmit(PortId(1), frame),
        }
    }

    fn handle_timer(&mut self, _: Instant, timer: char, out: &mut impl Sink<Self>) {
        out.emit(ToyEvent::Fired(timer));
    }

    fn handle_command(
        &mut self,
        _: Instant,
        order: Order,
        out: &mut impl Sink<Self>,
    ) -> Result<(), Infallible> {
        match (self, order) {
            (Self::End { left, length, .. }, Order::Send { port, frames, length: bytes }) => {
                left[usize::from(port.0)] += frames;
                *length = bytes;
            }
            (Self::Alternating { left, length, .. }, Order::Send { frames, length: bytes, .. }) => {
                *left += frames;
                *length = bytes;
            }
            (_, Order::Timer { name, after: Some(after) }) => out.set_timer(name, after),
            (_, Order::Timer { name, after: None }) => out.cancel_timer(name),
            (Self::Relay | Self::Onward, Order::Send { .. }) => {}
        }
        Ok(())
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        match self {
            Self::End { left, .. } => left[usize::from(port.0)] > 0,
            Self::Alternating { left, next, .. } => *left > 0 && next % 2 == u64::from(port.0),
            Self::Relay | Self::Onward => false,
        }
    }

    fn may_want_transmit(&self) -> bool {
        matches!(self, Self::End { says_so: true, .. } | Self::Alternating { .. })
    }

    fn handle_transmit_slot(&mut self, _: Instant, port: PortId, out: &mut impl Sink<Self>) {
        let left = match self {
            Self::End { left, .. } => &mut left[usize::from(port.0)],
            Self::Alternating { left, .. } => left,
            Self::Relay | Self::Onward => return,
        };
        *left -= 1;
        if let Self::End { next, length, .. } | Self::Alternating { next, length, .. } = self {
            let header = Header { number: *next, marked: false };
            *next += 1;
            out.transmit(port, Frame { header: &header, payload: LengthOnly::new(*length) });
        }
    }

    fn assert_invariants(&self) {}
}

impl Toy {
    pub fn end() -> Self {
        Self::End { left: vec![0; 2], next: 0, length: 0, says_so: true }
    }

    /// An end that says that none of its ports wants a slot, whatever they say.
    pub fn contradictory_end() -> Self {
        Self::End { left: vec![0; 2], next: 0, length: 0, says_so: false }
    }
}

/// Ten bytes of header; a node needs them alone if the fabric cuts through.
#[derive(Clone, Copy, Default)]
pub struct Wire {
    pub cut_through: bool,
    pub tenth_is_urgent: bool,
}

pub const HEADER: u64 = 10;

impl Medium<Toy> for Wire {
    fn wire_length(&self, _: &Header, payload: usize) -> ByteCount {
        ByteCount::new(payload as u64 + HEADER)
    }

    fn needed_length(&self, _: Direction, _: &Header, whole: ByteCount) -> ByteCount {
        if self.cut_through { ByteCount::new(HEADER) } else { whole }
    }

    /// Every tenth frame.
    fn is_urgent(&self, header: &Header) -> bool {
        self.tenth_is_urgent && header.number % 10 == 9
    }

    fn mark_congestion(&self, header: &mut Header) -> bool {
        header.marked = true;
        true
    }
}

/// A byte takes a nanosecond, and another hundred to arrive.
pub fn slow_link() -> LinkConfig {
    let rate = BitRate::new(8_000_000_000).expect("not zero");
    LinkConfig { rate, latency: Duration::from_nanos(100) }
}

pub fn store_and_forward(seed: u64) -> Simulation<Toy, Wire> {
    Simulation::new(Wire::default(), seed)
}

pub fn nanos(nanos: u64) -> Instant {
    Instant::ZERO + Duration::from_nanos(nanos)
}
