//! A ring of accelerators that quantises at every hop, as a design.

use crate::quantized_ring::{QuantizedRing, QuantizedRingConfig};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, DataType, Payload};
use quincunx_design::{
    About, Context, Design, Endpoint, FabricKind, Form, Help, MemoryNeeds, Params, Placement, Plan,
    Quantization, Refusal,
};
use serde::{Deserialize, Serialize};

/// The ring that quantises at every hop (RQ). AllReduce of sums of binary32 values alone.
#[derive(Clone, Copy, Debug)]
pub struct RequantizedRing {
    about: About,
}

/// The design.
pub const RING_RQ: RequantizedRing = RequantizedRing {
    about: About {
        is_exact: false,
        ..About::new(
            "ring-rq",
            "the same ring, quantised at every hop",
            &[(FabricKind::Memory, &[Collective::AllReduce])],
        )
    },
};

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

impl Design for RequantizedRing {
    type Params = RqParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, params: &RqParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let memory = placement.shared_memory()?;
        let values = memory.request.span.length / DataType::F32.size();
        let scheme = params.quantization.scheme()?;
        let scratch = QuantizedRing::scratch_bytes(placement.ranks, scheme, values);
        let needs = MemoryNeeds { words: memory.fabric.switches, tail: 0, scratch };
        let ranks = vec![(); usize::from(placement.ranks)];
        Ok(Plan { form: Form::Requantized(scheme), ..Plan::of_stream(ranks, needs) })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &RqParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let memory = context.memory()?;
        let stream = memory.stream()?;
        Ok(Endpoint::Kernel(Box::new(QuantizedRing::new(QuantizedRingConfig {
            ranks: memory.fabric.accelerators,
            rank: memory.rank()?,
            granule: memory.fabric.format.max_payload,
            quantization: params.quantization.scheme()?,
            scratch: stream.scratch,
            first_flag: stream.first_word,
        }))))
    }
}
