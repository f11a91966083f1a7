//! libquincunx: `quincunx-comm` for programs in C, by names close to NCCL's. What each call means is said in `include/quincunx.h`.
#![expect(unsafe_code, reason = "C hands over addresses; each function says what its caller promises")]
#![allow(non_camel_case_types, reason = "names as in the header")]
#![allow(clippy::missing_safety_doc, reason = "the header says what callers promise")]

mod experts;

pub use experts::{qxArrived, qxCombine, qxDispatch, qxExperts, qxExpertsDestroy, qxExpertsInit};

use quincunx_comm::{
    BorrowedSink, BorrowedSource, Buffers, CallSite, CommError, DataType, Endpoint, Group, Handle, Nothing,
    Op, Operation, Options, Place, ReduceOp, Sink, Source,
};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// `qxResult_t`.
type Status = c_int;

const SUCCESS: Status = 0;
const SYSTEM_ERROR: Status = 2;
const INTERNAL_ERROR: Status = 3;
const INVALID_ARGUMENT: Status = 4;
const REMOTE_ERROR: Status = 6;
const IN_PROGRESS: Status = 7;

/// Bytes of a `qxUniqueId`.
const ID: usize = 128;

/// `qxUniqueId`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct qxUniqueId {
    internal: [u8; ID],
}

/// `qxGroupId`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct qxGroupId {
    internal: [u32; 2],
}

/// `struct qxEndpoint`.
#[derive(Debug)]
pub struct qxEndpoint(Arc<Endpoint>);

/// `struct qxComm`.
#[derive(Debug)]
pub struct qxComm {
    group: Group,
    /// Closed when the last communicator goes.
    endpoint: Arc<Endpoint>,
}

/// `struct qxRequest`.
#[derive(Debug)]
pub struct qxRequest(Handle);

thread_local! {
    /// Where the next collective is called, and the file of the last one: it is mostly the same.
    static CALLED_AT: RefCell<(Option<Place>, Arc<str>)> = RefCell::new((None, Arc::from("")));
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The process's endpoint, while a communicator has it.
static ENDPOINT: Mutex<Weak<Endpoint>> = Mutex::new(Weak::new());

fn fail(status: Status, text: &str) -> Status {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with_borrow_mut(|last| *last = text);
    status
}

fn failed(error: &CommError) -> Status {
    let status = match error {
        CommError::Misuse(_) => INVALID_ARGUMENT,
        CommError::Group(_) | CommError::TimedOut(_) => REMOTE_ERROR,
        CommError::Endpoint(_) => SYSTEM_ERROR,
    };
    fail(status, &error.to_string())
}

fn misuse(expected: &str, found: impl std::fmt::Display) -> CommError {
    CommError::Misuse(format!("expected {expected}, found {found}; see quincunx.h"))
}

/// Runs a call; no panic gets into C.
fn call(work: impl FnOnce() -> Result<(), CommError>) -> Status {
    let done = catch_unwind(AssertUnwindSafe(work));
    // It was this call's, also if that began nothing.
    CALLED_AT.with_borrow_mut(|(place, _)| *place = None);
    match done {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => failed(&error),
        Err(_) => fail(
            INTERNAL_ERROR,
            "expected no fault of the library, found one; it is printed on standard error",
        ),
    }
}

fn element(data_type: c_int) -> Result<DataType, CommError> {
    Ok(match data_type {
        0 => DataType::I8,
        1 => DataType::U8,
        2 => DataType::I32,
        3 => DataType::U32,
        4 => DataType::I64,
        5 => DataType::U64,
        6 => DataType::F16,
        7 => DataType::F32,
        8 => DataType::F64,
        9 => DataType::Bf16,
        10 => DataType::F8E4M3,
        11 => DataType::F8E5M2,
        32 => DataType::I16,
        33 => DataType::Mxfp8,
        34 => DataType::Nvfp4,
        other => return Err(misuse("a qxDataType_t", other)),
    })
}

fn operation(op: c_int) -> Result<Op, CommError> {
    Ok(match op {
        0 => ReduceOp::Sum.into(),
        1 => ReduceOp::Product.into(),
        2 => ReduceOp::Max.into(),
        3 => ReduceOp::Min.into(),
        4 => Op::Average,
        32 => ReduceOp::BitAnd.into(),
        33 => ReduceOp::BitOr.into(),
        34 => ReduceOp::BitXor.into(),
        other => return Err(misuse("a qxRedOp_t", other)),
    })
}

fn rank(number: c_int) -> Result<u16, CommError> {
    u16::try_from(number).map_err(|_| misuse("a rank", number))
}

unsafe fn group<'a>(comm: *mut qxComm) -> Result<&'a qxComm, CommError> {
    // SAFETY: the caller hands over a communicator that was made here and not destroyed, or NULL.
    unsafe { comm.as_ref() }.ok_or_else(|| misuse("a communicator", "NULL"))
}

unsafe fn put<T>(place: *mut T, value: T, what: &str) -> Result<(), CommError> {
    if place.is_null() {
        return Err(misuse(what, "NULL"));
    }
    // SAFETY: the caller has room for a value there.
    unsafe { place.write(value) };
    Ok(())
}

/// As much of a text as there is room for, with a zero at its end.
unsafe fn put_text(place: *mut c_char, size: usize, text: &str) -> Result<(), CommError> {
    if place.is_null() || size == 0 {
        return Err(misuse("room for a text", "none"));
    }
    let mut length = text.len().min(size - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: the caller has room for so many bytes, and one more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), length);
        place.add(length).write(0);
    }
    Ok(())
}

