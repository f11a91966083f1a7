//! What is under way, and what goes wrong, as Python has it.

use pyo3::exceptions::{PyTimeoutError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use quincunx_comm::{CommError, ParseNameError};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

pyo3::create_exception!(
    _core,
    GroupError,
    pyo3::exceptions::PyRuntimeError,
    "A rank of the group has died or does not answer, or ranks have called different collectives: the group is of no use any more."
);
pyo3::create_exception!(
    _core,
    EndpointError,
    pyo3::exceptions::PyRuntimeError,
    "The endpoint is closed, or has lost its manager or its socket: none of its groups is of use any more."
);

pub(crate) fn raised(error: CommError) -> PyErr {
    let text = error.to_string();
    match error {
        CommError::Misuse(_) => PyValueError::new_err(text),
        CommError::Group(_) => GroupError::new_err(text),
        CommError::Endpoint(_) => EndpointError::new_err(text),
        CommError::TimedOut(_) => PyTimeoutError::new_err(text),
    }
}

/// A type or an operation by its name.
pub(crate) fn named<T: FromStr<Err = ParseNameError>>(found: &str, what: &str) -> PyResult<T> {
    found.parse().map_err(|error: ParseNameError| {
        PyTypeError::new_err(format!(
            "expected {what}, one of {}, found \"{found}\"; convert the data, or name another",
            error.expected
        ))
    })
}

/// How long, from seconds; `None` is the group's own limit.
pub(crate) fn seconds(limit: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(limit).map_err(|_| {
        PyValueError::new_err(format!(
            "expected a time of zero seconds or more, found {limit}; correct the time-out"
        ))
    })
}

/// Something under way. Its memory is kept until it has ended, whatever becomes of the handle.
#[pyclass(frozen, module = "quincunx._core")]
pub(crate) struct Handle {
    handle: quincunx_comm::Handle,
    sender: Option<Arc<AtomicU16>>,
}

impl Handle {
    pub(crate) const fn of(handle: quincunx_comm::Handle) -> Self {
        Self { handle, sender: None }
    }

    /// Of a message from anybody, of whom the second will say who it was.
    pub(crate) const fn from_anybody(handle: quincunx_comm::Handle, sender: Option<Arc<AtomicU16>>) -> Self {
        Self { handle, sender }
    }
}

#[pymethods]
impl Handle {
    /// Waits for the end without the interpreter's lock, looking for signals between waits; whether it has ended.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let end = timeout.map(|limit| seconds(limit).map(quincunx_comm::deadline)).transpose()?;
        if let Some(outcome) = self.handle.outcome() {
            return outcome.map(|()| true).map_err(raised);
        }
        loop {
            let step = Duration::from_millis(100);
            let left =
                end.map_or(step, |end| end.saturating_duration_since(std::time::Instant::now()).min(step));
            if let Some(outcome) = py.detach(|| self.handle.wait_for(left)) {
                return outcome.map(|()| true).map_err(raised);
            }
            py.check_signals()?;
            if end.is_some_and(|end| end <= std::time::Instant::now()) {
                return Ok(false);
            }
        }
    }

    fn done(&self) -> bool {
        self.handle.outcome().is_some()
    }

    /// What it has met, if it has ended badly.
    fn exception(&self) -> Option<PyErr> {
        self.handle.outcome().and_then(Result::err).map(raised)
    }

    /// Who has sent what was received from anybody.
    #[getter]
    fn sender(&self) -> Option<u16> {
        let ended = self.handle.outcome().is_some();
        self.sender.as_ref().filter(|_| ended).map(|sender| sender.load(Ordering::Relaxed))
    }
}
