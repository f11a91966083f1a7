//! What one block of one GPU accesses by a statement.

use crate::expression::{Interval, Variable};
use crate::kernel::{Kernel, Statement};

/// The blocks of a kernel, as far as one statement goes.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    kernel: &'a Kernel,
    statement: &'a Statement,
}

impl<'a> Access<'a> {
    /// Of a statement of the kernel.
    pub const fn new(kernel: &'a Kernel, statement: &'a Statement) -> Self {
        Self { kernel, statement }
    }

    /// From the first to the last element that a block accesses, by its number in the grid. It may leave some of them out.
    pub fn elements(&self, gpu: u16, block: u32) -> Interval {
        let block = self.kernel.block(block);
        let of = |variable| match variable {
            Variable::GpuId => Interval::point(gpu.into()),
            Variable::Block(at) => Interval::point(block[usize::from(at)].into()),
            other => self.kernel.bounds(self.statement, other),
        };
        let bounds = self.statement.index.bounds(&of).expect("an index whose bounds exist for all blocks");
        let last = i128::from(self.kernel.arrays[self.statement.array].length) - 1;
        let width = i128::from(self.statement.width.elements());
        Interval { low: bounds.low.clamp(0, last), high: (bounds.high + width - 1).clamp(0, last) }
    }
}
