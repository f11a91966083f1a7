//! Memory of Python's objects: by the buffer protocol, or as an address with its owner. It is kept while something under way uses it.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use quincunx_comm::{BorrowedSink, BorrowedSource, Handle, Operation};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Memory, and what keeps it.
pub(crate) struct Memory {
    address: usize,
    length: usize,
    /// Never looked at: what it keeps is in use.
    _owner: Owner,
}

enum Owner {
    Buffer { _kept: PyUntypedBuffer },
    Object { _kept: Py<PyAny> },
}

impl Memory {
    /// The memory of an object with a contiguous buffer, or of (address, bytes, owner).
    pub(crate) fn of(object: &Bound<'_, PyAny>, is_written: bool) -> PyResult<Self> {
        if let Ok((address, length, owner)) = object.extract::<(usize, usize, Py<PyAny>)>() {
            return Ok(Self { address, length, _owner: Owner::Object { _kept: owner } });
        }
        let buffer = PyUntypedBuffer::get(object).map_err(|error| {
            let found = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
            if error.is_instance_of::<PyBufferError>(object.py()) {
                error
            } else {
                PyTypeError::new_err(format!(
                    "expected an object with a buffer, found {found}; give a NumPy array, a bytearray or another such object"
                ))
            }
        })?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "expected contiguous memory, found strides; copy it first, as numpy.ascontiguousarray does",
            ));
        }
        if is_written && buffer.readonly() {
            return Err(PyBufferError::new_err(
                "expected memory that may be written, found a read-only buffer; give a writable one",
            ));
        }
        Ok(Self {
            address: buffer.buf_ptr() as usize,
            length: buffer.len_bytes(),
            _owner: Owner::Buffer { _kept: buffer },
        })
    }

    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    fn overlaps(&self, (address, length): (usize, usize)) -> bool {
        self.length > 0
            && length > 0
            && self.address < address + length
            && address < self.address + self.length
    }

    fn range(&self) -> (usize, usize) {
        (self.address, self.length)
    }

    #[expect(unsafe_code, reason = "the owner is kept until the operation has ended")]
    pub(crate) fn source(&self) -> BorrowedSource {
        // SAFETY: the owner is kept in `PENDING` until the handle has ended, and overlaps with what others write are refused.
        unsafe { BorrowedSource::new(self.address as *const u8, self.length) }
    }

    #[expect(unsafe_code, reason = "the owner is kept until the operation has ended")]
    pub(crate) fn sink(&self) -> BorrowedSink {
        // SAFETY: as above; that Python code does not look meanwhile is the caller's promise, as with every asynchronous call.
        unsafe { BorrowedSink::new(self.address as *mut u8, self.length) }
    }
}

/// Refuses source and sink that overlap otherwise than in place.
pub(crate) fn check(
    operation: Operation,
    rank: u16,
    source: Option<&Memory>,
    sink: Option<&Memory>,
) -> PyResult<()> {
    let (Some(source), Some(sink)) = (source, sink) else { return Ok(()) };
    if !source.overlaps(sink.range()) {
        return Ok(());
    }
    let rank = usize::from(rank);
    let in_place = match operation {
        Operation::AllReduce(..) | Operation::Reduce(..) | Operation::Broadcast(..) => {
            source.range() == sink.range()
        }
        Operation::ReduceScatter(..) => sink.address == source.address + rank * sink.length,
        Operation::AllGather(_) => source.address == sink.address + rank * source.length,
        _ => false,
    };
    if in_place {
        return Ok(());
    }
    Err(PyBufferError::new_err(
        "expected input and output apart, or the same for an operation in place, found memory that overlaps; copy one of them",
    ))
}

/// What is under way, with the memory that it uses.
pub(crate) struct Pending {
    handle: Handle,
    source: Option<Memory>,
    sink: Option<Memory>,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

impl Pending {
    fn clashes(&self, source: Option<&Memory>, sink: Option<&Memory>) -> bool {
        let overlap = |one: Option<&Memory>, other: Option<&Memory>| {
            one.zip(other).is_some_and(|(one, other)| one.overlaps(other.range()))
        };
        overlap(self.sink.as_ref(), source)
            || overlap(self.sink.as_ref(), sink)
            || overlap(self.source.as_ref(), sink)
    }

    /// Sees that nothing under way uses the memory: waits for it, or refuses.
    pub(crate) fn ensure_unused(
        py: Python<'_>,
        source: Option<&Memory>,
        sink: Option<&Memory>,
        wait: bool,
    ) -> PyResult<()> {
        loop {
            let busy = Self::with(|pending| {
                let busy =
                    pending.iter().find(|one| one.handle.outcome().is_none() && one.clashes(source, sink));
                busy.map(|one| one.handle.clone())
            });
            let Some(handle) = busy else { return Ok(()) };
            if !wait {
                return Err(PyBufferError::new_err(
                    "expected memory that nothing else under way uses, found some that is; wait for that first",
                ));
            }
            while py.detach(|| handle.wait_for(Duration::from_millis(100))).is_none() {
                py.check_signals()?;
            }
        }
    }

    /// Keeps memory until a handle has ended, and gives back what has.
    pub(crate) fn keep(_: Python<'_>, handle: &Handle, source: Option<Memory>, sink: Option<Memory>) {
        let ended = Self::with(|pending| {
            let ended: Vec<Self> = pending.extract_if(.., |one| one.handle.outcome().is_some()).collect();
            pending.push(Self { handle: handle.clone(), source, sink });
            ended
        });
        // Outside of the lock: it may run Python code.
        drop(ended);
    }

    fn with<T>(look: impl FnOnce(&mut Vec<Self>) -> T) -> T {
        look(&mut PENDING.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
