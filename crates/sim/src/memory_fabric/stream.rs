//! Streams of collectives on a memory fabric, and what its nodes are set up with to run them side by side.
//!
//! Every stream has a kernel on each accelerator, words of its own to synchronise with, and, if the switches run it, a wave
//! controller in each of them (SCIN 3.4: several synchronisation resources, several wave controllers).

use super::setup::EARLY_WRITE_RESPONSE;
use super::{MemoryFabric, RunError};
use quincunx_collective::{Collective, DataType, Payload, Rank, Reduction};
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_memory::EndpointConfig;
use quincunx_nodes::fabric::{AcceleratorConfig, FabricCommand, FabricConfig, FabricSwitchConfig, Kernels};
use quincunx_nvls::{MulticastConfig, NvlsConfig, NvlsKernel};
use quincunx_ring::{
    QuantizedRing, QuantizedRingConfig, SharedDirect, SharedDirectConfig, SharedRing, SharedRingConfig,
};
use quincunx_scin::{IsaConfig, Participant, ParticipantConfig, instructions, quantized_all_reduce};
use std::str::FromStr;

/// How a collective is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Design {
    /// By accelerators in the switches.
    Scin,
    /// The same, quantised in the network (INQ): the vector is one of codes, and right behind it lie their scale
    /// factors. AllReduce alone.
    ScinInq,
    /// By the accelerators, with reductions and multicast in the switches.
    Nvls,
    /// By the accelerators alone: a software ring.
    Ring,
    /// The same, quantised at every hop (RQ): the vector is of binary32 values. AllReduce of sums alone.
    RingRq,
    /// By the accelerators alone: everybody writes to everybody.
    Direct,
}

/// Collectives of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stream {
    /// How.
    pub design: Design,
    /// What. Streams that run side by side have spans of their own.
    pub request: InPlaceRequest,
}

/// A stream and what it has for itself.
struct Place {
    stream: Stream,
    /// The first of its words.
    word: u16,
    /// Its wave controller in each switch, if the switches run it.
    controller: u16,
    /// Memory of its own: scratch, or scale factors.
    behind: Span,
}

/// Where everything is.
pub(super) struct Layout {
    fabric: MemoryFabric,
    places: Vec<Place>,
    /// What all of them add up, and how; none if there is no stream.
    reduction: Option<Reduction>,
    /// Words of each accelerator.
    words: u16,
    /// Bytes of each accelerator's memory.
    memory: usize,
}

impl Design {
    /// Whether the switches run it, so that accelerators only wait.
    const fn in_switches(self) -> bool {
        matches!(self, Self::Scin | Self::ScinInq)
    }
}

impl FromStr for Design {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Ok(match name {
            "scin" => Self::Scin,
            "scin-inq" => Self::ScinInq,
            "nvls" => Self::Nvls,
            "ring" => Self::Ring,
            "ring-rq" => Self::RingRq,
            "direct" => Self::Direct,
            _ => return Err(()),
        })
    }
}

impl Layout {
    /// Of streams that can run side by side.
    pub(super) fn new(fabric: &MemoryFabric, streams: &[Stream]) -> Result<Self, RunError> {
        let reduction = check(fabric, streams)?;
        // The packets of traffic are cut out of memory.
        let memory = if fabric.traffic.is_some() { fabric.format.max_payload } else { 0 };
        let mut layout = Self { fabric: *fabric, places: Vec::new(), reduction, words: 0, memory };
        let end = |span: Span| span.offset + span.length;
        let scale_bytes = |codes| fabric.isa.quantization.scale_bytes(fabric.isa.quantization.values(codes));
        let mut controllers = 0;
        for &stream in streams {
            let Stream { design, request } = stream;
            // Scale factors lie right behind their codes; scratch memory behind all vectors.
            let behind = Span { offset: end(request.span), length: scale_bytes(request.span.length) };
            layout.memory =
                layout.memory.max(if design == Design::ScinInq { end(behind) } else { behind.offset });
            layout.places.push(Place { stream, word: layout.words, controller: controllers, behind });
            controllers += u16::from(design.in_switches());
            layout.words += match design {
                Design::Scin | Design::ScinInq | Design::Ring | Design::RingRq => fabric.switches,
                Design::Nvls => 1,
                Design::Direct => fabric.switches * fabric.accelerators,
            };
        }
        for place in layout.places.iter_mut().filter(|place| place.stream.design != Design::ScinInq) {
            place.behind = Span { offset: layout.memory, length: fabric.scratch_bytes(place.stream) };
            layout.memory += place.behind.length;
        }
        Ok(layout)
    }

