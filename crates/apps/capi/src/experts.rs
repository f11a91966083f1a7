//! Experts on a communicator's ranks: what goes to them and what comes back.

use crate::{Status, bytes, call, element, finish, group, misuse, operation, put, qxComm, qxRequest, source};
use quincunx_comm::{
    Arrival, BorrowedSink, CallSite, CommError, Dispatch, ExpertLayout, Experts, Nothing, Sink, TokenBatch,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// `struct qxExperts`.
#[derive(Debug)]
pub struct qxExperts {
    experts: Experts,
    last: Mutex<Option<Dispatch>>,
}

/// `qxArrived`.
#[repr(C)]
#[derive(Debug)]
pub struct qxArrived {
    tokens: *mut c_void,
    sources: *mut c_int,
    experts: *mut c_int,
    weights: *mut f32,
    count: usize,
}

unsafe fn experts<'a>(experts: *mut qxExperts) -> Result<&'a qxExperts, CommError> {
    // SAFETY: the caller hands over experts that were made here and not destroyed, or NULL.
    unsafe { experts.as_ref() }.ok_or_else(|| misuse("experts", "NULL"))
}

/// So many values at an address; none if that is NULL.
unsafe fn values<'a, T>(first: *const T, count: usize) -> Option<&'a [T]> {
    // SAFETY: the caller has as many there, and leaves them as they are until the call returns.
    (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, count) })
}

/// Where tokens go that come: the caller's memory, which is its own until the request has ended.
struct Arrivals {
    into: *mut qxArrived,
    sink: BorrowedSink,
    length: usize,
    top_k: usize,
}

// SAFETY: the caller leaves the memory alone until the request has ended, whichever thread writes it.
unsafe impl Send for Arrivals {}

impl Arrivals {
    fn take(&mut self, token: Arrival<'_>) {
        // SAFETY: the caller has made room for all tokens that may come, and nobody else looks at it meanwhile.
        unsafe {
            let at = (*self.into).count;
            self.sink.write(at * self.length, token.token);
            let qxArrived { sources, experts, weights, .. } = *self.into;
            if !sources.is_null() {
                sources.add(at).write(token.source.into());
            }
            for (place, (expert, weight)) in (at * self.top_k..).zip(token.choices()) {
                if !experts.is_null() {
                    experts.add(place).write(expert.into());
                }
                if !weights.is_null() {
                    weights.add(place).write(weight);
                }
            }
            (*self.into).count = at + 1;
        }
    }
}

/// `qxExpertsInit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxExpertsInit(
    made: *mut *mut qxExperts,
    comm: *mut qxComm,
    nexperts: c_int,
    topk: c_int,
    maxtokens: usize,
    maxbytes: usize,
    design: *const c_char,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let comm = unsafe { group(comm) }?;
        if made.is_null() {
            return Err(misuse("a place for the experts", "NULL"));
        }
        let number = |number: c_int| u16::try_from(number).map_err(|_| misuse("a number of experts", number));
        let tokens = u32::try_from(maxtokens).map_err(|_| misuse("a number of tokens", maxtokens))?;
        let layout = ExpertLayout::new(number(nexperts)?, number(topk)?, tokens, maxbytes);
        let design = (!design.is_null()).then(|| {
            // SAFETY: the caller gives a string.
            unsafe { CStr::from_ptr(design) }.to_string_lossy().into_owned()
        });
        let experts = comm.group.experts(ExpertLayout { design, ..layout })?;
        let experts = Box::new(qxExperts { experts, last: Mutex::new(None) });
        // SAFETY: as the header says.
        unsafe { put(made, Box::into_raw(experts), "a place for the experts") }
    })
}

/// `qxExpertsDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxExpertsDestroy(experts: *mut qxExperts) -> Status {
    call(|| {
        if experts.is_null() {
            return Err(misuse("experts", "NULL"));
        }
        // SAFETY: they were made here, and the caller gives them up.
        unsafe { Box::from_raw(experts) }.experts.close();
        Ok(())
    })
}

/// `qxDispatch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxDispatch(
    sendbuff: *const c_void,
    ntokens: usize,
    count: usize,
    datatype: c_int,
    chosen: *const c_int,
    weights: *const f32,
    incoming: *const usize,
    arrived: *mut qxArrived,
    to: *mut qxExperts,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let qxExperts { experts, last } = unsafe { experts(to) }?;
        // SAFETY: the caller has one there, and leaves it alone until the request has ended.
        let Some(room) = (unsafe { arrived.as_mut() }) else {
            return Err(misuse("a place for what comes", "NULL"));
        };
        if room.tokens.is_null() || (chosen.is_null() && ntokens > 0) {
            return Err(misuse("a buffer", "NULL"));
        }
        let layout = experts.layout();
        let ranks = usize::from(experts.group().size());
        let (element, top_k) = (element(datatype)?, usize::from(layout.top_k));
        let length = bytes(count, element, 1)?;
        if ntokens > layout.tokens as usize {
            return Err(misuse("no more tokens than the experts were made for", ntokens));
        }
        // SAFETY: as above.
        let numbers = unsafe { values(chosen, ntokens * top_k) }.unwrap_or_default();
        let number =
            |&number: &c_int| u16::try_from(number).map_err(|_| misuse("a number of an expert", number));
        let numbers = numbers.iter().map(number).collect::<Result<Vec<u16>, _>>()?;
        // SAFETY: as the header says.
        let (source, weights, incoming) = unsafe {
            let source = source((sendbuff, ntokens * length))?;
            (source, values(weights, ntokens * top_k), values(incoming, ranks))
        };
        let most = bytes(count, element, ranks * layout.tokens as usize)?;
        // SAFETY: the caller has room for all that may come.
        let sink = unsafe { BorrowedSink::new(room.tokens.cast(), most) };
        let before = std::mem::take(&mut room.count);
        let mut arrivals = Arrivals { into: arrived, sink, length, top_k };
        let receiver = Box::new(move |token: Arrival<'_>| arrivals.take(token));
        let batch = TokenBatch { source, length, experts: &numbers, weights, incoming };
        let begun = experts.dispatch(None::<CallSite>, batch, receiver);
        // SAFETY: as above; of what was refused nothing comes.
        let dispatch = begun.inspect_err(|_| unsafe { (*arrived).count = before })?;
        let handle = dispatch.handle().clone();
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(dispatch);
        // SAFETY: as the header says.
        unsafe { finish(handle, request) }
    })
}

/// `qxCombine`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qxCombine(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    from: *mut qxExperts,
    request: *mut *mut qxRequest,
) -> Status {
    call(|| {
        // SAFETY: as the header says.
        let qxExperts { experts, last } = unsafe { experts(from) }?;
        let dispatch = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let dispatch = dispatch.ok_or_else(|| misuse("a qxDispatch before", "none"))?;
        let (element, op) = (element(datatype)?, operation(op)?);
        let length = bytes(count, element, 1)?;
        // SAFETY: as the header says.
        let source = unsafe { source((sendbuff, dispatch.count() * length)) }?;
        let sink: Box<dyn Sink> = match dispatch.tokens() * length {
            0 => Box::new(Nothing),
            _ if recvbuff.is_null() => return Err(misuse("a buffer", "NULL")),
            // SAFETY: the caller has room for a vector for each of its tokens, and leaves it alone until the request has ended.
            room => Box::new(unsafe { BorrowedSink::new(recvbuff.cast(), room) }),
        };
        let handle = experts.combine(None, &dispatch, (element, op), length, (source, sink))?;
        // SAFETY: as the header says.
        unsafe { finish(handle, request) }
    })
}
