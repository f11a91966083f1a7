//! Schedules that overlap the first product with adding up what it leaves (CAIS IV-C, baselines 3 to 8).
//!
//! **CoCoNet, FuseLib, and both with NVLS may overlap the first product and the AllReduce**: "both of which enable GEMM-AllReduce overlapping through
//! software scheduling" (IV-C). **Not the second product** with anything: over them CAIS "also overlaps the communication with the following GEMM"
//! (V-A3). CoCoNet's communication kernels are launched, and take SMs from the product: "resource contention between compute and
//! communication kernels"; FuseLib "executes within a single fused kernel, thereby eliminating kernel-launch overhead and mitigating resource
//! contention" (V-A3).
//!
//! **T3 may overlap the first product with the ReduceScatter and the second with the AllGather**: "hardware-assisted fine-grained overlapping between
//! GEMM and ReduceScatter. We extend T3 to also support AG-GEMM overlap" (IV-C). **Not the stages in between**, and so neither one product
//! with the other: "coarse-grained dependency among ReduceScatter, LN, and AllGather stages" (V-A3). Its copy engines take no SM; with NVLS
//! they use the "DMA-based NVLS design" (IV-A).

use crate::chance::disturb;
use crate::compiled::{ALL_REDUCE_KERNELS, FIRST, Graph};
use crate::kernels::{Builder, TileEnd};
use crate::layout::Layout;
use crate::nvls::{UNIT, norm_piece, reduced_tile};
use quincunx_accelerator::{
    Block, CounterId, Kernel, KernelPlace, Machine, Output, Overlap, Plan, Rows, Schedule, Send, SubLayer,
    Unit, Wait,
};

/// Who sends partial sums while the first product runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// Communication kernels, launched beside the product, on SMs that it lacks, chunk by chunk.
    Kernels,
    /// The product's own blocks, in one fused kernel.
    Blocks,
}

/// GEMM and AllReduce overlapped by software; every accelerator normalises all rows, and the second product waits for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FusedAllReduce {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) by: By,
    /// By the switch (`multimem.red`) instead of from accelerator to accelerator.
    pub(crate) nvls: bool,
}

/// Chunks that the communication kernels take one after the other. Our choice: CoCoNet's own evaluation pipelines its products in as many.
const CHUNKS: u32 = 8;

impl Schedule for FusedAllReduce {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    /// CAIS IV-C, V-A3: GEMM and AllReduce alone.
    fn overlap(&self) -> Overlap {
        Overlap { first: true, second: false, products: false }
    }

