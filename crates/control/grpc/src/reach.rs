//! Whether a machine takes what is sent to it though the process there says nothing: its kernel acknowledges what it has received. A process
//! that is stopped, and a machine that is cut off, are two things by that.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// Whether all that this process's machine has sent over its TCP connection to `peer` is acknowledged; none if nobody knows. It is read of the
/// kernel's table of connections (proc(5), `/proc/net/tcp`).
pub(crate) fn has_taken_all(peer: SocketAddr) -> Option<bool> {
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
        .into_iter()
        .find_map(|table| is_empty_queue(&std::fs::read_to_string(table).ok()?, peer))
}

/// The same by such a table.
fn is_empty_queue(table: &str, peer: SocketAddr) -> Option<bool> {
    let wanted = [in_table(peer), in_table(mapped(peer))];
    table.lines().skip(1).find_map(|line| {
        // Its number, this end, the other end, the state, and what waits to be acknowledged and to be read.
        let mut words = line.split_ascii_whitespace().skip(2);
        let other = words.next()?;
        let queues = words.nth(1)?;
        let unacknowledged = u64::from_str_radix(queues.split_once(':')?.0, 16).ok()?;
        wanted.iter().any(|wanted| wanted == other).then_some(unacknowledged == 0)
    })
}

/// An IPv4 address as a socket for IPv6 has it.
fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(ip) => SocketAddr::new(ip.to_canonical(), address.port()),
    }
}

/// As the kernel prints it: words in the machine's order of bytes, in hexadecimal.
fn in_table(address: SocketAddr) -> String {
    let bytes: Vec<u8> = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut text = String::new();
    for word in bytes.as_chunks::<4>().0 {
        write!(text, "{:08X}", u32::from_ne_bytes(*word)).expect("a string takes all");
    }
    write!(text, ":{:04X}", address.port()).expect("a string takes all");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    /// Two connections as the kernel of a little-endian machine prints them: to 127.0.0.1:40000 and 127.0.0.1:40001.
    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:12B6 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 0 0 10 -1
   1: 0100007F:12B6 0100007F:9C41 01 0000002A:00000000 01:00000014 00000003     0        0 2 2 0 20 0 0 10 -1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn what_waits_for_its_acknowledgement_is_found_by_the_peers_address() {
        let found = |port| is_empty_queue(TABLE, SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!([40_000, 40_001, 40_002].map(found), [Some(true), Some(false), None]);
        let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), 40_001);
        assert_eq!(is_empty_queue(TABLE, mapped), Some(false));
    }

    #[test]
    fn a_peer_that_does_not_read_has_taken_what_its_kernel_has_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_silent, _) = listener.accept().unwrap();
        stream.write_all(b"whom do you wait for?").unwrap();
        let peer = stream.peer_addr().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while has_taken_all(peer) != Some(true) {
            assert!(std::time::Instant::now() < deadline, "{:?}", has_taken_all(peer));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
