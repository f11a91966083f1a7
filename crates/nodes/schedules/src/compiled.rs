//! A sub-layer's kernels, compiled (CAIS III-B1) and connected (III-C): what of a schedule the compiler decides.
//!
//! - Which of their requests may merge, and so what blocks send and load.
//! - Which blocks of all accelerators belong together. Those of one `blockIdx` wait for each other; a group's blocks on one accelerator load the
//!   same tiles, which are one series.
//! - Whose rows a block works on: its index says so.
//! - Who waits for whom: parts of arrays, the blocks that write them and the accelerators that read them.
//! - Which kernels share the SMs.

use crate::layout::Layout;
use quincunx_accelerator::Merges;
use quincunx_compiler::{Access, Compiled, Dataflow, Edge, Kernel, StatementKind, compile};
use std::collections::BTreeSet;

/// The shipped descriptions of a sub-layer's kernels, which `cais explain` reads, too.
pub const KERNELS: [&str; 3] = [
    include_str!("../../../../examples/kernels/gemm-rs.toml"),
    include_str!("../../../../examples/kernels/layernorm.toml"),
    include_str!("../../../../examples/kernels/ag-gemm.toml"),
];

/// The same behind an AllReduce: every accelerator normalises all rows, and multiplies its own copy of them.
pub const ALL_REDUCE_KERNELS: [&str; 3] = [
    include_str!("../../../../examples/kernels/gemm-rs.toml"),
    include_str!("../../../../examples/kernels/layernorm-all.toml"),
    include_str!("../../../../examples/kernels/gemm.toml"),
];

/// Elements of an instruction, from the most on.
const VECTORS: [u32; 3] = [8, 4, 2];

/// The kernels' places.
pub(crate) const FIRST: usize = 0;
pub(crate) const NORM: usize = 1;
pub(crate) const SECOND: usize = 2;

/// A sub-layer's kernels.
pub(crate) struct Graph {
    kernels: [Kernel; 3],
    compiled: [Compiled; 3],
    dataflow: Dataflow,
    /// Elements of a row, of a row block, and of a tile's row.
    row: i128,
    row_block: i128,
    tile_columns: i128,
}

/// A block of a kernel, and what it works on.
#[derive(Clone, Copy)]
pub(crate) struct WorkBlock {
    /// Its number in the grid.
    pub(crate) number: u32,
    pub(crate) row_block: u32,
    pub(crate) column: u32,
    /// Its group, if any of its requests merge.
    pub(crate) group: Option<u32>,
}

impl Graph {
    /// Compiles descriptions of the first product, the normalisation and the second product, at the sub-layer's sizes.
    ///
    /// # Errors
    /// If one makes no sense at them, they do not fit together, or a block's rows are no row block.
    pub(crate) fn new(texts: [&str; 3], layout: &Layout<'_>) -> Result<Self, String> {
        let (layer, machine) = (layout.layer, layout.machine);
        let (rows, columns) = (layout.tile_rows, machine.tile_columns);
        let divides = |vector: &u32| {
            [columns, layer.inner, layer.hidden].iter().all(|size| size.is_multiple_of(*vector))
        };
        let vector = VECTORS.into_iter().find(divides).unwrap_or(1);
        let product =
            |inner, columns_of| vec![("N", columns_of), ("K", inner), ("ROWS", rows), ("COLUMNS", columns)];
        let constants = [
            product(layer.inner, layer.hidden),
            vec![("N", layer.hidden), ("ROWS", layout.norm_blocks().0)],
            product(layer.hidden, layer.columns),
        ];
        let read = |place: usize| {
            let constants = [&constants[place][..], &[("M", layer.rows), ("VECTOR", vector)]].concat();
            let name = ["product 1", "norm", "product 2"][place];
            Kernel::resized(name, texts[place], machine.ranks, &constants).map_err(|error| error.to_string())
        };
        let kernels = [read(FIRST)?, read(NORM)?, read(SECOND)?];
        let compiled = kernels.each_ref().map(compile);
        let [first, norm, second] = [FIRST, NORM, SECOND].map(|place| (&kernels[place], &compiled[place]));
        let dataflow = Dataflow::of(&[first, norm, second]).map_err(|error| error.to_string())?;
        let row = i128::from(layer.hidden);
        let row_block = row * i128::from(rows);
        let graph = Self { kernels, compiled, dataflow, row, row_block, tile_columns: columns.into() };
        // Sums are counted where they are normalised; whoever has normalised rows tells those who read them.
        let is_whole = |edge: &Edge, readers: &dyn Fn(u32) -> BTreeSet<u16>| {
            let whole = (0..).zip(&edge.parts).all(|(number, part)| {
                part.elements.low == i128::from(number) * row_block && part.readers == readers(number)
            });
            whole && edge.parts.len() as u32 == layout.row_blocks
        };
        let sums = graph.dataflow.between(FIRST, NORM);
        let norms = graph.dataflow.between(NORM, SECOND);
        let grid = |columns| [columns, layout.row_blocks, 1];
        let all = |_| (0..machine.ranks).collect();
        // Who has copies of its own of all normalised rows has normalised them all.
        let home = |row_block| BTreeSet::from([layout.home(row_block)]);
        let readers: &dyn Fn(u32) -> BTreeSet<u16> =
            if norms.is_some_and(|edge| edge.local) { &all } else { &home };
        if !sums.is_some_and(|edge| is_whole(edge, readers))
            || !norms.is_some_and(|edge| is_whole(edge, &all))
            || graph.kernels[FIRST].grid != grid(layout.sum_tiles())
            || graph.kernels[SECOND].grid != grid(layout.columns())
        {
            return Err(
                "expected kernels of a block for each tile that pass row blocks on, to their home or to all, found others; \
                 see examples/kernels"
                    .into(),
            );
        }
        Ok(graph)
    }

