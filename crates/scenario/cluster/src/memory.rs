//! Streams of collectives on a memory fabric, and what its nodes are set up with to run them side by side: for the simulator and the
//! checker.
//!
//! Every stream has a kernel on each accelerator, words and memory of its own, and, if its design computes in the switches, a share of
//! a unit in each of them (SCIN 3.4: several synchronisation resources, several wave controllers). What that takes, designs say.

use quincunx_collective::{Collective, Payload, Rank, reference};
use quincunx_design::{
    AcceleratorFabric, AnyDesign, AnySwitchUnit, Context, MemoryContext, MemoryNode, MemoryStream,
    PayloadKind, Place, Placement, Refusal, Role, Settings, SwitchPart,
};
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_memory::{EndpointConfig, PortConfig, Scatter};
use quincunx_nodes::fabric::{AcceleratorConfig, FabricConfig, FabricSwitchConfig};
use quincunx_units::{BitRate, Duration};

/// SCIN does not say what the fence of the software ring waits for. Answers of the switch, as buses give for bufferable
/// writes: a step is then a round trip to the switch and a flag through it, four flights of a link. Figure 10's 8.7 over
/// the ring, and the 4 of NVLS over the same ring, leave four flights for a step. With answers of the far accelerator it
/// would be six, and these figures 13 and 7. Data cannot be overtaken by its flag all the same: both go by the same
/// link, in the same channel.
pub const EARLY_WRITE_RESPONSE: bool = true;

/// Collectives of one kind.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How.
    pub design: &'static dyn AnyDesign,
    /// The values of its parameters.
    pub settings: Settings,
    /// What. Streams that run side by side have spans of their own.
    pub request: InPlaceRequest,
}

/// What the nodes of a memory fabric are, beside the streams that they run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemorySetup {
    /// How many there are, and how packets are cut.
    pub fabric: AcceleratorFabric,
    /// The buffers of each link.
    pub port: PortConfig,
    /// From a request's arrival at an accelerator to its response.
    pub response_latency: Duration,
    /// How fast an accelerator adds vectors; none if that takes no time.
    pub add_rate: Option<BitRate>,
    /// How much later some responses come than others.
    pub scatter: Option<Scatter>,
    /// Switches answer the writes of accelerators to accelerators: [`EARLY_WRITE_RESPONSE`] but for who asks what rests on that.
    pub early_write_response: bool,
    /// The least bytes of memory before any that streams work in.
    pub memory: usize,
    /// How often the streams run, one time after the other.
    pub times: u16,
    /// A rule of the designs to break, by its name: for the checker alone.
    pub mutation: Option<&'static str>,
}

/// A stream and what it has for itself.
struct StreamDesign {
    design: &'static dyn AnyDesign,
    settings: Settings,
    /// By rank.
    roles: Vec<Role>,
    stream: MemoryStream,
}

/// A unit of each switch, and the streams that share it.
struct Unit {
    kind: &'static str,
    /// By their places, in order.
    streams: Vec<usize>,
}

/// Where everything is.
pub struct MemoryLayout {
    setup: MemorySetup,
    places: Vec<StreamDesign>,
    units: Vec<Unit>,
    /// Words of each accelerator.
    words: u16,
    /// Bytes of each accelerator's memory.
    memory: usize,
}

impl MemoryLayout {
    /// Of streams that can run side by side.
    ///
    /// # Errors
    /// If a design refuses its stream, or streams would share a unit with different settings.
    pub fn new(setup: &MemorySetup, streams: &[Stream]) -> Result<Self, Refusal> {
        let (places, units) = (Vec::new(), Vec::new());
        let mut layout = Self { setup: *setup, places, units, words: 0, memory: setup.memory };
        let mut scratch = Vec::new();
        for Stream { design, settings, request } in streams {
            let plan = design.plan(settings, &Placement::on_memory(setup.fabric, *request))?;
            let needs = plan.memory;
            let span = request.span;
            let tail = Span { offset: span.offset + span.length, length: needs.tail };
            layout.memory = layout.memory.max(tail.offset + tail.length);
            scratch.push(needs.scratch);
            let stream = MemoryStream {
                request: *request,
                form: plan.form,
                number: layout.share(*design, settings)?,
                first_word: WordId(layout.words),
                tail,
                scratch: Span { offset: 0, length: 0 },
                times: setup.times,
            };
            layout.words += needs.words;
            let (settings, roles) = (settings.clone(), plan.ranks);
            layout.places.push(StreamDesign { design: *design, settings, roles, stream });
        }
        // Scratch memory lies behind all vectors.
        for (place, length) in layout.places.iter_mut().zip(scratch) {
            place.stream.scratch = Span { offset: layout.memory, length };
            layout.memory += length;
        }
        Ok(layout)
    }

    /// Gives the next stream a share of the unit that its design needs, if it needs one: its number there.
    fn share(&mut self, design: &dyn AnyDesign, settings: &Settings) -> Result<u16, Refusal> {
        let Some(kind) = design.about().unit else { return Ok(0) };
        let next = self.places.len();
        let Some(unit) = self.units.iter_mut().find(|unit| unit.kind == kind) else {
            self.units.push(Unit { kind, streams: vec![next] });
            return Ok(0);
        };
        let first = &self.places[unit.streams[0]];
        if first.settings != *settings {
            return Err(Refusal::new(
                format!("streams that share the {kind} of each switch with equal settings"),
                format!("{} and {}", first.settings.to_text(), settings.to_text()),
                "run them by themselves",
            ));
        }
        unit.streams.push(next);
        Ok(unit.streams.len() as u16 - 1)
    }

