//! Which cables there are, by what machines hear at their ports (LLDP).
//!
//! Each machine tells of its own ports: who says to be at the other end. A cable is there if both its ends say so of each other, by machine and
//! port. So whoever lies in a frame changes nothing: it names a port that does not hear it. What a machine tells counts for nodes alone that its
//! certificate may speak for.
//!
//! A cable that one end does not hear any more is not laid trees over, and costs no group that has one: an agent may just be started again. It is
//! gone when one of its ports is down, or is an end of another cable.

use crate::{LinkReport, NodeDescription};
use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use quincunx_units::{Duration, Instant};
use quincunx_wire::lldp::LldpId;

/// How long a machine's word holds: four times as long as it lets pass before the next.
pub const REPORT_LIFE: Duration = Duration::from_secs(20);

/// What a machine may tell of at most.
const MOST_MACHINES: usize = 65_536;
const MOST_PORTS: usize = 1024;
const MOST_HEARD: usize = 8;
const LONGEST_TEXT: usize = 1100;

/// A machine's port, as that tells.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PortReport {
    /// What the machine calls it.
    pub interface: String,
    /// Whether it carries anything.
    pub is_up: bool,
    /// Of nodes that are reached by it.
    pub addresses: Vec<IpAddr>,
    /// Who says to be at the other end.
    pub heard: Vec<HeardNeighbour>,
}

/// Somebody at the other end of a port, in the words of [`LldpId`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeardNeighbour {
    /// The machine: `local leaf1`.
    pub chassis: String,
    /// Its port: `ifname eth1`.
    pub port: String,
    /// What people call it; empty: it does not say.
    pub name: String,
}

/// Whom somebody may speak for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Speaker {
    /// All nodes.
    pub is_anybody: bool,
    /// The node of this name.
    pub node: Option<String>,
    /// Nodes whose names begin with this one and a slash.
    pub tenant: Option<String>,
}

impl Speaker {
    /// Whether it may speak for the node of that name.
    pub fn speaks_for(&self, node: &str) -> bool {
        let own =
            |tenant: &String| node.strip_prefix(tenant.as_str()).is_some_and(|rest| rest.starts_with('/'));
        self.is_anybody || self.node.as_deref() == Some(node) || self.tenant.as_ref().is_some_and(own)
    }
}

/// All that a machine tells.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CableReport {
    /// Its name, by which others hear it.
    pub machine: String,
    /// Who tells it.
    pub speaker: Speaker,
    /// All of its ports.
    pub ports: Vec<PortReport>,
}

/// Why a machine's word is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CableError {
    /// More than any machine has.
    #[error("expected {expected}, found {found}; tell of fewer ports")]
    TooMuch {
        /// How much may be.
        expected: &'static str,
        /// How much it is.
        found: usize,
    },
}

/// One end of a cable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CableEnd {
    /// The machine.
    pub machine: String,
    /// Its port.
    pub interface: String,
}

/// `leaf1 eth1`.
impl fmt::Display for CableEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.machine, self.interface)
    }
}

/// Both ends, the lesser first.
pub(crate) type Cable = [CableEnd; 2];

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Machine {
    speaker: Speaker,
    ports: Vec<PortReport>,
    until: Instant,
}

/// All cables.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Cables {
    machines: BTreeMap<String, Machine>,
    /// Found at some time and not known to be gone; whether both ends hear each other now.
    known: BTreeMap<Cable, bool>,
}

/// A cable that is gone, and what has become of its ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LostCable {
    pub(crate) cable: Cable,
    pub(crate) reason: String,
}

impl Cables {
    /// Whether a machine tells what it has not told before.
    pub(crate) fn is_news(&self, report: &CableReport) -> bool {
        let is_same = |known: &Machine| (&known.ports, &known.speaker) == (&report.ports, &report.speaker);
        !self.machines.get(&report.machine).is_some_and(is_same)
    }