    /// What of a product's requests the switch may merge: its sums, or its loads of normalised rows.
    pub(crate) fn merges(&self, kernel: usize) -> Merges {
        let place = self.passing(kernel);
        let merged = self.compiled[kernel].statements[place].plain.is_none();
        match self.kernels[kernel].statements[place].kind {
            StatementKind::Load if merged => Merges::Loads,
            StatementKind::Reduce if merged => Merges::Reductions,
            _ => Merges::Nothing,
        }
    }

    /// Accelerators that add to the sums of a row block.
    pub(crate) fn contributors(&self, row_block: u32) -> u64 {
        let part = &self.edge([FIRST, NORM]).parts[row_block as usize];
        part.writers.iter().filter(|blocks| **blocks > 0).count() as u64
    }

    /// Blocks of the normalisation that a block of the second product waits for.
    pub(crate) fn normalisers(&self, row_block: u32, rank: u16) -> u64 {
        let edge = self.edge([NORM, SECOND]);
        edge.parts[row_block as usize].awaited(rank, edge.local).into()
    }

    /// The kernel with which one shares the SMs, instead of going first.
    pub(crate) fn beside(&self, kernel: usize) -> Option<usize> {
        self.dataflow.beside(kernel)
    }

    /// The blocks of a kernel with these coordinates, (y, x), each with the tile that its index names on this accelerator.
    pub(crate) fn blocks(&self, kernel: usize, rank: u16, order: &[(u32, u32)]) -> Vec<WorkBlock> {
        let [columns, ..] = self.kernels[kernel].grid;
        let access = self.access(kernel);
        let groups = &self.compiled[kernel].groups.of_block;
        let block = |&(y, x): &(u32, u32)| {
            let number = y * columns + x;
            let first = access.elements(rank, number).low;
            WorkBlock {
                number,
                row_block: (first / self.row_block) as u32,
                column: (first % self.row / self.tile_columns) as u32,
                group: groups.get(number as usize).copied(),
            }
        };
        order.iter().map(block).collect()
    }

    /// The row blocks that an accelerator normalises.
    pub(crate) fn normalised(&self, rank: u16) -> BTreeSet<u32> {
        let access = self.access(NORM);
        let row_block = |block| (access.elements(rank, block).low / self.row_block) as u32;
        (0..self.kernels[NORM].blocks()).map(row_block).collect()
    }

    fn edge(&self, [producer, consumer]: [usize; 2]) -> &Edge {
        self.dataflow.between(producer, consumer).expect("an edge that was looked at")
    }

    /// The statement of a kernel that accesses what passes through it: sums, or normalised rows.
    fn passing(&self, kernel: usize) -> usize {
        let edge = self.edge(if kernel == SECOND { [NORM, SECOND] } else { [FIRST, NORM] });
        let kernel = &self.kernels[kernel];
        let mut statements = kernel.statements.iter();
        let place = statements.position(|statement| kernel.arrays[statement.array].name == edge.array);
        place.expect("a kernel at the end of an edge accesses its array")
    }

    fn access(&self, kernel: usize) -> Access<'_> {
        Access::new(&self.kernels[kernel], &self.kernels[kernel].statements[self.passing(kernel)])
    }
}
