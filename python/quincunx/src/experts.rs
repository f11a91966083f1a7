//! Experts on the ranks of a group: what goes to them and what comes back.

use crate::handle::{Handle, named, raised};
use crate::memory::{Memory, Pending};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use quincunx_comm::{Arrival, CallSite, DataType, Op, Place, Sink, TokenBatch};
use std::sync::{Arc, Mutex, PoisonError};

/// Experts on the ranks of a group.
#[pyclass(frozen, module = "quincunx._core")]
pub(crate) struct Experts(pub(crate) quincunx_comm::Experts);

/// What is known of the tokens that have come, in the order of their coming.
#[derive(Default)]
struct Known {
    sources: Vec<u16>,
    numbers: Vec<u32>,
    experts: Vec<u16>,
    weights: Vec<f32>,
}

/// A dispatch under way, or what it has brought.
#[pyclass(frozen, module = "quincunx._core")]
pub(crate) struct Dispatch {
    dispatch: quincunx_comm::Dispatch,
    known: Arc<Mutex<Known>>,
}

fn site(at: Option<(&str, u32)>) -> Option<CallSite> {
    at.map(|(file, line)| CallSite::Other(Place { file: file.into(), line }))
}

#[pymethods]
impl Experts {
    #[getter]
    fn design(&self) -> String {
        self.0.design().to_owned()
    }

    /// The first of this rank's experts, and the one after the last.
    #[getter]
    fn own(&self) -> (u16, u16) {
        let own = self.0.own();
        (own.start, own.end)
    }

    /// Tokens that may come here at most.
    #[getter]
    fn room(&self) -> usize {
        usize::from(self.0.group().size()) * self.0.layout().tokens as usize
    }

    fn close(&self) {
        self.0.close();
    }

    /// Begins to bring tokens of `length` bytes to their experts; `sink` has room for all that may come, one after the other.
    #[pyo3(signature = (source, length, experts, weights, sink, *, incoming=None, at=None))]
    #[expect(clippy::too_many_arguments, reason = "as many as a dispatch has")]
    fn dispatch(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        length: usize,
        experts: Vec<u16>,
        weights: Option<Vec<f32>>,
        sink: &Bound<'_, PyAny>,
        incoming: Option<Vec<usize>>,
        at: Option<(&str, u32)>,
    ) -> PyResult<Dispatch> {
        let (source, sink) = (Memory::of(source, false)?, Memory::of(sink, true)?);
        let room = self.room().saturating_mul(length);
        if sink.length() < room {
            return Err(PyValueError::new_err(format!(
                "expected room for {} tokens of {length} bytes, found {} bytes; give a larger output",
                self.room(),
                sink.length()
            )));
        }
        Pending::ensure_unused(py, Some(&source), Some(&sink), false)?;
        let known: Arc<Mutex<Known>> = Arc::default();
        let (told, mut into, mut next) = (Arc::clone(&known), sink.sink(), 0);
        let receiver = move |token: Arrival<'_>| {
            into.write(next, token.token);
            next += length;
            let mut known = told.lock().unwrap_or_else(PoisonError::into_inner);
            known.sources.push(token.source);
            known.numbers.push(token.number);
            for (expert, weight) in token.choices() {
                known.experts.push(expert);
                known.weights.push(weight);
            }
        };
        let batch = TokenBatch {
            source: Box::new(source.source()),
            length,
            experts: &experts,
            weights: weights.as_deref(),
            incoming: incoming.as_deref(),
        };
        let dispatch = self.0.dispatch(site(at), batch, Box::new(receiver)).map_err(raised)?;
        Pending::keep(py, dispatch.handle(), Some(source), Some(sink));
        Ok(Dispatch { dispatch, known })
    }

    /// Begins to add up what ranks have made of the tokens of the last dispatch, in vectors of `length` bytes.
    #[pyo3(signature = (dispatch, source, sink, length, element, op, *, at=None))]
    #[expect(clippy::too_many_arguments, reason = "as many as a combine has")]
    fn combine(
        &self,
        py: Python<'_>,
        dispatch: &Dispatch,
        source: &Bound<'_, PyAny>,
        sink: &Bound<'_, PyAny>,
        length: usize,
        element: &str,
        op: &str,
        at: Option<(&str, u32)>,
    ) -> PyResult<Handle> {
        let (source, sink) = (Memory::of(source, false)?, Memory::of(sink, true)?);
        let reduction = (named::<DataType>(element, "a type of elements")?, named::<Op>(op, "an operation")?);
        Pending::ensure_unused(py, Some(&source), Some(&sink), false)?;
        let sides: (Box<dyn quincunx_comm::Source>, Box<dyn Sink>) =
            (Box::new(source.source()), Box::new(sink.sink()));
        let handle =
            self.0.combine(site(at), &dispatch.dispatch, reduction, length, sides).map_err(raised)?;
        Pending::keep(py, &handle, Some(source), Some(sink));
        Ok(Handle::of(handle))
    }
}

impl Dispatch {
    fn known<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Dispatch {
    #[getter]
    fn handle(&self) -> Handle {
        Handle::of(self.dispatch.handle().clone())
    }

    /// Tokens that have come: none before the end.
    #[getter]
    fn count(&self) -> usize {
        self.dispatch.count()
    }

    #[getter]
    fn sources(&self) -> Vec<u16> {
        self.known(|known| known.sources.clone())
    }

    #[getter]
    fn numbers(&self) -> Vec<u32> {
        self.known(|known| known.numbers.clone())
    }

    #[getter]
    fn experts(&self) -> Vec<u16> {
        self.known(|known| known.experts.clone())
    }

    #[getter]
    fn weights(&self) -> Vec<f32> {
        self.known(|known| known.weights.clone())
    }
}
