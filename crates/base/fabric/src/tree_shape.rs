//! Uniform trees.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

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

impl TreeShape {
    /// One switch with `ranks` ranks; `None` for none and for more than a tree can hold.
    pub fn star(ranks: u16) -> Option<Self> {
        if ranks == 0 { None } else { Self::from_branches(vec![ranks]) }
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

    /// With so many branches of a switch at each level; `None` for more than a tree can hold.
    pub(crate) fn from_branches(branches: Vec<u16>) -> Option<Self> {
        let ranks = branches.iter().try_fold(1u16, |ranks, &more| ranks.checked_mul(more))?;
        let shape = Self { branches };
        (shape.switches() + usize::from(ranks) <= usize::from(u16::MAX)).then_some(shape)
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
