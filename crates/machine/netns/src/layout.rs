//! What a fabric is made of, and what `ip` is told to make it.
//!
//! In a tree each host is a namespace with an interface `eth0`, and each switch one with a port for each link: `h0` to host 0, `s1` to
//! switch 1 below it, `above`. Routed, the switch has its address on `lo`, knows for each node which port leads there, and drops what
//! comes by another one than what would leave for its sender (reverse path filtering). Bridged, a bridge `br0` joins the ports, holds the
//! switch's address and learns from frames who else is where; of the fabric's nodes that is written down. With ports for a process nobody has
//! been told anything, and hosts ask for each other. In a mesh each host has an interface for each
//! other one, `l3` to host 3, and its address on none of them but on `lo`, with a route for each peer: one socket serves
//! all links. Switches with several ways between them are routed as those of a tree; `s2` is the port to switch 2. Of several next hops that are
//! as near the kernel takes one for each flow, by a hash of addresses and UDP ports (ECMP).

use quincunx_units::BitRate;
use std::fmt::Write as _;
use std::net::IpAddr;

use crate::NetnsError;

/// As many hosts as there are addresses before the first switch.
pub const MAX_HOSTS: usize = FIRST_SWITCH as usize - 1;

/// Last byte of the first switch's address.
const FIRST_SWITCH: u8 = 192;

/// As many switches as there are addresses from the first one on.
pub const MAX_SWITCHES: usize = 255 - FIRST_SWITCH as usize;

/// A node of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NetnsNode {
    /// The i-th host.
    Host(usize),
    /// The i-th switch.
    Switch(usize),
}

impl NetnsNode {
    /// Its address: hosts from 10.77.0.1 up, switches from 10.77.0.192 up.
    pub fn address(self) -> IpAddr {
        IpAddr::from([10, 77, 0, self.number()])
    }

    /// The last byte of its addresses.
    pub fn number(self) -> u8 {
        match self {
            Self::Host(index) => 1 + index as u8,
            Self::Switch(index) => FIRST_SWITCH + index as u8,
        }
    }

    /// A locally administered Ethernet address made of the IP address; on all interfaces of a host, each a link of its own.
    fn mac(self) -> String {
        format!("02:00:0a:4d:00:{:02x}", self.number())
    }
}

/// By which addresses nodes are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Family {
    /// 10.77.0.1 and up.
    #[default]
    V4,
    /// fd77::1 and up.
    V6,
}

/// Who is joined with whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wiring {
    /// Switches with hosts at them.
    Tree {
        /// For each switch the one above it; exactly the first has none.
        parents: Vec<Option<usize>>,
        /// For each host its switch.
        hosts: Vec<usize>,
    },
    /// Hosts at switches that may have several ways to each other.
    Switched {
        /// How many switches.
        switches: usize,
        /// Pairs of switches, the lower number first, each once.
        links: Vec<[usize; 2]>,
        /// For each host its switch.
        hosts: Vec<usize>,
    },
    /// Hosts alone, each joined with each.
    Mesh {
        /// How many.
        hosts: usize,
    },
}

impl Wiring {
    /// Links between switches: who puts it up, who is at its other end, and what the port is called there.
    fn cables(&self) -> Vec<(usize, usize, String)> {
        match self {
            Self::Tree { parents, .. } => {
                let below = parents.iter().enumerate();
                below.filter_map(|(switch, parent)| Some(((*parent)?, switch, "above".to_owned()))).collect()
            }
            Self::Switched { links, .. } => links.iter().map(|&[a, b]| (a, b, format!("s{a}"))).collect(),
            Self::Mesh { .. } => Vec::new(),
        }
    }

    /// The links of a switch: who is at the other end of each, and the interface that leads there.
    pub fn ports(&self, switch: usize) -> Vec<(NetnsNode, String)> {
        let mut ports = Vec::new();
        for (near, far, peer) in self.cables() {
            if far == switch {
                ports.push((NetnsNode::Switch(near), peer));
            } else if near == switch {
                ports.push((NetnsNode::Switch(far), format!("s{far}")));
            }
        }
        let (Self::Tree { hosts, .. } | Self::Switched { hosts, .. }) = self else { return ports };
        let own = hosts.iter().enumerate().filter(|(_, at)| **at == switch);
        ports.extend(own.map(|(host, _)| (NetnsNode::Host(host), format!("h{host}"))));
        ports
    }
}

