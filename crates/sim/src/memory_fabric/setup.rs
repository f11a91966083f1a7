//! What a memory fabric is made of, and the set-ups of the papers.

use crate::traffic::Offered;
use quincunx_collective::{BlockQuantization, Payload, Rank};
use quincunx_driver_des::LinkConfig;
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_memory::{EndpointConfig, PortConfig, Scatter};
use quincunx_nodes::fabric::{AcceleratorConfig, FabricCommand, FabricConfig, FabricSwitchConfig, Kernels};
use quincunx_nvls::{MulticastConfig, NvlsConfig, NvlsKernel};
use quincunx_ring::{SharedRing, SharedRingConfig};
use quincunx_scin::{
    ComputeLatency, IsaConfig, Participant, ParticipantConfig, instructions, quantized_all_reduce,
};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::flit::{FlitFormat, NodeId, Transaction};

/// How a collective is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Design {
    /// By accelerators in the switches.
    Scin,
    /// The same, quantised in the network (INQ): the vector is one of codes, and right behind it lie their scale
    /// factors. AllReduce alone.
    ScinInq,
    /// By the accelerators alone: a software ring.
    Ring,
    /// By the accelerators, with reductions and multicast in the switches.
    Nvls,
}

/// The in-switch accelerators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IsaSetup {
    /// Waves that may be outstanding; one is a table without wave regulation (SCIN 4.4).
    pub waves: u16,
    /// Bytes of a wave.
    pub wave: ByteCount,
    /// How long the compute units take.
    pub latency: ComputeLatency,
    /// How vectors are quantised.
    pub quantization: BlockQuantization,
}

/// A memory fabric: every accelerator has a link to every switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryFabric {
    /// Accelerators.
    pub accelerators: u16,
    /// Switches.
    pub switches: u16,
    /// Each link.
    pub link: LinkConfig,
    /// How packets are cut.
    pub format: FlitFormat,
    /// From a request's arrival at an accelerator to its response: L_acc of SCIN's equation 1.
    pub response_latency: Duration,
    /// How much later some responses come than others.
    pub scatter: Option<Scatter>,
    /// The in-switch accelerators.
    pub isa: IsaSetup,
    /// What the accelerators send to each other beside the collective, packet by packet, and what decides its chances.
    pub traffic: Option<(Offered, u64)>,
}

/// SCIN does not give L_acc, neither of the prototype nor of the simulated accelerators. Figure 9's 2.62 us for 4 KB
/// leaves 60 ns beyond links, serialisation and accumulator, for two responses: one to a read, one to a write. The
/// same value serves both fabrics.
const RESPONSE_LATENCY: Duration = Duration::from_nanos(30);

/// SCIN gives the latency of the compute units in cycles, but no clock for the simulated switch; the prototype's runs
/// at 250 MHz (3.5). 1 GHz is what switches of this kind run at.
const DGX_CYCLE: Duration = Duration::from_nanos(1);

/// SCIN does not say what the fence of the software ring waits for. Answers of the switch, as buses give for bufferable
/// writes: a step is then a round trip to the switch and a flag through it, four flights of a link. Figure 10's 8.7 over
/// the ring, and the 4 of NVLS over the same ring, leave four flights for a step. With answers of the far accelerator it
/// would be six, and these figures 13 and 7. Data cannot be overtaken by its flag all the same: both go by the same
/// link, in the same channel.
const EARLY_WRITE_RESPONSE: bool = true;

/// A cycle of the prototype: 250 MHz (SCIN 3.5).
const PROTOTYPE_CYCLE: Duration = Duration::from_nanos(4);

/// Latency of the compute units (SCIN 4.1).
fn compute(cycle: Duration) -> ComputeLatency {
    ComputeLatency { regular: cycle * 20, quantized: cycle * 100 }
}

/// Tables of 16 waves of 4 KB, and INT8 in blocks of 64 values (SCIN 4.2, figure 10).
fn isa(cycle: Duration) -> IsaSetup {
    IsaSetup {
        waves: 16,
        wave: ByteCount::new(4096),
        latency: compute(cycle),
        quantization: BlockQuantization::SCIN,
    }
}

fn rate(bits: u64) -> BitRate {
    BitRate::new(bits).expect("a link that carries something")
}

impl MemoryFabric {
    /// Eight accelerators and four switches, as in a DGX-H200 (SCIN 4.1): 900 GB/s for an accelerator both ways
    /// together, so 112.5 GB/s for a link each way; tables of 16 waves of 4 KB (figure 10).
    pub fn dgx8() -> Self {
        Self {
            accelerators: 8,
            switches: 4,
            link: LinkConfig { rate: rate(900_000_000_000), latency: Duration::from_nanos(250) },
            format: FlitFormat::DGX,
            response_latency: RESPONSE_LATENCY,
            scatter: None,
            isa: isa(DGX_CYCLE),
            traffic: None,
        }
    }

    /// The same with 16 accelerators (SCIN 4.3).
    pub fn dgx16() -> Self {
        Self { accelerators: 16, ..Self::dgx8() }
    }

    /// The prototype of FPGAs (SCIN 3.5): four endpoints, one switch, links of 64 Gbit/s each way and 360 ns. The
    /// size of its tables is not given; they hold 16 waves, too.
    pub fn prototype() -> Self {
        Self {
            accelerators: 4,
            switches: 1,
            link: LinkConfig { rate: rate(64_000_000_000), latency: Duration::from_nanos(360) },
            format: FlitFormat::PROTOTYPE,
            response_latency: RESPONSE_LATENCY,
            scatter: None,
            isa: isa(PROTOTYPE_CYCLE),
            traffic: None,
        }
    }

