//! Who is at the other end of each of a machine's cables, by LLDP (IEEE 802.1AB): a state machine without a socket or a clock.
//!
//! The call loop: say which ports are up ([`Lldp::set_up`]), hand over each frame that has come ([`Lldp::hear`]), then send what is due
//! ([`Lldp::next_frame`], until there is none), a few times a second. What is known then, [`Lldp::ports`] tells; [`Lldp::changes`] counts up
//! when that has changed.
//!
//! Whoever is at a cable can send anything. So nothing is believed of a frame but who says to be at the other end of the port that it came
//! by; a port remembers [`MOST_NEIGHBOURS`], reads a few frames a second, and forgets who has not been heard for as long as he said, or for
//! [`LONGEST_LIFE`]. New ones do not push out who is known.
#![no_std]
extern crate alloc;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_units::{Duration, Instant};
use quincunx_wire::MacAddress;
use quincunx_wire::lldp::{LONGEST_FRAME, LONGEST_NAME, LldpFrame, LldpId};

/// How often each port says who is here. 802.1AB proposes 30 seconds; a cable that is moved is to be found sooner.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// For how many intervals others may believe that.
const INTERVALS: u64 = 4;

/// What is new is told at once, and no sooner than this after what was told before.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// Neighbours that a port remembers. A cable has one other end; several are on a segment that they share.
pub const MOST_NEIGHBOURS: usize = 4;

/// For how long a neighbour is believed at most, whatever it says: as long as lldpd says.
pub const LONGEST_LIFE: Duration = Duration::from_secs(120);

/// Frames that a port reads at once, and how often it may read one more: twice as many as all neighbours of ours send.
const BURST: u32 = 8;
const READ_INTERVAL: Duration = Duration::from_millis(250);

/// Somebody at the other end of a port. All are texts as people read them, of plain letters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Neighbour {
    /// The machine: `local leaf1`.
    pub chassis: String,
    /// Its port: `ifname eth1`.
    pub port: String,
    /// What people call it; empty: it does not say.
    pub name: String,
}

/// A port, and who was heard there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Port {
    interface: String,
    is_up: bool,
    next: Instant,
    sent: Option<Instant>,
    heard: Vec<Heard>,
    /// Frames that may be read now, and since when they are counted.
    credit: u32,
    credited: Instant,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Heard {
    neighbour: Neighbour,
    until: Instant,
}

/// The state of all of a machine's ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lldp {
    machine: String,
    ports: Vec<Port>,
    changes: u64,
}

/// A machine or an interface without a name, or with one that no frame can carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadName(pub String);

impl core::fmt::Display for BadName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self(found) = self;
        write!(
            f,
            "expected a name of 1 to {LONGEST_NAME} bytes for LLDP, found {}; choose another",
            found.len()
        )
    }
}

impl core::error::Error for BadName {}

impl Lldp {
    /// A machine of that name with these interfaces, none of them up yet.
    ///
    /// # Errors
    /// If a name is empty or too long.
    pub fn new(machine: &str, interfaces: &[String]) -> Result<Self, BadName> {
        for name in interfaces.iter().map(String::as_str).chain([machine]) {
            if name.is_empty() || name.len() > LONGEST_NAME {
                return Err(BadName(name.to_string()));
            }
        }
        let port = |interface: &String| Port {
            interface: interface.clone(),
            is_up: false,
            next: Instant::ZERO,
            sent: None,
            heard: Vec::new(),
            credit: BURST,
            credited: Instant::ZERO,
        };
        Ok(Self { machine: machine.to_string(), ports: interfaces.iter().map(port).collect(), changes: 0 })
    }

    /// A port is up, or not: whoever was behind one that is down may be anywhere by now.
    pub fn set_up(&mut self, now: Instant, port: usize, is_up: bool) {
        let port = &mut self.ports[port];
        if port.is_up == is_up {
            return;
        }
        (port.is_up, port.next) = (is_up, now);
        port.heard.clear();
        self.changes += 1;
    }

