//! One rank asks for something else than the others: of all designs, collectives and differences, no rank is told of a result.

use quincunx_collective::{Collective, DataType, Rank, ReduceOp};
use quincunx_conformance::Trial;
use quincunx_designs::CATALOG;
use quincunx_engine::verbs::Outcome;

use crate::common::fabric;
use crate::settings::base;

/// What a rank may be asked for instead, each with its name.
fn others(trial: &Trial, offered: &[Collective]) -> Vec<(&'static str, Trial)> {
    let with = |change: &dyn Fn(&mut Trial)| {
        let mut other = trial.clone();
        change(&mut other);
        other
    };
    let mut all = Vec::new();
    for &collective in offered.iter().filter(|other| other.name() != trial.collective.name()) {
        all.push(("collective", with(&|other| other.collective = collective)));
    }
    if let Some(Rank(root)) = trial.collective.root() {
        let root = Rank(u16::from(root == 0));
        all.push(("root", with(&|other| other.collective = trial.collective.with_root(root))));
    }
    if trial.collective != Collective::Barrier {
        all.push(("type", with(&|other| other.reduction.data_type = DataType::U32)));
        for length in [8, 16, 24, 120] {
            all.push(("length", with(&|other| other.length = length)));
        }
    }
    if trial.collective.reduces() {
        all.push(("operation", with(&|other| other.reduction.op = ReduceOp::Max)));
    }
    all
}

fn nobody_is_told_on(name: &'static str) {
    let fabric = fabric(name);
    let (mut runs, mut faults) = (0, Vec::new());
    for design in CATALOG.on(fabric.kind()) {
        let offered: Vec<Collective> = design.collectives(fabric.kind()).to_vec();
        for &collective in offered.iter().filter(|collective| !collective.is_routed()) {
            let trial = base(Trial::new(design, fabric.clone(), collective)).with_time_outs().of_length(12);
            for (what, other) in others(&trial, &offered) {
                for dissenter in (0..fabric.ranks()).map(Rank) {
                    // What a design refuses at the door nobody waits for.
                    let Ok(told) = trial.told_if_ranks_disagree(&other, dissenter) else { continue };
                    runs += 1;
                    if told.contains(&Some(Outcome::Done)) {
                        faults.push(format!(
                            "{collective} of {} on {name}: rank {dissenter} asks for another {what} ({} of {} bytes): {told:?}",
                            design.name(), other.collective, other.length
                        ));
                    }
                }
            }
        }
    }
    assert!(runs > 0, "nothing has run on {name}");
    assert!(faults.is_empty(), "{} of {runs} runs:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn nobody_is_told_of_a_result_on_a_star_of_three() {
    nobody_is_told_on("star-3");
}

#[test]
fn nobody_is_told_of_a_result_on_a_tree_of_switches() {
    nobody_is_told_on("tree-2x2");
}

#[test]
fn nobody_is_told_of_a_result_on_a_ring() {
    nobody_is_told_on("ring-3");
}

#[test]
fn nobody_is_told_of_a_result_on_a_mesh() {
    nobody_is_told_on("mesh-1x3");
}
