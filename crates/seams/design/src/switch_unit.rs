//! What computes in a switch of the memory fabric, beside the core that forwards packets. The switch has ports and buffers; a unit says
//! which packets it takes, and what it wants to send.

use quincunx_collective::Payload;
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{Channel, ChannelSet, FlitHeader};

/// What becomes of the buffer of a packet that a unit has taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Buffer {
    /// It is free: the unit has room of its own for what was in it.
    Free,
    /// The packet stays in it until the unit says [`UnitOutput::Release`].
    Held,
}

/// What a switch has to do for its unit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UnitOutput<P> {
    /// Send a packet by a port. It waits in the core's queues, among packets that the switch forwards.
    Packet(PortId, FlitHeader, P),
    /// Send a packet by a port, as [`Packet`](Self::Packet) does, in the place of one that was [held](Buffer::Held): its buffer is free when
    /// this one has left, so that whoever sends faster than the port takes has to wait.
    Forward {
        /// By which port.
        to: PortId,
        /// What.
        header: FlitHeader,
        /// With it.
        payload: P,
        /// The port and the channel whose buffer is held.
        held: (PortId, Channel),
    },
    /// Free the buffer of a packet that was [held](Buffer::Held).
    Release(PortId, Channel),
}

/// One of a unit's own resources, which does one thing at a time: an entry of a table, for example. For those who draw what it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnitTrack {
    /// What it is, in a word: "wave".
    pub kind: &'static str,
    /// Which of them, from zero.
    pub number: u16,
}

/// What a unit tells of collectives that the switches run. Streams are numbered from zero among those that the unit was made for, in the
/// order in which it was told them; operations of a stream as the unit likes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnitEvent {
    /// An operation begins: everybody is there, and its first request goes out now.
    Begun {
        /// Whose.
        stream: u16,
        /// Which.
        operation: u16,
    },
    /// All results of an operation are written: the last write has been answered.
    Written {
        /// Whose.
        stream: u16,
        /// Which.
        operation: u16,
    },
    /// A resource is taken for a part of a vector.
    Taken {
        /// Which resource.
        track: UnitTrack,
        /// Whose part.
        stream: u16,
        /// Of which operation.
        operation: u16,
        /// Where the part begins, in bytes.
        offset: u32,
        /// Its bytes.
        length: u32,
    },
    /// The resource is free again.
    Released {
        /// Which.
        track: UnitTrack,
    },
    /// How much of something is in use from now on.
    Level {
        /// Of what, in a word or two.
        kind: &'static str,
        /// Which of them, from zero.
        number: u16,
        /// How much.
        level: u32,
    },
}

/// Something that a unit has counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnitCounter {
    /// What, in a word or two.
    pub name: &'static str,
    /// At which port; none if it is of the whole unit.
    pub port: Option<PortId>,
    /// How often, or how much; times in picoseconds.
    pub value: u64,
}

/// Where a unit's answers go: to the switch that it is in.
pub trait UnitSink<P> {
    /// Does what the switch has to do.
    fn act(&mut self, output: UnitOutput<P>);
    /// Passes on what has happened.
    fn tell(&mut self, event: UnitEvent);
    /// Has the unit's timer fire `after` from now.
    fn arm(&mut self, after: Duration);
}

/// What computes in a switch. After each call that takes `&mut self` but [`next_packet`](Self::next_packet) its owner has it
/// [answer](Self::answer): outputs and events until there are none, and then a timer.
///
/// The contract is that of [`Engine`](quincunx_engine::Engine): work per call is bounded by the set-up, a peer's packet never panics.
pub trait SwitchUnit<P: Payload> {
    /// Whether it takes packets such as this one. Of several units the first one that does gets it; what none takes the switch forwards.
    fn takes(&self, header: &FlitHeader) -> bool;

    /// Takes a packet that came by `port`.
    ///
    /// # Errors
    /// Why it is dropped: a peer's fault. Nothing has changed then, and the buffer is the switch's to free.
    fn handle_packet(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, &'static str>;

    /// What the switch has to do, in order.
    fn next_output(&mut self) -> Option<UnitOutput<P>> {
        None
    }

    /// What has happened, in order.
    fn next_event(&mut self) -> Option<UnitEvent> {
        None
    }

    /// How long until the unit's timer is to fire; `None` if never, or if it is armed for that time already.
    fn arm(&mut self, _now: Instant) -> Option<Duration> {
        None
    }

    /// The timer has fired.
    fn handle_timer(&mut self, _now: Instant) {}

    /// The channels of which the unit has packets to send by `port`, in queues of its own. These go before the core's of the same
    /// channel, so that a unit keeps queues for channels that are its alone: those with the INC bit.
    fn ready(&self, _port: PortId) -> ChannelSet {
        ChannelSet::NONE
    }

    /// Whether packets may have been put into queues of its own since the last call of this.
    fn has_queued(&mut self) -> bool {
        true
    }

    /// The next packet of a channel that is [ready](Self::ready). It causes no output and no event.
    ///
    /// # Panics
    /// If there is none.
    fn next_packet(&mut self, port: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        panic!("this unit has no queue for {channel:?} at {port:?}")
    }

    /// Says all that there is to say after a call, and which channels are [ready](Self::ready) at each port now. One call where its
    /// owner would make one for each question: a unit has no reason to write it anew. Whether the channels were asked for.
    fn answer(&mut self, now: Instant, ready: &mut [ChannelSet], out: &mut dyn UnitSink<P>) -> bool {
        while let Some(output) = self.next_output() {
            out.act(output);
        }
        while let Some(event) = self.next_event() {
            out.tell(event);
        }
        if let Some(after) = self.arm(now) {
            out.arm(after);
        }
        let has_queued = self.has_queued();
        if has_queued {
            for (ready, port) in ready.iter_mut().zip(0..) {
                *ready = self.ready(PortId(port));
            }
        }
        has_queued
    }

    /// Tells of each packet that it holds in a buffer of a port which port and which channel that is.
    fn each_held(&self, _tell: &mut dyn FnMut(PortId, Channel)) {}

    /// Bytes of its tables: what it takes of a switch's memory, beside the buffers of ports.
    fn buffer_bytes(&self) -> usize;

    /// Tells what it has counted, for those who measure it.
    fn count(&self, _tell: &mut dyn FnMut(UnitCounter)) {}

    /// Panics if the state breaks a rule that must always hold.
    fn assert_invariants(&self);
}

quincunx_engine::erased! {
    /// A switch unit of any type.
    pub trait AnySwitchUnit<P: Payload>: SwitchUnit<P>
}
