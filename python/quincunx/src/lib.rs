//! The module `quincunx._core`: endpoints, groups and handles of `quincunx-comm` for Python. What people call is in the package beside it,
//! `quincunx/`; here is what must not be in Python: memory, and waits without the interpreter's lock.

mod experts;
mod handle;
mod memory;

use experts::{Dispatch, Experts};
use handle::{EndpointError, GroupError, Handle, named, raised, seconds};
use memory::{Memory, Pending};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use quincunx_comm::{Buffers, CallSite, DataType, Nothing, Op, Operation, Options, Place, Sink, Source};

/// A process's place in the network.
#[pyclass(frozen, module = "quincunx._core")]
struct Endpoint(quincunx_comm::Endpoint);

#[pymethods]
impl Endpoint {
    #[new]
    #[pyo3(signature = (*, manager=None, job=None, rank=None, world=None, server=None, address=None, design=None, settings=None, switches=None, join_limit=None, limit=None, identity=None))]
    #[expect(clippy::too_many_arguments, reason = "options by name, as Python has them")]
    fn new(
        py: Python<'_>,
        manager: Option<&str>,
        job: Option<String>,
        rank: Option<u16>,
        world: Option<u16>,
        server: Option<u16>,
        address: Option<&str>,
        design: Option<String>,
        settings: Option<Vec<(String, String)>>,
        switches: Option<usize>,
        join_limit: Option<f64>,
        limit: Option<f64>,
        identity: Option<std::path::PathBuf>,
    ) -> PyResult<Self> {
        let wrong = |what: &str, found: &str| {
            PyValueError::new_err(format!("expected {what}, found \"{found}\"; correct the argument"))
        };
        let mut options = Options::from_environment().map_err(raised)?;
        if let Some(text) = manager {
            options.manager = text.parse().map_err(|_| wrong("a manager as HOST:PORT", text))?;
        }
        if let Some(text) = address {
            options.address = Some(text.parse().map_err(|_| wrong("an IP address", text))?);
        }
        options.job = job.unwrap_or(options.job);
        options.rank = rank.unwrap_or(options.rank);
        options.world = world.unwrap_or(options.world);
        options.server = server.or(options.server);
        options.design = design.unwrap_or(options.design);
        options.settings.extend(settings.unwrap_or_default());
        options.switches = switches.unwrap_or(options.switches);
        options.identity = identity.or(options.identity);
        let nanos = |limit: f64| seconds(limit).map(quincunx_comm::duration);
        if let Some(limit) = join_limit {
            options.join_limit = nanos(limit)?;
        }
        if let Some(limit) = limit {
            options.limit = nanos(limit)?;
        }
        let attached = py.detach(|| quincunx_comm::Endpoint::attach(quincunx_designs::CATALOG, options));
        Ok(Self(attached.map_err(raised)?))
    }

    #[getter]
    fn rank(&self) -> u16 {
        self.0.options().rank
    }

    #[getter]
    fn world_size(&self) -> u16 {
        self.0.options().world
    }

    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    fn world(&self, py: Python<'_>) -> PyResult<Group> {
        py.detach(|| self.0.world()).map(Group).map_err(raised)
    }

    fn make_group(&self, py: Python<'_>, members: Vec<u16>) -> PyResult<[u32; 2]> {
        py.detach(|| self.0.make_group(&members)).map_err(raised)
    }

    fn join_group(&self, py: Python<'_>, members: Vec<u16>, numbers: [u32; 2]) -> PyResult<Group> {
        py.detach(|| self.0.join_group(&members, numbers)).map(Group).map_err(raised)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).map_err(raised)
    }

    /// By the address that frames were for: frames and their bytes, without what is below RoCE's headers.
    fn sent_to(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        let traffic = py.detach(|| self.0.traffic()).map_err(raised)?;
        let of = |(address, sent): (&std::net::SocketAddr, &_)| {
            let quincunx_comm::Traffic { frames, bytes, .. } = sent;
            (address.ip().to_string(), *frames, *bytes)
        };
        Ok(traffic.sent_to.iter().map(of).collect())
    }

    /// Ended operations, copied bytes, seconds of copying, seconds with something under way, reductions done by ranks.
    fn counts(&self) -> (u64, u64, f64, f64) {
        let counts = self.0.counts();
        let [copying, busy] = [counts.copying, counts.busy].map(|time| time.as_secs_f64());
        (counts.ended, counts.copied_bytes, copying, busy)
    }
}

/// Ranks that run collectives together.
#[pyclass(frozen, module = "quincunx._core")]
struct Group(quincunx_comm::Group);

#[pymethods]
impl Group {
    #[getter]
    fn rank(&self) -> u16 {
        self.0.rank()
    }

    #[getter]
    fn size(&self) -> u16 {
        self.0.size()
    }

    #[getter]
    fn members(&self) -> Vec<u16> {
        self.0.members().to_vec()
    }

    #[getter]
    fn design(&self) -> String {
        self.0.design()
    }

    fn set_limit(&self, limit: f64) -> PyResult<()> {
        self.0.set_limit(seconds(limit)?);
        Ok(())
    }

