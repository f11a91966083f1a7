//! What an accelerator offers to the communication kernel that runs on it: its memory, that of the others through the
//! fabric, and words to synchronise with. The seam of the memory fabric, as [`verbs`](crate::verbs) is that of the
//! packet fabric.
//!
//! Accelerators have one link to each switch of the fabric, in the order of their ports. What kernels keep in step
//! with are 64-bit words apart from the data, so that flags and counters mean the same over every kind of payload.
//! What computes in the switches has words, too.

use crate::PortId;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt::{self, Display};
use quincunx_collective::{Collective, Payload, Rank, Reduction};

/// A synchronisation word (a flag, a counter) of an accelerator or of a switch, numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WordId(pub u16);

/// Bytes of an accelerator's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
}

impl Span {
    /// The `index`-th of `count` parts of nearly equal length, cut at multiples of `granule` bytes from the start: a
    /// rank's part, or the share of a link. Together they are the whole; some may be empty.
    ///
    /// # Panics
    /// If `index` is not below `count`, or `granule` is zero.
    pub const fn part(self, index: usize, count: usize, granule: usize) -> Self {
        assert!(index < count, "a part that is there");
        let granules = self.length.div_ceil(granule);
        let (least, longer) = (granules / count, granules % count);
        let start = (least * index + if index < longer { index } else { longer }) * granule;
        let end = start + (least + if index < longer { 1 } else { 0 }) * granule;
        let start = if start < self.length { start } else { self.length };
        let end = if end < self.length { end } else { self.length };
        Self { offset: self.offset + start, length: end - start }
    }
}

/// What has come of a kernel's requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryEvent {
    /// A piece of a reduced or a merged load has arrived, and lies in memory.
    Loaded {
        /// The link that it came by.
        link: PortId,
        /// Where it lies.
        span: Span,
    },
    /// All writes before the fence have taken effect.
    Fenced,
    /// The time that arithmetic takes is over.
    Computed,
    /// Others have added to memory: what they sent by [`SharedMemory::merged_reduce`].
    Contributed {
        /// Where.
        span: Span,
        /// How many contributions were in what came.
        contributions: u32,
    },
    /// The switch has answered a [sync](SharedMemory::synchronise).
    Released {
        /// The link that it came by.
        link: PortId,
        /// Whose.
        group: u64,
        /// Which point.
        point: u32,
    },
    /// Somebody has changed a word.
    Changed {
        /// Which.
        word: WordId,
        /// What it is now.
        value: u64,
    },
}

