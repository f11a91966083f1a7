//! A toy protocol as one function from an input to outputs, and the engine that it makes: frames carry nothing, and no node waits for
//! a transmit slot.
#![allow(unreachable_pub, dead_code, reason = "each test file uses its part of it")]

use core::convert::Infallible;
use core::fmt::Debug;
use core::hash::Hash;

use quincunx_collective::{Payload, Provenance};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{ByteCount, Duration, Instant};

/// The state of a node of a toy protocol.
pub trait Toy: Clone + Eq + Hash + Debug {
    type Header: Clone + Eq + Hash + Debug;
    type Timer: Copy + Ord + Hash + Debug;
    type Command;
    type Event;

    /// What the node does.
    fn take(&mut self, input: Input<'_, Self>) -> Vec<Output<Self>>;

    /// The same, of a node that heeds the clock.
    fn take_at(&mut self, _now: Instant, input: Input<'_, Self>) -> Vec<Output<Self>> {
        self.take(input)
    }
}

/// What happens to a node.
pub enum Input<'h, T: Toy> {
    Frame(u16, &'h T::Header),
    Timer(T::Timer),
    Command(T::Command),
}

/// What it does about it.
pub enum Output<T: Toy> {
    Send(u16, T::Header),
    Arm(T::Timer),
    Disarm(T::Timer),
    Tell(T::Event),
    /// Drops the frame that arrived.
    Drop,
}

/// A toy as an engine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node<T>(pub T);

impl<T: Toy> Node<T> {
    fn handle(&mut self, now: Instant, port: PortId, input: Input<'_, T>, out: &mut impl Sink<Self>) {
        for output in self.0.take_at(now, input) {
            match output {
                Output::Send(port, header) => {
                    out.transmit(PortId(port), Frame { header: &header, payload: Provenance::empty() });
                }
                Output::Arm(timer) => out.set_timer(timer, Duration::ZERO),
                Output::Disarm(timer) => out.cancel_timer(timer),
                Output::Tell(event) => out.emit(event),
                Output::Drop => out.drop_frame(port, ()),
            }
        }
    }
}

impl<T: Toy> Engine for Node<T> {
    type Config = ();
    type ConfigError = Infallible;
    type Header = T::Header;
    type Payload = Provenance;
    type Timer = T::Timer;
    type Command = T::Command;
    type Rejected = Infallible;
    type Event = T::Event;
    type DropReason = ();

    fn new((): ()) -> Result<Self, Infallible> {
        unreachable!("toys are made as they are needed")
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, T::Header, Provenance>,
        out: &mut impl Sink<Self>,
    ) {
        self.handle(now, port, Input::Frame(port.0, frame.header), out);
    }

    fn handle_timer(&mut self, now: Instant, timer: T::Timer, out: &mut impl Sink<Self>) {
        self.handle(now, PortId(0), Input::Timer(timer), out);
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: T::Command,
        out: &mut impl Sink<Self>,
    ) -> Result<(), Infallible> {
        self.handle(now, PortId(0), Input::Command(command), out);
        Ok(())
    }

    fn wants_transmit(&self, _: PortId) -> bool {
        false
    }

    fn handle_transmit_slot(&mut self, _: Instant, _: PortId, _: &mut impl Sink<Self>) {}

    fn assert_invariants(&self) {}
}

/// More memory than any test needs.
pub const MEMORY: ByteCount = ByteCount::new(2 << 30);
