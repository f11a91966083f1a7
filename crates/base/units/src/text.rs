//! Reading and printing units as people write them: a decimal number and a suffix, in exact integer arithmetic.

use alloc::string::ToString;
use core::fmt;

/// Why a text is not the unit that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected}, found \"{found}\"")]
pub struct ParseUnitError {
    /// What would have been right, with an example.
    pub expected: &'static str,
    /// The text as it was given.
    pub found: alloc::string::String,
}

/// A suffix and how many of the type's smallest unit it stands for.
pub(crate) type Scale = (&'static str, u64);

/// The most decimals that are read: as many as 64 bits hold. A picosecond has twelve in a second.
const MAX_FRACTION_DIGITS: usize = 19;

/// Reads `<decimal><suffix>`, for example `2.5ms`, as a whole number of the smallest unit: never rounded. A space
/// may stand between the two.
pub(crate) fn parse(text: &str, scales: &[Scale], expected: &'static str) -> Result<u64, ParseUnitError> {
    parse_exact(text.trim(), scales).ok_or_else(|| ParseUnitError { expected, found: text.to_string() })
}

fn parse_exact(text: &str, scales: &[Scale]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let &(_, scale) = scales.iter().find(|(name, _)| *name == suffix.trim_start())?;
    let (whole, fraction) = match number.split_once('.') {
        // "1." and ".5" are slips of the pen more often than numbers.
        Some((whole, fraction)) if whole.is_empty() || fraction.is_empty() => return None,
        Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
        None => (number, ""),
    };
    if fraction.len() > MAX_FRACTION_DIGITS {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(scale);
    let part = match fraction {
        "" => 0,
        digits => {
            let denominator = 10u128.pow(digits.len() as u32);
            let numerator = u128::from(digits.parse::<u64>().ok()?) * u128::from(scale);
            if !numerator.is_multiple_of(denominator) {
                return None;
            }
            numerator / denominator
        }
    };
    u64::try_from(whole + part).ok()
}

/// Prints `value` in the largest decimal scale that it reaches, with as many decimals as exactness needs. `scales`
/// go up, start with 1 and are powers of ten.
pub(crate) fn print_decimal(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    scales: &[Scale],
    zero: Scale,
) -> fmt::Result {
    let reached = scales.iter().rev().find(|(_, scale)| value >= *scale);
    let &(suffix, scale) = reached.unwrap_or(&zero);
    let (whole, part) = (value / scale, value % scale);
    if part == 0 {
        return f.pad(&alloc::format!("{whole}{suffix}"));
    }
    let digits = alloc::format!("{part:0width$}", width = scale.ilog10() as usize);
    f.pad(&alloc::format!("{whole}.{}{suffix}", digits.trim_end_matches('0')))
}

/// Prints `value` in the largest scale that divides it. `scales` go up and start with 1.
pub(crate) fn print_whole(f: &mut fmt::Formatter<'_>, value: u64, scales: &[Scale]) -> fmt::Result {
    let divides = |(_, scale): &&Scale| value >= *scale && value.is_multiple_of(*scale);
    let &(suffix, scale) = scales.iter().rev().find(divides).unwrap_or(&scales[0]);
    f.pad(&alloc::format!("{}{suffix}", value / scale))
}
