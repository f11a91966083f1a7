//! CAIS, whole and without some of its parts: the products load and add remote data themselves, and the switch merges these requests
//! (CAIS III).
//!
//! **All of them may overlap each product with its communication**: "both the computation and its remote data access are performed by the same TB" (II-D).
//! **The products with each other** only where the dataflow optimiser works: CAIS, CAIS-Partial and CAIS without coordination begin a block "as soon as its
//! input data available, without waiting for the entire producer kernel to finish" (III-C1); **CAIS-Base may not**: it "disables the proposed
//! merging-aware TB coordination and graph-level dataflow optimizer" (V-A1).

use crate::chance::disturb;
use crate::compiled::{FIRST, Graph, NORM, SECOND, WorkBlock};
use crate::kernels::{Builder, Loads, TileEnd};
use crate::layout::Layout;
use quincunx_accelerator::{
    Coordination, Kernel, Machine, Merges, Overlap, Plan, Schedule, Send, SubLayer, Unit,
};

/// CAIS with some of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Cais {
    /// What people call it.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The first product, the normalisation and the second product, as descriptions for the compiler: [`KERNELS`](crate::KERNELS), or others.
    pub kernels: [&'static str; 3],
    /// Blocks of a group wait for each other (III-B).
    pub coordinated: bool,
    /// Blocks wait for what they need, not for whole kernels (III-C1), so that both products run at once (III-C2).
    pub dataflow: bool,
    /// Loads and reductions have channels of their own (III-C2).
    pub traffic_control: bool,
}

impl Schedule for Cais {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    /// Every request is a block's own, so that products and communication always overlap (II-D); the products do by the dataflow.
    fn overlap(&self) -> Overlap {
        Overlap { first: true, second: true, products: self.dataflow }
    }

    fn unit(&self) -> Option<Unit> {
        Some(Unit { design: "cais", set: &[] })
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut builder = Builder::new(Layout::new(layer, machine, rank)?);
        let graph = Graph::new(self.kernels, &builder.layout)?;
        let ranks = u64::from(machine.ranks);
        let (stripe, row_blocks) = (builder.layout.stripe(), builder.layout.row_blocks);
        let sums = builder.count_sums();
        let ready = builder.counters(row_blocks);
        let (normed, ended) = (builder.counter(), builder.counter());
        let [sum_tiles, columns] = [builder.layout.sum_tiles(), builder.layout.columns()];

        let blocks =
            |kernel: usize, columns: u32| graph.blocks(kernel, rank, &builder.layout.tile_by_tile(columns));
        let [first_blocks, second_blocks] = [blocks(FIRST, sum_tiles), blocks(SECOND, columns)];
        let merged = |kernel: usize| graph.merges(kernel) != Merges::Nothing;
        let send = if merged(FIRST) { Send::MergedReduce } else { Send::Reduce };
        let tiles: Vec<(u32, u32)> =
            first_blocks.iter().map(|block| (block.row_block, block.column)).collect();
        let mut first = builder.first_product(&tiles, |layout, row_block, column| {
            let sum = Builder::partial_sum(layout, send, layout.home(row_block), row_block, column);
            TileEnd { outputs: vec![sum], signals: Vec::new() }
        });
        let own = graph.normalised(rank);
        // At home a row block is whole when all contributions to each of its bytes are there.
        let whole =
            |row_block| Builder::until(Builder::at(sums, row_block), stripe * graph.contributors(row_block));
        let tell = |row_block| Builder::all(Builder::at(ready, row_block));
        let mut norm = builder.norm(
            own.iter().copied(),
            |row_block| if self.dataflow { vec![whole(row_block)] } else { Vec::new() },
            |row_block| if self.dataflow { vec![tell(row_block)] } else { Vec::new() },
        );
        // Blocks of a group load the same rows: the tiles of these are one series.
        let first_groups = row_blocks * sum_tiles;
        let series = second_blocks.iter().filter_map(|block| Some((block.row_block, block.group?)));
        let loads = match graph.merges(SECOND) {
            Merges::Loads => Loads::Merged(series.collect()),
            _ => Loads::Plain,
        };
        let order = second_blocks.iter().map(|block| block.row_block);
        let mut second = builder.second_product(order, Some(&loads), |row_block| {
            let is_ready = Builder::until(Builder::at(ready, row_block), graph.normalisers(row_block, rank));
            if self.dataflow { vec![is_ready] } else { Vec::new() }
        });
        if !self.dataflow {
            norm.waits = own.iter().copied().map(whole).chain([Builder::until(ended, 1)]).collect();
            first.signals = vec![Builder::own(ended)];
            norm.signals = vec![Builder::all(normed)];
            second.waits = vec![Builder::until(normed, ranks)];
        }
        // Blocks of one blockIdx wait for each other.
        let number = |kernel: &mut Kernel, blocks: &[WorkBlock], from: u32| {
            for (block, work) in kernel.blocks.iter_mut().zip(blocks) {
                block.group = work.group.map(|_| from + work.number);
            }
        };
        number(&mut first, &first_blocks, 0);
        number(&mut second, &second_blocks, first_groups);
        let mut program = builder.program;
        program.kernels = vec![first, norm, second];
        for (kernel, place) in program.kernels.iter_mut().zip([FIRST, NORM, SECOND]) {
            kernel.merges = graph.merges(place);
            // What unlocks the work of others goes first (III-C2).
            kernel.beside = graph.beside(place).filter(|_| self.dataflow).map(|other| other as u16);
            kernel.priority = if graph.beside(place).is_some() { 1 } else { 2 };
        }
        if self.coordinated {
            program.coordination = machine.coordination;
        } else {
            program.coordination = Coordination::default();
        }
        disturb(&mut program, machine, rank);
        Ok(Plan { program, shared_requests: !self.traffic_control, offloads: Vec::new() })
    }
}