/// So many elements of a rank's part, in each of `parts`.
fn bytes(count: usize, element: DataType, parts: usize) -> Result<usize, CommError> {
    let whole = count.checked_mul(element.size()).and_then(|part| part.checked_mul(parts));
    whole
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or_else(|| misuse("a count that memory can hold", count))
}

/// Begins an operation on (address, bytes) to read and to write, and waits for it unless the caller takes the request.
unsafe fn start(
    comm: &qxComm,
    operation: Operation,
    (from, given): (*const c_void, usize),
    (to, room): (*mut c_void, usize),
    request: *mut *mut qxRequest,
) -> Result<(), CommError> {
    if to.is_null() && room > 0 {
        return Err(misuse("a buffer", "NULL"));
    }
    let (begin, end) = (from as usize, to as usize);
    let me = usize::from(comm.group.rank());
    let in_place = match operation {
        Operation::AllReduce(..) | Operation::Reduce(..) | Operation::Broadcast(..) => begin == end,
        Operation::ReduceScatter(..) => end == begin + me * room,
        Operation::AllGather(_) => begin == end + me * given,
        _ => false,
    };
    if given > 0 && room > 0 && begin < end + room && end < begin + given && !in_place {
        return Err(misuse(
            "buffers apart, or the same as operations in place have them",
            "some that overlap",
        ));
    }
    // SAFETY: as above.
    let source = unsafe { source((from, given)) }?;
    let sink: Box<dyn Sink> = match room {
        0 => Box::new(Nothing),
        // SAFETY: the caller leaves the buffer alone until the operation has ended.
        _ => Box::new(unsafe { BorrowedSink::new(to.cast(), room) }),
    };
    let place = CALLED_AT.with_borrow_mut(|(place, _)| place.take());
    let handle = comm.group.start_at(place.map(CallSite::Other), operation, Buffers { source, sink })?;
    // SAFETY: as above.
    unsafe { finish(handle, request) }
}

/// What is read at (address, bytes).
unsafe fn source((from, given): (*const c_void, usize)) -> Result<Box<dyn Source>, CommError> {
    Ok(match given {
        0 => Box::new(Nothing),
        _ if from.is_null() => return Err(misuse("a buffer", "NULL")),
        // SAFETY: the caller leaves the buffer as it is until the operation has ended.
        _ => Box::new(unsafe { BorrowedSource::new(from.cast(), given) }),
    })
}

