//! Chakra execution traces (MLCommons): what a rank computes, moves and communicates, and what waits for what.
//!
//! A `.et` file is a sequence of protobuf messages, each behind its length: first the metadata, then a node each. There is a file a rank,
//! `PREFIX.RANK.et`. [`Trace::read`] checks one: ids, dependencies, sizes, durations. [`Trace::write`] writes one that reads back as the same.
//! [`Trace::of_pytorch`] makes one of what PyTorch records.
//! [`replay`] lays the traces of all ranks out in time. How long a collective takes, whoever calls it says: nothing here knows a fabric, a
//! design or a simulator.

mod error;
mod intervals;
mod matching;
mod order;
mod proto;
mod pytorch;
mod read;
mod replay;
mod trace;
mod write;

pub use error::{ReplayError, TraceError};
pub use matching::{Communication, Exchange};
pub use replay::{Machine, RankTimes, Replay, Span, replay};
pub use trace::{Cost, Node, Operation, Trace, Work};
