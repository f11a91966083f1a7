//! An iteration of training as a Chakra trace, which every rank runs: [`measure_traces`](crate::measure_traces) replays it to the same time.

use crate::{TrainingError, TrainingMeasurement};
use quincunx_chakra::{Cost, Node, Operation, Trace, Work};
use quincunx_collective::Collective;
use quincunx_scenario::Scenario;
use quincunx_units::Duration;
use quincunx_workload::{Model, passes, tick};

/// The nodes so far; ids are places, from one on.
#[derive(Default)]
struct Nodes(Vec<Node>);

impl Nodes {
    fn add(&mut self, name: String, after: &[u64], duration: Duration, work: Work) -> u64 {
        let id = self.0.len() as u64 + 1;
        let node =
            Node { id, name, control: Vec::new(), data: after.to_vec(), duration, is_on_host: false, work };
        self.0.push(node);
        id
    }

    fn compute(&mut self, name: String, after: &[u64], duration: Duration) -> u64 {
        self.add(name, after, duration, Work::Compute(Cost::default()))
    }
}

/// The trace of what `measured` has found of `scenario`'s training: a node for each layer and pass, for each bucket's AllReduce, for the step,
/// and on the host for each wait until a rank looks for gradients.
///
/// # Errors
/// If the scenario has no such model, or its training has parts that a trace cannot say.
pub fn training_trace(scenario: &Scenario, measured: &TrainingMeasurement) -> Result<Trace, TrainingError> {
    let training = &scenario.training;
    let parts = [("train.copy", training.copy), ("train.reduction", training.reduction)];
    if let Some((key, _)) = parts.into_iter().find(|(_, rate)| rate.is_some()) {
        return Err(TrainingError::Untraceable { key });
    }
    let model = Model::find(&measured.model)?;
    let passes = passes(&model, training);
    let mut nodes = Nodes::default();
    let mut last = None;
    for (number, pass) in passes.iter().enumerate() {
        last = Some(nodes.compute(format!("forward {number}"), last.as_slice(), pass.forward));
    }
    // Whose end a gradient waits for, in the order in which gradients become ready.
    let mut gradients = Vec::new();
    for (number, pass) in passes.iter().enumerate().rev() {
        last = Some(nodes.compute(format!("backward {number}"), last.as_slice(), pass.backward));
        gradients.extend(last.filter(|_| pass.gradient.bytes() > 0));
    }
    let (mut sent, mut waited, mut look) = (0, Duration::ZERO, None);
    let mut before_step: Vec<u64> = last.into_iter().collect();
    for (number, bucket) in measured.iteration.buckets.iter().enumerate() {
        sent += bucket.layers;
        let ready = if training.overlap { gradients.get(sent - 1).copied() } else { last };
        let at = tick(bucket.ready, training.cycle);
        if training.cycle > Duration::ZERO {
            look = Some(nodes.compute(format!("wait {number}"), look.as_slice(), at - waited));
            nodes.0.iter_mut().rev().take(1).for_each(|node| node.is_on_host = true);
            waited = at;
        }
        let after: Vec<u64> = ready.into_iter().chain(look).collect();
        let operation = Operation::Collective(Collective::AllReduce);
        let work = Work::Collective { operation, size: bucket.size, group: None };
        before_step.push(nodes.add(format!("all_reduce {number}"), &after, Duration::ZERO, work));
    }
    let computed: Duration = passes.iter().map(|pass| pass.forward + pass.backward).sum();
    nodes.compute("step".into(), &before_step, measured.iteration.compute - computed);
    Ok(Trace::new(nodes.0))
}
