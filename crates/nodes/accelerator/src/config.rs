//! What an accelerator is set up with.

use crate::Program;
use alloc::sync::Arc;
use alloc::vec::Vec;
use quincunx_collective::Reduction;
use quincunx_memory::PortConfig;
use quincunx_units::Duration;
use quincunx_wire::flit::{FlitFormat, NodeId};

/// What an accelerator is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GpuConfig {
    /// Its number among the accelerators, and its node's.
    pub rank: u16,
    /// Accelerators.
    pub ranks: u16,
    /// The switch at the other end of each link.
    pub switches: Vec<NodeId>,
    /// How packets are cut.
    pub format: FlitFormat,
    /// The buffers of each link.
    pub port: PortConfig,
    /// From a request's arrival to its response.
    pub response_latency: Duration,
    /// Streaming multiprocessors.
    pub sms: u16,
    /// Blocks that an SM holds at once; they compute one at a time.
    pub blocks_per_sm: u8,
    /// Blocks that may claim a place before there is one, so that their group is asked meanwhile.
    pub claims_ahead: u16,
    /// Stages whose tiles are fetched ahead of the one that is computed.
    pub prefetch: u16,
    /// Most loads that a link may wait for: the accelerator's MSHRs, whatever it runs.
    pub load_window: u32,
    /// Most bytes of a series of tiles that it has asked for and not all others, where loads are throttled (CAIS III-B2).
    pub loads_ahead: u64,
    /// Most bytes that it has sent to be added at one home, or is sending, and not all others have sent, where that is throttled
    /// (CAIS III-B2).
    pub sums_ahead: u64,
    /// Loads and reductions that may be merged leave in the order in which they were asked for, instead of by channels of their own
    /// (CAIS III-C2: what traffic control separates).
    pub shared_requests: bool,
    /// Bytes of other accelerators' memory that its L2 keeps.
    pub l2: u64,
    /// How long a block waits for its group before it goes on without.
    pub sync_timeout: Duration,
    /// How contributions are added.
    pub reduction: Reduction,
    /// What it runs.
    pub program: Arc<Program>,
}
