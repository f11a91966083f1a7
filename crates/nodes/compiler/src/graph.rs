//! The pass over a graph of kernels (III-C): which blocks of a consumer need what which blocks of a producer leave, which edges are fine enough for
//! blocks to start before the producer has ended (III-C1, figure 9), and which kernels share the SMs (III-C2, figure 10).
//!
//! Kernels stand in the order in which they are launched. Arrays of one name are one array. An array that an earlier kernel writes and a later
//! one loads is an edge. It is cut into [`Part`]s, the finest that no block of either kernel reaches across: whoever reads a part waits for all who
//! write it, and for nothing else. An edge of one part is a dependency of whole kernels.

use crate::access::Access;
use crate::expression::{Interval, Variable};
use crate::kernel::{Array, Kernel, Statement, StatementKind};
use crate::lower::Compiled;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Arrays of one name that are not alike.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected `{array}` of kernel `{kernel}` as an earlier kernel has it, found {found}; give one of them another name"
)]
pub struct GraphError {
    /// The array.
    pub array: String,
    /// The later kernel.
    pub kernel: String,
    /// What is different there.
    pub found: String,
}

/// How a producer leaves its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// By reductions: a part is whole when every contribution has come.
    Added,
    /// By stores.
    Stored,
}

/// A part of an array that passes from kernel to kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// From its first to its last element.
    pub elements: Interval,
    /// Of each GPU, the producer's blocks that write into it.
    pub writers: Vec<u32>,
    /// GPUs whose blocks read from it.
    pub readers: BTreeSet<u16>,
}

/// What passes from one kernel to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The kernel that writes, by its place in the graph.
    pub producer: usize,
    /// The kernel that loads.
    pub consumer: usize,
    /// The array.
    pub array: String,
    /// Each GPU has such an array of its own, so that nobody waits for blocks of other GPUs.
    pub local: bool,
    /// How it is written.
    pub written: Written,
    /// By their elements, apart from each other.
    pub parts: Vec<Part>,
}

/// What the pass finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dataflow {
    /// By their consumers.
    pub edges: Vec<Edge>,
    /// Kernels whose merged requests use opposite directions of the links: reductions that the first sends up, loads that the second is sent
    /// down. They may be under way at once, and share the SMs in halves; what lies between them goes first.
    pub beside: Vec<[usize; 2]>,
}

impl Part {
    /// Blocks that must have written before a block of this GPU may read.
    pub fn awaited(&self, gpu: u16, local: bool) -> u32 {
        if local { self.writers[usize::from(gpu)] } else { self.writers.iter().sum() }
    }
}

impl Edge {
    /// Whether a consumer's block may start before the producer has ended.
    pub const fn is_fine(&self) -> bool {
        self.parts.len() > 1
    }

    /// The part that these elements are in, of a block that writes or reads it.
    pub fn part(&self, elements: Interval) -> usize {
        self.parts.partition_point(|part| part.elements.high < elements.low)
    }
}

impl Dataflow {
    /// Of kernels in the order in which they are launched, each with what the compiler has made of it.
    ///
    /// # Errors
    /// If arrays of one name are not alike.
    pub fn of(kernels: &[(&Kernel, &Compiled)]) -> Result<Self, GraphError> {
        let mut edges = Vec::new();
        for (consumer, (reading, _)) in kernels.iter().enumerate() {
            for load in reading.statements.iter().filter(|statement| statement.kind == StatementKind::Load) {
                let array = &reading.arrays[load.array];
                let earlier = kernels[..consumer].iter().enumerate().rev();
                let mut written = earlier.filter_map(|(producer, (kernel, _))| {
                    let write = kernel.statements.iter().find(|statement| {
                        statement.kind != StatementKind::Load
                            && kernel.arrays[statement.array].name == array.name
                    })?;
                    Some((producer, *kernel, write))
                });
                let Some((producer, writing, write)) = written.next() else { continue };
                same(&writing.arrays[write.array], array, reading)?;
                edges.push(Edge {
                    producer,
                    consumer,
                    array: array.name.clone(),
                    local: array.home.is_none(),
                    written: match write.kind {
                        StatementKind::Reduce => Written::Added,
                        _ => Written::Stored,
                    },
                    parts: parts(&BlockAccesses::of(writing, write), &BlockAccesses::of(reading, load)),
                });
            }
        }
        let beside = beside(kernels, &edges);
        Ok(Self { edges, beside })
    }

