//! LADM: blocks run where most of their data is, and load the rest themselves, request by request (CAIS IV-C, baseline 9: for kernels in
//! general, without collectives, so that no switch can help).
//!
//! **What may overlap: a product and its own loads**, for a block that waits for data leaves its SM to others, as on any GPU. **Not one product with the
//! other**: kernels for which nobody has worked out what depends on what run one after the other; LADM "focuses on intra-GPU locality rather
//! than inter-GPU communication, and does not leverage NVLS-based acceleration" (V-A3).
//!
//! Our reading, for the paper says no more: each accelerator computes the tiles of its own rows of both products. Activations before the first
//! product and weights of both lie split as tensor parallelism splits them, so that seven of eight parts are elsewhere. What blocks that run at
//! the same time load in common is loaded once, as it stays in the L2 cache that long; later blocks load it again, as all of it is larger
//! than the cache.

use crate::chance::disturb;
use crate::kernels::{Builder, kernel};
use crate::layout::{Layout, Product};
use quincunx_accelerator::{
    Block, Fetch, Kernel, Machine, Overlap, Plan, Rows, Schedule, Stage, SubLayer, Tile, TileId, Unit,
};
use quincunx_units::Duration;
use std::collections::BTreeMap;

/// LADM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ladm;

impl Schedule for Ladm {
    fn name(&self) -> &'static str {
        "ladm"
    }

    fn summary(&self) -> &'static str {
        "blocks run where their rows are, and load remote operands; no collectives, no merging"
    }

    /// Of each product its loads; kernel by kernel.
    fn overlap(&self) -> Overlap {
        Overlap { first: true, second: true, products: false }
    }

    fn unit(&self) -> Option<Unit> {
        None
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut builder = Builder::new(Layout::new(layer, machine, rank)?);
        let ranks = u32::from(machine.ranks);
        let (ended, normed) = (builder.counter(), builder.counter());
        let [first, second] = [builder.layout.first(), builder.layout.second()];
        let own_rows = layer.rows / ranks;
        // All columns of the rows that are its own, over the whole inner dimension.
        let whole_first = Product { rows: own_rows, columns: first.columns, inner: first.inner * ranks };
        let whole_second = Product { rows: own_rows, columns: second.columns * ranks, inner: second.inner };
        let mut before = product(&mut builder, "product 1", whole_first, true);
        before.signals = vec![Builder::own(ended)];
        let own = builder.layout.own();
        let mut norm = builder.norm(own, |_| Vec::new(), |_| Vec::new());
        norm.waits = vec![Builder::until(ended, 1)];
        norm.signals = vec![Builder::own(normed)];
        let mut after = product(&mut builder, "product 2", whole_second, false);
        after.waits = vec![Builder::until(normed, 1)];
        let mut program = builder.program;
        program.kernels = vec![before, norm, after];
        disturb(&mut program, machine, rank);
        Ok(Plan { program, shared_requests: false, offloads: Vec::new() })
    }
}

/// A matrix that lies in parts on all accelerators.
#[derive(Clone, Copy)]
struct Spread {
    /// Where it lies, on each.
    address: u64,
    /// Bytes of a piece that is loaded at once.
    piece: u64,
    /// Which of its two indices says whose a piece is, and how many there are of that.
    by_inner: bool,
    inner: u32,
    outer: u32,
}

impl Spread {
    /// Whose piece it is.
    fn owner(&self, outer: u32, inner: u32, ranks: u32) -> u16 {
        let (index, of) = if self.by_inner { (inner, self.inner) } else { (outer, self.outer) };
        (index * ranks / of.max(1)) as u16
    }
}

/// A product of which this accelerator has all columns of its rows. Activations are split by the inner dimension, if they are remote; weights
/// by the inner dimension in the first product and by columns in the second.
fn product(builder: &mut Builder<'_>, name: &str, product: Product, first: bool) -> Kernel {
    let machine = builder.layout.machine;
    let (ranks, rank) = (u32::from(machine.ranks), builder.layout.rank);
    let element = u64::from(machine.element);
    let rows = builder.layout.tile_rows;
    let inner = (1..=machine.tile_inner).rev().find(|&inner| product.inner.is_multiple_of(inner * ranks));
    let inner = inner.unwrap_or(1);
    let stages = product.inner / inner;
    let columns = product.column_tiles(machine.tile_columns);
    let line = u64::from(machine.line);
    let up = |bytes: u64| bytes.next_multiple_of(line);
    let planes = u64::from(machine.planes);
    let piece = |side: u32| up(u64::from(side) * u64::from(inner) * element / planes);
    let base = up(builder.program.memory as u64);
    let row_blocks = product.rows / rows;
    let activations =
        Spread { address: base, piece: piece(rows), by_inner: true, inner: stages, outer: row_blocks };
    let weights_at = base + activations.piece * u64::from(row_blocks * stages) * u64::from(ranks);
    let weights = Spread {
        address: weights_at,
        piece: piece(machine.tile_columns),
        by_inner: first,
        inner: stages,
        outer: columns,
    };
    builder.program.memory = (weights_at + weights.piece * u64::from(columns * stages)) as usize;

    let whole = builder.layout.tile_time(product);
    let compute = Duration::from_picos(whole.as_picos() / u64::from(stages));
    let together = u32::from(machine.sms) * u32::from(machine.blocks_per_sm);
    let mut kernel = kernel(name, machine.launch);
    for row_block in 0..row_blocks {
        for column in 0..columns {
            kernel.blocks.push(Block {
                stages: (0..stages).map(|_| Stage { tiles: Vec::new(), compute }).collect(),
                ..Block::default()
            });
            debug_assert_eq!(kernel.blocks.len() as u32, row_block * columns + column + 1);
        }
    }
    // What blocks of one round load in common.
    let mut loaded: BTreeMap<(bool, u32, u32), TileId> = BTreeMap::new();
    for number in 0..kernel.blocks.len() {
        if (number as u32).is_multiple_of(together) {
            loaded.clear();
        }
        let (row_block, column) = (number as u32 / columns, number as u32 % columns);
        for stage in 0..stages {
            let mut wanted = vec![(weights, false, column)];
            if first {
                wanted.push((activations, true, u32::from(rank) * row_blocks + row_block));
            }
            for (matrix, is_rows, outer) in wanted {
                let owner = matrix.owner(outer, stage, ranks);
                if owner == rank {
                    continue;
                }
                let place = u64::from(outer * stages + stage);
                let address = matrix.address + place * matrix.piece;
                let tile = *loaded.entry((is_rows, outer, stage)).or_insert_with(|| {
                    let local = address as usize;
                    let rows = Rows::one(matrix.piece as u32);
                    builder.tile(Tile { fetch: Fetch::Load, from: owner, address, local, rows, series: None })
                });
                kernel.blocks[number].stages[stage as usize].tiles.push(tile);
            }
        }
    }
    kernel
}
