//! Networks that are named by their shape, for scenarios without a file: what they are made of, as keys of a file.

use crate::TopologyName;
use core::str::FromStr;
use quincunx_fabric::{MeshShape, ShapeError};

/// A network by its shape: `star-N`, `tree-X-Y`, `tree-AxB`, `leaf-spine-LxSxH`, `fat-tree-K`, `rail-VxAxS`, `dragonfly-AxPxG`, `ring-N`, `mesh-DxM` (domains by ranks of each), `servers-SxM`,
/// `memory-N` and `memory-NxS` (accelerators by switches).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkName {
    /// Hosts at switches, or in a ring.
    Hosts(TopologyName),
    /// Hosts joined each with each, in domains.
    Mesh(MeshShape),
    /// The same with a network between the domains.
    Servers(MeshShape),
    /// Accelerators, each with a link to every switch.
    Memory {
        /// Accelerators.
        accelerators: u16,
        /// Switches.
        switches: u16,
    },
}

impl NetworkName {
    /// All notations, for messages.
    pub const KNOWN: &str = "star-N, tree-X-Y, tree-AxB, leaf-spine-LxSxH, leaf-spine-LxSxHxN, fat-tree-K, rail-VxAxS, dragonfly-AxPxG, ring-N, mesh-DxM, servers-SxM, memory-N, memory-NxS";

    /// The kind of a scenario's fabric.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Hosts(_) => "packet",
            Self::Mesh(_) => "mesh",
            Self::Servers(_) => "servers",
            Self::Memory { .. } => "memory",
        }
    }

    /// The file that says the same. All else has the same defaults as in other files.
    pub(crate) fn text(&self) -> String {
        let keys = [("kind", self.kind().into())].into_iter().chain(self.keys());
        let lines: String = keys.map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!("{lines}{}\n", self.links())
    }

    /// What a file has to say beside the shape: links, and tokens where there are experts.
    const fn links(&self) -> &'static str {
        match self {
            Self::Hosts(_) => "\n[link]\nrate = \"100Gbit/s\"\nlatency = \"1us\"",
            Self::Mesh(_) => "\n[link]\nrate = \"56GB/s\"\nlatency = \"1us\"",
            Self::Servers(_) => {
                "tokens = 128\ntoken = \"7KiB\"\nexperts = 64\ntop_k = 8\ngate = \"balanced\"\n\n\
                 [link]\nrate = \"56GB/s\"\nlatency = \"1us\"\n\n[network]\nrate = \"200Gbit/s\"\nlatency = \"4.5us\""
            }
            Self::Memory { .. } => {
                "\n[link]\nrate = \"112.5GB/s\"\nlatency = \"250ns\"\nflit = \"16B\"\npayload = \"128B\"\n\n\
                 [accelerator]\nresponse_latency = \"30ns\"\nadd_rate = \"1.6TB/s\""
            }
        }
    }

    /// The keys that say its shape.
    fn keys(&self) -> Vec<(&'static str, toml::Value)> {
        let mesh = |outer, shape: &MeshShape| {
            vec![(outer, i64::from(shape.domains()).into()), ("members", i64::from(shape.members()).into())]
        };
        match self {
            Self::Hosts(topology) => vec![("topology", topology.to_string().into())],
            Self::Mesh(shape) => mesh("groups", shape),
            Self::Servers(shape) => mesh("servers", shape),
            Self::Memory { accelerators, switches } => {
                vec![
                    ("accelerators", i64::from(*accelerators).into()),
                    ("switches", i64::from(*switches).into()),
                ]
            }
        }
    }
}

impl FromStr for NetworkName {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        if let Some(shape) = text.strip_prefix("memory-") {
            let (accelerators, switches) = shape.split_once('x').unwrap_or((shape, "1"));
            return match (accelerators.parse(), switches.parse()) {
                (Ok(accelerators), Ok(switches)) => Ok(Self::Memory { accelerators, switches }),
                _ => Err(ShapeError::Unknown { found: text.into() }),
            };
        }
        match text.strip_prefix("servers-") {
            Some(shape) => format!("mesh-{shape}").parse().map(Self::Servers),
            None if text.starts_with("mesh-") => text.parse().map(Self::Mesh),
            None => text.parse().map(Self::Hosts),
        }
    }
}