    /// The edge by which a kernel gets what it loads from another one.
    pub fn between(&self, producer: usize, consumer: usize) -> Option<&Edge> {
        self.edges.iter().find(|edge| (edge.producer, edge.consumer) == (producer, consumer))
    }

    /// The first kernel with which one shares the SMs.
    pub fn beside(&self, kernel: usize) -> Option<usize> {
        let of_pair = |&[up, down]: &[usize; 2]| match kernel {
            _ if kernel == up => Some(down),
            _ if kernel == down => Some(up),
            _ => None,
        };
        self.beside.iter().find_map(of_pair)
    }
}

fn same(written: &Array, read: &Array, reader: &Kernel) -> Result<(), GraphError> {
    let found = if written.length != read.length {
        format!("{} elements instead of {}", read.length, written.length)
    } else if written.element != read.element {
        format!("{} instead of {}", read.element.name(), written.element.name())
    } else if written.home != read.home {
        "another rule of where elements lie".into()
    } else {
        return Ok(());
    };
    Err(GraphError { array: read.name.clone(), kernel: reader.name.clone(), found })
}

/// What each block of each GPU accesses by a statement.
struct BlockAccesses {
    gpus: u16,
    /// Of each GPU's blocks; of one GPU where all of them access the same.
    elements: Vec<Vec<Interval>>,
}

impl BlockAccesses {
    fn of(kernel: &Kernel, statement: &Statement) -> Self {
        let access = Access::new(kernel, statement);
        let gpus = if statement.index.mentions(Variable::GpuId) { kernel.gpus } else { 1 };
        let blocks = |gpu| (0..kernel.blocks()).map(|block| access.elements(gpu, block)).collect();
        Self { gpus: kernel.gpus, elements: (0..gpus).map(blocks).collect() }
    }

    /// Of each block, the GPU and its elements.
    fn each(&self) -> impl Iterator<Item = (u16, Interval)> {
        let of = |gpu: u16| &self.elements[usize::from(gpu).min(self.elements.len() - 1)];
        (0..self.gpus).flat_map(move |gpu| of(gpu).iter().map(move |&elements| (gpu, elements)))
    }
}

/// The finest cut that no block reaches across, with who writes and who reads each part.
fn parts(writes: &BlockAccesses, reads: &BlockAccesses) -> Vec<Part> {
    let mut all: Vec<Interval> = writes.elements.iter().chain(&reads.elements).flatten().copied().collect();
    all.sort_by_key(|elements| (elements.low, elements.high));
    all.dedup();
    let mut parts: Vec<Part> = Vec::new();
    for elements in all {
        match parts.last_mut() {
            Some(last) if elements.low <= last.elements.high => {
                last.elements.high = last.elements.high.max(elements.high);
            }
            _ => parts.push(Part {
                elements,
                writers: vec![0; usize::from(writes.gpus)],
                readers: BTreeSet::new(),
            }),
        }
    }
    let part_of =
        |parts: &[Part], elements: Interval| parts.partition_point(|part| part.elements.high < elements.low);
    for (gpu, elements) in writes.each() {
        let part = part_of(&parts, elements);
        parts[part].writers[usize::from(gpu)] += 1;
    }
    for (gpu, elements) in reads.each() {
        let part = part_of(&parts, elements);
        parts[part].readers.insert(gpu);
    }
    parts
}

/// Pairs of kernels with complementary traffic, between which all edges are fine.
fn beside(kernels: &[(&Kernel, &Compiled)], edges: &[Edge]) -> Vec<[usize; 2]> {
    let merges = |kernel: usize, kind: StatementKind| {
        let (kernel, compiled) = kernels[kernel];
        let mut statements = kernel.statements.iter().zip(&compiled.statements);
        statements.any(|(statement, lowered)| statement.kind == kind && lowered.plain.is_none())
    };
    // What can be reached from a kernel by fine edges alone.
    let reached = |from: usize| {
        let mut reached = BTreeSet::from([from]);
        for edge in edges.iter().filter(|edge| edge.is_fine()) {
            if reached.contains(&edge.producer) {
                reached.insert(edge.consumer);
            }
        }
        reached
    };
    let mut pairs = Vec::new();
    for up in (0..kernels.len()).filter(|&kernel| merges(kernel, StatementKind::Reduce)) {
        for down in reached(up) {
            if down != up && merges(down, StatementKind::Load) {
                pairs.push([up, down]);
            }
        }
    }
    pairs
}