    fn unit(&self) -> Option<Unit> {
        self.nvls.then_some(UNIT)
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut builder = Builder::new(Layout::new(layer, machine, rank)?);
        let graph = Graph::new(ALL_REDUCE_KERNELS, &builder.layout)?;
        let (stripe, rows) = (builder.layout.stripe(), builder.layout.row_blocks);
        let sums = builder.count_sums();
        let chunks = builder.counters(CHUNKS);
        let normed = builder.counter();
        let tiles = builder.layout.sum_tiles();
        let order = if self.nvls { builder.layout.in_turn() } else { builder.layout.staggered() };
        let turn =
            |row_block: u32| order.iter().position(|&other| other == row_block).expect("each row block");
        let chunk = |row_block: u32| turn(row_block) as u32 * CHUNKS / rows;
        let blocks_of =
            |number: u32| (0..rows).filter(|&row| chunk(row) == number).count() as u64 * u64::from(tiles);

        let send = if self.nvls { Send::PushReduce } else { Send::Reduce };
        let to = |layout: &Layout<'_>, row| if self.nvls { layout.rank } else { layout.home(row) };
        let blocks = graph.blocks(FIRST, rank, &Layout::by_row(&order, tiles));
        let places: Vec<_> = blocks.iter().map(|block| (block.row_block, block.column)).collect();
        let first = builder.first_product(&places, |layout, row_block, column| {
            let sum = Builder::partial_sum(layout, send, to(layout, row_block), row_block, column);
            match self.by {
                By::Blocks => TileEnd { outputs: vec![sum], signals: Vec::new() },
                By::Kernels => {
                    let counter = Builder::at(chunks, chunk(row_block));
                    TileEnd { outputs: Vec::new(), signals: vec![Builder::own(counter)] }
                }
            }
        });
        let mut sends = Vec::new();
        if self.by == By::Kernels {
            let layout = &builder.layout;
            for &row_block in &order {
                let number = chunk(row_block);
                let waits = vec![Builder::until(Builder::at(chunks, number), blocks_of(number))];
                for tile in 0..tiles {
                    let to = to(layout, row_block);
                    sends.push((waits.clone(), Builder::partial_sum(layout, send, to, row_block, tile)));
                }
            }
        }
        if !self.nvls {
            sends.extend(spread(&builder, &graph, sums));
        }
        // Communication kernels have SMs of their own; blocks of the fused kernel are launched with the others of it.
        let place = match self.by {
            By::Kernels => KernelPlace::WholeSm(machine.communication_sms),
            By::Blocks => KernelPlace::Sm,
        };
        let mut kernels = vec![first];
        if !sends.is_empty() {
            kernels.push(Builder::sends("all_reduce", machine.launch, place, sends));
        }
        let normalised = graph.normalised(rank);
        let mut norm = builder.norm(normalised.iter().copied(), |_| Vec::new(), |_| Vec::new());
        let layout = &builder.layout;
        norm.waits = normalised
            .into_iter()
            .map(|row| {
                let is_home = !self.nvls && layout.home(row) == layout.rank;
                let times = if is_home { graph.contributors(row) } else { 1 };
                Builder::until(Builder::at(sums, row), stripe * times)
            })
            .collect();
        norm.signals = vec![Builder::own(normed)];
        let mut second = builder.plain_second_product(|_| Vec::new());
        second.waits = vec![Builder::until(normed, 1)];
        kernels.extend([norm, second]);
        Ok(finish(builder, kernels, machine, rank))
    }
}

/// Every sum goes from home to all others as soon as it is whole.
fn spread(builder: &Builder<'_>, graph: &Graph, sums: CounterId) -> Vec<(Vec<Wait>, Output)> {
    let layout = &builder.layout;
    let mut outputs = Vec::new();
    for row_block in layout.own() {
        let whole = layout.stripe() * graph.contributors(row_block);
        let waits = vec![Builder::until(Builder::at(sums, row_block), whole)];
        outputs.extend(to_others(layout, |layout, to, tile| {
            let address = layout.sum(row_block) + layout.tile() * u64::from(tile);
            let (local, rows) = (address as usize, Rows::one(layout.tile() as u32));
            (waits.clone(), Output { send: Send::Store, to, address, local, rows })
        }));
    }
    outputs
}

/// A row block's tiles to every other accelerator, the next one first.
fn to_others<T>(layout: &Layout<'_>, piece: impl Fn(&Layout<'_>, u16, u32) -> T) -> Vec<T> {
    let ranks = layout.machine.ranks;
    let others: Vec<u16> = (1..ranks).map(|after| (layout.rank + after) % ranks).collect();
    let tiles = 0..layout.sum_tiles();
    tiles
        .flat_map(|tile| others.iter().map(move |&to| (to, tile)))
        .map(|(to, tile)| piece(layout, to, tile))
        .collect()
}

/// T3: copy engines that hardware triggers send tiles while the product goes on; ReduceScatter, normalisation and AllGather are stages, and
/// the second product's blocks wait for the rows that they need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Triggered {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// By the switch, DMA-based.
    pub(crate) nvls: bool,
}

impl Schedule for Triggered {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    /// CAIS IV-C, V-A3: GEMM and ReduceScatter, AllGather and GEMM, with stages in between.
    fn overlap(&self) -> Overlap {
        Overlap { first: true, second: true, products: false }
    }

