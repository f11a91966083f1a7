//! Streams of collectives on a memory fabric, and what its nodes are set up with to run them side by side.
//!
//! Every stream has a kernel on each accelerator, words and memory of its own, and, if its design computes in the switches, a share of
//! a unit in each of them (SCIN 3.4: several synchronisation resources, several wave controllers). What that takes, designs say.

use super::setup::EARLY_WRITE_RESPONSE;
use super::{MemoryFabric, RunError};
use quincunx_collective::Rank;
use quincunx_design::{AnyMemoryDesign, MemoryPlacement, MemoryStream, PayloadKind, Refusal, Settings};
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_memory::EndpointConfig;
use quincunx_nodes::fabric::{AcceleratorConfig, FabricConfig, FabricSwitchConfig};

/// Collectives of one kind.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How.
    pub design: &'static dyn AnyMemoryDesign,
    /// The values of its parameters.
    pub settings: Settings,
    /// What. Streams that run side by side have spans of their own.
    pub request: InPlaceRequest,
}

/// A stream and what it has for itself.
struct StreamDesign {
    design: &'static dyn AnyMemoryDesign,
    settings: Settings,
    stream: MemoryStream,
}

/// A unit of each switch, and the streams that share it.
struct Unit {
    kind: &'static str,
    /// By their places, in order.
    streams: Vec<usize>,
}

/// Where everything is.
pub(super) struct Layout {
    fabric: MemoryFabric,
    placement: MemoryPlacement,
    places: Vec<StreamDesign>,
    units: Vec<Unit>,
    /// Words of each accelerator.
    words: u16,
    /// Bytes of each accelerator's memory.
    memory: usize,
}

impl Layout {
    /// Of streams that can run side by side.
    pub(super) fn new(fabric: &MemoryFabric, streams: &[Stream]) -> Result<Self, RunError> {
        check(streams)?;
        let placement = fabric.placement();
        // The packets of traffic are cut out of memory.
        let memory = if fabric.traffic.is_some() { fabric.format.max_payload } else { 0 };
        let (places, units) = (Vec::new(), Vec::new());
        let mut layout = Self { fabric: *fabric, placement, places, units, words: 0, memory };
        let mut scratch = Vec::new();
        for Stream { design, settings, request } in streams {
            let needs = design.needs(settings, &placement, request)?;
            let span = request.span;
            let tail = Span { offset: span.offset + span.length, length: needs.tail };
            layout.memory = layout.memory.max(tail.offset + tail.length);
            scratch.push(needs.scratch);
            let stream = MemoryStream {
                request: *request,
                form: design.form(settings)?,
                number: layout.share(*design, settings)?,
                first_word: WordId(layout.words),
                tail,
                scratch: Span { offset: 0, length: 0 },
            };
            layout.words += needs.words;
            layout.places.push(StreamDesign { design: *design, settings: settings.clone(), stream });
        }
        // Scratch memory lies behind all vectors.
        for (place, length) in layout.places.iter_mut().zip(scratch) {
            place.stream.scratch = Span { offset: layout.memory, length };
            layout.memory += length;
        }
        Ok(layout)
    }

    /// Gives the next stream a share of the unit that its design needs, if it needs one: its number there.
    fn share(&mut self, design: &dyn AnyMemoryDesign, settings: &Settings) -> Result<u16, RunError> {
        let Some(kind) = design.unit_kind() else { return Ok(0) };
        let next = self.places.len();
        let Some(unit) = self.units.iter_mut().find(|unit| unit.kind == kind) else {
            self.units.push(Unit { kind, streams: vec![next] });
            return Ok(0);
        };
        let first = &self.places[unit.streams[0]];
        if first.settings != *settings {
            let refusal = Refusal::new(
                format!("streams that share the {kind} of each switch with equal settings"),
                format!("{} and {}", first.settings.to_text(), settings.to_text()),
                "run them by themselves",
            );
            return Err(refusal.into());
        }
        unit.streams.push(next);
        Ok(unit.streams.len() as u16 - 1)
    }

    /// The place of a stream that a unit calls by its own number.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn stream_of(&self, unit: u16, number: u16) -> usize {
        self.units[usize::from(unit)].streams[usize::from(number)]
    }

    pub(super) fn accelerator<P: PayloadKind>(&self, rank: u16) -> Result<FabricConfig<P>, RunError> {
        let fabric = &self.fabric;
        let kernels = self.places.iter().map(|StreamDesign { design, settings, stream }| {
            P::memory_parts(*design).kernel_part(settings, &self.placement, stream, Rank(rank))
        });
        Ok(FabricConfig::Accelerator(AcceleratorConfig {
            endpoint: EndpointConfig {
                rank: Rank(rank),
                switches: (0..fabric.switches).map(|index| self.placement.switch(index)).collect(),
                memory: self.memory,
                words: self.words,
                format: fabric.format,
                response_latency: fabric.response_latency,
                scatter: fabric.scatter,
                load_window: u32::from(self.placement.load_window),
                add_rate: fabric.add_rate,
            },
            port: fabric.port(),
            kernels: kernels.collect::<Result<_, Refusal>>()?,
        }))
    }

    pub(super) fn switch<P: PayloadKind>(&self, index: u16) -> Result<FabricConfig<P>, RunError> {
        let unit = |unit: &Unit| {
            let streams: Vec<MemoryStream> = unit.streams.iter().map(|&at| self.places[at].stream).collect();
            let StreamDesign { design, settings, .. } = &self.places[unit.streams[0]];
            P::memory_parts(*design).unit_part(settings, &self.placement, index, &streams)
        };
        Ok(FabricConfig::Switch(FabricSwitchConfig {
            node: self.placement.switch(index),
            ports: self.fabric.accelerators,
            port: self.fabric.port(),
            early_write_response: EARLY_WRITE_RESPONSE,
            units: self.units.iter().map(unit).collect::<Result<_, Refusal>>()?,
        }))
    }
}

/// Whether streams can run side by side.
fn check(streams: &[Stream]) -> Result<(), RunError> {
    if let Some(stream) = streams.iter().find(|stream| stream.request.collective.is_routed()) {
        return Err(RunError::Routed(stream.request.collective));
    }
    let working = streams.iter().filter(|stream| !stream.design.runs_in_switches()).count();
    if working > 1 {
        return Err(RunError::Streams(working));
    }
    let mut reductions = streams.iter().map(|stream| stream.request.reduction);
    let first = reductions.next();
    if reductions.all(|other| Some(other) == first) { Ok(()) } else { Err(RunError::Reductions) }
}
