//! Many simulations on all processors, each on one thread, with results in the order of the jobs whatever ends first.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

/// Does `jobs`, begun in their order, as many at once as there are processors, and hands each result with the job's number
/// to `each` on the calling thread: in the order of the jobs, as soon as those before are there, too.
///
/// Once `stop` is set no further job begins; `run` looks at it to end early. Results that are there are still handed
/// over, in their order, with gaps. `each` may break off, which sets `stop`, and is not called again.
pub fn sweep<J: Send, R: Send>(
    jobs: Vec<J>,
    stop: &AtomicBool,
    run: impl Fn(J) -> R + Sync,
    mut each: impl FnMut(usize, R) -> ControlFlow<()>,
) {
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(jobs.len());
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let (results, received) = mpsc::channel();
    let worker = |results: mpsc::Sender<(usize, R)>| {
        while !stop.load(Ordering::Relaxed) {
            let job = queue.lock().expect("no worker panics while it holds the queue").next();
            let Some((index, job)) = job else { return };
            if results.send((index, run(job))).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let results = results.clone();
            scope.spawn(|| worker(results));
        }
        drop(results);
        let (mut early, mut next) = (BTreeMap::new(), 0);
        let mut hand_over = |index, result| {
            let flow = each(index, result);
            if flow.is_break() {
                stop.store(true, Ordering::Relaxed);
            }
            flow
        };
        for (index, result) in received {
            early.insert(index, result);
            while let Some(result) = early.remove(&next) {
                if hand_over(next, result).is_break() {
                    return;
                }
                next += 1;
            }
        }
        for (index, result) in early {
            if hand_over(index, result).is_break() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let mut order = Vec::new();
        let run = |job: u64| {
            // The first ones take longest.
            std::thread::sleep(Duration::from_millis(job));
            job
        };
        sweep((0..8).rev().collect(), &AtomicBool::new(false), run, |index, job| {
            order.push((index as u64, job));
            GO_ON
        });
        assert_eq!(order, (0..8).map(|index| (index, 7 - index)).collect::<Vec<_>>());
    }

    #[test]
    fn no_job_begins_once_it_is_stopped_and_what_is_there_is_handed_over() {
        let stop = AtomicBool::new(false);
        let mut done = Vec::new();
        let run = |job: u32| {
            if job == 3 {
                stop.store(true, Ordering::Relaxed);
            }
            job
        };
        sweep((0..1000).collect(), &stop, run, |_, job| {
            done.push(job);
            GO_ON
        });
        assert!(done.contains(&3) && done.len() < 1000, "{done:?}");
        assert!(done.is_sorted());
    }

    #[test]
    fn whoever_gets_the_results_can_break_off() {
        let stop = AtomicBool::new(false);
        let mut calls = 0;
        sweep(
            (0..1000).collect::<Vec<u32>>(),
            &stop,
            |job| job,
            |_, _| {
                calls += 1;
                ControlFlow::Break(())
            },
        );
        assert_eq!(calls, 1);
        assert!(stop.into_inner());
    }

    #[test]
    fn nothing_to_do_is_done() {
        sweep(Vec::<u32>::new(), &AtomicBool::new(false), |job| job, |_, _| panic!("there was no job"));
    }
}
