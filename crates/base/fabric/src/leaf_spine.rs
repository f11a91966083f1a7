//! Leaf-spine fabrics by name: two tiers of switches, each of one joined with each of the other.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::{LinkProperties, NodeKind, Topology};

/// Leaves with hosts, and spines above them. Written as `leaf-spine-LxSxH`: L leaves, S spines, H hosts at each leaf; a fourth number
/// says how many links join a leaf with a spine, one if it is not there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeafSpine {
    leaves: u16,
    spines: u16,
    hosts: u16,
    parallel_links: u16,
}

impl LeafSpine {
    /// Of the numbers of its name.
    pub(crate) fn of(numbers: &[u16]) -> Option<Self> {
        match *numbers {
            [leaves, spines, hosts] => Some(Self { leaves, spines, hosts, parallel_links: 1 }),
            [leaves, spines, hosts, parallel_links] => Some(Self { leaves, spines, hosts, parallel_links }),
            _ => None,
        }
    }

    pub(crate) fn hosts(self) -> u64 {
        u64::from(self.leaves) * u64::from(self.hosts)
    }

    pub(crate) fn switches(self) -> u64 {
        u64::from(self.leaves) + u64::from(self.spines)
    }

    /// `spine-0`, ..., `leaf-0`, ..., then `host-0`, ... leaf by leaf. The first ports of a leaf lead to the spines.
    pub(crate) fn topology(self, link: LinkProperties) -> Topology {
        let mut topology = Topology::default();
        let mut add = |name, kind| topology.add_node(name, kind).expect("names of one numbering differ");
        let spines: Vec<_> =
            (0..self.spines).map(|spine| add(format!("spine-{spine}"), NodeKind::Switch)).collect();
        let leaves: Vec<_> =
            (0..self.leaves).map(|leaf| add(format!("leaf-{leaf}"), NodeKind::Switch)).collect();
        for &leaf in &leaves {
            for &spine in &spines {
                for _ in 0..self.parallel_links {
                    topology.connect(leaf, spine, link).expect("two switches");
                }
            }
        }
        topology.add_hosts(leaves.iter().flat_map(|&leaf| (0..self.hosts).map(move |_| leaf)), link);
        topology
    }
}

impl fmt::Display for LeafSpine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leaves, spines, hosts, parallel_links } = self;
        write!(f, "leaf-spine-{leaves}x{spines}x{hosts}")?;
        if *parallel_links > 1 { write!(f, "x{parallel_links}") } else { Ok(()) }
    }
}
