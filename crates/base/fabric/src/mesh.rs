//! Full meshes of hosts in domains of equal size, by name (MultiWrite 3.1), and what `--tree` may name: those, trees, or fabrics with several ways.

use alloc::string::ToString;
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

use crate::{ShapeError, SwitchedShape, TreeShape};

/// Hosts linked each with each, without switches, in domains that gather each for themselves. Written as `mesh-DxM`: D domains of M
/// ranks each; the first M ranks are the first domain, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MeshShape {
    domains: u16,
    members: u16,
}

/// A tree of switches, a mesh without any, or switches with several ways between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Hosts at the leaves.
    Tree(TreeShape),
    /// Hosts alone.
    Mesh(MeshShape),
    /// Hosts at switches that have several ways to each other.
    Switched(SwitchedShape),
}

impl MeshShape {
    /// A mesh of `domains` times `members` ranks; `None` without a domain, with one rank in each, or with more ranks than numbers.
    pub const fn new(domains: u16, members: u16) -> Option<Self> {
        if domains == 0 || members < 2 || domains.checked_mul(members).is_none() {
            return None;
        }
        Some(Self { domains, members })
    }

    /// Domains.
    pub const fn domains(self) -> u16 {
        self.domains
    }

    /// Ranks of a domain.
    pub const fn members(self) -> u16 {
        self.members
    }

    /// How many ranks it has.
    pub const fn ranks(self) -> u16 {
        self.domains * self.members
    }

    /// The ranks of the domain that `rank` is in.
    pub const fn domain(self, rank: u16) -> Range<u16> {
        let first = rank / self.members * self.members;
        first..first + self.members
    }
}

impl Shape {
    /// Reads a name for a group of `ranks`, which must agree with it; `star` alone takes its size from there.
    ///
    /// # Errors
    /// If there is no such shape, or it has another number of ranks.
    pub fn for_ranks(name: &str, ranks: u16) -> Result<Self, ShapeError> {
        if SwitchedShape::is_meant(name) {
            let shape: SwitchedShape = name.parse()?;
            return match shape.hosts() {
                hosts if hosts == ranks => Ok(Self::Switched(shape)),
                _ => Err(ShapeError::SwitchedRanks { ranks, shape }),
            };
        }
        if !name.starts_with("mesh-") {
            return TreeShape::for_ranks(name, ranks).map(Self::Tree);
        }
        let shape: MeshShape = name.parse()?;
        if shape.ranks() == ranks {
            Ok(Self::Mesh(shape))
        } else {
            Err(ShapeError::MeshRanks { ranks, shape })
        }
    }

    /// How many ranks it has.
    pub fn ranks(&self) -> u16 {
        match self {
            Self::Tree(tree) => tree.ranks(),
            Self::Mesh(mesh) => mesh.ranks(),
            Self::Switched(shape) => shape.hosts(),
        }
    }

    /// How many switches it has.
    pub fn switches(&self) -> usize {
        match self {
            Self::Tree(tree) => tree.switches(),
            Self::Mesh(_) => 0,
            Self::Switched(shape) => shape.switches().into(),
        }
    }
}

impl FromStr for MeshShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let parts = text.strip_prefix("mesh-").and_then(|rest| rest.split_once('x'));
        let numbers =
            parts.and_then(|(domains, members)| Some((domains.parse().ok()?, members.parse().ok()?)));
        let shape = numbers.and_then(|(domains, members)| Self::new(domains, members));
        shape.ok_or_else(|| ShapeError::UnknownMesh { found: text.to_string() })
    }
}

impl fmt::Display for MeshShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mesh-{}x{}", self.domains, self.members)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(tree) => tree.fmt(f),
            Self::Mesh(mesh) => mesh.fmt(f),
            Self::Switched(shape) => shape.fmt(f),
        }
    }
}
