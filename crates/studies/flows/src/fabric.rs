//! The network: the manager's map, and what each link carries each way.

use quincunx_control::map::{Map, MapLink, MapNode};
use quincunx_control::{LinkReport, NodeDescription, Role};
use quincunx_driver_flow::LinkId;
use quincunx_fabric::{Clos, LinkProperties, NodeKind, ShapeError, SwitchedShape, Topology};
use quincunx_scenario::TenancyLink;
use quincunx_units::{BitRate, ByteCount};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// Hosts, each an accelerator, switches, and the links between them.
#[derive(Clone, Debug)]
pub struct Cluster {
    map: Map,
    hosts: Vec<MapNode>,
    /// By link of the map: its ends, the one of the lower number first.
    ends: Vec<[MapNode; 2]>,
    /// By link of the map: cables side by side.
    cables: Vec<u16>,
    rate: BitRate,
}

/// Names of nodes, and pairs of them that cables join.
#[derive(Default)]
struct Plan {
    hosts: Vec<String>,
    switches: Vec<String>,
    pairs: BTreeMap<[String; 2], u16>,
}

impl Plan {
    fn join(&mut self, mut ends: [String; 2]) {
        ends.sort();
        *self.pairs.entry(ends).or_insert(0) += 1;
    }

    fn clos(shape: Clos) -> Self {
        let mut plan = Self { switches: shape.switch_names().collect(), ..Self::default() };
        shape.uplinks().for_each(|ends| plan.join(ends));
        for (number, leaf) in shape.leaves_of_hosts().enumerate() {
            plan.hosts.push(format!("host-{number}"));
            plan.join([format!("host-{number}"), leaf]);
        }
        plan
    }

    fn of(topology: &Topology) -> Self {
        let mut plan = Self::default();
        for node in topology.nodes() {
            match node.kind {
                NodeKind::Host => plan.hosts.push(node.name.clone()),
                NodeKind::Switch => plan.switches.push(node.name.clone()),
            }
        }
        for link in topology.links() {
            plan.join(link.ends.map(|end| topology.node(end.node).name.clone()));
        }
        plan
    }
}

impl Cluster {
    /// The network of that shape.
    ///
    /// # Errors
    /// If there is no such shape, or it has no switches.
    pub fn new(shape: &str, link: &TenancyLink) -> Result<Self, ShapeError> {
        let properties = LinkProperties { rate: link.rate, latency: link.latency };
        let plan = match shape.parse::<Clos>() {
            Ok(clos) => Plan::clos(clos),
            Err(_) if SwitchedShape::is_meant(shape) => {
                Plan::of(&shape.parse::<SwitchedShape>()?.topology(properties))
            }
            Err(_) => Plan::of(&Topology::from_shape(&shape.parse()?, properties)),
        };
        Ok(Self::joined(&plan, link.rate))
    }

    fn joined(plan: &Plan, rate: BitRate) -> Self {
        let mut links: BTreeMap<&str, Vec<LinkReport>> = BTreeMap::new();
        for ([a, b], &cables) in &plan.pairs {
            for (own, neighbour) in [(a, b), (b, a)] {
                let report = LinkReport {
                    interface: None,
                    neighbour: neighbour.clone(),
                    parallel_links: cables,
                    rate: Some(rate),
                };
                links.entry(own).or_default().push(report);
            }
        }
        let mut describe = |name: &String, role: Role| {
            let links = links.remove(name.as_str()).unwrap_or_default();
            let host = NodeDescription::host(name.clone(), IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            NodeDescription { role, links, memory: ByteCount::new(0), ..host }
        };
        let mut nodes: Vec<NodeDescription> =
            plan.switches.iter().map(|name| describe(name, Role::Switch)).collect();
        nodes.extend(plan.hosts.iter().map(|name| describe(name, Role::Host)));
        let map = Map::new(nodes.iter());
        let place = |name: &str| map.find(name).expect("every node is on the map");
        let ends = |link: MapLink| {
            let mut ends = map.ends(link).map(place);
            ends.sort();
            ends
        };
        let ends: Vec<_> = map.links().map(ends).collect();
        let cables = |ends: &[MapNode; 2]| {
            let mut names = ends.map(|end| map.name(end).to_owned());
            names.sort();
            plan.pairs[&names]
        };
        let cables = ends.iter().map(cables).collect();
        let hosts = plan.hosts.iter().map(|name| place(name)).collect();
        Self { map, hosts, ends, cables, rate }
    }

    /// How many accelerators it has.
    pub fn hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The name of an accelerator.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn host_name(&self, number: u32) -> &str {
        self.map.name(self.host(number))
    }

    pub(crate) fn host(&self, number: u32) -> MapNode {
        self.hosts[number as usize]
    }

    /// Who is joined with whom, without trees.
    pub const fn map(&self) -> &Map {
        &self.map
    }

    /// What each link carries, one way after the other: link `n` of the map is `2 n` from its lower end and `2 n + 1` back.
    pub(crate) fn rates(&self) -> impl Iterator<Item = BitRate> {
        let rate = |&cables: &u16| {
            BitRate::new(self.rate.bits_per_second() * u64::from(cables)).expect("a cable carries something")
        };
        self.cables.iter().map(rate).flat_map(|rate| [rate, rate])
    }

    /// A link, away from a node.
    pub(crate) fn from(&self, node: MapNode, link: MapLink) -> LinkId {
        LinkId(2 * link.0 + u32::from(self.ends[link.0 as usize][0] != node))
    }

    /// A link, both ways.
    pub(crate) fn both(link: MapLink) -> [LinkId; 2] {
        [LinkId(2 * link.0), LinkId(2 * link.0 + 1)]
    }

    /// Both ends of a link.
    pub(crate) fn ends(&self, link: MapLink) -> [MapNode; 2] {
        self.ends[link.0 as usize]
    }

    /// From whom to whom a link leads, for people: `leaf-0-1 > spine-0-3`.
    pub fn name(&self, link: LinkId) -> String {
        let ends = self.ends[(link.0 / 2) as usize].map(|end| self.map.name(end));
        let [from, to] = if link.0.is_multiple_of(2) { ends } else { [ends[1], ends[0]] };
        format!("{from} > {to}")
    }
}
