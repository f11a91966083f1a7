//! What a schedule is: a way to run a sub-layer of a tensor-parallel model, in which a product of matrices leaves partial sums, these are added
//! up over all accelerators and normalised, and another product takes the result. Who has a schedule implements [`Schedule`]; nothing here
//! knows one.

use crate::{Coordination, CounterId, Program};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use quincunx_collective::Collective;
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};

/// A sub-layer (CAIS V-A2): a product split by rows of its weights, then a normalisation, then a product split by columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SubLayer {
    /// Rows of the activations: tokens.
    pub rows: u32,
    /// This accelerator's share of the first product's inner dimension.
    pub inner: u32,
    /// Columns of what is added up, the inner dimension of the second product.
    pub hidden: u32,
    /// This accelerator's share of the second product's columns.
    pub columns: u32,
    /// It is of the backward pass: what lies between the products is the normalisation's gradient.
    pub backward: bool,
}

/// What sub-layers run on.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Accelerators.
    pub ranks: u16,
    /// Switches that are simulated, a link of each accelerator to each.
    pub switches: u16,
    /// Switches that each of them stands for: all have as many lines of every tile, and one does what the others do. So many times fewer rows of a
    /// tile are sent than are computed; blocks, their order and their times are those of the whole machine.
    pub planes: u16,
    /// Of each: its SMs.
    pub sms: u16,
    /// Blocks that an SM holds.
    pub blocks_per_sm: u8,
    /// What all its SMs together reach in products of matrices.
    pub tensor: FlopRate,
    /// Traffic to its memory.
    pub memory: BitRate,
    /// What normalisations reach of that: forward, backward.
    pub norm_efficiencies: [f64; 2],
    /// What its L2 keeps of the planes that are simulated.
    pub l2: ByteCount,
    /// Bytes of an element.
    pub element: u8,
    /// Most rows of a tile of a product.
    pub tile_rows: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
    /// Part of the inner dimension that a block loads at once.
    pub tile_inner: u32,
    /// Rows of a block of a normalisation.
    pub norm_rows: u32,
    /// From when a kernel may be launched to its first block.
    pub launch: Duration,
    /// What an accelerator's launch may take longer.
    pub skew: Duration,
    /// By how much of itself a stage may take longer or shorter.
    pub jitter: f64,
    /// By how much the rate wanders at which it serves a kernel beside others, as a share of it; the same for every schedule.
    pub drift: f64,
    /// How long that takes, in time that the kernel computes, from one rate to the next that chance gives.
    pub drift_time: Duration,
    /// Where blocks of a group wait for each other, if the schedule coordinates them.
    pub coordination: Coordination,
    /// SMs of communication kernels.
    pub communication_sms: u16,
    /// Copy engines.
    pub copy_engines: u16,
    /// Bytes of a packet.
    pub line: u32,
    /// Decides all that chance decides.
    pub seed: u64,
}

impl Machine {
    /// How long all SMs together take to normalise so many bytes of rows, or for the gradient of that. Forward they read and write them, backward
    /// they read what was normalised and its gradient, and write one, at the share of the memory's rate that is measured for such kernels; what
    /// goes around the sub-layer (the residual, or its gradient) is read at the memory's rate. Gradients of gain and bias are no part of it: no
    /// product waits for them.
    pub fn norm_time(&self, rows: ByteCount, backward: bool) -> Duration {
        let accesses = if backward { 3.0 } else { 2.0 };
        let accesses = accesses / self.norm_efficiencies[usize::from(backward)] + 1.0;
        let once = self.memory.time_for(rows);
        Duration::from_picos((once.as_picos() as f64 * accesses) as u64)
    }
}

/// What an accelerator runs, and what it must be set up with for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What it runs.
    pub program: Program,
    /// Requests that may be merged leave in the order in which they were asked for.
    pub shared_requests: bool,
    /// What the unit in the switches does by itself: the same on all accelerators.
    pub offloads: Vec<Offload>,
}

/// A collective that the unit in the switches runs by itself, once and in place, when all accelerators have added one to its word in every
/// switch: the word whose number is that of the offload, from zero. A switch that has done its share stores 1 in its word of every
/// accelerator (SCIN 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offload {
    /// Which.
    pub collective: Collective,
    /// Where its vector lies, on every accelerator. Where the unit's vectors are of codes these lie there, and their scale factors behind them.
    pub address: u64,
    /// Elements of the vector.
    pub values: usize,
    /// The first switch's word; those of the others follow it.
    pub done: CounterId,
}

/// What may be under way at the same time, as the schedule's publication says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Overlap {
    /// The first product, and adding up what it leaves.
    pub first: bool,
    /// Adding up or spreading, and the second product.
    pub second: bool,
    /// The first and the second product.
    pub products: bool,
}

/// What computes in switches, for a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The design whose unit it is, by its name in the catalog.
    pub design: &'static str,
    /// Keys of the design that the schedule needs to be so, and their values as text.
    pub set: &'static [(&'static str, &'static str)],
}

/// A way to run sub-layers.
pub trait Schedule: Debug + Sync + 'static {
    /// What people call it.
    fn name(&self) -> &'static str;
    /// What it is, in a line.
    fn summary(&self) -> &'static str;
    /// What may overlap.
    fn overlap(&self) -> Overlap;
    /// What computes in the switches for it; none if they forward only.
    fn unit(&self) -> Option<Unit>;
    /// What an accelerator runs.
    ///
    /// # Errors
    /// If the sub-layer cannot be cut into tiles on this machine: one line.
    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String>;
}
