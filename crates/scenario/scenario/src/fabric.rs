//! What a fabric is made of, as files and presets say it. Units are written out: `rate = "100Gbit/s"`, `latency = "1us"`.

use crate::{HostList, PacketFabric, PacketLink, RankPlacement, TopologyName};
use quincunx_design::FabricKind;
use quincunx_fabric::{MeshShape, Shape};
use quincunx_units::{BitRate, ByteCount, Duration};
use schemars::JsonSchema;
use serde::Deserialize;

/// A fabric of one of the kinds.
#[derive(Clone, PartialEq, Debug)]
pub enum Fabric {
    /// Ethernet: hosts and switches that exchange RoCE frames.
    Packet(PacketFabric),
    /// Accelerators around switches that read and write each other's memory.
    Memory(MemoryFabric),
    /// Accelerators joined each with each.
    Mesh(MeshFabric),
    /// The same on a memory fabric.
    MemoryMesh(MemoryMeshFabric),
    /// Servers of accelerators, with a network between them.
    Servers(ServersFabric),
}

/// Accelerators around switches.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryFabric {
    /// A one-line description.
    pub summary: Option<String>,
    /// Accelerators.
    pub accelerators: u16,
    /// Switches; each accelerator has a link to each.
    pub switches: u16,
    /// Every link.
    pub link: MemoryLink,
    /// Accelerators.
    pub accelerator: AcceleratorSetup,
}

/// A link of the memory fabric, each way.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryLink {
    /// Bits a second.
    pub rate: BitRate,
    /// Time from sending a bit to its arrival.
    pub latency: Duration,
    /// Bytes of a flit; a header is one.
    pub flit: ByteCount,
    /// The longest payload of a packet.
    pub payload: ByteCount,
    /// What the line idles behind each packet with data, in bytes that it would carry meanwhile.
    #[serde(default)]
    pub gap: ByteCount,
}

/// An accelerator.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorSetup {
    /// From a request's arrival to its response (SCIN equation 1: L_acc).
    pub response_latency: Duration,
    /// Rate at which its kernels add vectors, in bytes of the sum; default: they take no time.
    pub add_rate: Option<BitRate>,
}

/// Accelerators that are joined each with each, without switches, in domains that gather each for themselves (MultiWrite 3.1).
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeshFabric {
    /// A one-line description.
    pub summary: Option<String>,
    /// Domains; each runs the collective for itself.
    pub groups: u16,
    /// Accelerators in a domain.
    pub members: u16,
    /// Every link.
    pub link: PacketLink,
}

/// The same on links of a memory fabric: accelerators write to each other's memory.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryMeshFabric {
    /// A one-line description.
    pub summary: Option<String>,
    /// Domains; each runs the collective for itself.
    pub groups: u16,
    /// Accelerators in a domain.
    pub members: u16,
    /// Every link.
    pub link: MemoryLink,
}

/// Servers of accelerators that are joined in full within, and by a network between (MultiWrite 3.2).
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServersFabric {
    /// A one-line description.
    pub summary: Option<String>,
    /// Servers.
    pub servers: u16,
    /// Accelerators in a server.
    pub members: u16,
    /// Between any two accelerators of a server.
    pub link: PacketLink,
    /// From each accelerator to the network, which has no bottleneck of its own.
    pub network: NetworkLink,
}

/// A link to the network, each way.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkLink {
    /// Bits a second.
    pub rate: BitRate,
    /// Time from sending a bit to its arrival.
    pub latency: Duration,
}

/// What was expected, what was found, and what to do.
pub(crate) type Contradiction = (&'static str, String, &'static str);

impl Fabric {
    /// What kind of fabric designs see in it.
    pub const fn kind(&self) -> FabricKind {
        match self {
            Self::Packet(PacketFabric { topology: TopologyName::Ring(_), .. }) => FabricKind::Ring,
            Self::Packet(_) => FabricKind::Tree,
            Self::Memory(_) => FabricKind::Memory,
            Self::Mesh(_) => FabricKind::Mesh,
            Self::MemoryMesh(_) => FabricKind::MemoryMesh,
            Self::Servers(_) => FabricKind::Servers,
        }
    }

    /// Ranks on it.
    pub fn ranks(&self) -> u16 {
        match self {
            Self::Packet(PacketFabric { placement: RankPlacement::Listed(hosts), .. }) => {
                hosts.numbers().len() as u16
            }
            Self::Packet(fabric) => fabric.topology.hosts(),
            Self::Memory(fabric) => fabric.accelerators,
            Self::Mesh(fabric) => fabric.groups.saturating_mul(fabric.members),
            Self::MemoryMesh(fabric) => fabric.groups.saturating_mul(fabric.members),
            Self::Servers(fabric) => fabric.servers.saturating_mul(fabric.members),
        }
    }

