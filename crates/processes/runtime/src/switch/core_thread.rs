//! Cores of a switch beyond the first: a thread each, which ends when the switch does, and the switch when one of them does.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use super::core::{Core, ManagerReporter};
use super::task::Task;
use crate::process::RuntimeError;
use quincunx_driver_net::Waker;

/// A core's thread, as the first core sees it.
pub(super) struct CoreThread<'scope> {
    address: IpAddr,
    tasks: Sender<Task>,
    life: Life,
    thread: ScopedJoinHandle<'scope, Result<(), RuntimeError>>,
}

/// Ends the core when it is dropped: also when the first core's thread panics, which then waits for all others.
struct Life {
    is_over: Arc<AtomicBool>,
    waker: Waker,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

impl<'scope> CoreThread<'scope> {
    /// Starts core `number`.
    ///
    /// # Errors
    /// If the process may have no more threads.
    pub(super) fn start<'env, 'core>(
        scope: &'scope Scope<'scope, 'env>,
        (number, core): (usize, &'scope mut Core<'core>),
        to_manager: ManagerReporter<'scope>,
    ) -> Result<Self, RuntimeError> {
        let (address, waker) = (core.address(), core.waker());
        let (tasks, received) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let named = std::thread::Builder::new().name(format!("core{number}"));
        let thread = named.spawn_scoped(scope, move || run(core, &received, &over, to_manager));
        let thread =
            thread.map_err(|error| RuntimeError::CoreEnded { address, reason: error.to_string() })?;
        Ok(Self { address, tasks, life: Life { is_over, waker }, thread })
    }

    /// Has the core do something.
    pub(super) fn hand(&self, task: Task) {
        // A core that has ended is found by the next turn, and the switch ends.
        let _ = self.tasks.send(task);
        self.life.waker.wake();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the core.
    ///
    /// # Errors
    /// If it has ended by itself before.
    pub(super) fn end(self) -> Result<(), RuntimeError> {
        let Self { address, life, thread, .. } = self;
        drop(life);
        outcome(address, thread.join())
    }
}

/// What became of a core's thread.
fn outcome(
    address: IpAddr,
    ended: std::thread::Result<Result<(), RuntimeError>>,
) -> Result<(), RuntimeError> {
    let reason = match ended {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        // The panic has said where.
        Err(_) => "a fault of this program".to_owned(),
    };
    Err(RuntimeError::CoreEnded { address, reason })
}

fn run(
    core: &mut Core<'_>,
    tasks: &Receiver<Task>,
    is_over: &AtomicBool,
    to_manager: ManagerReporter<'_>,
) -> Result<(), RuntimeError> {
    while !is_over.load(Ordering::Relaxed) {
        core.turn(to_manager)?;
        for task in tasks.try_iter() {
            core.carry_out(task, to_manager)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_ends_by_itself_is_named_with_the_reason() {
        let address = IpAddr::from([10, 0, 0, 2]);
        let lost = RuntimeError::Cores { found: "ports" };
        let panicked = std::thread::spawn(|| panic!("as wanted here")).join().map(|()| Ok(()));
        for (ended, reason) in [(Ok(Err(lost)), "ports"), (panicked, "a fault of this program")] {
            let text = outcome(address, ended).unwrap_err().to_string();
            assert!(text.contains("10.0.0.2") && text.contains(reason), "{text}");
        }
        outcome(address, Ok(Ok(()))).unwrap();
    }
}
