//! The system calls of a bridge's ports: whole Ethernet frames with what the kernel knows beside their bytes (a tag that it has taken off,
//! work that it has put off), many at once, and the interfaces that they come by.

use super::{Control, piece};
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// Bytes of the header before each frame that says what the kernel has left undone of it (`struct virtio_net_hdr`).
pub const OFFLOAD_LENGTH: usize = 10;

/// Frames handed to the kernel in one call.
pub const SEND_BATCH: usize = 64;

/// Attaches an open TUN file to an interface: `_IOW('T', 202, int)`, the same on all machines whose ioctl numbers are as on x86 and ARM.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// The tag of IEEE 802.1Q: what it is if the kernel does not say.
const TAG_TYPE: u16 = 0x8100;

/// A frame as the kernel delivered it.
#[derive(Clone, Copy, Debug)]
pub struct FrameArrival {
    /// Bytes of it, without a tag that was taken off.
    pub length: usize,
    /// It was longer than its slot.
    pub truncated: bool,
    /// What the kernel has left undone of it.
    pub offload: [u8; OFFLOAD_LENGTH],
    /// The tag that the kernel has taken off: its type and its control bits.
    pub tag: Option<[u16; 2]>,
}

/// Scratch memory of `recvmmsg`, kept between calls so that receiving does not allocate.
#[derive(Default)]
pub struct FrameReceiver {
    messages: Vec<libc::mmsghdr>,
    pieces: Vec<[libc::iovec; 2]>,
    offloads: Vec<[u8; OFFLOAD_LENGTH]>,
    controls: Vec<Control>,
}

/// Scratch memory of `sendmmsg`.
#[derive(Default)]
pub struct FrameSender {
    messages: Vec<libc::mmsghdr>,
    pieces: Vec<[libc::iovec; 3]>,
}

// SAFETY: the raw pointers inside are written afresh at the start of every call and never read after it, so moving the scratch memory to
// another thread between calls moves no live pointer.
unsafe impl Send for FrameReceiver {}
// SAFETY: as for `FrameReceiver`.
unsafe impl Send for FrameSender {}

impl FrameReceiver {
    /// Receives without waiting up to one frame for each `slot` bytes of `buffer`, `headroom` bytes behind the slot's start, and describes
    /// them in `arrivals`, which is cleared first.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        (slot, headroom): (usize, usize),
        arrivals: &mut Vec<FrameArrival>,
    ) -> io::Result<()> {
        arrivals.clear();
        let slots = buffer.len() / slot;
        self.offloads.resize(slots, [0; OFFLOAD_LENGTH]);
        self.controls.resize(slots, Control([0; super::CONTROL]));
        self.pieces.clear();
        self.pieces.extend(buffer.chunks_exact_mut(slot).zip(&mut self.offloads).map(|(chunk, offload)| {
            let frame = &mut chunk[headroom..];
            [
                libc::iovec { iov_base: offload.as_mut_ptr().cast(), iov_len: offload.len() },
                libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
            ]
        }));
        self.messages.clear();
        for (pieces, control) in self.pieces.iter_mut().zip(&mut self.controls) {
            // SAFETY: `mmsghdr` is plain data for which all zeroes is a valid value.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = pieces.as_mut_ptr();
            message.msg_hdr.msg_iovlen = pieces.len() as _;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control.0.len() as _;
            self.messages.push(message);
        }
        // SAFETY: `messages` holds `slots` headers; controls, offloads and pieces they point to live in `self` and are not touched during
        // the call; the pieces cover disjoint parts of `offloads` and of `buffer`, which is borrowed mutably for it.
        let received = unsafe { super::receive_messages(socket, &mut self.messages, libc::MSG_DONTWAIT)? };
        for (message, &offload) in self.messages[..received].iter().zip(&self.offloads) {
            arrivals.push(FrameArrival {
                length: (message.msg_len as usize).saturating_sub(OFFLOAD_LENGTH),
                truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                offload,
                tag: read_tag(&message.msg_hdr),
            });
        }
        Ok(())
    }
}

