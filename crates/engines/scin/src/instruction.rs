//! Instructions (SCIN 3.4, figure 6): which accelerators give operands, which get results, and where these lie.
//!
//! The paper gives the fields, and 48 bits for an address; the other widths are ours. For n accelerators, big-endian:
//!
//! ```text
//! | ID: 16 | Length: 32 | flags: 8 | Addresses: n x 48, or one | Source: n bits, whole bytes | Destination: the same |
//! ```
//!
//! The flags are QuantEnable (1), Region (2: one address for all), Wait (4) and Notify (8).

use alloc::vec::Vec;
use core::fmt;
use quincunx_wire::flit::MAX_ADDRESS;

const QUANT_ENABLE: u8 = 1;
const REGION: u8 = 2;
const WAIT: u8 = 4;
const NOTIFY: u8 = 8;
const HEAD: usize = 7;
const ADDRESS: usize = 6;

/// A bitmask of accelerators, by port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Accelerators(u64);

/// Where the operands lie.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Addresses {
    /// At an address of each accelerator.
    Each(Vec<u64>),
    /// At the same address of all: a multicast region (SCIN 3.4).
    Region(u64),
}

/// One instruction. Results go back to the addresses of the operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Instruction {
    /// Names it to its owner.
    pub id: u16,
    /// Bytes at each accelerator; none for a barrier.
    pub length: u32,
    /// Where.
    pub addresses: Addresses,
    /// Who contributes.
    pub sources: Accelerators,
    /// Who gets the result.
    pub destinations: Accelerators,
    /// In-network quantization: the next instruction names the scale factors.
    pub quantize: bool,
    /// Waits until all participants have counted up the barrier. Without it the instruction follows the one before it
    /// at once.
    pub wait: bool,
    /// Sets all participants' flags when this and all before it are done.
    pub notify: bool,
}

/// Why bytes are no instruction, or an instruction cannot be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstructionError {
    /// Not the length that its flags announce.
    #[error("expected an instruction of {expected} bytes for {accelerators} accelerators, found {found}")]
    Size {
        /// Bytes.
        expected: usize,
        /// Accelerators.
        accelerators: u16,
        /// Bytes.
        found: usize,
    },
    /// A flag without a meaning.
    #[error("expected flags from 0x0 to 0xf, found {0:#x}")]
    Flags(u8),
    /// Masks that name nobody, or somebody who is not there.
    #[error(
        "expected sources and destinations among {accelerators} accelerators, found {sources:?} and {destinations:?}"
    )]
    Masks {
        /// Accelerators there are.
        accelerators: u16,
        /// As given.
        sources: Accelerators,
        /// As given.
        destinations: Accelerators,
    },
    /// Another number of addresses than accelerators.
    #[error("expected {expected} addresses, found {found}; give one for each accelerator, or a region")]
    AddressCount {
        /// Accelerators.
        expected: u16,
        /// Addresses.
        found: usize,
    },
    /// An address, or the end of the vector, beyond 48 bits.
    #[error("expected addresses of 48 bits, found a vector that ends at {0:#x}")]
    Address(u64),
    /// Quantised, without a quantizer.
    #[error("expected an instruction without QuantEnable, found one with it; this switch has no quantizer")]
    NoQuantizer,
    /// Quantised, without the instruction that must follow it (SCIN 3.4).
    #[error(
        "expected an instruction for {expected} bytes of scale factors, with the same masks and no flags, after one with QuantEnable"
    )]
    Scales {
        /// Bytes.
        expected: usize,
    },
    /// Not whole elements.
    #[error("expected a length of whole elements of {element} bytes, found {found}")]
    Length {
        /// Bytes.
        element: usize,
        /// Bytes.
        found: u32,
    },
}

impl Accelerators {
    /// The first `count`.
    ///
    /// # Panics
    /// If there are more than 64.
    pub const fn first(count: u16) -> Self {
        assert!(count <= 64, "a mask has 64 bits");
        Self(if count == 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// One alone.
    ///
    /// # Panics
    /// If it is not below 64.
    pub const fn only(accelerator: u16) -> Self {
        Self(1 << accelerator)
    }

    /// Those of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of them are in `other`.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether `accelerator` is one of them.
    pub const fn contains(self, accelerator: u16) -> bool {
        accelerator < 64 && self.0 & 1 << accelerator != 0
    }

    /// Them, in order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let first = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (first < 64).then_some(first as u16)
        })
    }
}

impl fmt::Debug for Accelerators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#b}", self.0)
    }
}

