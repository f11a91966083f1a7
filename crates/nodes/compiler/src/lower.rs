//! The compiler step: which accesses are GPU-invariant, which instruction each becomes, and which thread blocks belong together (III-B1).
//!
//! An access may merge if all GPUs with one `blockIdx` (and one `threadIdx`, in the same turns of its loops) name the same element of the
//! same memory. So its index must not depend on the GPU: not by its name, not through a definition or a loop's bounds, and what cancels does
//! not count ([`Normal`]). What is not proved to be invariant does not merge. Thread blocks of all GPUs that access the same regions by merged
//! instructions are a group: those of one `blockIdx`, and of every other `blockIdx` whose accesses are the same.

use crate::expression::{Interval, Variable};
use crate::instruction::{ElementType, Instruction, MAX_OFFSET, Operation};
use crate::kernel::{Array, Kernel, Statement, StatementKind};
use crate::normal::Normal;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display};

/// The register with the group's ID in every kernel that has groups.
const GROUP_REGISTER: u8 = 0;

/// Why an access does not merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// There is no other GPU.
    OneGpu,
    /// Stores have no variant that merges.
    Store,
    /// Each GPU has an array of its own, so that equal indices are different elements.
    LocalArray,
    /// A loop around it does not run alike on all GPUs.
    Loop {
        /// Its variable.
        name: String,
    },
    /// Its index depends on the GPU, or is not proved not to.
    Index {
        /// Definitions through which it depends.
        through: Vec<String>,
        /// Two GPUs and the elements that they access, in one turn of one thread of one block; none if no such pair was found.
        differs: Option<[(u16, i64); 2]>,
    },
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneGpu => f.write_str("no other GPU runs the kernel"),
            Self::Store => f.write_str("stores do not merge"),
            Self::LocalArray => f.write_str("each GPU has an array of its own"),
            Self::Loop { name } => write!(f, "the bounds of loop `{name}` depend on gpuId"),
            Self::Index { through, differs } => {
                match differs {
                    Some([(first, a), (second, b)]) => {
                        write!(f, "depends on gpuId: GPU {first} accesses {a}, GPU {second} {b}")?;
                    }
                    None => f.write_str("not proved independent of gpuId")?,
                }
                match &**through {
                    [] => Ok(()),
                    names => write!(f, ", through `{}`", names.join("`, `")),
                }
            }
        }
    }
}

/// What a statement accesses in one block, and where that lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The first element at the lowest, and the last at the highest.
    pub elements: Interval,
    /// The GPUs that hold these at the lowest and at the highest.
    pub homes: Interval,
}

/// What has become of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lowered {
    /// Why it does not merge; none if it does.
    pub plain: Option<Reason>,
    /// Its instruction; none for a store, which is not ours to encode.
    pub instruction: Option<Instruction>,
    /// What all of its blocks with one group access; none if it does not merge.
    pub region: Option<Region>,
    /// Regions that are different, over all blocks; zero if it does not merge.
    pub regions: u32,
}

/// The groups of thread blocks: what the launch configuration takes along.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    /// GPUs that take part in each.
    pub gpus: u16,
    /// How many there are; none if nothing merges.
    pub count: u32,
    /// The group of each block, by its number in the grid (x runs fastest), the same on every GPU; empty if nothing merges.
    pub of_block: Vec<u32>,
}

/// A kernel with its instructions replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// What has become of each statement, in their order.
    pub statements: Vec<Lowered>,
    /// The metadata of the launch.
    pub groups: Groups,
}

impl Groups {
    /// The blocks of a group on each GPU, by their number in the grid.
    pub fn blocks_of(&self, group: u32) -> impl Iterator<Item = u32> {
        (0..).zip(&self.of_block).filter(move |(_, of)| **of == group).map(|(block, _)| block)
    }
}

const fn is_block(variable: Variable) -> bool {
    matches!(variable, Variable::Block(_))
}

const fn is_gpu(variable: Variable) -> bool {
    matches!(variable, Variable::GpuId)
}

/// What decides which region of a statement a block accesses.
struct RegionKey {
    /// The part of the index that the block alone decides.
    base: Normal,
    /// Components of `blockIdx` that decide more than that.
    components: Vec<u8>,
}

impl RegionKey {
    /// Of a statement whose index has that normal form.
    fn of(kernel: &Kernel, statement: &Statement, normal: &Normal) -> Self {
        let [_, base, mixed] = normal.split(&is_block);
        let bounds = |variable| kernel.bounds(statement, variable);
        let decides = |component: &u8| {
            let this = |variable| variable == Variable::Block(*component);
            let in_loop = |end| Normal::of(end, &bounds).is_none_or(|end| end.mentions(&this));
            mixed.mentions(&this)
                || statement.loops.iter().any(|around| in_loop(&around.from) || in_loop(&around.to))
        };
        Self { base, components: (0..3).filter(decides).collect() }
    }

    /// Blocks with equal values access the same region.
    fn value(&self, block: [u32; 3]) -> (i128, Vec<u32>) {
        let of = |variable| match variable {
            Variable::Block(at) => block[usize::from(at)].into(),
            other => panic!("{other:?} in what the block alone decides"),
        };
        let base = self.base.evaluate(&of).expect("an index that fits has parts that fit");
        (base, self.components.iter().map(|&at| block[usize::from(at)]).collect())
    }
}

