//! One measurement, from a setup and a case to a row.

use quincunx_collective::{Collective, LengthOnly, Numbers, Rank};
use quincunx_control as control;
use quincunx_units::{ByteCount, Duration};

use super::data::{Data, lengths};
use super::group::{Finished, Group};
use super::watch::Watcher;
use super::{Case, Composition, Contents, Counted, Design, Row, Setup, SimulationError};
use crate::outputs::Outputs;
use crate::progress::{Watch, unwatched};

/// Runs one collective once, on a fabric of its own.
///
/// # Errors
/// If the set-up or the case makes no sense, or the collective does not end.
pub fn simulate(setup: &Setup, case: &Case) -> Result<Row, SimulationError> {
    simulate_watched(setup, case, Outputs::default(), &mut unwatched)
}

/// The same, writing every frame to `outputs`, and telling how far it has come about every million steps; whoever is told
/// may stop it.
///
/// # Errors
/// As [`simulate`], if an output cannot be written, or if it was stopped.
pub fn simulate_watched(
    setup: &Setup,
    case: &Case,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Row, SimulationError> {
    match case.contents {
        Contents::LengthOnly => run::<LengthOnly>(setup, case, outputs, progress),
        Contents::Numbers => run::<Numbers>(setup, case, outputs, progress),
    }
}

/// A group whose frames may be written.
type Watched<P> = Group<P, Watcher>;

fn run<P: Data>(
    setup: &Setup,
    case: &Case,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Row, SimulationError> {
    let ranks = setup.fabric.ranks();
    let size = case.collective.counted_size(case.size);
    let (bytes, count) = (size.as_usize(), usize::from(ranks));
    let element = case.reduction.data_type.size();
    let in_parts = matches!(case.collective, Collective::ReduceScatter | Collective::AllGather);
    if in_parts && !bytes.is_multiple_of(count * element) {
        return Err(SimulationError::Parts { ranks, size: size.bytes() });
    }
    let [input, output] = lengths(case.collective, count, bytes);
    let setup = &Setup { longest: ByteCount::new(input as u64), ..setup.clone() };
    let mut group: Watched<P> = Group::with_observer(setup, case.design, case.seed, Watcher::default())?;
    let watcher = Watcher::new(outputs, &group.directions()).map_err(SimulationError::output)?;
    *group.simulation_mut().observer_mut() = watcher;
    let inputs = (0..ranks).map(|rank| P::input(Rank(rank), input, case.reduction.data_type)).collect();
    let in_steps = in_parts
        && setup.composition == Composition::Stepwise
        && matches!(case.design, Design::Managed(control::Design::Epic(_)));
    let (time, inputs, outputs) = if in_steps {
        run_in_steps(&mut group, setup, case, inputs, output, progress)?
    } else {
        let finished = run_once(&mut group, setup, case, case.collective, inputs, output, progress)?;
        (counted_time(setup, case.collective, &finished.after), finished.inputs, finished.outputs)
    };
    let links = group.links(time);
    let lost = links.iter().map(|link| link.statistics.lost + link.statistics.refused).sum();
    let simulation = group.simulation();
    let dropped = simulation.engines().map(|(node, _)| simulation.drops(node).values().sum::<u64>()).sum();
    let row = Row {
        design: case.design,
        collective: case.collective,
        reduction: case.reduction,
        ranks,
        size,
        time,
        bandwidths: case.collective.bandwidths(ranks, size, group.busiest_bytes(), time),
        wrong: P::wrong(case.collective, case.reduction, &inputs, &outputs),
        switch_buffer: group.switch_buffer(),
        steps: simulation.steps(),
        frames: links.iter().map(|link| link.statistics.frames).sum(),
        lost,
        dropped,
        links,
        busy_over_time: simulation.busy_over_time(),
    };
    std::mem::take(group.simulation_mut().observer_mut()).finish().map_err(SimulationError::output)?;
    Ok(row)
}

/// Runs a collective with outputs of `output` bytes.
fn run_once<P: Data>(
    group: &mut Watched<P>,
    setup: &Setup,
    case: &Case,
    collective: Collective,
    inputs: Vec<P>,
    output: usize,
    progress: Watch<'_>,
) -> Result<Finished<P>, SimulationError> {
    let buffers = inputs.into_iter().map(|input| (input, P::zeroed(output))).collect();
    group.run(collective, case.reduction, buffers, setup.limit, progress)
}

/// ReduceScatter as a Reduce to each rank, AllGather as a Broadcast from each, one after the other.
fn run_in_steps<P: Data>(
    group: &mut Watched<P>,
    setup: &Setup,
    case: &Case,
    inputs: Vec<P>,
    output: usize,
    progress: Watch<'_>,
) -> Result<(Duration, Vec<P>, Vec<P>), SimulationError> {
    let ranks = group.ranks();
    let scatters = case.collective == Collective::ReduceScatter;
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
        group.drain(setup.limit);
        let begun = group.simulation().now().since(start);
        let finished = run_once(group, setup, case, collective, pieces, part, progress)?;
        time = begun + counted_time(setup, collective, &finished.after);
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

/// When the last of those ended whose end counts.
fn counted_time(setup: &Setup, collective: Collective, after: &[Duration]) -> Duration {
    let counts = |rank: usize| match (setup.counted, collective) {
        (Counted::AllRanks, _) => true,
        (Counted::Receivers, Collective::Reduce { root }) => root.index() == rank,
        (Counted::Receivers, Collective::Broadcast { root }) => root.index() != rank,
        (Counted::Receivers, _) => true,
    };
    let ends = after.iter().enumerate().filter(|(rank, _)| counts(*rank));
    ends.map(|(_, &after)| after).max().unwrap_or_default()
}