/// Waits for the end, unless the caller takes the request.
unsafe fn finish(handle: Handle, request: *mut *mut qxRequest) -> Result<(), CommError> {
    if request.is_null() {
        return handle.wait();
    }
    // SAFETY: the caller has room for a request there.
    unsafe { request.write(Box::into_raw(Box::new(qxRequest(handle)))) };
    Ok(())
}

/// `qxGetVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxGetVersion(version: *mut c_int) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { put(version, 100, "a place for the version") })
}

/// `qxGetErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn qxGetErrorString(result: Status) -> *const c_char {
    let text: &'static CStr = match result {
        SUCCESS => c"no error",
        SYSTEM_ERROR => c"the endpoint is of no use any more",
        INTERNAL_ERROR => c"a fault of the library",
        INVALID_ARGUMENT => c"an argument makes no sense",
        REMOTE_ERROR => c"a rank has died or does not answer",
        IN_PROGRESS => c"under way",
        _ => c"no result of this library",
    };
    text.as_ptr()
}

/// `qxGetLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn qxGetLastError() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

/// `qxGetUniqueId`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxGetUniqueId(id: *mut qxUniqueId) -> Status {
    call(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("job-{:x}-{:x}.", std::process::id(), now.as_nanos());
        let mut internal = [0; ID];
        internal[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: as the header says.
        unsafe { put(id, qxUniqueId { internal }, "a place for the id") }
    })
}

fn attach(options: Options) -> Result<Arc<Endpoint>, CommError> {
    let mut current = ENDPOINT.lock().unwrap_or_else(PoisonError::into_inner);
    if current.upgrade().is_some() {
        return Err(misuse(
            "one world in a process at a time",
            "a second one, and qxCommSplit makes parts of the first",
        ));
    }
    let endpoint = Arc::new(Endpoint::attach(quincunx_designs::CATALOG, options)?);
    *current = Arc::downgrade(&endpoint);
    Ok(endpoint)
}

unsafe fn join_world(comm: *mut *mut qxComm, options: Options) -> Result<(), CommError> {
    if comm.is_null() {
        return Err(misuse("a place for the communicator", "NULL"));
    }
    let endpoint = attach(options)?;
    let group = endpoint.world()?;
    // SAFETY: the caller has room for a communicator there.
    unsafe { put(comm, Box::into_raw(Box::new(qxComm { group, endpoint })), "a place for the communicator") }
}

/// `qxAttach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxAttach(endpoint: *mut *mut qxEndpoint) -> Status {
    call(|| {
        if endpoint.is_null() {
            return Err(misuse("a place for the endpoint", "NULL"));
        }
        let attached = qxEndpoint(attach(Options::from_environment()?)?);
        // SAFETY: as the header says.
        unsafe { put(endpoint, Box::into_raw(Box::new(attached)), "a place for the endpoint") }
    })
}

/// `qxDetach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxDetach(endpoint: *mut qxEndpoint) -> Status {
    call(|| {
        if endpoint.is_null() {
            return Err(misuse("an endpoint", "NULL"));
        }
        // SAFETY: it was made here, and the caller gives it up.
        let qxEndpoint(endpoint) = *unsafe { Box::from_raw(endpoint) };
        endpoint.close()
    })
}

/// `qxEndpointRank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxEndpointRank(endpoint: *mut qxEndpoint, place: *mut c_int) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { put(place, attached(endpoint)?.options().rank.into(), "a place for the rank") })
}

/// `qxEndpointAddress`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxEndpointAddress(
    endpoint: *mut qxEndpoint,
    text: *mut c_char,
    size: usize,
) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { put_text(text, size, &attached(endpoint)?.address().to_string()) })
}

/// The ranks of a group.
unsafe fn members(ranks: *const c_int, nranks: usize) -> Result<Vec<u16>, CommError> {
    if ranks.is_null() || nranks == 0 {
        return Err(misuse("a group's ranks", "none"));
    }
    // SAFETY: the caller has as many ranks there.
    unsafe { std::slice::from_raw_parts(ranks, nranks) }.iter().map(|&each| rank(each)).collect()
}

