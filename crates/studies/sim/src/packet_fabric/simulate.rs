//! One measurement, from a request to a row: on trees, rings, meshes and servers alike.

use quincunx_collective::{Collective, LengthOnly, Numbers, Rank};
use quincunx_scenario::{Scenario, TokenBatch};
use quincunx_units::{ByteCount, Duration};

use super::data::{Data, lengths};
use super::experts::Batch;
use super::group::{Finished, ObservedGroup, SimulatedGroup};
use super::{Row, SimulationError};
use crate::outputs::Outputs;
use crate::progress::{ProgressFn, ignore_progress};
use crate::{Contents, Request};

/// Runs one collective once, on a fabric of its own. Ranks of a mesh run it in their domain, all domains at once; the last rank ends it.
/// On servers a batch is dispatched, or combined after it has been.
///
/// # Errors
/// If the design refuses the fabric, the ranks the collective, or it does not end.
pub fn simulate(request: &Request) -> Result<Row, SimulationError> {
    simulate_with_outputs(request, Outputs::default(), &mut ignore_progress)
}

/// The same, writing every frame to `outputs`, and telling how far it has come about every million steps; whoever is told
/// may stop it.
///
/// # Errors
/// As [`simulate`], if an output cannot be written, or if it was stopped.
pub fn simulate_with_outputs(
    request: &Request,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Row, SimulationError> {
    match request.contents {
        Contents::LengthOnly => run::<LengthOnly>(request, outputs, progress),
        Contents::Numbers => run::<Numbers>(request, outputs, progress),
    }
}

/// What a run has come to.
struct Ended {
    /// Bytes as they are counted.
    size: ByteCount,
    /// From the start to the end that counts.
    time: Duration,
    /// Ranks that run one collective together.
    members: u16,
    wrong: Option<u64>,
}

fn run<P: Data>(
    request: &Request,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Row, SimulationError> {
    let collective = request.collective;
    request.vectors()?;
    let mut group: ObservedGroup<P> = SimulatedGroup::with_observer(request, Default::default())?;
    let ended = match &request.scenario.workload {
        Some(batch) => tokens(&mut group, request, batch, outputs, progress)?,
        None => {
            group.observe(outputs)?;
            vectors(&mut group, request, progress)?
        }
    };
    let Ended { size, time, members, wrong } = ended;
    let links = group.links(time);
    let lost = links.iter().map(|link| link.statistics.lost + link.statistics.refused).sum();
    let simulation = group.simulation();
    let dropped = simulation.engines().map(|(node, _)| simulation.drops(node).values().sum::<u64>()).sum();
    let row = Row {
        design: request.design.name(),
        collective,
        reduction: request.reduction,
        ranks: group.ranks(),
        size,
        time,
        bandwidths: collective.bandwidths(members, size, group.busiest_bytes(), time),
        wrong,
        switch_buffer: group.switch_buffer(),
        steps: simulation.steps(),
        frames: links.iter().map(|link| link.statistics.frames).sum(),
        lost,
        retransmitted: simulation.observer().0.frames.iter().sum(),
        dropped,
        links,
        busy_over_time: simulation.busy_over_time(),
    };
    let (_, outputs) = std::mem::take(group.simulation_mut().observer_mut());
    outputs.finish().map_err(SimulationError::output)?;
    Ok(row)
}

/// A collective of vectors in every domain.
fn vectors<P: Data>(
    group: &mut ObservedGroup<P>,
    request: &Request,
    progress: ProgressFn<'_>,
) -> Result<Ended, SimulationError> {
    let Request { collective, reduction, .. } = *request;
    let [input, output] = request.vectors()?;
    let members = request.members();
    let inputs = (0..group.ranks()).map(|rank| P::input(Rank(rank), input, reduction.data_type)).collect();
    let in_steps = request.scenario.measure.stepwise
        && members == group.ranks()
        && group.cluster().runs_in_steps(collective);
    let (time, inputs, outputs) = if in_steps {
        run_in_steps(group, request, inputs, output, progress)?
    } else {
        let finished = run_once(group, request, collective, inputs, output, progress)?;
        (counted_time(request, collective, &finished.after), finished.inputs, finished.outputs)
    };
    let domains = inputs.chunks(members.into()).zip(outputs.chunks(members.into()));
    let wrong = domains.map(|(inputs, outputs)| P::wrong(collective, reduction, inputs, outputs)).sum();
    Ok(Ended { size: collective.counted_size(request.size), time, members, wrong })
}

/// A dispatch of a batch, or the combine after one; the size is that of a rank's tokens.
fn tokens<P: Data>(
    group: &mut ObservedGroup<P>,
    request: &Request,
    tokens: &TokenBatch,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Ended, SimulationError> {
    let (ranks, limit) = (group.ranks(), request.scenario.measure.virtual_limit());
    let batch = Batch::new(tokens, ranks, request.seed);
    let (after, wrong) = match request.collective {
        Collective::Combine => {
            let dispatched = batch.dispatch(group, limit, progress)?;
            group.drain(limit);
            group.simulation_mut().reset_statistics();
            group.observe(outputs)?;
            let combined = batch.combine(group, &dispatched, limit, progress)?;
            (combined.after, batch.wrong_sums(&dispatched.inputs, &combined.outputs))
        }
        Collective::Dispatch => {
            group.observe(outputs)?;
            let dispatched = batch.dispatch(group, limit, progress)?;
            (dispatched.after, batch.wrong_tokens(&dispatched.inputs, &dispatched.outputs))
        }
        other => {
            // The ranks refuse it.
            let nothing = (0..ranks).map(|_| (P::zeroed(0), P::zeroed(0))).collect();
            (group.run(other, request.reduction, nothing, limit, progress)?.after, None)
        }
    };
    let time = after.into_iter().max().unwrap_or_default();
    let wrong = wrong.filter(|_| request.contents == Contents::Numbers);
    Ok(Ended { size: tokens.bytes(), time, members: ranks, wrong })
}

/// Runs a collective with outputs of `output` bytes.
fn run_once<P: Data>(
    group: &mut ObservedGroup<P>,
    request: &Request,
    collective: Collective,
    inputs: Vec<P>,
    output: usize,
    progress: ProgressFn<'_>,
) -> Result<Finished<P>, SimulationError> {
    let buffers = inputs.into_iter().map(|input| (input, P::zeroed(output))).collect();
    group.run(collective, request.reduction, buffers, request.scenario.measure.virtual_limit(), progress)
}

/// ReduceScatter as a Reduce to each rank, AllGather as a Broadcast from each, one after the other.
fn run_in_steps<P: Data>(
    group: &mut ObservedGroup<P>,
    request: &Request,
    inputs: Vec<P>,
    output: usize,
    progress: ProgressFn<'_>,
) -> Result<(Duration, Vec<P>, Vec<P>), SimulationError> {
    let ranks = group.ranks();
    let scatters = request.collective == Collective::ReduceScatter;
    let part = if scatters { output } else { inputs[0].length() };
    let mut outputs: Vec<P> = (0..ranks).map(|_| P::zeroed(output)).collect();
    let start = group.simulation().now();
    let mut time = Duration::ZERO;
    for root in 0..ranks {
        let at = usize::from(root) * part;
        let offset = if scatters { at } else { 0 };
        let pieces = inputs.iter().map(|input| P::from_view(input.view(offset..offset + part))).collect();
        let root = Rank(root);
        let collective = if scatters { Collective::Reduce { root } } else { Collective::Broadcast { root } };
        group.drain(request.scenario.measure.virtual_limit());
        let begun = group.simulation().now().since(start);
        let finished = run_once(group, request, collective, pieces, part, progress)?;
        time = begun + counted_time(request, collective, &finished.after);
        for (rank, found) in finished.outputs.iter().enumerate() {
            match scatters {
                true if rank == root.index() => outputs[rank].write(0, found.view(0..part)),
                true => {}
                false => outputs[rank].write(at, found.view(0..part)),
            }
        }
    }
    Ok((time, inputs, outputs))
}

/// Whether a collective's time goes on until that rank has ended.
pub(crate) fn counts(scenario: &Scenario, collective: Collective, rank: usize) -> bool {
    match (scenario.measure.receivers_only, collective) {
        (true, Collective::Reduce { root }) => root.index() == rank,
        (true, Collective::Broadcast { root }) => root.index() != rank,
        _ => true,
    }
}

/// When the last of those ended whose end counts.
fn counted_time(request: &Request, collective: Collective, after: &[Duration]) -> Duration {
    let ends = after.iter().enumerate().filter(|(rank, _)| counts(&request.scenario, collective, *rank));
    ends.map(|(_, &after)| after).max().unwrap_or_default()
}

impl Request {
    /// Ranks that run one collective together: those of a domain.
    pub(crate) fn members(&self) -> u16 {
        self.scenario.ranks() / self.scenario.fabric.domains()
    }

    /// Bytes of a rank's input and output.
    ///
    /// # Errors
    /// If the vector does not split over the ranks.
    pub(crate) fn vectors(&self) -> Result<[usize; 2], SimulationError> {
        let (collective, ranks) = (self.collective, self.members());
        let (bytes, count) = (collective.counted_size(self.size).as_usize(), usize::from(ranks));
        let in_parts = matches!(collective, Collective::ReduceScatter | Collective::AllGather);
        let element = self.reduction.data_type.size();
        if in_parts && self.scenario.workload.is_none() && !bytes.is_multiple_of(count * element) {
            return Err(SimulationError::Parts { ranks, size: bytes as u64 });
        }
        Ok(lengths(collective, count, bytes))
    }
}
