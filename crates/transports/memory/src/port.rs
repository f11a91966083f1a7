//! One end of a link: credits of each virtual channel, and who may send next.

use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::flit::{
    Channel, ChannelSet, Class, CreditReturn, FlitFormat, FlitHeader, MAX_CREDITS, Transaction,
};

/// The buffers at both ends of a link, in packets for each channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortConfig {
    slots: [u16; Channel::COUNT],
    format: FlitFormat,
    is_endless: bool,
}

/// What a peer of a link has done wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortFault {
    /// It sent without credit.
    Overrun,
    /// It returned more credits than it ever got.
    TooManyCredits,
}

/// Whether it is the set of the in-switch accelerator.
type SetOfQueues = bool;

/// The channel of a set whose turn it is there, and the flits that it may still send of those that a turn has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Turn {
    channel: Channel,
    left: usize,
}

/// One end of a link. Its owner keeps the queues and says which channels have something to send.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Port {
    slots: [u16; Channel::COUNT],
    format: FlitFormat,
    /// Buffers never run out, and no credits are counted.
    is_endless: bool,
    /// Packets that the peer has room for.
    credits: [u16; Channel::COUNT],
    /// Buffers of ours that the peer may not fill: full, or empty without the peer knowing.
    held: [u16; Channel::COUNT],
    /// Of those, the empty ones: credits to return.
    owed: [u16; Channel::COUNT],
    /// How many of these are urgent.
    enough: [u16; Channel::COUNT],
    /// Channels with credit.
    open: ChannelSet,
    /// Channels that owe.
    owing: ChannelSet,
    /// Channels that owe so much that an idle flit must take it if nothing else does.
    urgent: ChannelSet,
    /// The set of queues whose turn it is, and the flits that it may still send of those that a turn has.
    set: SetOfQueues,
    left: usize,
    /// The same of the channels in each set.
    turns: [Turn; 2],
    flits_of_turn: usize,
    next_return: u8,
}

impl PortConfig {
    /// The same number of packets for every channel.
    ///
    /// # Panics
    /// If it is zero.
    pub const fn uniform(packets: u16, format: FlitFormat) -> Self {
        assert!(packets > 0, "a channel without buffers sends nothing");
        Self { slots: [packets; Channel::COUNT], format, is_endless: false }
    }

    /// Buffers that never run out: no credits are returned, and packets leave in the order of channels. For the checker, where packets of
    /// different channels overtake each other in any case: what is above the links has far fewer states without credits.
    pub const fn endless(format: FlitFormat) -> Self {
        Self { is_endless: true, ..Self::uniform(u16::MAX, format) }
    }

    /// Packets of writes that a port has buffers for.
    pub const fn write_slots(&self) -> u16 {
        self.slots[Channel::new(Class::Write, false).index()]
    }

    /// Buffers that cover the round trip of a link of `rate` and `latency` (SCIN 4.1), for each channel as if it had
    /// the link for itself; and as many packets more as may wait for their credits to be returned together.
    pub fn covering_round_trip(rate: BitRate, latency: Duration, format: &FlitFormat) -> Self {
        let round_trip = rate.bytes_in(latency * 2);
        let slots = Channel::ALL.map(|channel| {
            let bytes = match channel.class() {
                Class::Read => format.wire_bytes(Transaction::Read { length: 0 }, 0),
                Class::WriteResponse => format.wire_bytes(Transaction::WriteResponse, 0),
                Class::Write => format.wire_bytes(Transaction::Write, format.max_payload),
                Class::ReadResponse => format.wire_bytes(Transaction::ReadResponse, format.max_payload),
            };
            let packets = round_trip.pieces_of(ByteCount::new(bytes as u64)) + 2 * u64::from(MAX_CREDITS) + 2;
            u16::try_from(packets).unwrap_or(u16::MAX)
        });
        Self { slots, format: *format, is_endless: false }
    }
}

impl Port {
    /// A link without a packet on it.
    pub fn new(config: PortConfig) -> Self {
        let none = [0; Channel::COUNT];
        Self {
            slots: config.slots,
            format: config.format,
            is_endless: config.is_endless,
            credits: config.slots,
            held: none,
            owed: none,
            enough: config.slots.map(|slots| (slots / 2).clamp(1, u16::from(MAX_CREDITS))),
            open: ChannelSet::ALL,
            owing: ChannelSet::NONE,
            urgent: ChannelSet::NONE,
            set: false,
            left: 0,
            turns: [false, true].map(|inc| Turn { channel: Channel::new(Class::Read, inc), left: 0 }),
            flits_of_turn: config.format.flits(Transaction::Write, config.format.max_payload),
            next_return: 0,
        }
    }

    /// Takes in a header: its credits, and a buffer for its packet, to be [released](Self::release) later. A packet
    /// of credits alone has no channel.
    #[inline]
    pub fn accept(&mut self, header: &FlitHeader) -> Result<Option<Channel>, PortFault> {
        let CreditReturn { channel, packets } = header.credit;
        if packets > 0 {
            let credits = self.credits[channel.index()] + u16::from(packets);
            if credits > self.slots[channel.index()] {
                return Err(PortFault::TooManyCredits);
            }
            self.credits[channel.index()] = credits;
            self.open.set(channel, true);
        }
        let Some(channel) = header.channel() else { return Ok(None) };
        let held = &mut self.held[channel.index()];
        if *held == self.slots[channel.index()] {
            return Err(PortFault::Overrun);
        }
        *held += 1;
        Ok(Some(channel))
    }

