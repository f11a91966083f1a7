//! Groups as their users and operators see them.

use crate::{Fallback, GroupFailure, InitGroupError, RecreatedGroup, SharedMemory};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::{AnyDesign, Demand, FabricKind, LinkRates, Placement, Refusal, Settings};
use quincunx_fabric::{IncTree, MeshShape};
use quincunx_units::{ByteCount, Duration};

/// What is asked of the manager (EPIC 3.3.1, `InitGroup`): who is to be in the group and what it is to run. Which switches take part is
/// the manager's answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupRequest {
    /// Whose group it is: he alone sees and ends it. Empty where nobody says who he is.
    pub owner: String,
    /// The hosts by node name, in rank order.
    pub members: Vec<String>,
    /// What the group is to run, by name.
    pub design: String,
    /// The version of its parameters.
    pub version: u32,
    /// Their values.
    pub settings: Settings,
    /// The mesh that its hosts make, for designs of meshes and, with a server for each domain, of servers; none: the group is on the fabric that
    /// nodes report.
    pub mesh: Option<MeshShape>,
    /// What the links of a mesh carry.
    pub rates: LinkRates,
    /// What is to be asked of the group.
    pub demand: Demand,
    /// How long the group lives after the owner's last word; none: until he destroys it.
    pub lease: Option<Duration>,
    /// When it communicates, if its job's other groups do so at other times: then they may have memory by turns (EPIC 6.2).
    pub phase: Option<Phase>,
    /// What tells the request from any other of the owner's, chosen by who asks: asked again with it, also of another manager with the same
    /// store, it is answered with the group that it has been given.
    pub key: Option<u128>,
}

/// A part of a job's iteration in which one kind of groups communicates, and no other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Phase {
    /// The job.
    pub job: String,
    /// Which part: groups of different numbers never communicate at once.
    pub number: u16,
    /// How much of the time that is, in per cent: the groups of a block take no more than all of it.
    pub duty: u8,
}

/// Where a group stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum GroupState {
    /// Some nodes have not yet said that they have their context.
    Installing,
    /// All have.
    Ready,
    /// It has lost a switch or a link; its ranks have stopped, and it is to be made anew on what is left.
    Suspended(GroupFailure),
    /// It is over; it holds what nodes have not yet given back.
    Failed(GroupFailure),
}

impl GroupState {
    /// Whether nothing runs on it any more.
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
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
    /// Where they begin: the group's pointer there.
    pub offset: ByteCount,
}

/// A group for its users and operators.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupSummary {
    /// The group.
    pub group: GroupId,
    /// What it runs: on a fallback, not what was asked for.
    pub design: String,
    /// Why it runs something else than was asked for.
    pub fallback: Option<Fallback>,
    /// Where it stands.
    pub state: GroupState,
    /// Whose it is.
    pub owner: String,
    /// The hosts by node name, in rank order.
    pub members: Vec<String>,
    /// The switches, from the root down.
    pub switches: Vec<Holding>,
    /// Links of its tree that more than one of its own edges crosses: what they carry they share.
    pub conflicts: u32,
    /// How long its lease runs; none: until it is destroyed.
    pub lease: Option<Duration>,
    /// What it goes on from, if it was made anew.
    pub recreated: Option<RecreatedGroup>,
    /// What it locks for each of its collectives, switch by switch; none if its memory is its own.
    pub shared: Option<Vec<SharedMemory>>,
}

impl GroupRequest {
    /// A group of `members` that runs `design` with its defaults, for vectors of up to `longest` bytes.
    pub fn new(members: Vec<String>, design: &dyn AnyDesign, longest: ByteCount) -> Self {
        Self {
            owner: String::new(),
            members,
            design: design.name().to_string(),
            version: design.about().version,
            settings: design.defaults(),
            mesh: None,
            rates: LinkRates::ALIKE,
            demand: Demand::Vectors { longest },
            lease: None,
            phase: None,
            key: None,
        }
    }

    /// The kind of fabric that it is for: tokens go between the domains of a mesh as between servers.
    pub const fn fabric(&self) -> FabricKind {
        match (self.mesh, self.demand) {
            (None, _) => FabricKind::Tree,
            (Some(_), Demand::Tokens { .. }) => FabricKind::Servers,
            (Some(_), _) => FabricKind::Mesh,
        }
    }

    /// How many ranks the group has, each a host of its own.
    pub(crate) fn ranks(&self) -> Result<u16, InitGroupError> {
        let ranks = match u16::try_from(self.members.len()) {
            Ok(0) => return Err(InitGroupError::NoMembers),
            Ok(ranks) => ranks,
            Err(_) => {
                let found = self.members.len();
                return Err(Refusal::new("at most 65535 members", found, "make a smaller group").into());
            }
        };
        let mut seen = BTreeSet::new();
        match self.members.iter().find(|name| !seen.insert(*name)) {
            Some(twice) => Err(InitGroupError::DuplicateMember { name: twice.clone() }),
            None => Ok(ranks),
        }
    }

    /// Where the group is to run, on this tree if it is not on a mesh.
    pub(crate) fn placement(&self, ranks: u16, tree: IncTree) -> Result<Placement, InitGroupError> {
        let (domains, tree) = match self.mesh {
            None => (1, Some(tree)),
            Some(mesh) if mesh.ranks() == ranks => (mesh.domains(), None),
            Some(mesh) => {
                let expected = format!("a mesh of {ranks} ranks");
                let found = format!("{mesh} with {}", mesh.ranks());
                return Err(Refusal::new(expected, found, "change the group's parameters").into());
            }
        };
        Ok(Placement {
            domains,
            rates: self.rates,
            demand: self.demand,
            ..Placement::new(ranks, tree, ByteCount::new(0))
        })
    }
}
