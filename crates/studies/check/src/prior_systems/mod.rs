//! The rules of two earlier systems, as far as they are told, and what each admits: SwitchML and ATP.
//!
//! EPIC's paper says that its checker finds design risks in these and in NetReduce (5.1), not which. NetReduce's are those of the design
//! `netreduce`, whose mutations are its rules as they are told. So each system's rules for the memory of its switch are written
//! here as a small engine, on a star of workers that run one AllReduce, with nothing else of the system: what is found holds of the rules,
//! not of any implementation. Beside a system's own rule stand one that it improves on and those that repair it, each a variant that adds to the
//! one before; none of them runs anywhere but in the checker. A payload has an element for each chunk, so that a sum shows of whom
//! and of which chunk it is.
//!
//! ```text
//! quincunx check switchml-rules all_reduce --window 1 --losses 0 --reorder
//! quincunx check switchml-rules all_reduce --window 1 --reorder --rule chunk-numbers
//! quincunx check atp-rules all_reduce --packets 2 --losses 0 --duplicate
//! ```
//!
//! ## What is found
//!
#![doc = include_str!("verdicts.md")]
//!
//! ## SwitchML
//! *Told.* In the papers here, little: it runs over UDP, and workers keep what they may have to send again (AllReduce-Switch, table III).
//! The rule is that of Sapio et al., *Scaling Distributed Machine Learning with In-Network Aggregation*, NSDI 2021 (arXiv:1903.06701), cited by
//! both: two pools used in turn, so that a slot's last sum is still there for a worker that has missed it, a bit in each frame that says
//! which, and for each worker and slot a bit in each pool that says whether it has contributed; contributing to one pool clears the other's.
//!
//! *Chosen.* A worker takes a result if it waits for that chunk. Chunks have a timer each.
//!
//! *Fault.* What a bit tells apart is a slot's use from the one before, not from the one before that. A contribution that is late, while
//! the one sent in its place has been counted, arrives when its sender has gone on: the bit that would have shown it as a duplicate is cleared.
//! It is counted to the chunk after the next, in place of its sender's own (`[0 - 1]`), or beside it. Links that keep their order
//! admit none of this, whatever they lose.
//!
//! *Repair.* The offset of the chunk is in the frame anyway. A switch that keeps the last one of each worker and slot drops what lies before it.
//!
//! ## ATP
//! *Told.* It shares aggregators over time (EPIC 6.2), and its parameter server is a host (7.3, I.2). The rule is that of Lao et al., *ATP: In-network
//! Aggregation for Multi-tenant Learning*, NSDI 2021, and the program published with it (github.com/in-ATP/ATP): a chunk takes the aggregator that its
//! hash names, until the result passes; if another chunk is there, it goes to the server; what is sent again takes along what
//! there is of its chunk, frees the aggregator and reserves none. The server adds up what is of other workers than it has, and answers what is whole.
//!
//! *Chosen.* The hash is a remainder. The server keeps all chunks of the collective. A switch that holds an aggregator in the end is at
//! fault ([`StarSetup::frees`]), even if all sums are right: nothing can happen any more then, and it is not done.
//!
//! *Fault.* Without the bypass a whole aggregate that is lost on its way to the server is never sent again: its aggregator takes all that
//! comes for duplicates. With it sums are right in every environment here; but a contribution that arrives when its chunk has been answered
//! finds the aggregator free, and takes it. No result will pass, and nobody sends it again: the aggregator is lost to all chunks and jobs that
//! its hash gives it, and they fall back for good.
//!
//! *Repair.* An aggregator has a deadline. When it passes, what there is goes to the server, which knows whether it is of use.

mod atp;
mod codec;
mod frame;
mod node;
mod rules;
mod setup;
mod star;
mod study;
mod switch_ml;
mod worker;

pub use atp::{Aggregators, Server};
pub use codec::{Malformed, PriorSystemCodec};
pub use frame::{DropReason, Event, Header, Timer, Workers};
pub use node::{Node, Role, Start};
pub use rules::{AtpRule, Rules, SwitchMlRule, UnknownRule};
pub use setup::{StarSetup, StarSetupError};
pub use star::{Owner, PriorSystem};
pub(crate) use study::PriorSystemStudy;
pub use switch_ml::Pools;
pub use worker::{AlreadyStarted, Worker};