/// Why a statement does not merge, or the normal form of its index.
fn invariant_index(kernel: &Kernel, statement: &Statement) -> Result<Normal, Reason> {
    if kernel.gpus == 1 {
        return Err(Reason::OneGpu);
    }
    if statement.kind == StatementKind::Store {
        return Err(Reason::Store);
    }
    if kernel.arrays[statement.array].home.is_none() {
        return Err(Reason::LocalArray);
    }
    let bounds = |variable| kernel.bounds(statement, variable);
    let depends = |end| Normal::of(end, &bounds).is_none_or(|end| end.mentions(&is_gpu));
    for around in &statement.loops {
        if depends(&around.from) || depends(&around.to) {
            return Err(Reason::Loop { name: around.name.clone() });
        }
    }
    match Normal::of(&statement.index, &bounds) {
        Some(normal) if !normal.mentions(&is_gpu) => Ok(normal),
        _ => {
            let mut through = BTreeSet::new();
            statement.index.definitions_with(Variable::GpuId, &mut through);
            Err(Reason::Index { through: through.into_iter().collect(), differs: differs(kernel, statement) })
        }
    }
}

/// Two GPUs that access different elements with all else the same: first where all else is least, then where it is greatest.
fn differs(kernel: &Kernel, statement: &Statement) -> Option<[(u16, i64); 2]> {
    let at = |gpu: u16, greatest: bool| {
        statement.index.evaluate(&|variable| match variable {
            Variable::GpuId => gpu.into(),
            other => {
                let Interval { low, high } = kernel.bounds(statement, other);
                (if greatest { high } else { low }) as i64
            }
        })
    };
    [false, true].into_iter().find_map(|greatest| {
        let first = at(0, greatest)?;
        let other = |gpu| at(gpu, greatest).filter(|found| *found != first).map(|found| (gpu, found));
        Some([(0, first), (1..kernel.gpus).find_map(other)?])
    })
}

/// The instruction of a statement, and the bytes of its index that stand in it.
fn instruction(
    statement: &Statement,
    array: &Array,
    normal: Option<&Normal>,
    merges: bool,
    address: u8,
) -> Option<Instruction> {
    let operation = match statement.kind {
        StatementKind::Load => Operation::Load(statement.cache),
        StatementKind::Reduce => Operation::Reduce,
        StatementKind::Store => return None,
    };
    let bytes = |element: ElementType| normal?.constant().checked_mul(element.bytes().into());
    let offset = bytes(array.element)
        .and_then(|bytes| i32::try_from(bytes).ok())
        .filter(|offset| (-MAX_OFFSET - 1..=MAX_OFFSET).contains(offset));
    Some(Instruction {
        operation,
        group: merges.then_some(GROUP_REGISTER),
        element: array.element,
        width: statement.width,
        data: 1,
        address,
        offset: offset.unwrap_or(0),
    })
}

/// What a statement accesses in the first block.
fn region(kernel: &Kernel, statement: &Statement, normal: &Normal) -> Option<Region> {
    let of = |variable| match variable {
        Variable::Block(_) => Interval::point(0),
        other => kernel.bounds(statement, other),
    };
    let array = &kernel.arrays[statement.array];
    let last = i128::from(array.length) - 1;
    let found = [statement.index.bounds(&of).ok(), normal.bounds(&of)];
    let low = found.iter().flatten().map(|found| found.low).max()?;
    let high =
        found.iter().flatten().map(|found| found.high).min()? + i128::from(statement.width.elements()) - 1;
    let elements = Interval { low: low.clamp(0, last), high: high.clamp(0, last) };
    let homes = array.home.as_ref()?.bounds(&|_| elements).ok()?;
    Some(Region { elements, homes })
}

/// Finds what merges, replaces the instructions, and forms the groups.
pub fn compile(kernel: &Kernel) -> Compiled {
    let mut keys = Vec::new();
    let mut statements: Vec<Lowered> = Vec::new();
    for (statement, number) in kernel.statements.iter().zip(1..) {
        let array = &kernel.arrays[statement.array];
        let index = invariant_index(kernel, statement);
        let normal = match &index {
            Ok(normal) => Some(normal.clone()),
            Err(_) => Normal::of(&statement.index, &|variable| kernel.bounds(statement, variable)),
        };
        let instruction = instruction(statement, array, normal.as_ref(), index.is_ok(), number);
        let (plain, region, regions) = match index {
            Err(reason) => (Some(reason), None, 0),
            Ok(normal) => {
                let key = RegionKey::of(kernel, statement, &normal);
                let found: BTreeSet<_> =
                    (0..kernel.blocks()).map(|block| key.value(kernel.block(block))).collect();
                keys.push(key);
                (None, region(kernel, statement, &normal), found.len() as u32)
            }
        };
        statements.push(Lowered { plain, instruction, region, regions });
    }
    Compiled { statements, groups: group(kernel, &keys) }
}

/// Numbers groups in the order of their first blocks.
fn group(kernel: &Kernel, keys: &[RegionKey]) -> Groups {
    if keys.is_empty() {
        return Groups { gpus: kernel.gpus, count: 0, of_block: Vec::new() };
    }
    let mut known = BTreeMap::new();
    let of_block = (0..kernel.blocks())
        .map(|number| {
            let block = kernel.block(number);
            let value: Vec<_> = keys.iter().map(|key| key.value(block)).collect();
            let next = known.len() as u32;
            *known.entry(value).or_insert(next)
        })
        .collect();
    Groups { gpus: kernel.gpus, count: known.len() as u32, of_block }
}