    /// The place of a stream that a unit calls by its own number.
    ///
    /// # Panics
    /// If there is none.
    pub fn stream_of(&self, unit: u16, number: u16) -> usize {
        self.units[usize::from(unit)].streams[usize::from(number)]
    }

    /// Bytes of each accelerator's memory.
    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// What an accelerator is set up with.
    ///
    /// # Errors
    /// If a design's parameters do not suit the placement.
    pub fn accelerator<P: PayloadKind>(&self, rank: u16) -> Result<FabricConfig<P>, Refusal> {
        let MemorySetup { fabric, port, response_latency, add_rate, scatter, mutation, .. } = self.setup;
        let kernels = self.places.iter().map(|StreamDesign { design, settings, roles, stream }| {
            let context = MemoryContext {
                fabric,
                node: MemoryNode::Accelerator(Rank(rank)),
                settings,
                role: &roles[usize::from(rank)],
                streams: core::slice::from_ref(stream),
            };
            let context = Context { place: Place::Memory(context), mutation };
            P::parts(*design).endpoint_part(&context)?.part.kernel()
        });
        Ok(FabricConfig::Accelerator(AcceleratorConfig {
            endpoint: EndpointConfig {
                rank: Rank(rank),
                switches: (0..fabric.switches).map(|index| fabric.switch(index)).collect(),
                memory: self.memory,
                words: self.words,
                format: fabric.format,
                response_latency,
                scatter,
                load_window: u32::from(fabric.load_window),
                add_rate,
                reduction: self.places.first().map(|place| place.stream.request.reduction),
            },
            port,
            kernels: kernels.collect::<Result<_, Refusal>>()?,
        }))
    }

    /// What a switch is set up with.
    ///
    /// # Errors
    /// As [`accelerator`](Self::accelerator).
    pub fn switch<P: PayloadKind>(&self, index: u16) -> Result<FabricConfig<P>, Refusal> {
        let MemorySetup { fabric, port, early_write_response, mutation, .. } = self.setup;
        let unit = |unit: &Unit| {
            let streams: Vec<MemoryStream> = unit.streams.iter().map(|&at| self.places[at].stream).collect();
            let StreamDesign { design, settings, .. } = &self.places[unit.streams[0]];
            unit_of(*design, settings, fabric, index, &streams, mutation)
        };
        Ok(FabricConfig::Switch(FabricSwitchConfig {
            node: fabric.switch(index),
            ports: fabric.accelerators,
            port,
            early_write_response,
            units: self.units.iter().map(unit).collect::<Result<_, Refusal>>()?,
        }))
    }
}

/// What computes in a switch, for all streams that share it.
///
/// # Errors
/// If the parameters do not suit the fabric, or the design's switches forward only.
pub fn unit_of<P: PayloadKind>(
    design: &dyn AnyDesign,
    settings: &Settings,
    fabric: AcceleratorFabric,
    switch: u16,
    streams: &[MemoryStream],
    mutation: Option<&str>,
) -> Result<Box<dyn AnySwitchUnit<P>>, Refusal> {
    let role = Role::of(&())?;
    let node = MemoryNode::Switch(switch);
    let context = MemoryContext { fabric, node, settings, role: &role, streams };
    match P::parts(design).switch_part(&Context { place: Place::Memory(context), mutation })?.part {
        SwitchPart::Unit(unit) => Ok(unit),
        _ => Err(Refusal::new(
            "a design with a unit in the switches of a memory fabric",
            design.name(),
            "name another design, or another fabric",
        )),
    }
}

/// Where in the memory of accelerator `rank` something is defined at the end, and what: from what all held before. `None` if
/// nothing is. Sums are in rank order.
///
/// # Panics
/// If the vector is not inside the memories, or does not split over the ranks where the collective has parts.
pub fn expected<P: Payload>(request: &InPlaceRequest, rank: usize, inputs: &[P]) -> Option<(Span, P)> {
    let InPlaceRequest { collective, reduction, span } = *request;
    let part = Span { length: span.length / inputs.len(), ..span };
    let own = |rank: usize| Span { offset: part.offset + rank * part.length, ..part };
    let cut = |input: &P, span: Span| P::from_view(input.view(span.offset..span.offset + span.length));
    let of = |spans: &dyn Fn(usize) -> Span| {
        let cuts: Vec<P> = inputs.iter().enumerate().map(|(rank, input)| cut(input, spans(rank))).collect();
        reference(collective, reduction, &cuts).swap_remove(rank)
    };
    match collective {
        Collective::Barrier | Collective::Dispatch | Collective::Combine => None,
        Collective::Reduce { root } if rank != root.index() => None,
        Collective::AllGather => Some((span, of(&own))),
        Collective::ReduceScatter => Some((own(rank), of(&|_| span))),
        Collective::AllReduce | Collective::Reduce { .. } | Collective::Broadcast { .. } => {
            Some((span, of(&|_| span)))
        }
    }
}
