//! What a fabric is made of, as files and presets say it. Units are written out: `rate = "100Gbit/s"`, `latency = "1us"`.

use crate::{
    CongestionSetup, Document, MemoryMeshFabric, MeshFabric, Override, ScenarioError, ServersFabric, text,
};
use include_dir::{Dir, include_dir};
use quincunx_fabric::TreeShape;
use quincunx_units::{BitRate, ByteCount, Duration, Probability};
use serde::Deserialize;
use std::str::FromStr;

static PRESETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/presets");

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

/// Hosts and switches on Ethernet links.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketFabric {
    /// What it is, in a line.
    pub summary: Option<String>,
    /// How hosts and switches are joined.
    #[serde(deserialize_with = "text::deserialize")]
    pub topology: TopologyName,
    /// Every link.
    pub link: PacketLink,
    /// How groups are set up.
    #[serde(default)]
    pub group: GroupSetup,
    /// How collectives among hosts alone are cut.
    #[serde(default)]
    pub hosts: HostPieces,
    /// Loss on links of hosts.
    pub loss: Option<Loss>,
    /// What others send, how queues treat frames, and what is done about it.
    #[serde(default)]
    pub congestion: CongestionSetup,
    /// What it takes a host to relay for others.
    #[serde(default)]
    pub relay: HostRelay,
    /// How runs are measured.
    #[serde(default)]
    pub measure: Measure,
}

/// How nodes are joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologyName {
    /// `star-8`, `tree-3-2` (levels-branches), `tree-2x4` (branches by level).
    Tree(TreeShape),
    /// `ring-8`: hosts alone, each linked to the next.
    Ring(u16),
}

/// An Ethernet link, each way.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketLink {
    /// Bits a second.
    #[serde(deserialize_with = "text::deserialize")]
    pub rate: BitRate,
    /// From the moment a bit is sent to the moment it arrives.
    #[serde(deserialize_with = "text::deserialize")]
    pub latency: Duration,
    /// Bytes that any frame takes beside its payload; what Ethernet, IP, UDP and RoCE really take if it is not said.
    #[serde(default, deserialize_with = "text::maybe::deserialize")]
    pub framing: Option<ByteCount>,
}

/// How groups are set up.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupSetup {
    /// Payload of a full packet (EPIC table 2: U).
    #[serde(deserialize_with = "text::deserialize")]
    pub mtu: ByteCount,
    /// Packets in a message (M).
    pub message: u32,
    /// Messages that a rank may have outstanding (W).
    pub window: u32,
    /// Packets between two that ask for an acknowledge.
    pub acknowledge_every: u32,
    /// How long nothing is acknowledged before it is sent again.
    #[serde(deserialize_with = "text::deserialize")]
    pub retry_timeout: Duration,
    /// Time-outs in a row after which a peer is given up.
    pub retry_count: u8,
    /// Send again what is missing and nothing else; otherwise everything from there on, as RoCE NICs do.
    pub selective: bool,
    /// Combine in rank order, for equal bits every time.
    pub reproducible: bool,
    /// Mode-III: packets in each of a switch's pipes (N); a window if it is not said.
    pub slots: Option<u32>,
    /// Mode-III: switches acknowledge at once and ranks count acknowledges alone, so that fast ranks run ahead of slow ones (4.4);
    /// otherwise acknowledges and windows wait for results.
    pub run_ahead: bool,
    /// Mode-III: a switch answers what lies ahead of its range, so that the sender slows down (4.4, rate synchronisation);
    /// otherwise it drops it in silence.
    pub synchronize_rates: bool,
}

impl Default for GroupSetup {
    /// Packets of 4 KiB, messages of 16, a window of 32 messages, an acknowledge for each packet, 50 us, 100 tries.
    fn default() -> Self {
        Self {
            mtu: ByteCount::new(4096),
            message: 16,
            window: 32,
            acknowledge_every: 1,
            retry_timeout: Duration::from_micros(50),
            retry_count: 100,
            selective: false,
            reproducible: false,
            slots: None,
            run_ahead: false,
            synchronize_rates: true,
        }
    }
}

/// How collectives among hosts alone (ring, tree, direct) are cut. What is not said is as on real networks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostPieces {
    /// The longest message.
    #[serde(deserialize_with = "text::maybe::deserialize")]
    pub chunk: Option<ByteCount>,
    /// Messages that may be on their way to a peer.
    pub window: Option<u16>,
    /// A step begins when what the one before sent is acknowledged, not as soon as its data is there.
    pub lockstep: bool,
}

/// What it takes a host to relay a message for others (MultiWrite). What is not said takes no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostRelay {
    /// To take a message in and to read whom it is for.
    #[serde(deserialize_with = "text::deserialize")]
    pub message: Duration,
    /// To send one copy of it.
    #[serde(deserialize_with = "text::deserialize")]
    pub copy: Duration,
}

