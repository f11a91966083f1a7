//! From a scenario on a memory fabric to a measurement.

use super::{MemoryFabric, Outcome, RunError, Stream, expected, run_with_outputs};
use crate::measurement::{busiest, loads};
use crate::packet_fabric::Data;
use crate::progress::ProgressFn;
use crate::{MeasureError, Measurement, Outputs, Request};
use quincunx_collective::{BlockQuantization, DataType, Quantized, Rank, Reduction};
use quincunx_design::{AnyDesign, Form, Placement, Settings};
use quincunx_driver_des::LinkConfig;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_scenario as scenario;
use quincunx_wire::flit::FlitFormat;

/// Simulates `request` on a memory fabric.
pub(crate) fn measure<P: Data>(
    fabric: &scenario::MemoryFabric,
    request: &Request,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Measurement, MeasureError> {
    let traffic = request.background.map(|offered| (offered, request.seed));
    let setup = MemoryFabric { traffic, ..MemoryFabric::from(fabric) };
    let design = request.design;
    let settings = &request.scenario.settings(request.design)?;
    let case = Case { setup: &setup, design, settings, request };
    // Before anybody knows how long a vector is: that rests on its form.
    let nothing = Span { offset: 0, length: 0 };
    let Request { collective, reduction, .. } = *request;
    let placement =
        Placement::on_memory(setup.parts(), InPlaceRequest { collective, reduction, span: nothing });
    let plan = design.plan(settings, &placement).map_err(RunError::from)?;
    let (outcome, wrong) = match plan.form {
        Form::Exact | Form::FixedPoint => case.exact::<P>(outputs, progress),
        Form::Codes(scheme) => case.codes::<P>(scheme, outputs, progress),
        Form::Requantized(scheme) => case.requantized::<P>(scheme, outputs, progress),
    }?;
    let Request { collective, size, .. } = *request;
    let time = match outcome.streams[0].unsynchronized {
        Some(time) if !request.scenario.measure.synchronised => time,
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
        lost: 0,
        retransmitted: 0,
        links: loads(&outcome.links),
        uplink: busiest(&outcome.links, 0),
        downlink: busiest(&outcome.links, 1),
        busy_over_time: outcome.busy_over_time.clone(),
        payload_bound: Some(setup.payload_bound()),
    })
}

/// What came out, and how much of it is wrong; nobody can tell where memory held no numbers.
type Checked<P> = Result<(Outcome<P>, Option<u64>), MeasureError>;

/// What is to be measured.
struct Case<'a> {
    setup: &'a MemoryFabric,
    design: &'static dyn AnyDesign,
    settings: &'a Settings,
    request: &'a Request,
}

