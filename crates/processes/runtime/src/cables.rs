//! Who is at the other ends of a machine's cables: what its ports hear and say by LLDP, and what the manager is told of it.
//!
//! Of a switch with ports of its own these do it ([`CableWatch::turn`]); any other machine has its agent do it on sockets of their own
//! ([`AgentCables`]).

use quincunx_control::{HeardNeighbour, PortReport, REPORT_LIFE};
use quincunx_control_grpc::ControlClient;
use quincunx_lldp::{BadName, Lldp, Neighbour};
use quincunx_ports::PortsTransport;
use quincunx_sockets::{LinkSocket, OpenError, interface_addresses, mac_address_of, running_interfaces};
use quincunx_units::{Duration, Instant};
use quincunx_wire::MacAddress;
use quincunx_wire::lldp::{ETHERTYPE, NEAREST_BRIDGE};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often ports are looked at.
const TURN: std::time::Duration = std::time::Duration::from_millis(50);

/// How often the kernel is asked which of them are up, and which addresses they have.
const LOOK: Duration = Duration::from_millis(200);

/// How often at most the manager is told, and how often it is told the same again.
const LEAST_REPORT: Duration = Duration::from_millis(500);
const REPORT: Duration = Duration::from_nanos(REPORT_LIFE.as_nanos() / 4);

/// The longest frame that is read: more than Ethernet has.
const LONGEST: usize = 2048;

/// What ports hear and say, and what was told of it.
pub(crate) struct CableWatch {
    lldp: Lldp,
    /// Of the ports.
    macs: Vec<MacAddress>,
    /// Those of nodes that each port reaches.
    addresses: Vec<Vec<IpAddr>>,
    start: std::time::Instant,
    next_turn: std::time::Instant,
    next_look: Instant,
    told: Option<(Instant, Vec<PortReport>)>,
}

