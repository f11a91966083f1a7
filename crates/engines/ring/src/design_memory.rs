//! Collectives of accelerators alone, on a memory fabric, as three designs: what each needs, and what runs on an accelerator.

use crate::quantized_ring::{QuantizedRing, QuantizedRingConfig};
use crate::shared_direct::{SharedDirect, SharedDirectConfig};
use crate::shared_memory::{SharedRing, SharedRingConfig};
use alloc::boxed::Box;
use alloc::vec::Vec;
use quincunx_collective::{Collective, DataType, Payload, Rank};
use quincunx_design::{
    Form, Help, MemoryDesign, MemoryNeeds, MemoryPlacement, MemoryStream, Params, Quantization, Refusal,
};
use quincunx_engine::shared_memory::{AnyKernel, InPlaceRequest};
use serde::{Deserialize, Serialize};

/// What all of these offer that do not quantise.
const OFFERED: &[Collective] = &[Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

/// The ring: each accelerator writes to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRing;

/// The ring on the memory fabric.
pub const MEMORY_RING: MemoryRing = MemoryRing;

/// The ring that quantises at every hop (RQ).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRingRq;

/// The ring on the memory fabric that quantises at every hop. AllReduce of sums of binary32 values alone.
pub const MEMORY_RING_RQ: MemoryRingRq = MemoryRingRq;

/// Each accelerator writes to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryDirect;

/// Direct writes on the memory fabric.
pub const MEMORY_DIRECT: MemoryDirect = MemoryDirect;

/// No parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

impl Params for NoParams {
    fn help() -> Vec<Help> {
        Vec::new()
    }
}

/// The parameters of a ring that quantises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RqParams {
    /// How.
    pub quantization: Quantization,
}

impl Params for RqParams {
    fn help() -> Vec<Help> {
        Quantization::HELP.into()
    }

    fn check(&self) -> Result<(), Refusal> {
        self.quantization.scheme().map(|_| ())
    }
}

impl MemoryDesign for MemoryRing {
    type Params = NoParams;

    fn name(&self) -> &'static str {
        "ring"
    }

    fn summary(&self) -> &'static str {
        "accelerators alone: each writes to the next"
    }

    fn collectives(&self) -> &'static [Collective] {
        OFFERED
    }

    fn needs(
        &self,
        _: &NoParams,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal> {
        let MemoryPlacement { accelerators, switches, format, .. } = *placement;
        let scratch = SharedRing::scratch_bytes(accelerators, request.span.length, format.max_payload);
        // A flag for each link, and what the successor has begun.
        Ok(MemoryNeeds { words: switches + 1, tail: 0, scratch })
    }

    fn kernel<P: Payload>(
        &self,
        _: &NoParams,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        Ok(Box::new(SharedRing::new(SharedRingConfig {
            ranks: placement.accelerators,
            rank,
            granule: placement.format.max_payload,
            scratch: stream.scratch,
            first_flag: stream.first_word,
        })))
    }
}

impl MemoryDesign for MemoryRingRq {
    type Params = RqParams;

    fn name(&self) -> &'static str {
        "ring-rq"
    }

    fn summary(&self) -> &'static str {
        "the same ring, quantised at every hop"
    }

    fn collectives(&self) -> &'static [Collective] {
        &[Collective::AllReduce]
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn form(&self, params: &RqParams) -> Result<Form, Refusal> {
        Ok(Form::Requantized(params.quantization.scheme()?))
    }

    fn needs(
        &self,
        params: &RqParams,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal> {
        let values = request.span.length / DataType::F32.size();
        let scheme = params.quantization.scheme()?;
        let scratch = QuantizedRing::scratch_bytes(placement.accelerators, scheme, values);
        Ok(MemoryNeeds { words: placement.switches, tail: 0, scratch })
    }

    fn kernel<P: Payload>(
        &self,
        params: &RqParams,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        Ok(Box::new(QuantizedRing::new(QuantizedRingConfig {
            ranks: placement.accelerators,
            rank,
            granule: placement.format.max_payload,
            quantization: params.quantization.scheme()?,
            scratch: stream.scratch,
            first_flag: stream.first_word,
        })))
    }
}

impl MemoryDesign for MemoryDirect {
    type Params = NoParams;

    fn name(&self) -> &'static str {
        "direct"
    }

    fn summary(&self) -> &'static str {
        "accelerators alone: each writes to each other"
    }

    fn collectives(&self) -> &'static [Collective] {
        OFFERED
    }

    fn needs(
        &self,
        _: &NoParams,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal> {
        let MemoryPlacement { accelerators, switches, .. } = *placement;
        let scratch = SharedDirect::scratch_bytes(accelerators, request.span.length);
        // Of each rank a flag for each link, and what it has begun.
        Ok(MemoryNeeds { words: (switches + 1) * accelerators, tail: 0, scratch })
    }

    fn kernel<P: Payload>(
        &self,
        _: &NoParams,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        Ok(Box::new(SharedDirect::new(SharedDirectConfig {
            ranks: placement.accelerators,
            rank,
            granule: placement.format.max_payload,
            scratch: stream.scratch,
            first_flag: stream.first_word,
        })))
    }
}
