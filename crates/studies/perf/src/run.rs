//! Runs a plan on a fabric and collects what its ranks measure.

use quincunx_design::{Catalog, Refusal};
use quincunx_runtime::Drops;
use quincunx_wire::Framing;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LaunchError;
use crate::launch::Processes;
use crate::measured::Measured;
use crate::plan::{Case, GroupsSetup, Plan};
use crate::row::Row;

/// How long the others may go on when a rank has ended early: they find that out themselves, but where they wait for it to join.
const GRACE: Duration = Duration::from_secs(3);

/// Why a run has no result, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The processes.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A case's design.
    #[error(transparent)]
    Design(#[from] Refusal),
    /// Ranks ended early.
    #[error("{cause} ({failed} of {ranks} ranks ended early)")]
    RanksFailed {
        /// What the first of them said that said anything.
        cause: String,
        /// How many.
        failed: usize,
        /// How many there are.
        ranks: usize,
    },
    /// A rank said something else than a measurement.
    #[error("expected a measurement, found \"{found}\"; use the same build for all processes")]
    Measurement {
        /// What it said.
        found: String,
    },
}

/// Runs `plan` on processes that `start` starts for each framing: consecutive cases whose designs' frames travel alike share them. Hands
/// out rows and counts as [`run`] does; adds to `drops` what each switch has dropped, by reason, whatever becomes of the run.
///
/// # Errors
/// As [`run`], or if processes cannot be started, or a design is none of the catalog's.
pub fn run_by_framing(
    catalog: Catalog,
    plan: &Plan,
    mut start: impl FnMut(Framing) -> Result<Processes, LaunchError>,
    mut each: impl FnMut(Row),
    drops: &mut BTreeMap<String, Drops>,
) -> Result<u64, PerfError> {
    let framing = |case: &Case| catalog.named(&case.design).map(|design| design.about().framing);
    let mut wrong = 0;
    // The library attaches for one design.
    let shares = |one: &Case, next: &Case| {
        framing(one).ok() == framing(next).ok() && (!one.is_for_the_library() || one.design == next.design)
    };
    for cases in plan.cases.chunk_by(shares) {
        let framing = framing(&cases[0])?;
        let part = Plan { setup: plan.setup.clone(), cases: cases.to_vec() };
        let mut fabric = start(framing)?;
        let done = run(&mut fabric, &part, &mut each);
        for (switch, dropped) in fabric.end_switches() {
            let of_switch = drops.entry(switch).or_default();
            for (reason, frames) in dropped {
                *of_switch.entry(reason).or_default() += frames;
            }
        }
        wrong += done?;
    }
    Ok(wrong)
}

/// Runs `plan` on ranks that it starts in `fabric`; hands out each case's row as soon as all ranks have it. Returns how many
/// elements were wrong, all rows together.
///
/// # Errors
/// If the ranks cannot be started or do not finish. Rows handed out before are good.
pub fn run(fabric: &mut Processes, plan: &Plan, mut each: impl FnMut(Row)) -> Result<u64, PerfError> {
    let setup = GroupsSetup { switch_processes: fabric.switch_processes(), ..plan.setup.clone() };
    let json =
        serde_json::to_string(&Plan { setup, cases: plan.cases.clone() }).expect("a plan is plain data");
    let outputs = fabric.start_ranks(&json)?;
    let ranks = outputs.len();
    let (lines, all) = mpsc::channel();
    let readers: Vec<_> = outputs
        .into_iter()
        .enumerate()
        .map(|(rank, output)| {
            let lines = lines.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if lines.send((rank, Some(line))).is_err() {
                        return;
                    }
                }
                let _ = lines.send((rank, None));
            })
        })
        .collect();
    drop(lines);
    let mut measured: Vec<Vec<(usize, Measured)>> = vec![Vec::new(); plan.cases.len()];
    let mut wrong = 0;
    let mut left = vec![plan.cases.len(); ranks];
    let mut end: Option<Instant> = None;
    loop {
        let next = match end {
            None => all.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(end) => all.recv_timeout(end.saturating_duration_since(Instant::now())),
        };
        let (rank, line) = match next {
            Ok((rank, Some(line))) => (rank, line),
            Ok((rank, None)) => {
                if left[rank] > 0 {
                    end.get_or_insert(Instant::now() + GRACE);
                }
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let members = fabric.members();
                let late: Vec<&String> =
                    members.iter().zip(&left).filter(|(_, left)| **left > 0).map(|(name, _)| name).collect();
                fabric.end_ranks(&late);
                end = None;
                left.fill(0);
                continue;
            }
        };
        left[rank] = left[rank].saturating_sub(1);
        let one: Measured =
            serde_json::from_str(&line).map_err(|_| PerfError::Measurement { found: line.clone() })?;
        let Some(case) = plan.cases.get(one.case) else {
            return Err(PerfError::Measurement { found: line });
        };
        let index = one.case;
        measured[index].push((rank, one));
        if measured[index].len() == ranks {
            measured[index].sort_by_key(|(rank, _)| *rank);
            let of_case: Vec<Measured> = measured[index].drain(..).map(|(_, one)| one).collect();
            let row = Row::new(case, &of_case);
            wrong += row.wrong;
            each(row);
        }
    }
    for reader in readers {
        let _ = reader.join();
    }
    let failed = fabric.wait_for_ranks();
    let cause = fabric.errors_of_ranks().into_iter().next();
    let silent = || {
        format!(
            "expected all ranks to finish, but {} said nothing; see whether it was killed",
            failed.join(", ")
        )
    };
    if failed.is_empty() {
        return Ok(wrong);
    }
    Err(PerfError::RanksFailed { cause: cause.unwrap_or_else(silent), failed: failed.len(), ranks })
}
