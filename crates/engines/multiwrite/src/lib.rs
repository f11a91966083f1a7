//! MultiWrite: one write, many destinations (MultiWrite, sections 4 and 5).
//!
//! `MultiWrite(S, {(D, B), ...}, B_S)` writes what lies in `B_S` at `S` to the buffer `B` of each destination `D`. The rule is the same
//! at every node (4.3.3): the destinations are split by next hop, as the node's table for ordinary writes has it; a part
//! that is one neighbour gets an ordinary write, any other part a MultiWrite of its own. The destinations travel with the data, as a
//! bitmap by rank (`quincunx_wire::multiwrite`), and each part's bitmap names that part alone, so that nobody gets anything
//! twice. There are no groups to set up, and a relay remembers nothing of what it has passed on.
//!
//! The paper's four modules (5.1):
//!
//! | module | here |
//! |---|---|
//! | `cs_ini` | [`Table`], the ranks and the next hops; [`Writer::initialise`], the window and the receive requests |
//! | `cs_send` | [`Writer::write`] |
//! | `cs_relay` | [`Writer::handle_written`], [`Writer::relay`] |
//! | `cs_rcv` | [`Writer::handle_written`] answers with a [`Delivery`]; [`AllGather`] puts them together |
//!
//! [`AllGather`] is the paper's example of a collective above it: part of the data goes over the direct links, part over relays.
//! [`Experts`] dispatches each token to the ranks of its experts, once over the links between servers (3.2), and combines what they make of
//! it.
//!
//! [`Writes`] has nothing above it: what the application itself writes, to one rank or several (4.3.2).
//!
//! What it promises (4.3.4): each destination's buffer is written by one write of the transport, whole or not at all as far
//! as its [`Delivery`] tells; nothing about the order between destinations; the reliability of the queue pairs below. A peer or
//! relay that dies ends the queue pairs to it, and [`AllGather`] ends with that failure, at every rank that had something
//! to send there.
//!
//! # Where we differ from the paper, and why
//!
//! - **No opcode of its own on RoCE**, which has none to give: there a MultiWrite is a Write with Immediate. What tells it from an
//!   ordinary write is its bitmap: one that names the receiver alone is for nobody else. On a memory fabric it has one (4.2):
//!   `Transaction::MultiWrite` in `quincunx_wire::flit`, which a write to one neighbour uses as well.
//! - **Buffers are slots of a window**, the same at every node: each source has slots of its own at everybody, as the receive buffers that
//!   communication libraries reserve for each peer. A relay buffers what passes in the source's slots with it (6.4,
//!   "relay buffer"). So destinations of one write that name the same slot share it; other slots make other writes. A
//!   source must not use a slot again before everybody has what it wrote there: [`AllGather`] ends with a barrier (5.2, step 5).
//! - **A single destination behind a relay is a MultiWrite too**: queue pairs lead to neighbours, none to those behind them.
//! - **Announcements**: before a dispatch each rank tells each other how many tokens follow. Callers of the paper's baseline, an AllToAllV,
//!   say how many come from whom; with `relay.announce = false` ours do, and ranks that have waited long announce after all, so that wrong numbers
//!   are found.
//! - **32 ranks in the immediate, not 64**: RoCE's has 32 bits, and so have the verbs on either fabric.
//! - **Loops**: parts only shrink, so nothing is delivered twice; but where tables contradict each other a write could go round. One
//!   that would go back where it came from ends the group of the relay that sees it, and one that comes back to its source that of the
//!   source; those who wait for it are told by nobody. One that goes round among three relays or more is seen by none of them, for
//!   none remembers it. Tables without loops for ordinary writes have none here.
#![no_std]
extern crate alloc;

mod all_gather;
mod arrivals;
mod barrier;
mod batch;
mod combine;
mod design;
mod dispatch;
mod experts;
mod mutation;
mod relaying;
mod split;
mod state;
mod table;
mod ways;
mod window;
mod writer;
mod writes;

pub use all_gather::{AllGather, AllGatherConfig, AllGatherConfigError};
pub use design::{
    DIRECT, MULTIWRITE, MultiWrite, Relay, RelayParams, RelayRole, Relays, UNICAST_MULTIPATH, WRITES,
};
pub use experts::{Experts, ExpertsConfig, ExpertsConfigError};
pub use mutation::Mutation;
pub use split::{Part, Paths, Strategy, split};
pub use table::{Table, TableError};
pub use window::Window;
pub use writer::{
    Delivery, ProtocolViolation, RELAY, RelayCost, Target, Write, WriteError, Writer, WriterConfig,
};
pub use writes::Writes;
