//! Groups as their users and operators see them.

use crate::{Design, Fallback, GroupParameters, InitGroupError, MeshSetup};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_fabric::TreeShape;
use quincunx_units::ByteCount;

/// What is asked of the manager (EPIC 3.3.1, `InitGroup`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupRequest {
    /// The hosts by node name, in rank order.
    pub members: Vec<String>,
    /// What the group is to run.
    pub design: Design,
    /// The tree of switches, for a design that has one.
    pub tree: TreeShape,
    /// The mesh, for a design that runs on one; with it, `direct` gathers in the mesh's domains.
    pub mesh: Option<MeshSetup>,
    /// Bytes of payload in a full packet.
    pub mtu: ByteCount,
    /// Packets in a full message: M.
    pub message_packets: u32,
    /// Messages that a rank may have outstanding: W.
    pub window_messages: u32,
    /// Whether numbers are to be combined in rank order.
    pub reproducible: bool,
}

/// Who made a group fail, and how.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("node \"{node}\": {reason}")]
pub struct GroupFailure {
    /// The node at fault, or the one that noticed.
    pub node: String,
    /// One line.
    pub reason: String,
}

/// Where a group stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum GroupState {
    /// Some nodes have not yet said that they have their context.
    Installing,
    /// All have.
    Ready,
    /// It is over; it holds nothing any more.
    Failed(GroupFailure),
}

/// What a group holds of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holding {
    /// The node's name.
    pub node: String,
    /// Queue pairs there.
    pub endpoints: u32,
    /// Buffers there, if it is a switch.
    pub memory: ByteCount,
}

/// A group for its users and operators.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupSummary {
    /// The group.
    pub group: GroupId,
    /// What it runs: on a fallback, not what was asked for.
    pub design: Design,
    /// Why it runs something else than was asked for.
    pub fallback: Option<Fallback>,
    /// Where it stands.
    pub state: GroupState,
    /// The hosts by node name, in rank order.
    pub members: Vec<String>,
    /// The switches, from the root down.
    pub switches: Vec<Holding>,
}

/// The largest path MTU of a queue pair.
const MAX_MTU: u64 = 4096;

impl GroupRequest {
    /// Refuses what no set of nodes could carry out.
    pub(crate) fn check(&self) -> Result<(), InitGroupError> {
        let ranks = match u16::try_from(self.members.len()) {
            Ok(0) => return Err(InitGroupError::NoMembers),
            Ok(ranks) => ranks,
            Err(_) => {
                return Err(parameter("members", "at most 65535", self.members.len().to_string()));
            }
        };
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.members.iter().find(|name| !seen.insert(*name)) {
            return Err(InitGroupError::DuplicateMember { name: twice.clone() });
        }
        let mtu = self.mtu.bytes();
        if mtu == 0 || mtu > MAX_MTU || !mtu.is_multiple_of(4) {
            let expected = "a multiple of 4 bytes up to 4096";
            return Err(parameter("an MTU", expected, self.mtu.to_string()));
        }
        let window = u64::from(self.message_packets) * u64::from(self.window_messages);
        if window == 0 || window > GroupParameters::MAX_WINDOW_PACKETS {
            let found = format!("{} packets times {} messages", self.message_packets, self.window_messages);
            return Err(parameter("a window", "1 to 4194304 packets", found));
        }
        match &self.mesh {
            Some(mesh) => mesh.check(self.design, ranks)?,
            None if matches!(self.design, Design::Mesh(_)) => {
                let expected = format!("domains for {}, such as mesh-2x4", self.design);
                return Err(parameter("a mesh", &expected, "none".to_string()));
            }
            None => {}
        }
        if let Design::Epic(_) = self.design {
            if self.tree.ranks() != ranks {
                let found = format!("{} with {}", self.tree, self.tree.ranks());
                return Err(parameter("a tree", &format!("{ranks} ranks"), found));
            }
            // A switch with one neighbour has nothing to combine and nobody to pass it on to; the others have a parent.
            if self.tree.branches()[0] < 2 {
                let expected = "at least two branches at the root";
                return Err(parameter("a tree", expected, self.tree.to_string()));
            }
        }
        Ok(())
    }
}

pub(crate) fn parameter(what: &'static str, expected: &str, found: String) -> InitGroupError {
    InitGroupError::Parameter { what, expected: expected.to_string(), found }
}