/// How switches send on what is not for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Switching {
    /// By address: who is behind which port is known from the start.
    #[default]
    Routed,
    /// By a bridge, which takes Ethernet frames of any kind.
    Bridged,
    /// By a process whose ports the ends of the cables are: the kernel has no address there and sends nothing on.
    Ports,
}

/// A fabric to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Who is joined with whom.
    pub wiring: Wiring,
    /// MTU of every link in bytes.
    pub mtu: u16,
    /// Rate of every link, each way; none: as fast as the machine.
    pub rate: Option<BitRate>,
    /// What switches do.
    pub switching: Switching,
    /// What addresses nodes have.
    pub family: Family,
}

/// What a node is made of.
pub(super) struct Orders {
    pub(super) node: NetnsNode,
    /// Commands for `ip` there, a line each.
    pub(super) ip: String,
    /// Commands for `bridge` there.
    pub(super) bridge: String,
    /// The interfaces at the ends of its links.
    pub(super) devices: Vec<String>,
}

impl Layout {
    /// One switch with `hosts` hosts.
    pub fn star(hosts: usize, mtu: u16, rate: Option<BitRate>) -> Self {
        Self::new(Wiring::Tree { parents: vec![None], hosts: vec![0; hosts] }, mtu, rate)
    }

    /// `hosts` hosts, each joined with each.
    pub fn mesh(hosts: usize, mtu: u16, rate: Option<BitRate>) -> Self {
        Self::new(Wiring::Mesh { hosts }, mtu, rate)
    }

    /// Routed, if it is a tree.
    pub fn new(wiring: Wiring, mtu: u16, rate: Option<BitRate>) -> Self {
        Self { wiring, mtu, rate, switching: Switching::Routed, family: Family::V4 }
    }

    /// The same with bridges for switches.
    #[must_use]
    pub fn bridged(self) -> Self {
        Self { switching: Switching::Bridged, ..self }
    }

    /// The same with switches that are a process's affair.
    #[must_use]
    pub fn ports(self) -> Self {
        Self { switching: Switching::Ports, ..self }
    }

    /// The same with addresses of IPv6.
    #[must_use]
    pub fn over_ipv6(self) -> Self {
        Self { family: Family::V6, ..self }
    }

