//! What every node of the memory fabric is made of (SCIN 3.2, 3.3 and 4.1).
//!
//! - [`Port`] is one end of a link: a virtual channel for each class of transactions, doubled for the in-switch
//!   accelerator, credits that cover the round trip, round-robin arbitration.
//! - [`SwitchCore`] forwards packets between the ports of a switch by their destination.
//! - [`Endpoint`] is an accelerator's memory: it serves the others' reads, writes and words, and issues those of the
//!   kernel that runs on it.
//! - [`Messages`] is an accelerator's memory where links join accelerators directly, and the [verbs](quincunx_engine::verbs) of what
//!   runs on it: Writes with Immediate.
//!
//! None of them is a node by itself: `nodes` puts them together with what computes. Nothing here knows how long a
//! link is or how fast; that is the driver's.
//!
//! Where we decide what the papers leave open: credits count packets, each channel's buffer being cut into slots of
//! its largest packet; they travel in the headers of packets that go the other way and, where none does, in idle
//! flits, so that they take no bandwidth. The switch core keeps a queue for each pair of output and channel, so that
//! a blocked output blocks no other.
#![no_std]
extern crate alloc;

mod drops;
mod endpoint;
mod forwarding;
mod messages;
mod outbound;
mod port;
mod scatter;

pub use drops::MemoryDrop;
pub use endpoint::{Endpoint, EndpointConfig, UNSOLICITED};
pub use forwarding::{Forwarded, SwitchCore};
pub use messages::{Messages, MessagesConfig};
pub use port::{Port, PortConfig, PortFault};
pub use scatter::Scatter;
