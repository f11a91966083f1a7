//! NVLS as a design: what runs on accelerators and in switches.

use crate::Mutation;
use crate::kernel::{NvlsConfig, NvlsKernel};
use crate::multicast::{Multicast, MulticastConfig};
use alloc::boxed::Box;
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

/// The parameters: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvlsParams {}

impl Params for NvlsParams {
    fn help() -> Vec<Help> {
        Vec::new()
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
        _: &NvlsParams,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        Ok(Box::new(NvlsKernel::new(NvlsConfig {
            ranks: placement.accelerators,
            rank,
            granule: placement.format.max_payload,
            counter: stream.first_word,
        })))
    }

    fn unit<P: Payload>(
        &self,
        _: &NvlsParams,
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
        Ok(Box::new(Multicast::new(MulticastConfig {
            node: placement.switch(switch),
            members,
            entries: placement.load_window * members,
            format: placement.format,
            reduction: stream.request.reduction,
            mutation: stream.mutation.map(str::parse).transpose().map_err(|error| Refusal::of(&error))?,
        })))
    }
}
