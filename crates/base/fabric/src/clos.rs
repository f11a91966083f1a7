//! Three-tier Clos fabrics by name, with each number its own: pods of leaves and spines, and cores above them (EPIC L.2).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{LinkProperties, NodeKind, Topology};

/// Pods in which each leaf is joined with each spine, and cores above the spines: those of a place in their pods share theirs. Written as
/// `clos-PxLxHxSxC`: P pods, L leaves of H hosts and S spines in each, C cores above each place of a spine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Clos {
    pods: u16,
    leaves: u16,
    hosts: u16,
    spines: u16,
    cores: u16,
}

impl Clos {
    /// Of the numbers of its name.
    pub(crate) fn of(numbers: &[u16]) -> Option<Self> {
        match *numbers {
            [pods, leaves, hosts, spines, cores] => Some(Self { pods, leaves, hosts, spines, cores }),
            _ => None,
        }
    }

    /// How many hosts it has.
    pub fn hosts(self) -> u64 {
        u64::from(self.pods) * u64::from(self.leaves) * u64::from(self.hosts)
    }

    /// How many switches it has.
    pub fn switches(self) -> u64 {
        let pod = u64::from(self.leaves) + u64::from(self.spines);
        u64::from(self.pods) * pod + u64::from(self.spines) * u64::from(self.cores)
    }

    /// Its switches by name: `core-0`, ..., then pod by pod `spine-P-0`, ... and `leaf-P-0`, ....
    pub fn switch_names(self) -> impl Iterator<Item = String> {
        let cores = (0..u32::from(self.spines) * u32::from(self.cores)).map(|core| format!("core-{core}"));
        cores.chain((0..self.pods).flat_map(move |pod| {
            let spines = (0..self.spines).map(move |spine| format!("spine-{pod}-{spine}"));
            spines.chain((0..self.leaves).map(move |leaf| format!("leaf-{pod}-{leaf}")))
        }))
    }

    /// Links between switches, the lower end first.
    pub fn uplinks(self) -> impl Iterator<Item = [String; 2]> {
        (0..self.pods).flat_map(move |pod| {
            let above = (0..self.spines).flat_map(move |spine| {
                let cores = u32::from(self.cores);
                let own = u32::from(spine) * cores..(u32::from(spine) + 1) * cores;
                own.map(move |core| [format!("spine-{pod}-{spine}"), format!("core-{core}")])
            });
            let within = (0..self.leaves).flat_map(move |leaf| {
                (0..self.spines)
                    .map(move |spine| [format!("leaf-{pod}-{leaf}"), format!("spine-{pod}-{spine}")])
            });
            above.chain(within)
        })
    }

    /// The leaf of each host, in the order of the hosts.
    pub fn leaves_of_hosts(self) -> impl Iterator<Item = String> {
        (0..self.pods).flat_map(move |pod| {
            let leaf = move |leaf| (0..self.hosts).map(move |_| format!("leaf-{pod}-{leaf}"));
            (0..self.leaves).flat_map(leaf)
        })
    }

    /// Its switches in that order, then `host-0`, ... leaf by leaf. The first ports of a switch lead up.
    pub(crate) fn topology(self, link: LinkProperties) -> Topology {
        let mut topology = Topology::default();
        for name in self.switch_names() {
            topology.add_node(name, NodeKind::Switch).expect("names of one numbering differ");
        }
        for ends in self.uplinks() {
            let [below, above] = ends.map(|name| topology.find(&name).expect("it has just been added"));
            topology.connect(below, above, link).expect("two switches");
        }
        let leaves: Vec<_> = self
            .leaves_of_hosts()
            .map(|leaf| topology.find(&leaf).expect("it has just been added"))
            .collect();
        topology.add_hosts(leaves, link);
        topology
    }
}

impl fmt::Display for Clos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, leaves, hosts, spines, cores } = self;
        write!(f, "clos-{pods}x{leaves}x{hosts}x{spines}x{cores}")
    }
}
