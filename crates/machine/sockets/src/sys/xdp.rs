//! An XDP socket (AF_XDP): memory that it shares with the kernel, in chunks of a page that a frame lies in, and four rings that say whose a
//! chunk is.
//!
//! ```text
//! fill:       chunks that frames may come in      ->  kernel
//! receive:    kernel  ->  chunks with frames in them
//! send:       chunks with frames that are to leave ->  kernel
//! completion: kernel  ->  chunks of frames that have left
//! ```
//!
//! Of the chunks the first ones are for what comes and the others for what leaves. A frame that is longer than a chunk lies in several, each but
//! the last with a flag. Bytes are copied in and out here, so that nobody else holds a chunk.

use super::frames::{FrameArrival, OFFLOAD_LENGTH};
use nix::libc;
use std::io;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Bytes of a chunk: a page of most machines, and the most that drivers take.
const CHUNK: usize = 4096;

/// What the kernel leaves free before a frame that comes.
const HEADROOM: usize = 256;

/// The longest frame that comes in one chunk.
pub const FRAME_OF_A_CHUNK: usize = CHUNK - HEADROOM;

/// A chunk for so many bytes of a buffer: each frame takes one, however short it is.
const FRAME: usize = 1024;

/// Drivers want to be handed as many chunks as their own queue holds.
const LEAST_TO_RECEIVE: usize = 1024;
const LEAST_TO_SEND: usize = 64;

/// How a socket is set up.
#[derive(Clone, Copy, Debug)]
pub struct XdpOptions {
    /// Index of the interface.
    pub interface: u32,
    /// Its queue.
    pub queue: u32,
    /// Bytes of frames that may wait to be received, most of which are about a KiB long.
    pub receive: usize,
    /// The same to leave.
    pub send: usize,
    /// Frames may lie in several chunks.
    pub scattered: bool,
    /// The driver is not asked whether it uses the chunks itself, without a copy.
    pub copied: bool,
}

/// An XDP socket and its memory.
pub struct XdpSocket {
    socket: OwnedFd,
    memory: Mapping,
    fill: Ring<u64>,
    receive: Ring<libc::xdp_desc>,
    send: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Chunks to send in that nothing is in.
    free: Vec<u64>,
    /// Descriptors in the send ring that the kernel has not been shown.
    unsent: u32,
    drops: u64,
}

impl XdpSocket {
    /// Opens a socket at one queue of an interface.
    pub fn open(options: &XdpOptions) -> io::Result<Self> {
        let chunks = |bytes: usize, least: usize| (bytes / FRAME).next_power_of_two().max(least);
        let to_receive = chunks(options.receive, LEAST_TO_RECEIVE);
        let to_send = chunks(options.send, LEAST_TO_SEND);
        // SAFETY: no pointers; the answer is a file of ours alone.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
        let fd = socket.as_fd();
        let memory = Mapping::anonymous((to_receive + to_send) * CHUNK)?;
        set(fd, libc::XDP_UMEM_REG, &memory.registration())?;
        let [receives, sends] = [to_receive, to_send].map(|count| count as u32);
        let sizes = [
            (libc::XDP_UMEM_FILL_RING, receives),
            (libc::XDP_UMEM_COMPLETION_RING, sends),
            (libc::XDP_RX_RING, receives),
            (libc::XDP_TX_RING, sends),
        ];
        for (ring, size) in sizes {
            set(fd, ring, &size)?;
        }
        // SAFETY: all zeroes is a valid value of these offsets, and any other.
        let places: libc::xdp_mmap_offsets = unsafe { get(fd, libc::XDP_MMAP_OFFSETS)? };
        let fill = (libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, Side::Producer);
        let receive = (libc::XDP_PGOFF_RX_RING, Side::Consumer);
        let send = (libc::XDP_PGOFF_TX_RING, Side::Producer);
        let completion = (libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, Side::Consumer);
        let mut socket = Self {
            fill: Ring::map(fd, fill, &places.fr, receives)?,
            receive: Ring::map(fd, receive, &places.rx, receives)?,
            send: Ring::map(fd, send, &places.tx, sends)?,
            completion: Ring::map(fd, completion, &places.cr, sends)?,
            free: (to_receive..to_receive + to_send).map(|chunk| (chunk * CHUNK) as u64).collect(),
            unsent: 0,
            drops: 0,
            memory,
            socket,
        };
        (0..receives).for_each(|chunk| socket.fill.put(chunk, u64::from(chunk) * CHUNK as u64));
        socket.fill.publish(receives);
        socket.bind(options)?;
        Ok(socket)
    }

