//! The Ethernet addresses of those whom the switch sends to: what the kernel knows of neighbours at the machine's own interface. Asking them
//! is the kernel's affair, and so is answering them.

use crate::packet::{self, DISCARD_PORT, MacAddress, RESOLUTION_LIMIT};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// How old an answer may become.
const FRESH: Duration = Duration::from_secs(2);

/// How soon the kernel's table is looked at again for one who is not in it.
const LOOK: Duration = Duration::from_millis(1);

/// Known neighbours, and those who were asked for.
pub(super) struct Neighbours {
    /// At this interface.
    interface: String,
    /// Keeps the kernel from answering frames of groups, and has it ask for neighbours.
    guard: UdpSocket,
    known: BTreeMap<Ipv4Addr, Known>,
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
    pub(super) fn ask(&self, ip: Ipv4Addr) {
        // If even this fails, no answer says so.
        let _ = self.guard.send_to(&[], SocketAddrV4::new(ip, DISCARD_PORT));
    }

    /// The address of a neighbour. Until it is known the sender has to wait; in the end there may be none.
    pub(super) fn resolve(&mut self, ip: Ipv4Addr) -> io::Result<MacAddress> {
        let now = Instant::now();
        let known = self.known.get(&ip).copied();
        let wait = |known: Known| if known.address.is_some() { FRESH } else { LOOK };
        let mut entry = match known {
            Some(known) if now - known.looked < wait(known) => known,
            _ => {
                let found = packet::neighbour_at(&self.interface, ip);
                // Whom the kernel has forgotten since is where he was.
                let address = found.or(known.and_then(|known| known.address));
                let asked = known.map(|known| known.asked);
                let again =
                    address.is_none() && asked.is_none_or(|asked| now - asked >= 2 * RESOLUTION_LIMIT);
                if again {
                    self.ask(ip);
                }
                let asked = asked.filter(|_| !again).unwrap_or(now);
                Known { address, asked, looked: now }
            }
        };
        if let Some(address) = entry.address {
            entry.asked = now;
            self.known.insert(ip, entry);
            return Ok(address);
        }
        self.known.insert(ip, entry);
        let error = if now - entry.asked < RESOLUTION_LIMIT { Errno::ENOBUFS } else { Errno::EHOSTUNREACH };
        Err(error.into())
    }
}
