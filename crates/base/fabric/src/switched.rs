//! Fabrics of switches with several ways between two hosts.

use core::fmt;

use crate::clos::Clos;
use crate::dragonfly::Dragonfly;
use crate::fat_tree::FatTree;
use crate::leaf_spine::LeafSpine;
use crate::rail::Rail;
use crate::{LinkProperties, Topology};

/// A fabric by its shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchedShape {
    /// `leaf-spine-LxSxH`, `leaf-spine-LxSxHxN`.
    LeafSpine(LeafSpine),
    /// `fat-tree-K`.
    FatTree(FatTree),
    /// `clos-PxLxHxSxC`.
    Clos(Clos),
    /// `rail-VxAxS`.
    Rail(Rail),
    /// `dragonfly-AxPxG`.
    Dragonfly(Dragonfly),
}

impl SwitchedShape {
    /// All notations, for messages.
    pub const KNOWN: &str = "leaf-spine-LxSxH (leaves, spines, hosts a leaf; xN: links between two), fat-tree-K (K even), clos-PxLxHxSxC (pods, leaves, hosts a leaf, spines, cores a spine), rail-VxAxS (servers, accelerators, spines), dragonfly-AxPxG (switches a group, hosts a switch, groups)";

    /// Whether a name begins as one of these does.
    pub fn is_meant(name: &str) -> bool {
        ["leaf-spine", "fat-tree", "clos", "rail", "dragonfly"].iter().any(|start| name.starts_with(start))
    }

    /// How many hosts it has.
    pub fn hosts(&self) -> u16 {
        self.size().0 as u16
    }

    /// How many switches it has.
    pub fn switches(&self) -> u16 {
        self.size().1 as u16
    }

    /// Hosts and switches.
    pub(crate) fn size(&self) -> (u64, u64) {
        match self {
            Self::LeafSpine(shape) => (shape.hosts(), shape.switches()),
            Self::FatTree(shape) => (shape.hosts(), shape.switches()),
            Self::Clos(shape) => (shape.hosts(), shape.switches()),
            Self::Rail(shape) => (shape.hosts(), shape.switches()),
            Self::Dragonfly(shape) => (shape.hosts(), shape.switches()),
        }
    }

    /// Its nodes and links, all alike: switches first, then `host-0`, `host-1`, ...
    pub fn topology(&self, link: LinkProperties) -> Topology {
        match self {
            Self::LeafSpine(shape) => shape.topology(link),
            Self::FatTree(shape) => shape.topology(link),
            Self::Clos(shape) => shape.topology(link),
            Self::Rail(shape) => shape.topology(link),
            Self::Dragonfly(shape) => shape.topology(link),
        }
    }
}

impl fmt::Display for SwitchedShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeafSpine(shape) => shape.fmt(f),
            Self::FatTree(shape) => shape.fmt(f),
            Self::Clos(shape) => shape.fmt(f),
            Self::Rail(shape) => shape.fmt(f),
            Self::Dragonfly(shape) => shape.fmt(f),
        }
    }
}