    fn bind(&self, options: &XdpOptions) -> io::Result<()> {
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        // Without a word on copies the kernel tries without.
        let name = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP
                | flag(options.scattered, libc::XDP_USE_SG)
                | flag(options.copied, libc::XDP_COPY),
            sxdp_ifindex: options.interface,
            sxdp_queue_id: options.queue,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the pointer and the length describe one `sockaddr_xdp` that lives for the call.
        let status = unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const name).cast(), length) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether the driver uses the chunks itself.
    pub fn is_zero_copy(&self) -> bool {
        // SAFETY: any bits are valid options.
        let options: io::Result<libc::xdp_options> = unsafe { get(self.as_fd(), libc::XDP_OPTIONS) };
        options.is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Takes a frame into each slot of `buffer`, `headroom` bytes behind its start, as far as there are any, and adds to `arrivals` what came.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        (slot, headroom): (usize, usize),
        arrivals: &mut Vec<FrameArrival>,
    ) {
        let (mut taken, ready) = (0, self.receive.ready());
        for slot in buffer.chunks_exact_mut(slot) {
            let Some(pieces) = self.pieces_of_next(taken, ready) else { break };
            let frame = &mut slot[headroom..];
            let (mut length, mut truncated) = (0, false);
            for _ in 0..pieces {
                let found = self.receive.entry(taken);
                let piece = self.memory.bytes(found.addr, found.len);
                match frame.get_mut(length..length + piece.len()) {
                    Some(place) => place.copy_from_slice(piece),
                    None => truncated = true,
                }
                length += piece.len();
                self.fill.put(taken, found.addr / CHUNK as u64 * CHUNK as u64);
                taken += 1;
            }
            let offload = [0; OFFLOAD_LENGTH];
            arrivals.push(FrameArrival { length, truncated, offload, tag: None });
        }
        self.receive.publish(taken);
        self.fill.publish(taken);
        if taken > 0 {
            self.wake_receiver();
        }
    }

    /// Has a driver that has run out of chunks look for those that it has been given since.
    pub fn wake_receiver(&self) {
        if self.fill.needs_wakeup() {
            // SAFETY: nothing is received: no pointer, no length.
            unsafe {
                let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
                libc::recvfrom(
                    fd,
                    std::ptr::null_mut(),
                    0,
                    flags,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                );
            }
        }
    }

    /// Chunks of the frame that begins at the `first` of `ready` ones, if all of it is there.
    fn pieces_of_next(&self, first: u32, ready: u32) -> Option<u32> {
        let last = (first..ready).find(|at| self.receive.entry(*at).options & libc::XDP_PKT_CONTD == 0)?;
        Some(last + 1 - first)
    }

    /// Has a frame of these pieces leave with the next [`flush`](Self::flush); false if there is no room for it.
    pub fn queue(&mut self, pieces: &[&[u8]]) -> bool {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let chunks = length.div_ceil(CHUNK);
        if self.free.len() < chunks {
            self.reclaim();
        }
        if self.free.len() < chunks || length == 0 {
            return false;
        }
        let mut left = length;
        let mut bytes = pieces.iter().copied();
        let mut piece: &[u8] = &[];
        while left > 0 {
            let Some(address) = self.free.pop() else { return false };
            let size = left.min(CHUNK);
            let mut place = self.memory.bytes_mut(address, size as u32);
            while !place.is_empty() {
                if piece.is_empty() {
                    piece = bytes.next().unwrap_or_default();
                    continue;
                }
                let most = piece.len().min(place.len());
                place[..most].copy_from_slice(&piece[..most]);
                (piece, place) = (&piece[most..], &mut place[most..]);
            }
            left -= size;
            let options = if left > 0 { libc::XDP_PKT_CONTD } else { 0 };
            self.send.put(self.unsent, libc::xdp_desc { addr: address, len: size as u32, options });
            self.unsent += 1;
        }
        true
    }

    /// Takes back the chunks of what has left.
    fn reclaim(&mut self) {
        let done = self.completion.ready();
        self.free.extend((0..done).map(|at| self.completion.entry(at)));
        self.completion.publish(done);
    }

    /// Has the kernel send what is queued. What it cannot take now it is shown again the next time.
    ///
    /// # Errors
    /// If the interface is down or gone.
    pub fn flush(&mut self) -> io::Result<()> {
        self.send.publish(std::mem::take(&mut self.unsent));
        loop {
            let waiting = self.send.waiting();
            if waiting == 0 || !self.send.needs_wakeup() {
                return Ok(());
            }
            // SAFETY: nothing is sent but what the ring has: no pointer, no length.
            let status = unsafe {
                let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
                libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0)
            };
            if status >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            // It sends some in each call, and ends where it has lost one.
            if self.send.waiting() == waiting {
                return match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => Ok(()),
                    _ => Err(error),
                };
            }
        }
    }

    /// Frames that found no room since the last call.
    pub fn take_drops(&mut self) -> u64 {
        // SAFETY: any bits are valid counts.
        let found: io::Result<libc::xdp_statistics> = unsafe { get(self.as_fd(), libc::XDP_STATISTICS) };
        let all = found.map_or(self.drops, |found| found.rx_dropped + found.rx_ring_full);
        let new = all.saturating_sub(self.drops);
        self.drops = all;
        new
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sets an option of XDP sockets.
fn set<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe one value that lives for the call.
    let status = unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, length)
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an option of XDP sockets.
///
/// # Safety
/// Any bits must be a valid `T`.
unsafe fn get<T>(socket: BorrowedFd<'_>, option: i32) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers describe one value and its length, both of which live for the call; the caller vouches for all values.
    unsafe {
        let mut value: T = zeroed();
        let place = (&raw mut value).cast();
        let status = libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, place, &raw mut length);
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
    }
}

