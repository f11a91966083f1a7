//! Drives an engine over real sockets: one [`Node`] a process, or a thread in tests.
//!
//! The driver knows no protocol. Its owner hands it an `Engine`, a [`Codec`] that turns bytes into frames and back, and a
//! [`Transport`](quincunx_sockets::Transport): those over sockets are in `quincunx_sockets`; that of `quincunx_ports` makes an Ethernet switch
//! of a machine's interfaces, with the node in it; [`AnyTransport`] is whichever is chosen. The call loop of the owner:
//!
//! ```text
//! let mut node = Node::new(engine, ports, codec, UdpTransport::open(address, options)?, NodeOptions::default())?;
//! node.command(order)?;
//! let outcome = node.run_until(limit, |event| the_one_waited_for(event))?;
//! ```
//!
//! What costs on a real machine is the system call and the packet, not the arithmetic: datagrams are received and sent in
//! batches, equally long frames for one destination become one datagram that the kernel splits late, and nothing is
//! allocated for a frame in steady state. [`NodeOptions::faults`] loses, duplicates and reorders arrivals by seed, since
//! not every kernel can; [`Node::set_faults`] loses and duplicates frames to a peer, by list or by seed.
//! [`Interposed`] runs nodes in one process with a clock that the owner turns, and replays a list of faults frame by frame.
#![cfg(target_os = "linux")]

mod any;
mod clock;
mod codec;
mod error;
mod faults;
mod in_process;
mod interposed;
mod io;
mod node;
mod pace;
mod spin;
mod statistics;
mod timers;

pub use any::{AnyTransport, TransportOptions};
pub use codec::{Aside, Codec, Direction, Emitted, Observer, Parsed};
pub use error::NodeError;
pub use interposed::{Interposed, LinkEnd, SentFrame, end_address};
pub use node::{BLOCKING_MARGIN, Node, NodeOptions, Waker};
pub use pace::Pace;
pub use statistics::{Dropped, Phase, Profile, Statistics, Traffic};
