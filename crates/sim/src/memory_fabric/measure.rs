//! From a scenario on a memory fabric to a measurement.

use super::{Design, IsaSetup, MemoryFabric, Outcome, expected, run_watched};
use crate::packet_fabric::Data;
use crate::progress::Watch;
use crate::scenario::{busiest, loads};
use crate::{MeasureError, Measurement, Outputs, Request};
use quincunx_collective::{BlockQuantization, DataType, Quantized, Rank, Reduction};
use quincunx_driver_des::LinkConfig;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_scenario as scenario;
use quincunx_scin::ComputeLatency;
use quincunx_wire::flit::FlitFormat;

/// Simulates `request` on a memory fabric.
pub(crate) fn measure<P: Data>(
    fabric: &scenario::MemoryFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Measurement, MeasureError> {
    let design = request.design.parse().map_err(|()| MeasureError::unknown(request))?;
    let traffic = request.background.map(|offered| (offered, request.seed));
    let setup = MemoryFabric { traffic, ..MemoryFabric::from(fabric) };
    let (outcome, wrong) = match design {
        Design::ScinInq => quantized_in_the_network::<P>(&setup, request, outputs, progress),
        Design::RingRq => quantized_at_every_hop::<P>(&setup, request, outputs, progress),
        _ => plain::<P>(&setup, design, request, outputs, progress),
    }?;
    let Request { collective, size, .. } = *request;
    let time = match outcome.streams[0].unsynchronized {
        Some(time) if !fabric.measure.synchronised => time,
        _ => outcome.time(),
    };
    Ok(Measurement {
        size,
        time,
        bandwidths: collective.bandwidths(setup.accelerators, size, outcome.busiest_link(), time),
        wrong,
        switch_buffer: outcome.switch_buffer,
        steps: outcome.steps,
        frames: outcome.packets,
        links: loads(&outcome.links),
        uplink: busiest(&outcome.links, 0),
        downlink: busiest(&outcome.links, 1),
        busy_over_time: outcome.busy_over_time.clone(),
        payload_bound: Some(setup.payload_bound()),
    })
}

/// What came out, and how much of it is wrong; nobody can tell where memory held no numbers.
type Checked<P> = Result<(Outcome<P>, Option<u64>), MeasureError>;

fn plain<P: Data>(
    setup: &MemoryFabric,
    design: Design,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Checked<P> {
    let Request { collective, reduction, size, .. } = *request;
    let length = size.as_usize();
    let input = |rank| P::input(Rank(rank), length, reduction.data_type);
    let inputs: Vec<P> = (0..setup.accelerators).map(input).collect();
    let in_place = InPlaceRequest { collective, reduction, span: Span { offset: 0, length } };
    let outcome = run_watched(setup, design, in_place, inputs.clone(), outputs, progress)?;
    let wrong = outcome.memories.iter().enumerate().map(|(rank, memory)| {
        let Some((span, right)) = expected(&in_place, rank, &inputs) else { return Some(0) };
        let found = P::from_view(memory.view(span.offset..span.offset + span.length));
        P::differing(&right, &found, reduction.data_type)
    });
    let wrong = wrong.sum();
    Ok((outcome, wrong))
}

/// Values of a vector that has the requested size in binary16: quantised designs are measured by what they do for such a
/// vector (SCIN 4.3, equivalent bandwidth).
fn equivalent_values(request: &Request) -> usize {
    request.size.as_usize() / DataType::F16.size()
}

fn quantized_in_the_network<P: Data>(
    setup: &MemoryFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Checked<P> {
    let (quantization, values) = (setup.isa.quantization, equivalent_values(request));
    let codes = quantization.code_bytes(values);
    let inputs: Vec<P> =
        (0..setup.accelerators).map(|rank| P::quantized(Rank(rank), values, quantization)).collect();
    let span = Span { offset: 0, length: codes };
    let in_place = InPlaceRequest { collective: request.collective, reduction: request.reduction, span };
    let outcome = run_watched(setup, Design::ScinInq, in_place, inputs.clone(), outputs, progress)?;
    let cut =
        |input: &P| (P::from_view(input.view(0..codes)), P::from_view(input.view(codes..input.length())));
    let parts: Vec<(P, P)> = inputs.iter().map(cut).collect();
    let vectors: Vec<_> = parts
        .iter()
        .map(|(codes, scales)| Quantized {
            codes: codes.view(0..codes.length()),
            scales: scales.view(0..scales.length()),
        })
        .collect();
    let sum = P::sum_quantized(quantization, values, &vectors);
    // Counted in words of four bytes, of codes and of scale factors.
    let wrong = outcome.memories.iter().map(|memory| {
        let (codes, scales) = cut(memory);
        let differ = |right: &P, found: &P| P::differing(right, found, DataType::I32);
        Some(differ(&sum.codes, &codes)? + differ(&sum.scales, &scales)?)
    });
    let wrong = wrong.sum();
    Ok((outcome, wrong))
}

fn quantized_at_every_hop<P: Data>(
    setup: &MemoryFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Checked<P> {
    let reduction = Reduction { data_type: DataType::F32, ..request.reduction };
    let length = equivalent_values(request) * DataType::F32.size();
    let inputs: Vec<P> =
        (0..setup.accelerators).map(|rank| P::input(Rank(rank), length, DataType::F32)).collect();
    let span = Span { offset: 0, length };
    let in_place = InPlaceRequest { collective: request.collective, reduction, span };
    let outcome = run_watched(setup, Design::RingRq, in_place, inputs.clone(), outputs, progress)?;
    let right = P::requantized(&inputs, setup.isa.quantization);
    // To the bit: the words of the values are held against each other, not the values.
    let wrong = outcome.memories.iter().map(|found| P::differing(&right, found, DataType::I32)).sum();
    Ok((outcome, wrong))
}

impl From<&scenario::MemoryFabric> for MemoryFabric {
    fn from(fabric: &scenario::MemoryFabric) -> Self {
        let (link, isa) = (&fabric.link, &fabric.isa);
        Self {
            accelerators: fabric.accelerators,
            switches: fabric.switches,
            link: LinkConfig { rate: link.rate, latency: link.latency },
            format: flit_format(link),
            response_latency: fabric.accelerator.response_latency,
            add_rate: fabric.accelerator.add_rate,
            scatter: None,
            traffic: None,
            isa: IsaSetup {
                waves: isa.waves,
                wave: isa.wave,
                quantization: BlockQuantization::SCIN,
                latency: ComputeLatency { regular: isa.compute_latency, quantized: isa.quantized_latency },
            },
        }
    }
}

/// How the packets of a link are cut.
pub(crate) fn flit_format(link: &scenario::MemoryLink) -> FlitFormat {
    FlitFormat { flit: link.flit.as_usize(), header_flits: 1, max_payload: link.payload.as_usize() }
}
