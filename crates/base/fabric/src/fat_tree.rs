//! Three-tier fat trees of equal switches, by name (Al-Fares et al., SIGCOMM 2008, section 3).

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::{LinkProperties, NodeKind, Topology};

/// A k-ary fat tree, written as `fat-tree-K`, of switches with K ports: K pods, each of K/2 edge switches with K/2 hosts and of K/2
/// aggregation switches, and (K/2)² cores. The aggregation switches of a place in their pods share K/2 cores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FatTree {
    /// Even.
    ports: u16,
}

impl FatTree {
    /// Of the numbers of its name.
    pub(crate) fn of(numbers: &[u16]) -> Option<Self> {
        match *numbers {
            [ports] if ports.is_multiple_of(2) => Some(Self { ports }),
            _ => None,
        }
    }

    fn half(self) -> u64 {
        u64::from(self.ports / 2)
    }

    pub(crate) fn hosts(self) -> u64 {
        u64::from(self.ports) * self.half() * self.half()
    }

    pub(crate) fn switches(self) -> u64 {
        self.half() * self.half() + u64::from(self.ports) * 2 * self.half()
    }

    /// `core-0`, ..., then pod by pod `aggregation-P-0`, ... and `edge-P-0`, ...; then `host-0`, ... edge by edge. The first ports of a
    /// switch lead up.
    pub(crate) fn topology(self, link: LinkProperties) -> Topology {
        let half = usize::from(self.ports / 2);
        let mut topology = Topology::default();
        let mut add =
            |name| topology.add_node(name, NodeKind::Switch).expect("names of one numbering differ");
        let cores: Vec<_> = (0..half * half).map(|core| add(format!("core-{core}"))).collect();
        let pods: Vec<_> = (0..self.ports)
            .map(|pod| {
                let above: Vec<_> =
                    (0..half).map(|place| add(format!("aggregation-{pod}-{place}"))).collect();
                let edges: Vec<_> = (0..half).map(|place| add(format!("edge-{pod}-{place}"))).collect();
                (above, edges)
            })
            .collect();
        for (above, edges) in &pods {
            for (place, &switch) in above.iter().enumerate() {
                for &core in &cores[place * half..(place + 1) * half] {
                    topology.connect(switch, core, link).expect("two switches");
                }
            }
            for &edge in edges {
                for &switch in above {
                    topology.connect(edge, switch, link).expect("two switches");
                }
            }
        }
        let edges = pods.iter().flat_map(|(_, edges)| edges);
        topology.add_hosts(edges.flat_map(|&edge| (0..half).map(move |_| edge)), link);
        topology
    }
}

impl fmt::Display for FatTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fat-tree-{}", self.ports)
    }
}
