//! The kernels that schedules are made of.

use crate::layout::{Layout, Product};
use quincunx_accelerator::{
    Block, CounterId, Fetch, Kernel, KernelPlace, Merges, Output, Program, Rows, Send, Signal, Stage, Tile,
    TileId, To, Wait,
};
use quincunx_units::Duration;
use std::collections::BTreeMap;

/// A program in the making.
pub(crate) struct Builder<'a> {
    pub(crate) layout: Layout<'a>,
    pub(crate) program: Program,
}

/// A kernel without blocks.
pub(crate) fn kernel(name: &str, launch: Duration) -> Kernel {
    Kernel {
        name: name.into(),
        waits: Vec::new(),
        launch,
        place: KernelPlace::Sm,
        priority: 1,
        beside: None,
        merges: Merges::Nothing,
        blocks: Vec::new(),
        weights: Vec::new(),
        signals: Vec::new(),
    }
}

/// How a product's blocks load rows from other accelerators.
pub(crate) enum Loads {
    /// Each by itself.
    Plain,
    /// So that the switch may merge them: the group of blocks that loads a row block.
    Merged(BTreeMap<u32, u32>),
}

/// What a block of a product does with its tile.
pub(crate) struct TileEnd {
    pub(crate) outputs: Vec<Output>,
    pub(crate) signals: Vec<Signal>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(layout: Layout<'a>) -> Self {
        let program = Program { memory: layout.memory(), ..Program::default() };
        Self { layout, program }
    }

    /// A counter of its own.
    pub(crate) fn counter(&mut self) -> CounterId {
        self.counters(1)
    }

    /// Counters next to each other; the first.
    pub(crate) fn counters(&mut self, count: u32) -> CounterId {
        let first = self.program.counters;
        self.program.counters += count as u16;
        CounterId(first)
    }

    /// Counts what arrives among sums, row block by row block.
    pub(crate) fn count_sums(&mut self) -> CounterId {
        let first = self.counters(self.layout.row_blocks);
        self.program.regions.push(self.layout.sums(first.0));
        first
    }

    /// The same of what is normalised.
    pub(crate) fn count_norms(&mut self) -> CounterId {
        let first = self.counters(self.layout.row_blocks);
        self.program.regions.push(self.layout.norms(first.0));
        first
    }

    /// A tile, to be fetched.
    pub(crate) fn tile(&mut self, tile: Tile) -> TileId {
        self.program.tiles.push(tile);
        TileId(self.program.tiles.len() as u32 - 1)
    }

