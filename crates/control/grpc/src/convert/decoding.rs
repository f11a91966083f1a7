//! What fields of messages are checked with.

use quincunx_wire::{MAX_QPN, Psn, QpNumber};

/// A message that makes no sense: its sender has another version of the protocol, or a fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected} in the field {field}, found {found}; run the same version at both ends")]
pub struct DecodeError {
    /// What would have been right.
    pub expected: &'static str,
    /// Where.
    pub field: &'static str,
    /// What was there.
    pub found: String,
}

pub(super) type Decoded<T> = Result<T, DecodeError>;

pub(super) fn wrong<T>(field: &'static str, expected: &'static str, found: impl ToString) -> Decoded<T> {
    Err(DecodeError { expected, field, found: found.to_string() })
}

/// How a text begins that may be of any length and hold anything, in one line.
pub(super) fn start_of(text: &str) -> String {
    let start: String = text.chars().take(64).collect();
    format!("{start:?}")
}

pub(super) fn present<T>(field: &'static str, value: Option<T>) -> Decoded<T> {
    value.map_or_else(|| wrong(field, "a value", "none"), Ok)
}

pub(super) fn narrow<T: TryFrom<u32>>(field: &'static str, expected: &'static str, value: u32) -> Decoded<T> {
    T::try_from(value).or_else(|_| wrong(field, expected, value))
}

pub(super) fn psn(field: &'static str, value: u32) -> Decoded<Psn> {
    if value > MAX_QPN { wrong(field, "24 bits", value) } else { Ok(Psn::new(value)) }
}

pub(super) fn queue_pair(field: &'static str, number: u32) -> Decoded<QpNumber> {
    match number {
        0..=MAX_QPN => Ok(QpNumber::new(number)),
        _ => wrong(field, "a queue pair number of 24 bits", number),
    }
}

pub(super) fn each<T, U>(values: Vec<T>, decode: impl Fn(T) -> Decoded<U>) -> Decoded<Vec<U>> {
    values.into_iter().map(decode).collect()
}