    /// A node's address.
    pub fn address(&self, node: NetnsNode) -> IpAddr {
        match self.family {
            Family::V4 => node.address(),
            Family::V6 => IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, node.number().into()]),
        }
    }

    /// Its address as `ip addr add` takes it, as one of a network of all or by itself. Nobody need ask whether another has it.
    fn own(&self, node: NetnsNode, is_of_network: bool) -> String {
        let address = self.address(node);
        match (self.family, is_of_network) {
            (Family::V4, true) => format!("addr add {address}/24"),
            (Family::V4, false) => format!("addr add {address}/32"),
            (Family::V6, true) => format!("addr add {address}/64 nodad"),
            (Family::V6, false) => format!("addr add {address}/128 nodad"),
        }
    }

    pub(super) fn check(&self) -> Result<(), NetnsError> {
        let wrong = |expected, found: String| Err(NetnsError::Layout { expected, found });
        let (hosts, switches) = self.counts();
        if let Wiring::Tree { parents, hosts } = &self.wiring {
            for (switch, parent) in parents.iter().enumerate() {
                // A parent comes before its children: no cycle can be written down.
                match parent {
                    None if switch == 0 => {}
                    Some(parent) if *parent < switch => {}
                    _ => {
                        return wrong(
                            "one root first and parents before their children",
                            format!("switch {switch} under {parent:?}"),
                        );
                    }
                }
            }
            if let Some(host) = hosts.iter().position(|switch| *switch >= parents.len()) {
                return wrong("every host at a switch", format!("host {host} at switch {}", hosts[host]));
            }
        }
        if let Wiring::Switched { switches, links, hosts } = &self.wiring {
            let right = |link: &[usize; 2]| link[0] < link[1] && link[1] < *switches;
            if let Some(link) = links.iter().find(|link| !right(link)) {
                return wrong("links between two switches, the lower number first", format!("{link:?}"));
            }
            if let Some(host) = hosts.iter().position(|switch| switch >= switches) {
                return wrong("every host at a switch", format!("host {host} at switch {}", hosts[host]));
            }
            let apart = distances(*switches, links, 0).iter().position(|distance| *distance == usize::MAX);
            if let Some(apart) = apart {
                return wrong("ways between all switches", format!("none from 0 to {apart}"));
            }
            if self.switching != Switching::Routed {
                return wrong("routed switches where there are several ways", "bridges".into());
            }
        }
        if hosts > MAX_HOSTS || switches > MAX_SWITCHES {
            return wrong(
                "at most 191 hosts and 63 switches",
                format!("{hosts} hosts and {switches} switches"),
            );
        }
        Ok(())
    }

    fn counts(&self) -> (usize, usize) {
        match &self.wiring {
            Wiring::Tree { parents, hosts } => (hosts.len(), parents.len()),
            Wiring::Switched { switches, hosts, .. } => (hosts.len(), *switches),
            Wiring::Mesh { hosts } => (*hosts, 0),
        }
    }

    /// All hosts, then all switches.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NetnsNode> + use<> {
        let (hosts, switches) = self.counts();
        (0..hosts).map(NetnsNode::Host).chain((0..switches).map(NetnsNode::Switch))
    }

    /// What to tell whom, in this order; `namespace` has the name of each node.
    pub(super) fn orders(&self, namespace: impl Fn(NetnsNode) -> String) -> Vec<Orders> {
        match &self.wiring {
            Wiring::Tree { parents, hosts } => {
                let hops = |from, to| vec![next_hop(parents, hosts, from, to)];
                self.switches(hosts, hops, namespace)
            }
            Wiring::Switched { switches, links, hosts } => {
                let ways: Vec<_> = (0..*switches).map(|to| distances(*switches, links, to)).collect();
                self.switches(hosts, |from, to| next_hops(&ways, links, hosts, from, to), namespace)
            }
            Wiring::Mesh { hosts } => self.mesh_of(*hosts, namespace),
        }
    }

    /// Switches and their ends of links first (parents before children, lower numbers before higher), then what was put at the other ends.
    /// `hops` has the interfaces of a node that lead to another, and who is behind each.
    fn switches(
        &self,
        hosts: &[usize],
        hops: impl Fn(NetnsNode, NetnsNode) -> Vec<(String, NetnsNode)>,
        namespace: impl Fn(NetnsNode) -> String,
    ) -> Vec<Orders> {
        let mtu = self.mtu;
        let start = |node| Orders {
            node,
            ip: "link set lo up\n".to_owned(),
            bridge: String::new(),
            devices: Vec::new(),
        };
        let mut all: Vec<Orders> = self.nodes().map(start).collect();
        let switch_base = hosts.len();
        let is_bridged = self.switching == Switching::Bridged;
        for orders in &mut all[switch_base..] {
            let (own, mac) = (|is_of_network| self.own(orders.node, is_of_network), orders.node.mac());
            if self.switching == Switching::Ports {
                continue;
            }
            if is_bridged {
                let _ =
                    writeln!(orders.ip, "link add br0 address {mac} type bridge\nlink set br0 mtu {mtu} up");
                let _ = writeln!(orders.ip, "{} dev br0", own(true));
            } else {
                let _ = writeln!(orders.ip, "{} dev lo", own(false));
            }
        }
        let enable = |node: NetnsNode, port: &str| match self.switching {
            Switching::Bridged => format!("link set {port} master br0 up\n"),
            Switching::Routed => format!("link set {port} address {} up\n", node.mac()),
            Switching::Ports => format!("link set {port} up\n"),
        };
        // By switch: the ends that others put there.
        let mut put: Vec<Vec<String>> = vec![Vec::new(); all.len() - switch_base];
        let mut join = |switch: usize, port: String, other: usize, peer: &str| {
            let there = namespace(all[other].node);
            let enabled = enable(all[switch_base + switch].node, &port);
            let text = &mut all[switch_base + switch].ip;
            let _ = writeln!(
                text,
                "link add {port} mtu {mtu} type veth peer name {peer} mtu {mtu} netns {there}"
            );
            text.push_str(&enabled);
            all[switch_base + switch].devices.push(port);
            all[other].devices.push(peer.to_owned());
        };
        for (host, &switch) in hosts.iter().enumerate() {
            join(switch, format!("h{host}"), host, "eth0");
        }
        for (near, far, peer) in self.wiring.cables() {
            join(near, format!("s{far}"), switch_base + far, &peer);
            put[far].push(peer);
        }
        for orders in &mut all {
            let (node, text) = (orders.node, &mut orders.ip);
            match node {
                NetnsNode::Host(_) => {
                    let _ = writeln!(text, "link set eth0 address {} up", node.mac());
                    let _ = writeln!(text, "{} dev eth0", self.own(node, true));
                }
                NetnsNode::Switch(switch) => {
                    put[switch].iter().for_each(|port| text.push_str(&enable(node, port)));
                }
            }
            // Whom to ask is known from the start: frames sent while a neighbour is being found may overtake each other.
            // Behind a process's ports it is for the process to be found, and to let others be.
            let others = self.nodes().filter(|other| *other != node && self.switching != Switching::Ports);
            for other in others {
                let next = match (self.switching, node) {
                    (Switching::Routed, _) => hops(node, other),
                    (Switching::Bridged | Switching::Ports, NetnsNode::Host(_)) => {
                        vec![("eth0".to_owned(), other)]
                    }
                    (Switching::Bridged | Switching::Ports, NetnsNode::Switch(_)) => {
                        vec![("br0".to_owned(), other)]
                    }
                };
                let address = self.address(other);
                match (self.switching, node) {
                    (Switching::Routed, NetnsNode::Switch(_)) => {
                        let _ = write!(text, "route add {address} src {}", self.address(node));
                        match &next[..] {
                            [(device, _)] => _ = writeln!(text, " dev {device}"),
                            several => {
                                several
                                    .iter()
                                    .for_each(|(device, _)| _ = write!(text, " nexthop dev {device}"));
                                text.push('\n');
                            }
                        }
                    }
                    (Switching::Bridged, NetnsNode::Switch(_)) => {
                        for (port, _) in hops(node, other) {
                            let _ = writeln!(
                                orders.bridge,
                                "fdb replace {} dev {port} master static",
                                other.mac()
                            );
                        }
                    }
                    _ => {}
                }
                for (device, behind) in next {
                    let _ = writeln!(text, "neigh add {address} lladdr {} dev {device}", behind.mac());
                }
            }
        }
        all.rotate_left(switch_base);
        all
    }

    /// Each host makes its links to those after it, and finds those to the others made.
    fn mesh_of(&self, hosts: usize, namespace: impl Fn(NetnsNode) -> String) -> Vec<Orders> {
        let mtu = self.mtu;
        let orders = |host: usize| {
            let node = NetnsNode::Host(host);
            let address = self.address(node);
            let mut ip = format!("link set lo up\n{} dev lo\n", self.own(node, false));
            for other in host + 1..hosts {
                let there = namespace(NetnsNode::Host(other));
                let _ = writeln!(
                    ip,
                    "link add l{other} mtu {mtu} type veth peer name l{host} mtu {mtu} netns {there}"
                );
            }
            let others = (0..hosts).filter(|other| *other != host);
            for (other, peer) in others.clone().map(|other| (other, NetnsNode::Host(other))) {
                let _ = writeln!(ip, "link set l{other} address {} up", node.mac());
                let _ = writeln!(ip, "route add {} dev l{other} src {address}", self.address(peer));
                let _ = writeln!(ip, "neigh add {} lladdr {} dev l{other}", self.address(peer), peer.mac());
            }
            Orders {
                node,
                ip,
                bridge: String::new(),
                devices: others.map(|other| format!("l{other}")).collect(),
            }
        };
        (0..hosts).map(orders).collect()
    }
}

