//! `ld.cais` and `red.cais`: their encoding, beside `ld` and `red`.
//!
//! What the paper fixes (III-A1): two instructions, and one bit in them and in the requests that they cause, the CAIS flag, by which a switch
//! knows that a request may merge. Its text calls them `ld.caiss` and `red.caiss` where it introduces them (figure 4), `ld.cais` and
//! `red.cais` everywhere else. Widths and places of all fields are ours, as is the group register: a thread block's group ID is in
//! the launch configuration (III-B1), and synchronisation requests carry it (III-B2), so an instruction must be able to name it.
//!
//! An instruction is 64 bits, most significant byte first:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Opcode |C| Type  |Vec| Cache |R|     Data      |    Address    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Group     |                    Offset                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! C: the CAIS flag. Vec: the logarithm of the elements. R: reserved, zero. Data: the first of as many registers as there are elements.
//! Group is zero without the flag, Cache is zero in a reduction. Offset: bytes, two's complement, added to the address register.

/// Bytes of an instruction.
pub const LENGTH: usize = 8;
/// Highest offset, and one below the lowest, negated: 24 bits with a sign.
pub const MAX_OFFSET: i32 = (1 << 23) - 1;

const LOAD: u8 = 1;
const REDUCE: u8 = 2;
const FLAG: u8 = 0x08;

/// What the elements are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ElementType {
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// binary32.
    F32,
    /// Signed integers of 32 bits.
    S32,
    /// Unsigned integers of 32 bits.
    U32,
}

/// How many elements one instruction is about: registers, one for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VectorWidth {
    /// One.
    V1,
    /// Two.
    V2,
    /// Four.
    V4,
    /// Eight.
    V8,
}

/// PTX's cache operators of loads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CacheOperator {
    /// `.ca`: in all levels; what PTX means if nothing is said.
    #[default]
    All,
    /// `.cg`: in the second level and below.
    Global,
    /// `.cs`: likely used once.
    Streaming,
    /// `.cv`: not at all.
    Volatile,
}

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// `ld`: from memory to registers.
    Load(CacheOperator),
    /// `red.add`: adds registers to memory. The paper adds, and nothing else.
    Reduce,
}

/// A load from or a reduction into global memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Instruction {
    /// What it does.
    pub operation: Operation,
    /// The register with the thread block's group ID: with one, the requests carry the CAIS flag and may merge.
    pub group: Option<u8>,
    /// Of what.
    pub element: ElementType,
    /// Of how many.
    pub width: VectorWidth,
    /// The first register that it fills or takes from.
    pub data: u8,
    /// The register with the address.
    pub address: u8,
    /// Bytes that are added to the address, of 24 bits with a sign.
    pub offset: i32,
}

/// Why bytes are not an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum InstructionError {
    /// Not eight bytes.
    #[error("expected an instruction of 8 bytes, found another length")]
    Length,
    /// Neither a load nor a reduction.
    #[error("expected opcode 1 (ld) or 2 (red), found another")]
    Opcode,
    /// No type of elements.
    #[error("expected a type of elements from 0 to 4, found another")]
    Type,
    /// No cache operator.
    #[error("expected a cache operator from 0 to 3, and 0 in a reduction, found another")]
    Cache,
    /// A bit that must be zero.
    #[error("expected reserved bits of zero, found a one")]
    Reserved,
    /// A group without the flag.
    #[error("expected no group register without the CAIS flag, found one")]
    Group,
    /// More registers than there are.
    #[error("expected data registers up to 255, found a vector that ends above")]
    Registers,
}

impl ElementType {
    /// All of them, by their number.
    pub const ALL: [Self; 5] = [Self::F16, Self::Bf16, Self::F32, Self::S32, Self::U32];

    /// Its bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::S32 | Self::U32 => 4,
        }
    }
}

impl VectorWidth {
    /// All of them, by their number.
    pub const ALL: [Self; 4] = [Self::V1, Self::V2, Self::V4, Self::V8];

    /// Elements.
    pub const fn elements(self) -> u8 {
        1 << self as u8
    }
}

impl CacheOperator {
    /// All of them, by their number.
    pub const ALL: [Self; 4] = [Self::All, Self::Global, Self::Streaming, Self::Volatile];
}

/// The fields of eight bytes, whatever they say.
#[derive(Clone, Copy)]
struct View<'a>(&'a [u8; LENGTH]);

impl View<'_> {
    const fn opcode(self) -> u8 {
        self.0[0] >> 4
    }

    const fn flag(self) -> bool {
        self.0[0] & FLAG != 0
    }

    fn element(self) -> Option<ElementType> {
        ElementType::ALL.get(usize::from((self.0[0] & 0x07) << 1 | self.0[1] >> 7)).copied()
    }

    const fn width(self) -> VectorWidth {
        VectorWidth::ALL[(self.0[1] >> 5 & 0x03) as usize]
    }

    fn cache(self) -> Option<CacheOperator> {
        CacheOperator::ALL.get(usize::from(self.0[1] >> 1 & 0x0f)).copied()
    }

    const fn reserved(self) -> bool {
        self.0[1] & 0x01 != 0
    }

    const fn offset(self) -> i32 {
        // To the top, and back with the sign.
        i32::from_be_bytes([self.0[5], self.0[6], self.0[7], 0]) >> 8
    }
}

impl Instruction {
    /// Writes it.
    ///
    /// # Panics
    /// If the offset has more than 24 bits, or the vector ends above register 255.
    pub fn emit(&self) -> [u8; LENGTH] {
        assert!((-MAX_OFFSET - 1..=MAX_OFFSET).contains(&self.offset), "an offset of 24 bits");
        assert!(self.has_registers(), "data registers up to 255");
        let (opcode, cache) = match self.operation {
            Operation::Load(cache) => (LOAD, cache as u8),
            Operation::Reduce => (REDUCE, 0),
        };
        let (element, width) = (self.element as u8, self.width as u8);
        let flag = if self.group.is_some() { FLAG } else { 0 };
        let [_, high, middle, low] = self.offset.to_be_bytes();
        [
            opcode << 4 | flag | element >> 1,
            element << 7 | width << 5 | cache << 1,
            self.data,
            self.address,
            self.group.unwrap_or(0),
            high,
            middle,
            low,
        ]
    }

    /// Reads it.
    ///
    /// # Errors
    /// If the bytes are none, or more than one.
    pub fn parse(bytes: &[u8]) -> Result<Self, InstructionError> {
        let view = View(bytes.try_into().map_err(|_| InstructionError::Length)?);
        let [_, _, data, address, group, ..] = *view.0;
        let cache = view.cache().ok_or(InstructionError::Cache)?;
        let operation = match view.opcode() {
            LOAD => Operation::Load(cache),
            REDUCE if cache == CacheOperator::All => Operation::Reduce,
            REDUCE => return Err(InstructionError::Cache),
            _ => return Err(InstructionError::Opcode),
        };
        if view.reserved() {
            return Err(InstructionError::Reserved);
        }
        if !view.flag() && group != 0 {
            return Err(InstructionError::Group);
        }
        let found = Self {
            operation,
            group: view.flag().then_some(group),
            element: view.element().ok_or(InstructionError::Type)?,
            width: view.width(),
            data,
            address,
            offset: view.offset(),
        };
        if found.has_registers() { Ok(found) } else { Err(InstructionError::Registers) }
    }

    /// Whether its vector ends at a register that there is.
    pub(crate) fn has_registers(&self) -> bool {
        self.data.checked_add(self.width.elements() - 1).is_some()
    }
}
