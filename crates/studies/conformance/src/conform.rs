//! Whether a trial comes out the same on all drivers, in one call: for a design of any catalog.

use quincunx_collective::Provenance;

use crate::{DRIVERS, Explored, Run, RunError, Trial, explore_every_run};

/// How a driver's run is not what it must be, in a line.
#[derive(Debug, thiserror::Error)]
pub enum Nonconformity {
    /// It does not come to its end, or is refused.
    #[error("{driver}: {error}")]
    Run {
        /// Of the driver.
        driver: &'static str,
        /// Why.
        error: RunError,
    },
    /// A rank gets something else.
    #[error("{driver}: expected the collective's own results, found others")]
    Result {
        /// Of the driver.
        driver: &'static str,
    },
    /// Two drivers' runs differ in what is compared.
    #[error("{driver}: expected what {first} sends, found something else")]
    Sent {
        /// Of the driver.
        driver: &'static str,
        /// Whose run it is held against.
        first: &'static str,
    },
    /// The checker's results are not all those of virtual time.
    #[error("driver-check: expected {expected} of every run, found {found} results")]
    Outcomes {
        /// Who has contributed to what, in virtual time.
        expected: Provenance,
        /// How many different ones there are.
        found: usize,
    },
    /// A request that the checker has in no run.
    #[error("{driver}: expected requests that some run of driver-check has, found {header}")]
    Request {
        /// Of the driver.
        driver: &'static str,
        /// The request's header.
        header: String,
    },
}

/// A run of each of [`DRIVERS`], with its name: all ranks have the right results, which a trial of real numbers does not promise unless
/// the design sets the order of its terms.
///
/// # Errors
/// If one does not end, or its results are wrong.
fn run_right(trial: &Trial) -> Result<[(&'static str, Run); DRIVERS.len()], Nonconformity> {
    let expected = trial.expected();
    let mut runs = Vec::new();
    for (driver, drive) in DRIVERS {
        let run = drive(trial).map_err(|error| Nonconformity::Run { driver, error })?;
        if run.outputs != expected {
            return Err(Nonconformity::Result { driver });
        }
        runs.push((driver, run));
    }
    Ok(runs.try_into().unwrap_or_else(|_| unreachable!("a run a driver")))
}

/// Holds runs against all that the checker finds, of which there are at most `states` states.
///
/// # Errors
/// If one of all runs is wrong, there are more states, or the checker has not seen what the runs did.
pub fn explore_beside(
    trial: &Trial,
    runs: &[(&'static str, &Run)],
    states: u64,
) -> Result<Explored, Nonconformity> {
    let fault = |driver| move |error| Nonconformity::Run { driver, error };
    let explored = explore_every_run(trial, states).map_err(fault("driver-check"))?;
    let counted = trial.contributions().map_err(fault("driver-des"))?;
    for (all, expected) in explored.outcomes.iter().zip(counted) {
        if all != std::slice::from_ref(&expected) {
            return Err(Nonconformity::Outcomes { expected, found: all.len() });
        }
    }
    for &(driver, run) in runs {
        if let Some(header) = explored.unknown_requests(run).first() {
            return Err(Nonconformity::Request { driver, header: format!("{header:?}") });
        }
    }
    Ok(explored)
}

/// Runs a trial everywhere: results are right, [`DRIVERS`] agree in what `view` has of their runs ([`Run::first_transmissions`] is the
/// strictest that holds for most designs), and the checker, of whose states there are at most `states`, has seen all that.
///
/// # Errors
/// The first of what is not so.
pub fn conform<V: PartialEq>(
    trial: &Trial,
    view: impl Fn(&Run) -> V,
    states: u64,
) -> Result<Explored, Nonconformity> {
    let runs = run_right(trial)?;
    let [(first, expected), others @ ..] = &runs;
    for (driver, run) in others {
        if view(run) != view(expected) {
            return Err(Nonconformity::Sent { driver, first });
        }
    }
    explore_beside(trial, &runs.each_ref().map(|(driver, run)| (*driver, run)), states)
}
