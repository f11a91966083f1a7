//! What is under way: to be waited for, asked after, or left to a call at its end.

use crate::CommError;
use crate::options::deadline;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Outcome = Result<(), CommError>;
type Call = Box<dyn FnOnce(&Outcome) + Send>;

/// A collective or a message under way. Dropping it does not end it.
#[derive(Clone, Debug)]
pub struct Handle(Arc<State>);

struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Where it ends: nowhere else does anybody say so.
    process: u32,
}

#[derive(Default)]
struct Inner {
    outcome: Option<Outcome>,
    calls: Vec<Call>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// The other end: says once how it ended. One that is dropped says that the endpoint was closed, or has met a fault.
#[derive(Debug)]
pub(crate) struct Promise(Option<Arc<State>>);

/// A handle, and who ends it.
pub(crate) fn pair() -> (Promise, Handle) {
    let state =
        Arc::new(State { inner: Mutex::default(), changed: Condvar::new(), process: std::process::id() });
    (Promise(Some(Arc::clone(&state))), Handle(state))
}

impl Promise {
    pub(crate) fn end(mut self, outcome: Outcome) {
        if let Some(state) = self.0.take() {
            state.end(outcome);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            let is_fault = std::thread::panicking();
            state.end(Err(if is_fault { CommError::fault() } else { CommError::closed() }));
        }
    }
}

impl State {
    /// A forked child has this lock as it was, too.
    fn check_process(&self) -> Result<(), CommError> {
        if self.process == std::process::id() { Ok(()) } else { Err(CommError::forked()) }
    }

    fn end(&self, outcome: Outcome) {
        let calls = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.outcome = Some(outcome.clone());
            std::mem::take(&mut inner.calls)
        };
        self.changed.notify_all();
        for call in calls {
            call(&outcome);
        }
    }
}

impl Handle {
    /// Waits for the end.
    ///
    /// # Errors
    /// What it has met.
    pub fn wait(&self) -> Result<(), CommError> {
        self.0.check_process()?;
        let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &inner.outcome {
                return outcome.clone();
            }
            inner = self.0.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the end, but no longer than `limit`; `None` if it is under way still.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<(), CommError>> {
        if let Err(forked) = self.0.check_process() {
            return Some(Err(forked));
        }
        let end = deadline(limit);
        let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &inner.outcome {
                return Some(outcome.clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            inner = self.0.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How it has ended, if it has.
    pub fn outcome(&self) -> Option<Result<(), CommError>> {
        if let Err(forked) = self.0.check_process() {
            return Some(Err(forked));
        }
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner).outcome.clone()
    }

    /// Has `call` made at the end, by the node's thread, or at once if it has ended. It must be short, and must not wait for another handle.
    pub fn then(&self, call: impl FnOnce(&Result<(), CommError>) + Send + 'static) {
        if let Err(forked) = self.0.check_process() {
            return call(&Err(forked));
        }
        let outcome = {
            let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
            match &inner.outcome {
                Some(outcome) => outcome.clone(),
                None => return inner.calls.push(Box::new(call)),
            }
        };
        call(&outcome);
    }
}
