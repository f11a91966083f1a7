//! Why there is no prediction.

use crate::MeasureError;
use quincunx_collective::Collective;
use quincunx_language::AcceleratorError;
use quincunx_scenario::ScenarioError;
use quincunx_units::ByteCount;

/// Why there is none.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PredictionError {
    /// The file, or one of its fabrics.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The model, or what it runs on.
    #[error("{0}")]
    Deployment(String),
    /// The accelerator.
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    /// A network with another number of ranks.
    #[error(
        "expected a network of {expected} ranks for the {group} groups of {model}, found {found} on {fabric}; change its size, or `split`"
    )]
    Ranks {
        /// Whose groups.
        group: &'static str,
        /// How many take part in one.
        expected: u32,
        /// How many there are.
        found: u16,
        /// Where.
        fabric: String,
        /// Of which model.
        model: String,
    },
    /// Messages on a fabric that has no rate for them.
    #[error(
        "expected a tree or a memory fabric for messages of {group} groups, found another, {fabric}; choose one"
    )]
    NoRate {
        /// Whose.
        group: &'static str,
        /// Where.
        fabric: String,
    },
    /// None of the designs does what is asked.
    #[error("expected a design that runs there, found none: {reasons}; name one, or change the fabric")]
    NoChoice {
        /// Why not.
        reasons: String,
    },
    /// A trace has no place for it.
    #[error("expected a step of one group of all ranks for a trace, found {what}; leave that out")]
    Untraceable {
        /// What.
        what: &'static str,
    },
    /// Its sum is wrong.
    #[error(
        "{collective} of {size} by {design}: expected right results, found {wrong} wrong elements; this is a fault of the engines"
    )]
    Wrong {
        /// Which.
        collective: Collective,
        /// Its length.
        size: ByteCount,
        /// By which design.
        design: String,
        /// Elements.
        wrong: u64,
    },
    /// A collective has no time.
    #[error("{collective} of {size} by {design} on {fabric}: {error}")]
    Run {
        /// Which.
        collective: Collective,
        /// Its length.
        size: ByteCount,
        /// By which design.
        design: String,
        /// Where.
        fabric: String,
        /// What went wrong.
        error: Box<MeasureError>,
    },
}

impl PredictionError {
    /// Whether a design has added up wrongly.
    pub const fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong { .. })
    }

    /// Whether somebody has stopped it.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Run { error, .. } if matches!(**error, MeasureError::Stopped(_)))
    }
}