    /// The stream of a wave controller.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn controlled(&self, controller: u16) -> usize {
        let runs = |place: &Place| place.stream.design.in_switches() && place.controller == controller;
        self.places.iter().position(runs).expect("controllers are those of streams")
    }

    fn kernel(&self, rank: Rank, place: &Place) -> Kernels {
        let MemoryFabric { accelerators: ranks, format, isa, .. } = self.fabric;
        let (granule, scratch, first_flag) = (format.max_payload, place.behind, WordId(place.word));
        match place.stream.design {
            Design::Scin | Design::ScinInq => Kernels::Scin(Participant::new(ParticipantConfig {
                counter: WordId(place.controller),
                first_flag,
            })),
            Design::Nvls => {
                Kernels::Nvls(NvlsKernel::new(NvlsConfig { ranks, rank, granule, counter: first_flag }))
            }
            Design::Ring => {
                Kernels::Ring(SharedRing::new(SharedRingConfig { ranks, rank, granule, scratch, first_flag }))
            }
            Design::RingRq => Kernels::QuantizedRing(QuantizedRing::new(QuantizedRingConfig {
                ranks,
                rank,
                granule,
                quantization: isa.quantization,
                scratch,
                first_flag,
            })),
            Design::Direct => {
                let config = SharedDirectConfig { ranks, rank, granule, scratch, first_flag };
                Kernels::Direct(SharedDirect::new(config))
            }
        }
    }

    pub(super) fn accelerator(&self, rank: u16) -> FabricConfig {
        let fabric = &self.fabric;
        FabricConfig::Accelerator(AcceleratorConfig {
            endpoint: EndpointConfig {
                rank: Rank(rank),
                switches: (0..fabric.switches).map(|index| fabric.switch(index)).collect(),
                memory: self.memory,
                words: self.words,
                format: fabric.format,
                response_latency: fabric.response_latency,
                scatter: fabric.scatter,
                load_window: u32::from(fabric.load_window()),
                add_rate: fabric.add_rate,
            },
            port: fabric.port(),
            kernels: self.places.iter().map(|place| self.kernel(Rank(rank), place)).collect(),
        })
    }

    pub(super) fn switch(&self, index: u16) -> FabricConfig {
        let MemoryFabric { accelerators, format, isa, .. } = self.fabric;
        let node = self.fabric.switch(index);
        let controlled = self.places.iter().filter(|place| place.stream.design.in_switches());
        let flags: Vec<WordId> = controlled.map(|place| WordId(place.word + index)).collect();
        let isa = self.reduction.filter(|_| !flags.is_empty()).map(|reduction| IsaConfig {
            node,
            accelerators,
            flags,
            waves: isa.waves,
            wave: isa.wave.as_usize(),
            format,
            reduction,
            latency: isa.latency,
            quantization: Some(isa.quantization),
        });
        let multicasts = self.places.iter().any(|place| place.stream.design == Design::Nvls);
        let multicast = self.reduction.filter(|_| multicasts).map(|reduction| MulticastConfig {
            node,
            members: accelerators,
            entries: self.fabric.load_window() * accelerators,
            format,
            reduction,
        });
        FabricConfig::Switch(FabricSwitchConfig {
            node,
            ports: accelerators,
            port: self.fabric.port(),
            early_write_response: EARLY_WRITE_RESPONSE,
            isa,
            multicast,
        })
    }

    /// What a switch is told before its streams begin.
    pub(super) fn preload<P: Payload>(&self, index: u16) -> Vec<FabricCommand<P>> {
        let MemoryFabric { accelerators, switches, format, isa, .. } = self.fabric;
        let (share, granule) = ((usize::from(index), usize::from(switches)), format.max_payload);
        let load = |place: &Place| {
            let Stream { design, request } = place.stream;
            let (collective, span) = (request.collective, request.span);
            let instructions = match design {
                Design::Scin => instructions(collective, accelerators, span, share, granule),
                Design::ScinInq => {
                    // Whole packets, and whole blocks.
                    let granule = granule.max(isa.quantization.code_bytes(isa.quantization.block()));
                    let vector = (span, place.behind);
                    quantized_all_reduce(accelerators, isa.quantization, vector, share, granule)
                }
                Design::Nvls | Design::Ring | Design::RingRq | Design::Direct => return None,
            };
            Some(FabricCommand::Load { controller: place.controller, instructions })
        };
        self.places.iter().filter_map(load).collect()
    }
}

/// Bytes that an instruction can be about, less a packet, to whose multiples shares are cut (SCIN figure 6: 32 bits).
const LONGEST_INSTRUCTION: usize = u32::MAX as usize - 4095;

/// Whether streams can run side by side; what they add up.
fn check(fabric: &MemoryFabric, streams: &[Stream]) -> Result<Option<Reduction>, RunError> {
    for Stream { design, request } in streams {
        if request.collective.is_routed() {
            return Err(RunError::Routed(request.collective));
        }
        if *design == Design::ScinInq && request.collective != Collective::AllReduce {
            return Err(RunError::Quantized(request.collective));
        }
        let share = request.span.length.div_ceil(usize::from(fabric.switches));
        if design.in_switches() && share > LONGEST_INSTRUCTION {
            return Err(RunError::Length { switches: fabric.switches, length: request.span.length });
        }
    }
    let working = streams.iter().filter(|stream| !stream.design.in_switches()).count();
    if working > 1 {
        return Err(RunError::Streams(working));
    }
    let mut reductions = streams.iter().map(|stream| stream.request.reduction);
    let first = reductions.next();
    if reductions.all(|other| Some(other) == first) { Ok(first) } else { Err(RunError::Reductions) }
}

impl MemoryFabric {
    /// Memory behind the vectors that a stream needs.
    fn scratch_bytes(&self, Stream { design, request }: Stream) -> usize {
        let length = request.span.length;
        match design {
            Design::Scin | Design::ScinInq | Design::Nvls => 0,
            Design::Ring => SharedRing::scratch_bytes(self.accelerators, length, self.format.max_payload),
            Design::RingRq => {
                let values = length / DataType::F32.size();
                QuantizedRing::scratch_bytes(self.accelerators, self.isa.quantization, values)
            }
            Design::Direct => SharedDirect::scratch_bytes(self.accelerators, length),
        }
    }
}