    /// Domains of equal size, each of which runs collectives of vectors for itself.
    pub const fn domains(&self) -> u16 {
        match self {
            Self::Mesh(fabric) => fabric.groups,
            Self::MemoryMesh(fabric) => fabric.groups,
            // Tokens go to all servers; they are domains of the plan alone.
            Self::Packet(_) | Self::Memory(_) | Self::Servers(_) => 1,
        }
    }

    /// Its shape as a real network has it, if processes can be started for it: of switches or a mesh.
    pub fn shape(&self) -> Option<Shape> {
        match self {
            Self::Packet(PacketFabric { topology: TopologyName::Tree(shape), .. }) => {
                Some(Shape::Tree(shape.clone()))
            }
            Self::Packet(PacketFabric { topology: TopologyName::Switched(shape), .. }) => {
                Some(Shape::Switched(*shape))
            }
            Self::Mesh(MeshFabric { groups, members, .. }) => {
                MeshShape::new(*groups, *members).map(Shape::Mesh)
            }
            _ => None,
        }
    }

    /// A one-line description.
    pub fn summary(&self) -> Option<&str> {
        match self {
            Self::Packet(PacketFabric { summary, .. })
            | Self::Memory(MemoryFabric { summary, .. })
            | Self::Mesh(MeshFabric { summary, .. })
            | Self::MemoryMesh(MemoryMeshFabric { summary, .. })
            | Self::Servers(ServersFabric { summary, .. }) => summary.as_deref(),
        }
    }

    /// The links that RoCE frames go over, where that is what they carry.
    pub const fn packet_link(&self) -> Option<&PacketLink> {
        match self {
            Self::Packet(PacketFabric { link, .. })
            | Self::Mesh(MeshFabric { link, .. })
            | Self::Servers(ServersFabric { link, .. }) => Some(link),
            Self::Memory(_) | Self::MemoryMesh(_) => None,
        }
    }

    /// The rate of the slowest link that RoCE frames go over, where that is what links carry.
    pub(crate) fn slowest_rate(&self) -> Option<BitRate> {
        let others: Option<BitRate> = match self {
            Self::Packet(PacketFabric { topology: TopologyName::Listed(topology), .. }) => {
                topology.links().iter().map(|link| link.properties.rate).min()
            }
            Self::Servers(fabric) => Some(fabric.network.rate),
            _ => None,
        };
        self.packet_link().map(|link| others.map_or(link.rate, |other| other.min(link.rate)))
    }

    /// Whether frames pass through switches.
    pub(crate) const fn has_switches(&self) -> bool {
        matches!(self.kind(), FabricKind::Tree | FabricKind::Servers | FabricKind::Memory)
    }

    /// Refuses what no run could make sense of, and what needs no engine to see.
    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        match self {
            Self::Packet(fabric) => match (&fabric.placement, fabric.topology.hosts()) {
                (RankPlacement::Listed(hosts), all) => check_placement(hosts, all),
                _ => Ok(()),
            },
            Self::Memory(fabric) => {
                if fabric.accelerators < 2 || fabric.switches == 0 {
                    return Err((
                        "two `accelerators` and a switch at least",
                        format!("{} and {} `switches`", fabric.accelerators, fabric.switches),
                        "there is no path otherwise",
                    ));
                }
                fabric.link.check()
            }
            Self::Mesh(fabric) => check_mesh(fabric.groups, fabric.members),
            Self::MemoryMesh(fabric) => {
                fabric.link.check()?;
                check_mesh(fabric.groups, fabric.members)
            }
            Self::Servers(fabric) => {
                if fabric.servers < 2 || fabric.members < 2 || self.ranks() > 1024 {
                    let found = format!("{} of {}", fabric.servers, fabric.members);
                    return Err((
                        "two `servers` of two `members` at least, and 1,024 in all at most",
                        found,
                        "a bitmap holds no more",
                    ));
                }
                Ok(())
            }
        }
    }
}

fn check_placement(hosts: &HostList, all: u16) -> Result<(), Contradiction> {
    if let Some(beyond) = hosts.numbers().iter().find(|&&host| host >= all) {
        let found = format!("host {beyond} of {all}");
        return Err((
            "hosts of the fabric in `placement`, counted from 0",
            found,
            "name others, or a larger fabric",
        ));
    }
    if hosts.numbers().len() < 2 {
        return Err(("two hosts at least in `placement`", "one".into(), "nobody exchanges anything alone"));
    }
    Ok(())
}

fn check_mesh(groups: u16, members: u16) -> Result<(), Contradiction> {
    if groups == 0 || members < 2 {
        let found = format!("{groups} of {members}");
        return Err(("one of `groups` of two `members` at least", found, "nobody exchanges anything alone"));
    }
    Ok(())
}

impl MemoryLink {
    fn check(&self) -> Result<(), Contradiction> {
        let (flit, payload) = (self.flit.bytes(), self.payload.bytes());
        if flit == 0 || payload == 0 || !payload.is_multiple_of(flit) {
            let found = format!("{} with flits of {}", self.payload, self.flit);
            return Err(("`link.payload` of whole flits", found, "make it a multiple of `link.flit`"));
        }
        Ok(())
    }
}
