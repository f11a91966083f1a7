//! The calls of libibverbs that a reliable connection takes. Some calls of its header are no symbols but go through the device's table of
//! functions.
#![expect(unsafe_code, reason = "calls of a C library")]

use crate::abi::{
    Capacity, CompletionChannel, CompletionQueue, Context, Element, GidEntry, IBV_ACCESS_LOCAL_WRITE,
    IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, MemoryRegion, POLL_CQ, POST_RECV,
    POST_SEND, Pair, PairAttributes, PairInit, REQ_NOTIFY_CQ, ROCE_V2, ReceiveWork, SendWork, WorkCompletion,
    gid_of,
};
use crate::error::DeviceError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// The symbols of the library that are wanted; it stays loaded with them.
macro_rules! symbols {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(crate) struct Verbs {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Verbs {
            fn resolve(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the signatures are those of verbs.h; the functions are called while the library is loaded.
                unsafe {
                    Ok(Self {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

symbols! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut c_void;
    ibv_free_device_list: fn(*mut *mut c_void);
    ibv_open_device: fn(*mut c_void) -> *mut Context;
    ibv_close_device: fn(*mut Context) -> c_int;
    _ibv_query_gid_ex: fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int;
    ibv_alloc_pd: fn(*mut Context) -> *mut c_void;
    ibv_create_comp_channel: fn(*mut Context) -> *mut CompletionChannel;
    ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut CompletionQueue;
    ibv_get_cq_event: fn(*mut CompletionChannel, *mut *mut CompletionQueue, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut CompletionQueue, c_uint);
    ibv_reg_mr: fn(*mut c_void, *mut c_void, usize, c_int) -> *mut MemoryRegion;
    ibv_dereg_mr: fn(*mut MemoryRegion) -> c_int;
    ibv_create_qp: fn(*mut c_void, *mut PairInit) -> *mut Pair;
    ibv_modify_qp: fn(*mut Pair, *mut PairAttributes, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut Pair) -> c_int;
    ibv_get_device_name: fn(*mut c_void) -> *const c_char;
}

fn failed(call: &'static str) -> DeviceError {
    DeviceError::Call { call, error: std::io::Error::last_os_error() }
}

/// What a call returned that returns an error number.
fn check(call: &'static str, number: c_int) -> Result<(), DeviceError> {
    match number {
        0 => Ok(()),
        number => Err(DeviceError::Call { call, error: std::io::Error::from_raw_os_error(number.abs()) }),
    }
}

fn made<T>(call: &'static str, pointer: *mut T) -> Result<*mut T, DeviceError> {
    if pointer.is_null() { Err(failed(call)) } else { Ok(pointer) }
}

/// A device, opened, with one queue of completions for all its queue pairs. All pointers are live until it is dropped, and nothing of it
/// is used by two threads.
pub(crate) struct Opened {
    verbs: Verbs,
    context: *mut Context,
    domain: *mut c_void,
    channel: *mut CompletionChannel,
    queue: *mut CompletionQueue,
    /// Which of the port's GIDs is the address.
    pub(crate) gid_index: u8,
}

// SAFETY: libibverbs may be called from any thread, and a device and what is of it are owned by one value: no two threads have it.
unsafe impl Send for Opened {}

/// A queue pair of a device, live until it is destroyed.
#[derive(Clone, Copy)]
pub(crate) struct PairHandle(*mut Pair);

// SAFETY: as for the device, whose value owns it.
unsafe impl Send for PairHandle {}

/// The port of a device: those with several have a device for each nowadays.
pub(crate) const PORT: u8 = 1;

impl Opened {
    /// The device that has `address`, with a queue for so many completions.
    pub(crate) fn find(address: IpAddr, completions: c_int) -> Result<Self, DeviceError> {
        let missing = |error: libloading::Error| DeviceError::Library { found: error.to_string() };
        // SAFETY: libibverbs may be loaded at any time; what it runs then is its own set-up.
        let library = unsafe { Library::new("libibverbs.so.1") }.map_err(missing)?;
        let verbs = Verbs::resolve(library).map_err(missing)?;
        let mut count = 0;
        let mut names = Vec::new();
        // SAFETY: the list holds `count` devices until it is freed; opened devices outlive it.
        unsafe {
            let list = (verbs.ibv_get_device_list)(&raw mut count);
            if list.is_null() {
                // Not even the kernel's part is there.
                let found = format!("none: {}", std::io::Error::last_os_error());
                return Err(DeviceError::NoDevice { address, found });
            }
            let mut found = None;
            for index in 0..count as usize {
                let device = *list.add(index);
                names.push(
                    std::ffi::CStr::from_ptr((verbs.ibv_get_device_name)(device))
                        .to_string_lossy()
                        .into_owned(),
                );
                let context = (verbs.ibv_open_device)(device);
                if context.is_null() {
                    continue;
                }
                match gid_index(&verbs, context, address) {
                    Some(index) => {
                        found = Some((context, index));
                        break;
                    }
                    None => {
                        (verbs.ibv_close_device)(context);
                    }
                }
            }
            (verbs.ibv_free_device_list)(list);
            let Some((context, gid_index)) = found else {
                let found = match &names[..] {
                    [] => "no RDMA device".to_owned(),
                    names => format!("{} without it", names.join(", ")),
                };
                return Err(DeviceError::NoDevice { address, found });
            };
            let domain = made("ibv_alloc_pd", (verbs.ibv_alloc_pd)(context))?;
            let channel = made("ibv_create_comp_channel", (verbs.ibv_create_comp_channel)(context))?;
            let queue = (verbs.ibv_create_cq)(context, completions, std::ptr::null_mut(), channel, 0);
            let queue = made("ibv_create_cq", queue)?;
            Ok(Self { verbs, context, domain, channel, queue, gid_index })
        }
    }

    /// A function of the device's table.
    fn function(&self, index: usize) -> *const c_void {
        // SAFETY: the context is live, and its table is filled when it is opened.
        unsafe { (*self.context).functions[index] }
    }

    /// The file that becomes readable when [`arm`](Self::arm) was called and something has ended.
    pub(crate) fn channel(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is live, and its file open, as long as the device is.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// Has the next completion make the channel readable.
    pub(crate) fn arm(&self) -> Result<(), DeviceError> {
        // SAFETY: the entry has this type, and the queue is live.
        let result = unsafe {
            let notify: unsafe extern "C" fn(*mut CompletionQueue, c_int) -> c_int =
                std::mem::transmute(self.function(REQ_NOTIFY_CQ));
            notify(self.queue, 0)
        };
        check("ibv_req_notify_cq", result)
    }

    /// Takes the event that has made the channel readable.
    pub(crate) fn take_event(&self) {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is live and readable, so the call does not wait; each event taken is acknowledged.
        unsafe {
            if (self.verbs.ibv_get_cq_event)(self.channel, &raw mut queue, &raw mut context) == 0 {
                (self.verbs.ibv_ack_cq_events)(queue, 1);
            }
        }
    }

    /// Takes what has ended, as much as `into` holds; returns how much.
    pub(crate) fn poll(&self, into: &mut [WorkCompletion]) -> Result<usize, DeviceError> {
        // SAFETY: the entry has this type, the queue is live, and the slice holds as many as are asked for.
        let count = unsafe {
            let poll: unsafe extern "C" fn(*mut CompletionQueue, c_int, *mut WorkCompletion) -> c_int =
                std::mem::transmute(self.function(POLL_CQ));
            poll(self.queue, into.len() as c_int, into.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| failed("ibv_poll_cq"))
    }

    /// A queue pair in RESET.
    pub(crate) fn make_pair(&self, capacity: Capacity) -> Result<PairHandle, DeviceError> {
        let mut init = PairInit {
            context: std::ptr::null_mut(),
            send_queue: self.queue,
            receive_queue: self.queue,
            shared: std::ptr::null_mut(),
            capacity,
            kind: IBV_QPT_RC,
            signal_all: 1,
        };
        // SAFETY: the domain and the queue are live.
        made("ibv_create_qp", unsafe { (self.verbs.ibv_create_qp)(self.domain, &raw mut init) })
            .map(PairHandle)
    }

    /// Sets those attributes of a queue pair of this device that `mask` names.
    pub(crate) fn modify(
        &self,
        pair: PairHandle,
        mut attributes: PairAttributes,
        mask: c_int,
    ) -> Result<(), DeviceError> {
        // SAFETY: the queue pair is live until `destroy`.
        check("ibv_modify_qp", unsafe { (self.verbs.ibv_modify_qp)(pair.0, &raw mut attributes, mask) })
    }

    /// Its number.
    pub(crate) fn number(&self, pair: PairHandle) -> u32 {
        // SAFETY: the queue pair is live until `destroy`.
        unsafe { (*pair.0).number }
    }

    /// Ends a queue pair; it is not used any more.
    pub(crate) fn destroy(&self, pair: PairHandle) {
        // SAFETY: the queue pair was live.
        unsafe { (self.verbs.ibv_destroy_qp)(pair.0) };
    }

    pub(crate) fn post_send(
        &self,
        pair: PairHandle,
        id: u64,
        mut element: Element,
        immediate: Option<u32>,
    ) -> Result<(), DeviceError> {
        let mut work = SendWork {
            id,
            next: std::ptr::null_mut(),
            elements: &raw mut element,
            count: c_int::from(element.length > 0),
            opcode: if immediate.is_some() { IBV_WR_SEND_WITH_IMM } else { IBV_WR_SEND },
            flags: IBV_SEND_SIGNALED,
            immediate: immediate.unwrap_or(0).to_be(),
            others: [0; 11],
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the entry has this type; the element lies in a registered buffer that outlives the work.
        let result = unsafe {
            let post: unsafe extern "C" fn(*mut Pair, *mut SendWork, *mut *mut SendWork) -> c_int =
                std::mem::transmute(self.function(POST_SEND));
            post(pair.0, &raw mut work, &raw mut bad)
        };
        check("ibv_post_send", result)
    }

    pub(crate) fn post_receive(
        &self,
        pair: PairHandle,
        id: u64,
        mut element: Element,
    ) -> Result<(), DeviceError> {
        let mut work = ReceiveWork {
            id,
            next: std::ptr::null_mut(),
            elements: &raw mut element,
            count: c_int::from(element.length > 0),
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the entry has this type; the element lies in a registered buffer that outlives the work.
        let result = unsafe {
            let post: unsafe extern "C" fn(*mut Pair, *mut ReceiveWork, *mut *mut ReceiveWork) -> c_int =
                std::mem::transmute(self.function(POST_RECV));
            post(pair.0, &raw mut work, &raw mut bad)
        };
        check("ibv_post_recv", result)
    }

    /// Registers so many bytes for hardware to read and write.
    pub(crate) fn buffer(&self, length: usize) -> Result<Buffer, DeviceError> {
        let memory = Box::into_raw(vec![0_u8; length].into_boxed_slice());
        // SAFETY: the memory lives until `free`, which ends the registration first.
        let region = unsafe {
            (self.verbs.ibv_reg_mr)(self.domain, memory.cast(), length, IBV_ACCESS_LOCAL_WRITE as c_int)
        };
        if region.is_null() {
            let error = failed("ibv_reg_mr");
            // SAFETY: nobody else has it.
            drop(unsafe { Box::from_raw(memory) });
            return Err(error);
        }
        Ok(Buffer { memory, region })
    }

    /// Ends a registration. No queue pair has work on it.
    pub(crate) fn free(&self, buffer: Buffer) {
        // SAFETY: the region is live, and after this nobody but us has the memory.
        unsafe {
            (self.verbs.ibv_dereg_mr)(buffer.region);
            drop(Box::from_raw(buffer.memory));
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Queues, channel and domain end with the context, as they do with the process.
        // SAFETY: nothing of the device is used after this.
        unsafe { (self.verbs.ibv_close_device)(self.context) };
    }
}

/// Which GID of the device's port is `address`, as RoCEv2.
fn gid_index(verbs: &Verbs, context: *mut Context, address: IpAddr) -> Option<u8> {
    (0..=u8::MAX).find(|&index| {
        let mut entry = GidEntry { gid: [0; 16], index: 0, port: 0, kind: 0, interface: 0 };
        // SAFETY: the context is live, and the entry has the size that is told.
        let result = unsafe {
            (verbs._ibv_query_gid_ex)(
                context,
                PORT.into(),
                index.into(),
                &raw mut entry,
                0,
                size_of::<GidEntry>(),
            )
        };
        result == 0 && entry.kind == ROCE_V2 && entry.gid == gid_of(address)
    })
}

/// Memory that hardware reads and writes. It is looked at through copies alone.
pub(crate) struct Buffer {
    memory: *mut [u8],
    region: *mut MemoryRegion,
}

// SAFETY: as for the device, whose value owns it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A piece of it as work names it.
    ///
    /// # Panics
    /// If it is not inside.
    pub(crate) fn element(&self, at: usize, length: usize) -> Element {
        assert!(at + length <= self.memory.len(), "a piece of the buffer");
        // SAFETY: the region is live.
        let lkey = unsafe { (*self.region).lkey };
        Element { address: self.memory.cast::<u8>() as u64 + at as u64, length: length as u32, lkey }
    }

    /// Copies `bytes` to `at`, where hardware has no work.
    ///
    /// # Panics
    /// If they are not inside.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.memory.len(), "a piece of the buffer");
        // SAFETY: inside the memory, of which nobody holds a reference; hardware has no work there.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.cast::<u8>().add(at), bytes.len())
        };
    }

    /// What is at `at`, where hardware has no work any more.
    ///
    /// # Panics
    /// If it is not inside.
    pub(crate) fn view(&self, at: usize, length: usize) -> &[u8] {
        assert!(at + length <= self.memory.len(), "a piece of the buffer");
        // SAFETY: inside the memory; hardware has no work there, and `write` is not called while this is borrowed by its caller.
        unsafe { std::slice::from_raw_parts(self.memory.cast::<u8>().add(at), length) }
    }
}