/// By switch: links to one of them.
fn distances(switches: usize, links: &[[usize; 2]], to: usize) -> Vec<usize> {
    let mut found = vec![usize::MAX; switches];
    found[to] = 0;
    let mut queue = std::collections::VecDeque::from([to]);
    while let Some(at) = queue.pop_front() {
        for &[a, b] in links {
            for (near, far) in [(a, b), (b, a)] {
                if near == at && found[far] == usize::MAX {
                    found[far] = found[at] + 1;
                    queue.push_back(far);
                }
            }
        }
    }
    found
}

/// The interfaces of `from` on the shortest ways to `to`, and who is behind each. `ways` has the distances to each switch.
fn next_hops(
    ways: &[Vec<usize>],
    links: &[[usize; 2]],
    hosts: &[usize],
    from: NetnsNode,
    to: NetnsNode,
) -> Vec<(String, NetnsNode)> {
    let (here, there) = match (from, to) {
        (NetnsNode::Host(host), _) => return vec![("eth0".to_owned(), NetnsNode::Switch(hosts[host]))],
        (NetnsNode::Switch(here), NetnsNode::Host(host)) if hosts[host] == here => {
            return vec![(format!("h{host}"), to)];
        }
        (NetnsNode::Switch(here), NetnsNode::Host(host)) => (here, hosts[host]),
        (NetnsNode::Switch(here), NetnsNode::Switch(there)) => (here, there),
    };
    let neighbours = links.iter().filter_map(|&[a, b]| match here {
        here if here == a => Some(b),
        here if here == b => Some(a),
        _ => None,
    });
    let nearer = neighbours.filter(|&next| ways[there][next] < ways[there][here]);
    nearer.map(|next| (format!("s{next}"), NetnsNode::Switch(next))).collect()
}

