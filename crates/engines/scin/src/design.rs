//! SCIN as designs: parameters, and what runs on accelerators and in switches.

use crate::config::{ComputeLatency, IsaConfig};
use crate::isa::Isa;
use crate::mutation::Mutation;
use crate::participant::{Participant, ParticipantConfig};
use crate::plan::{instructions, quantized_all_reduce};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload};
use quincunx_design::{
    About, AcceleratorFabric, Context, Design, Endpoint, FabricKind, Form, Help, MemoryNeeds, Model, Params,
    Placement, Plan, Quantization, Refusal, SwitchPart,
};
use quincunx_engine::shared_memory::{InPlaceRequest, WordId};
use quincunx_units::{BitRate, ByteCount, Duration};
use serde::{Deserialize, Serialize};

/// Collectives that in-switch accelerators run. Both designs share one in each switch.
#[derive(Clone, Copy, Debug)]
pub struct Scin {
    about: About,
}

const UNIT: Option<&str> = Some("in-switch accelerator");

const MODEL: Model = Model { mutations: |_| Mutation::all().map(Mutation::name).collect(), ..Model::PLAIN };

/// Vectors of the request's elements.
pub const SCIN: Scin = Scin {
    about: About {
        runs_in_switches: true,
        unit: UNIT,
        model: MODEL,
        ..About::new(
            "scin",
            "accelerators in the switches read, reduce and write",
            &[(FabricKind::Memory, &Collective::PRIMITIVES)],
        )
    },
};

/// In-network quantisation (3.4, INQ): vectors of codes, whose scale factors lie right behind them. AllReduce alone.
pub const SCIN_INQ: Scin = Scin {
    about: About {
        is_exact: false,
        runs_in_switches: true,
        unit: UNIT,
        // Two packets of two blocks of 32 codes of four bits.
        model: Model { smallest: &[("isa.wave", "64B")], ..MODEL },
        ..About::new(
            "scin-inq",
            "the same, quantised in the network",
            &[(FabricKind::Memory, &[Collective::AllReduce])],
        )
    },
};

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
    /// Bytes of each operand that go through the compute units in a second; default: they take whatever comes at once.
    pub compute_rate: Option<BitRate>,
}

impl Default for IsaParams {
    /// Those of the paper's simulation (4.1), at 1 GHz.
    fn default() -> Self {
        Self {
            waves: 16,
            wave: ByteCount::new(4096),
            compute_latency: Duration::from_nanos(20),
            quantized_latency: Duration::from_nanos(100),
            compute_rate: None,
        }
    }
}

impl Params for ScinParams {
    fn help() -> Vec<Help> {
        let own: [Help; 5] = [
            ("isa.waves", "waves that may be outstanding"),
            ("isa.wave", "bytes of a wave"),
            ("isa.compute_latency", "latency from the last operand to the result"),
            ("isa.quantized_latency", "the same with quantisation"),
            ("isa.compute_rate", "rate at which compute units take in each operand"),
        ];
        own.into_iter().chain(Quantization::HELP).collect()
    }

    fn check(&self) -> Result<(), Refusal> {
        self.quantization.scheme().map(|_| ())
    }
}

/// Bytes that an instruction can be about, less a packet, to whose multiples shares are cut (figure 6: 32 bits).
const LONGEST_INSTRUCTION: usize = u32::MAX as usize - 4095;

impl Design for Scin {
    type Params = ScinParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, params: &ScinParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let memory = placement.shared_memory()?;
        let (fabric, request) = (&memory.fabric, &memory.request);
        let (length, accelerators) = (request.span.length, fabric.accelerators);
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
        if length.div_ceil(usize::from(fabric.switches)) > LONGEST_INSTRUCTION {
            return Err(Refusal::new(
                format!(
                    "less than 4 GiB for each of {} `switches` in one collective of SCIN",
                    fabric.switches
                ),
                format!("a size of {length} bytes"),
                "reduce a part at a time",
            ));
        }
        let (form, tail) = if self.about.is_exact {
            (Form::Exact, 0)
        } else {
            let scheme = params.quantization.scheme()?;
            (Form::Codes(scheme), scheme.scale_bytes(scheme.values(length)))
        };
        // A flag for each switch.
        let needs = MemoryNeeds { words: fabric.switches, tail, scratch: 0 };
        Ok(Plan { form, ..Plan::of_stream(vec![(); usize::from(accelerators)], needs) })
    }

    fn endpoint<P: Payload>(
        &self,
        _: &ScinParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let stream = context.memory()?.stream()?;
        let config = ParticipantConfig { counter: WordId(stream.number), first_flag: stream.first_word };
        Ok(Endpoint::Kernel(Box::new(Participant::new(config))))
    }

    fn switch<P: Payload>(
        &self,
        params: &ScinParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let memory = context.memory()?;
        let (fabric, switch) = (memory.fabric, memory.switch()?);
        let AcceleratorFabric { accelerators, switches, format, .. } = fabric;
        let config = IsaConfig {
            node: fabric.switch(switch),
            accelerators,
            flags: memory.streams.iter().map(|stream| WordId(stream.first_word.0 + switch)).collect(),
            waves: params.isa.waves,
            wave: params.isa.wave.as_usize(),
            format,
            reduction: memory.stream()?.request.reduction,
            latency: ComputeLatency {
                regular: params.isa.compute_latency,
                quantized: params.isa.quantized_latency,
            },
            compute_rate: params.isa.compute_rate,
            quantization: Some(params.quantization.scheme()?),
            mutation: context.mutation()?,
        };
        let mut isa = Isa::new(config).map_err(|error| Refusal::of(&error))?;
        let share = (usize::from(switch), usize::from(switches));
        for (stream, controller) in memory.streams.iter().zip(0..) {
            let InPlaceRequest { collective, span, .. } = stream.request;
            let program = match stream.form {
                Form::Codes(scheme) => {
                    // Whole packets, and whole blocks.
                    let granule = format.max_payload.max(scheme.code_bytes(scheme.block()));
                    quantized_all_reduce(accelerators, scheme, (span, stream.tail), share, granule)
                }
                Form::Exact | Form::Requantized(_) | Form::FixedPoint => {
                    instructions(collective, accelerators, span, share, format.max_payload)
                }
            };
            for _ in 0..stream.times {
                isa.load(controller, program.clone()).map_err(|error| Refusal::of(&error))?;
            }
        }
        Ok(SwitchPart::Unit(Box::new(isa)))
    }
}