    /// Frees the buffer of a packet that has been dealt with.
    ///
    /// # Panics
    /// If there was no such packet.
    #[inline]
    pub fn release(&mut self, channel: Channel) {
        if self.is_endless {
            let held = &mut self.held[channel.index()];
            *held = held.checked_sub(1).unwrap_or_else(|| panic!("a buffer of {channel:?} freed twice"));
            return;
        }
        let owed = &mut self.owed[channel.index()];
        *owed += 1;
        assert!(*owed <= self.held[channel.index()], "a buffer of {channel:?} freed twice");
        self.owing.set(channel, true);
        self.urgent.set(channel, *owed >= self.enough[channel.index()]);
    }

    /// Whether there is anything to send, when `ready` are the channels with a packet.
    #[inline]
    pub fn wants_transmit(&self, ready: ChannelSet) -> bool {
        !ready.intersection(self.open).is_empty() || !self.urgent.is_empty()
    }

    /// The channel whose turn it is, of those in `ready` that have credit, which is taken: round robin over the two
    /// sets of queues, switch core and in-switch accelerator (SCIN 3.2), and in each of them over its channels. It is
    /// bandwidth that they share: in its turn a set, and in a set a channel, may send as many flits as the largest
    /// packet has. A packet of the channel must be [sealed](Self::seal) next.
    #[inline]
    pub fn arbitrate(&mut self, ready: ChannelSet) -> Option<Channel> {
        let candidates = ready.intersection(self.open);
        if self.is_endless {
            return candidates.first_from(0);
        }
        if candidates.is_empty() {
            return None;
        }
        let of = |set| candidates.intersection(ChannelSet::of_set(set));
        if of(self.set).is_empty() || (self.left == 0 && !of(!self.set).is_empty()) {
            self.set = !self.set;
            self.left = self.flits_of_turn;
        }
        let (candidates, turn) = (of(self.set), &mut self.turns[usize::from(self.set)]);
        if turn.left == 0 || !candidates.contains(turn.channel) {
            let next = candidates.first_from((turn.channel.index() as u8 + 1) % Channel::COUNT as u8)?;
            *turn = Turn { channel: next, left: self.flits_of_turn };
        }
        let channel = turn.channel;
        let credits = &mut self.credits[channel.index()];
        *credits -= 1;
        self.open.set(channel, *credits > 0);
        Some(channel)
    }

    /// Finishes a packet that is about to be sent: counts its flits, and lets it take credits along.
    #[inline]
    pub fn seal(&mut self, header: &mut FlitHeader, payload: usize) {
        if self.is_endless {
            return;
        }
        let flits = match header.transaction {
            // Most packets with data are full, and need no division.
            Transaction::Write | Transaction::ReadResponse if payload == self.format.max_payload => {
                self.flits_of_turn
            }
            transaction => self.format.flits(transaction, payload),
        };
        self.left = self.left.saturating_sub(flits);
        let turn = &mut self.turns[usize::from(self.set)];
        turn.left = turn.left.saturating_sub(flits);
        header.credit = self.take_return();
    }

    /// Credits to return, for a header that takes them along.
    #[inline]
    fn take_return(&mut self) -> CreditReturn {
        let waiting = if self.urgent.is_empty() { self.owing } else { self.urgent };
        let Some(channel) = waiting.first_from(self.next_return) else { return CreditReturn::NONE };
        self.next_return = (channel.index() as u8 + 1) % Channel::COUNT as u8;
        let owed = &mut self.owed[channel.index()];
        let packets = (*owed).min(u16::from(MAX_CREDITS));
        *owed -= packets;
        self.held[channel.index()] -= packets;
        self.owing.set(channel, *owed > 0);
        self.urgent.set(channel, *owed >= self.enough[channel.index()]);
        CreditReturn { channel, packets: packets as u8 }
    }

    /// Packets of `channel` that lie in buffers of ours.
    pub fn buffered(&self, channel: Channel) -> u16 {
        self.held[channel.index()] - self.owed[channel.index()]
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        for channel in Channel::ALL {
            let at = channel.index();
            assert!(self.credits[at] <= self.slots[at], "{channel:?}: more credits than buffers");
            assert!(self.owed[at] <= self.held[at], "{channel:?}: owes more than it holds");
            assert!(self.held[at] <= self.slots[at], "{channel:?}: holds more than it has");
            assert_eq!(self.open.contains(channel), self.credits[at] > 0, "{channel:?}: open with credit");
            assert_eq!(self.owing.contains(channel), self.owed[at] > 0, "{channel:?}: owing what it owes");
            assert!(!self.urgent.contains(channel) || self.owed[at] > 0, "{channel:?}: urgent for nothing");
        }
    }
}
