//! The system calls for which no safe wrapper does what is needed here: `recvmmsg` and `sendmmsg` with control messages
//! that differ from datagram to datagram (segment size, type of service), and socket options by number. Each fails with what the system says.
//!
//! This and what is in `sys/`, for whole frames, is all the `unsafe` code of this floor. Every pointer that a call is handed points into
//! memory borrowed for exactly that call, but for what `sys/xdp.rs` shares with the kernel for as long as a socket is open.
#![allow(unsafe_code)]

pub mod bpf;
pub mod ethtool;
pub mod frames;
pub(crate) mod rights;
pub mod xdp;

use crate::inbox::Arrival;
use crate::outbox::Batch;
use nix::libc;
use quincunx_units::ByteCount;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams handed to the kernel in one `sendmmsg`.
pub(crate) const SEND_BATCH: usize = 64;

/// How batches find their way.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// Each to its own destination.
    Own,
    /// All to this address, where somebody sends them on.
    Via(SocketAddr),
    /// Behind headers that say it: so many bytes for each batch, out of the interface that it has here.
    Headed(&'a [u8], usize, &'a [u32]),
}

/// Room for the three control messages in use, aligned as the kernel wants it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// An int, an int and the 20 bytes of `in6_pktinfo`, each with its header and padding.
const CONTROL: usize = 88;

/// Who sent a datagram: another address for UDP than for packet sockets. The family comes first in each.
#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    inet: libc::sockaddr_in,
    inet6: libc::sockaddr_in6,
    link: libc::sockaddr_ll,
}

/// Scratch memory of `sendmmsg`, kept between calls so that sending does not allocate.
pub(crate) struct Sender {
    messages: Vec<libc::mmsghdr>,
    pieces: Vec<libc::iovec>,
    names: Vec<Name>,
    links: Vec<libc::sockaddr_ll>,
    controls: Vec<Control>,
}

/// Scratch memory of `recvmmsg`, kept between calls so that receiving does not allocate.
pub(crate) struct Receiver {
    messages: Vec<libc::mmsghdr>,
    pieces: Vec<libc::iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
}

// SAFETY: the raw pointers inside are written afresh at the start of every call and never read after it, so moving the
// scratch memory to another thread between calls moves no live pointer.
unsafe impl Send for Sender {}
// SAFETY: as for `Sender`.
unsafe impl Send for Receiver {}

