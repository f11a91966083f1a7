//! NVLS as a design: what runs on accelerators and in switches.

use crate::Mutation;
use crate::kernel::{AllReduceMode, NvlsConfig, NvlsKernel};
use crate::multicast::{Multicast, MulticastConfig};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    AnySwitchUnit, Help, MemoryDesign, MemoryNeeds, MemoryPlacement, MemoryStream, Params, Refusal,
};
use quincunx_engine::shared_memory::{AnyKernel, InPlaceRequest};
use serde::{Deserialize, Serialize};

/// Collectives that accelerators issue, with reductions and multicast in the switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nvls;

/// The design.
pub const NVLS: Nvls = Nvls;

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
                "push: addresses that a switch adds up at once; by the link's round trip if not said",
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

impl MemoryDesign for Nvls {
    type Params = NvlsParams;

    fn name(&self) -> &'static str {
        "nvls"
    }

    fn summary(&self) -> &'static str {
        "accelerators issue reduced loads and multicast stores"
    }

    fn collectives(&self) -> &'static [Collective] {
        &[Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::Barrier]
    }

    fn unit_kind(&self) -> Option<&'static str> {
        Some("multicast unit")
    }

    fn mutations(&self) -> Vec<&'static str> {
        Mutation::all().map(Mutation::name).collect()
    }

    fn needs(&self, _: &NvlsParams, _: &MemoryPlacement, _: &InPlaceRequest) -> Result<MemoryNeeds, Refusal> {
        // The counter of the barrier.
        Ok(MemoryNeeds { words: 1, tail: 0, scratch: 0 })
    }

    fn kernel<P: Payload>(
        &self,
        params: &NvlsParams,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        Ok(Box::new(NvlsKernel::new(NvlsConfig {
            ranks: placement.accelerators,
            rank,
            granule: placement.format.max_payload,
            all_reduce: params.nvls.all_reduce,
            counter: stream.first_word,
        })))
    }

    fn unit<P: Payload>(
        &self,
        params: &NvlsParams,
        placement: &MemoryPlacement,
        switch: u16,
        streams: &[MemoryStream],
    ) -> Result<Box<dyn AnySwitchUnit<P>>, Refusal> {
        let Some(stream) = streams.first() else {
            return Err(Refusal::new("a stream at least", "none", "give the switch no unit"));
        };
        let members = placement.accelerators;
        if !(1..=64).contains(&members) {
            return Err(Refusal::new(
                "1 to 64 `accelerators` at a multicast unit",
                members,
                "take fewer accelerators",
            ));
        }
        let entries = placement.load_window * members;
        let NvlsOptions { all_reduce, sums } = params.nvls;
        Ok(Box::new(Multicast::new(MulticastConfig {
            node: placement.switch(switch),
            members,
            entries,
            sums: match all_reduce {
                AllReduceMode::Pull => 0,
                AllReduceMode::Push => sums.unwrap_or(entries),
            },
            format: placement.format,
            reduction: stream.request.reduction,
            mutation: stream.mutation.map(str::parse).transpose().map_err(|error| Refusal::of(&error))?,
        })))
    }
}
