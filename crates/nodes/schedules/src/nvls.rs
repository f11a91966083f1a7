//! Tensor parallelism with collectives by NVLS (CAIS IV-C, baselines 1 and 2): kernels one after the other, with a barrier of all
//! accelerators around every collective (II-C: computation and communication are isolated phases).
//!
//! **What may overlap: nothing.** "As a result, computation and communication are isolated into separate phases, leaving SMs idle while waiting for
//! synchronization" (II-C); "the global barrier isolates computation and communication phases" (V-A3). SP-NVLS has two collectives where TP-NVLS has
//! one, each of which uses one direction of the links far more than the other (V-A3: "low bandwidth utilization incurred from asymmetric
//! communication patterns"), and normalises its own rows alone.

use crate::chance::disturb;
use crate::compiled::{ALL_REDUCE_KERNELS, Graph};
use crate::kernels::{Builder, TileEnd};
use crate::layout::Layout;
use quincunx_accelerator::{
    Fetch, Kernel, KernelPlace, Machine, Output, Overlap, Plan, Rows, Schedule, Send, Stage, SubLayer, Tile,
    Unit,
};

/// What is done between the two products.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Between {
    /// AllReduce, and every accelerator normalises all rows.
    AllReduce,
    /// ReduceScatter, every accelerator normalises its own rows, AllGather.
    Scatter,
}

/// NVLS's unit, which adds up as many addresses at once as there are, for accelerators that push their tiles in orders of their own.
pub(crate) const UNIT: Unit =
    Unit { design: "nvls", set: &[("nvls.all_reduce", "push"), ("nvls.sums", "65535")] };

/// Collectives of kernels of their own, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) between: Between,
}

impl Schedule for Phases {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    /// CAIS II-C, V-A3: phases.
    fn overlap(&self) -> Overlap {
        Overlap { first: false, second: false, products: false }
    }

    fn unit(&self) -> Option<Unit> {
        Some(UNIT)
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut builder = Builder::new(Layout::new(layer, machine, rank)?);
        let ranks = u64::from(machine.ranks);
        let nothing = |_: &Layout<'_>, _, _| TileEnd { outputs: Vec::new(), signals: Vec::new() };
        let order = Layout::by_row(&builder.layout.in_turn(), builder.layout.sum_tiles());
        let mut first = builder.first_product(&order, nothing);
        let (computed, normed) = (builder.counter(), builder.counter());
        first.signals = vec![Builder::all(computed)];
        let barrier = Builder::until(computed, ranks);
        let kernels = match self.between {
            Between::AllReduce => {
                let sums = builder.count_sums();
                let mut reduce = all_reduce(&builder, KernelPlace::WholeSm(machine.communication_sms));
                reduce.waits = vec![barrier];
                let rows = Graph::new(ALL_REDUCE_KERNELS, &builder.layout)?.normalised(rank);
                let mut norm = builder.norm(rows.iter().copied(), |_| Vec::new(), |_| Vec::new());
                let stripe = builder.layout.stripe();
                norm.waits =
                    rows.into_iter().map(|row| Builder::until(Builder::at(sums, row), stripe)).collect();
                norm.signals = vec![Builder::own(normed)];
                let mut second = builder.plain_second_product(|_| Vec::new());
                second.waits = vec![Builder::until(normed, 1)];
                vec![first, reduce, norm, second]
            }
            Between::Scatter => {
                let reduced = builder.counter();
                let mut scatter =
                    reduce_scatter(&mut builder, KernelPlace::WholeSm(machine.communication_sms));
                scatter.waits = vec![barrier];
                scatter.signals = vec![Builder::own(reduced)];
                let own = builder.layout.own();
                let mut norm = builder.norm(own, |_| Vec::new(), |_| Vec::new());
                norm.waits = vec![Builder::until(reduced, 1)];
                norm.signals = vec![Builder::all(normed)];
                let norms = builder.count_norms();
                let mut gather = all_gather(&builder, KernelPlace::WholeSm(machine.communication_sms));
                gather.waits = vec![Builder::until(normed, ranks)];
                let mut second = builder.plain_second_product(|_| Vec::new());
                second.waits = whole_norms(&builder, norms);
                vec![first, scatter, norm, gather, second]
            }
        };
        let mut program = builder.program;
        program.kernels = kernels;
        disturb(&mut program, machine, rank);
        Ok(Plan { program, shared_requests: false, offloads: Vec::new() })
    }
}

