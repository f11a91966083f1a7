//! Which core of a switch a group runs on. Memory, queue pairs and ports are the switch's, for all its cores; the processor alone is a core's.
//!
//! A group is on one core, each of its channels on one of its own: on that with fewest queue pairs, for each is a neighbour's frames.

use super::nodes::Nodes;
use alloc::collections::BTreeMap;
use quincunx_collective::GroupId;
use quincunx_design::Member;
use quincunx_wire::Endpoint;

/// Hands out a group's queue pairs channel by channel.
pub(super) struct Channels {
    /// Queue pairs of a channel.
    each: BTreeMap<Member, u32>,
    /// By member the core that it is at, and how many queue pairs of the channel are still to come there.
    at: BTreeMap<Member, (usize, u32)>,
}

impl Channels {
    /// Of a group whose members need so many queue pairs in all its channels together.
    pub(super) fn new(degrees: BTreeMap<Member, u32>, channels: u16) -> Self {
        let each = degrees.into_iter().map(|(member, degree)| (member, degree / u32::from(channels)));
        Self { each: each.collect(), at: BTreeMap::new() }
    }

    /// The next queue pair of a member that is called so.
    pub(super) fn next(&mut self, nodes: &mut Nodes, member: Member, name: &str, group: GroupId) -> Endpoint {
        let (core, left) = self.at.entry(member).or_default();
        if *left == 0 {
            (*core, *left) = (nodes.idlest_core(name), self.each.get(&member).copied().unwrap_or(1).max(1));
        }
        *left -= 1;
        nodes.take_endpoint(name, group, *core)
    }
}
