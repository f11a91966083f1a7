//! Whose queue pair a node's frames are from. The kernel's software RoCE has a UDP source port of its own
//! for each queue pair, 49152 or above; ours have 4791.

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, recv, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike};
use quincunx_netns::{NetnsFabric, NetnsNode};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Frames that a node has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Frames {
    /// By a queue pair of the kernel's.
    pub(crate) kernels: u64,
    /// By one that is not.
    pub(crate) others: u64,
}

/// A thread that counts the RoCE frames that a node's namespace has of that node's address, until it is asked.
pub(crate) struct Tap {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Frames>,
}

impl Tap {
    pub(crate) fn at(namespaces: &NetnsFabric, node: NetnsNode) -> Self {
        let IpAddr::V4(address) = namespaces.address(node) else { panic!("a fabric of IPv4") };
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        // Opened there by a thread that ends: a thread in a namespace keeps it.
        let socket = thread::scope(|scope| {
            let opened = scope.spawn(|| {
                namespaces.enter(node).expect("a node of the fabric");
                let (family, all) = (AddressFamily::Packet, SockProtocol::EthAll);
                socket(family, SockType::Raw, SockFlag::empty(), all).expect("root may")
            });
            opened.join().expect("it does not panic")
        });
        setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(50)).expect("the socket is open");
        let thread = thread::spawn(move || {
            let (mut frames, mut frame) = (Frames::default(), [0; 64]);
            while !over.load(Ordering::Relaxed) {
                let Ok(length) = recv(socket.as_raw_fd(), &mut frame, nix::sys::socket::MsgFlags::MSG_TRUNC)
                else {
                    continue;
                };
                // Ethernet 14, IPv4 20, UDP: from this address, to the port of RoCE.
                let is_roce =
                    length >= 42 && frame[12..14] == [8, 0] && frame[36..38] == 4791_u16.to_be_bytes();
                if !is_roce || frame[26..30] != address.octets() {
                    continue;
                }
                let port = u16::from_be_bytes([frame[34], frame[35]]);
                match port >= 49_152 {
                    true => frames.kernels += 1,
                    false => frames.others += 1,
                }
            }
            frames
        });
        Self { is_over, thread }
    }

    pub(crate) fn end(self) -> Frames {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}
