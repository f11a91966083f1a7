//! CAIS in the GPU: the two instructions, the compiler step that puts them into a kernel, and the pass over a graph of kernels (III-A1, III-B1,
//! III-C). Pure functions, in this order:
//!
//! 1. [`Kernel::parse`] reads a description of a kernel: grid, arrays with the GPUs that hold them, accesses with index expressions.
//! 2. [`compile`] finds by a [`Normal`] form which of these are GPU-invariant, gives each its [`Instruction`], and forms the groups
//!    of thread blocks.
//! 3. [`Dataflow::of`] finds which blocks of a kernel need what those of an earlier one leave, and which kernels should run side by side.
//!
//! `cais explain` prints what the second step finds; the schedules of sub-layers run what both find.
//!
//! Where we decide: expressions, not machine code, are what is analysed; only accesses to shared arrays merge, for an array that each GPU
//! has for itself is different memory on each; every thread of a block takes part (descriptions have no conditions).
#![no_std]
extern crate alloc;

mod access;
mod expression;
mod graph;
mod instruction;
mod kernel;
mod lower;
mod normal;
mod ptx;

/// The design whose switches merge these requests.
pub const OF: &str = "cais";

pub use access::Access;
pub use expression::{Expression, ExpressionError, Interval, Operator, Variable};
pub use graph::{Dataflow, Edge, GraphError, Part, Written};
pub use instruction::{
    CacheOperator, ElementType, Instruction, InstructionError, LENGTH, MAX_OFFSET, Operation, VectorWidth,
};
pub use kernel::{Array, Kernel, KernelError, Loop, Statement, StatementKind};
pub use lower::{Compiled, Groups, Lowered, Reason, Region, compile};
pub use normal::{Bounds, Normal};
pub use ptx::PtxError;
