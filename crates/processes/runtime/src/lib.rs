//! Rank and switch processes: a node on a real socket, told by the manager what groups it is in.
//!
//! [`Rank`] is what an application uses: it attaches to the manager, joins a group and runs collectives, or writes to other ranks, each a
//! blocking call with an end. [`serve_switch`] is a whole switch process.
//!
//! ```no_run
//! use quincunx_collective::{Collective, DataType, Numbers, Payload, ReduceOp, Reduction, pattern};
//! use quincunx_design::Catalog;
//! use quincunx_runtime::{ProcessOptions, Rank, RuntimeError};
//! use quincunx_units::Duration;
//!
//! fn sum_of_all(catalog: Catalog, options: &ProcessOptions) -> Result<Numbers, RuntimeError> {
//!     let limit = Duration::from_secs(10);
//!     let mut rank = Rank::attach(catalog, options)?;
//!     let group = rank.join(limit)?; // somebody calls InitGroup meanwhile
//!     let input = pattern(group.rank, 1 << 20, DataType::F32);
//!     let sum = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
//!     let output = Numbers::zeroed(1 << 20);
//!     let done = rank.run(group.id, Collective::AllReduce, sum, input, output, limit)?;
//!     Ok(done.output)
//! }
//! ```

mod cables;
mod calls;
mod capture;
mod codec;
mod delivered;
mod doubt;
mod drops;
mod host_node;
mod joined;
mod life;
mod links;
mod measure;
mod offloaded;
mod ports;
mod prober;
mod process;
mod rank;
mod snapshot;
mod switch;

pub use cables::{AgentCables, WatchError};
pub use calls::{CallSite, NewCall, PendingMessage};
pub use capture::{Capture, CaptureFile};
pub use codec::{ROCE_PORT, RoceCodec};
pub use delivered::Delivered;
pub use drops::{Drops, port_drop_name};
pub use joined::{Finished, JoinedGroup};
pub use life::Recreation;
pub use ports::{ProcessPorts, RankPorts};
pub use process::{ProcessOptions, RuntimeError, encapsulation};
pub use rank::{Ended, Rank};
pub use snapshot::{SwitchCounts, SwitchSnapshot};
pub use switch::{serve_linked_switch, serve_switch};
