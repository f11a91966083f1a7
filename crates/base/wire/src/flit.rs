//! Packets of the memory fabric: memory transactions in flits (SCIN 3.2, 3.5 and 4.1).
//!
//! A packet is a header and, for some transactions, a payload. The header is 16 bytes and takes one flit, whatever
//! the flit's size ([`FlitFormat`]). The papers give the fields, not their widths and places, so these are ours:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Kind  |I|N|Res|        Source         |      Destination      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            Address                            |
//! +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                               |            Length             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      Tag                      | Chan. | Credit|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! I: in-network computing, the one bit that SCIN adds. N: whoever asks for this address, or adds to it, wants to know when all others have
//! (CAIS III-B2: feedback from the switch's state for each address). Length: bytes that a read asks for, or bytes that follow. A MultiWrite has
//! its destinations between header and payload, as an operand that its length does not count. The
//! last byte returns credits of one virtual channel to the peer of the link (four bits of channel, four of packets).

use crate::field::{put, u16_at, u24_at, u64_at};
use core::cmp::Ordering;

/// Bytes of a header on the wire.
pub const LENGTH: usize = 16;
/// Bytes of the operand of an atomic or a store of a word.
pub const WORD: usize = 8;
/// Where the synchronisation words begin in every node's address space: the upper half. Our choice.
const WORDS: u64 = 1 << 47;
/// Highest node number: twelve bits.
pub const MAX_NODE: u16 = 0xfff;
/// Highest address: 48 bits (SCIN figure 6).
pub const MAX_ADDRESS: u64 = 0xffff_ffff_ffff;
/// Highest tag: 24 bits.
pub const MAX_TAG: u32 = 0xff_ffff;
/// Most packets that one header can return credits for.
pub const MAX_CREDITS: u8 = 15;

const KIND: usize = 0;
const NODES: usize = 1;
const ADDRESS: usize = 4;
const SIZE: usize = 10;
const TAG: usize = 12;
const CREDIT: usize = 15;
const INC: u8 = 0x08;
const NOTIFY: u8 = 0x04;

/// The address of a synchronisation word, a flag or a counter.
pub const fn word_address(word: u16) -> u64 {
    WORDS + word as u64 * WORD as u64
}

/// The synchronisation word at an address, if one can be there.
pub fn word_at(address: u64) -> Option<u16> {
    let offset = address.checked_sub(WORDS)?;
    let whole = offset.is_multiple_of(WORD as u64);
    u16::try_from(offset / WORD as u64).ok().filter(|_| whole)
}

/// A node of the memory fabric: an accelerator or a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

/// What a packet does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transaction {
    /// Nothing but returning credits. It travels in flits that would be idle, so it takes no time on the link.
    Credit,
    /// Asks for `length` bytes.
    Read {
        /// Bytes.
        length: u16,
    },
    /// Brings what a read asked for.
    ReadResponse,
    /// Brings bytes to write; asks for a response.
    Write,
    /// Says that a write has taken effect.
    WriteResponse,
    /// Adds to a 64-bit word; asks for no response (a reduction, `red`).
    Add {
        /// What to add, wrapping.
        operand: u64,
    },
    /// Sets a 64-bit word, such as a flag; asks for no response.
    Store {
        /// What to set it to.
        operand: u64,
    },
    /// `multimem.ld_reduce`: asks the switch for `length` bytes, reduced over all members of the multicast region.
    MultimemLoadReduce {
        /// Bytes.
        length: u16,
    },
    /// `multimem.st`: brings bytes for the switch to write at all members; asks for one response.
    MultimemStore,
    /// `multimem.red`: adds to the same word of all members; asks for no response.
    MultimemAdd {
        /// What to add, wrapping.
        operand: u64,
    },
    /// Brings the last bytes of a message to write, the others of which came as writes before it, and says whom all of it is for
    /// (MultiWrite 4.2); its tag is the bytes of the whole message. Asks for a response.
    MultiWrite {
        /// A bit for each rank, or what else its receiver takes from it.
        destinations: u64,
    },
    /// Brings bytes to add to memory (CAIS III-A: `red`, with the INC bit `red.cais`); its tag says how many contributions are in them. Asks
    /// for no response.
    Reduce,
    /// `multimem.red` of data: brings bytes for the switch to add up over all members of the multicast region, and to write at all of them;
    /// asks for one response.
    MultimemReduce,
    /// Says that a node has come to a point of a group, which its address names; its tag is the point. No data.
    Sync,
    /// The switch's answer to a [`Sync`](Self::Sync): all of the group have come there. And to a request that asks for it: all have come to its
    /// address; its tag says whether to load or to add. No data.
    Release,
}

