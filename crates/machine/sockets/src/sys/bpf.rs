//! Programs that an interface asks about each frame, and what attaches them: one hands frames to XDP sockets, by a map of the sockets by receive
//! queue; one loses a share of them, for tests and measurements. All are files: they go when they are closed, and so when the process ends, however
//! it does.

use nix::libc;
use quincunx_units::Probability;
use std::ffi::CStr;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

const XSK_MAP: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// The program understands frames in several pieces.
const HAS_FRAGMENTS: u32 = 1 << 5;

/// Where the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver, before the kernel makes a buffer of its own for a frame.
    Driver,
    /// Behind it, with any driver.
    Generic,
}

impl Mode {
    fn flag(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Driver => 1 << 2,
        }
    }
}

/// `struct bpf_insn`: destination and source registers share a byte.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The first members of `union bpf_attr` for each command; the rest is zero for the kernel.
#[repr(C)]
struct NewMap {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
}

#[repr(C)]
struct Update {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct NewProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log: [u32; 4],
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct NewLink {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// A map of XDP sockets by receive queue.
pub struct SocketMap(OwnedFd);

impl SocketMap {
    /// One for so many queues.
    pub fn new(queues: u32) -> io::Result<Self> {
        let size = size_of::<u32>() as u32;
        let mut map = NewMap { kind: XSK_MAP, key_size: size, value_size: size, entries: queues };
        // SAFETY: a new map's attributes point nowhere; the answer is a file of ours alone.
        unsafe { Ok(Self(OwnedFd::from_raw_fd(bpf(MAP_CREATE, &mut map)?))) }
    }

    /// Has a queue's frames go to a socket.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let mut update = Update {
            map: self.0.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value point to a `u32` each, as large as the map's, which live for the call.
        unsafe { bpf(MAP_UPDATE, &mut update).map(drop) }
    }
}

/// Loads the program that redirects each frame to the socket of its queue, and drops those of queues that have none: no frame is the
/// kernel's.
pub fn load(map: &SocketMap, fragments: bool) -> io::Result<OwnedFd> {
    let program = [
        // r2 = context->rx_queue_index, a word at 16
        Instruction { offset: 16, ..instruction(0x61, 0x12, 0) },
        // r1 = the map: a load of 64 bits takes two places, and source 1 says that it is a map's file
        instruction(0x18, 0x11, map.0.as_raw_fd()),
        instruction(0, 0, 0),
        // r3 = XDP_DROP, the answer where the map has no socket
        instruction(0xb7, 0x03, 1),
        // r0 = bpf_redirect_map(r1, r2, r3)
        instruction(0x85, 0, 51),
        // return r0
        instruction(0x95, 0, 0),
    ];
    load_program(&program, *b"quincunx_ports\0\0", if fragments { HAS_FRAGMENTS } else { 0 })
}

/// Loads the program that drops so many of all frames, each for itself, and leaves the others to the kernel. It takes frames in one piece: an
/// interface of a pair that is asked by it has its peer cut what is longer than a frame beforehand, so that no burst is lost as a whole.
pub fn load_loss(probability: Probability) -> io::Result<OwnedFd> {
    let all = f64::from(u32::MAX);
    let program = [
        // r0 = bpf_get_prandom_u32()
        instruction(0x85, 0, 7),
        // below so many of all 2^32 the frame is dropped
        Instruction { offset: 2, ..instruction(0xa6, 0, (probability.value() * all) as u32 as i32) },
        // return XDP_PASS
        instruction(0xb7, 0, 2),
        instruction(0x95, 0, 0),
        // return XDP_DROP
        instruction(0xb7, 0, 1),
        instruction(0x95, 0, 0),
    ];
    load_program(&program, *b"quincunx_loss\0\0\0", 0)
}

const fn instruction(code: u8, registers: u8, immediate: i32) -> Instruction {
    Instruction { code, registers, offset: 0, immediate }
}

/// Loads instructions under the name that `ip link` and `bpftool` show.
fn load_program(program: &[Instruction], name: [u8; 16], flags: u32) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"Apache-2.0";
    let mut load = NewProgram {
        kind: XDP_PROGRAM,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log: [0; 4],
        kernel: 0,
        flags,
        name,
        interface: 0,
        attach: ATTACH_XDP,
    };
    // SAFETY: `instructions` points to `count` of them and `license` to a string that ends in a zero; both live for the call. The answer is a
    // file of ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(PROGRAM_LOAD, &mut load)?)) }
}

/// Attaches a program to an interface, until the file is closed.
pub fn attach(program: BorrowedFd<'_>, interface: u32, mode: Mode) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut link = NewLink { program, interface, attach: ATTACH_XDP, flags: mode.flag() };
    // SAFETY: a new link's attributes point nowhere; the answer is a file of ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(LINK_CREATE, &mut link)?)) }
}

/// # Safety
/// What `attributes` point to must be there during the call, as large as the command wants it.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    let size = size_of_val(attributes) as libc::c_long;
    // SAFETY: `attributes` are `size` bytes that live for the call; what they point to the caller vouches for.
    let status = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(status as i32) }
}
