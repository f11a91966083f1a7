//! What a machine is itself: its kernel, its name, its interface, its RDMA devices.

use quincunx_sockets::interface_of;
use std::fs;
use std::net::IpAddr;

use super::finding::{Finding, Verdict};

/// The first kernel that takes many datagrams at once and gives them so (UDP_SEGMENT, UDP_GRO).
const KERNEL: [u32; 2] = [5, 0];

/// The name that others see this machine by.
pub(crate) fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "this machine".into(),
        name => name.into(),
    }
}

/// All that is known of it, for a node with this address.
pub(super) fn look(address: IpAddr) -> Vec<Finding> {
    let machine = name();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let devices = fs::read_dir("/sys/class/infiniband").map(|all| {
        let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.collect::<Vec<_>>()
    });
    let interface = interface_of(address).ok().flatten();
    vec![
        kernel(&machine, release.trim()),
        own_address(&machine, address, interface.as_deref()),
        rdma(&machine, devices.unwrap_or_default()),
    ]
}

fn kernel(machine: &str, release: &str) -> Finding {
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).take(2).collect();
    let verdict = match numbers[..] {
        [major, minor] if [major, minor] < KERNEL => Verdict::Mend(
            "use Linux 5.0 or later, which takes and gives many datagrams at once: hosts spend a fraction of the time on them".into(),
        ),
        [_, _] => Verdict::Well,
        _ => Verdict::Note,
    };
    Finding::new("kernel", machine, release, verdict)
}

fn own_address(machine: &str, address: IpAddr, interface: Option<&str>) -> Finding {
    let (found, verdict) = match interface {
        Some(name) => (format!("{address} of {name}"), Verdict::Well),
        // All of 127.0.0.0/8 is this machine's.
        None if address.is_loopback() => (format!("{address} of loopback"), Verdict::Well),
        None => (
            format!("{address}, which no interface has"),
            Verdict::Mend(
                "name one that `ip addr` shows with QUINCUNX_ADDRESS, or its interface with QUINCUNX_INTERFACE".into(),
            ),
        ),
    };
    Finding::new("address", machine, found, verdict)
}

fn rdma(machine: &str, mut devices: Vec<String>) -> Finding {
    devices.sort();
    let found = match &devices[..] {
        [] => "none: frames go through sockets".into(),
        some => format!("{}: ranks may use them with --transport verbs", some.join(", ")),
    };
    Finding::new("RDMA devices", machine, found, Verdict::Note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_takes_datagrams_one_by_one_is_told() {
        for (release, is_fault) in
            [("4.19.0-5-amd64", true), ("5.0.1", false), ("6.18.3", false), ("odd", false)]
        {
            assert_eq!(kernel("a", release).is_fault(), is_fault, "{release}");
        }
    }

    #[test]
    fn an_address_that_the_machine_does_not_have_is_told() {
        let address = IpAddr::from([10, 0, 0, 1]);
        assert!(own_address("a", address, None).is_fault());
        assert!(!own_address("a", address, Some("eth0")).is_fault());
        assert!(!own_address("a", [127, 200, 0, 1].into(), None).is_fault());
    }
}
