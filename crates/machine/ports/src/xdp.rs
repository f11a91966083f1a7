//! A port by XDP sockets, one for each receive queue of its interface: a program in the driver, or behind it, hands them all frames before the
//! kernel has looked at one. What the kernel does for packet sockets is not done here: tags stay in frames, and what a sender over a veth has
//! left undone is done here.

use crate::checksum;
use crate::ethernet::{HEADER, TAG};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use quincunx_sockets::sys::bpf::{self, Mode, SocketMap};
use quincunx_sockets::sys::ethtool;
use quincunx_sockets::sys::frames::{self, FrameArrival};
use quincunx_sockets::sys::xdp::{FRAME_OF_A_CHUNK, XdpOptions, XdpSocket};
use quincunx_sockets::{OpenError, SLOT};
use quincunx_units::ByteCount;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// With a longer MTU frames come in several pieces: drivers fit about so much into a page beside headers of theirs.
const MTU_OF_A_PAGE: usize = 3000;

/// The MTU that a port has whose frames come in one piece: there may be two tags.
const LONGEST_OF_A_PAGE: usize = FRAME_OF_A_CHUNK - HEADER - 2 * TAG;

/// The driver that hands on what a sender leaves to its card, though there is none.
const CABLE_WITHOUT_CARDS: &str = "veth";

/// An interface's XDP sockets.
pub(super) struct XdpLink {
    /// Goes first: no frame is taken any more.
    _program: OwnedFd,
    sockets: Vec<XdpSocket>,
    /// The queue whose frames are taken first.
    first: usize,
    /// Keeps the interface promiscuous, and is asked about it.
    control: OwnedFd,
    /// What it is called while its driver, which took tags off, leaves them.
    tags: Option<String>,
    unfinished_checksums: bool,
    pub(super) found: Found,
}

/// What the driver and the kernel let a port have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    mode: Mode,
    zero_copy: bool,
    scattered: bool,
    queues: u32,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.mode == Mode::Driver { "in the driver" } else { "behind the driver" };
        let copies = if self.zero_copy { "zero copy" } else { "copied" };
        let queues = if self.queues == 1 { "queue" } else { "queues" };
        write!(f, "XDP sockets {place}, {copies}, {} {queues}", self.queues)
    }
}

/// A step of opening a port: what was expected, and what to do.
type Step = (&'static str, &'static str);

const PRIVILEGE: Step =
    ("leave to use XDP (CAP_NET_ADMIN, CAP_BPF, CAP_NET_RAW)", "run as root, or use --sockets packet");
const KERNEL: Step = ("XDP sockets in the kernel (Linux 5.9, CONFIG_XDP_SOCKETS)", "use --sockets packet");
const LONG: Step = (
    "frames in several pieces for an MTU above 3000 (Linux 6.6)",
    "use --sockets packet, or a lower MTU: ip link set ... mtu 3000",
);
const OTHERS: Step = (
    "an interface without an XDP program",
    "end who has attached it: `ip link` shows it; or use --sockets packet",
);
const TAGS: Step = ("a driver that leaves VLAN tags in frames", "use --sockets packet");
const QUEUE: Step = ("an XDP socket at each receive queue", "end who has one, or use --sockets packet");