/// What an accelerator offers to its kernel. Requests are queued, and leave as the links take them.
///
/// # Panics
/// If a span is not inside the memory, or a link or a word is not there: kernels check when they start.
pub trait SharedMemory<P: Payload> {
    /// Links to switches.
    fn links(&self) -> u16;
    /// The accelerator's memory.
    fn memory(&mut self) -> &mut P;
    /// The accelerator's own word.
    fn word(&self, word: WordId) -> u64;
    /// Writes `source` to the memory of `to`, from byte `target` on.
    fn write(&mut self, link: PortId, to: Rank, source: Span, target: usize);
    /// Sets a word of `to`. What went to `to` by the same link before is there before.
    fn store(&mut self, link: PortId, to: Rank, word: WordId, value: u64);
    /// Asks for [`MemoryEvent::Fenced`] when all writes so far have taken effect; it may come at once.
    fn fence(&mut self);
    /// Asks for [`MemoryEvent::Computed`] when the accelerator has had time to add `bytes` to as many; it may come at once.
    /// One at a time.
    fn compute(&mut self, bytes: usize);
    /// Adds to a word of the unit in the switch at the other end of the link. Such words are numbered by the unit (SCIN 3.3: counters
    /// of the in-switch accelerator).
    fn add_at_switch(&mut self, link: PortId, word: WordId, operand: u64);
    /// Reduced load: has the switch at the other end load `span` of all accelerators, reduce it, and answer with what belongs into
    /// one's own `span` (PTX: `multimem.ld_reduce`). It arrives in pieces, each with [`MemoryEvent::Loaded`].
    fn reduced_load(&mut self, link: PortId, span: Span);
    /// Multicast store: has the switch write one's own `span` to that of all accelerators (PTX: `multimem.st`).
    fn multicast_store(&mut self, link: PortId, span: Span);
    /// Multicast reduction: brings one's own `span` for the switch to add up over all accelerators, and to write at all of them (PTX:
    /// `multimem.red` of data). All must bring the same spans by the same link, in the same order. It is a write, for a fence: it has
    /// taken effect when the sum is everywhere.
    fn multicast_reduce(&mut self, link: PortId, span: Span);
    /// Multicast add: has the switch add to a word of all accelerators (PTX: `multimem.red`).
    fn multicast_add(&mut self, link: PortId, word: WordId, operand: u64);
    /// Load that the switch may merge with those of others (CAIS III-A1: `ld.cais`): fills one's own `span` from byte `source` of `from`
    /// on. All who load the same must use the same link ([`link_of`]). It arrives in pieces, each with [`MemoryEvent::Loaded`].
    fn merged_load(&mut self, link: PortId, from: Rank, source: usize, span: Span);
    /// Reduction that the switch may merge with those of others (CAIS III-A1: `red.cais`): adds one's own `span` to the memory of `to`, from
    /// byte `target` on, where it comes with [`MemoryEvent::Contributed`]. Asks for no answer. The link as for loads.
    fn merged_reduce(&mut self, link: PortId, to: Rank, span: Span, target: usize);
    /// Tells the switch at the other end that one has come to a point of a group (CAIS III-B2). [`MemoryEvent::Released`] is the answer.
    fn synchronise(&mut self, link: PortId, group: u64, point: u32);
}

/// The link that an address of a peer goes by, the same at all accelerators, so that all who access it meet in one switch (CAIS III-A5: a
/// lightweight hash of the address): the bits of the number of its line of `line` bytes, folded by exclusive or.
///
/// # Panics
/// If there is no link, or a line has no bytes.
pub const fn link_of(address: u64, line: usize, links: u16) -> PortId {
    let mut folded = address / line as u64;
    folded ^= folded >> 32;
    folded ^= folded >> 16;
    folded ^= folded >> 8;
    PortId((folded as u8 as u16) % links)
}

/// A collective on data that lies at the same place of every accelerator's memory, in place. With a vector of `s`
/// bytes and `n` ranks: AllReduce leaves the reduction everywhere, Reduce at the root; Broadcast leaves the root's
/// vector everywhere; ReduceScatter leaves the r-th part of the reduction in the r-th part of rank r's vector;
/// AllGather leaves rank r's r-th part in the r-th part everywhere. What the others hold where none of this says it
/// is not defined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InPlaceRequest {
    /// Which.
    pub collective: Collective,
    /// How elements combine.
    pub reduction: Reduction,
    /// The vector.
    pub span: Span,
}

/// Why a kernel does not begin a collective, in one line: what was expected, what was found, what to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelRefusal(String);

impl KernelRefusal {
    /// What a kernel says of the request, which is such a line already.
    pub fn of(error: &impl Error) -> Self {
        Self(error.to_string())
    }
}

impl Display for KernelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for KernelRefusal {}

/// A communication kernel on one accelerator: a collective that it runs, or its share of one that the switches run.
pub trait Kernel<P: Payload> {
    /// Begins a collective. `true` if it is over at once.
    ///
    /// # Errors
    /// If one runs already, or the kernel cannot do what is asked for. Nothing has changed then.
    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal>;

    /// Takes what has come of a request. `true` if that was the end of the collective. Words may change when no
    /// collective runs: others may be ahead.
    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool;

    /// Panics if the state breaks a rule that must always hold.
    fn assert_invariants(&self);
}

crate::erased! {
    /// A kernel of any type.
    pub trait AnyKernel<P: Payload>: Kernel<P>
}
