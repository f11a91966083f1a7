//! Links that lose frames, everybody's alike: at both ends of each link a program in the driver drops what the link carries, TCP's segments and
//! RoCE's packets, before anything in the kernel has seen it.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use quincunx_netns::{NetnsFabric, NetnsNode};
use quincunx_sockets::sys::bpf::{self, Mode};
use quincunx_sockets::sys::ethtool;
use quincunx_units::Probability;
use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};

/// The longest MTU of frames that the driver hands the program in one piece.
pub(crate) const LONGEST_MTU: u16 = 3000;

/// Has every link of the fabric lose frames, each way, until what is returned is dropped.
///
/// # Errors
/// Without the privilege, or a kernel that has such programs.
pub(crate) fn lose(
    fabric: &NetnsFabric,
    probability: Probability,
) -> Result<Vec<OwnedFd>, Box<dyn Error + Send + Sync>> {
    let program = bpf::load_loss(probability)?;
    let at = |node: NetnsNode| {
        // A thread's namespace is its own, and goes with it.
        std::thread::scope(|scope| {
            let attached = scope.spawn(|| {
                fabric.enter(node)?;
                let any = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
                let listed = std::fs::read_to_string("/proc/thread-self/net/dev")?;
                let names = listed.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
                let cables = names.filter(|name| ethtool::driver(any.as_fd(), name) == "veth");
                let attach = |name| -> Result<OwnedFd, Box<dyn Error + Send + Sync>> {
                    let index = nix::net::if_::if_nametoindex(name)?;
                    Ok(bpf::attach(program.as_fd(), index, Mode::Driver)?)
                };
                cables.map(attach).collect::<Result<Vec<_>, _>>()
            });
            attached.join().expect("it does not panic")
        })
    };
    let attached = fabric.nodes().map(at).collect::<Result<Vec<_>, _>>();
    let attached = attached.map_err(|error| {
        format!("expected links that lose frames by a program in their driver, found \"{error}\"")
    });
    Ok(attached?.into_iter().flatten().collect())
}
