//! Uniform trees by name.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::MeshShape;

/// A tree in which all nodes of a level have the same number of branches. Written as
///
/// - `star-N`: one switch, N ranks;
/// - `tree-X-Y`: the paper's notation (EPIC 7.1), X levels counting the ranks as one, Y branches at every switch:
///   `tree-2-4` is `star-4`, `tree-3-2` has a root, two leaf switches and four ranks;
/// - `tree-AxB`, `tree-AxBxC`, ...: branches level by level from the root: `tree-2x4` has a root, two leaf switches
///   and four ranks at each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TreeShape {
    /// Branches of a switch, level by level from the root. Never empty, never zero; the product is a rank count.
    branches: Vec<u16>,
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
    #[error("expected one of {known}, found \"{found}\"", known = crate::SwitchedShape::KNOWN)]
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
        shape: crate::SwitchedShape,
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

impl TreeShape {
    /// One switch with `ranks` ranks; `None` for none and for more than a tree can hold.
    pub fn star(ranks: u16) -> Option<Self> {
        if ranks == 0 { None } else { Self::from_branches(vec![ranks]) }
    }

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

    /// Branches of a switch, level by level from the root.
    pub fn branches(&self) -> &[u16] {
        &self.branches
    }

    /// How many ranks it has.
    pub fn ranks(&self) -> u16 {
        self.branches.iter().product()
    }

    /// How many switches it has.
    pub fn switches(&self) -> usize {
        let mut level = 1;
        let mut total = 0;
        for &branches in &self.branches {
            total += level;
            level *= usize::from(branches);
        }
        total
    }

    /// Levels, counting the ranks as one: the H of EPIC's table 2.
    pub fn depth(&self) -> usize {
        self.branches.len() + 1
    }

    fn from_branches(branches: Vec<u16>) -> Option<Self> {
        let ranks = branches.iter().try_fold(1u16, |ranks, &more| ranks.checked_mul(more))?;
        let shape = Self { branches };
        (shape.switches() + usize::from(ranks) <= usize::from(u16::MAX)).then_some(shape)
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

/// One notation for each tree: `star-N` for one switch, `tree-AxB...` for more.
impl fmt::Display for TreeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [ranks] = self.branches[..] {
            return write!(f, "star-{ranks}");
        }
        for (level, branches) in self.branches.iter().enumerate() {
            write!(f, "{}{branches}", if level == 0 { "tree-" } else { "x" })?;
        }
        Ok(())
    }
}
