//! A run in virtual time, whatever its fabric: how far it has come, who is told so, and who may stop it. All loops over a simulation's
//! events are around [`Session::next`].

use crate::progress::{Progress, ProgressFn, STEPS_A_REPORT};
use quincunx_driver_des::{Emitted, Limits, Medium, Observer, Simulation, Stopped};
use quincunx_engine::Engine;
use quincunx_units::{Duration, Instant};

/// Whoever watches has stopped a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stopped after {after} of virtual time")]
pub struct Interrupted {
    /// When.
    pub after: Duration,
}

/// What runs in virtual time.
pub(crate) trait Runs {
    /// What its nodes tell.
    type Event;

    /// As [`Simulation::run`].
    fn run(&mut self, limits: Limits) -> Stopped<Self::Event>;

    /// How far it has come.
    fn progress(&self) -> Progress;
}

impl<E: Engine, M: Medium<E>, O: Observer<E>> Runs for Simulation<E, M, O> {
    type Event = E::Event;

    fn run(&mut self, limits: Limits) -> Stopped<E::Event> {
        Self::run(self, limits)
    }

    fn progress(&self) -> Progress {
        Progress { now: self.now(), steps: self.steps(), share: None }
    }
}

/// A run, and who hears how far it has come.
pub(crate) struct Session<'a> {
    start: Instant,
    /// When that is told again.
    steps: u64,
    progress: ProgressFn<'a>,
}

/// What comes next.
pub(crate) enum Next<T> {
    /// A node has told something.
    Event(Emitted<T>),
    /// Nothing is due any more, ever.
    Idle,
    /// Nothing before the time that was given.
    TimeLimit,
}

impl<'a> Session<'a> {
    /// Of what has come so far.
    pub(crate) fn new(at: Progress, progress: ProgressFn<'a>) -> Self {
        Self { start: at.now, steps: at.steps + STEPS_A_REPORT, progress }
    }

    /// Runs until a node tells something, or the time has come; progress is told now and then.
    pub(crate) fn next<R: Runs>(
        &mut self,
        runs: &mut R,
        until: Instant,
    ) -> Result<Next<R::Event>, Interrupted> {
        loop {
            match runs.run(Limits { time: until, steps: self.steps }) {
                Stopped::Event(event) => return Ok(Next::Event(event)),
                Stopped::Idle => return Ok(Next::Idle),
                Stopped::TimeLimit => return Ok(Next::TimeLimit),
                Stopped::StepLimit => {
                    self.tell(runs.progress())?;
                    self.steps += STEPS_A_REPORT;
                }
            }
        }
    }

    /// Tells how far the run has come.
    pub(crate) fn tell(&mut self, at: Progress) -> Result<(), Interrupted> {
        match (self.progress)(at).is_break() {
            true => Err(Interrupted { after: at.now.since(self.start) }),
            false => Ok(()),
        }
    }
}