/// A class of transactions, each with buffers of its own, so that answers pass when requests cannot (SCIN 3.5: four
/// types of buffers).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Requests without data.
    Read,
    /// Requests with data: writes, words.
    Write,
    /// Responses with data.
    ReadResponse,
    /// Responses without data.
    WriteResponse,
}

/// A virtual channel of a link: a class, for the switch core or for the in-switch accelerator (SCIN 3.2: two
/// independent sets).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Channel(u8);

/// Buffers that the peer may fill again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CreditReturn {
    /// Whose.
    pub channel: Channel,
    /// How many packets; at most [`MAX_CREDITS`].
    pub packets: u8,
}

/// A packet's header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlitHeader {
    /// Who sends.
    pub source: NodeId,
    /// Whom it is for.
    pub destination: NodeId,
    /// From or to the in-switch accelerator (SCIN 3.2).
    pub inc: bool,
    /// A [`Transaction::Release`] is to say when all others have asked for this address, too, or added to it (CAIS III-B2).
    pub notify: bool,
    /// Where in the memory of the node that a request is for; kept in its response.
    pub address: u64,
    /// What the requester knows the transaction by; kept in its response.
    pub tag: u32,
    /// What to do.
    pub transaction: Transaction,
    /// Credits for the peer of the link, unrelated to the transaction.
    pub credit: CreditReturn,
}

/// Why bytes are not a packet of the memory fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum FlitError {
    /// Shorter than the header and what it announces.
    #[error("expected a 16-byte header and all that it announces, found fewer bytes")]
    Truncated,
    /// Longer than what the header announces.
    #[error("expected the packet to end where its header says, found more bytes")]
    Trailing,
    /// A kind without a transaction.
    #[error("expected a kind of transaction from 0 to 14, found another")]
    UnknownKind,
    /// A channel that no link has.
    #[error("expected credits of a channel from 0 to 7, found another")]
    UnknownChannel,
    /// An operand that is not a word.
    #[error("expected an operand of 8 bytes, found another length")]
    WordLength,
}

/// How packets are cut into flits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlitFormat {
    /// Bytes of a flit: 16 in the simulated DGX, 32 in the prototype.
    pub flit: usize,
    /// Flits of a header; one in both.
    pub header_flits: usize,
    /// Most payload in one packet: 128 bytes in the simulated DGX, 4 KiB in the prototype.
    pub max_payload: usize,
}

impl Class {
    /// All of them, in the order of their channels.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::ReadResponse, Self::WriteResponse];
}

impl Channel {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// All of them.
    pub const ALL: [Self; Self::COUNT] =
        [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];

    /// The channel of a class, of the in-switch accelerator if `inc`.
    pub const fn new(class: Class, inc: bool) -> Self {
        Self(class as u8 + if inc { 4 } else { 0 })
    }

    /// Its class.
    pub const fn class(self) -> Class {
        Class::ALL[self.0 as usize % 4]
    }

    /// Whether it serves the in-switch accelerator.
    pub const fn inc(self) -> bool {
        self.0 >= 4
    }

    /// For indexing what is kept one a channel.
    #[inline]
    pub const fn index(self) -> usize {
        // Says to the compiler that it is below their count, which spares a check for each array.
        self.0 as usize % Self::COUNT
    }
}

/// A set of virtual channels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChannelSet(u8);

impl ChannelSet {
    /// No channel.
    pub const NONE: Self = Self(0);

    /// Every channel.
    pub const ALL: Self = Self(u8::MAX);

