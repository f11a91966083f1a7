//! Releases that the manager has not heard.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Releases that are on their way.
#[derive(Debug, Default)]
pub(super) struct Releases {
    pub(super) count: Mutex<usize>,
    pub(super) changed: Condvar,
}

/// One of them, until it is dropped.
pub(super) struct OnItsWay(Arc<Releases>);

impl OnItsWay {
    pub(super) fn new(releases: &Arc<Releases>) -> Self {
        *releases.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(Arc::clone(releases))
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.changed.notify_all();
    }
}
