//! The Ethernet addresses of those whom the switch sends to: what the kernel knows of neighbours at the machine's own interface. Asking them
//! is the kernel's affair, and so is answering them. Until it knows, an answer goes where the frame came from.

use nix::errno::Errno;
use quincunx_sockets::{MacAddress, neighbour_at, seek_neighbour};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How old what the kernel's table has said may become.
const FRESH: Duration = Duration::from_secs(2);

/// How soon the table is looked at again for one who was not in it.
const LOOK: Duration = Duration::from_millis(1);

/// How soon the kernel is told again to look for one whom it has not found.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// As many as are remembered: more than have groups here.
const MOST: usize = 4096;

/// Known neighbours, and those who were asked for.
pub(super) struct Neighbours {
    /// At this interface.
    interface: String,
    /// Keeps the kernel from answering frames of groups, and has it ask for neighbours.
    guard: UdpSocket,
    known: BTreeMap<IpAddr, Known>,
}

#[derive(Clone, Copy)]
struct Known {
    address: Option<MacAddress>,
    /// When the kernel was asked to look for it.
    asked: Instant,
    /// When the kernel's table was read.
    looked: Instant,
}

impl Neighbours {
    pub(super) fn new(interface: &str, guard: UdpSocket) -> Self {
        Self { interface: interface.to_owned(), guard, known: BTreeMap::new() }
    }

    /// Has the kernel look for a neighbour, which takes a moment.
    pub(super) fn ask(&self, ip: IpAddr) {
        seek_neighbour(&self.guard, ip);
    }

    /// Somebody has sent the node a frame from this Ethernet address: it serves until the kernel has said another.
    pub(super) fn heard(&mut self, ip: IpAddr, address: MacAddress) {
        if self.known.len() < MOST || self.known.contains_key(&ip) {
            let now = Instant::now();
            let new = || Known { address: None, asked: now, looked: now - LOOK };
            self.known.entry(ip).or_insert_with(new).address.get_or_insert(address);
        }
    }

    /// The address of a neighbour, if it is known.
    pub(super) fn resolve(&mut self, ip: IpAddr) -> io::Result<MacAddress> {
        let now = Instant::now();
        let before = self.known.get(&ip).copied();
        let patience = |known: &Known| if known.address.is_some() { FRESH } else { LOOK };
        if let Some(known) = before.filter(|known| now - known.looked < patience(known)) {
            return known.address.ok_or_else(|| Errno::EHOSTUNREACH.into());
        }
        let found = neighbour_at(&self.interface, ip);
        // Whom the kernel has forgotten since is where he was.
        let address = found.or(before.and_then(|known| known.address));
        let mut asked = before.map(|known| known.asked);
        if address.is_none() && asked.is_none_or(|asked| now - asked >= ASK_AGAIN) {
            self.ask(ip);
            asked = Some(now);
        }
        self.known.insert(ip, Known { address, asked: asked.unwrap_or(now), looked: now });
        address.ok_or_else(|| Errno::EHOSTUNREACH.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_heard_is_known_and_others_are_not() {
        let guard = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // Loopback has no neighbours, so the kernel says nothing of them.
        let mut neighbours = Neighbours::new("lo", guard);
        let [a, b] = [[127, 0, 0, 77], [127, 0, 0, 78]].map(IpAddr::from);
        let unknown = neighbours.resolve(b).expect_err("nobody is there");
        assert_eq!(unknown.raw_os_error(), Some(Errno::EHOSTUNREACH as i32));
        neighbours.heard(a, MacAddress([2; 6]));
        neighbours.heard(a, MacAddress([4; 6]));
        assert_eq!(neighbours.resolve(a).expect("it was heard"), MacAddress([2; 6]));
        assert_eq!(neighbours.resolve(a).expect("it is remembered"), MacAddress([2; 6]));
        neighbours.heard(b, MacAddress([6; 6]));
        assert_eq!(neighbours.resolve(b).expect("it was heard since"), MacAddress([6; 6]));
    }
}
