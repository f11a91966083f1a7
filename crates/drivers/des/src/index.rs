//! How nodes, links and their directions are numbered.

/// A node, numbered from zero in the order in which nodes were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

/// A link, numbered from zero in the order in which links were made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkIndex(pub u32);

/// One of the two ways of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Direction {
    /// The link.
    pub link: LinkIndex,
    /// From the end that was named second, to the one that was named first.
    pub backward: bool,
}

impl Direction {
    pub(crate) fn from_number(number: usize) -> Self {
        Self { link: LinkIndex(number as u32 / 2), backward: number % 2 == 1 }
    }

    pub(crate) fn number(self) -> usize {
        self.link.0 as usize * 2 + usize::from(self.backward)
    }
}

impl LinkIndex {
    /// From the end that was named first to the other.
    pub const fn forward(self) -> Direction {
        Direction { link: self, backward: false }
    }

    /// From the end that was named second to the other.
    pub const fn backward(self) -> Direction {
        Direction { link: self, backward: true }
    }
}