/// Frames that are lost, on the links of the first hosts, both ways.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Of a frame.
    #[serde(default, deserialize_with = "text::deserialize")]
    pub probability: Probability,
    /// Of how many hosts.
    #[serde(default = "one")]
    pub links: u16,
}

fn one() -> u16 {
    1
}

/// How runs are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// ReduceScatter and AllGather of EPIC, which are several collectives: each part is begun when all ranks have finished the one
    /// before, not by each rank on its own.
    pub stepwise: bool,
    /// The end is when all have the result that they are to get, not when all know that they are done.
    pub receivers_only: bool,
}

/// Accelerators around switches.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFabric {
    /// What it is, in a line.
    pub summary: Option<String>,
    /// Accelerators.
    pub accelerators: u16,
    /// Switches; each accelerator has a link to each.
    pub switches: u16,
    /// Every link.
    pub link: MemoryLink,
    /// Accelerators.
    pub accelerator: AcceleratorSetup,
    /// What computes in the switches.
    pub isa: IsaSetup,
    /// How runs are measured.
    #[serde(default)]
    pub measure: MemoryMeasure,
}

/// How runs on a memory fabric are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryMeasure {
    /// From the accelerators' start to their knowing of the end; else from the first request to the last write response.
    pub synchronised: bool,
}

impl Default for MemoryMeasure {
    /// With synchronisation, as an application sees it.
    fn default() -> Self {
        Self { synchronised: true }
    }
}

/// A link of the memory fabric, each way.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryLink {
    /// Bits a second.
    #[serde(deserialize_with = "text::deserialize")]
    pub rate: BitRate,
    /// From the moment a bit is sent to the moment it arrives.
    #[serde(deserialize_with = "text::deserialize")]
    pub latency: Duration,
    /// Bytes of a flit; a header is one.
    #[serde(deserialize_with = "text::deserialize")]
    pub flit: ByteCount,
    /// The longest payload of a packet.
    #[serde(deserialize_with = "text::deserialize")]
    pub payload: ByteCount,
}

/// An accelerator.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorSetup {
    /// From a request's arrival to its response (SCIN equation 1: L_acc).
    #[serde(deserialize_with = "text::deserialize")]
    pub response_latency: Duration,
    /// How fast its kernels add vectors, in bytes of the sum; not said: it takes no time.
    #[serde(default, deserialize_with = "text::maybe::deserialize")]
    pub add_rate: Option<BitRate>,
}

/// The in-switch accelerators (SCIN 3.4).
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsaSetup {
    /// Waves that may be outstanding; 1: no wave regulation.
    pub waves: u16,
    /// Bytes of a wave.
    #[serde(deserialize_with = "text::deserialize")]
    pub wave: ByteCount,
    /// How long the accumulator takes.
    #[serde(deserialize_with = "text::deserialize")]
    pub compute_latency: Duration,
    /// How long dequantizer, accumulator and quantizer take together.
    #[serde(deserialize_with = "text::deserialize")]
    pub quantized_latency: Duration,
}

impl FromStr for TopologyName {
    type Err = quincunx_fabric::ShapeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ring = text.strip_prefix("ring-").and_then(|ranks| ranks.parse().ok()).filter(|&ranks| ranks > 1);
        match ring {
            Some(ranks) => Ok(Self::Ring(ranks)),
            None => text.parse().map(Self::Tree),
        }
    }
}

impl Fabric {
    /// The fabric of that name: a preset, a tree's shape on the links of EPIC's simulation, or a file. Keys in `changes` replace
    /// the ones there.
    ///
    /// # Errors
    /// If there is none, if a key is unknown, missing or of the wrong kind, or if values do not go together.
    pub fn find(name: &str, changes: &[Override]) -> Result<Self, ScenarioError> {
        let mut document = Self::document(name)?;
        for change in changes {
            document.set(change)?;
        }
        Self::read(document)
    }

