//! A job: how long it computes, which groups it has, and what they send.

use quincunx_scenario::LanguageModel;
use quincunx_units::Duration;

/// What an iteration of a model takes of an accelerator, and of its links (EPIC L: one phase of computation, one of tensor and one of data
/// parallelism).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Iteration {
    /// Forward and backward pass: six operations for each parameter and token (Narayanan et al., SC 2021, without attention).
    pub(crate) compute: Duration,
    /// Bits of all vectors that a tensor-parallel group adds up: four AllReduces of activations a layer.
    pub(crate) tensor: f64,
    /// Bits of the gradients that a data-parallel group adds up.
    pub(crate) data: f64,
}

impl Iteration {
    pub(crate) fn of(model: &LanguageModel) -> Self {
        let tokens = f64::from(model.batch) * f64::from(model.sequence);
        let (tp, value) = (f64::from(model.tp), 8.0 * f64::from(model.value));
        let operations = 6.0 * model.parameters * tokens / tp;
        let seconds = operations / model.compute.operations_per_second() as f64;
        Self {
            compute: Duration::from_picos((seconds * 1e12).round() as u64),
            tensor: if model.tp > 1 {
                4.0 * f64::from(model.layers) * tokens * f64::from(model.hidden) * value
            } else {
                0.0
            },
            data: model.parameters * value / tp,
        }
    }
}

/// A part of an iteration in which groups of one kind communicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Tensor,
    Data,
}

/// The members of a job's groups, by their place in the job: neighbours share layers, those of a place in their layers share gradients.
pub(crate) fn groups(gpus: u32, tp: u16) -> Vec<(Phase, Vec<u32>)> {
    let tp = u32::from(tp);
    let replicas = gpus / tp;
    let mut groups = Vec::new();
    if tp > 1 {
        groups.extend((0..replicas).map(|at| (Phase::Tensor, (at * tp..(at + 1) * tp).collect())));
    }
    if replicas > 1 {
        groups.extend(
            (0..tp).map(|at| (Phase::Data, (0..replicas).map(|replica| replica * tp + at).collect())),
        );
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_scenario::Tenancy;

    #[test]
    fn an_iteration_of_gpt_3_13b_is_what_tables_36_to_43_come_to() {
        let tenancy = Tenancy::find("epic-128", &[]).unwrap();
        let found = Iteration::of(tenancy.model("gpt-3-13b").unwrap());
        assert_eq!(found.compute, Duration::from_millis(512));
        // 2 x 2.147 s and 2 x 2 x 0.26 s at 100 Gbit/s in the network.
        assert_eq!((found.tensor / 1e8).round(), 2147.0);
        assert_eq!(found.data, 26e9);
    }

    #[test]
    fn neighbours_share_layers_and_others_gradients() {
        let found = groups(4, 2);
        let members: Vec<_> = found.iter().map(|(phase, members)| (*phase, members.clone())).collect();
        let [tensor, data] = [Phase::Tensor, Phase::Data];
        assert_eq!(
            members,
            [(tensor, vec![0, 1]), (tensor, vec![2, 3]), (data, vec![0, 2]), (data, vec![1, 3])]
        );
        assert!(
            groups(8, 8).iter().all(|(phase, _)| *phase == tensor),
            "one replica has nobody to share with"
        );
    }
}
