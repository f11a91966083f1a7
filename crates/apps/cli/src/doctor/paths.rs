//! What is made of what nodes have found out about the paths between them.

use quincunx_control::{NodeDescription, Role};
use quincunx_control_grpc::{NodeAnswer, NodePaths, PATH_SIZES, PathCounts};
use quincunx_units::{BitRate, ByteCount, Duration};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::finding::{Finding, Verdict};
use crate::table::{Align, table};

/// What a node's socket wants to hold: a burst of all its neighbours'.
const RECEIVE_BUFFER: ByteCount = ByteCount::new(8 << 20);

/// Clocks further apart than that are wrong.
const CLOCKS: u64 = 1_000_000_000;

/// Frames of a stream that may be lost, doubled or late before it is told: fewer are met now and then where all is well.
const FEW: u32 = 1;

/// What a busy core still carries, in bits a second: what is slower is held up by a link, such as one that has settled at 100 Mbit/s.
const OF_A_PROCESSOR: u64 = 150_000_000;

/// IP, UDP, BTH, RETH and ICRC around the payload of a write.
const HEADERS: u32 = 40 + 8 + 12 + 16 + 4;

/// The size of most groups' packets.
const USUAL: usize = 1024;

/// A node that was asked.
pub(super) struct Node {
    pub(super) description: NodeDescription,
    pub(super) answer: Option<NodeAnswer>,
}

impl Node {
    fn name(&self) -> &str {
        &self.description.name
    }

    /// What it has found out of another one.
    fn path(&self, other: usize) -> Option<&PathCounts> {
        let answer = self.answer.as_ref().filter(|answer| !answer.paths.is_offloaded)?;
        answer.paths.paths.iter().find(|path| path.peer as usize == other)
    }

    fn mtu(&self) -> Option<u32> {
        self.answer.as_ref().and_then(|answer| answer.paths.mtu)
    }
}

/// One way between two nodes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Way {
    pub(super) from: String,
    pub(super) to: String,
    /// Payload of the longest write that has come, if any has.
    pub(super) carries: Option<usize>,
    /// Of the stream: frames that were sent, lost, doubled, late.
    pub(super) sent: u32,
    pub(super) lost: u32,
    pub(super) doubled: u32,
    pub(super) late: u32,
    pub(super) rate: Option<BitRate>,
    /// There and back.
    pub(super) round_trip: Option<Duration>,
}

impl Way {
    /// From one node to another, by what both say; nothing if one of them says nothing.
    fn between(nodes: &[Node], from: usize, to: usize) -> Option<Self> {
        let (out, into) = (nodes[from].path(to)?, nodes[to].path(from)?);
        let carries = PATH_SIZES.iter().zip(into.sizes).rev().find(|(_, count)| *count > 0);
        let is_timed = into.stream > 1 && into.time > Duration::ZERO;
        // The first frame begins the time and is not in it.
        let bytes = into.bytes - into.bytes.checked_div(into.stream.into()).unwrap_or(0);
        Some(Self {
            from: nodes[from].name().into(),
            to: nodes[to].name().into(),
            carries: carries.map(|(size, _)| *size),
            sent: out.sent,
            lost: out.sent.saturating_sub(into.stream),
            doubled: into.doubled,
            late: into.late,
            rate: is_timed.then(|| BitRate::of_transfer(ByteCount::new(bytes), into.time)).flatten(),
            round_trip: out.round_trip,
        })
    }

    fn place(&self) -> String {
        format!("{} -> {}", self.from, self.to)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "from": self.from,
            "to": self.to,
            "carries_bytes": self.carries,
            "sent": self.sent,
            "lost": self.lost,
            "doubled": self.doubled,
            "late": self.late,
            "bits_per_second": self.rate.map(BitRate::bits_per_second),
            "round_trip_us": self.round_trip.map(|time| time.as_micros_f64()),
        })
    }
}

/// All ways between nodes that say something of them.
pub(super) fn ways(nodes: &[Node]) -> Vec<Way> {
    let pairs = (0..nodes.len()).flat_map(|from| (0..nodes.len()).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).filter_map(|(from, to)| Way::between(nodes, from, to)).collect()
}

