//! A third party at a switch in a network namespace: an interface of its own there, a tap on what passes, and datagrams by hand.

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket,
    sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};
use quincunx_netns::{NetnsFabric, NetnsNode};
use quincunx_runtime::ROCE_PORT;
use quincunx_wire::{RoceHeader, UdpPath, emit_datagram, parse_datagram};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes of payload in a full frame: what `group.mtu` of the tests says.
pub(crate) const PAYLOAD: usize = 1024;

/// Ethernet, IPv4, UDP.
const HEAD: usize = 14 + 20 + 8;

/// Where the third party is.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 180));

/// The namespace of the third party. It goes with the value.
pub(crate) struct Intruder {
    namespace: String,
}

impl Intruder {
    /// At an interface of the first switch's.
    pub(crate) fn attach(namespaces: &NetnsFabric) -> Self {
        let hub = NetnsNode::Switch(0);
        let namespace = format!("{}9", namespaces.namespace(NetnsNode::Host(0)));
        let made = Command::new("ip").args(["netns", "add", &namespace]).status();
        assert!(made.is_ok_and(|status| status.success()));
        let attach = format!(
            "ip link add evil type veth peer name eth0 netns {namespace} && ip link set evil up \
             && ip route add {ADDRESS}/32 dev evil && ip -n {namespace} link set eth0 up \
             && ip -n {namespace} addr add {ADDRESS}/24 dev eth0 && ip -n {namespace} neigh add {} dev eth0 lladdr $(cat /sys/class/net/evil/address)",
            hub.address(),
        );
        let intruder = Self { namespace };
        shell(namespaces, hub, &attach);
        intruder
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

/// A tap on what passes the first switch, but for what the third party sends.
pub(crate) struct Tap {
    socket: OwnedFd,
    /// Where that comes in.
    evil: usize,
}

impl Tap {
    /// Once the third party is there.
    pub(crate) fn new(namespaces: &NetnsFabric) -> Self {
        in_namespace(&namespaces.namespace(NetnsNode::Switch(0)), || Self {
            socket: socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll)
                .unwrap(),
            evil: if_nametoindex("evil").unwrap() as usize,
        })
    }
}

/// A socket in a namespace that sends whole IPv4 datagrams, whoever they say that they are from.
pub(crate) fn raw_sender(namespace: &str) -> OwnedFd {
    in_namespace(namespace, || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap()
    })
}

pub(crate) fn shell(namespaces: &NetnsFabric, node: NetnsNode, script: &str) {
    let done = namespaces.command(node, "sh").args(["-ec", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn in_namespace<R: Send>(name: &str, act: impl FnOnce() -> R + Send) -> R {
    let enter = || {
        setns(File::open(format!("/run/netns/{name}")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// Tells what the first rank has sent to its switch, as somebody with a tap on its link sees it, until it is to stop. Of frames that are
/// merged into one the first.
pub(crate) fn watch(tap: &Tap, stop: &AtomicBool, mut seen: impl FnMut(RoceHeader, &[u8])) {
    setsockopt(&tap.socket, ReceiveTimeout, &TimeVal::milliseconds(50)).unwrap();
    let (rank, switch) = (NetnsNode::Host(0).address(), NetnsNode::Switch(0).address());
    let mut frame = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let length = match recvfrom::<LinkAddr>(tap.socket.as_raw_fd(), &mut frame) {
            Ok((_, Some(from))) if from.ifindex() == tap.evil => continue,
            Ok((length, _)) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => panic!("{error}"),
        };
        let Some(bytes) = frame[..length].get(HEAD..) else { continue };
        if frame[26..30] != octets(rank) || frame[30..34] != octets(switch) || frame[23] != 17 {
            continue;
        }
        let source_port = u16::from_be_bytes([frame[34], frame[35]]);
        let (source, destination) = (rank.into(), switch.into());
        let path = UdpPath { source, destination, source_port, traffic_class: frame[15] };
        let whole = usize::from(u16::from_be_bytes([frame[38], frame[39]])).saturating_sub(8);
        let full = [16, 20, 12].map(|above| above + PAYLOAD + 4);
        let lengths = full.into_iter().chain([whole]);
        let parsed = lengths.into_iter().find_map(|length| parse_datagram(&path, bytes.get(..length)?).ok());
        if let Some((header, payload)) = parsed {
            seen(header, payload);
        }
    }
}

/// A whole IPv4 datagram.
pub(crate) fn datagram(header: &RoceHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 28 + 64 + payload.len()];
    let length = emit_datagram(header, payload, &mut bytes[28..]);
    bytes.truncate(28 + length);
    let total = bytes.len() as u16;
    bytes[..10].copy_from_slice(&[0x45, header.traffic_class, 0, 0, 0, 0, 0x40, 0, 64, 17]);
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[12..16].copy_from_slice(&octets(header.source.address()));
    bytes[16..20].copy_from_slice(&octets(header.destination.address()));
    bytes[20..22].copy_from_slice(&header.source_port.to_be_bytes());
    bytes[22..24].copy_from_slice(&ROCE_PORT.to_be_bytes());
    bytes[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    bytes
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("the fabric is one of IPv4"),
    }
}