    /// All channels of the in-switch accelerator, or all others: the two sets of queues of a port (SCIN 3.2).
    pub const fn of_set(inc: bool) -> Self {
        Self(if inc { 0xf0 } else { 0x0f })
    }

    /// Both channels of a class.
    pub const fn of(class: Class) -> Self {
        Self(1 << Channel::new(class, false).0 | 1 << Channel::new(class, true).0)
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `channel` is in it.
    pub const fn contains(self, channel: Channel) -> bool {
        self.0 & 1 << channel.index() != 0
    }

    /// Puts `channel` in, or takes it out.
    pub const fn set(&mut self, channel: Channel, present: bool) {
        self.0 = self.0 & !(1 << channel.index()) | (present as u8) << channel.index();
    }

    /// With those of `other`, too.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The first at or after place `from`, around the circle.
    pub const fn first_from(self, from: u8) -> Option<Channel> {
        if self.0 == 0 {
            return None;
        }
        let after = self.0.rotate_right(from as u32).trailing_zeros() as u8;
        Some(Channel(from.wrapping_add(after) % Channel::COUNT as u8))
    }
}

impl CreditReturn {
    /// Nothing to return.
    pub const NONE: Self = Self { channel: Channel(0), packets: 0 };
}

impl Transaction {
    /// What it is called, in the words of the memory model.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Credit => "CREDIT",
            Self::Read { .. } => "READ",
            Self::ReadResponse => "READ RESPONSE",
            Self::Write => "WRITE",
            Self::WriteResponse => "WRITE RESPONSE",
            Self::Add { .. } => "ADD",
            Self::Store { .. } => "STORE",
            Self::MultimemLoadReduce { .. } => "MULTIMEM LD_REDUCE",
            Self::MultimemStore => "MULTIMEM ST",
            Self::MultimemAdd { .. } => "MULTIMEM RED",
            Self::MultiWrite { .. } => "MULTIWRITE",
            Self::Reduce => "RED",
            Self::MultimemReduce => "MULTIMEM RED",
            Self::Sync => "SYNC",
            Self::Release => "RELEASE",
        }
    }

    /// The class whose buffers it takes; a packet of credits alone takes none.
    pub const fn class(self) -> Option<Class> {
        match self {
            Self::Credit => None,
            Self::Read { .. } | Self::MultimemLoadReduce { .. } | Self::Sync => Some(Class::Read),
            Self::ReadResponse => Some(Class::ReadResponse),
            Self::WriteResponse | Self::Release => Some(Class::WriteResponse),
            Self::Write
            | Self::Reduce
            | Self::MultimemReduce
            | Self::Add { .. }
            | Self::Store { .. }
            | Self::MultimemStore
            | Self::MultimemAdd { .. }
            | Self::MultiWrite { .. } => Some(Class::Write),
        }
    }

    /// Whether a payload follows the header.
    pub const fn carries_data(self) -> bool {
        matches!(
            self,
            Self::ReadResponse
                | Self::Write
                | Self::MultimemStore
                | Self::MultiWrite { .. }
                | Self::Reduce
                | Self::MultimemReduce
        )
    }

    /// Bytes after the header, for a payload of `payload` bytes.
    const fn body(self, payload: usize) -> usize {
        let has_word = matches!(
            self,
            Self::Add { .. } | Self::Store { .. } | Self::MultimemAdd { .. } | Self::MultiWrite { .. }
        );
        (if has_word { WORD } else { 0 }) + if self.carries_data() { payload } else { 0 }
    }

    const fn operand(self) -> Option<u64> {
        match self {
            Self::Add { operand } | Self::Store { operand } | Self::MultimemAdd { operand } => Some(operand),
            Self::MultiWrite { destinations } => Some(destinations),
            _ => None,
        }
    }

    const fn kind(self) -> u8 {
        match self {
            Self::Credit => 0,
            Self::Read { .. } => 1,
            Self::ReadResponse => 2,
            Self::Write => 3,
            Self::WriteResponse => 4,
            Self::Add { .. } => 5,
            Self::Store { .. } => 6,
            Self::MultimemLoadReduce { .. } => 7,
            Self::MultimemStore => 8,
            Self::MultimemAdd { .. } => 9,
            Self::MultiWrite { .. } => 10,
            Self::Reduce => 11,
            Self::MultimemReduce => 12,
            Self::Sync => 13,
            Self::Release => 14,
        }
    }
}

