//! Packet fabrics as files say them: by a topology's name and one `[link]` for all, or by a list of nodes and links, `[[node]]` and `[[link]]`.

use crate::{NodeDelays, PacketLink, RankPlacement, TopologyName, text};
use quincunx_fabric::{LinkProperties, NodeKind, Topology};
use quincunx_units::{BitRate, Duration};
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// Hosts and switches on Ethernet links.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "Keys")]
pub struct PacketFabric {
    /// A one-line description.
    pub summary: Option<String>,
    /// How hosts and switches are joined.
    pub topology: TopologyName,
    /// Every link; that of the first host where each has its own.
    pub link: PacketLink,
    /// Which host each rank is on.
    pub placement: RankPlacement,
    /// Time in hosts and switches.
    pub delays: NodeDelays,
}

/// The keys of a packet fabric, as files have them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    /// A one-line description.
    summary: Option<String>,
    /// A shape: `star-8`, `leaf-spine-8x4x8`; or `[[node]]` and `[[link]]` list everything.
    topology: Option<String>,
    link: Links,
    #[serde(default)]
    node: Vec<ListedNode>,
    /// The host of each rank: `packed` (the default), `spread`, `random:SEED` or `0,8,1,9`.
    #[serde(default, deserialize_with = "text::deserialize")]
    #[schemars(with = "String")]
    placement: RankPlacement,
    #[serde(default)]
    nic: Nic,
    #[serde(default)]
    switch: SwitchSetup,
}

/// Hosts and their NICs.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct Nic {
    /// A frame's time through a host and its NIC, at each end, beside the link's.
    latency: Duration,
}

/// Switches.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
struct SwitchSetup {
    /// A frame's time through a switch, beside the links'.
    latency: Duration,
}

/// `[link]` or `[[link]]`.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Links {
    Alike(PacketLink),
    Listed(Vec<ListedLink>),
}

/// A node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListedNode {
    /// Its name, for links.
    name: String,
    /// A host or a switch.
    kind: ListedKind,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ListedKind {
    Host,
    Switch,
}

/// Links side by side between two nodes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListedLink {
    /// The two nodes, by name.
    between: [String; 2],
    /// Bits a second of each, each way.
    rate: BitRate,
    /// Time from sending a bit to its arrival.
    latency: Duration,
    /// Number of parallel links.
    #[serde(default = "one")]
    count: u16,
    /// Routing cost; frames take the cheapest paths.
    #[serde(default = "one")]
    cost: u16,
}

const fn one() -> u16 {
    1
}

impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Links;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table [link], or tables [[link]]")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Links, A::Error> {
                PacketLink::deserialize(MapAccessDeserializer::new(map)).map(Links::Alike)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Links, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Links::Listed)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl TryFrom<Keys> for PacketFabric {
    type Error = String;

    fn try_from(keys: Keys) -> Result<Self, String> {
        let Keys { summary, topology, link, node, placement, nic, switch } = keys;
        let delays = NodeDelays { nic: nic.latency, switch: switch.latency };
        match (topology, link) {
            (Some(name), Links::Alike(link)) if node.is_empty() => {
                let topology = name.parse().map_err(|error| format!("{error} in `topology`"))?;
                Ok(Self { summary, topology, link, placement, delays })
            }
            (None, Links::Listed(links)) if !node.is_empty() => {
                let (topology, link) = build(node, links)?;
                let topology = TopologyName::Listed(Box::new(topology));
                Ok(Self { summary, topology, link, placement, delays })
            }
            _ => Err("expected `topology` and one [link], or [[node]] and [[link]], found neither or some of both; \
                      say one of the two"
                .into()),
        }
    }
}

