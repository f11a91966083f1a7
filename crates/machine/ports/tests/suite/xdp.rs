//! What holds of ports by XDP sockets alone: a program at the interface, a socket for each of its queues. What holds of all ports is in `ports`.

use crate::ports::{SWITCH, at, exchange, host, open, shell, star, stream, there, udp, while_forwarding};
use crate::support::{PORT, leave};
use quincunx_needs::{need, xdp_sockets};
use quincunx_ports::{PortSockets, PortsOptions, PortsTransport};
use std::net::SocketAddr;

#[test]
fn a_program_in_the_driver_takes_the_frames_for_as_long_as_the_port_is_open() {
    let _leave = need!(leave());
    need!(xdp_sockets());
    let fabric = star(2, 1500);
    let shown = || shell(&fabric, SWITCH, "ip -d link show h0; ip -d link show h1");
    let counts = while_forwarding(&fabric, PortSockets::Xdp, || {
        let shown = shown();
        // Behind the driver it would be "xdpgeneric".
        assert_eq!(shown.matches(" xdp ").count(), 2, "{shown}");
        // Nothing is left that the kernel would have to be kept from.
        assert_eq!(shell(&fabric, SWITCH, "tc qdisc show dev h0"), "qdisc noqueue 0: root refcnt 2 \n");
    });
    assert!(!shown().contains("xdp"), "{}", shown());
    // A veth has no memory of its own for frames to lie in.
    assert_eq!(counts["h0"].sockets, "XDP sockets in the driver, copied, 1 queue");
}

#[test]
fn frames_of_all_queues_of_an_interface_pass() {
    let _leave = need!(leave());
    need!(xdp_sockets());
    let fabric = star(2, 1500);
    let queues = "numrxqueues 2 numtxqueues 2";
    let script = format!(
        "ip link del h0; ip link add h0 {queues} type veth peer name eth0 netns {} {queues}; ip link set h0 up",
        fabric.namespace(host(0))
    );
    shell(&fabric, SWITCH, &script);
    let address = host(0).address();
    shell(&fabric, host(0), &format!("ip link set eth0 up; ip addr add {address}/24 dev eth0"));
    let counts = while_forwarding(&fabric, PortSockets::Xdp, || {
        let target = udp(&fabric, host(1), &format!("{}:7000", host(1).address()));
        // Flows are spread by their ports.
        for port in 7000..7032 {
            exchange(&udp(&fabric, host(0), &format!("{address}:{port}")), &target, b"flow");
        }
    });
    assert_eq!(counts["h0"].sockets, "XDP sockets in the driver, copied, 2 queues");
}

#[test]
fn an_interface_with_a_program_already_is_refused_in_one_line() {
    let _leave = need!(leave());
    need!(xdp_sockets());
    let fabric = star(2, 1500);
    there(&fabric, SWITCH, || {
        let first = open(1, SWITCH.address(), PortSockets::Xdp).expect("ports");
        let options = PortsOptions { sockets: PortSockets::Xdp, ..PortsOptions::new(vec!["h0".into()], 24) };
        let other = SocketAddr::from(([10, 77, 0, 250], PORT));
        let refused = PortsTransport::open(other, &options).map(drop).expect_err("it is in use").to_string();
        assert_eq!(
            refused,
            "expected an interface without an XDP program, found \"Device or resource busy (os error 16)\" (h0); \
             end who has attached it: `ip link` shows it; or use --sockets packet"
        );
        drop(first);
        PortsTransport::open(at(SWITCH), &options).map(drop).expect("it is free again");
    });
}

#[test]
fn with_a_driver_that_has_no_place_for_a_program_it_runs_behind_that() {
    let _leave = need!(leave());
    need!(xdp_sockets());
    let fabric = star(2, 1500);
    // Like a veth's end, but that its driver knows no XDP.
    shell(&fabric, SWITCH, "ip link add m0 link h0 type macvlan mode passthru; ip link set m0 up");
    there(&fabric, SWITCH, || {
        let options = PortsOptions {
            sockets: PortSockets::Xdp,
            ..PortsOptions::new(vec!["m0".into(), "h1".into()], 24)
        };
        let mut transport = PortsTransport::open(at(SWITCH), &options).expect("ports");
        assert_eq!(transport.counts()["m0"].sockets, "XDP sockets behind the driver, copied, 1 queue");
    });
}

#[test]
fn more_frames_leave_than_a_port_has_chunks() {
    let _leave = need!(leave());
    need!(xdp_sockets());
    let fabric = star(2, 1500);
    let counts = while_forwarding(&fabric, PortSockets::Xdp, || {
        stream(&fabric, host(0), host(1), &vec![5; 10_000_000]);
    });
    // 2,048 chunks to send in, three times over.
    assert!(counts["h1"].sent.frames > 6000, "{counts:?}");
}