    /// The most payload that one accelerator can send while it receives as much, when every packet of data is
    /// answered by a packet without: 360 GB/s of the DGX (SCIN 4.3).
    pub fn payload_bound(&self) -> BitRate {
        let data = self.format.wire_bytes(Transaction::Write, self.format.max_payload);
        let answer = self.format.wire_bytes(Transaction::WriteResponse, 0);
        let bits = u128::from(self.link.rate.bits_per_second()) * u128::from(self.switches);
        let payload = bits * self.format.max_payload as u128 / (data + answer) as u128;
        rate(payload as u64)
    }

    /// The node number of a switch.
    pub(super) const fn switch(&self, index: u16) -> NodeId {
        NodeId(self.accelerators + index)
    }

    fn port(&self) -> PortConfig {
        PortConfig::covering_round_trip(self.link.rate, self.link.latency, &self.format)
    }

    /// Reduced loads that an accelerator keeps outstanding on a link: as many as answer one round trip through the
    /// switch to the members and back, when all accelerators share the links of each, and once more, so that answers
    /// that come late leave no gap.
    fn load_window(&self) -> u16 {
        let round_trip = self.link.latency * 4 + self.response_latency;
        let answer =
            ByteCount::new(self.format.wire_bytes(Transaction::ReadResponse, self.format.max_payload) as u64);
        let loads = self.link.rate.bytes_in(round_trip).pieces_of(answer);
        (2 * loads.div_ceil(u64::from(self.accelerators))) as u16
    }

    pub(super) fn accelerator(&self, rank: u16, design: Design, request: &InPlaceRequest) -> FabricConfig {
        let kernel = match design {
            Design::Scin | Design::ScinInq => Kernels::Scin(Participant::new(ParticipantConfig {
                counter: WordId(0),
                first_flag: WordId(0),
            })),
            Design::Ring => Kernels::Ring(SharedRing::new(SharedRingConfig {
                ranks: self.accelerators,
                rank: Rank(rank),
                granule: self.format.max_payload,
                scratch: self.behind(design, request),
                first_flag: WordId(0),
            })),
            Design::Nvls => Kernels::Nvls(NvlsKernel::new(NvlsConfig {
                ranks: self.accelerators,
                rank: Rank(rank),
                granule: self.format.max_payload,
                counter: WordId(0),
            })),
        };
        let behind = self.behind(design, request);
        FabricConfig::Accelerator(AcceleratorConfig {
            endpoint: EndpointConfig {
                rank: Rank(rank),
                switches: (0..self.switches).map(|index| self.switch(index)).collect(),
                memory: match self.traffic {
                    // Its packets are cut out of memory.
                    Some(_) => (behind.offset + behind.length).max(self.format.max_payload),
                    None => behind.offset + behind.length,
                },
                words: self.switches,
                format: self.format,
                response_latency: self.response_latency,
                scatter: self.scatter,
                load_window: u32::from(self.load_window()),
            },
            port: self.port(),
            kernel,
        })
    }

    /// Memory behind the vector that a design needs: scratch, or scale factors.
    pub(super) fn behind(&self, design: Design, request: &InPlaceRequest) -> Span {
        let Span { offset, length } = request.span;
        let scratch = match design {
            Design::Scin | Design::Nvls => 0,
            Design::ScinInq => {
                let quantization = self.isa.quantization;
                quantization.scale_bytes(quantization.values(length))
            }
            Design::Ring => SharedRing::scratch_bytes(self.accelerators, length, self.format.max_payload),
        };
        Span { offset: offset + length, length: scratch }
    }

    pub(super) fn switch_config(&self, index: u16, design: Design, request: &InPlaceRequest) -> FabricConfig {
        let isa = match design {
            Design::Ring | Design::Nvls => None,
            Design::Scin | Design::ScinInq => Some(IsaConfig {
                node: self.switch(index),
                accelerators: self.accelerators,
                flags: vec![WordId(index)],
                waves: self.isa.waves,
                wave: self.isa.wave.as_usize(),
                format: self.format,
                reduction: request.reduction,
                latency: self.isa.latency,
                quantization: Some(self.isa.quantization),
            }),
        };
        let multicast = (design == Design::Nvls).then(|| MulticastConfig {
            node: self.switch(index),
            members: self.accelerators,
            entries: self.load_window() * self.accelerators,
            format: self.format,
            reduction: request.reduction,
        });
        FabricConfig::Switch(FabricSwitchConfig {
            node: self.switch(index),
            ports: self.accelerators,
            port: self.port(),
            early_write_response: EARLY_WRITE_RESPONSE,
            isa,
            multicast,
        })
    }

    /// What a switch is told before a collective.
    pub(super) fn preload<P: Payload>(
        &self,
        index: u16,
        design: Design,
        request: &InPlaceRequest,
    ) -> Option<FabricCommand<P>> {
        let (ranks, span, granule) = (self.accelerators, request.span, self.format.max_payload);
        let share = (usize::from(index), usize::from(self.switches));
        let instructions = match design {
            Design::Ring | Design::Nvls => return None,
            Design::Scin => instructions(request.collective, ranks, span, share, granule),
            Design::ScinInq => {
                let quantization = self.isa.quantization;
                let vector = (span, self.behind(design, request));
                // Whole packets, and whole blocks.
                let granule = granule.max(quantization.code_bytes(quantization.block()));
                quantized_all_reduce(ranks, quantization, vector, share, granule)
            }
        };
        Some(FabricCommand::Load { controller: 0, instructions })
    }
}