/// Until what is normalised is all there. At home it is written twice: by the normalisation, and by the switch, which writes at all.
pub(crate) fn whole_norms(
    builder: &Builder<'_>,
    norms: quincunx_accelerator::CounterId,
) -> Vec<quincunx_accelerator::Wait> {
    let layout = &builder.layout;
    let times = |row: u32| if layout.home(row) == layout.rank { 2 } else { 1 };
    (0..layout.row_blocks)
        .map(|row| Builder::until(Builder::at(norms, row), times(row) * layout.stripe()))
        .collect()
}

/// AllReduce by `multimem.red`, pushed: every accelerator sends all of its partial sums once (CAIS II-C).
pub(crate) fn all_reduce(builder: &Builder<'_>, place: KernelPlace) -> Kernel {
    let layout = &builder.layout;
    let mut outputs = Vec::new();
    for row_block in layout.in_turn() {
        for tile in 0..layout.sum_tiles() {
            let output = Builder::partial_sum(layout, Send::PushReduce, layout.rank, row_block, tile);
            outputs.push((Vec::new(), output));
        }
    }
    Builder::sends("all_reduce", layout.machine.launch, place, outputs)
}

/// ReduceScatter by `multimem.ld_reduce`, pulled: every accelerator loads the sums of its own rows.
pub(crate) fn reduce_scatter(builder: &mut Builder<'_>, place: KernelPlace) -> Kernel {
    let mut kernel = crate::kernels::kernel("reduce_scatter", builder.layout.machine.launch);
    kernel.place = place;
    kernel.priority = 3;
    for row_block in builder.layout.own() {
        for column in 0..builder.layout.sum_tiles() {
            let stage = reduced_tile(builder, row_block, column);
            kernel.blocks.push(quincunx_accelerator::Block { stages: vec![stage], ..Default::default() });
        }
    }
    kernel
}

/// A tile of partial sums, loaded reduced from all accelerators.
pub(crate) fn reduced_tile(builder: &mut Builder<'_>, row_block: u32, column: u32) -> Stage {
    let layout = &builder.layout;
    let offset = layout.tile() * u64::from(column);
    let tile = Tile {
        fetch: Fetch::ReducedLoad,
        from: layout.rank,
        address: layout.partial(row_block) + offset,
        local: (layout.sum(row_block) + offset) as usize,
        rows: Rows::one(layout.tile() as u32),
        series: None,
    };
    Stage { tiles: vec![builder.tile(tile)], ..Stage::default() }
}

/// AllGather by `multimem.st`, pushed: every accelerator has its own rows written everywhere.
pub(crate) fn all_gather(builder: &Builder<'_>, place: KernelPlace) -> Kernel {
    let layout = &builder.layout;
    let mut outputs = Vec::new();
    for row_block in layout.own() {
        for tile in 0..layout.sum_tiles() {
            outputs
                .push((Vec::new(), norm_piece(layout, Send::MulticastStore, layout.rank, row_block, tile)));
        }
    }
    Builder::sends("all_gather", layout.machine.launch, place, outputs)
}

/// A piece of what is normalised as an output to the same place of `to`.
pub(crate) fn norm_piece(layout: &Layout<'_>, send: Send, to: u16, row_block: u32, tile: u32) -> Output {
    let address = layout.norm(row_block) + layout.tile() * u64::from(tile);
    Output { send, to, address, local: address as usize, rows: Rows::one(layout.tile() as u32) }
}
