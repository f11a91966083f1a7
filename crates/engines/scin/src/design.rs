//! SCIN as designs: parameters, and what runs on accelerators and in switches.

use crate::config::{ComputeLatency, IsaConfig};
use crate::isa::Isa;
use crate::mutation::Mutation;
use crate::participant::{Participant, ParticipantConfig};
use crate::plan::{instructions, quantized_all_reduce};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    AnySwitchUnit, Form, Help, MemoryDesign, MemoryNeeds, MemoryPlacement, MemoryStream, Params,
    Quantization, Refusal,
};
use quincunx_engine::shared_memory::{AnyKernel, InPlaceRequest, WordId};
use quincunx_units::{ByteCount, Duration};
use serde::{Deserialize, Serialize};

/// Collectives that in-switch accelerators run. Both designs share one in each switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scin {
    quantised: bool,
}

/// Vectors of the request's elements.
pub const SCIN: Scin = Scin { quantised: false };

/// In-network quantisation (3.4, INQ): vectors of codes, whose scale factors lie right behind them. AllReduce alone.
pub const SCIN_INQ: Scin = Scin { quantised: true };

/// The parameters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScinParams {
    /// The in-switch accelerators.
    pub isa: IsaParams,
    /// What their quantizers do.
    pub quantization: Quantization,
}

/// What an in-switch accelerator has. Its fields are keys below `isa`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct IsaParams {
    /// Waves that may be outstanding; with one there is no wave regulation (4.4).
    pub waves: u16,
    /// Bytes of a wave.
    pub wave: ByteCount,
    /// From the last operand to the result.
    pub compute_latency: Duration,
    /// The same with quantisation.
    pub quantized_latency: Duration,
}

impl Default for IsaParams {
    /// Those of the paper's simulation (4.1), at 1 GHz.
    fn default() -> Self {
        Self {
            waves: 16,
            wave: ByteCount::new(4096),
            compute_latency: Duration::from_nanos(20),
            quantized_latency: Duration::from_nanos(100),
        }
    }
}

impl Params for ScinParams {
    fn help() -> Vec<Help> {
        let own: [Help; 4] = [
            ("isa.waves", "waves that may be outstanding"),
            ("isa.wave", "bytes of a wave"),
            ("isa.compute_latency", "from the last operand to the result"),
            ("isa.quantized_latency", "the same with quantisation"),
        ];
        own.into_iter().chain(Quantization::HELP).collect()
    }

    fn check(&self) -> Result<(), Refusal> {
        self.quantization.scheme().map(|_| ())
    }
}

/// Bytes that an instruction can be about, less a packet, to whose multiples shares are cut (figure 6: 32 bits).
const LONGEST_INSTRUCTION: usize = u32::MAX as usize - 4095;

impl MemoryDesign for Scin {
    type Params = ScinParams;

    fn name(&self) -> &'static str {
        if self.quantised { "scin-inq" } else { "scin" }
    }

    fn summary(&self) -> &'static str {
        match self.quantised {
            false => "accelerators in the switches read, reduce and write",
            true => "the same, quantised in the network",
        }
    }

    fn collectives(&self) -> &'static [Collective] {
        if self.quantised { &[Collective::AllReduce] } else { &Collective::PRIMITIVES }
    }

    fn is_exact(&self) -> bool {
        !self.quantised
    }

    fn form(&self, params: &ScinParams) -> Result<Form, Refusal> {
        Ok(match self.quantised {
            false => Form::Exact,
            true => Form::Codes(params.quantization.scheme()?),
        })
    }

    fn runs_in_switches(&self) -> bool {
        true
    }

    fn unit_kind(&self) -> Option<&'static str> {
        Some("in-switch accelerator")
    }

    fn mutations(&self) -> Vec<&'static str> {
        Mutation::all().map(Mutation::name).collect()
    }

    fn needs(
        &self,
        params: &ScinParams,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal> {
        let (length, accelerators) = (request.span.length, placement.accelerators);
        if let Some(root) = request.collective.root()
            && root.0 >= accelerators
        {
            return Err(Refusal::new(
                format!("a root below {accelerators}"),
                root.0,
                "name one of the accelerators",
            ));
        }
        let has_parts = matches!(request.collective, Collective::ReduceScatter | Collective::AllGather);
        if has_parts && !length.is_multiple_of(usize::from(accelerators)) {
            return Err(Refusal::new(
                format!("a vector that splits over {accelerators} accelerators"),
                format!("{length} bytes"),
                "change its length",
            ));
        }
        if length.div_ceil(usize::from(placement.switches)) > LONGEST_INSTRUCTION {
            return Err(Refusal::new(
                format!(
                    "less than 4 GiB for each of {} `switches` in one collective of SCIN",
                    placement.switches
                ),
                format!("a size of {length} bytes"),
                "reduce a part at a time",
            ));
        }
        let tail = match self.form(params)? {
            Form::Codes(scheme) => scheme.scale_bytes(scheme.values(length)),
            Form::Exact | Form::Requantized(_) => 0,
        };
        // A flag for each switch.
        Ok(MemoryNeeds { words: placement.switches, tail, scratch: 0 })
    }

    fn kernel<P: Payload>(
        &self,
        _: &ScinParams,
        _: &MemoryPlacement,
        stream: &MemoryStream,
        _: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        let config = ParticipantConfig { counter: WordId(stream.number), first_flag: stream.first_word };
        Ok(Box::new(Participant::new(config)))
    }

    fn unit<P: Payload>(
        &self,
        params: &ScinParams,
        placement: &MemoryPlacement,
        switch: u16,
        streams: &[MemoryStream],
    ) -> Result<Box<dyn AnySwitchUnit<P>>, Refusal> {
        let Some(first) = streams.first() else {
            return Err(Refusal::new("a stream at least", "none", "give the switch no unit"));
        };
        let MemoryPlacement { accelerators, format, .. } = *placement;
        let config = IsaConfig {
            node: placement.switch(switch),
            accelerators,
            flags: streams.iter().map(|stream| WordId(stream.first_word.0 + switch)).collect(),
            waves: params.isa.waves,
            wave: params.isa.wave.as_usize(),
            format,
            reduction: first.request.reduction,
            latency: ComputeLatency {
                regular: params.isa.compute_latency,
                quantized: params.isa.quantized_latency,
            },
            quantization: Some(params.quantization.scheme()?),
            mutation: first.mutation.map(str::parse).transpose().map_err(|error| Refusal::of(&error))?,
        };
        let mut isa = Isa::new(config).map_err(|error| Refusal::of(&error))?;
        let share = (usize::from(switch), usize::from(placement.switches));
        for (stream, controller) in streams.iter().zip(0..) {
            let InPlaceRequest { collective, span, .. } = stream.request;
            let program = match stream.form {
                Form::Codes(scheme) => {
                    // Whole packets, and whole blocks.
                    let granule = format.max_payload.max(scheme.code_bytes(scheme.block()));
                    quantized_all_reduce(accelerators, scheme, (span, stream.tail), share, granule)
                }
                Form::Exact | Form::Requantized(_) => {
                    instructions(collective, accelerators, span, share, format.max_payload)
                }
            };
            for _ in 0..stream.times {
                isa.load(controller, program.clone()).map_err(|error| Refusal::of(&error))?;
            }
        }
        Ok(Box::new(isa))
    }
}
