//! One port of a bridge: a network interface by a packet socket or by XDP sockets, or the machine's own end of a cable (TAP).

use crate::counts::{PortCounts, PortDrop, PortTraffic};
use crate::ethernet::{TAG, TAG_AT};
use crate::offload::{self, Offload};
use crate::xdp::XdpLink;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use quincunx_sockets::sys::frames::{FrameArrival, FrameReceiver, FrameSender, OFFLOAD_LENGTH};
use quincunx_sockets::{OpenError, SLOT, sys};
use quincunx_units::ByteCount;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Frames of every type.
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// A port and what it has counted.
pub(super) struct Port {
    pub(super) name: String,
    link: PortLink,
    /// Bytes behind an Ethernet header that it takes.
    pub(super) mtu: usize,
    pub(super) is_up: bool,
    pub(super) counts: PortCounts,
    /// What leaves by it next: where it lies in the inbox.
    queue: Vec<Queued>,
}

enum PortLink {
    Packet(OwnedFd),
    Xdp(XdpLink),
    Own(File),
}

#[derive(Clone)]
struct Queued {
    bytes: Range<usize>,
    offload: [u8; OFFLOAD_LENGTH],
    frames: u64,
}

/// A frame that came by a port.
pub(super) struct Arrived {
    /// Where it lies in the inbox, with its tag.
    pub(super) bytes: Range<usize>,
    pub(super) offload: Offload,
}

/// A frame in pieces, and how many it is on a wire.
pub(super) type Outgoing<'a> = ([&'a [u8]; 3], u64);

impl Port {
    /// Opens the interface `name` by a packet socket, which all of its frames come by, whomever they are for.
    pub(super) fn packet(
        (name, index): (&str, u32),
        [receive_buffer, send_buffer]: [ByteCount; 2],
    ) -> Result<Self, OpenError> {
        let set_up = || -> io::Result<(OwnedFd, usize)> {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
            let fd = socket.as_fd();
            for option in [libc::PACKET_IGNORE_OUTGOING, libc::PACKET_AUXDATA, libc::PACKET_VNET_HDR] {
                sys::set_option(fd, libc::SOL_PACKET, option, 1)?;
            }
            sys::set_buffers(fd, receive_buffer, send_buffer)?;
            sys::frames::set_promiscuous(fd, index)?;
            sys::bind_to_interface(fd, index, ALL_PROTOCOLS)?;
            let mtu = sys::frames::interface_mtu(fd, name)?;
            Ok((socket, mtu))
        };
        let (socket, mtu) = set_up().map_err(|error| OpenError {
            expected: "leave to open a packet socket (CAP_NET_RAW, CAP_NET_ADMIN, Linux 4.20)",
            place: name.to_owned(),
            error,
            remedy: "run as root",
        })?;
        Ok(Self::new(name, PortLink::Packet(socket), mtu))
    }

    /// The same by XDP sockets.
    pub(super) fn xdp(interface: (&str, u32), buffers: [ByteCount; 2]) -> Result<Self, OpenError> {
        let (link, mtu) = XdpLink::open(interface, buffers)?;
        Ok(Self::new(interface.0, PortLink::Xdp(link), mtu))
    }

    /// The machine's own port.
    pub(super) fn own(name: &str, file: File, mtu: usize) -> Self {
        Self::new(name, PortLink::Own(file), mtu)
    }

    fn new(name: &str, link: PortLink, mtu: usize) -> Self {
        let sockets = match &link {
            PortLink::Packet(_) => "packet socket".to_owned(),
            PortLink::Xdp(link) => link.found.to_string(),
            PortLink::Own(_) => "TAP".to_owned(),
        };
        let (counts, queue) = (PortCounts { sockets, ..PortCounts::default() }, Vec::new());
        Self { name: name.to_owned(), link, mtu, is_up: true, counts, queue }
    }