/// Whatever is wrong with nodes by what they say of themselves and of each other's places.
pub(super) fn judge_nodes(nodes: &[Node], version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let mut tell = |check, found: String, verdict| {
            findings.push(Finding::new(check, node.name(), found, verdict));
        };
        let Some(answer) = &node.answer else {
            let remedy =
                "start it again if it is stopped; see its connection, and whether it runs this version";
            tell("node", "no answer".into(), Verdict::Mend(remedy.into()));
            continue;
        };
        let paths = &answer.paths;
        let is_same = paths.version == version;
        tell(
            "version",
            paths.version.clone(),
            match is_same {
                true => Verdict::Well,
                false => Verdict::Mend(format!(
                    "run the same version everywhere (this is {version}): groups may be refused, or nodes say less"
                )),
            },
        );
        if paths.is_offloaded {
            tell("paths", "its frames are a device's: try them with ib_write_bw".into(), Verdict::Note);
            continue;
        }
        if let Some((found, verdict)) = buffer(paths) {
            tell("receive buffer", found, verdict);
        }
        let apart = answer.ahead.unsigned_abs().saturating_sub(answer.error);
        if apart > CLOCKS {
            let found = format!("{:.1} s {} the manager's", apart as f64 / 1e9, ahead(answer.ahead));
            let remedy = "set clocks by NTP or PTP: certificates and logs go by them";
            tell("clock", found, Verdict::Mend(remedy.into()));
        }
        for (who, seen) in strangers(nodes, number) {
            let found = format!("{who} finds its address {} at {seen}", node.description.address);
            let remedy =
                "another machine has the address, too: give one of them another, or frames go to either";
            tell("address", found, Verdict::Mend(remedy.into()));
        }
    }
    findings.extend(crowded(nodes));
    findings
}

fn ahead(nanos: i64) -> &'static str {
    if nanos < 0 { "behind" } else { "ahead of" }
}

fn buffer(paths: &NodePaths) -> Option<(String, Verdict)> {
    let found = paths.receive_buffer?;
    let verdict = match found >= RECEIVE_BUFFER {
        true => Verdict::Well,
        false => Verdict::Mend(format!(
            "sysctl -w net.core.rmem_max={} at its machine, or give it CAP_NET_ADMIN: bursts that find it full are lost, and sent again",
            // The kernel gives twice as much.
            RECEIVE_BUFFER.bytes() / 2
        )),
    };
    Some((found.to_string(), verdict))
}

/// Others whose kernel finds a node's address at an Ethernet address that no node has, if it finds no other node there: that would be a router.
fn strangers(nodes: &[Node], number: usize) -> Vec<(String, String)> {
    let own = |node: &Node| node.answer.as_ref().and_then(|answer| answer.paths.mac);
    let seen_as = |other: &Node, number| other.path(number).and_then(|path| path.neighbour);
    let stands_for_others = |other: &Node, mac| {
        let mut numbers = (0..nodes.len()).filter(|another| *another != number);
        numbers.any(|another| seen_as(other, another) == Some(mac))
    };
    if own(&nodes[number]).is_none() {
        return Vec::new();
    }
    let seen = nodes.iter().filter_map(|other| Some((other, seen_as(other, number)?)));
    let strange = seen.filter(|(other, mac)| {
        !nodes.iter().any(|node| own(node) == Some(*mac)) && !stands_for_others(other, *mac)
    });
    strange.map(|(other, mac)| (other.name().to_owned(), colons(mac))).collect()
}

