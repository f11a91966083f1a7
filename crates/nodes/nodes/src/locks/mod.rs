//! Locks on switches' memory that several groups share (EPIC 6.2, "contention-and-fallback"): before each invocation a group asks the
//! recorders of all switches of its tree, first come, first served. If one refuses, all that were granted are released, and the group
//! communicates among its hosts.
//!
//! The words travel as unreliable datagrams over the edges of the tree, up and down again, and never by way of the manager:
//!
//! 1. Each rank says [`Ask`](Word::Ask). A switch that has heard it of all its children asks its recorder and says it to its parent, with a
//!    mark if a recorder at or below it refuses.
//! 2. The root turns it round: [`Verdict`](Word::Verdict). No rank sends a packet of the invocation before it has heard it, and all hear the
//!    same. Where it is a refusal, switches release on its way down.
//! 3. A rank whose part in the invocation is over says [`Done`](Word::Done). When the root has heard it of all, it says
//!    [`Free`](Word::Free), and switches release on its way down: until then a rank may retransmit, and the result come down to all of them
//!    once more, through that memory. A rank
//!    may ask for the next invocation at once: that says the same.
//!
//! A group may be patient: its ranks, who all hear the same verdict, pause and ask again, so many times, before they run the invocation among
//! the hosts. The pause is meant to shift a job to where the other one computes ("staggers group invocations").
//!
//! A switch never waits for a lock, so that no two groups wait for each other; two with half of what they need each fall back both, which
//! [`LockCounts::in_vain`] counts. First come, first served has no memory: a group that asks again at once, before others have asked, has the
//! locks again. What is lost, a rank says again; words carry the number of their invocation, and those that are late or
//! double say nothing. The checker explores it as `quincunx check locks`.

mod edge;
mod mutation;
mod rank;
mod recorder;
mod switch;
mod word;

pub use edge::LockEdge;
pub use mutation::Mutation as LockMutation;
pub use rank::{LockRank, LockStep};
pub use recorder::{LockCounts, Recorder};
pub use switch::{EdgeMessages, LockEdges, LockSwitch};
pub use word::{Number, Word};
