//! Where a group is to run, and what will be asked of it: what a plan is made from beside parameters.

use crate::{AcceleratorFabric, Refusal};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::ops::Range;
use quincunx_collective::Rank;
use quincunx_engine::shared_memory::InPlaceRequest;
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_units::{BitRate, ByteCount};

/// What links carry one way, as measured or as known. Only their ratio matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkRates {
    /// A link between ranks of one domain.
    pub direct: BitRate,
    /// A link between ranks of two domains.
    pub cross: BitRate,
}

impl LinkRates {
    /// Links that nobody has measured: all alike.
    pub const ALIKE: Self = {
        let any = BitRate::new(1).expect("above zero");
        Self { direct: any, cross: any }
    };
}

/// What collectives a group is to be ready for: what its buffers must hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Demand {
    /// Vectors; of a rank's inputs the longest has so many bytes.
    Vectors {
        /// Bytes.
        longest: ByteCount,
    },
    /// Tokens for experts.
    Tokens {
        /// The most that a rank dispatches at once.
        most: u32,
        /// Bytes of each, with its routing.
        length: ByteCount,
    },
    /// Writes of the application's own.
    Writes {
        /// Slots that a rank has at each other one, and bytes of each.
        slots: u32,
        /// Bytes.
        length: ByteCount,
    },
}

/// Accelerators around switches, and what a stream of collectives does with their memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedMemory {
    /// Where.
    pub fabric: AcceleratorFabric,
    /// What.
    pub request: InPlaceRequest,
}

/// Where a group is to run. Ranks are numbered from zero; those of a domain follow each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Placement {
    /// How many there are.
    pub ranks: u16,
    /// Domains of equal size that gather each for themselves; one is all of them.
    pub domains: u16,
    /// The tree of switches that the group may use, with a leaf for each rank; none where hosts are joined directly.
    pub tree: Option<IncTree>,
    /// Which designs' parts switches of the tree can run, by name; one that is not here can run all.
    pub offers: BTreeMap<TreeNodeId, BTreeSet<String>>,
    /// What links carry, where the ranks are in several domains.
    pub rates: LinkRates,
    /// What is to be asked of the group.
    pub demand: Demand,
    /// On a memory fabric, what there is in place of all that but the ranks; none where they have queue pairs.
    pub memory: Option<SharedMemory>,
}

impl Placement {
    /// On a tree, or among hosts wherever they are if there is none, for vectors.
    pub fn new(ranks: u16, tree: Option<IncTree>, longest: ByteCount) -> Self {
        Self {
            ranks,
            domains: 1,
            tree,
            offers: BTreeMap::new(),
            rates: LinkRates::ALIKE,
            demand: Demand::Vectors { longest },
            memory: None,
        }
    }

    /// The least that asks for a switch: two ranks around one.
    pub fn smallest() -> Self {
        let tree = IncTree::from_shape(&"star-2".parse().expect("a star of two"));
        Self::new(2, Some(tree), ByteCount::new(4096))
    }

    /// A stream of collectives on accelerators around switches.
    pub fn on_memory(fabric: AcceleratorFabric, request: InPlaceRequest) -> Self {
        let longest = ByteCount::new(request.span.length as u64);
        let memory = Some(SharedMemory { fabric, request });
        Self { memory, ..Self::new(fabric.accelerators, None, longest) }
    }

    /// The memory fabric, for a design that runs on no other.
    ///
    /// # Errors
    /// If this is none.
    pub fn shared_memory(&self) -> Result<&SharedMemory, Refusal> {
        self.memory.as_ref().ok_or_else(|| {
            Refusal::new(
                "accelerators around switches",
                "hosts with queue pairs",
                "choose a memory fabric such as memory-8",
            )
        })
    }

    /// Ranks of a domain.
    pub const fn members(&self) -> u16 {
        self.ranks / self.domains
    }

    /// The ranks of the domain that `rank` is in.
    pub const fn domain(&self, rank: Rank) -> Range<u16> {
        let members = self.members();
        let first = rank.0 / members * members;
        first..first + members
    }
}