impl CableWatch {
    /// Of a machine of that name with these interfaces.
    pub(crate) fn new(machine: &str, interfaces: &[String]) -> Result<Self, BadName> {
        let now = std::time::Instant::now();
        Ok(Self {
            lldp: Lldp::new(machine, interfaces)?,
            macs: interfaces.iter().map(|name| mac_of(name)).collect(),
            addresses: vec![Vec::new(); interfaces.len()],
            start: now,
            next_turn: now,
            next_look: Instant::ZERO,
            told: None,
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed().into()
    }

    /// Asks the kernel, now and then, how the ports stand; whether it has.
    fn look(&mut self, now: Instant, has_addresses: bool) -> bool {
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK;
        // What cannot be asked now stays as it was.
        if let Ok(running) = running_interfaces() {
            let names = self.lldp.ports().iter().map(|port| running.contains(port.interface()));
            let up: Vec<bool> = names.collect();
            up.into_iter().enumerate().for_each(|(port, is_up)| self.lldp.set_up(now, port, is_up));
        }
        if let Ok(all) = interface_addresses()
            && has_addresses
        {
            for (port, own) in self.lldp.ports().iter().zip(&mut self.addresses) {
                let there = all.iter().filter(|(name, _)| name == port.interface());
                *own =
                    there.map(|(_, address)| *address).filter(|address| !is_link_local(*address)).collect();
            }
        }
        true
    }

    /// Moves what a switch's ports have heard and are to say.
    pub(crate) fn turn(&mut self, ports: &mut PortsTransport) {
        let real = std::time::Instant::now();
        if real < self.next_turn {
            return;
        }
        self.next_turn = real + TURN;
        let now = self.now();
        self.look(now, false);
        while let Some((port, frame)) = ports.take_link_local() {
            self.lldp.hear(now, port, &frame);
        }
        while let Some((port, frame)) = self.lldp.next_frame(now, &self.macs) {
            ports.send_link_local(port, &frame);
        }
    }

    /// Says by all of a switch's ports that it ends.
    pub(crate) fn end(&self, ports: &mut PortsTransport) {
        self.lldp.farewell(&self.macs).iter().for_each(|(port, frame)| ports.send_link_local(*port, frame));
    }

    /// What the manager is to be told now, if anything.
    pub(crate) fn news(&mut self) -> Option<Vec<PortReport>> {
        let now = self.now();
        let before = self.told.as_ref().map(|(at, _)| *at);
        // Before the first look nothing is known.
        if self.next_look == Instant::ZERO || before.is_some_and(|at| now < at + LEAST_REPORT) {
            return None;
        }
        let ports: Vec<PortReport> = self.lldp.ports().iter().zip(&self.addresses).map(report).collect();
        let is_due = before.is_none_or(|at| now >= at + REPORT);
        if !is_due && self.told.as_ref().is_some_and(|(_, told)| *told == ports) {
            return None;
        }
        self.told = Some((now, ports.clone()));
        Some(ports)
    }
}

fn report((port, addresses): (&quincunx_lldp::Port, &Vec<IpAddr>)) -> PortReport {
    let heard = |neighbour: &Neighbour| HeardNeighbour {
        chassis: neighbour.chassis.clone(),
        port: neighbour.port.clone(),
        name: neighbour.name.clone(),
    };
    PortReport {
        interface: port.interface().to_owned(),
        is_up: port.is_up(),
        addresses: addresses.clone(),
        heard: port.neighbours().map(heard).collect(),
    }
}

/// The address of an interface; one without has nobody who would read it.
fn mac_of(interface: &str) -> MacAddress {
    mac_address_of(interface).map_or(MacAddress([2, 0, 0, 0, 0, 0]), |address| MacAddress(address.0))
}

/// Whether an address means another machine on each link.
const fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Why a machine's cables cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A name that LLDP cannot carry.
    #[error(transparent)]
    Name(#[from] BadName),
    /// An interface.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// The cables of a machine whose interfaces belong to its kernel.
pub struct AgentCables {
    watch: CableWatch,
    interfaces: Vec<String>,
    /// None: the interface is gone, and may come back.
    sockets: Vec<Option<LinkSocket>>,
}

impl AgentCables {
    /// Opens a socket at each of the interfaces of a machine, which others hear by this name.
    ///
    /// # Errors
    /// Without the privilege or an interface, or with a name that LLDP cannot carry.
    pub fn open(machine: &str, interfaces: &[String]) -> Result<Self, WatchError> {
        let watch = CableWatch::new(machine, interfaces)?;
        let open =
            |name: &String| LinkSocket::open(name, ETHERTYPE, quincunx_sockets::MacAddress(NEAREST_BRIDGE.0));
        let sockets = interfaces.iter().map(|name| open(name).map(Some)).collect::<Result<_, _>>()?;
        Ok(Self { watch, interfaces: interfaces.to_vec(), sockets })
    }

    /// Hears, says, and tells the manager, until `stop` is set.
    pub fn run(mut self, manager: &ControlClient, stop: &AtomicBool) {
        let machine = self.watch.lldp.machine().to_owned();
        while !stop.load(Ordering::Relaxed) {
            self.turn();
            if let Some(ports) = self.watch.news() {
                manager.tell_cables(&machine, &ports);
            }
            std::thread::sleep(TURN);
        }
    }

    fn turn(&mut self) {
        let now = self.watch.now();
        if self.watch.look(now, true) {
            self.reopen();
        }
        let mut buffer = [0; LONGEST];
        for (port, place) in self.sockets.iter_mut().enumerate() {
            let Some(socket) = place else { continue };
            // As many as may be read in a while, and more: what waits behind them is read the next time.
            for _ in 0..64 {
                match socket.receive(&mut buffer) {
                    Ok(Some(length)) => self.watch.lldp.hear(now, port, &buffer[..length]),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(interface = self.interfaces[port], %error, "an interface is gone");
                        *place = None;
                        break;
                    }
                }
            }
        }
        while let Some((port, frame)) = self.watch.lldp.next_frame(now, &self.watch.macs) {
            // One that is full or has just gone down is asked again soon.
            let _ = self.sockets[port].as_ref().map(|socket| socket.send(&frame));
        }
    }

    /// Interfaces that are there again.
    fn reopen(&mut self) {
        for (port, place) in self.sockets.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            let group = quincunx_sockets::MacAddress(NEAREST_BRIDGE.0);
            *place = LinkSocket::open(&self.interfaces[port], ETHERTYPE, group).ok();
            self.watch.macs[port] = mac_of(&self.interfaces[port]);
        }
    }
}