    /// The text of a preset, to start a file from.
    ///
    /// # Errors
    /// If there is no preset of that name.
    pub fn preset(name: &str) -> Result<&'static str, ScenarioError> {
        let file = PRESETS.get_file(format!("{name}.toml")).and_then(include_dir::File::contents_utf8);
        file.ok_or_else(|| ScenarioError::Unknown {
            what: "a preset",
            known: Self::presets().join(", "),
            found: name.into(),
        })
    }

    /// Ranks on it.
    pub fn ranks(&self) -> u16 {
        match self {
            Self::Packet(fabric) => fabric.ranks(),
            Self::Memory(fabric) => fabric.accelerators,
            Self::Mesh(fabric) => fabric.ranks(),
            Self::MemoryMesh(fabric) => fabric.ranks(),
            Self::Servers(fabric) => fabric.ranks(),
        }
    }

    /// The names of all presets.
    pub fn presets() -> Vec<String> {
        let stem =
            |file: &include_dir::File<'_>| file.path().with_extension("").to_string_lossy().into_owned();
        let mut names: Vec<_> = PRESETS.files().map(stem).collect();
        names.sort();
        names
    }

    /// The keys of the fabric of that name.
    ///
    /// # Errors
    /// If there is none, or it is no TOML.
    pub fn document(name: &str) -> Result<Document, ScenarioError> {
        if let Ok(text) = Self::preset(name) {
            return Document::parse(name, text);
        }
        if name.parse::<TopologyName>().is_ok() {
            let mut document = Self::document("epic-star8")?;
            document.place = name.into();
            document.set(&Override { key: "topology".into(), value: name.into() })?;
            return Ok(document);
        }
        if name.contains(['/', '.']) || std::path::Path::new(name).exists() {
            return Document::read(name);
        }
        Err(ScenarioError::Unknown {
            what: "a fabric",
            known: format!("{}, star-N, tree-X-Y, ring-N", Self::presets().join(", ")),
            found: name.into(),
        })
    }

    /// The fabric that a document describes.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn read(mut document: Document) -> Result<Self, ScenarioError> {
        let kind = document.take("kind");
        let mut fabric = match kind.as_ref().and_then(toml::Value::as_str) {
            Some("packet") => Self::Packet(document.get()?),
            Some("memory") => Self::Memory(document.get()?),
            Some("mesh") => Self::Mesh(document.get()?),
            Some("memory-mesh") => Self::MemoryMesh(document.get()?),
            Some("servers") => Self::Servers(document.get()?),
            _ => {
                return Err(ScenarioError::Key {
                    place: document.place,
                    error: format!(
                        "expected \"packet\", \"memory\", \"mesh\", \"memory-mesh\" or \"servers\", found {} in `kind`",
                        kind.map_or("nothing".into(), |kind| kind.to_string())
                    ),
                });
            }
        };
        fabric.check(&document.place)?;
        if let Self::Servers(servers) = &mut fabric {
            servers.read_gate()?;
        }
        Ok(fabric)
    }

    /// Refuses what no run could make sense of, and what needs no engine to see.
    fn check(&self, place: &str) -> Result<(), ScenarioError> {
        let refuse = |expected: &str, found: String, remedy: &str| {
            Err(ScenarioError::Contradiction {
                place: place.into(),
                expected: expected.into(),
                found,
                remedy: remedy.into(),
            })
        };
        match self {
            Self::Packet(fabric) => {
                let ranks = fabric.ranks();
                if let Some(loss) = &fabric.loss
                    && loss.links > ranks
                {
                    let found = format!("{} with {ranks} hosts", loss.links);
                    return refuse("`loss.links` of at most the hosts", found, "name fewer links");
                }
                let group = &fabric.group;
                if group.message == 0 || group.window == 0 || group.acknowledge_every == 0 {
                    return refuse(
                        "`group.message`, `group.window` and `group.acknowledge_every` of one or more",
                        format!("{}, {} and {}", group.message, group.window, group.acknowledge_every),
                        "nothing could be sent",
                    );
                }
                if group.slots.is_some_and(|slots| slots < group.message) {
                    return refuse(
                        "`group.slots` of a message at least",
                        format!(
                            "{} with messages of {} packets",
                            group.slots.unwrap_or_default(),
                            group.message
                        ),
                        "raise it, or shorten `group.message`",
                    );
                }
                if let Err((expected, found, remedy)) = fabric.congestion.check(fabric) {
                    return refuse(expected, found, remedy);
                }
            }
            Self::Memory(fabric) => {
                if fabric.accelerators < 2 || fabric.switches == 0 {
                    return refuse(
                        "two `accelerators` and a switch at least",
                        format!("{} and {} `switches`", fabric.accelerators, fabric.switches),
                        "there is no path otherwise",
                    );
                }
                if let Err((expected, found, remedy)) = fabric.link.check() {
                    return refuse(expected, found, remedy);
                }
                if fabric.isa.waves == 0 || fabric.isa.wave < fabric.link.payload {
                    return refuse(
                        "`isa.waves` of one or more, each of one packet or more",
                        format!(
                            "{} of {} with packets of {}",
                            fabric.isa.waves, fabric.isa.wave, fabric.link.payload
                        ),
                        "make `isa.wave` a multiple of `link.payload`",
                    );
                }
            }
            Self::Servers(fabric) => {
                if let Err((expected, found, remedy)) = fabric.check() {
                    return refuse(expected, found, remedy);
                }
            }
            Self::Mesh(fabric) => {
                if let Err((expected, found, remedy)) = fabric.check() {
                    return refuse(expected, found, remedy);
                }
            }
            Self::MemoryMesh(fabric) => {
                if let Err((expected, found, remedy)) = fabric.check() {
                    return refuse(expected, found, remedy);
                }
            }
        }
        Ok(())
    }
}

