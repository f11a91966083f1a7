//! Which of several designs is the fastest, and why the others are not chosen: `--design auto`.
//!
//! All candidates are simulated, on one fabric and with the same settings: no rule of thumb knows of queues, losses and other
//! traffic what a simulation does. Designs that change the result ([`About::is_exact`](quincunx_design::About::is_exact))
//! are no candidates: whether that is allowed is not for us to say.

use crate::{MeasureError, Measurement};
use std::fmt;

/// What became of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Its design.
    pub design: String,
    /// Its measurement; none if it cannot do what is asked here.
    pub measurement: Option<Measurement>,
    /// Whether it is chosen, or why not.
    pub verdict: Choice,
}

/// Whether a candidate is chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum Choice {
    /// It is the fastest; of several, the first.
    Chosen,
    /// It takes longer, by this share of the fastest one's time.
    Slower(f64),
    /// It cannot do what is asked here.
    Impossible(MeasureError),
}

/// Nothing can be chosen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a design that is possible here, found none: {reasons}")]
pub struct NoChoice {
    /// Why not, for each of them.
    reasons: String,
}

/// Judges all candidates. They are given back in the order of their times, the chosen one first, and then those that are not
/// possible.
///
/// # Errors
/// If none is possible.
pub fn choose(
    measured: Vec<(String, Result<Measurement, MeasureError>)>,
) -> Result<Vec<Candidate>, NoChoice> {
    let times = measured.iter().filter_map(|(_, result)| result.as_ref().ok()).map(|found| found.time);
    let Some(fastest) = times.min() else {
        return Err(NoChoice { reasons: reasons(&measured) });
    };
    let mut is_chosen = false;
    let judge = |(design, result): (String, Result<Measurement, MeasureError>)| match result {
        Ok(found) if found.time == fastest && !std::mem::replace(&mut is_chosen, true) => {
            Candidate { design, measurement: Some(found), verdict: Choice::Chosen }
        }
        Ok(found) => {
            let share = found.time.as_secs_f64() / fastest.as_secs_f64() - 1.0;
            Candidate { design, measurement: Some(found), verdict: Choice::Slower(share) }
        }
        Err(error) => Candidate { design, measurement: None, verdict: Choice::Impossible(error) },
    };
    let mut candidates: Vec<Candidate> = measured.into_iter().map(judge).collect();
    candidates.sort_by_key(|candidate| {
        let time = candidate.measurement.as_ref().map(|found| found.time);
        (time.is_none(), time)
    });
    Ok(candidates)
}

/// Designs with the reason why they are not possible; those with one reason together.
fn reasons(measured: &[(String, Result<Measurement, MeasureError>)]) -> String {
    let mut reasons: Vec<(String, &MeasureError)> = Vec::new();
    for (design, result) in measured {
        let Err(error) = result else { continue };
        match reasons.iter_mut().find(|(_, known)| *known == error) {
            Some((designs, _)) => *designs = format!("{designs}, {design}"),
            None => reasons.push((design.clone(), error)),
        }
    }
    let reasons: Vec<_> = reasons.iter().map(|(designs, error)| format!("{designs} ({error})")).collect();
    reasons.join("; ")
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen => f.write_str("chosen"),
            Self::Slower(share) if *share < 0.0005 => f.write_str("as fast"),
            Self::Slower(share) if *share < 1.0 => write!(f, "slower by {:.1}%", share * 100.0),
            Self::Slower(share) => write!(f, "slower by a factor of {:.1}", 1.0 + share),
            Self::Impossible(error) => write!(f, "not possible here: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Contents, Interrupted, Outputs, Request, ignore_progress, measure};
    use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
    use quincunx_designs::CATALOG;
    use quincunx_scenario::Scenario;
    use quincunx_units::{ByteCount, Duration};

    fn measured(design: &str) -> Measurement {
        let scenario = Scenario::find("star-2", &[], CATALOG).unwrap();
        let request = Request {
            design: scenario.design(CATALOG, design).unwrap(),
            scenario,
            collective: Collective::AllGather,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            size: ByteCount::new(64),
            contents: Contents::Numbers,
            background: None,
            seed: 1,
        };
        measure(&request, Outputs::default(), &mut ignore_progress).unwrap()
    }

    /// Candidates that take so many microseconds, or that are not possible.
    fn candidates(times: &[(&str, Option<u64>)]) -> Vec<(String, Result<Measurement, MeasureError>)> {
        let measured = measured("direct");
        let result = |time: Option<u64>| match time {
            Some(time) => Ok(Measurement { time: Duration::from_micros(time), ..measured.clone() }),
            None => Err(Interrupted { after: Duration::ZERO }.into()),
        };
        times.iter().map(|&(design, time)| (design.into(), result(time))).collect()
    }

    fn verdicts(times: &[(&str, Option<u64>)]) -> Vec<String> {
        let chosen = choose(candidates(times)).unwrap();
        chosen.iter().map(|candidate| format!("{}: {}", candidate.design, candidate.verdict)).collect()
    }

    #[test]
    fn the_fastest_is_chosen_and_the_others_are_told_by_how_much_they_are_slower() {
        let times = [("ring", None), ("tree", Some(50)), ("direct", Some(15)), ("epic-3", Some(10))];
        assert_eq!(
            verdicts(&times),
            [
                "epic-3: chosen",
                "direct: slower by 50.0%",
                "tree: slower by a factor of 5.0",
                "ring: not possible here: stopped after 0s of virtual time",
            ]
        );
    }

    #[test]
    fn of_several_that_are_as_fast_the_first_is_chosen() {
        let times = [("tree", Some(20)), ("ring", Some(10)), ("direct", Some(10))];
        assert_eq!(verdicts(&times), ["ring: chosen", "direct: as fast", "tree: slower by a factor of 2.0"]);
    }

    #[test]
    fn a_reason_that_several_share_is_told_once() {
        let refused = choose(candidates(&[("ring", None), ("tree", None)])).unwrap_err().to_string();
        assert_eq!(
            refused,
            "expected a design that is possible here, found none: ring, tree (stopped after 0s of virtual time)"
        );
    }

    #[test]
    fn every_design_of_a_kind_of_fabric_runs_there() {
        for name in Scenario::presets() {
            let scenario = Scenario::find(&name, &[], CATALOG).unwrap();
            let is_routed = scenario.workload.is_some();
            let collective = if is_routed { Collective::Dispatch } else { Collective::AllReduce };
            for design in CATALOG.choices(scenario.kind()) {
                let request = Request {
                    scenario: scenario.clone(),
                    design,
                    // All designs of a mesh gather, and nothing else.
                    collective: if scenario.fabric.domains() > 1 {
                        Collective::AllGather
                    } else {
                        collective
                    },
                    reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
                    size: ByteCount::new(256),
                    contents: Contents::LengthOnly,
                    background: None,
                    seed: 1,
                };
                let result = measure(&request, Outputs::default(), &mut ignore_progress);
                let offers = design.collectives(scenario.kind());
                let is_offered = offers.contains(&request.collective);
                assert_eq!(result.is_ok(), is_offered, "{} on {name}: {:?}", design.name(), result.err());
            }
        }
    }
}
