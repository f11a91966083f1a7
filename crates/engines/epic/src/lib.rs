//! EPIC: in-network collectives on Ethernet, as switches and hosts run them ("EPIC: Abstraction and Polymorphism of
//! In-Network Collectives on Ethernet").
//!
//! - [`IncEngine`] is what a switch runs for a group in Mode-II (connection translated) and Mode-III (connection augmented). Both modes are
//!   compositions of the modules of section 4.1, each of which is written once.
//! - [`mode_i::ModeI`] is the aggregation above a Mode-I switch's queue pairs (connection terminated).
//! - [`CommLib`] is the host's side, the same in all modes, above one queue pair.
//!
//! ## Where each module of section 4.1 lives
//! | module | file |
//! |---|---|
//! | LookupTable | `nodes/nodes/src/switch.rs` (endpoint), `invocation.rs` (collective, direction, fan-in, outs) |
//! | TranslateHeader, ReplicateData, Forward | `forward.rs` |
//! | CheckDuplicate, AggregateData, RecycleBuffer | `pipe.rs` |
//! | PSNs of ranks that cannot skip any | `numbering.rs` |
//! | ReceiveAck, SendAck, Retransmission | `hop.rs`, `mode_iii/{answers,sending}.rs` |
//!
//! ## Where we differ from the paper, and why
//! - **Packet numbers are unbounded counts inside**, 24 bits on the wire, so that `psn % N` is continuous where the
//!   24 bits wrap, whatever N is.
//! - **The control message is aggregated and replicated like data** (it occupies the first PSN of a collective), so that
//!   one mechanism makes it reliable, and receivers see it too. A Barrier is a control message alone.
//! - **A rank is done when all ranks have agreed** on the collective, its type, operation, root and length. An AllReduce's control message says
//!   all of it, and switches add up equal ones alone. Reduce and Broadcast, and what is made of them, tell a rank nothing of some of
//!   the others: a confirmation follows, a control message that flows as a Barrier does, with a digest. It waits for nothing but the
//!   window, so it costs a packet, and that all ranks have begun.
//! - **Invocations overlap**, also in AllGather, where the paper's follow each other (K.3; `GroupParams::overlap`). So nodes hear of
//!   collectives out of order (`invocation.rs`), Mode-II tells senders of their packets in a row over the ends of collectives, as
//!   the receivers of each differ, and holds a Broadcast's packets in its slots until what a rank receives before them has passed
//!   (`mode_ii/sender_acks.rs`, `mode_ii/gates.rs`). Mode-I's messages have no number, so there a rank waits until its switch knows what
//!   comes before: a hop there and back for each part, not each part's data.
//! - **Trees of several modes** (the paper names none that are right): Mode-I beside the others skips the numbers of what does not come over an
//!   edge, like ranks do; Mode-II takes a switch in another mode for a rank. Right are all where nothing but Mode-II is above Mode-II.
//!   Mode-III takes a contribution for arrived when its result comes, and Mode-II sends no result again by itself: so Mode-III says what has come
//!   when it has waited in vain, and when it is asked for what it takes for answered.
//! - **Standard queue pairs need no sets of groups** (`GroupParams::standard_verbs`): they cannot skip PSNs, and 4.3 has 2N + 1 groups for
//!   that, each for one pattern. Here their first hop translates PSNs, in each direction of the edge, in Mode-II as in Mode-III; between
//!   switches nothing changes. As in Mode-I, a rank waits until its switch knows what comes before.
//! - **Mode-II keeps a valid PSN range**, like Mode-III's: packets that the network kept for longer than the window are
//!   dropped instead of being added to the slot's next user.
//! - **Mode-II, Reduce: a slot is recycled by the receiver's ACK**, not by completion. The receiver contributes nothing,
//!   so completion says nothing about it: it may still be waiting for a result of the previous collective, and recycling
//!   by completion takes the slot that its retransmission needs.
//! - **Mode-II moves its range over aggregating collectives only**: a Broadcast in between frees no slot, as who has it is known to
//!   its sender alone; numbers that meet in a slot then, which is rare, take the next free one.
//! - **Mode-II answers a duplicate only toward the child that sent it**, not to all: the others did not ask.
//! - **What is acknowledged by all is answered by the switch that knows it**: a Broadcast packet that every receiver has
//!   acknowledged, and a Reduce packet whose slot is gone, are answered with an ACK on the spot. With the paper's rule (an
//!   ACK goes upstream only if it advances nodeAckPsn) a lost ACK would not be repeated.
//! - **Mode-III sends results in PSN order** on each endpoint: the receivers go back N, so anything else is dropped there.
//! - **Mode-III puts ACKs off**: in an AllReduce until the result leaves (one wake-up), for a rank in a Reduce or Broadcast
//!   until the range has moved, and no further than that (else a fast rank outruns it, is dropped, and sends again); a
//!   timer is the fallback. With `GroupConfig::run_ahead` they are sent at once, as algorithm 2 has it, and ranks count ACKs
//!   alone.
//! - **Selective reliability** (`GroupConfig::selective`; ranks' queue pairs must have it too): a NAK asks for one packet and
//!   acknowledges nothing; what is asked for is sent again before other traffic, and nothing else is. With it a lost packet
//!   costs what section 7.4 shows; go-back-N, the default and what RoCE NICs do, costs a round trip of packets.
//! - **Mode-III, ahead of the range**: the NAK is sent when the range opens, not when the packet is dropped (H.4: NAK rate
//!   limiting); a NAK at once would be answered by the same packet, too early again. The CNP is sent at once, but not for each
//!   packet: one in `GroupConfig::notification_interval`, as DCQCN's receivers do.
#![no_std]
extern crate alloc;

pub mod closed_forms;
mod comm_lib;
mod config;
mod control;
mod design;
mod drops;
mod forward;
mod hop;
mod inc_engine;
mod invocation;
mod memory;
mod mode;
pub mod mode_i;
mod mode_ii;
mod mode_iii;
mod mutation;
mod numbering;
mod params;
mod pipe;
mod source;
mod timers;

pub use comm_lib::{CommLib, CommLibConfig, CommLibConfigError};
pub use config::{ConfigError, EdgeConfig, GroupConfig, MAX_EDGES};
pub use control::{Agreement, ControlMessage, MAX_DATA_PACKETS, MAX_RANKS, Pattern};
pub use design::{CLOSED_FORMS, EPIC_1, EPIC_2, EPIC_3, EPIC_MIXED, Epic, EpicRank, EpicSwitch};
pub use drops::DropReason;
pub use inc_engine::IncEngine;
pub use memory::{slots, switch_memory};
pub use mode::{Levels, Mode, UnknownModes};
pub use mutation::Mutation;
pub use params::{EpicParams, GroupParams};