    fn unit(&self) -> Option<Unit> {
        self.nvls.then_some(UNIT)
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut builder = Builder::new(Layout::new(layer, machine, rank)?);
        let ranks = u64::from(machine.ranks);
        let (stripe, rows, tiles) =
            (builder.layout.stripe(), builder.layout.row_blocks, builder.layout.sum_tiles());
        let sums = builder.count_sums();
        let computed = builder.counters(rows);
        let (reduced, normed) = (builder.counter(), builder.counter());
        let engines = KernelPlace::CopyEngine(machine.copy_engines);
        let nvls = self.nvls;
        let order = if nvls { builder.layout.in_turn() } else { builder.layout.staggered() };
        let first = builder.first_product(&Layout::by_row(&order, tiles), |_, row_block, _| {
            let counter = Builder::at(computed, row_block);
            // Who loads a sum must know that all have their part of it.
            let signal = if nvls { Builder::all(counter) } else { Builder::own(counter) };
            TileEnd { outputs: Vec::new(), signals: vec![signal] }
        });
        let ready = |row_block: u32, of: u64| {
            vec![Builder::until(Builder::at(computed, row_block), u64::from(tiles) * of)]
        };
        let mut scatter = if nvls {
            let mut kernel = crate::kernels::kernel("reduce_scatter", machine.launch);
            for row_block in builder.layout.own() {
                for column in 0..tiles {
                    let stages = vec![reduced_tile(&mut builder, row_block, column)];
                    let waits = ready(row_block, ranks);
                    kernel.blocks.push(Block { waits, stages, ..Block::default() });
                }
            }
            kernel
        } else {
            let layout = &builder.layout;
            let mut outputs = Vec::new();
            for &row_block in &order {
                for tile in 0..tiles {
                    let to = layout.home(row_block);
                    let sum = Builder::partial_sum(layout, Send::Reduce, to, row_block, tile);
                    outputs.push((ready(row_block, 1), sum));
                }
            }
            Builder::sends("reduce_scatter", machine.launch, engines, outputs)
        };
        scatter.place = engines;
        scatter.signals = vec![Builder::own(reduced)];
        let own = builder.layout.own();
        let mut norm = builder.norm(own.clone(), |_| Vec::new(), |_| Vec::new());
        norm.waits = if nvls {
            vec![Builder::until(reduced, 1)]
        } else {
            own.clone().map(|row| Builder::until(Builder::at(sums, row), stripe * ranks)).collect()
        };
        norm.signals = vec![Builder::own(normed)];
        let norms = builder.count_norms();
        let layout = &builder.layout;
        let mut outputs = Vec::new();
        for row_block in own {
            if nvls {
                let piece = |tile| norm_piece(layout, Send::MulticastStore, layout.rank, row_block, tile);
                outputs.extend((0..tiles).map(|tile| (Vec::new(), piece(tile))));
            } else {
                outputs.extend(to_others(layout, |layout, to, tile| {
                    (Vec::new(), norm_piece(layout, Send::Store, to, row_block, tile))
                }));
            }
        }
        let mut gather = Builder::sends("all_gather", machine.launch, engines, outputs);
        gather.waits = vec![Builder::until(normed, 1)];
        let (mine, homes) = (builder.layout.rank, builder.layout.clone());
        let arrived = |row_block: u32| -> Vec<Wait> {
            let times = if nvls && homes.home(row_block) == mine { 2 } else { 1 };
            vec![Builder::until(Builder::at(norms, row_block), stripe * times)]
        };
        let mut second = builder.plain_second_product(arrived);
        second.waits = vec![Builder::until(normed, 1)];
        Ok(finish(builder, vec![first, scatter, norm, gather, second], machine, rank))
    }
}

fn finish(builder: Builder<'_>, kernels: Vec<Kernel>, machine: &Machine, rank: u16) -> Plan {
    let mut program = builder.program;
    program.kernels = kernels;
    disturb(&mut program, machine, rank);
    Plan { program, shared_requests: false, offloads: Vec::new() }
}