/// Where a batch goes.
fn destination(way: Way<'_>, batch: &Batch) -> SocketAddr {
    match way {
        Way::Via(address) => address,
        Way::Own | Way::Headed(..) => batch.destination(),
    }
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self {
            messages: Vec::new(),
            pieces: Vec::new(),
            names: Vec::new(),
            links: Vec::new(),
            controls: Vec::new(),
        }
    }

    /// Sends the first of `batches`, as many as one system call takes, and returns how many the kernel took: at least
    /// one.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        arena: &[u8],
        batches: &[Batch],
        way: Way<'_>,
    ) -> io::Result<usize> {
        let batches = &batches[..batches.len().min(SEND_BATCH)];
        self.pieces.clear();
        self.names.clear();
        self.links.clear();
        self.controls.clear();
        self.messages.clear();
        for (index, batch) in batches.iter().enumerate() {
            if let Way::Headed(heads, length, interfaces) = way {
                self.pieces.push(piece(&heads[index * length..][..length]));
                self.links.push(link_name(interfaces[index], 0));
            }
            self.pieces.extend(batch.pieces().iter().map(|range| piece(&arena[range.clone()])));
            self.names.push(name_of(destination(way, batch)));
            self.controls.push(Control([0; CONTROL]));
        }
        // Pointers are taken only now, when none of the vectors grows any more.
        let mut first = 0;
        for (index, batch) in batches.iter().enumerate() {
            let count = batch.pieces().len() + usize::from(matches!(way, Way::Headed(..)));
            // SAFETY: `msghdr` and `mmsghdr` are plain data for which all zeroes is a valid value.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = self.pieces[first..first + count].as_mut_ptr();
            message.msg_hdr.msg_iovlen = count as _;
            first += count;
            match way {
                Way::Own | Way::Via(_) => {
                    message.msg_hdr.msg_name = (&raw mut self.names[index]).cast();
                    let to = destination(way, batch);
                    message.msg_hdr.msg_namelen = name_length(to) as _;
                    fill_control(&mut message.msg_hdr, &mut self.controls[index], batch, to);
                }
                Way::Headed(..) => {
                    message.msg_hdr.msg_name = (&raw mut self.links[index]).cast();
                    message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as _;
                }
            }
            self.messages.push(message);
        }
        // SAFETY: `messages` holds as many headers as is said; names, links, controls and pieces they point to live in `self`
        // and are not touched during the call; the pieces point into `arena` and the headers, which are borrowed for it.
        unsafe { send_messages(socket, &mut self.messages) }
    }
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { messages: Vec::new(), pieces: Vec::new(), names: Vec::new(), controls: Vec::new() }
    }

    /// Receives up to one datagram for each `slot` bytes of `buffer` and describes them in `arrivals`, which is cleared
    /// first. The i-th arrival lies at `i * slot`. With `wait`, waits for the first as long as the socket's time-out says.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        slot: usize,
        wait: bool,
        arrivals: &mut Vec<Arrival>,
    ) -> io::Result<()> {
        arrivals.clear();
        let slots = buffer.len() / slot;
        self.pieces.clear();
        self.pieces.extend(
            buffer
                .chunks_exact_mut(slot)
                .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: slot }),
        );
        self.names.resize(slots, Name { link: link_name(0, 0) });
        self.controls.resize(slots, Control([0; CONTROL]));
        self.messages.clear();
        for index in 0..slots {
            // SAFETY: `mmsghdr` is plain data for which all zeroes is a valid value.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = &raw mut self.pieces[index];
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_name = (&raw mut self.names[index]).cast();
            message.msg_hdr.msg_namelen = size_of::<Name>() as _;
            message.msg_hdr.msg_control = self.controls[index].0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = self.controls[index].0.len() as _;
            self.messages.push(message);
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: `messages` holds `slots` headers; names, controls and pieces they point to live in `self` and are not
        // touched during the call; the pieces cover disjoint parts of `buffer`, which is borrowed mutably for it.
        let received = unsafe { receive_messages(socket, &mut self.messages, flags)? };
        for index in 0..received {
            let message = &self.messages[index];
            let (source, interface) = read_name(&self.names[index], message.msg_hdr.msg_namelen as usize);
            let length = message.msg_len as usize;
            let mut arrival = Arrival {
                source,
                tos: 0,
                length,
                segment: length,
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                interface,
            };
            read_control(&message.msg_hdr, &mut arrival);
            arrivals.push(arrival);
        }
        Ok(())
    }
}

