//! Dragonflies by name (Kim et al., ISCA 2008): groups of switches joined each with each, and a link between any two groups.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::{LinkProperties, NodeKind, Topology};

/// What a link between groups costs where one within a group costs one: a way over one of them and a link at either end is shorter than
/// one over two. So the shortest ways are the paper's minimal ones.
const GLOBAL: u16 = 3;

/// A dragonfly, written as `dragonfly-AxPxG`: A switches a group, P hosts a switch, G groups. The links to other groups are dealt out to the
/// switches of a group in turn, one for each other group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dragonfly {
    switches: u16,
    hosts: u16,
    groups: u16,
}

impl Dragonfly {
    /// Of the numbers of its name.
    pub(crate) fn of(numbers: &[u16]) -> Option<Self> {
        match *numbers {
            [switches, hosts, groups] => Some(Self { switches, hosts, groups }),
            _ => None,
        }
    }

    pub(crate) fn hosts(self) -> u64 {
        self.switches() * u64::from(self.hosts)
    }

    pub(crate) fn switches(self) -> u64 {
        u64::from(self.groups) * u64::from(self.switches)
    }

    /// `switch-G-0`, `switch-G-1`, ... group by group, then `host-0`, ... switch by switch.
    pub(crate) fn topology(self, link: LinkProperties) -> Topology {
        let mut topology = Topology::default();
        let groups: Vec<Vec<_>> = (0..self.groups)
            .map(|group| {
                let name = |place| format!("switch-{group}-{place}");
                let add = |place| topology.add_node(name(place), NodeKind::Switch);
                (0..self.switches)
                    .map(add)
                    .map(|added| added.expect("names of one numbering differ"))
                    .collect()
            })
            .collect();
        for group in &groups {
            for (place, &switch) in group.iter().enumerate() {
                for &other in &group[place + 1..] {
                    topology.connect(switch, other, link).expect("two switches");
                }
            }
        }
        // To the group that is so many behind it a switch has its link by the distance, so that both ends are dealt out alike.
        let count = groups.len();
        let end = |group: usize, distance: usize| groups[group][(distance - 1) % groups[group].len()];
        for group in 0..count {
            for other in group + 1..count {
                let ends = [end(group, other - group), end(other, count - (other - group))];
                topology.connect_at_cost(ends, link, GLOBAL).expect("switches of two groups");
            }
        }
        let all = groups.iter().flatten();
        topology.add_hosts(all.flat_map(|&switch| (0..self.hosts).map(move |_| switch)), link);
        topology
    }
}

impl fmt::Display for Dragonfly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dragonfly-{}x{}x{}", self.switches, self.hosts, self.groups)
    }
}