impl FlitHeader {
    /// A header without credits in it.
    pub const fn new(
        source: NodeId,
        destination: NodeId,
        inc: bool,
        address: u64,
        tag: u32,
        transaction: Transaction,
    ) -> Self {
        Self {
            source,
            destination,
            inc,
            notify: false,
            address,
            tag,
            transaction,
            credit: CreditReturn::NONE,
        }
    }

    /// The answer to this request: the same address and tag, back to where it came from.
    pub const fn response(&self, transaction: Transaction) -> Self {
        Self::new(self.destination, self.source, self.inc, self.address, self.tag, transaction)
    }

    /// The virtual channel that it takes; none if it is credits alone.
    pub const fn channel(&self) -> Option<Channel> {
        match self.transaction.class() {
            Some(class) => Some(Channel::new(class, self.inc)),
            None => None,
        }
    }

    /// Bytes that [`emit`](Self::emit) writes for a payload of `payload` bytes.
    pub const fn emitted_length(&self, payload: usize) -> usize {
        LENGTH + self.transaction.body(payload)
    }

    /// Writes header and payload to the start of `out`.
    ///
    /// # Panics
    /// If `out` is too short, a field is out of its range, or there is a payload that the transaction does not carry.
    pub fn emit(&self, payload: &[u8], out: &mut [u8]) {
        assert!(self.source.0 <= MAX_NODE && self.destination.0 <= MAX_NODE, "a node number of 12 bits");
        assert!(self.address <= MAX_ADDRESS, "an address of 48 bits");
        assert!(self.tag <= MAX_TAG, "a tag of 24 bits");
        assert!(self.credit.packets <= MAX_CREDITS, "credits of 4 bits");
        assert!(payload.is_empty() || self.transaction.carries_data(), "a payload after {self:?}");
        let length = |bytes| u16::try_from(bytes).expect("a payload of 16 bits");
        let length = match self.transaction {
            Transaction::Read { length } | Transaction::MultimemLoadReduce { length } => length,
            Transaction::MultiWrite { .. } => length(payload.len()),
            transaction => length(transaction.body(payload.len())),
        };
        let bits = if self.inc { INC } else { 0 } | if self.notify { NOTIFY } else { 0 };
        out[KIND] = self.transaction.kind() << 4 | bits;
        let [source, destination] = [self.source.0, self.destination.0].map(u32::from);
        put(out, NODES, &(source << 12 | destination).to_be_bytes()[1..]);
        put(out, ADDRESS, &self.address.to_be_bytes()[2..]);
        put(out, SIZE, &length.to_be_bytes());
        put(out, TAG, &self.tag.to_be_bytes()[1..]);
        out[CREDIT] = self.credit.channel.0 << 4 | self.credit.packets;
        match self.transaction.operand() {
            Some(operand) => {
                put(out, LENGTH, &operand.to_be_bytes());
                put(out, LENGTH + WORD, payload);
            }
            None => put(out, LENGTH, payload),
        }
    }