impl Case<'_> {
    fn run<P: Data>(
        &self,
        request: InPlaceRequest,
        inputs: &[P],
        outputs: Outputs,
        progress: ProgressFn<'_>,
    ) -> Result<Outcome<P>, RunError> {
        let stream = Stream { design: self.design, settings: self.settings.clone(), request };
        run_with_outputs(self.setup, stream, inputs.to_vec(), outputs, progress)
    }

    /// Vectors of the request's data type, whose result is the collective's.
    fn exact<P: Data>(&self, outputs: Outputs, progress: ProgressFn<'_>) -> Checked<P> {
        let Request { collective, reduction, size, .. } = *self.request;
        let length = size.as_usize();
        let input = |rank| P::input(Rank(rank), length, reduction.data_type);
        let inputs: Vec<P> = (0..self.setup.accelerators).map(input).collect();
        let in_place = InPlaceRequest { collective, reduction, span: Span { offset: 0, length } };
        let outcome = self.run(in_place, &inputs, outputs, progress)?;
        let wrong = wrong_elements(&in_place, &inputs, &outcome.memories);
        Ok((outcome, wrong))
    }

    /// Values of a vector that has the requested size in binary16: quantised designs are measured by what they do for such a
    /// vector (SCIN 4.3, equivalent bandwidth).
    fn equivalent_values(&self) -> usize {
        self.request.size.as_usize() / DataType::F16.size()
    }

    /// Vectors of codes with their scale factors behind them.
    fn codes<P: Data>(
        &self,
        scheme: BlockQuantization,
        outputs: Outputs,
        progress: ProgressFn<'_>,
    ) -> Checked<P> {
        let values = self.equivalent_values();
        let codes = scheme.code_bytes(values);
        let inputs: Vec<P> =
            (0..self.setup.accelerators).map(|rank| P::quantized(Rank(rank), values, scheme)).collect();
        let span = Span { offset: 0, length: codes };
        let Request { collective, reduction, .. } = *self.request;
        let in_place = InPlaceRequest { collective, reduction, span };
        let outcome = self.run(in_place, &inputs, outputs, progress)?;
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
        let sum = P::sum_quantized(scheme, values, &vectors);
        // Counted in words of four bytes, of codes and of scale factors.
        let wrong = outcome.memories.iter().map(|memory| {
            let (codes, scales) = cut(memory);
            let differ = |right: &P, found: &P| P::differing(right, found, DataType::I32);
            Some(differ(&sum.codes, &codes)? + differ(&sum.scales, &scales)?)
        });
        let wrong = wrong.sum();
        Ok((outcome, wrong))
    }

    /// Vectors of binary32 values that are quantised each time that they are sent.
    fn requantized<P: Data>(
        &self,
        scheme: BlockQuantization,
        outputs: Outputs,
        progress: ProgressFn<'_>,
    ) -> Checked<P> {
        let Request { collective, reduction, .. } = *self.request;
        let reduction = Reduction { data_type: DataType::F32, ..reduction };
        let length = self.equivalent_values() * DataType::F32.size();
        let inputs: Vec<P> =
            (0..self.setup.accelerators).map(|rank| P::input(Rank(rank), length, DataType::F32)).collect();
        let in_place = InPlaceRequest { collective, reduction, span: Span { offset: 0, length } };
        let outcome = self.run(in_place, &inputs, outputs, progress)?;
        let right = P::requantized(&inputs, scheme);
        // To the bit: the words of the values are held against each other, not the values.
        let wrong = outcome.memories.iter().map(|found| P::differing(&right, found, DataType::I32)).sum();
        Ok((outcome, wrong))
    }
}

/// Wrong elements in all accelerators' memories, which held `inputs` before; none if memory holds no numbers.
pub(crate) fn wrong_elements<P: Data>(request: &InPlaceRequest, inputs: &[P], memories: &[P]) -> Option<u64> {
    let of_rank = |(rank, memory): (usize, &P)| {
        let Some((span, right)) = expected(request, rank, inputs) else { return Some(0) };
        let found = P::from_view(memory.view(span.offset..span.offset + span.length));
        P::differing(&right, &found, request.reduction.data_type)
    };
    memories.iter().enumerate().map(of_rank).sum()
}

impl From<&scenario::MemoryFabric> for MemoryFabric {
    fn from(fabric: &scenario::MemoryFabric) -> Self {
        let link = &fabric.link;
        Self {
            accelerators: fabric.accelerators,
            switches: fabric.switches,
            link: LinkConfig { rate: link.rate, latency: link.latency },
            format: flit_format(link),
            gap: link.gap,
            response_latency: fabric.accelerator.response_latency,
            add_rate: fabric.accelerator.add_rate,
            scatter: None,
            traffic: None,
        }
    }
}

/// How the packets of a link are cut.
pub(crate) fn flit_format(link: &scenario::MemoryLink) -> FlitFormat {
    FlitFormat { flit: link.flit.as_usize(), header_flits: 1, max_payload: link.payload.as_usize() }
}

#[cfg(test)]
mod tests {
    use super::wrong_elements;
    use quincunx_collective::{Collective, DataType, LengthOnly, Numbers, ReduceOp, Reduction};
    use quincunx_engine::shared_memory::{InPlaceRequest, Span};

    #[test]
    fn elements_that_are_not_the_sum_are_counted_at_each_rank() {
        let request = InPlaceRequest {
            collective: Collective::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::I32 },
            span: Span { offset: 0, length: 8 },
        };
        let numbers = |values: [i32; 2]| Numbers::from(values.map(i32::to_le_bytes).concat());
        let inputs = [numbers([1, 2]), numbers([10, 20])];
        let wrong = |memories: &[Numbers]| wrong_elements(&request, &inputs, memories);
        assert_eq!(wrong(&[numbers([11, 22]), numbers([11, 22])]), Some(0));
        assert_eq!(wrong(&[numbers([11, 23]), numbers([1, 2])]), Some(3));
        let lengths = [LengthOnly::new(8); 2];
        assert_eq!(wrong_elements(&request, &lengths, &lengths), None);
    }
}
