//! Loads and reductions as PTX text: `ld.cais.global.v4.f16 {%h0, %h1, %h2, %h3}, [%rd1+16], %r1;`.
//!
//! PTX's words, with `.cais` behind the opcode and the group register as the last operand; `.ca`, which is what PTX means without a word, is
//! not written. Both spellings of the paper are read, `.cais` is written.

use crate::instruction::{CacheOperator, ElementType, Instruction, MAX_OFFSET, Operation, VectorWidth};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::{self, Display};
use core::str::FromStr;

/// A line that is no instruction of ours: what was expected, what was found, what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected {expected}, found \"{found}\"; write it as in `ld.cais.global.v4.f16 {{%h0, %h1, %h2, %h3}}, [%rd1+16], %r1;`"
)]
pub struct PtxError {
    expected: &'static str,
    found: String,
}

impl ElementType {
    /// PTX's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::S32 => "s32",
            Self::U32 => "u32",
        }
    }

    /// What its registers are called.
    const fn registers(self) -> &'static str {
        match self {
            Self::F16 | Self::Bf16 => "%h",
            Self::F32 => "%f",
            Self::S32 | Self::U32 => "%r",
        }
    }
}

impl CacheOperator {
    /// PTX's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "ca",
            Self::Global => "cg",
            Self::Streaming => "cs",
            Self::Volatile => "cv",
        }
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = if self.group.is_some() { ".cais" } else { "" };
        match self.operation {
            Operation::Load(CacheOperator::All) => write!(f, "ld{flag}.global")?,
            Operation::Load(cache) => write!(f, "ld{flag}.global.{}", cache.name())?,
            Operation::Reduce => write!(f, "red{flag}.global.add")?,
        }
        let elements = self.width.elements();
        if elements > 1 {
            write!(f, ".v{elements}")?;
        }
        write!(f, ".{} ", self.element.name())?;
        if self.operation == Operation::Reduce {
            self.write_address(f)?;
            f.write_str(", ")?;
            self.write_data(f)?;
        } else {
            self.write_data(f)?;
            f.write_str(", ")?;
            self.write_address(f)?;
        }
        if let Some(group) = self.group {
            write!(f, ", %r{group}")?;
        }
        f.write_str(";")
    }
}

impl Instruction {
    fn write_data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, elements) = (self.element.registers(), self.width.elements());
        if elements == 1 {
            return write!(f, "{name}{}", self.data);
        }
        for index in 0..u16::from(elements) {
            let before = if index == 0 { "{" } else { ", " };
            write!(f, "{before}{name}{}", u16::from(self.data) + index)?;
        }
        f.write_str("}")
    }

    fn write_address(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => write!(f, "[%rd{}]", self.address),
            offset => write!(f, "[%rd{}{offset:+}]", self.address),
        }
    }
}

fn fail<T>(expected: &'static str, found: &str) -> Result<T, PtxError> {
    Err(PtxError { expected, found: found.to_string() })
}

/// A register of that kind.
fn register(text: &str, name: &str, expected: &'static str) -> Result<u8, PtxError> {
    let number = text.trim().strip_prefix(name).filter(|number| is_plain(number));
    match number.and_then(|number| number.parse().ok()) {
        Some(number) => Ok(number),
        None => fail(expected, text.trim()),
    }
}

/// Whether it is written as we write numbers: digits, no zero before them.
fn is_plain(number: &str) -> bool {
    number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'))
}

fn data(text: &str, element: ElementType, width: VectorWidth) -> Result<u8, PtxError> {
    let expected = "consecutive data registers of the type, as many as the vector has";
    let (text, elements) = (text.trim(), width.elements());
    let listed = match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        Some(listed) if elements > 1 => listed,
        None if elements == 1 => text,
        _ => return fail(expected, text),
    };
    let mut first = None;
    let mut count = 0;
    for name in listed.split(',') {
        let number = register(name, element.registers(), expected)?;
        let first = *first.get_or_insert(number);
        if first.checked_add(count) != Some(number) {
            return fail(expected, text);
        }
        count += 1;
    }
    match first {
        Some(first) if count == elements => Ok(first),
        _ => fail(expected, text),
    }
}

fn address(text: &str) -> Result<(u8, i32), PtxError> {
    let expected = "an address [%rdN] or [%rdN+BYTES] with an offset of 24 bits";
    let text = text.trim();
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return fail(expected, text);
    };
    let at = inner.find(['+', '-']).unwrap_or(inner.len());
    let (base, offset) = inner.split_at(at);
    let base = register(base, "%rd", expected)?;
    if offset.is_empty() {
        return Ok((base, 0));
    }
    match offset.parse::<i32>() {
        Ok(value) if is_plain(&offset[1..]) && (-MAX_OFFSET - 1..=MAX_OFFSET).contains(&value) => {
            Ok((base, value))
        }
        _ => fail(expected, text),
    }
}

impl FromStr for Instruction {
    type Err = PtxError;

    fn from_str(text: &str) -> Result<Self, PtxError> {
        let text = text.trim();
        let Some((words, operands)) = text.strip_suffix(';').and_then(|text| text.split_once(' ')) else {
            return fail("an instruction with operands that ends with `;`", text);
        };
        let mut words = words.split('.').peekable();
        let opcode = words.next().unwrap_or_default();
        let is_load = match opcode {
            "ld" => true,
            "red" => false,
            _ => return fail("`ld` or `red`", opcode),
        };
        let merges = words.next_if(|word| ["cais", "caiss"].contains(word)).is_some();
        if words.next_if_eq(&"global").is_none() {
            return fail("`.global`", words.peek().unwrap_or(&""));
        }
        let operation = if is_load {
            let known = |word: &str| CacheOperator::ALL.into_iter().find(|cache| cache.name() == word);
            let cache = words.peek().and_then(|word| known(word));
            if cache.is_some() {
                words.next();
            }
            Operation::Load(cache.unwrap_or_default())
        } else if words.next_if_eq(&"add").is_some() {
            Operation::Reduce
        } else {
            return fail("`.add`", words.peek().unwrap_or(&""));
        };
        let wide = |word: &str| {
            VectorWidth::ALL[1..].iter().copied().find(|width| format!("v{}", width.elements()) == word)
        };
        let width = words.peek().and_then(|word| wide(word));
        if width.is_some() {
            words.next();
        }
        let width = width.unwrap_or(VectorWidth::V1);
        let word = words.next().unwrap_or_default();
        let Some(element) = ElementType::ALL.into_iter().find(|element| element.name() == word) else {
            return fail("`.v2`, `.v4` or `.v8` and a type (f16, bf16, f32, s32, u32)", word);
        };
        if let Some(word) = words.next() {
            return fail("operands after the type", word);
        }
        let (operands, group) = if merges {
            match operands.rsplit_once(',') {
                Some((operands, group)) => {
                    (operands, Some(register(group, "%r", "a group register %rN as the last operand")?))
                }
                None => return fail("a group register %rN as the last operand", operands),
            }
        } else {
            (operands, None)
        };
        // The comma between data and address: that outside of braces.
        let split = if is_load { operands.rsplit_once(',') } else { operands.split_once(',') };
        let Some((first, second)) = split else { return fail("data and an address", operands) };
        let (registers, place) = if is_load { (first, second) } else { (second, first) };
        let (address, offset) = address(place)?;
        let data = data(registers, element, width)?;
        Ok(Self { operation, group, element, width, data, address, offset })
    }
}
