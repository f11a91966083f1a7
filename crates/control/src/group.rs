//! Groups as their users and operators see them.

use crate::{Fallback, InitGroupError};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::{AnyDesign, Demand, FabricKind, LinkRates, Placement, Refusal, Settings};
use quincunx_fabric::{IncTree, Shape};
use quincunx_units::ByteCount;

/// What is asked of the manager (EPIC 3.3.1, `InitGroup`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRequest {
    /// The hosts by node name, in rank order.
    pub members: Vec<String>,
    /// What the group is to run, by name.
    pub design: String,
    /// The version of its parameters.
    pub version: u32,
    /// Their values.
    pub settings: Settings,
    /// The tree of switches that the group may use, or the mesh of its hosts.
    pub shape: Shape,
    /// What the links of a mesh carry.
    pub rates: LinkRates,
    /// What is to be asked of the group.
    pub demand: Demand,
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
    pub design: String,
    /// Why it runs something else than was asked for.
    pub fallback: Option<Fallback>,
    /// Where it stands.
    pub state: GroupState,
    /// The hosts by node name, in rank order.
    pub members: Vec<String>,
    /// The switches, from the root down.
    pub switches: Vec<Holding>,
}

impl GroupRequest {
    /// A group of `members` that runs `design` with its defaults, for vectors of up to `longest` bytes.
    pub fn new(members: Vec<String>, design: &dyn AnyDesign, shape: Shape, longest: ByteCount) -> Self {
        Self {
            members,
            design: design.name().to_string(),
            version: design.version(),
            settings: design.defaults(),
            shape,
            rates: LinkRates::ALIKE,
            demand: Demand::Vectors { longest },
        }
    }

    /// The kind of fabric that the shape is.
    pub const fn fabric(&self) -> FabricKind {
        match self.shape {
            Shape::Tree(_) => FabricKind::Tree,
            Shape::Mesh(_) => FabricKind::Mesh,
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

    /// Where the group is to run.
    pub(crate) fn placement(&self, ranks: u16) -> Result<Placement, InitGroupError> {
        if self.shape.ranks() != ranks {
            let expected = format!("a tree or mesh of {ranks} ranks");
            let found = format!("{} with {}", self.shape, self.shape.ranks());
            return Err(Refusal::new(expected, found, "change the group's parameters").into());
        }
        let (domains, tree) = match &self.shape {
            Shape::Tree(shape) => (1, Some(IncTree::from_shape(shape))),
            Shape::Mesh(shape) => (shape.domains(), None),
        };
        Ok(Placement { ranks, domains, tree, rates: self.rates, demand: self.demand })
    }
}
