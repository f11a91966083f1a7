//! What a bridge asks of its interfaces, and what it tells the kernel: to leave their frames alone, and to have an address of its own behind
//! the bridge.

use crate::options::PortsOptions;
use nix::net::if_::if_nametoindex;
use quincunx_netns::{NetnsError, batch};
use quincunx_sockets::{MacAddress, OpenError, entrance_filter, interface_of, sys};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::process::Command;

/// The machine's own interface: the first free number in the place of `%d`.
const OWN_INTERFACE: &str = "quincunx%d";

/// Refuses what cannot be a port, in one line; the interfaces with their indices.
pub(super) fn check(options: &PortsOptions) -> Result<Vec<(String, u32)>, OpenError> {
    let mut known = BTreeSet::new();
    options.interfaces.iter().map(|name| {
        let refuse = |expected, found: String, remedy| {
            OpenError { expected, place: name.clone(), error: io::Error::other(found), remedy }
        };
        if !known.insert(name) {
            return Err(refuse("each port once", "it twice".into(), "name each interface once"));
        }
        let index = if_nametoindex(name.as_str()).map_err(|error| OpenError {
            expected: "an Ethernet interface",
            place: name.clone(),
            error: error.into(),
            remedy: "name one that `ip link` shows",
        })?;
        let shown = Command::new("ip").args(["-o", "link", "show", "dev", name]).output();
        let shown = shown.map_err(|error| {
            refuse("`ip` to tell of an interface", error.to_string(), "install iproute2")
        })?;
        let text = String::from_utf8_lossy(&shown.stdout);
        match InterfaceState::read(&text) {
            InterfaceState { is_ethernet: false, .. } => {
                Err(refuse("an Ethernet interface", "another kind".into(), "name a port that a cable goes into"))
            }
            InterfaceState { is_up: false, .. } => {
                Err(refuse("an interface that is up", "one that is down".into(), "set it up: ip link set ... up"))
            }
            InterfaceState { master: Some(master), .. } => Err(refuse(
                "an interface by itself",
                format!("a member of {master}"),
                "take it out: ip link set ... nomaster",
            )),
            InterfaceState { .. } => match own_address(name) {
                Some(address) => Err(refuse(
                    "a port without an address",
                    address,
                    "take it away (ip addr flush dev ...): the switch's own interface has the machine's address",
                )),
                None => Ok((name.clone(), index)),
            },
        }
    }).collect()
}

/// What `ip -o link show` says of an interface.
#[derive(PartialEq, Eq, Debug)]
struct InterfaceState<'a> {
    is_ethernet: bool,
    is_up: bool,
    master: Option<&'a str>,
}

impl<'a> InterfaceState<'a> {
    fn read(text: &'a str) -> Self {
        let mut words = text.split_whitespace();
        let flags = words.clone().find_map(|word| word.strip_prefix('<')?.strip_suffix('>')).unwrap_or("");
        Self {
            is_ethernet: words.clone().any(|word| word == "link/ether"),
            is_up: flags.split(',').any(|flag| flag == "UP"),
            master: words.any(|word| word == "master").then(|| words.next()).flatten(),
        }
    }
}

/// An IP address that somebody has given an interface.
fn own_address(name: &str) -> Option<String> {
    nix::ifaddrs::getifaddrs().ok()?.filter(|entry| entry.interface_name == name).find_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|it| it.ip().to_string());
        // Of IPv6 each interface has one for its link.
        let v6 = address.as_sockaddr_in6().map(|it| it.ip()).filter(|ip| !ip.is_unicast_link_local());
        v4.or(v6.map(|ip| ip.to_string()))
    })
}

/// The machine's own interface behind the bridge, which has its address there.
pub(super) struct OwnInterface {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) address: MacAddress,
}

/// Makes it: it goes with its file.
pub(super) fn own_interface(address: IpAddr, prefix: u8, mtu: usize) -> Result<OwnInterface, OpenError> {
    let failed = |error, remedy| OpenError {
        expected: "an interface of the machine's own behind the ports",
        place: format!("{address}/{prefix}"),
        error,
        remedy,
    };
    if let Ok(Some(interface)) = interface_of(address) {
        let found = io::Error::other(format!("{interface} has that address"));
        return Err(failed(found, "give the switch another one, or take it from that interface"));
    }
    let (file, name) = sys::frames::open_tap(OWN_INTERFACE)
        .map_err(|error| failed(error, "run as root, with /dev/net/tun (the kernel's module `tun`)"))?;
    // The same at each start: neighbours remember it.
    let [.., a, b, c, d] = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .octets();
    let mac = MacAddress([0x02, 0, a, b, c, d]);
    // Nobody else's address is that of a switch, and one that is still being asked for cannot be bound.
    let at_once = if address.is_ipv6() { " nodad" } else { "" };
    let orders = format!(
        "link set {name} address 02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x} mtu {mtu}\naddr add {address}/{prefix} dev {name}{at_once}\nlink set {name} up\n"
    );
    tell("ip", &orders).map_err(|error| failed(error, "run as root, with iproute2"))?;
    Ok(OwnInterface { file, name, address: mac })
}

/// Keeps the kernel from answering by itself what comes by the ports, which are the bridge's: until this is dropped, or longer if the process
/// is killed.
pub(super) struct KernelKeptOut(Vec<String>);

impl KernelKeptOut {
    pub(super) fn new(ports: &[(String, u32)]) -> Result<Self, OpenError> {
        let names: Vec<String> = ports.iter().map(|(name, _)| name.clone()).collect();
        let orders: String = names.iter().map(|name| entrance_filter(name, "all")).collect();
        let kept_out = Self(names);
        tell("tc", &orders).map_err(|error| OpenError {
            expected: "a kernel that leaves the ports' frames to this process",
            place: kept_out.0.join(", "),
            error,
            remedy: "run as root with `tc` installed and cls_bpf in the kernel",
        })?;
        Ok(kept_out)
    }
}

impl Drop for KernelKeptOut {
    fn drop(&mut self) {
        let orders = self.0.iter().fold(String::new(), |mut text, name| {
            let _ = writeln!(text, "filter del dev {name} ingress pref 1");
            text
        });
        // An interface that is gone has no filter either.
        let _ = tell("tc", &orders);
    }
}

fn tell(tool: &'static str, orders: &str) -> io::Result<()> {
    batch(tool, None, orders).map_err(|error| match error {
        NetnsError::Command { found, .. }
        | NetnsError::Unavailable { found }
        | NetnsError::Folder { found, .. }
        | NetnsError::Layout { found, .. } => io::Error::other(found),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_says_of_an_interface_is_read() {
        let read = |text| InterfaceState::read(text);
        let port = "5: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT \\    link/ether 02:00 brd ff";
        assert_eq!(read(port), InterfaceState { is_ethernet: true, is_up: true, master: None });
        let member = "5: eth1: <BROADCAST,UP> mtu 1500 master br0 state UP \\    link/ether 02:00";
        assert_eq!(read(member).master, Some("br0"));
        let down = "2: h0@if2: <BROADCAST,MULTICAST> mtu 1500 state DOWN \\    link/ether 02:00";
        assert!(!read(down).is_up);
        let loopback = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 \\    link/loopback 00:00";
        assert!(!read(loopback).is_ethernet);
    }
}
