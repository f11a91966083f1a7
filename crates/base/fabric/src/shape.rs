//! Shapes by name: what `--tree` may name, how names are read, and why a text names none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::clos::Clos;
use crate::dragonfly::Dragonfly;
use crate::fat_tree::FatTree;
use crate::leaf_spine::LeafSpine;
use crate::rail::Rail;
use crate::{MeshShape, SwitchedShape, TreeShape};

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

/// Why a text names no tree. All on one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// Not one of the notations.
    #[error(
        "expected a tree such as star-8, tree-3-2 (levels-branches) or tree-2x4 (branches by level), found \"{found}\""
    )]
    Unknown {
        /// The text as it was given.
        found: String,
    },
    /// `star` alone, and no number of ranks beside it.
    #[error(
        "expected a number of ranks for the tree \"star\", found none; write star-8, or say how many ranks"
    )]
    NoRanks,
    /// More ranks and switches than node numbers.
    #[error("expected a tree of at most {max} ranks and switches, found \"{found}\"", max = u16::MAX)]
    TooLarge {
        /// The text as it was given.
        found: String,
    },
    /// The tree does not have as many leaves as there are ranks.
    #[error(
        "expected {ranks} ranks, found the tree {shape} with {leaves}; choose another tree or number of ranks"
    )]
    RankCount {
        /// Ranks asked for.
        ranks: u16,
        /// The tree.
        shape: TreeShape,
        /// Ranks it has.
        leaves: u16,
    },
    /// Not one of the notations of fabrics with several ways.
    #[error("expected one of {known}, found \"{found}\"", known = SwitchedShape::KNOWN)]
    UnknownSwitched {
        /// The text as it was given.
        found: String,
    },
    /// It does not have as many hosts as there are ranks.
    #[error("expected {ranks} ranks, found the fabric {shape} with {}; choose another fabric or number of ranks", shape.hosts())]
    SwitchedRanks {
        /// Ranks asked for.
        ranks: u16,
        /// The fabric.
        shape: SwitchedShape,
    },
    /// Not the notation of meshes.
    #[error(
        "expected a mesh such as mesh-2x4: domains by ranks of each, two of them at least, found \"{found}\""
    )]
    UnknownMesh {
        /// The text as it was given.
        found: String,
    },
    /// The mesh does not have as many ranks as there are.
    #[error("expected {ranks} ranks, found the mesh {shape} with {}; choose another mesh or number of ranks", shape.ranks())]
    MeshRanks {
        /// Ranks asked for.
        ranks: u16,
        /// The mesh.
        shape: MeshShape,
    },
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

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(tree) => tree.fmt(f),
            Self::Mesh(mesh) => mesh.fmt(f),
            Self::Switched(shape) => shape.fmt(f),
        }
    }
}

impl TreeShape {
    /// Reads a name for a group of `ranks`: `star` alone takes its size from there, the others must agree with it.
    pub fn for_ranks(name: &str, ranks: u16) -> Result<Self, ShapeError> {
        if name == "star" {
            return match ranks {
                0 => Err(ShapeError::NoRanks),
                _ => Self::star(ranks).ok_or_else(|| ShapeError::TooLarge { found: format!("star-{ranks}") }),
            };
        }
        let shape: Self = name.parse()?;
        match shape.ranks() {
            leaves if leaves == ranks => Ok(shape),
            leaves => Err(ShapeError::RankCount { ranks, shape, leaves }),
        }
    }
}

impl FromStr for TreeShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let unknown = || ShapeError::Unknown { found: text.to_string() };
        let number = |digits: &str| match digits.parse::<u16>() {
            Ok(0) => Err(unknown()),
            Ok(number) => Ok(number),
            Err(error) if *error.kind() == core::num::IntErrorKind::PosOverflow => {
                Err(ShapeError::TooLarge { found: text.to_string() })
            }
            Err(_) => Err(unknown()),
        };
        let branches = if text == "star" {
            return Err(ShapeError::NoRanks);
        } else if let Some(ranks) = text.strip_prefix("star-") {
            vec![number(ranks)?]
        } else if let Some(rest) = text.strip_prefix("tree-") {
            match rest.split_once('-') {
                Some((levels, branches)) => {
                    let (levels, branches) = (number(levels)?, number(branches)?);
                    // One level would be ranks without a switch.
                    if levels < 2 {
                        return Err(unknown());
                    }
                    vec![branches; usize::from(levels) - 1]
                }
                None => rest.split('x').map(number).collect::<Result<_, _>>()?,
            }
        } else {
            return Err(unknown());
        };
        Self::from_branches(branches).ok_or_else(|| ShapeError::TooLarge { found: text.to_string() })
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

/// The numbers behind a shape's name, none of them zero.
fn numbers(rest: &str) -> Option<Vec<u16>> {
    rest.split('x').map(|digits| digits.parse().ok().filter(|&number| number > 0)).collect()
}

impl FromStr for Clos {
    type Err = ShapeError;

    /// Of any size: what has more nodes than a topology can number is for those who need none.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let shape = text.strip_prefix("clos-").and_then(numbers).and_then(|numbers| Self::of(&numbers));
        shape.ok_or_else(|| ShapeError::UnknownSwitched { found: text.to_string() })
    }
}

impl FromStr for SwitchedShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let after = |start: &str| text.strip_prefix(start).and_then(numbers);
        let shape = if let Some(numbers) = after("leaf-spine-") {
            LeafSpine::of(&numbers).map(Self::LeafSpine)
        } else if let Some(numbers) = after("fat-tree-") {
            FatTree::of(&numbers).map(Self::FatTree)
        } else if let Some(numbers) = after("clos-") {
            Clos::of(&numbers).map(Self::Clos)
        } else if let Some(numbers) = after("dragonfly-") {
            Dragonfly::of(&numbers).map(Self::Dragonfly)
        } else {
            after("rail-").and_then(|numbers| Rail::of(&numbers)).map(Self::Rail)
        };
        let shape = shape.ok_or_else(|| ShapeError::UnknownSwitched { found: text.to_string() })?;
        let (hosts, switches) = shape.size();
        if hosts + switches > u64::from(u16::MAX) {
            return Err(ShapeError::TooLarge { found: text.to_string() });
        }
        Ok(shape)
    }
}