    /// A frame has come by a port. What is no LLDP, or breaks its rules, says nothing.
    pub fn hear(&mut self, now: Instant, port: usize, frame: &[u8]) {
        let port = &mut self.ports[port];
        if !port.is_up || !port.may_read(now) {
            return;
        }
        let Ok(frame) = LldpFrame::parse(frame) else { return };
        let neighbour = Neighbour {
            chassis: frame.chassis.to_string(),
            port: frame.port.to_string(),
            name: frame.system_name.escape_ascii().to_string(),
        };
        let is_it = |heard: &Heard| {
            (&heard.neighbour.chassis, &heard.neighbour.port) == (&neighbour.chassis, &neighbour.port)
        };
        let known = port.heard.iter().position(is_it);
        let life = Duration::from_secs(u64::from(frame.time_to_live)).min(LONGEST_LIFE);
        let heard = Heard { neighbour, until: now + life };
        match known {
            Some(place) if frame.time_to_live == 0 => _ = port.heard.remove(place),
            Some(place) => {
                let before = core::mem::replace(&mut port.heard[place], heard);
                if before.neighbour == port.heard[place].neighbour {
                    return;
                }
            }
            None if frame.time_to_live == 0 || port.heard.len() == MOST_NEIGHBOURS => return,
            None => {
                port.heard.push(heard);
                // It may not have heard of this end yet.
                port.next = port.soonest(now);
            }
        }
        self.changes += 1;
    }

    /// The next frame to send, and by which port; `addresses` are those of the interfaces. None: nothing is due now.
    pub fn next_frame(&mut self, now: Instant, addresses: &[MacAddress]) -> Option<(usize, Vec<u8>)> {
        self.forget(now);
        let due = |port: &Port| port.is_up && port.next <= now;
        let number = self.ports.iter().position(due)?;
        let port = &mut self.ports[number];
        (port.next, port.sent) = (now + INTERVAL, Some(now));
        Some((number, frame(&self.machine, &port.interface, time_to_live(), addresses[number])))
    }

    /// What a machine that ends says by each of its ports: that it is not there any more.
    pub fn farewell(&self, addresses: &[MacAddress]) -> Vec<(usize, Vec<u8>)> {
        let ports = self.ports.iter().enumerate().filter(|(_, port)| port.is_up);
        let last = |(number, port): (usize, &Port)| {
            (number, frame(&self.machine, &port.interface, 0, addresses[number]))
        };
        ports.map(last).collect()
    }

    /// Forgets who was not heard for long.
    fn forget(&mut self, now: Instant) {
        for port in &mut self.ports {
            let before = port.heard.len();
            port.heard.retain(|heard| heard.until > now);
            self.changes += u64::from(port.heard.len() < before);
        }
    }

    /// The machine's name.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// All ports, in the order of the interfaces.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// How often what the ports tell has changed.
    pub const fn changes(&self) -> u64 {
        self.changes
    }
}

impl Port {
    /// What the machine calls it.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Whether it carries anything.
    pub const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Who is at its other end, in the order in which they were heard first.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.heard.iter().map(|heard| &heard.neighbour)
    }

    /// Whether another frame may be read, which is counted.
    fn may_read(&mut self, now: Instant) -> bool {
        while self.credit < BURST && self.credited + READ_INTERVAL <= now {
            (self.credit, self.credited) = (self.credit + 1, self.credited + READ_INTERVAL);
        }
        if self.credit == BURST {
            self.credited = now;
        }
        let may = self.credit > 0;
        self.credit -= u32::from(may);
        may
    }

    fn soonest(&self, now: Instant) -> Instant {
        let rest = self.sent.map_or(now, |sent| sent + LEAST_INTERVAL);
        rest.max(now).min(self.next)
    }
}

const fn time_to_live() -> u16 {
    (INTERVAL.as_nanos() / 1_000_000_000 * INTERVALS) as u16
}

fn frame(machine: &str, interface: &str, time_to_live: u16, source: MacAddress) -> Vec<u8> {
    let (chassis, port) = (LldpId::local(machine), LldpId::interface(interface));
    let frame = LldpFrame { chassis, port, time_to_live, system_name: machine.as_bytes() };
    let mut bytes = vec![0; LONGEST_FRAME];
    let length = frame.emit(source, &mut bytes);
    bytes.truncate(length);
    bytes
}