/// Memory that the kernel has, too. It goes when this is dropped.
struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the memory belongs to the mapping, whichever thread has it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn anonymous(length: usize) -> io::Result<Self> {
        Self::new(-1, length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, 0)
    }

    fn new(file: libc::c_int, length: usize, flags: libc::c_int, at: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, where the kernel has room.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags | libc::MAP_POPULATE, file, at) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), length })
    }

    /// What the kernel is told of chunks.
    fn registration(&self) -> libc::xdp_umem_reg {
        // SAFETY: plain data for which all zeroes is a valid value.
        let mut registration: libc::xdp_umem_reg = unsafe { zeroed() };
        registration.addr = self.start as u64;
        registration.len = self.length as u64;
        registration.chunk_size = CHUNK as u32;
        registration
    }

    /// Where so many bytes begin.
    fn place(&self, address: u64, length: u32) -> *mut u8 {
        let end = address.checked_add(length.into());
        assert!(end.is_some_and(|end| end <= self.length as u64), "{length} bytes at {address}");
        self.start.wrapping_add(address as usize)
    }

    /// Bytes of a chunk that the kernel has handed over.
    fn bytes(&self, address: u64, length: u32) -> &[u8] {
        // SAFETY: `place` has looked that they are within the memory, which lives as long as `self`; the kernel does not write to a chunk
        // between the receive ring and the fill ring, and this is called for no other.
        unsafe { std::slice::from_raw_parts(self.place(address, length), length as usize) }
    }

    /// Bytes of a chunk that is free.
    fn bytes_mut(&mut self, address: u64, length: u32) -> &mut [u8] {
        // SAFETY: as above; a chunk is in the list of free ones from the completion ring to the send ring.
        unsafe { std::slice::from_raw_parts_mut(self.place(address, length), length as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is as it was made, and nobody borrows of it.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// A ring of entries of plain data: one side has produced as many and the other has consumed as many as two counters say, which wrap.
struct Ring<T> {
    memory: Mapping,
    /// Where the counter is that this side moves, that of the kernel, and the flags.
    own: u64,
    other: u64,
    flags: u64,
    /// Where the entries begin, and how many there are: a power of two.
    entries: u64,
    size: u32,
    /// What this side's counter says.
    position: u32,
    kind: PhantomData<T>,
}

/// Which side of a ring is ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Producer,
    Consumer,
}

impl<T: Copy> Ring<T> {
    fn map(
        socket: BorrowedFd<'_>,
        (page, side): (libc::off_t, Side),
        places: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let length = places.desc as usize + size as usize * size_of::<T>();
        let memory = Mapping::new(socket.as_raw_fd(), length, libc::MAP_SHARED, page)?;
        let (own, other) = match side {
            Side::Producer => (places.producer, places.consumer),
            Side::Consumer => (places.consumer, places.producer),
        };
        let (flags, entries, kind) = (places.flags, places.desc, PhantomData);
        Ok(Self { memory, own, other, flags, entries, size, position: 0, kind })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: within the mapping, as `place` looks, and aligned as the kernel has laid it out; both sides use it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.place(at, size_of::<u32>() as u32).cast()) }
    }

    /// The entry so many behind this side's counter.
    fn place(&self, ahead: u32) -> *mut T {
        let index = self.position.wrapping_add(ahead) & (self.size - 1);
        let size = size_of::<T>();
        self.memory.place(self.entries + u64::from(index) * size as u64, size as u32).cast()
    }

    /// What the kernel has produced and this side has not consumed.
    fn ready(&self) -> u32 {
        self.word(self.other).load(Ordering::Acquire).wrapping_sub(self.position)
    }

    /// What this side has produced and the kernel has not consumed.
    fn waiting(&self) -> u32 {
        self.position.wrapping_sub(self.word(self.other).load(Ordering::Acquire))
    }

    /// One of the ready entries.
    fn entry(&self, ahead: u32) -> T {
        // SAFETY: within the ring and aligned, as entries are; any bits are a valid entry, and the kernel leaves those alone that it has produced.
        unsafe { self.place(ahead).read() }
    }

    /// Writes an entry that is not the kernel's. There is room: no ring has fewer places than there are chunks for it.
    fn put(&mut self, ahead: u32, entry: T) {
        // SAFETY: within the ring and aligned; the kernel reads none that is not published.
        unsafe { self.place(ahead).write(entry) }
    }

    /// Moves this side's counter over so many entries.
    fn publish(&mut self, count: u32) {
        if count > 0 {
            self.position = self.position.wrapping_add(count);
            self.word(self.own).store(self.position, Ordering::Release);
        }
    }

    /// Whether the kernel has to be told of entries by a call: it says so before it looks for them a last time.
    fn needs_wakeup(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}