    /// Gives the group back, without waiting; so does whoever collects the last of it as garbage.
    fn close(&self) {
        self.0.close();
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn split(&self, py: Python<'_>, color: i32) -> PyResult<Self> {
        py.detach(|| self.0.split(color)).map(Self).map_err(raised)
    }

    /// Sets the ranks up for experts: rank r hosts the r-th part of them.
    #[pyo3(signature = (experts, top_k, tokens, length, design=None))]
    fn experts(
        &self,
        py: Python<'_>,
        experts: u16,
        top_k: u16,
        tokens: u32,
        length: usize,
        design: Option<String>,
    ) -> PyResult<Experts> {
        let layout = quincunx_comm::ExpertLayout { experts, top_k, tokens, length, design };
        py.detach(|| self.0.experts(layout)).map(Experts).map_err(raised)
    }

    /// Whom the ranks wait for, in words.
    fn waits(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.waits()).map(|waits| waits.to_string()).map_err(raised)
    }

    /// Begins one message to several ranks, from memory as `start` takes it.
    #[pyo3(signature = (source, to, *, tag=0))]
    fn multi_write(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        to: Vec<u16>,
        tag: u32,
    ) -> PyResult<Handle> {
        let source = Memory::of(source, false)?;
        Pending::ensure_unused(py, Some(&source), None, false)?;
        let handle = self.0.multi_write(&to, tag, Box::new(source.source())).map_err(raised)?;
        Pending::keep(py, &handle, Some(source), None);
        Ok(Handle::of(handle))
    }

    /// Begins an operation on memory that is given as objects with a buffer, or as (address, bytes, owner). With `queue`, memory that
    /// is in use is waited for, else it is refused. `at`: file and line of whoever calls.
    #[pyo3(signature = (operation, source=None, sink=None, *, element=None, op=None, peer=None, tag=0, queue=false, at=None))]
    #[expect(clippy::too_many_arguments, reason = "as many as an operation has")]
    fn start(
        &self,
        py: Python<'_>,
        operation: &str,
        source: Option<&Bound<'_, PyAny>>,
        sink: Option<&Bound<'_, PyAny>>,
        element: Option<&str>,
        op: Option<&str>,
        peer: Option<u16>,
        tag: u32,
        queue: bool,
        at: Option<(&str, u32)>,
    ) -> PyResult<Handle> {
        let source = source.map(|object| Memory::of(object, false)).transpose()?;
        let sink = sink.map(|object| Memory::of(object, true)).transpose()?;
        let reduction = || {
            let (Some(element), Some(op)) = (element, op) else {
                return Err(PyTypeError::new_err("expected a type and an operation, found none; name both"));
            };
            Ok((named::<DataType>(element, "a type of elements")?, named::<Op>(op, "an operation")?))
        };
        // Whoever names no type moves bytes.
        let moved = || element.map_or(Ok(DataType::U8), |name| named::<DataType>(name, "a type of elements"));
        let one = || peer.ok_or_else(|| PyTypeError::new_err("expected a rank, found none; name one"));
        let mut sender = None;
        let asked = match operation {
            "all_reduce" => reduction().map(|(element, op)| Operation::AllReduce(element, op))?,
            "reduce" => {
                let (element, op) = reduction()?;
                Operation::Reduce(element, op, one()?)
            }
            "reduce_scatter" => reduction().map(|(element, op)| Operation::ReduceScatter(element, op))?,
            "broadcast" => Operation::Broadcast(moved()?, one()?),
            "barrier" => Operation::Barrier,
            "all_gather" => Operation::AllGather(moved()?),
            "all_to_all" => Operation::AllToAll,
            "gather" => Operation::Gather(one()?),
            "scatter" => Operation::Scatter(one()?),
            "send" => Operation::Send(one()?, tag),
            "receive" => Operation::Receive(peer.unwrap_or(u16::MAX), tag),
            other => {
                return Err(PyValueError::new_err(format!(
                    "expected an operation, found \"{other}\"; see the methods"
                )));
            }
        };
        memory::check(asked, self.0.rank(), source.as_ref(), sink.as_ref())?;
        Pending::ensure_unused(py, source.as_ref(), sink.as_ref(), queue)?;
        let from: Box<dyn Source> = match &source {
            Some(memory) => Box::new(memory.source()),
            None => Box::new(Nothing),
        };
        let to: Box<dyn Sink> = match &sink {
            Some(memory) => Box::new(memory.sink()),
            None => Box::new(Nothing),
        };
        let site = at.map(|(file, line)| CallSite::Other(Place { file: file.into(), line }));
        let handle = if let (Operation::Receive(..), None) = (asked, peer) {
            let (handle, from) = self.0.receive_from_any(site, tag, to).map_err(raised)?;
            sender = Some(from);
            handle
        } else {
            self.0.start_at(site, asked, Buffers { source: from, sink: to }).map_err(raised)?
        };
        Pending::keep(py, &handle, source, sink);
        Ok(Handle::from_anybody(handle, sender))
    }
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Endpoint>()?;
    module.add_class::<Group>()?;
    module.add_class::<Handle>()?;
    module.add_class::<Experts>()?;
    module.add_class::<Dispatch>()?;
    module.add("GroupError", module.py().get_type::<GroupError>())?;
    module.add("EndpointError", module.py().get_type::<EndpointError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
