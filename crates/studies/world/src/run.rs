//! One run of a plan, and what came of it.

use crate::coverage::Coverage;
use crate::plan::Plan;
use crate::planted::Planted;
use crate::promises::{Promise, Violation};
use crate::settings;
use crate::story::Story;
use crate::world::World;
use quincunx_design::Catalog;
use quincunx_units::{Duration, Instant};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What plans are run with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The designs that there are.
    pub catalog: Catalog,
    /// What groups fall back to among hosts, by name.
    pub fallback: Option<&'static str>,
}

/// Whether a run says what happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Telling {
    /// It says nothing.
    Nothing,
    /// A line for each thing that happens to a process, and frames.
    Story,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// How long the run took in the cluster.
    pub time: Duration,
    /// What happened in it.
    pub steps: u64,
    /// A number that two runs of one plan have in common.
    pub digest: u64,
    /// What was met.
    pub coverage: Coverage,
    /// What has happened, if it was to be told.
    pub story: Story,
}

/// Runs a plan.
///
/// # Errors
/// One line, if the plan names a design or a planted bug that there is not.
pub fn run(plan: &Plan, setup: Setup, telling: Telling) -> Result<Outcome, String> {
    for job in &plan.jobs {
        let design = setup.catalog.named(&job.design).map_err(|error| error.to_string())?;
        settings::of(design, &job.settings).map_err(|refusal| refusal.to_string())?;
    }
    let planted = match &plan.mutation {
        Some(name) => Planted::find(setup.catalog, name)?,
        None => Planted::default(),
    };
    let tells = telling == Telling::Story;
    let mut world = World::new(plan, setup.catalog, setup.fallback, planted, tells);
    let panicked = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let time = world.now().since(Instant::ZERO);
    let violation = match panicked {
        Some(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
            let what = text.lines().next().unwrap_or_default().to_owned();
            Some(Violation { promise: Promise::NoPanic, at: time, what })
        }
        None => world.checker.violations().first().cloned(),
    };
    let coverage = world.coverage();
    Ok(Outcome {
        violation,
        time,
        steps: world.steps,
        digest: world.digest(),
        coverage,
        story: world.take_story(),
    })
}