fn colons(mac: u64) -> String {
    let bytes = mac.to_be_bytes();
    bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Machines with more nodes than cores.
fn crowded(nodes: &[Node]) -> Vec<Finding> {
    let mut machines: BTreeMap<u64, (Vec<&str>, u32)> = BTreeMap::new();
    for node in nodes {
        let Some(answer) = node.answer.as_ref().filter(|answer| answer.machine != 0) else { continue };
        let (names, cores) = machines.entry(answer.machine).or_default();
        names.push(node.name());
        *cores = (*cores).max(answer.paths.cores);
    }
    let crowded = machines.into_values().filter(|(names, cores)| names.len() > *cores as usize && *cores > 0);
    let finding = |(names, cores): (Vec<&str>, u32)| {
        let found = format!(
            "{} nodes on {cores} cores: they wait for each other; as many cores as ranks and switches are quicker",
            names.len()
        );
        Finding::new("cores", &format!("machine of {}", names[0]), found, Verdict::Note)
    };
    crowded.map(finding).collect()
}

/// Whatever is wrong with the ways between them. A link should carry `rate`, if somebody has said so; or else about what the others carry.
pub(super) fn judge_ways(nodes: &[Node], ways: &[Way], rate: Option<BitRate>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let median = median(ways.iter().filter_map(|way| way.rate));
    for way in ways {
        let mut mend = |check, found: String, remedy: String| {
            findings.push(Finding::new(check, &way.place(), found, Verdict::Mend(remedy)));
        };
        let Some(carries) = way.carries else {
            let back = ways.iter().find(|back| back.from == way.to && back.to == way.from);
            let (found, remedy) = match back.and_then(|back| back.carries) {
                Some(_) => (
                    "nothing arrives; the way back carries",
                    "one way is lost: see route, ARP and firewall (UDP port 4791) on it, and rp_filter at its end",
                ),
                None => (
                    "nothing arrives, either way",
                    "see routes and firewalls (UDP port 4791), and by QUINCUNX_INTERFACE or QUINCUNX_ADDRESS whether it is the right network",
                ),
            };
            mend("reach", found.into(), remedy.into());
            continue;
        };
        if let Some((found, remedy)) = too_short(nodes, way, carries) {
            mend("MTU", found, remedy);
        }
        let of = |count: u32| format!("{count} of {} frames", way.sent);
        if way.lost > FEW {
            let share = 100.0 * f64::from(way.lost) / f64::from(way.sent);
            mend(
                "loss",
                format!("{} lost ({share:.1} %)", of(way.lost)),
                "see errors and drops of its interfaces and switches (`ip -s link`, `ethtool -S`), and the receiver's buffer: what is lost is sent again after a wait"
                    .into(),
            );
        }
        if way.doubled > FEW {
            mend(
                "doubled",
                format!("{} came twice", of(way.doubled)),
                "see bonds, mirrors and loops on the way: each copy costs the link and the receiver".into(),
            );
        }
        if way.late > FEW {
            mend(
                "order",
                format!("{} came behind later ones", of(way.late)),
                "spread flows and not packets over several ways: what comes out of order is asked for again"
                    .into(),
            );
        }
        let slow = match (way.rate, rate, median) {
            (Some(found), Some(wanted), _) if bits(found) < bits(wanted) / 2 => {
                Some((found, format!("{} were asked for", in_gigabits(wanted))))
            }
            (Some(found), None, Some(median))
                if bits(found) < bits(median) / 10 && bits(found) < OF_A_PROCESSOR =>
            {
                Some((found, format!("half of the paths carry {} or more", in_gigabits(median))))
            }
            _ => None,
        };
        if let Some((found, other)) = slow {
            mend(
                "rate",
                format!("{}, where {other}", in_gigabits(found)),
                "see the link's speed and duplex (`ethtool`), a shaper (`tc qdisc`), and how busy the receiver's cores are".into(),
            );
        }
    }
    findings
}

/// A way that carries less than the interfaces at both of its ends, or than groups need.
fn too_short(nodes: &[Node], way: &Way, carries: usize) -> Option<(String, String)> {
    let mtu = |name: &str| nodes.iter().find(|node| node.name() == name).and_then(Node::mtu);
    let both = mtu(&way.from).zip(mtu(&way.to)).map(|(a, b)| a.min(b));
    let fits = |size: &usize| both.is_some_and(|mtu| *size as u32 + HEADERS <= mtu);
    let expected = PATH_SIZES.iter().copied().filter(fits).max().unwrap_or(USUAL);
    if carries >= expected.max(USUAL) {
        return None;
    }
    let found = format!(
        "carries packets of {}, not of {}",
        ByteCount::new(carries as u64),
        ByteCount::new(expected.max(USUAL) as u64)
    );
    let remedy = match carries < USUAL {
        true => format!(
            "raise the MTU of what lies between to {} or more, or set group.mtu={} for all groups: longer packets never arrive",
            USUAL as u32 + HEADERS,
            ByteCount::new(carries.max(256) as u64)
        ),
        false => {
            "raise the MTU of what lies between to that of the interfaces: fewer packets, less work".into()
        }
    };
    Some((found, remedy))
}

fn in_gigabits(rate: BitRate) -> String {
    format!("{:.2} Gbit/s", bits(rate) as f64 / 1e9)
}

fn bits(rate: BitRate) -> u64 {
    rate.bits_per_second()
}

fn median(rates: impl Iterator<Item = BitRate>) -> Option<BitRate> {
    let mut rates: Vec<BitRate> = rates.collect();
    rates.sort_by_key(|rate| bits(*rate));
    rates.get(rates.len() / 2).copied()
}

/// A line a way.
pub(super) fn in_words(ways: &[Way]) -> String {
    use Align::{Left, Right};
    let dash = || "-".to_owned();
    let row = |way: &Way| {
        let carries = way
            .carries
            .map(|size| if size == 0 { "no data".into() } else { ByteCount::new(size as u64).to_string() });
        vec![
            way.from.clone(),
            way.to.clone(),
            carries.unwrap_or_else(|| "nothing".into()),
            way.lost.to_string(),
            way.doubled.to_string(),
            way.late.to_string(),
            way.rate.map_or_else(dash, |rate| format!("{:.2}", rate.bits_per_second() as f64 / 1e9)),
            way.round_trip.map_or_else(dash, |time| format!("{:.1}", time.as_micros_f64())),
        ]
    };
    let columns = [
        ("from", Left),
        ("to", Left),
        ("carries", Right),
        ("lost", Right),
        ("twice", Right),
        ("late", Right),
        ("Gbit/s", Right),
        ("there and back(us)", Right),
    ];
    table(&columns, &ways.iter().map(row).collect::<Vec<_>>())
}

/// Nodes that take part: those whose frames are UDP's. Others are told.
pub(super) fn of_udp(nodes: Vec<NodeDescription>) -> (Vec<NodeDescription>, Vec<Finding>) {
    let (asked, others): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| node.encapsulation == quincunx_control::Encapsulation::Udp);
    let note = |node: &NodeDescription| {
        let kind = if node.role == Role::Switch { "switch" } else { "host" };
        let found = format!("a {kind} of RoCE v1 frames, whose paths are not tried");
        Finding::new("paths", &node.name, found, Verdict::Note)
    };
    let notes = others.iter().map(note).collect();
    (asked, notes)
}

#[cfg(test)]
mod tests;