impl XdpLink {
    /// Takes all frames of an interface, whomever they are for; with them, its MTU.
    pub(super) fn open(
        (name, index): (&str, u32),
        [receive, send]: [ByteCount; 2],
    ) -> Result<(Self, usize), OpenError> {
        let failed = |(expected, remedy): Step| {
            move |error: io::Error| {
                let (expected, remedy) = match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EPERM | Errno::EACCES) => PRIVILEGE,
                    _ => (expected, remedy),
                };
                OpenError { expected, place: name.to_owned(), error, remedy }
            }
        };
        let flags = SockFlag::SOCK_CLOEXEC;
        let control = socket(AddressFamily::Packet, SockType::Raw, flags, None)
            .map_err(|error| failed(PRIVILEGE)(error.into()))?;
        let fd = control.as_fd();
        frames::set_promiscuous(fd, index).map_err(failed(PRIVILEGE))?;
        let mtu = frames::interface_mtu(fd, name).map_err(failed(PRIVILEGE))?;
        let queues = ethtool::receive_queues(fd, name);
        let scattered = mtu > MTU_OF_A_PAGE;
        let map = SocketMap::new(queues).map_err(failed(KERNEL))?;
        let program = bpf::load(&map, scattered).map_err(failed(if scattered { LONG } else { KERNEL }))?;
        let attach = |mode| bpf::attach(program.as_fd(), index, mode).map(|link| (link, mode));
        let (link, mode) = attach(Mode::Driver)
            .or_else(|error| if in_use(&error) { Err(error) } else { attach(Mode::Generic) })
            .map_err(|error| failed(if in_use(&error) { OTHERS } else { KERNEL })(error))?;
        // From here on, dropping the value undoes what was done.
        let mut port = Self {
            _program: link,
            sockets: Vec::new(),
            first: 0,
            tags: None,
            unfinished_checksums: ethtool::driver(fd, name) == CABLE_WITHOUT_CARDS,
            found: Found { mode, zero_copy: true, scattered, queues },
            control,
        };
        let took_off = ethtool::take_tags_off(port.control.as_fd(), name, false).map_err(failed(TAGS))?;
        port.tags = took_off.then(|| name.to_owned());
        let share = |size: ByteCount| usize::try_from(size.bytes()).unwrap_or(usize::MAX);
        for queue in 0..queues {
            let options = XdpOptions {
                interface: index,
                queue,
                receive: share(receive) / queues as usize,
                // All that leaves does so by the first.
                send: if queue == 0 { share(send) } else { 0 },
                scattered,
                copied: mode == Mode::Generic,
            };
            let opened = XdpSocket::open(&options).map_err(failed(if scattered { LONG } else { QUEUE }))?;
            map.insert(queue, opened.as_fd()).map_err(failed(KERNEL))?;
            port.found.zero_copy &= opened.is_zero_copy();
            port.sockets.push(opened);
        }
        let mtu = port.mtu(mtu);
        Ok((port, mtu))
    }

    /// Bytes behind an Ethernet header that it takes, of an interface with this MTU.
    pub(super) fn mtu(&self, interface: usize) -> usize {
        if self.found.scattered { interface } else { interface.min(LONGEST_OF_A_PAGE) }
    }

    /// To be asked about the interface.
    pub(super) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// To wait on.
    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(XdpSocket::as_fd)
    }

    /// As [`FrameReceiver::receive`](frames::FrameReceiver::receive).
    pub(super) fn receive(&mut self, buffer: &mut [u8], arrivals: &mut Vec<FrameArrival>) {
        arrivals.clear();
        // Another queue comes first each time, so that one that is always full does not take all slots.
        self.first = (self.first + 1) % self.sockets.len();
        let (later, sooner) = self.sockets.split_at_mut(self.first);
        for socket in sooner.iter_mut().chain(later) {
            let used = arrivals.len();
            socket.receive(&mut buffer[used * SLOT..], (SLOT, TAG), arrivals);
        }
        if self.unfinished_checksums {
            for (slot, arrival) in buffer.chunks_exact_mut(SLOT).zip(arrivals) {
                if let Some(frame) = slot.get_mut(TAG..TAG + arrival.length) {
                    checksum::finish(frame);
                }
            }
        }
    }

    /// Has a frame leave with the next [`flush`](Self::flush).
    pub(super) fn queue(&mut self, pieces: &[&[u8]]) -> bool {
        self.sockets[0].queue(pieces)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.sockets[0].flush()
    }

    /// Shows the kernel again what it could not take before, or has not looked at.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        self.sockets.iter().for_each(XdpSocket::wake_receiver);
        self.flush()
    }

    pub(super) fn take_drops(&mut self) -> u64 {
        self.sockets.iter_mut().map(XdpSocket::take_drops).sum()
    }
}

impl Drop for XdpLink {
    fn drop(&mut self) {
        if let Some(name) = &self.tags {
            // An interface that is gone has no tags.
            let _ = ethtool::take_tags_off(self.control.as_fd(), name, true);
        }
    }
}

/// Whether somebody else has attached a program.
fn in_use(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EBUSY | Errno::EEXIST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::net::if_::if_nametoindex;
    use quincunx_needs::{namespaces, need, xdp_sockets};
    use quincunx_netns::{Layout, NetnsFabric, NetnsNode};

    #[test]
    fn a_driver_leaves_tags_in_frames_while_a_port_is_open_and_takes_them_off_again_after_it() {
        need!(namespaces());
        need!(xdp_sockets());
        let fabric = NetnsFabric::new(Layout::star(1, 1500, None).ports()).expect("a star");
        let found = std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                fabric.enter(NetnsNode::Switch(0)).expect("the namespace is there");
                let buffers = [ByteCount::new(1 << 20); 2];
                let index = if_nametoindex("h0").expect("it is there");
                let control =
                    socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).expect("root");
                // What was before each order, and no order changes anything.
                let before = || {
                    let before = ethtool::take_tags_off(control.as_fd(), "h0", true).expect("a veth can");
                    ethtool::take_tags_off(control.as_fd(), "h0", before).map(|_| before).expect("a veth can")
                };
                let first = before();
                let port = XdpLink::open(("h0", index), buffers).expect("a port");
                let during = before();
                drop(port);
                [first, during, before()]
            });
            there.join().expect("it ends")
        });
        assert_eq!(found, [true, false, true]);
    }
}
