//! CAIS, whole and without some of its parts: the products load and add remote data themselves, and the switch merges these requests
//! (CAIS III).
//!
//! **All of them may overlap each product with its communication**: "both the computation and its remote data access are performed by the same TB" (II-D).
//! **The products with each other** only where the dataflow optimiser works: CAIS, CAIS-Partial and CAIS without coordination begin a block "as soon as its
//! input data available, without waiting for the entire producer kernel to finish" (III-C1); **CAIS-Base may not**: it "disables the proposed
//! merging-aware TB coordination and graph-level dataflow optimizer" (V-A1).

use crate::chance::disturb;
use crate::kernels::{Builder, TileEnd};
use crate::layout::Layout;
use quincunx_accelerator::{
    Coordination, Fetch, Machine, Merges, Overlap, Plan, Schedule, Send, SubLayer, Unit,
};

/// CAIS with some of its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cais {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// Blocks of a group wait for each other (III-B).
    pub(crate) coordinated: bool,
    /// Blocks wait for what they need, not for whole kernels (III-C1), so that both products run at once (III-C2).
    pub(crate) dataflow: bool,
    /// Loads and reductions have channels of their own (III-C2).
    pub(crate) traffic_control: bool,
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
        let ranks = u64::from(machine.ranks);
        let (stripe, row_blocks) = (builder.layout.stripe(), builder.layout.row_blocks);
        let sums = builder.count_sums();
        let ready = builder.counters(row_blocks);
        let (normed, ended) = (builder.counter(), builder.counter());
        let groups = row_blocks * builder.layout.sum_tiles();
        let norm_blocks = u64::from(builder.layout.norm_blocks().1);

        let order = builder.layout.tile_by_tile(builder.layout.sum_tiles());
        let mut first = builder.first_product(&order, Some(0), |layout, row_block, column| {
            let to = layout.home(row_block);
            let sum = Builder::partial_sum(layout, Send::MergedReduce, to, row_block, column);
            TileEnd { outputs: vec![sum], signals: Vec::new() }
        });
        first.merges = Merges::Reductions;
        let own = builder.layout.own();
        // At home a row block is whole when all contributions to each of its bytes are there.
        let whole = |row_block| Builder::until(Builder::at(sums, row_block), stripe * ranks);
        let mut norm = builder.norm(
            own.clone(),
            |row_block| if self.dataflow { vec![whole(row_block)] } else { Vec::new() },
            |row_block| {
                if self.dataflow { vec![Builder::all(Builder::at(ready, row_block))] } else { Vec::new() }
            },
        );
        let mut second = builder.second_product(Some(Fetch::MergedLoad), Some(groups), |row_block| {
            let is_ready = Builder::until(Builder::at(ready, row_block), norm_blocks);
            if self.dataflow { vec![is_ready] } else { Vec::new() }
        });
        second.merges = Merges::Loads;
        if !self.dataflow {
            norm.waits = own.map(whole).chain([Builder::until(ended, 1)]).collect();
            first.signals = vec![Builder::own(ended)];
            norm.signals = vec![Builder::all(normed)];
            second.waits = vec![Builder::until(normed, ranks)];
        }
        let mut program = builder.program;
        program.kernels = vec![first, norm, second];
        if self.coordinated {
            program.coordination = machine.coordination;
        } else {
            program.coordination = Coordination::default();
        }
        disturb(&mut program, machine, rank);
        Ok(Plan { program, shared_requests: !self.traffic_control, offloads: Vec::new() })
    }
}
