//! Time, sizes, counts of packets and messages, rates of transfer and of arithmetic, and probabilities as types, so that no bare number crosses a function boundary with its
//! unit in its name.
//!
//! Time counts whole picoseconds, sizes whole bytes, rates whole bits a second: everything is exact and ordered.
//! The crate reads and prints them as people write them (`250ns`, `16MiB`, `100Gbit/s`) and knows nothing else.
#![no_std]
extern crate alloc;

mod compute;
mod count;
mod document;
mod probability;
mod size;
mod size_range;
mod text;
mod time;

pub use compute::FlopRate;
pub use count::{Messages, Packets};
pub use probability::{Probability, ProbabilityError};
pub use size::{BitRate, ByteCount};
pub use size_range::{SizeRange, SizeRangeError};
pub use text::ParseUnitError;
use time::PICOS_PER_SECOND;
pub use time::{Duration, Instant, MeanTime};
