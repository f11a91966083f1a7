//! Explores every run of a small network of engines: every order of delivery, loss, duplication and time-out.
//!
//! The driver knows no protocol. Its owner describes a [`System`]: nodes, links, what each node's owner asks for and what
//! it must be told. [`explore`] visits every state that the network can reach, breadth first, and says that all is well
//! or shows a short way to a fault:
//!
//! - an engine panics (its own assertions and invariants are checked after every step);
//! - a node's owner is told something wrong ([`System::observe`]);
//! - a run is stuck, or has come to where the end cannot be reached any more (livelock), faults aside.
//!
//! ## What a state is
//! A network's state is what its nodes hold and what its links carry. A node's state is its engine, the timers that it has
//! armed and its owner. There are few of those, and the engine's answer to an input depends on nothing else, so every state
//! of a node is kept once and has a number (`interned.rs`, `nodes.rs`), and every answer is computed once (`world.rs`). A state of the
//! network is then a short list of numbers (`state.rs`), and a step is a lookup: the engine's code runs once for
//! each of them, however many states of the network they make.
//!
//! A link keeps the order of its frames, or that of each ordering class ([`System::ordering_class`]), except for those that are late
//! ([`Exploration::delays`], and the copies of [`Exploration::duplicates`]): they arrive at any time, however many others
//! overtake them and however many time-outs expire.
//!
//! Of each state of the network only a 64-bit fingerprint is kept (`visited.rs`). With `n` states the probability that any
//! two share one is below `n²/2^65` times the `g` symmetries in use: for a hundred million states and eight symmetries
//! 0.2 %.
//!
//! ## The clock
//! Timers expire in any order, wherever nothing but late frames is on its way, and the clock stands still. What engines make of the time that
//! has passed is explored where the clock may move on ([`Exploration::jumps`]): for all nodes at once, at any time, and by more than any
//! time-out. Then every frame that is looked at alone must also commute with that.
//!
//! ## The control plane
//! A node's owner may report what makes the control plane tell every node ([`System::notices`]): that a group has failed, say. Each node
//! gets such a notice at any time later, before frames and time-outs and after them, but in the end. A time-out, with which most reports
//! begin, expires where no frame is on its way but late ones. If a frame has called for a notice, the exploration is restarted without
//! persistent sets, for the notice may overtake what is on its way elsewhere.
//!
//! ## What is left out, and why it may be
//! - **Symmetry** ([`System::symmetries`]): states that differ only in which of several equal nodes is which count as one.
//!   That the engines treat them alike is not assumed: each answer of an engine is computed for all symmetric cases and
//!   compared, and an exploration that finds two that differ says so ([`Fault::Asymmetry`]).
//! - **At once** ([`Exploration::at_once`]): a node takes its transmit slots, and its owner's commands, as soon as it wants
//!   to. A frame that leaves later is a frame that takes longer, which is explored; not explored is that what arrives
//!   meanwhile changes the frame.
//! - **Persistent sets** ([`Exploration::persistent_sets`]): if a frame commutes with whatever may come to its node before it, what becomes
//!   of that frame is looked at first, and all else later. What commutes is found out by asking the engines, not assumed
//!   (`causality.rs`, `independence.rs`, `choice.rs`). Small speculative explorations learn most of it; an exploration that relied on
//!   something that turns out to be wrong is restarted. No frame is put off for ever: where that could be, the exploration is
//!   restarted and leaves less out. What is found is no longer a shortest way to a fault, but a shortest one of those that are looked
//!   at. Where more is learnt of orders that may be than there are steps to take, all is looked at instead, and so in turns, each for longer
//!   than the last time, until one of both comes to an end: what engines around a large state answer to all orders may be more than the
//!   network's runs. Not used while timers may fire early, or without *at once*; nor in states where a notice is due.
//! - **Chain compression** (`state.rs`, with persistent sets): a state from which one step alone must be looked at is not stored; whatever
//!   reaches it reaches the state after it. A late frame that its node will ignore arrives at once.
//! - **Patience** ([`Exploration::early_timeouts`]): a timer fires when nothing is on its way, that is, time-outs are longer
//!   than any frame's life; except for as many early ones as are asked for.
#![warn(missing_docs)]

mod causality;
mod choice;
mod decided;
mod exploration;
mod explore;
mod fault;
mod independence;
mod input;
mod interned;
mod nodes;
mod panics;
mod parallel;
mod path;
mod state;
mod step;
mod system;
mod visited;
mod world;

pub use exploration::{Exploration, JUMP, MOST, Progress, Statistics, Unfinished};
pub use explore::{Patience, Verdict, explore, explore_in_turns};
pub use fault::Fault;
pub use panics::catch_panic;
pub use path::{Action, Path, Step};
pub use system::{End, Member, NodeId, Renaming, System};
