//! What the manager wants of a switch, core by core, and the one answer that it gets.

use quincunx_collective::GroupId;
use quincunx_control::Report;
use quincunx_control::memory::MovedBlock;
use quincunx_design::{GroupContext, Refusal};
use std::sync::{Arc, Mutex, PoisonError};

/// What a core is to do.
pub(super) struct Task {
    /// With which group, or channel of one, as the engine calls it; none in particular where all of a block move.
    pub(super) group: GroupId,
    pub(super) order: Order,
}

/// The same without whom it is about.
pub(super) enum Order {
    Install(Box<GroupContext>, Arc<Tally>),
    Remove(Arc<Tally>),
    MoveMemory(MovedBlock),
    /// Tells whoever asks when contributions came.
    TellArrivals {
        /// The group, as the manager calls it.
        of: GroupId,
    },
}

/// What is still missing of an answer that several tasks are asked for.
pub(super) struct Tally {
    /// The group, as the manager calls it.
    pub(super) of: GroupId,
    missing: Mutex<Missing>,
}

struct Missing {
    tasks: usize,
    /// What to say when all are done.
    report: Option<Report>,
}

impl Tally {
    /// Of so many tasks for a group, the last of which is answered so, if none of them is refused.
    pub(super) fn new(of: GroupId, tasks: usize, report: Report) -> Arc<Self> {
        Arc::new(Self { of, missing: Mutex::new(Missing { tasks, report: Some(report) }) })
    }

    /// A task is done, or refused: what the manager is to be told, if that was the last one.
    pub(super) fn done(&self, refused: Option<Refusal>) -> Option<Report> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.tasks -= 1;
        if let Some(refusal) = refused {
            missing.report = Some(Report::Refused { reason: refusal.to_string() });
        }
        if missing.tasks == 0 { missing.report.take() } else { None }
    }
}