/// Sends what `messages` describe, without waiting; how many the kernel has taken.
///
/// # Safety
/// All that they point to must be there, and nobody else's, during the call.
unsafe fn send_messages(socket: BorrowedFd<'_>, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let (first, count) = (messages.as_mut_ptr(), messages.len());
    // Not by the C library's `sendmmsg`: musl's makes a system call for each message.
    // SAFETY: `first` is the first of `count` headers; what these point to the caller vouches for. Where musl's headers and control
    // messages have padding beside lengths that the kernel takes to be longer, it is zero, as all of them was at first.
    let sent =
        unsafe { libc::syscall(libc::SYS_sendmmsg, socket.as_raw_fd(), first, count, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Receives into what `messages` describe; how many have come.
///
/// # Safety
/// As for [`send_messages`].
unsafe fn receive_messages(
    socket: BorrowedFd<'_>,
    messages: &mut [libc::mmsghdr],
    flags: libc::c_int,
) -> io::Result<usize> {
    let (first, count) = (messages.as_mut_ptr(), messages.len());
    // SAFETY: as in `send_messages`.
    let received =
        unsafe { libc::recvmmsg(socket.as_raw_fd(), first, count as _, flags as _, std::ptr::null_mut()) };
    if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
}

/// Sets an integer socket option.
pub fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one `c_int` that lives for the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an integer socket option.
pub(crate) fn option(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers describe one `c_int` and its length, both of which live for the call.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Sets the sizes of a socket's buffers, past the system's limits with CAP_NET_ADMIN and up to them without.
pub fn set_buffers(socket: BorrowedFd<'_>, receive: ByteCount, send: ByteCount) -> io::Result<()> {
    set_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive)?;
    set_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send)
}

fn set_buffer(socket: BorrowedFd<'_>, forced: i32, plain: i32, size: ByteCount) -> io::Result<()> {
    // The kernel doubles what it is given, to make up for its overhead.
    let size = i32::try_from(size.bytes() / 2).unwrap_or(i32::MAX / 2);
    set_option(socket, libc::SOL_SOCKET, forced, size)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, plain, size))
}

/// Raises the size of a socket's receive buffer to `size`, as far as it may; returns what it is then.
pub fn grow_receive_buffer(socket: BorrowedFd<'_>, size: ByteCount) -> io::Result<ByteCount> {
    grow_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, size)
}

/// The same for its send buffer.
pub fn grow_send_buffer(socket: BorrowedFd<'_>, size: ByteCount) -> io::Result<ByteCount> {
    grow_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, size)
}

fn grow_buffer(socket: BorrowedFd<'_>, forced: i32, plain: i32, size: ByteCount) -> io::Result<ByteCount> {
    let now = || {
        let bytes = option(socket, libc::SOL_SOCKET, plain)?;
        Ok(ByteCount::new(u64::try_from(bytes).unwrap_or(0)))
    };
    if now()? < size {
        set_buffer(socket, forced, plain, size)?;
    }
    now()
}

/// Lets only what passes a classic BPF program into a socket.
pub(crate) fn set_filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    set_program(socket, libc::SO_ATTACH_FILTER, program)
}

/// Attaches a classic BPF program to a socket by an option of its own.
pub(crate) fn set_program(
    socket: BorrowedFd<'_>,
    option: i32,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    // The kernel copies the program and only reads it; the C type has no const.
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the pointer and the length describe one `sock_fprog`, which names `program`; both live for the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds a packet socket to frames of one Ethernet type on one interface; interface 0 is all of them.
pub fn bind_to_interface(socket: BorrowedFd<'_>, index: u32, ethertype: u16) -> io::Result<()> {
    let name = link_name(index, ethertype);
    // SAFETY: the pointer and the length describe one `sockaddr_ll` that lives for the call.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const name).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn piece(bytes: &[u8]) -> libc::iovec {
    // `sendmmsg` only reads what the pointer names; the C type has no const.
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn link_name(interface: u32, ethertype: u16) -> libc::sockaddr_ll {
    // SAFETY: `sockaddr_ll` is plain data for which all zeroes is a valid value.
    let mut name: libc::sockaddr_ll = unsafe { zeroed() };
    name.sll_family = libc::AF_PACKET as u16;
    name.sll_protocol = ethertype.to_be();
    name.sll_ifindex = interface as i32;
    name
}

fn name_of(address: SocketAddr) -> Name {
    match address {
        SocketAddr::V4(address) => Name {
            inet: libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            },
        },
        SocketAddr::V6(address) => Name {
            inet6: libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            },
        },
    }
}

fn name_length(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    }
}

fn address_of(name: &libc::sockaddr_in) -> SocketAddr {
    SocketAddrV4::new(name.sin_addr.s_addr.to_ne_bytes().into(), u16::from_be(name.sin_port)).into()
}

