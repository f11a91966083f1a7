//! Makes a plan that fails smaller, as long as it breaks the same promise: fewer faults, jobs, ranks, collectives; shorter; fairer weather.

use crate::plan::Plan;
use crate::promises::Promise;
use crate::run::{Setup, Telling, run};
use quincunx_units::Duration;

/// The smallest plan that was found to break the same promise, and after how many runs. Before each `goes_on` is asked, with how many there were.
pub fn shrink(
    plan: &Plan,
    promise: Promise,
    setup: Setup,
    mut goes_on: impl FnMut(u32) -> bool,
) -> (Plan, u32) {
    let mut best = plan.clone();
    let mut runs = 0;
    let mut candidates = smaller(&best).into_iter();
    while let Some(candidate) = candidates.next()
        && goes_on(runs)
    {
        runs += 1;
        let outcome = run(&candidate, setup, Telling::Nothing);
        let broken = outcome.ok().and_then(|outcome| outcome.violation);
        if broken.is_some_and(|violation| violation.promise == promise) {
            candidates = smaller(&candidate).into_iter();
            best = candidate;
        }
    }
    (best, runs)
}

/// Plans with a little less in them, those first that lack most.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        if candidate != *plan {
            plans.push(candidate);
        }
    };
    let faults = plan.faults.len();
    let mut size = faults;
    while size > 0 {
        for from in (0..faults).step_by(size) {
            with(&|plan| _ = plan.faults.drain(from..(from + size).min(faults)));
        }
        size /= 2;
    }
    for job in 0..plan.jobs.len() {
        if plan.jobs.len() > 1 {
            with(&|plan| _ = plan.jobs.remove(job));
        }
        if plan.jobs[job].hosts.len() > 2 {
            with(&|plan| _ = plan.jobs[job].hosts.pop());
        }
        with(&|plan| plan.jobs[job].lease = None);
        with(&|plan| plan.jobs[job].mistake = None);
        for key in plan.jobs[job].settings.keys() {
            with(&|plan| _ = plan.jobs[job].settings.remove(key));
        }
        with(&|plan| plan.jobs[job].elements = 8);
        with(&|plan| plan.jobs[job].pause = Duration::ZERO);
        with(&|plan| plan.jobs[job].collectives = 1.max(plan.jobs[job].collectives / 2));
    }
    with(&|plan| plan.clocks.clear());
    with(&|plan| plan.weather.corruption = 0);
    with(&|plan| plan.weather.late = 0);
    with(&|plan| plan.weather.copies = 0);
    with(&|plan| plan.weather.loss = 0);
    let end = plan.faults.iter().map(|fault| fault.at + fault.lasts).max().unwrap_or(Duration::from_secs(2));
    with(&|plan| plan.calm_at = end + Duration::from_millis(10));
    plans
}
