//! Ethernet addresses of neighbours, as the kernel has them: over IPv4 in a table that it shows as text, over IPv6 by asking.

use crate::route;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Flags of the kernel's neighbours (ATF_COM, ATF_PERM).
pub(crate) const COMPLETE: u32 = 2;
pub(crate) const PERMANENT: u32 = 4;

/// Asking the discard port makes the kernel look for the neighbour, and nothing more.
const DISCARD_PORT: u16 = 9;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// As a number: its bytes, the first of them uppermost.
    pub fn number(self) -> u64 {
        self.0.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Has the kernel look for a neighbour, which takes a moment, through a socket bound to the address that asks. If even this fails, no answer
/// says so.
pub fn seek_neighbour(socket: &UdpSocket, ip: IpAddr) {
    let _ = socket.send_to(&[], SocketAddr::new(ip, DISCARD_PORT));
}

/// The kernel's table of neighbours over IPv4, in the calling thread's network namespace.
fn neighbours() -> String {
    std::fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default()
}

/// The entry for `ip` in the kernel's table of neighbours, if it is complete; `PERMANENT`: if somebody has written it, so that what a neighbour
/// says of itself does not change it.
pub(crate) fn neighbour(ip: IpAddr, expected: u32) -> Option<MacAddress> {
    match ip {
        IpAddr::V4(_) => entry(&neighbours(), ip, expected),
        IpAddr::V6(ip) => route::neighbour(ip, None, expected & PERMANENT > 0).map(MacAddress),
    }
}

/// The Ethernet address of `ip` at an interface, if the kernel of the calling thread's network namespace knows it.
pub fn neighbour_at(interface: &str, ip: IpAddr) -> Option<MacAddress> {
    if let IpAddr::V6(ip) = ip {
        let index = nix::net::if_::if_nametoindex(interface).ok()?;
        return route::neighbour(ip, Some(index), false).map(MacAddress);
    }
    let table = neighbours();
    let is_there = |line: &&str| line.split_whitespace().last() == Some(interface);
    table.lines().skip(1).filter(is_there).find_map(|line| entry(&format!("\n{line}"), ip, COMPLETE))
}

/// The Ethernet address at which the calling thread's network namespace finds `ip`, if it is on a link of its own and has been looked for.
pub fn neighbour_of(ip: IpAddr) -> Option<MacAddress> {
    let index = route::interface_to(ip).ok()?;
    let name = nix::net::if_::if_indextoname(index).ok()?;
    neighbour_at(name.to_str().ok()?, ip)
}

/// The Ethernet address of an interface of the calling thread's network namespace, if it has one.
pub fn mac_address_of(interface: &str) -> Option<MacAddress> {
    let mut all = nix::ifaddrs::getifaddrs().ok()?.filter(|entry| entry.interface_name == interface);
    let mac = |entry: nix::ifaddrs::InterfaceAddress| entry.address?.as_link_addr()?.addr();
    // Loopback has one of zeros.
    all.find_map(mac).filter(|mac| *mac != [0; 6]).map(MacAddress)
}

/// The first entry for `ip` with all these flags.
fn entry(table: &str, ip: IpAddr, expected: u32) -> Option<MacAddress> {
    let has = |text: &str| {
        let flags = u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
        flags & expected == expected
    };
    // IP address, hardware type, flags, hardware address, mask, device.
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let text = fields
        .filter(|fields| fields.len() >= 4 && fields[0].parse() == Ok(ip) && has(fields[2]))
        .map(|fields| fields[3])
        .next()?;
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(MacAddress(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_from_the_kernels_table_if_complete() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                 10.77.0.3        0x1         0x0         00:00:00:00:00:00     *        eth0\n\
                 10.77.0.2        0x1         0x2         02:00:00:00:00:0a     *        eth0\n";
        assert_eq!(
            entry(table, IpAddr::from([10, 77, 0, 2]), COMPLETE),
            Some(MacAddress([2, 0, 0, 0, 0, 10]))
        );
        assert_eq!(entry(table, IpAddr::from([10, 77, 0, 3]), COMPLETE), None);
        assert_eq!(entry(table, IpAddr::from([10, 77, 0, 4]), COMPLETE), None);
        assert_eq!(entry("", IpAddr::from([10, 77, 0, 2]), COMPLETE), None);
    }

    #[test]
    fn an_entry_that_a_neighbour_has_made_is_not_one_that_was_written() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                 10.77.0.2        0x1         0x2         02:00:00:00:00:0a     *        br0\n\
                 10.77.0.3        0x1         0x6         02:00:00:00:00:0b     *        br0\n";
        assert_eq!(entry(table, IpAddr::from([10, 77, 0, 2]), COMPLETE | PERMANENT), None);
        assert_eq!(
            entry(table, IpAddr::from([10, 77, 0, 3]), COMPLETE | PERMANENT),
            Some(MacAddress([2, 0, 0, 0, 0, 11]))
        );
    }
}