    /// Whether nodes and their links are where they were: strangers alone are heard, or not any more.
    pub(crate) fn joins_as(&self, other: &Self) -> bool {
        let plain = |port: &PortReport| PortReport { heard: Vec::new(), ..port.clone() };
        let same = |(a, b): (&Machine, &Machine)| {
            let is_pair = |(a, b): (&PortReport, &PortReport)| {
                // One that has a single neighbour is no segment.
                plain(a) == plain(b) && (a.heard.len() > 1) == (b.heard.len() > 1)
            };
            a.speaker == b.speaker
                && a.ports.len() == b.ports.len()
                && a.ports.iter().zip(&b.ports).all(is_pair)
        };
        self.known == other.known
            && self.machines.keys().eq(other.machines.keys())
            && self.machines.values().zip(other.machines.values()).all(same)
    }

    /// A machine tells of its ports.
    pub(crate) fn report(&mut self, now: Instant, report: CableReport) -> Result<(), CableError> {
        let CableReport { machine, speaker, ports } = report;
        check(&ports)?;
        let known = self.machines.get(&machine).filter(|known| known.until > now);
        if known.is_none() && self.machines.len() >= MOST_MACHINES {
            let expected = "at most 65536 machines";
            return Err(CableError::TooMuch { expected, found: self.machines.len() });
        }
        self.machines.insert(machine, Machine { speaker, ports, until: now + REPORT_LIFE });
        Ok(())
    }

    /// Forgets machines that have said nothing for long; whether there were some.
    pub(crate) fn forget(&mut self, now: Instant) -> bool {
        let before = self.machines.len();
        self.machines.retain(|_, machine| machine.until > now);
        self.machines.len() < before
    }

    /// Compares what both ends say; what is gone.
    pub(crate) fn compare(&mut self) -> Vec<LostCable> {
        let found = self.agreed();
        let far = far_ends(found.iter());
        let (mut lost, mut known) = (Vec::new(), BTreeMap::new());
        for cable in core::mem::take(&mut self.known).into_keys() {
            // Of which nobody tells any more, nothing is known.
            let is_told = cable.iter().any(|end| self.machines.contains_key(&end.machine));
            if found.contains(&cable) || !is_told {
                continue;
            }
            match self.end_of(&cable, &far) {
                Some(reason) => lost.push(LostCable { cable, reason }),
                None => _ = known.insert(cable, false),
            }
        }
        known.extend(found.into_iter().map(|cable| (cable, true)));
        self.known = known;
        lost
    }

    /// Why a cable that is not heard is gone, if it is.
    fn end_of(&self, cable: &Cable, far: &BTreeMap<&CableEnd, &CableEnd>) -> Option<String> {
        cable.iter().find_map(|end| {
            if let Some(other) = far.get(end) {
                return Some(format!("the cable of {end} leads to {other} now"));
            }
            let machine = self.machines.get(&end.machine)?;
            match machine.ports.iter().find(|port| port.interface == end.interface) {
                Some(port) if port.is_up => None,
                _ => Some(format!("{end} is down")),
            }
        })
    }

    /// Cables of which both ends hear each other.
    fn agreed(&self) -> BTreeSet<Cable> {
        let by_chassis: BTreeMap<String, &String> =
            self.machines.keys().map(|name| (LldpId::local(name).to_string(), name)).collect();
        let hears = |port: &PortReport| -> Vec<CableEnd> {
            let end = |heard: &HeardNeighbour| {
                let machine = by_chassis.get(&heard.chassis)?;
                let is_it = |port: &&PortReport| LldpId::interface(&port.interface).to_string() == heard.port;
                let interface = self.machines[*machine].ports.iter().find(is_it)?.interface.clone();
                Some(CableEnd { machine: (*machine).clone(), interface })
            };
            port.heard.iter().filter(|_| port.is_up).filter_map(end).collect()
        };
        let mut heard = BTreeSet::new();
        for (name, machine) in &self.machines {
            for port in &machine.ports {
                let own = CableEnd { machine: name.clone(), interface: port.interface.clone() };
                heard.extend(hears(port).into_iter().map(|other| (own.clone(), other)));
            }
        }
        // Nor is a port that hears itself a cable.
        let both = |(a, b): &&(CableEnd, CableEnd)| a < b && heard.contains(&(b.clone(), a.clone()));
        heard.iter().filter(both).map(|(a, b)| [a.clone(), b.clone()]).collect()
    }