unsafe fn attached<'a>(endpoint: *mut qxEndpoint) -> Result<&'a Arc<Endpoint>, CommError> {
    // SAFETY: the caller hands over an endpoint that was made here and not given up, or NULL.
    unsafe { endpoint.as_ref() }
        .map(|qxEndpoint(endpoint)| endpoint)
        .ok_or_else(|| misuse("an endpoint", "NULL"))
}

/// `qxMakeGroup`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxMakeGroup(
    endpoint: *mut qxEndpoint,
    ranks: *const c_int,
    nranks: usize,
    id: *mut qxGroupId,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let (endpoint, members) = unsafe { (attached(endpoint)?, members(ranks, nranks)?) };
        if id.is_null() {
            return Err(misuse("a place for the group's id", "NULL"));
        }
        let internal = endpoint.make_group(&members)?;
        // SAFETY: as the header says.
        unsafe { put(id, qxGroupId { internal }, "a place for the group's id") }
    })
}

/// `qxCommInitGroup`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommInitGroup(
    comm: *mut *mut qxComm,
    endpoint: *mut qxEndpoint,
    ranks: *const c_int,
    nranks: usize,
    id: qxGroupId,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let (endpoint, members) = unsafe { (attached(endpoint)?, members(ranks, nranks)?) };
        if comm.is_null() {
            return Err(misuse("a place for the communicator", "NULL"));
        }
        let group = endpoint.join_group(&members, id.internal)?;
        let made = qxComm { group, endpoint: Arc::clone(endpoint) };
        // SAFETY: as the header says.
        unsafe { put(comm, Box::into_raw(Box::new(made)), "a place for the communicator") }
    })
}

/// `qxCommInitRank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommInitRank(
    comm: *mut *mut qxComm,
    nranks: c_int,
    id: qxUniqueId,
    rank_: c_int,
) -> Status {
    call(|| {
        let mut options = Options::from_environment()?;
        options.world = rank(nranks)?;
        options.rank = rank(rank_)?;
        let name = CStr::from_bytes_until_nul(&id.internal).ok().and_then(|name| name.to_str().ok());
        options.job = name
            .filter(|name| !name.is_empty())
            .ok_or_else(|| misuse("an id of qxGetUniqueId", "another"))?
            .into();
        // SAFETY: as the header says.
        unsafe { join_world(comm, options) }
    })
}

/// `qxCommInit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommInit(comm: *mut *mut qxComm) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { join_world(comm, Options::from_environment()?) })
}

/// `qxCommSplit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommSplit(
    comm: *mut qxComm,
    color: c_int,
    _key: c_int,
    made: *mut *mut qxComm,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        if made.is_null() {
            return Err(misuse("a place for the communicator", "NULL"));
        }
        let new = qxComm { group: comm.group.split(color)?, endpoint: Arc::clone(&comm.endpoint) };
        // SAFETY: as the header says.
        unsafe { put(made, Box::into_raw(Box::new(new)), "a place for the communicator") }
    })
}

/// `qxCommDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommDestroy(comm: *mut qxComm) -> Status {
    call(|| {
        if comm.is_null() {
            return Err(misuse("a communicator", "NULL"));
        }
        // SAFETY: it was made here, and the caller gives it up.
        let qxComm { group, endpoint } = *unsafe { Box::from_raw(comm) };
        if Arc::strong_count(&endpoint) > 1 {
            return Ok(());
        }
        // Nobody leaves while another still needs an answer.
        let together = group.barrier();
        let closed = endpoint.close();
        together.and(closed)
    })
}

/// `qxCommAbort`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommAbort(comm: *mut qxComm) -> Status {
    call(|| {
        // SAFETY: as the header says.
        unsafe { group(comm) }?.group.abort();
        // SAFETY: it was made here, and the caller gives it up.
        drop(unsafe { Box::from_raw(comm) });
        Ok(())
    })
}

/// `qxCommCount`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommCount(comm: *mut qxComm, count: *mut c_int) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { put(count, group(comm)?.group.size().into(), "a place for the count") })
}

