//! The network: the manager's map, and what each link carries each way.

use quincunx_control::map::{Map, MapLink, MapNode};
use quincunx_control::{LinkReport, NodeDescription, Role};
use quincunx_design::Catalog;
use quincunx_driver_flow::LinkId;
use quincunx_fabric::{Clos, LinkProperties, NodeKind, ShapeError, SwitchedShape, Topology};
use quincunx_scenario::{Fabric, PacketFabric, Scenario, ScenarioError, Tenancy, TenancyLink, TopologyName};
use quincunx_units::{BitRate, ByteCount, Duration};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// Hosts, each an accelerator, switches, and the links between them.
#[derive(Clone, Debug)]
pub struct Cluster {
    map: Map,
    hosts: Vec<MapNode>,
    /// By link of the map: its ends, the one of the lower number first.
    ends: Vec<[MapNode; 2]>,
    /// By link of the map: what it carries each way, by all its cables.
    rates: Vec<BitRate>,
    /// The longest of a link.
    latency: Duration,
}

/// Why there is no network.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ClusterError {
    /// Its shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The file that it is in.
    #[error(transparent)]
    File(#[from] ScenarioError),
    /// A file with something else.
    #[error(
        "expected hosts and switches with links between them (kind = \"packet\") in {path}, found something else; make one with quincunx import"
    )]
    Kind {
        /// The file.
        path: String,
    },
    /// A host that no switch joins with the others.
    #[error(
        "expected switches that join each host with the first, found none at \"{host}\"; collectives of this host could not run: add a link"
    )]
    Apart {
        /// The host.
        host: String,
    },
}

/// Cables between two nodes, side by side.
#[derive(Clone, Copy, Default)]
struct Cables {
    count: u16,
    /// Of all, in bits a second.
    rate: u64,
}

/// Names of nodes, and pairs of them that cables join.
#[derive(Default)]
struct Plan {
    hosts: Vec<String>,
    switches: Vec<String>,
    pairs: BTreeMap<[String; 2], Cables>,
    latency: Duration,
}

impl Plan {
    fn join(&mut self, mut ends: [String; 2], LinkProperties { rate, latency }: LinkProperties) {
        ends.sort();
        let cables = self.pairs.entry(ends).or_default();
        cables.count += 1;
        cables.rate += rate.bits_per_second();
        self.latency = self.latency.max(latency);
    }

    fn clos(shape: Clos, link: LinkProperties) -> Self {
        let mut plan = Self { switches: shape.switch_names().collect(), ..Self::default() };
        shape.uplinks().for_each(|ends| plan.join(ends, link));
        for (number, leaf) in shape.leaves_of_hosts().enumerate() {
            plan.hosts.push(format!("host-{number}"));
            plan.join([format!("host-{number}"), leaf], link);
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
            plan.join(link.ends.map(|end| topology.node(end.node).name.clone()), link.properties);
        }
        plan
    }
}

impl Cluster {
    /// That of a file, by shape or in a file of its own.
    ///
    /// # Errors
    /// If there is no such shape, the file has none, or its switches do not join its hosts.
    pub fn of(tenancy: &Tenancy, catalog: Catalog) -> Result<Self, ClusterError> {
        let Some(link) = &tenancy.link else {
            let path = &tenancy.fabric;
            return match Scenario::find(path, &[], catalog)?.fabric {
                Fabric::Packet(PacketFabric { topology: TopologyName::Listed(topology), .. }) => {
                    Self::joined(&Plan::of(&topology)).connected()
                }
                Fabric::Packet(PacketFabric { topology: TopologyName::Ring(_), .. }) => {
                    Err(ClusterError::Kind { path: path.clone() })
                }
                Fabric::Packet(PacketFabric { topology, link, .. }) => {
                    let link = TenancyLink { rate: link.rate, latency: link.latency };
                    Self::new(&topology.to_string(), &link)?.connected()
                }
                _ => Err(ClusterError::Kind { path: path.clone() }),
            };
        };
        Ok(Self::new(&tenancy.fabric, link)?)
    }

    /// The network of that shape.
    ///
    /// # Errors
    /// If there is no such shape, or it has no switches.
    pub fn new(shape: &str, link: &TenancyLink) -> Result<Self, ShapeError> {
        let properties = LinkProperties { rate: link.rate, latency: link.latency };
        let plan = match shape.parse::<Clos>() {
            Ok(clos) => Plan::clos(clos, properties),
            Err(_) if SwitchedShape::is_meant(shape) => {
                Plan::of(&shape.parse::<SwitchedShape>()?.topology(properties))
            }
            Err(_) => Plan::of(&Topology::from_shape(&shape.parse()?, properties)),
        };
        Ok(Self::joined(&plan))
    }

    /// The same if switches join all hosts, those of one server with those of others, too.
    fn connected(self) -> Result<Self, ClusterError> {
        let is_switch = |node: &MapNode| !self.map.is_host(*node);
        let switches = |host: MapNode| self.map.ports(host).iter().map(|(_, to)| *to).filter(is_switch);
        let between = |link| self.ends(link).iter().all(is_switch);
        // Whom the switches near one of the first host's do not reach.
        let apart = |switch: MapNode| {
            let near = self.map.distances(switch, &between);
            let is_near = |to: MapNode| near[to.0 as usize].is_some();
            self.hosts.iter().copied().find(|&host| !switches(host).any(is_near))
        };
        let first = self.hosts[0];
        let mut lost = Some(first);
        for switch in switches(first) {
            lost = apart(switch);
            if lost.is_none() {
                break;
            }
        }
        match lost {
            Some(host) => Err(ClusterError::Apart { host: self.map.name(host).to_owned() }),
            None => Ok(self),
        }
    }

    fn joined(plan: &Plan) -> Self {
        let mut links: BTreeMap<&str, Vec<LinkReport>> = BTreeMap::new();
        for ([a, b], &cables) in &plan.pairs {
            for (own, neighbour) in [(a, b), (b, a)] {
                let report = LinkReport {
                    interface: None,
                    neighbour: neighbour.clone(),
                    parallel_links: cables.count,
                    rate: BitRate::new(cables.rate / u64::from(cables.count)),
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
        let rate = |ends: &[MapNode; 2]| {
            let mut names = ends.map(|end| map.name(end).to_owned());
            names.sort();
            BitRate::new(plan.pairs[&names].rate).expect("a cable carries something")
        };
        let rates = ends.iter().map(rate).collect();
        let hosts = plan.hosts.iter().map(|name| place(name)).collect();
        Self { map, hosts, ends, rates, latency: plan.latency }
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
        self.rates.iter().flat_map(|&rate| [rate, rate])
    }

    /// Time to the other end of a link; of links that differ the longest.
    pub(crate) const fn latency(&self) -> Duration {
        self.latency
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