/// Neither flow label nor scope are part of who somebody is.
fn address_of_v6(name: &libc::sockaddr_in6) -> SocketAddr {
    SocketAddrV6::new(name.sin6_addr.s6_addr.into(), u16::from_be(name.sin6_port), 0, 0).into()
}

/// The sender's address, or the interface that a frame came in by: whichever the kernel has written.
fn read_name(name: &Name, length: usize) -> (Option<SocketAddr>, u32) {
    // SAFETY: all variants are plain data of any bits and begin with the family, which says which of them the kernel has written;
    // `length` says how much of it. What it has not written is still that of a valid value.
    unsafe {
        match i32::from(name.inet.sin_family) {
            libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => (Some(address_of(&name.inet)), 0),
            // The hardware address at the end may be shorter than its field.
            libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
                (Some(address_of_v6(&name.inet6)), 0)
            }
            libc::AF_PACKET if length >= std::mem::offset_of!(libc::sockaddr_ll, sll_addr) => {
                (None, u32::try_from(name.link.sll_ifindex).unwrap_or(0))
            }
            _ => (None, 0),
        }
    }
}

/// Writes the control messages that `batch` needs: the segment size if it has several, the type of service if not 0.
fn fill_control(header: &mut libc::msghdr, control: &mut Control, batch: &Batch, to: SocketAddr) {
    let segment = (batch.frames() > 1).then_some(batch.segment());
    let tos = batch.tos();
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let mut used = 0;
    // SAFETY: `header` describes `control`, which is aligned and has room for both messages (24 bytes each, of 88); the
    // headers that CMSG_FIRSTHDR and CMSG_NXTHDR give lie inside it, and CMSG_DATA of each has room for what is written.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        if let Some(segment) = segment {
            (*next).cmsg_level = libc::SOL_UDP;
            (*next).cmsg_type = libc::UDP_SEGMENT;
            (*next).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            libc::CMSG_DATA(next).cast::<u16>().write_unaligned(segment);
            used += libc::CMSG_SPACE(size_of::<u16>() as u32) as usize;
            next = libc::CMSG_NXTHDR(header, next);
        }
        if tos != 0 {
            let (level, kind) = if to.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            (*next).cmsg_level = level;
            (*next).cmsg_type = kind;
            (*next).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
            libc::CMSG_DATA(next).cast::<i32>().write_unaligned(i32::from(tos));
            used += libc::CMSG_SPACE(size_of::<i32>() as u32) as usize;
        }
    }
    header.msg_controllen = used as _;
    if used == 0 {
        header.msg_control = std::ptr::null_mut();
    }
}

/// Takes the segment size, the type of service and the interface out of the control messages that the kernel wrote.
fn read_control(header: &libc::msghdr, arrival: &mut Arrival) {
    // SAFETY: the kernel has filled the control buffer that `header` describes and set its length; CMSG_FIRSTHDR and
    // CMSG_NXTHDR stay inside that length, and each message holds the type read from it (an int, a byte, an `in_pktinfo` or `in6_pktinfo`).
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            match ((*next).cmsg_level, (*next).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment = libc::CMSG_DATA(next).cast::<i32>().read_unaligned();
                    arrival.segment = usize::try_from(segment).unwrap_or(0).clamp(1, arrival.length.max(1));
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => arrival.tos = libc::CMSG_DATA(next).read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    arrival.tos = libc::CMSG_DATA(next).cast::<i32>().read_unaligned() as u8;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let found = libc::CMSG_DATA(next).cast::<libc::in6_pktinfo>().read_unaligned();
                    arrival.interface = found.ipi6_ifindex;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let found = libc::CMSG_DATA(next).cast::<libc::in_pktinfo>().read_unaligned();
                    arrival.interface = u32::try_from(found.ipi_ifindex).unwrap_or(0);
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
}