/// What was expected, what was found, and what to do.
pub(crate) type Contradiction = (&'static str, String, &'static str);

impl MemoryLink {
    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        let (flit, payload) = (self.flit.bytes(), self.payload.bytes());
        if flit == 0 || payload == 0 || !payload.is_multiple_of(flit) {
            let found = format!("{} with flits of {}", self.payload, self.flit);
            return Err(("`link.payload` of whole flits", found, "make it a multiple of `link.flit`"));
        }
        Ok(())
    }
}

impl PacketFabric {
    /// Hosts.
    pub fn ranks(&self) -> u16 {
        match &self.topology {
            TopologyName::Tree(shape) => shape.ranks(),
            TopologyName::Ring(ranks) => *ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(name: &str, changes: &[&str]) -> Result<Fabric, ScenarioError> {
        let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
        Fabric::find(name, &changes)
    }

    #[test]
    fn every_preset_is_right_and_says_what_it_is() {
        assert!(!Fabric::presets().is_empty());
        for name in Fabric::presets() {
            let summary = match Fabric::find(&name, &[]).unwrap() {
                Fabric::Packet(fabric) => fabric.summary,
                Fabric::Memory(fabric) => fabric.summary,
                Fabric::Mesh(fabric) => fabric.summary,
                Fabric::MemoryMesh(fabric) => fabric.summary,
                Fabric::Servers(fabric) => fabric.summary,
            };
            assert!(summary.is_some(), "{name}");
        }
    }

    #[test]
    fn a_tree_by_its_shape_has_the_links_of_the_packet_simulation() {
        let Ok(Fabric::Packet(fabric)) = changed("tree-3-2", &[]) else { panic!("a packet fabric") };
        assert_eq!((fabric.ranks(), fabric.link.rate.to_string()), (4, "100Gbit/s".into()));
    }

    #[test]
    fn keys_can_be_overridden() {
        let Ok(Fabric::Memory(fabric)) = changed("scin-dgx8", &["isa.waves=4", "link.latency=100ns"]) else {
            panic!("a memory fabric")
        };
        assert_eq!((fabric.isa.waves, fabric.link.latency), (4, Duration::from_nanos(100)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_key() {
        for (name, change, key) in [
            ("epic-star8", "link.rate=0", "link.rate"),
            ("epic-star8", "link.rate=-1Gbit/s", "link.rate"),
            ("epic-star8", "link.speed=1Gbit/s", "speed"),
            ("epic-star8", "topology=star-0", "topology"),
            ("epic-star8", "loss.links=9", "loss.links"),
            ("epic-star8", "group.window=0", "group.window"),
            ("epic-star8", "kind=both", "kind"),
            ("epic-star8", "group.slots=0", "group.slots"),
            ("epic-star8", "group.run_ahead=2", "group.run_ahead"),
            ("scin-dgx8", "isa.wave=64", "isa.wave"),
            ("scin-dgx8", "link.flit=24B", "link.flit"),
            ("scin-dgx8", "switches=0", "switches"),
            ("scin-dgx8", "topology=star-8", "topology"),
            ("mesh8", "groups=1", "groups"),
            ("mesh8", "relay.piece=0", "relay.piece"),
            ("mesh8", "relay.relays=some", "relays"),
            ("mesh8-memory", "members=1", "members"),
            ("mesh8-memory", "link.flit=24B", "link.flit"),
            ("mesh8-memory", "relay.piece=16MiB", "relay.piece"),
            ("mesh8-memory", "group.window=1", "group"),
            ("two-servers", "servers=1", "servers"),
            ("two-servers", "experts=0", "experts"),
            ("two-servers", "experts=65", "experts"),
            ("two-servers", "top_k=65", "top_k"),
            ("two-servers", "tokens=0", "tokens"),
            ("two-servers", "token=3B", "token"),
            ("two-servers", "gate=fair", "gate"),
        ] {
            let message = changed(name, &[change]).unwrap_err().to_string();
            assert!(message.contains(key) && !message.contains('\n'), "{change}: {message}");
        }
    }

    #[test]
    fn an_unknown_name_tells_what_there_is() {
        let message = changed("dgx", &[]).unwrap_err().to_string();
        assert!(message.contains("scin-dgx8") && message.contains("found \"dgx\""), "{message}");
    }
}
