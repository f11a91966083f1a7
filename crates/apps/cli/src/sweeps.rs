//! Many runs, as long as none fails and nobody stops them.

use quincunx_sim::sweep;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

/// Does all `cases` and hands each result to `done`, in their order, until one fails. What somebody has stopped is no failure: `stopped` says
/// what it was, and when. All that was stopped.
pub(crate) fn run_all<C: Send, R: Send, E: Send>(
    cases: Vec<C>,
    stop: &AtomicBool,
    run: impl Fn(C) -> Result<R, E> + Sync,
    stopped: impl Fn(usize, &E) -> Option<String>,
    mut done: impl FnMut(usize, R),
) -> Result<Vec<String>, E> {
    let (mut failed, mut interrupted) = (None, Vec::new());
    sweep(cases, stop, run, |place, result| {
        match result.map_err(|error| (stopped(place, &error), error)) {
            Ok(found) => done(place, found),
            Err((Some(what), _)) => interrupted.push(what),
            Err((None, error)) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(interrupted), Err)
}
