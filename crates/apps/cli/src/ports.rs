//! The options of a switch that has interfaces for its ports.

use clap::{Args, ValueEnum};
use quincunx_driver_net::TransportOptions;
use quincunx_ports::{PortSockets, PortsOptions};
use quincunx_wire::Framing;
use std::net::IpAddr;
use std::str::FromStr;

use crate::Failure;

/// A node's address, with the length of its network's prefix where that is asked for.
#[derive(Clone, Copy)]
pub(crate) struct NodeAddress {
    pub(crate) ip: IpAddr,
    prefix: Option<u8>,
}

impl FromStr for NodeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| format!("expected an IP address, found \"{ip}\"; write it like 10.0.0.9 or fd00::9, without brackets or port"))?;
        // What it would be on the wire: an IPv4 address.
        let ip = ip.to_canonical();
        if let IpAddr::V6(link_local) = ip
            && link_local.is_unicast_link_local()
        {
            return Err(format!(
                "expected an address that means the same on all links, found link-local {ip}; give the interface another one, as from fd00::/8"
            ));
        }
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map(|prefix| match prefix.parse() {
            Ok(length) if (1..=longest).contains(&length) => Ok(length),
            _ => Err(format!(
                "expected the length of a prefix from 1 to {longest} behind the slash, found \"{prefix}\""
            )),
        });
        Ok(Self { ip, prefix: prefix.transpose()? })
    }
}

impl NodeAddress {
    /// Refuses a prefix: the address is an interface's already.
    pub(crate) fn plain(self) -> Result<IpAddr, Failure> {
        match self.prefix {
            None => Ok(self.ip),
            Some(prefix) => Err(Failure::Input(format!(
                "expected --address of an interface, found {}/{prefix}; leave out the prefix, which `switch --port` alone takes",
                self.ip
            ))),
        }
    }
}

/// What frames come and go by at a port.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Sockets {
    /// Packet sockets (AF_PACKET): with any interface
    #[default]
    Packet,
    /// XDP sockets (AF_XDP), past the kernel's network stack
    Xdp,
}

impl From<Sockets> for PortSockets {
    fn from(sockets: Sockets) -> Self {
        match sockets {
            Sockets::Packet => Self::Packet,
            Sockets::Xdp => Self::Xdp,
        }
    }
}

/// Which interfaces are a switch's ports.
#[derive(Args)]
pub(crate) struct Ports {
    /// An interface without an address that is a port of this switch, once for each: ordinary frames pass between the ports as through any
    /// Ethernet switch, and frames of groups are taken out. --address is then one that the machine gets, with its prefix (10.0.0.9/24), on an
    /// interface of its own behind the ports, quincunx0. Needs root, and goes on forwarding without a manager
    #[arg(long = "port", value_name = "INTERFACE", conflicts_with_all = ["transport", "via"])]
    interfaces: Vec<String>,
    /// What frames come and go by at the ports. With xdp a program at each interface takes all of its frames, in the driver if that can, and
    /// without a copy if that can; what is in use is logged at the start. Needs Linux 5.9, for an MTU above 3000 Linux 6.6
    #[arg(long, value_enum, default_value_t, requires = "interfaces")]
    sockets: Sockets,
}

impl Ports {
    /// The switch's transport, if it has ports.
    pub(crate) fn transport(
        self,
        addresses: &[NodeAddress],
        framing: Framing,
    ) -> Result<Option<TransportOptions>, Failure> {
        if self.interfaces.is_empty() {
            return addresses.iter().try_for_each(|address| address.plain().map(drop)).map(|()| None);
        }
        let [address] = *addresses else {
            return Err(Failure::Input(format!(
                "expected one --address beside --port, found {}: who forwards for others has one core; leave out the further ones",
                addresses.len()
            )));
        };
        if framing != Framing::RoceV2 {
            return Err(Failure::Input(format!(
                "expected frames of roce-v2 at --port, found --framing {framing}; make a bridge of the interfaces, with --transport packet and its address"
            )));
        }
        let Some(prefix) = address.prefix else {
            return Err(Failure::Input(format!(
                "expected --address with the length of its network's prefix beside --port, found {0}; write {0}/24",
                address.ip
            )));
        };
        let sockets = self.sockets.into();
        Ok(Some(TransportOptions::Ports(PortsOptions {
            sockets,
            ..PortsOptions::new(self.interfaces, prefix)
        })))
    }
}