impl Addresses {
    /// The address at an accelerator.
    ///
    /// # Panics
    /// If there is none for it.
    pub fn at(&self, accelerator: u16) -> u64 {
        match self {
            Self::Each(addresses) => addresses[usize::from(accelerator)],
            Self::Region(address) => *address,
        }
    }
}

impl Instruction {
    /// Everybody who has to do with it.
    pub const fn participants(&self) -> Accelerators {
        self.sources.union(self.destinations)
    }

    /// Whether it can be run among `accelerators`, with elements of `element` bytes.
    pub(crate) fn check(&self, accelerators: u16, element: usize) -> Result<(), InstructionError> {
        let Self { sources, destinations, .. } = *self;
        if sources == Accelerators::default()
            || destinations == Accelerators::default()
            || !self.participants().is_subset(Accelerators::first(accelerators))
        {
            return Err(InstructionError::Masks { accelerators, sources, destinations });
        }
        if let Addresses::Each(addresses) = &self.addresses
            && addresses.len() != usize::from(accelerators)
        {
            return Err(InstructionError::AddressCount { expected: accelerators, found: addresses.len() });
        }
        for accelerator in self.participants().iter() {
            let end = self.addresses.at(accelerator).saturating_add(u64::from(self.length));
            if end > MAX_ADDRESS {
                return Err(InstructionError::Address(end));
            }
        }
        if !(self.length as usize).is_multiple_of(element) {
            return Err(InstructionError::Length { element, found: self.length });
        }
        Ok(())
    }

    /// The instruction as bytes, for `accelerators` accelerators.
    ///
    /// # Panics
    /// If it names others, or has another number of addresses.
    pub fn emit(&self, accelerators: u16) -> Vec<u8> {
        assert!(self.participants().is_subset(Accelerators::first(accelerators)), "masks of {accelerators}");
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let region = matches!(self.addresses, Addresses::Region(_));
        let mut bytes = Vec::with_capacity(encoded_length(accelerators, region));
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes.push(
            flag(self.quantize, QUANT_ENABLE)
                | flag(region, REGION)
                | flag(self.wait, WAIT)
                | flag(self.notify, NOTIFY),
        );
        match &self.addresses {
            Addresses::Region(address) => bytes.extend(&address.to_be_bytes()[2..]),
            Addresses::Each(addresses) => {
                assert_eq!(addresses.len(), usize::from(accelerators), "one address for each accelerator");
                bytes.extend(addresses.iter().flat_map(|address| address.to_be_bytes().into_iter().skip(2)));
            }
        }
        for mask in [self.sources, self.destinations] {
            bytes.extend(&mask.0.to_be_bytes()[8 - mask_length(accelerators)..]);
        }
        bytes
    }

    /// Reads an instruction for `accelerators` accelerators.
    ///
    /// # Panics
    /// If there are more than 64.
    pub fn parse(bytes: &[u8], accelerators: u16) -> Result<Self, InstructionError> {
        assert!(accelerators <= 64, "a mask has 64 bits");
        let flags = bytes.get(HEAD - 1).copied().unwrap_or(0);
        if flags > 0xf {
            return Err(InstructionError::Flags(flags));
        }
        let expected = encoded_length(accelerators, flags & REGION != 0);
        if bytes.len() != expected {
            return Err(InstructionError::Size { expected, accelerators, found: bytes.len() });
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let (head, rest) = bytes.split_at(HEAD);
        let masks = 2 * mask_length(accelerators);
        let (addresses, masks) = rest.split_at(rest.len() - masks);
        let (sources, destinations) = masks.split_at(masks.len() / 2);
        let addresses = match flags & REGION != 0 {
            true => Addresses::Region(number(addresses)),
            false => Addresses::Each(addresses.chunks(ADDRESS).map(number).collect()),
        };
        let (sources, destinations) = (Accelerators(number(sources)), Accelerators(number(destinations)));
        if !sources.union(destinations).is_subset(Accelerators::first(accelerators)) {
            return Err(InstructionError::Masks { accelerators, sources, destinations });
        }
        Ok(Self {
            id: number(&head[..2]) as u16,
            length: number(&head[2..6]) as u32,
            addresses,
            sources,
            destinations,
            quantize: flags & QUANT_ENABLE != 0,
            wait: flags & WAIT != 0,
            notify: flags & NOTIFY != 0,
        })
    }
}

const fn mask_length(accelerators: u16) -> usize {
    accelerators.div_ceil(8) as usize
}

const fn encoded_length(accelerators: u16, region: bool) -> usize {
    let addresses = if region { 1 } else { accelerators as usize };
    HEAD + ADDRESS * addresses + 2 * mask_length(accelerators)
}
