//! Collectives by an accelerator in the switch, which reads, adds and writes by itself (SCIN 3.3, 3.4): the paper of CAIS does not compare with
//! them, and SCIN's measures computation apart from communication.
//!
//! **What may overlap: nothing.** "AllReduce operations appear between compute kernels on the execution path" (3.1); an accelerator counts up at the
//! switches when its product has ended, and waits for their flags "before proceeding to subsequent computation" (3.3); "computation and
//! communication do not overlap" (4.1).
//!
//! What SCIN leaves open, and is decided here:
//! - **The kernel that starts a collective** is launched like any other, tells the switches and takes no SM ("full offloading", 2.3).
//! - **Vectors are where the product has put them**: results go back to the addresses of the operands (3.4).
//! - **Codes** are what the product's blocks write and the normalisation's blocks read (3.4, item 4: the output activations are quantised). Neither
//!   takes longer or shorter for that: the paper gives no time.
//! - **ReduceScatter and AllGather** (`scin-sp`) are what 3.4 composes of instructions; the paper measures AllReduce alone.

use crate::chance::disturb;
use crate::kernels::{Builder, TileEnd, kernel};
use crate::layout::Layout;
use crate::nvls::Between;
use quincunx_accelerator::{
    CounterId, Kernel, Machine, Offload, Overlap, Plan, Schedule, Send, Signal, SubLayer, To, Unit, Wait,
};
use quincunx_collective::Collective;

/// Collectives that the switches run, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switched {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// The design whose unit runs them.
    pub(crate) unit: &'static str,
    pub(crate) between: Between,
}

impl Schedule for Switched {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    /// SCIN 3.1, 3.3 and 4.1: kernels and collectives one after the other.
    fn overlap(&self) -> Overlap {
        Overlap { first: false, second: false, products: false }
    }

    fn unit(&self) -> Option<Unit> {
        Some(Unit { design: self.unit, set: &[] })
    }

    fn plan(&self, layer: &SubLayer, machine: &Machine, rank: u16) -> Result<Plan, String> {
        let mut builder = Builder::new(Layout::new(layer, machine, rank)?);
        let order = Layout::by_row(&builder.layout.in_turn(), builder.layout.sum_tiles());
        let [computed, normed] = [builder.counter(), builder.counter()];
        // A product leaves its partial sums where the switches add them up.
        let mut first = builder.first_product(&order, |layout, row_block, tile| {
            let sum = Builder::partial_sum(layout, Send::Store, layout.rank, row_block, tile);
            TileEnd { outputs: vec![sum], signals: Vec::new() }
        });
        first.signals = vec![Builder::own(computed)];
        let (sums, norms) = (builder.layout.sum(0), builder.layout.norm(0));
        let rows = match self.between {
            Between::AllReduce => 0..builder.layout.row_blocks,
            Between::Scatter => builder.layout.own(),
        };
        let mut norm = builder.norm(rows, |_| Vec::new(), |_| Vec::new());
        norm.signals = vec![Builder::own(normed)];
        let mut offloads = Vec::new();
        let mut offload =
            |collective, address, behind| offload(&mut builder, &mut offloads, collective, address, behind);
        let (kernels, done) = match self.between {
            Between::AllReduce => {
                let (reduce, reduced) = offload(Collective::AllReduce, sums, computed);
                norm.waits = reduced;
                (vec![first, reduce, norm], vec![Builder::until(normed, 1)])
            }
            Between::Scatter => {
                let (scatter, reduced) = offload(Collective::ReduceScatter, sums, computed);
                norm.waits = reduced;
                let (gather, gathered) = offload(Collective::AllGather, norms, normed);
                (vec![first, scatter, norm, gather], gathered)
            }
        };
        let mut second = builder.plain_second_product(|_| Vec::new());
        second.waits = done;
        let mut program = builder.program;
        program.kernels = kernels;
        program.kernels.push(second);
        disturb(&mut program, machine, rank);
        Ok(Plan { program, shared_requests: false, offloads })
    }
}

/// A collective of the switches on the vector at `address`, behind the kernel that counts `behind`: the kernel that tells the switches, and
/// until when one waits for them.
fn offload(
    builder: &mut Builder<'_>,
    offloads: &mut Vec<Offload>,
    collective: Collective,
    address: u64,
    behind: CounterId,
) -> (Kernel, Vec<Wait>) {
    let switches = u32::from(builder.layout.machine.switches);
    let done = builder.counters(switches);
    let word = CounterId(offloads.len() as u16);
    let values = builder.layout.values();
    offloads.push(Offload { collective, address, values, done });
    let name = if collective == Collective::AllReduce {
        "all_reduce"
    } else if collective == Collective::AllGather {
        "all_gather"
    } else {
        "reduce_scatter"
    };
    let mut tells = kernel(name, builder.layout.machine.launch);
    tells.waits = vec![Builder::until(behind, 1)];
    tells.signals = vec![Signal { to: To::Switches, counter: word }];
    (tells, (0..switches).map(|switch| Builder::until(Builder::at(done, switch), 1)).collect())
}
