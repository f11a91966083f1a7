//! Rail-optimised fabrics by name: what servers of accelerators are joined with.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::{LinkProperties, NodeKind, Topology};

/// Servers whose accelerators are each at the switch of their place, written as `rail-VxAxS`: V servers of A accelerators, so A rail
/// switches, and S spines above them. Accelerators are hosts with a link each, numbered server by server; what joins those of a server
/// inside it is not of this network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rail {
    servers: u16,
    accelerators: u16,
    spines: u16,
}

impl Rail {
    /// Of the numbers of its name.
    pub(crate) fn of(numbers: &[u16]) -> Option<Self> {
        match *numbers {
            [servers, accelerators, spines] => Some(Self { servers, accelerators, spines }),
            _ => None,
        }
    }

    pub(crate) fn hosts(self) -> u64 {
        u64::from(self.servers) * u64::from(self.accelerators)
    }

    pub(crate) fn switches(self) -> u64 {
        u64::from(self.accelerators) + u64::from(self.spines)
    }

    /// `spine-0`, ..., `rail-0`, ..., then `host-0`, ... server by server. The first ports of a rail switch lead to the spines.
    pub(crate) fn topology(self, link: LinkProperties) -> Topology {
        let mut topology = Topology::default();
        let mut add =
            |name| topology.add_node(name, NodeKind::Switch).expect("names of one numbering differ");
        let spines: Vec<_> = (0..self.spines).map(|spine| add(format!("spine-{spine}"))).collect();
        let rails: Vec<_> = (0..self.accelerators).map(|rail| add(format!("rail-{rail}"))).collect();
        for &rail in &rails {
            for &spine in &spines {
                topology.connect(rail, spine, link).expect("two switches");
            }
        }
        topology.add_hosts((0..self.servers).flat_map(|_| rails.iter().copied()), link);
        topology
    }
}

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rail-{}x{}x{}", self.servers, self.accelerators, self.spines)
    }
}