    /// What to wait on until frames come.
    pub(super) fn files(&self) -> Vec<BorrowedFd<'_>> {
        match &self.link {
            PortLink::Packet(socket) => vec![socket.as_fd()],
            PortLink::Xdp(link) => link.files().collect(),
            PortLink::Own(file) => vec![file.as_fd()],
        }
    }

    /// Looks whether its link is up and how long frames may be; whether the link has come or gone. What cannot be asked now stays as it was.
    pub(super) fn look(&mut self, running: Option<&BTreeSet<String>>) -> bool {
        let mtu = |socket| sys::frames::interface_mtu(socket, &self.name).unwrap_or(self.mtu);
        self.mtu = match &self.link {
            PortLink::Packet(socket) => mtu(socket.as_fd()),
            PortLink::Xdp(link) => link.mtu(mtu(link.control())),
            PortLink::Own(_) => return false,
        };
        let is_up = running.map_or(self.is_up, |running| running.contains(&self.name));
        std::mem::replace(&mut self.is_up, is_up) != is_up
    }

    /// Counts what found no room to be received in.
    pub(super) fn count_receive_drops(&mut self) {
        let lost = match &mut self.link {
            PortLink::Packet(socket) => sys::frames::take_receive_drops(socket.as_fd()),
            PortLink::Xdp(link) => link.take_drops(),
            PortLink::Own(_) => 0,
        };
        if lost > 0 {
            self.drop_frames(PortDrop::ReceiveBufferFull, lost);
        }
    }

    /// The packet socket, if that is what it has: its buffers grow.
    pub(super) fn packet_socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            PortLink::Packet(socket) => Some(socket.as_fd()),
            PortLink::Xdp(_) | PortLink::Own(_) => None,
        }
    }

    pub(super) fn drop_frames(&mut self, reason: PortDrop, frames: u64) {
        *self.counts.dropped.entry(reason).or_default() += frames;
    }

    /// Receives into the slots of `buffer`, without waiting, and describes what came in `arrivals`: one a slot.
    pub(super) fn receive(
        &mut self,
        receiver: &mut FrameReceiver,
        buffer: &mut [u8],
        arrivals: &mut Vec<FrameArrival>,
    ) {
        // Each failure is one frame, or none.
        for _ in 0..buffer.len() / SLOT {
            let received = match &mut self.link {
                PortLink::Xdp(link) => return link.receive(buffer, arrivals),
                PortLink::Packet(socket) => receiver.receive(socket.as_fd(), buffer, (SLOT, TAG), arrivals),
                PortLink::Own(file) => read_all(file, buffer, arrivals),
            };
            match received.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0))) {
                // Merged in a way that cannot be told in the header before it.
                Err(Errno::EINVAL) => self.drop_frames(PortDrop::Unreadable, 1),
                Err(Errno::EINTR) => {}
                // Nothing is there, or the link has just gone down.
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// Has a frame leave with the next [`flush`](Self::flush), if it is not too long: `longest` is what an MTU counts of it.
    pub(super) fn queue(&mut self, arrived: &Arrived, (frames, longest): (u64, usize)) {
        if longest > self.mtu {
            return self.drop_frames(PortDrop::TooLong, frames);
        }
        let (bytes, offload) = (arrived.bytes.clone(), arrived.offload.write());
        self.queue.push(Queued { bytes, offload, frames });
    }

    /// Sends what is queued out of `buffer`. What the kernel does not take is lost, as in a switch whose queue is full.
    pub(super) fn flush(&mut self, sender: &mut FrameSender, buffer: &[u8]) {
        if self.queue.is_empty() {
            return;
        }
        let mut queue = std::mem::take(&mut self.queue);
        self.send(sender, queue.len(), |index| {
            let Queued { bytes, offload, frames } = &queue[index];
            ([offload, &buffer[bytes.clone()], &[]], *frames)
        });
        queue.clear();
        self.queue = queue;
    }

    /// Shows the kernel again what it could not take before.
    pub(super) fn resume(&mut self) {
        if let PortLink::Xdp(link) = &mut self.link
            && link.resume().is_err()
        {
            self.is_up = false;
        }
    }

    /// Sends `count` frames, each as `frame` has it: its offloads first.
    pub(super) fn send<'a>(
        &mut self,
        sender: &mut FrameSender,
        count: usize,
        frame: impl Fn(usize) -> Outgoing<'a>,
    ) {
        let mut next = 0;
        while next < count {
            let sent = match &mut self.link {
                PortLink::Xdp(_) => return self.send_by_xdp(count, frame),
                PortLink::Packet(socket) => {
                    sender.send(socket.as_fd(), (next..count).map(|index| frame(index).0))
                }
                PortLink::Own(file) => {
                    let mut file: &File = file;
                    file.write_vectored(&frame(next).0.map(IoSlice::new)).map(|_| 1)
                }
            };
            let reason = match sent {
                Ok(sent) => {
                    for (pieces, frames) in (next..next + sent).map(&frame) {
                        self.counts.sent.frames += frames;
                        self.counts.sent.bytes += (pieces[1].len() + pieces[2].len()) as u64;
                    }
                    next += sent;
                    continue;
                }
                Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                    Errno::EINTR => continue,
                    Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM => PortDrop::QueueFull,
                    Errno::EMSGSIZE => PortDrop::TooLong,
                    Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV | Errno::EIO => PortDrop::Down,
                    _ => PortDrop::Refused,
                },
            };
            self.drop_frames(reason, frame(next).1);
            next += 1;
        }
    }

    /// The same by XDP sockets, which leave nothing to the kernel. What waits while a link is down would leave when it is up again.
    fn send_by_xdp<'a>(&mut self, count: usize, frame: impl Fn(usize) -> Outgoing<'a>) {
        let PortLink::Xdp(link) = &mut self.link else { return };
        let (mut sent, mut lost) = (PortTraffic::default(), BTreeMap::new());
        for ([offload, pieces @ ..], frames) in (0..count).map(frame) {
            let reason = if !self.is_up {
                PortDrop::Down
            } else if *offload != offload::NOTHING_LEFT {
                PortDrop::Unreadable
            } else if link.queue(&pieces) {
                sent.frames += frames;
                sent.bytes += pieces.map(<[u8]>::len).iter().sum::<usize>() as u64;
                continue;
            } else {
                PortDrop::QueueFull
            };
            *lost.entry(reason).or_default() += frames;
        }
        if link.flush().is_err() {
            self.is_up = false;
        }
        self.counts.sent.frames += sent.frames;
        self.counts.sent.bytes += sent.bytes;
        lost.into_iter().for_each(|(reason, frames)| self.drop_frames(reason, frames));
    }
}

