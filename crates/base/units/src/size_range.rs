//! Sweeps of sizes as the command line writes them.

use crate::ByteCount;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

/// Sizes from the first to the last, each `factor` times the one before: `4KiB:16MiB:4`, or one size alone. `4K`, `128M` and `1G` are
/// binary, as nccl-tests has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeRange {
    first: u64,
    last: u64,
    factor: u64,
}

/// Why a text is no sweep.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected sizes such as 1MiB or 4KiB:16MiB:4 (first:last:factor, a factor of 2 or more), found \"{found}\""
)]
pub struct SizeRangeError {
    found: String,
}

impl SizeRange {
    /// The sizes, ascending.
    pub fn sizes(self) -> impl Iterator<Item = ByteCount> {
        core::iter::successors(Some(self.first), move |size| size.checked_mul(self.factor))
            .take_while(move |&size| size <= self.last)
            // Zero times any factor is zero: once is enough.
            .take(if self.first == 0 { 1 } else { usize::MAX })
            .map(ByteCount::new)
    }
}

impl FromStr for SizeRange {
    type Err = SizeRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || SizeRangeError { found: text.into() };
        let size = |text: &str| {
            let binary =
                text.trim().ends_with(['K', 'M', 'G', 'T']).then(|| alloc::format!("{}iB", text.trim()));
            let text = binary.as_deref().unwrap_or(text);
            text.parse::<ByteCount>().map(ByteCount::bytes).map_err(|_| wrong())
        };
        let parts: Vec<&str> = text.split(':').collect();
        let range = match parts[..] {
            [only] => Self { first: size(only)?, last: size(only)?, factor: 2 },
            [first, last] => Self { first: size(first)?, last: size(last)?, factor: 2 },
            [first, last, factor] => {
                Self { first: size(first)?, last: size(last)?, factor: factor.parse().map_err(|_| wrong())? }
            }
            _ => return Err(wrong()),
        };
        if range.factor < 2 || range.last < range.first { Err(wrong()) } else { Ok(range) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u64> {
        text.parse::<SizeRange>().unwrap().sizes().map(ByteCount::bytes).collect()
    }

    #[test]
    fn a_sweep_multiplies_up_to_its_last_size() {
        assert_eq!(bytes("4KiB:1MiB:4"), [4096, 16384, 65536, 262_144, 1_048_576]);
        assert_eq!(bytes("1KiB:3KiB"), [1024, 2048]);
    }

    #[test]
    fn a_letter_alone_is_binary() {
        assert_eq!(bytes("4K:1M:16"), bytes("4KiB:1MiB:16"));
        assert_eq!(bytes("1G"), [1 << 30]);
        assert!("4k".parse::<SizeRange>().is_err());
    }

    #[test]
    fn one_size_is_a_sweep() {
        assert_eq!(bytes("0"), [0]);
        assert_eq!(bytes("16MiB"), [16 << 20]);
    }

    #[test]
    fn what_never_ends_or_never_begins_is_refused() {
        for text in ["", "4KiB:16MiB:1", "16MiB:4KiB", "a:b", "1:2:3:4"] {
            assert!(text.parse::<SizeRange>().is_err(), "{text}");
        }
    }
}
