//! The kernel's bridge beside a switch's process: which ports it has, and that it leaves some frames to the process.
//!
//! Packet sockets see a frame before the queueing discipline at the port's entrance does, and that one before the bridge. So a filter
//! there drops what the process has seen. It stays when the process ends: frames that nobody adds up must not be delivered.
//!
//! A port without a queueing discipline at its entrance gets one (clsact), for which the kernel stops it: for up to some milliseconds it loses
//! what comes, ordinary frames, too. One that has it, as those of `netns` fabrics, loses nothing.

use crate::transport::OpenError;
use nix::net::if_::if_nametoindex;
use quincunx_netns::{NetnsError, batch};
use std::io;
use std::process::Command;

/// The most ports that are served.
const MAX_PORTS: usize = 250;

/// Has `bridge` leave frames of one EtherType alone from now on, on all ports that it has now; returns the ports by index.
///
/// # Errors
/// If it is no bridge or has no ports, or `tc` cannot set the filter.
pub(crate) fn take(bridge: &str, ethertype: u16) -> Result<Vec<u32>, OpenError> {
    let failed = |error, remedy| OpenError {
        expected: "a bridge that leaves frames to this process",
        place: bridge.to_owned(),
        error,
        remedy,
    };
    let ports = ports(bridge).map_err(|error| {
        failed(error, "give the switch the address of a bridge with all hosts at it, as `ip addr` shows it")
    })?;
    let mut text = String::new();
    for (port, _) in &ports {
        text.push_str(&entrance_filter(port, &format!("{ethertype:#06x}")));
    }
    batch("tc", None, &text).map_err(|error| match error {
        NetnsError::Command { found, .. }
        | NetnsError::Unavailable { found }
        | NetnsError::Folder { found, .. }
        | NetnsError::Layout { found, .. } => {
            failed(io::Error::other(found), "run as root with `tc` installed and cls_bpf in the kernel")
        }
    })?;
    Ok(ports.into_iter().map(|(_, index)| index).collect())
}

/// What has `tc` drop frames of a protocol at a port's entrance, behind packet sockets.
pub fn entrance_filter(port: &str, protocol: &str) -> String {
    // A program of one step: drop (TC_ACT_SHOT).
    format!(
        "qdisc replace dev {port} clsact\nfilter replace dev {port} ingress pref 1 handle 1 protocol {protocol} bpf da bytecode \"1,6 0 0 2\"\n"
    )
}

/// The ports of a bridge, by name and index.
fn ports(bridge: &str) -> io::Result<Vec<(String, u32)>> {
    let shown = Command::new("ip").args(["-o", "link", "show", "master", bridge]).output()?;
    let text = String::from_utf8_lossy(&shown.stdout);
    let index = |name: &str| Ok((name.to_owned(), if_nametoindex(name)?));
    let ports = names(&text).map(index).collect::<io::Result<Vec<_>>>()?;
    match ports.len() {
        0 => Err(io::Error::other("no ports")),
        1..=MAX_PORTS => Ok(ports),
        more => Err(io::Error::other(format!("{more} ports, which is more than {MAX_PORTS}"))),
    }
}

/// The interfaces of which `ip -o link` tells, a line each: `2: h0@if2: <BROADCAST,...`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split(": ").nth(1)).map(|name| name.split('@').next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_called_what_ip_calls_them() {
        let text = "2: h0@if2: <BROADCAST,MULTICAST,UP> mtu 1500 qdisc tbf master br0 state UP \\    link/ether ...\n\
                    5: eth1: <BROADCAST,MULTICAST,UP> mtu 1500 master br0 state UP \\    link/ether ...\n";
        assert_eq!(names(text).collect::<Vec<_>>(), ["h0", "eth1"]);
        assert_eq!(names("").count(), 0);
    }
}