    /// Reads a packet: its header and its payload.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), FlitError> {
        let (view, rest) = FlitView::split(bytes)?;
        let length = view.length();
        let word = || rest.first_chunk().map(|word| u64::from_be_bytes(*word)).ok_or(FlitError::Truncated);
        let operand = || match word()? {
            _ if usize::from(length) != WORD => Err(FlitError::WordLength),
            word => Ok(word),
        };
        let transaction = match view.kind() {
            0 => Transaction::Credit,
            1 => Transaction::Read { length },
            2 => Transaction::ReadResponse,
            3 => Transaction::Write,
            4 => Transaction::WriteResponse,
            5 => Transaction::Add { operand: operand()? },
            6 => Transaction::Store { operand: operand()? },
            7 => Transaction::MultimemLoadReduce { length },
            8 => Transaction::MultimemStore,
            9 => Transaction::MultimemAdd { operand: operand()? },
            10 => Transaction::MultiWrite { destinations: word()? },
            11 => Transaction::Reduce,
            12 => Transaction::MultimemReduce,
            13 => Transaction::Sync,
            14 => Transaction::Release,
            _ => return Err(FlitError::UnknownKind),
        };
        match rest.len().cmp(&transaction.body(length.into())) {
            Ordering::Less => return Err(FlitError::Truncated),
            Ordering::Equal => {}
            Ordering::Greater => return Err(FlitError::Trailing),
        }
        let payload = &rest[transaction.body(0)..];
        let header = Self {
            source: view.source(),
            destination: view.destination(),
            inc: view.inc(),
            notify: view.notify(),
            address: view.address(),
            tag: view.tag(),
            transaction,
            credit: view.credit()?,
        };
        Ok((header, payload))
    }
}

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct FlitView<'a>(&'a [u8; LENGTH]);

impl<'a> FlitView<'a> {
    /// Views the start of `bytes`; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FlitError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(FlitError::Truncated)?;
        Ok((Self(header), rest))
    }

    /// What the packet does.
    pub const fn kind(&self) -> u8 {
        self.0[KIND] >> 4
    }

    /// In-network computing.
    pub const fn inc(&self) -> bool {
        self.0[KIND] & INC != 0
    }

    /// Whether a release is to say when all others have come to the address.
    pub const fn notify(&self) -> bool {
        self.0[KIND] & NOTIFY != 0
    }

    /// Who sends.
    pub const fn source(&self) -> NodeId {
        NodeId((u24_at(self.0, NODES) >> 12) as u16)
    }

    /// Whom it is for.
    pub const fn destination(&self) -> NodeId {
        NodeId(u24_at(self.0, NODES) as u16 & MAX_NODE)
    }

    /// Where in memory.
    pub const fn address(&self) -> u64 {
        // The six bytes of the address end where the two of the length begin.
        u64_at(self.0, ADDRESS) >> 16
    }

    /// Bytes asked for, or bytes that follow.
    pub const fn length(&self) -> u16 {
        u16_at(self.0, SIZE)
    }

    /// The requester's name for the transaction.
    pub const fn tag(&self) -> u32 {
        u24_at(self.0, TAG)
    }

    /// Credits for the peer of the link.
    pub fn credit(&self) -> Result<CreditReturn, FlitError> {
        let channel = self.0[CREDIT] >> 4;
        if usize::from(channel) >= Channel::COUNT {
            return Err(FlitError::UnknownChannel);
        }
        let channel = Channel(channel);
        Ok(CreditReturn { channel, packets: self.0[CREDIT] & MAX_CREDITS })
    }
}

impl FlitFormat {
    /// The simulated DGX of SCIN 4.1: flits and headers of 16 bytes, 128 bytes of payload.
    pub const DGX: Self = Self { flit: 16, header_flits: 1, max_payload: 128 };
    /// The prototype of SCIN 3.5: flits and headers of 32 bytes, 4 KiB of payload.
    pub const PROTOTYPE: Self = Self { flit: 32, header_flits: 1, max_payload: 4096 };

    /// Flits of a packet with `payload` bytes of payload. Credits alone travel in idle flits and take none.
    pub const fn flits(&self, transaction: Transaction, payload: usize) -> usize {
        match transaction {
            Transaction::Credit => 0,
            _ => match transaction.body(payload) {
                // Half of all packets are a header alone, and need no division.
                0 => self.header_flits,
                body => self.header_flits + body.div_ceil(self.flit),
            },
        }
    }

    /// Bytes of a packet on the link: whole flits.
    #[inline]
    pub const fn wire_bytes(&self, transaction: Transaction, payload: usize) -> usize {
        self.flits(transaction, payload) * self.flit
    }

    /// Bytes after which a switch that cuts through knows where the packet goes.
    pub const fn header_bytes(&self) -> usize {
        self.header_flits * self.flit
    }
}