/// The fabric of these nodes and links, and the link of its first host, which stands for those of all where one is asked for.
fn build(nodes: Vec<ListedNode>, links: Vec<ListedLink>) -> Result<(Topology, PacketLink), String> {
    let mut topology = Topology::default();
    if nodes.len() >= usize::from(u16::MAX) {
        return Err(format!("expected fewer than {} nodes, found {}; leave some out", u16::MAX, nodes.len()));
    }
    for ListedNode { name, kind } in nodes {
        let kind = match kind {
            ListedKind::Host => NodeKind::Host,
            ListedKind::Switch => NodeKind::Switch,
        };
        topology.add_node(name, kind).map_err(|error| format!("{error} in `node`"))?;
    }
    for (number, ListedLink { between, rate, latency, count, cost }) in (1..).zip(links) {
        let at = format!("in the {number}. [[link]]");
        let mut ends = between.iter().map(|name| {
            topology.find(name).ok_or_else(|| {
                format!("expected a node of the file, found \"{name}\" {at}; add it, or name another")
            })
        });
        let [Some(a), Some(b)] = [ends.next().transpose()?, ends.next().transpose()?] else {
            unreachable!("a link has two ends")
        };
        if count == 0 {
            return Err(format!("expected a `count` of one or more, found 0 {at}; leave the link out"));
        }
        if cost == 0 {
            return Err(format!("expected a `cost` of one or more, found 0 {at}; one is what others cost"));
        }
        for _ in 0..count {
            let properties = LinkProperties { rate, latency };
            topology.connect_at_cost([a, b], properties, cost).map_err(|error| format!("{error} {at}"))?;
        }
    }
    topology.check_connected().map_err(|error| format!("{error} in `link`"))?;
    let mut hosts = topology.nodes().iter().filter(|node| node.kind == NodeKind::Host);
    let (first, more) = (hosts.next().and_then(|host| host.ports.first()), hosts.count());
    let Some(&first) = first.filter(|_| more > 0) else {
        return Err("expected two hosts at least, found fewer in `node`; add some".into());
    };
    let LinkProperties { rate, latency } = topology.links()[first.0 as usize].properties;
    Ok((topology, PacketLink { rate, latency, framing: None }))
}

#[cfg(test)]
mod tests {
    use crate::{Document, Fabric, Scenario, ScenarioError};
    use quincunx_design::FabricKind;
    use quincunx_designs::CATALOG;

    const FILE: &str = r#"
        kind = "packet"
        [[node]]
        name = "left"
        kind = "switch"
        [[node]]
        name = "right"
        kind = "switch"
        [[node]]
        name = "a"
        kind = "host"
        [[node]]
        name = "b"
        kind = "host"
        [[link]]
        between = ["left", "right"]
        rate = "10Gbit/s"
        latency = "1us"
        count = 2
        [[link]]
        between = ["a", "left"]
        rate = "25Gbit/s"
        latency = "2us"
        [[link]]
        between = ["b", "right"]
        rate = "100Gbit/s"
        latency = "1us"
    "#;

    fn read(text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::read(Document::parse("own.toml", text)?, CATALOG)
    }

    #[test]
    fn nodes_and_links_of_a_file_are_a_fabric() {
        let scenario = read(FILE).unwrap();
        assert_eq!((scenario.ranks(), scenario.kind()), (2, FabricKind::Tree));
        let Fabric::Packet(fabric) = &scenario.fabric else { panic!("a packet fabric") };
        let crate::TopologyName::Listed(topology) = &fabric.topology else { panic!("a list") };
        let rates: Vec<String> =
            topology.links().iter().map(|link| link.properties.rate.to_string()).collect();
        assert_eq!(rates, ["10Gbit/s", "10Gbit/s", "25Gbit/s", "100Gbit/s"]);
        assert_eq!(fabric.link.rate.to_string(), "25Gbit/s", "the first host's");
    }

    #[test]
    fn a_list_that_makes_no_fabric_is_refused_on_one_line() {
        for (from, to, named) in [
            ("[\"a\", \"left\"]", "[\"a\", \"up\"]", "found \"up\" in the 2. [[link]]"),
            ("[\"a\", \"left\"]", "[\"a\", \"a\"]", "both ends at \"a\""),
            ("name = \"b\"", "name = \"a\"", "\"a\" a second time"),
            ("count = 2", "count = 0", "`count` of one or more"),
            ("count = 2", "cost = 0", "`cost` of one or more"),
            ("count = 2", "lanes = 2", "unknown field `lanes`"),
            ("kind = \"switch\"", "kind = \"router\"", "unknown variant `router`"),
            ("rate = \"25Gbit/s\"", "rate = \"fast\"", "found \"fast\""),
            ("kind = \"packet\"", "kind = \"packet\"\ntopology = \"star-2\"", "`topology` and one [link]"),
            ("\"b\"\n        kind = \"host\"", "\"b\"\n        kind = \"switch\"", "two hosts at least"),
        ] {
            let text = FILE.replacen(from, to, if named.contains("router") { 2 } else { 1 });
            assert_ne!(text, FILE, "{from}");
            let message = read(&text).unwrap_err().to_string();
            assert!(message.contains(named) && !message.contains('\n'), "{from} as {to}: {message}");
        }
        let parts = FILE.replacen("between = [\"left\", \"right\"]", "between = [\"left\", \"other\"]", 1);
        let parts = parts.replacen("[[node]]", "[[node]]\nname = \"other\"\nkind = \"switch\"\n[[node]]", 1);
        assert!(read(&parts).unwrap_err().to_string().contains("expected a path from"));
    }
}
