//! Schedules of tensor-parallel sub-layers: CAIS, CAIS without some of its parts, the nine systems that it is compared with
//! (CAIS IV-C), and SCIN, with which nobody has compared it, each as a value on the same machine. [`ALL`] is the catalog: a new schedule is a value and a line.
//!
//! What each may overlap is in its [`Overlap`](quincunx_accelerator::Overlap), from the paper's words, and tested for just that.

mod cais;
mod chance;
mod compiled;
mod kernels;
mod ladm;
mod layout;
mod nvls;
mod overlapped;
mod switched;

pub use cais::Cais;
pub use compiled::{ALL_REDUCE_KERNELS, KERNELS};
use ladm::Ladm;
use nvls::{Between, Phases};
use overlapped::{By, FusedAllReduce, Triggered};
use quincunx_accelerator::Schedule;
use switched::Switched;

/// All of them.
pub static ALL: &[&dyn Schedule] = &[
    &Cais {
        name: "cais",
        summary: "requests of compute kernels merge in the switch; coordinated, both products at once",
        kernels: KERNELS,
        coordinated: true,
        dataflow: true,
        traffic_control: true,
    },
    &Cais {
        name: "cais-partial",
        summary: "CAIS whose loads and reductions share a queue",
        kernels: KERNELS,
        coordinated: true,
        dataflow: true,
        traffic_control: false,
    },
    &Cais {
        name: "cais-uncoordinated",
        summary: "CAIS whose blocks do not wait for those of other accelerators",
        kernels: KERNELS,
        coordinated: false,
        dataflow: true,
        traffic_control: true,
    },
    &Cais {
        name: "cais-base",
        summary: "merging alone: no coordination, kernel by kernel",
        kernels: KERNELS,
        coordinated: false,
        dataflow: false,
        traffic_control: true,
    },
    &Phases {
        name: "tp-nvls",
        summary: "product, AllReduce by NVLS, normalisation of all rows, product, one after the other",
        between: Between::AllReduce,
    },
    &Phases {
        name: "sp-nvls",
        summary: "product, ReduceScatter, normalisation of own rows, AllGather, product, one after the other",
        between: Between::Scatter,
    },
    &FusedAllReduce {
        name: "coconet",
        summary: "AllReduce by communication kernels beside the first product, chunk by chunk",
        by: By::Kernels,
        nvls: false,
    },
    &FusedAllReduce {
        name: "fuselib",
        summary: "first product and AllReduce in one kernel",
        by: By::Blocks,
        nvls: false,
    },
    &Triggered {
        name: "t3",
        summary: "copy engines reduce and scatter behind the first product, and gather ahead of the second",
        nvls: false,
    },
    &FusedAllReduce { name: "coconet-nvls", summary: "coconet, by NVLS", by: By::Kernels, nvls: true },
    &FusedAllReduce { name: "fuselib-nvls", summary: "fuselib, by NVLS", by: By::Blocks, nvls: true },
    &Triggered { name: "t3-nvls", summary: "t3, by NVLS", nvls: true },
    &Ladm,
    &Switched {
        name: "scin",
        summary: "product, AllReduce by an accelerator in the switch, normalisation of all rows, product",
        unit: "scin",
        between: Between::AllReduce,
    },
    &Switched {
        name: "scin-inq",
        summary: "scin, whose vectors are quantised in the network",
        unit: "scin-inq",
        between: Between::AllReduce,
    },
    &Switched {
        name: "scin-sp",
        summary: "scin with ReduceScatter, normalisation of own rows, AllGather",
        unit: "scin",
        between: Between::Scatter,
    },
];

/// The schedule of that name.
pub fn find(name: &str) -> Option<&'static dyn Schedule> {
    ALL.iter().copied().find(|schedule| schedule.name() == name)
}
