//! Why a file of jobs gives no measurement.

use crate::memory_fabric::RunError;
use crate::packet_fabric::SimulationError;
use crate::session::Interrupted;
use quincunx_scenario::ScenarioError;
use quincunx_units::Duration;

/// Why there is none. All on one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobsError {
    /// Of the scenario, or of a line of the file.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Of the fabric as a whole.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// Of a memory fabric.
    #[error(transparent)]
    Memory(#[from] RunError),
    /// There is no such policy, or a key means nothing on the fabric.
    #[error(transparent)]
    Policy(#[from] quincunx_design::Refusal),
    /// Jobs run on networks of hosts and switches, and of accelerators and switches.
    #[error(
        "expected a fabric of hosts or accelerators at switches for jobs, found {found}; choose one such as leaf-spine-8x4x8"
    )]
    Fabric {
        /// Its name.
        found: String,
    },
    /// Some did not end.
    #[error(
        "expected every job to finish, found {running} of {jobs} still running after {after}; raise measure.limit, or give them less to do"
    )]
    Unfinished {
        /// Jobs that had not finished.
        running: usize,
        /// All of them.
        jobs: usize,
        /// When the run ended.
        after: Duration,
    },
    /// Whoever watches has stopped it.
    #[error(transparent)]
    Stopped(#[from] Interrupted),
}
