//! What runs on an accelerator: kernels of thread blocks, what each block waits for, loads, computes and sends. A program is data; who makes
//! it decides what overlaps with what.

use crate::Rows;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_units::Duration;

/// A counter of an accelerator, which only grows: bytes that have arrived, blocks that have ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CounterId(pub u16);

/// Until a counter has reached a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Wait {
    /// Which.
    pub counter: CounterId,
    /// The value.
    pub target: u64,
}

/// Who is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum To {
    /// The accelerator itself.
    Own,
    /// All of them, itself too.
    All,
    /// What computes in the switches: a word of that number in each of them (SCIN 3.3).
    Switches,
}

/// Adds one to a counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signal {
    /// Whose.
    pub to: To,
    /// Which.
    pub counter: CounterId,
}

/// How a tile is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fetch {
    /// Not at all: it lies here already.
    Own,
    /// By loads of its own.
    Load,
    /// By loads that the switch may merge with those of others (CAIS III-A: `ld.cais`).
    MergedLoad,
    /// By loads that the switch answers with the sum over all accelerators (`multimem.ld_reduce`).
    ReducedLoad,
}

/// A piece of another accelerator's memory that is fetched and kept as long as the L2 has room for it: later blocks find it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// How.
    pub fetch: Fetch,
    /// Whose memory; of no account for a reduced load.
    pub from: u16,
    /// Where in it.
    pub address: u64,
    /// Where it is put; as far into a sector as it is there.
    pub local: usize,
    /// Its bytes.
    pub rows: Rows,
    /// Of a tile that every accelerator asks for, but for its home: the tiles that it is one of, of which none asks for many that others have
    /// not asked for.
    pub series: Option<u32>,
}

/// A tile of a program, from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TileId(pub u32);

/// How a block sends what it has computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Send {
    /// Adds it to another's memory, or to its own.
    Reduce,
    /// The same by requests that the switch may merge with those of others (CAIS III-A: `red.cais`).
    MergedReduce,
    /// Writes it to another's memory.
    Store,
    /// Has the switch add it up over all accelerators and write the sum at all (`multimem.red`, push mode).
    PushReduce,
    /// Has the switch write it at all accelerators (`multimem.st`).
    MulticastStore,
}

/// A piece of memory that a block sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Output {
    /// How.
    pub send: Send,
    /// To whose memory; of no account where the switch writes at all.
    pub to: u16,
    /// Where in it.
    pub address: u64,
    /// Where it is taken from.
    pub local: usize,
    /// Its bytes, with the same pitch in both.
    pub rows: Rows,
}

/// A part of a block's computation, behind the tiles that it needs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stage {
    /// What must be there.
    pub tiles: Vec<TileId>,
    /// How long the SM computes.
    pub compute: Duration,
}

/// A thread block.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Block {
    /// What must have happened before it may be dispatched.
    pub waits: Vec<Wait>,
    /// Its parts, in order.
    pub stages: Vec<Stage>,
    /// What it sends at its end.
    pub outputs: Vec<Output>,
    /// Whom it tells when all that it sends has left.
    pub signals: Vec<Signal>,
    /// The group that it is in with one block of each other accelerator (CAIS III-B); the same number everywhere.
    pub group: Option<u32>,
}

/// Where blocks of a kernel run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelPlace {
    /// On SMs, in the places for blocks that they have.
    Sm,
    /// On at most so many SMs, each of which they have for themselves: a communication kernel.
    WholeSm(u16),
    /// On none: by as many copy engines.
    CopyEngine(u16),
}

/// What of a kernel's blocks the switch may merge: before it, blocks of a group wait for each other, those too whose own data it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Merges {
    /// Nothing.
    Nothing,
    /// Loads, at their beginning.
    Loads,
    /// Reductions, at their end.
    Reductions,
}

/// A kernel: blocks that are dispatched in their order, as far as they are ready.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// For those who look.
    pub name: String,
    /// What must have happened before it is launched.
    pub waits: Vec<Wait>,
    /// From then until its first block may be dispatched.
    pub launch: Duration,
    /// Where its blocks run.
    pub place: KernelPlace,
    /// Of kernels with ready blocks those of the highest priority go first.
    pub priority: u8,
    /// The kernel, by its number, with which it shares the SMs: each has a group of them, as large as its weight among the two, and uses those of the other one where that has
    /// no block that waits (CAIS III-C2: "SMs are partitioned into two groups, each executing one kernel concurrently"). Each names the other.
    pub beside: Option<u16>,
    /// What the switch may merge.
    pub merges: Merges,
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Of each block the kernel's weight from then on, among kernels of its priority that have blocks for the same places; 1 if there is none. Where
    /// blocks of a group wait for each other before they are dispatched, all accelerators take them in one order, and weights are of no account.
    pub weights: Vec<u32>,
    /// Whom it tells when all its blocks have ended.
    pub signals: Vec<Signal>,
}

impl Kernel {
    /// The accelerator at which a block of a group adds what it has computed, where the switch may merge that.
    pub(crate) fn home_of(&self, block: &Block) -> Option<u16> {
        block.group.filter(|_| self.merges == Merges::Reductions)?;
        block.outputs.first().map(|output| output.to)
    }
}

/// A piece of an accelerator's memory, at whose parts arriving bytes are counted: those that are written once, those that are added once for
/// each contribution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub length: u64,
    /// Bytes of each part.
    pub part: u64,
    /// The first part's counter; the next part has the next one.
    pub counter: CounterId,
}

/// Points at which blocks of a group wait for each other (CAIS III-B2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Coordination {
    /// Before they are dispatched.
    pub pre_launch: bool,
    /// Before the first request that the switch may merge.
    pub pre_access: bool,
    /// Who is ahead of the others sends no more, nor asks for more, until they have caught up (request throttling).
    pub throttle: bool,
}

/// What an accelerator runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Program {
    /// In the order in which they may be launched.
    pub kernels: Vec<Kernel>,
    /// What is fetched.
    pub tiles: Vec<Tile>,
    /// By address, apart from each other.
    pub regions: Vec<Region>,
    /// How many there are.
    pub counters: u16,
    /// Bytes of memory; whole sectors.
    pub memory: usize,
    /// Where blocks of a group wait for each other.
    pub coordination: Coordination,
}