/// `qxCommUserRank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommUserRank(comm: *mut qxComm, place: *mut c_int) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { put(place, group(comm)?.group.rank().into(), "a place for the rank") })
}

/// `qxCommSetTimeout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommSetTimeout(comm: *mut qxComm, seconds: f64) -> Status {
    call(|| {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|_| misuse("a time in seconds", seconds))?;
        // SAFETY: as the header says.
        unsafe { group(comm) }?.group.set_limit(limit);
        Ok(())
    })
}

/// `qxCommWaits`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCommWaits(comm: *mut qxComm, text: *mut c_char, size: usize) -> Status {
    call(|| {
        // SAFETY: as the header says.
        unsafe { put_text(text, size, &group(comm)?.group.waits()?.to_string()) }
    })
}

/// `qxCalledAt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCalledAt(file: *const c_char, line: c_int) {
    if file.is_null() {
        return;
    }
    // SAFETY: the caller gives a string.
    let name = unsafe { CStr::from_ptr(file) }.to_string_lossy();
    CALLED_AT.with_borrow_mut(|(place, last)| {
        if **last != *name {
            *last = Arc::from(&*name);
        }
        *place = Some(Place { file: Arc::clone(last), line: line.unsigned_abs() });
    });
}

const NONE: (*const c_void, usize) = (std::ptr::null(), 0);
const NOWHERE: (*mut c_void, usize) = (std::ptr::null_mut(), 0);

/// `qxAllReduce`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxAllReduce(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        let element = element(datatype)?;
        let length = bytes(count, element, 1)?;
        let asked = Operation::AllReduce(element, operation(op)?);
        // SAFETY: as the header says.
        unsafe { start(group(comm)?, asked, (sendbuff, length), (recvbuff, length), request) }
    })
}

/// `qxReduce`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxReduce(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    root: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let (element, root) = (element(datatype)?, rank(root)?);
        let length = bytes(count, element, 1)?;
        let to = if comm.group.rank() == root { (recvbuff, length) } else { NOWHERE };
        let asked = Operation::Reduce(element, operation(op)?, root);
        // SAFETY: as the header says.
        unsafe { start(comm, asked, (sendbuff, length), to, request) }
    })
}

/// `qxBroadcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxBroadcast(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let root = rank(root)?;
        let element = element(datatype)?;
        let length = bytes(count, element, 1)?;
        let (from, to) = match comm.group.rank() == root {
            true if sendbuff == recvbuff.cast_const() => ((sendbuff, length), NOWHERE),
            true => ((sendbuff, length), (recvbuff, length)),
            false => (NONE, (recvbuff, length)),
        };
        // SAFETY: as the header says.
        unsafe { start(comm, Operation::Broadcast(element, root), from, to, request) }
    })
}

/// `qxReduceScatter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxReduceScatter(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    recvcount: usize,
    datatype: c_int,
    op: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let element = element(datatype)?;
        let (part, whole) =
            (bytes(recvcount, element, 1)?, bytes(recvcount, element, comm.group.size().into())?);
        let asked = Operation::ReduceScatter(element, operation(op)?);
        // SAFETY: as the header says.
        unsafe { start(comm, asked, (sendbuff, whole), (recvbuff, part), request) }
    })
}

/// `qxAllGather`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxAllGather(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    sendcount: usize,
    datatype: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let element = element(datatype)?;
        let (part, whole) =
            (bytes(sendcount, element, 1)?, bytes(sendcount, element, comm.group.size().into())?);
        // SAFETY: as the header says.
        unsafe { start(comm, Operation::AllGather(element), (sendbuff, part), (recvbuff, whole), request) }
    })
}

/// `qxBarrier`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxBarrier(comm: *mut qxComm, request: *mut *mut qxRequest) -> Status {
    // SAFETY: as the header says.
    call(|| unsafe { start(group(comm)?, Operation::Barrier, NONE, NOWHERE, request) })
}