impl FrameSender {
    /// Sends the first of `frames`, each of several pieces, as many as one system call takes, and returns how many the kernel took: at least one.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: impl Iterator<Item = [&'a [u8]; 3]>,
    ) -> io::Result<usize> {
        self.pieces.clear();
        self.pieces.extend(frames.take(SEND_BATCH).map(|pieces| pieces.map(piece)));
        self.messages.clear();
        for pieces in &mut self.pieces {
            // SAFETY: `mmsghdr` is plain data for which all zeroes is a valid value.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = pieces.as_mut_ptr();
            message.msg_hdr.msg_iovlen = pieces.len() as _;
            self.messages.push(message);
        }
        // SAFETY: `messages` holds as many headers as is said; the pieces they point to live in `self` and are not touched during the call;
        // what those point into is borrowed for `'a`, which outlives it.
        unsafe { super::send_messages(socket, &mut self.messages) }
    }
}

/// The tag that the kernel has taken off, as its auxiliary data tell.
fn read_tag(header: &libc::msghdr) -> Option<[u16; 2]> {
    // SAFETY: the kernel has filled the control buffer that `header` describes and set its length; CMSG_FIRSTHDR and CMSG_NXTHDR stay inside
    // that length, and a message of this type holds a `tpacket_auxdata`.
    let auxiliary = unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        loop {
            if next.is_null() {
                return None;
            }
            if ((*next).cmsg_level, (*next).cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                break libc::CMSG_DATA(next).cast::<libc::tpacket_auxdata>().read_unaligned();
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    };
    let has = |flag: u32| auxiliary.tp_status & flag != 0;
    let kind = if has(libc::TP_STATUS_VLAN_TPID_VALID) { auxiliary.tp_vlan_tpid } else { TAG_TYPE };
    has(libc::TP_STATUS_VLAN_VALID).then_some([kind, auxiliary.tp_vlan_tci])
}

/// Has an interface take frames for whomever, until the socket is closed.
pub fn set_promiscuous(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    add_membership(socket, (interface, libc::PACKET_MR_PROMISC), [0; 6])
}

/// The same for those that an address of several means.
pub fn join_group(socket: BorrowedFd<'_>, interface: u32, group: [u8; 6]) -> io::Result<()> {
    add_membership(socket, (interface, libc::PACKET_MR_MULTICAST), group)
}

fn add_membership(
    socket: BorrowedFd<'_>,
    (interface, kind): (u32, libc::c_int),
    group: [u8; 6],
) -> io::Result<()> {
    let mut address = [0; 8];
    address[..group.len()].copy_from_slice(&group);
    let request = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: kind as u16,
        mr_alen: group.len() as u16,
        mr_address: address,
    };
    // SAFETY: the pointer and the length describe one `packet_mreq` that lives for the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Frames that found a packet socket's receive buffer full since the last call.
pub fn take_receive_drops(socket: BorrowedFd<'_>) -> u64 {
    let mut found = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the pointers describe one `tpacket_stats` and its length, both of which live for the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if status < 0 { 0 } else { found.tp_drops.into() }
}

/// A request about the interface `name`; all zeroes but for that.
pub(super) fn request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays zero.
    let places = libc::IFNAMSIZ - 1;
    for (place, byte) in request.ifr_name[..places].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

/// The MTU of the interface `name`, in bytes; `socket` is any.
pub fn interface_mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    let mut request = request(name);
    // SAFETY: the pointer is to an `ifreq` that lives for the call, which is what SIOCGIFMTU reads and writes.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written this variant; any bits are a valid int.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Makes an Ethernet interface of the machine's whose other end is this file (TAP): frames with their offloads before them, one a read or
/// write, without waiting. It has no name but the one that the kernel makes of `pattern`, and goes when the file is closed.
pub fn open_tap(pattern: &str) -> io::Result<(File, String)> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = request(pattern);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the pointer is to an `ifreq` that lives for the call, which is what TUNSETIFF reads and writes.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let name = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).map(|name| (file, name)).map_err(io::Error::other)
}