    /// What follows for these nodes.
    pub(crate) fn located<'a>(
        &'a self,
        nodes: impl Iterator<Item = &'a NodeDescription> + Clone,
    ) -> LocatedCables<'a> {
        let mut located = LocatedCables::default();
        if self.machines.is_empty() {
            return located;
        }
        let mut by_address: BTreeMap<IpAddr, Vec<&NodeDescription>> = BTreeMap::new();
        let mut by_name: BTreeMap<&str, &NodeDescription> = BTreeMap::new();
        for node in nodes {
            node.addresses().for_each(|address| by_address.entry(address).or_default().push(node));
            by_name.insert(&node.name, node);
        }
        for (name, machine) in &self.machines {
            for port in &machine.ports {
                let there = port.addresses.iter().filter_map(|address| by_address.get(address)).flatten();
                let all = there.copied().chain(by_name.get(name.as_str()).copied());
                let own = all.map(|node| node.name.as_str()).filter(|node| machine.speaker.speaks_for(node));
                for node in own.collect::<BTreeSet<_>>() {
                    located.nodes.entry(name).or_default().entry(&port.interface).or_default().push(node);
                    located.ports.entry(node).or_default().push((name, port));
                }
            }
        }
        located.far = far_ends(self.known.iter().filter(|(_, is_heard)| **is_heard).map(|(cable, _)| cable));
        for (cable, is_heard) in &self.known {
            let [a, b] = cable.each_ref().map(|end| located.nodes_at(end).to_vec());
            for (a, b) in a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b))).filter(|_| *is_heard) {
                if a != b {
                    *located.joined.entry(if a < b { [a, b] } else { [b, a] }).or_default() += 1;
                }
            }
        }
        located
    }

    /// All cables that are not known to be gone, and whether both ends hear each other now.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Cable, bool)> {
        self.known.iter().map(|(cable, is_heard)| (cable, *is_heard))
    }

    /// Who is heard at which port, and how many are heard there.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (CableEnd, &HeardNeighbour, usize)> {
        self.machines.iter().flat_map(|(name, machine)| {
            machine.ports.iter().flat_map(move |port| {
                let end = CableEnd { machine: name.clone(), interface: port.interface.clone() };
                port.heard.iter().map(move |heard| (end.clone(), heard, port.heard.len()))
            })
        })
    }

    /// Whether a machine of that name tells of its ports: by what others hear it as.
    pub(crate) fn reports(&self, chassis: &str) -> bool {
        self.machines.keys().any(|name| LldpId::local(name).to_string() == chassis)
    }
}

fn check(ports: &[PortReport]) -> Result<(), CableError> {
    let bound = |expected, most: usize, found: usize| {
        if found > most { Err(CableError::TooMuch { expected, found }) } else { Ok(()) }
    };
    bound("at most 1024 ports of a machine", MOST_PORTS, ports.len())?;
    for port in ports {
        bound("at most 8 neighbours at a port", MOST_HEARD, port.heard.len())?;
        bound("at most 1024 addresses at a port", MOST_PORTS, port.addresses.len())?;
        let heard = port.heard.iter().flat_map(|heard| [&heard.chassis, &heard.port, &heard.name]);
        for text in heard.chain([&port.interface]) {
            bound("names of at most 1100 bytes", LONGEST_TEXT, text.len())?;
        }
    }
    Ok(())
}

fn far_ends<'a>(cables: impl Iterator<Item = &'a Cable>) -> BTreeMap<&'a CableEnd, &'a CableEnd> {
    cables.flat_map(|[a, b]| [(a, b), (b, a)]).collect()
}