/// `qxSend`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxSend(
    sendbuff: *const c_void,
    count: usize,
    datatype: c_int,
    peer: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        let length = bytes(count, element(datatype)?, 1)?;
        // SAFETY: as the header says.
        unsafe { start(group(comm)?, Operation::Send(rank(peer)?, 0), (sendbuff, length), NOWHERE, request) }
    })
}

/// `qxMultiWrite`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxMultiWrite(
    sendbuff: *const c_void,
    count: usize,
    datatype: c_int,
    peers: *const c_int,
    npeers: usize,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let length = bytes(count, element(datatype)?, 1)?;
        if npeers > comm.group.size().into() || (peers.is_null() && npeers > 0) {
            return Err(misuse(
                "ranks of the communicator, each once",
                format_args!("{npeers} at {peers:p}"),
            ));
        }
        let peers: Result<Vec<u16>, _> = match npeers {
            0 => Ok(Vec::new()),
            // SAFETY: the caller has so many there.
            _ => {
                unsafe { std::slice::from_raw_parts(peers, npeers) }.iter().map(|&peer| rank(peer)).collect()
            }
        };
        // SAFETY: as the header says.
        let handle = comm.group.multi_write(&peers?, 0, unsafe { source((sendbuff, length)) }?)?;
        // SAFETY: as the header says.
        unsafe { finish(handle, request) }
    })
}

/// `qxRecv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxRecv(
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    peer: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        let length = bytes(count, element(datatype)?, 1)?;
        // SAFETY: as the header says.
        unsafe { start(group(comm)?, Operation::Receive(rank(peer)?, 0), NONE, (recvbuff, length), request) }
    })
}

/// `qxAlltoAll`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxAlltoAll(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let whole = bytes(count, element(datatype)?, comm.group.size().into())?;
        // SAFETY: as the header says.
        unsafe { start(comm, Operation::AllToAll, (sendbuff, whole), (recvbuff, whole), request) }
    })
}

/// `qxGather`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxGather(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let (element, root) = (element(datatype)?, rank(root)?);
        let (part, whole) = (bytes(count, element, 1)?, bytes(count, element, comm.group.size().into())?);
        let to = if comm.group.rank() == root { (recvbuff, whole) } else { NOWHERE };
        // SAFETY: as the header says.
        unsafe { start(comm, Operation::Gather(root), (sendbuff, part), to, request) }
    })
}

/// `qxScatter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxScatter(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    comm: *mut qxComm,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        let (element, root) = (element(datatype)?, rank(root)?);
        let (part, whole) = (bytes(count, element, 1)?, bytes(count, element, comm.group.size().into())?);
        let from = if comm.group.rank() == root { (sendbuff, whole) } else { NONE };
        // SAFETY: as the header says.
        unsafe { start(comm, Operation::Scatter(root), from, (recvbuff, part), request) }
    })
}

/// `qxWait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxWait(request: *mut qxRequest) -> Status {
    call(|| {
        if request.is_null() {
            return Err(misuse("a request", "NULL"));
        }
        // SAFETY: it was made here, and the caller gives it up.
        let qxRequest(handle) = *unsafe { Box::from_raw(request) };
        handle.wait()
    })
}

/// `qxTest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxTest(request: *mut qxRequest) -> Status {
    // SAFETY: as the header says.
    let Some(qxRequest(handle)) = (unsafe { request.as_ref() }) else {
        return failed(&misuse("a request", "NULL"));
    };
    match handle.outcome() {
        None => IN_PROGRESS,
        Some(outcome) => call(|| outcome),
    }
}

/// `qxWaitFor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxWaitFor(request: *mut qxRequest, seconds: f64) -> Status {
    // SAFETY: as the header says.
    let Some(qxRequest(handle)) = (unsafe { request.as_ref() }) else {
        return failed(&misuse("a request", "NULL"));
    };
    let Ok(limit) = Duration::try_from_secs_f64(seconds) else {
        return failed(&misuse("a number of seconds", seconds));
    };
    match handle.wait_for(limit) {
        None => IN_PROGRESS,
        Some(outcome) => call(|| outcome),
    }
}
