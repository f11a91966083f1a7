//! NVLS as a design: what runs on accelerators and in switches.

use crate::Mutation;
use crate::config::MulticastConfig;
use crate::kernel::{AllReduceMode, NvlsConfig, NvlsKernel};
use crate::multicast::Multicast;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload};
use quincunx_design::{
    About, Context, Design, Endpoint, FabricKind, Help, MemoryNeeds, Model, Params, Placement, Plan, Refusal,
    SwitchPart,
};
use serde::{Deserialize, Serialize};

/// Collectives that accelerators issue, with reductions and multicast in the switches.
#[derive(Clone, Copy, Debug)]
pub struct Nvls {
    about: About,
}

/// The design.
pub const NVLS: Nvls = Nvls {
    about: About {
        unit: Some("multicast unit"),
        model: Model { mutations: |_| Mutation::all().map(Mutation::name).collect(), ..Model::PLAIN },
        ..About::new(
            "nvls",
            "accelerators issue reduced loads and multicast stores",
            &[(
                FabricKind::Memory,
                &[
                    Collective::AllReduce,
                    Collective::ReduceScatter,
                    Collective::AllGather,
                    Collective::Barrier,
                ],
            )],
        )
    },
};

/// The parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NvlsParams {
    /// What may be chosen of it.
    pub nvls: NvlsOptions,
}

/// What may be chosen of NVLS. Its fields are keys below `nvls`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NvlsOptions {
    /// How AllReduce moves data.
    pub all_reduce: AllReduceMode,
    /// Addresses that a switch adds up at once; as many as it takes reduced loads if it is not said. In push mode alone.
    pub sums: Option<u16>,
}

impl Params for NvlsParams {
    fn help() -> Vec<Help> {
        [
            ("nvls.all_reduce", "pull: reduced loads, multicast stores; push: the switch sums what all push"),
            (
                "nvls.sums",
                "push: addresses that a switch adds up at once; default: enough for the link's round trip",
            ),
        ]
        .into()
    }

    fn check(&self) -> Result<(), Refusal> {
        match self.nvls {
            NvlsOptions { sums: Some(0), .. } => {
                Err(Refusal::new("`nvls.sums` of 1 at least", 0, "give the switch room for a sum"))
            }
            NvlsOptions { all_reduce: AllReduceMode::Pull, sums: Some(sums) } => Err(Refusal::new(
                "`nvls.sums` with `nvls.all_reduce` = \"push\" alone",
                format!("{sums} with \"pull\", which sums nothing that is pushed"),
                "set the mode, or leave it out",
            )),
            _ => Ok(()),
        }
    }
}

impl Design for Nvls {
    type Params = NvlsParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, _: &NvlsParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        placement.shared_memory()?;
        // The counter of the barrier.
        let needs = MemoryNeeds { words: 1, tail: 0, scratch: 0 };
        Ok(Plan::of_stream(vec![(); usize::from(placement.ranks)], needs))
    }

    fn endpoint<P: Payload>(
        &self,
        params: &NvlsParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let memory = context.memory()?;
        Ok(Endpoint::Kernel(Box::new(NvlsKernel::new(NvlsConfig {
            ranks: memory.fabric.accelerators,
            rank: memory.rank()?,
            granule: memory.fabric.format.max_payload,
            all_reduce: params.nvls.all_reduce,
            counter: memory.stream()?.first_word,
        }))))
    }

    fn switch<P: Payload>(
        &self,
        params: &NvlsParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let memory = context.memory()?;
        let (fabric, stream) = (memory.fabric, memory.stream()?);
        let members = fabric.accelerators;
        if !(1..=64).contains(&members) {
            return Err(Refusal::new(
                "1 to 64 `accelerators` at a multicast unit",
                members,
                "take fewer accelerators",
            ));
        }
        let entries = fabric.load_window * members;
        let NvlsOptions { all_reduce, sums } = params.nvls;
        Ok(SwitchPart::Unit(Box::new(Multicast::new(MulticastConfig {
            node: fabric.switch(memory.switch()?),
            members,
            entries,
            sums: match all_reduce {
                AllReduceMode::Pull => 0,
                AllReduceMode::Push => sums.unwrap_or(entries),
            },
            format: fabric.format,
            reduction: stream.request.reduction,
            mutation: context.mutation()?,
        }))))
    }
}