/// The interface of `from` that leads to `to`, and who is behind it.
fn next_hop(
    parents: &[Option<usize>],
    hosts: &[usize],
    from: NetnsNode,
    to: NetnsNode,
) -> (String, NetnsNode) {
    let here = match from {
        NetnsNode::Host(host) => return ("eth0".to_owned(), NetnsNode::Switch(hosts[host])),
        NetnsNode::Switch(switch) => switch,
    };
    // Upwards from there, until the next step would be here.
    let mut at = to;
    loop {
        let up = match at {
            NetnsNode::Host(host) => Some(hosts[host]),
            NetnsNode::Switch(switch) => parents[switch],
        };
        match (up, at) {
            (Some(up), NetnsNode::Host(host)) if up == here => return (format!("h{host}"), at),
            (Some(up), NetnsNode::Switch(switch)) if up == here => return (format!("s{switch}"), at),
            (Some(up), _) => at = NetnsNode::Switch(up),
            (None, _) => {
                let above = parents[here].expect("whoever is not below is above or beside");
                return ("above".to_owned(), NetnsNode::Switch(above));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NetnsFabric;
    use super::*;

    #[test]
    fn nodes_have_addresses_of_their_own() {
        assert_eq!(NetnsNode::Host(3).address(), IpAddr::from([10, 77, 0, 4]));
        assert_eq!(NetnsNode::Switch(2).address(), IpAddr::from([10, 77, 0, 194]));
    }

    #[test]
    fn a_switch_knows_which_port_leads_to_whom() {
        let (parents, hosts) = ([None, Some(0), Some(0), Some(1)], [3, 3, 2, 0]);
        let way = |from, to| next_hop(&parents, &hosts, from, to);
        let [host, switch] = [NetnsNode::Host, NetnsNode::Switch];
        assert_eq!(way(switch(0), host(1)), ("s1".to_owned(), switch(1)));
        assert_eq!(way(switch(0), host(3)), ("h3".to_owned(), host(3)));
        assert_eq!(way(switch(1), host(0)), ("s3".to_owned(), switch(3)));
        assert_eq!(way(switch(3), host(0)), ("h0".to_owned(), host(0)));
        assert_eq!(way(switch(3), host(2)), ("above".to_owned(), switch(1)));
        assert_eq!(way(switch(3), switch(0)), ("above".to_owned(), switch(1)));
        assert_eq!(way(switch(1), switch(3)), ("s3".to_owned(), switch(3)));
        assert_eq!(way(host(2), host(0)), ("eth0".to_owned(), switch(2)));
    }

    /// Two spines, two leaves, two hosts at each.
    fn leaf_spine() -> Wiring {
        let links = vec![[0, 2], [0, 3], [1, 2], [1, 3]];
        Wiring::Switched { switches: 4, links, hosts: vec![2, 2, 3, 3] }
    }

    #[test]
    fn a_leaf_has_a_next_hop_at_each_spine_and_a_spine_one_to_each_host() {
        let orders = Layout::new(leaf_spine(), 1500, None).orders(|node| format!("{node:?}"));
        let of = |wanted: NetnsNode| orders.iter().find(|orders| orders.node == wanted).unwrap();
        let leaf = &of(NetnsNode::Switch(2)).ip;
        assert!(
            leaf.contains("route add 10.77.0.3 src 10.77.0.194 nexthop dev s0 nexthop dev s1\n"),
            "{leaf}"
        );
        assert!(leaf.contains("neigh add 10.77.0.3 lladdr 02:00:0a:4d:00:c1 dev s1\n"), "{leaf}");
        assert!(leaf.contains("route add 10.77.0.1 src 10.77.0.194 dev h0\n"), "{leaf}");
        let spine = &of(NetnsNode::Switch(1)).ip;
        assert!(spine.contains("route add 10.77.0.4 src 10.77.0.193 dev s3\n"), "{spine}");
        assert_eq!(of(NetnsNode::Switch(3)).devices, ["h2", "h3", "s0", "s1"]);
    }

    #[test]
    fn the_links_of_a_switch_have_their_interfaces() {
        let [host, switch] = [NetnsNode::Host, NetnsNode::Switch];
        let named = |ports: &[(NetnsNode, &str)]| {
            ports.iter().map(|(node, port)| (*node, (*port).to_owned())).collect::<Vec<_>>()
        };
        let tree = Wiring::Tree { parents: vec![None, Some(0), Some(0)], hosts: vec![1, 2] };
        assert_eq!(tree.ports(1), named(&[(switch(0), "above"), (host(0), "h0")]));
        assert_eq!(tree.ports(0), named(&[(switch(1), "s1"), (switch(2), "s2")]));
        let spines = [(switch(0), "s0"), (switch(1), "s1"), (host(2), "h2"), (host(3), "h3")];
        assert_eq!(leaf_spine().ports(3), named(&spines));
        assert_eq!(Layout::mesh(3, 1500, None).wiring.ports(0), []);
    }

    #[test]
    fn every_two_hosts_of_a_mesh_have_a_link() {
        let orders = Layout::mesh(4, 1500, None).orders(|node| format!("{node:?}"));
        let made = |orders: &Orders| orders.ip.lines().filter(|line| line.starts_with("link add")).count();
        assert_eq!(orders.iter().map(made).collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert_eq!(orders[1].devices, ["l0", "l2", "l3"]);
    }

    #[test]
    fn a_layout_that_is_no_tree_is_refused_before_anything_is_made() {
        let tree = |parents, hosts| Layout::new(Wiring::Tree { parents, hosts }, 1500, None);
        let error = NetnsFabric::new(tree(vec![None], vec![0, 5])).expect_err("there is one switch");
        assert_eq!(
            error.to_string(),
            "expected every host at a switch, found host 1 at switch 5; change the layout"
        );
        let several = |links: Vec<[usize; 2]>| {
            Layout::new(Wiring::Switched { switches: 3, links, hosts: vec![0] }, 1500, None)
        };
        for wrong in [several(vec![[1, 0]]), several(vec![[0, 1]]), several(vec![[0, 1], [1, 2]]).bridged()] {
            assert!(matches!(NetnsFabric::new(wrong), Err(NetnsError::Layout { .. })));
        }
        let cycle = tree(vec![Some(0)], vec![]);
        assert!(matches!(NetnsFabric::new(cycle), Err(NetnsError::Layout { .. })));
        for layout in [Layout::star(254, 1500, None), Layout::mesh(200, 1500, None)] {
            assert!(matches!(NetnsFabric::new(layout), Err(NetnsError::Layout { .. })));
        }
    }
}