/// Reads a frame into each slot of `buffer`, as far as there are any.
fn read_all(mut file: &File, buffer: &mut [u8], arrivals: &mut Vec<FrameArrival>) -> io::Result<()> {
    arrivals.clear();
    for slot in buffer.chunks_exact_mut(SLOT) {
        let mut offload = [0; OFFLOAD_LENGTH];
        let pieces = &mut [IoSliceMut::new(&mut offload), IoSliceMut::new(&mut slot[TAG..])];
        match file.read_vectored(pieces) {
            Ok(length) => {
                let length = length.saturating_sub(OFFLOAD_LENGTH);
                arrivals.push(FrameArrival { length, truncated: false, offload, tag: None });
            }
            Err(_) if !arrivals.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts a tag that the kernel has taken off back into a frame in the slot that begins at `start`; none if the frame is not whole.
pub(super) fn whole(buffer: &mut [u8], start: usize, arrival: &FrameArrival) -> Option<Arrived> {
    if arrival.truncated || arrival.length < TAG_AT {
        return None;
    }
    let offload = Offload::read(&arrival.offload);
    let first = start + TAG;
    let end = first + arrival.length;
    let Some([kind, control]) = arrival.tag else {
        return Some(Arrived { bytes: first..end, offload });
    };
    buffer.copy_within(first..first + TAG_AT, start);
    buffer[start + TAG_AT..start + TAG_AT + TAG]
        .copy_from_slice([kind, control].map(u16::to_be_bytes).as_flattened());
    Some(Arrived { bytes: start..end, offload: offload.behind_tag() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_was_taken_off_is_put_back_where_it_was() {
        let mut buffer = vec![0; 64];
        let frame = b"destinsourceTYpayload";
        buffer[8 + TAG..8 + TAG + frame.len()].copy_from_slice(frame);
        let arrival =
            |tag| FrameArrival { length: frame.len(), truncated: false, offload: [0; OFFLOAD_LENGTH], tag };
        let plain = whole(&mut buffer, 8, &arrival(None)).expect("a whole frame");
        assert_eq!(&buffer[plain.bytes], frame);
        let tagged = whole(&mut buffer, 8, &arrival(Some([0x8100, 0x2007]))).expect("a whole frame");
        assert_eq!(&buffer[tagged.bytes], b"destinsource\x81\x00\x20\x07TYpayload");
    }

    #[test]
    fn what_is_not_whole_is_no_frame() {
        let arrival = FrameArrival { length: 60, truncated: true, offload: [0; OFFLOAD_LENGTH], tag: None };
        assert!(whole(&mut [0; 64], 0, &arrival).is_none());
        assert!(whole(&mut [0; 64], 0, &FrameArrival { truncated: false, length: 11, ..arrival }).is_none());
        assert!(whole(&mut [0; 64], 0, &FrameArrival { truncated: false, length: 12, ..arrival }).is_some());
    }
}