/// Which nodes are at the ends of cables.
#[derive(Default)]
pub(crate) struct LocatedCables<'a> {
    /// By machine and interface.
    nodes: BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>,
    /// By node.
    ports: BTreeMap<&'a str, Vec<(&'a str, &'a PortReport)>>,
    /// Of each end that is heard.
    far: BTreeMap<&'a CableEnd, &'a CableEnd>,
    /// How many cables join two nodes, the lesser name first.
    joined: BTreeMap<[&'a str; 2], u16>,
}

impl<'a> LocatedCables<'a> {
    /// The nodes that are reached by one end of a cable.
    pub(crate) fn nodes_at(&self, end: &CableEnd) -> &[&'a str] {
        let machine = self.nodes.get(end.machine.as_str());
        let at_port = machine.and_then(|ports| ports.get(end.interface.as_str()));
        at_port.map_or(&[], Vec::as_slice)
    }

    /// Pairs of nodes that cables join, and by how many.
    pub(crate) fn joined(&self) -> impl Iterator<Item = ([&'a str; 2], u16)> {
        self.joined.iter().map(|(ends, count)| (*ends, *count))
    }

    /// Cables between two nodes.
    pub(crate) fn between(&self, a: &str, b: &str) -> u16 {
        self.joined.get(&if a < b { [a, b] } else { [b, a] }).copied().unwrap_or(0)
    }

    /// The other end of a port, if both hear each other.
    fn far(&self, machine: &str, interface: &str) -> Option<&'a CableEnd> {
        let end = CableEnd { machine: machine.to_owned(), interface: interface.to_owned() };
        self.far.get(&end).copied()
    }

    /// Why a link that a node says to have is not there, if cables deny it: in words with names and ports.
    pub(crate) fn denial(&self, node: &str, links: &[LinkReport], link: &LinkReport) -> Option<String> {
        if self.between(node, &link.neighbour) > 0 {
            return None;
        }
        self.denial_at_port(node, links, link).or_else(|| {
            let leads = [node, &link.neighbour].into_iter().find_map(|end| {
                let all = self.all_far(end)?;
                // Whoever tells nothing of its ports may be anywhere.
                (self.ports.contains_key(node) && self.ports.contains_key(&*link.neighbour))
                    .then(|| format!("the cables of {end} lead to {all}"))
            })?;
            Some(format!("{node} says to be joined with {}, and {leads}", link.neighbour))
        })
    }

    fn denial_at_port(&self, node: &str, links: &[LinkReport], link: &LinkReport) -> Option<String> {
        let interface = link.interface.as_ref()?;
        let own = self.ports.get(node)?.iter().find(|(_, port)| port.interface == *interface)?;
        // On a segment that several share, others are as well.
        let far = self.far(own.0, interface).filter(|_| own.1.heard.len() == 1)?;
        let others = links.iter().filter(|other| other.interface.as_ref() == Some(interface));
        let is_shared = others.into_iter().any(|other| self.nodes_at(far).contains(&&*other.neighbour));
        let said = format!("{node} says that its {interface} leads to {}", link.neighbour);
        (!is_shared).then(|| format!("{said}, and its cable leads to {far}"))
    }

    /// Where all of a node's ports lead, if that is known of each.
    fn all_far(&self, node: &str) -> Option<String> {
        let ports = self.ports.get(node)?;
        let up = ports.iter().filter(|(_, port)| port.is_up);
        let far = up.map(|(machine, port)| self.far(machine, &port.interface));
        let all: Vec<String> = far.map(|end| end.map(ToString::to_string)).collect::<Option<_>>()?;
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether a node has a port that carries something and of which nobody knows where it leads.
    pub(crate) fn leads_somewhere(&self, node: &str) -> bool {
        let ports = self.ports.get(node).map_or(&[][..], Vec::as_slice);
        ports.iter().any(|(machine, port)| port.is_up && self.far(machine, &port.interface).is_none())
    }

    /// Whether all ports of a node that tells of some are down.
    pub(crate) fn is_cut_off(&self, node: &str) -> bool {
        self.ports.get(node).is_some_and(|ports| ports.iter().all(|(_, port)| !port.is_up))
    }
}
