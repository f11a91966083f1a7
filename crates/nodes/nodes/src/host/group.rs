//! What a rank needs for one group.

use alloc::boxed::Box;
use alloc::vec::Vec;
use quincunx_collective::{GroupId, Payload, Rank};
use quincunx_engine::PortId;
use quincunx_engine::verbs::AnyProgram;
use quincunx_roce::QueuePairConfig;
use quincunx_units::Duration;

use crate::locks::LockEdge;

/// What a rank needs for one group.
#[derive(Clone, Debug)]
pub struct HostGroup<P: Payload> {
    /// The group's name here.
    pub group: GroupId,
    /// Its queue pairs, in the order of the program's indices, each with the port it speaks through.
    pub queue_pairs: Vec<(PortId, QueuePairConfig)>,
    /// Somebody else executes their work, which [`take_work`](crate::Offloadable::take_work) hands out, and says by [`HostCommand::Complete`](crate::HostCommand::Complete) what became of it.
    pub are_offloaded: bool,
    /// The algorithm.
    pub program: Box<dyn AnyProgram<P>>,
    /// If switches' memory is locked for each of its collectives, and what it runs when it is not.
    pub contention: Option<Box<HostContention<P>>>,
}

/// What a rank needs to contend for switches' memory.
#[derive(Clone, Debug)]
pub struct HostContention<P: Payload> {
    /// What it runs when a switch refuses: a group of its own number.
    pub fallback: HostGroup<P>,
    /// Over which it asks.
    pub edge: LockEdge,
    /// After which it says again what nobody has answered.
    pub again: Duration,
    /// How long it asks for locks that are not free.
    pub patience: Duration,
    /// This rank.
    pub rank: Rank,
    /// Ranks in the group.
    pub ranks: u16,
}