    /// The first product, in this order of row blocks and tiles: of each tile of partial sums `end` says what becomes of it.
    pub(crate) fn first_product(
        &mut self,
        tiles: &[(u32, u32)],
        mut end: impl FnMut(&Layout<'a>, u32, u32) -> TileEnd,
    ) -> Kernel {
        let layout = &self.layout;
        let mut product = kernel("product 1", layout.machine.launch);
        let compute = layout.tile_time(layout.first());
        for &(row_block, column) in tiles {
            let TileEnd { outputs, signals } = end(layout, row_block, column);
            product.blocks.push(Block {
                waits: Vec::new(),
                stages: vec![Stage { tiles: Vec::new(), compute }],
                outputs,
                signals,
                group: None,
            });
        }
        product
    }

    /// A tile of partial sums as an output to `to`.
    pub(crate) fn partial_sum(layout: &Layout<'_>, send: Send, to: u16, row_block: u32, tile: u32) -> Output {
        let rows = layout.slice(layout.machine.tile_columns);
        let offset = u64::from(rows.bytes) * u64::from(tile);
        Output {
            send,
            to,
            address: layout.sum(row_block) + offset,
            local: (layout.partial(row_block) + offset) as usize,
            rows,
        }
    }

    /// The normalisation of these row blocks. Blocks of a row block wait for what `waits` says, and tell `signals`.
    pub(crate) fn norm(
        &mut self,
        row_blocks: impl Iterator<Item = u32>,
        waits: impl Fn(u32) -> Vec<Wait>,
        signals: impl Fn(u32) -> Vec<Signal>,
    ) -> Kernel {
        let layout = &self.layout;
        let mut norm = kernel("norm", layout.machine.launch);
        norm.priority = 2;
        let (rows, count) = layout.norm_blocks();
        let compute = layout.norm_time(rows);
        let length = layout.stripe() / u64::from(count);
        for row_block in row_blocks {
            for part in 0..count {
                let offset = length * u64::from(part);
                norm.blocks.push(Block {
                    waits: waits(row_block),
                    stages: vec![Stage { tiles: Vec::new(), compute }],
                    outputs: vec![Output {
                        send: Send::Store,
                        to: layout.rank,
                        address: layout.norm(row_block) + offset,
                        local: (layout.sum(row_block) + offset) as usize,
                        rows: Rows::one(length as u32),
                    }],
                    signals: signals(row_block),
                    group: None,
                });
            }
        }
        norm
    }

    /// The second product, of tiles of these row blocks in this order, whose blocks find their rows in memory, or load them from home. Blocks
    /// of a row block wait for what `waits` says.
    pub(crate) fn second_product(
        &mut self,
        row_blocks: impl IntoIterator<Item = u32>,
        loads: Option<&Loads>,
        waits: impl Fn(u32) -> Vec<Wait>,
    ) -> Kernel {
        let mut product = kernel("product 2", self.layout.machine.launch);
        let whole = self.layout.tile_time(self.layout.second());
        let stages = self.layout.stages();
        let compute = Duration::from_picos(whole.as_picos() / u64::from(stages));
        let mut tiles: BTreeMap<u32, Vec<Vec<TileId>>> = BTreeMap::new();
        for row_block in self.layout.in_turn() {
            let stages = (0..stages).map(|stage| self.rows(loads, row_block, stage));
            tiles.insert(row_block, stages.collect());
        }
        for row_block in row_blocks {
            let stage = |tiles: &Vec<TileId>| Stage { tiles: tiles.clone(), compute };
            product.blocks.push(Block {
                waits: waits(row_block),
                stages: tiles[&row_block].iter().map(stage).collect(),
                ..Block::default()
            });
        }
        product
    }

    /// The second product as schedules have it that merge nothing: tile by tile, with its rows in memory.
    pub(crate) fn plain_second_product(&mut self, waits: impl Fn(u32) -> Vec<Wait>) -> Kernel {
        let order = self.layout.tile_by_tile(self.layout.columns());
        self.second_product(order.into_iter().map(|(row_block, _)| row_block), None, waits)
    }

    /// The tile with a stage's part of a row block, if rows are loaded.
    fn rows(&mut self, loads: Option<&Loads>, row_block: u32, stage: u32) -> Vec<TileId> {
        let Some(loads) = loads else { return Vec::new() };
        let layout = &self.layout;
        let from = layout.home(row_block);
        let rows = layout.slice(layout.machine.tile_inner);
        let address = layout.norm(row_block) + u64::from(rows.bytes) * u64::from(stage);
        let fetch = match loads {
            _ if from == layout.rank => Fetch::Own,
            Loads::Plain => Fetch::Load,
            Loads::Merged(_) => Fetch::MergedLoad,
        };
        let series = match loads {
            Loads::Plain => None,
            Loads::Merged(series) => series.get(&row_block).copied(),
        };
        vec![self.tile(Tile { fetch, from, address, local: address as usize, rows, series })]
    }

    /// Blocks that only send, one an output.
    pub(crate) fn sends(
        name: &str,
        launch: Duration,
        place: KernelPlace,
        outputs: Vec<(Vec<Wait>, Output)>,
    ) -> Kernel {
        let mut sends = kernel(name, launch);
        sends.place = place;
        sends.priority = 3;
        let block = |(waits, output)| Block { waits, outputs: vec![output], ..Block::default() };
        sends.blocks = outputs.into_iter().map(block).collect();
        sends
    }

    /// Until `target` is reached.
    pub(crate) fn until(counter: CounterId, target: u64) -> Wait {
        Wait { counter, target }
    }

    /// The counter of a row block, among those next to each other.
    pub(crate) const fn at(first: CounterId, row_block: u32) -> CounterId {
        CounterId(first.0 + row_block as u16)
    }

    /// Tells all accelerators.
    pub(crate) const fn all(counter: CounterId) -> Signal {
        Signal { to: To::All, counter }
    }

    /// Tells nobody else.
    pub(crate) const fn own(counter: CounterId) -> Signal {
        Signal { to: To::Own, counter }
    }
}

impl Product {
    /// Tiles of its columns.
    pub(crate) const fn column_tiles(&self, tile: u32) -> u32 {
        self.columns / tile
    }
}
