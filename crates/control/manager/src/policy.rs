//! Policies (EPIC 6.2): which tree a group gets, and whether it has links and memory for itself.
//!
//! A policy sees the fabric as it is taken and names trees, best first; what a tree needs at each switch is asked for afterwards, by the
//! manager. [`ALL`] are those that there are.

use crate::map::{Map, MapLink, MapNode};
use crate::tree::{Candidate, Ground, Levels, Width};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Debug;
use quincunx_units::{BitRate, ByteCount};

/// How memory is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sharing {
    /// For the group's life, by it alone.
    None,
    /// With groups of the same job that communicate in other phases: they use a block by turns, and never at once (EPIC 6.2,
    /// "scheduled coordination").
    Phases,
    /// With groups of anybody, who lock it at the switches for each invocation, first come, first served, and run among their hosts when it
    /// is taken (EPIC 6.2, "contention-and-fallback").
    Locks,
}

/// A way to give trees to groups.
pub trait Policy: Debug + Send + Sync {
    /// What operators call it.
    fn name(&self) -> &'static str;

    /// What it does, in a line.
    fn summary(&self) -> &'static str;

    /// Whether a new tree may lead over this link.
    fn may_use(&self, _map: &Map, _link: MapLink) -> bool {
        true
    }

    /// Trees for these members, the one to try first first; of `levels`, which are not empty.
    fn candidates(&self, ground: &Ground<'_>, levels: &Levels, members: &[MapNode]) -> Vec<Candidate>;

    /// How memory is held.
    fn sharing(&self) -> Sharing {
        Sharing::None
    }
}

/// Every policy.
pub static ALL: &[&dyn Policy] = &[
    &EdgeDisjoint,
    &Spatial { prefer: Prefer::Depth },
    &Spatial { prefer: Prefer::Width },
    &Temporal,
    &Contended,
];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static dyn Policy> {
    ALL.iter().copied().find(|policy| policy.name() == name)
}

/// Roots of a level that are looked at more closely: so many with the fewest trees around, and then the most memory, and so many of the others whose
/// trees may be wider than theirs. On a level of a Clos network most are alike.
const ROOTS: usize = 8;

/// What a tree gets of a node's best link, and of the second best.
fn best_shares(ground: &Ground<'_>, node: MapNode) -> [Option<BitRate>; 2] {
    ground.map.ports(node).iter().fold([None; 2], |[best, second], &(link, _)| {
        let share = ground.share(link, 1);
        if share > best { [share, best] } else { [best, second.max(share)] }
    })
}

/// Trees from the roots of one level.
fn grown(ground: &Ground<'_>, roots: &[MapNode], members: &[MapNode]) -> Vec<Candidate> {
    let used = |root: MapNode| {
        ground.map.ports(root).iter().map(|(link, _)| ground.map.trees(*link).len()).sum::<usize>()
    };
    // A core that nobody uses may be above spines that others do.
    let around = |root: MapNode| {
        let next = ground.map.ports(root).iter().map(|(_, next)| *next);
        used(root) + next.filter(|next| !ground.map.is_host(*next)).map(used).sum::<usize>()
    };
    let mut roots: Vec<_> =
        roots.iter().map(|&root| (around(root), Reverse((ground.memory)(root)), root)).collect();
    roots.sort_unstable();
    let others = roots.split_off(roots.len().min(ROOTS));
    let mut found: Vec<Candidate> =
        roots.into_iter().flat_map(|(.., root)| grown_from(ground, root, members)).collect();
    // No tree is wider than its members' own links, nor, as ways part at its root, than the second best of that.
    let of_members = members.iter().filter_map(|&member| best_shares(ground, member)[0]).min();
    let widest = |(_, Reverse(memory), root)| {
        let second = best_shares(ground, root)[1].filter(|_| members.len() > 1);
        (Width { rate: of_members.into_iter().chain(second).min(), memory }, root)
    };
    let may_be_wider = |found: &[Candidate], most: &Width| {
        !found.iter().any(|tree| tree.conflicts == 0 && is_as_wide(&tree.width, most))
    };
    let mut others: Vec<(Width, MapNode)> = others.into_iter().map(widest).collect();
    others.retain(|(most, _)| may_be_wider(&found, most));
    others.sort_by_key(|(most, _)| Reverse((most.rate, most.memory)));
    // What may be the widest first; if it is no wider after all, those behind it are as much alike.
    for (most, root) in others.into_iter().take(ROOTS) {
        let fresh: Vec<Candidate> = match may_be_wider(&found, &most) {
            true => grown_from(ground, root, members).collect(),
            false => continue,
        };
        let is_wider = |tree: &Candidate| may_be_wider(&found, &tree.width);
        if !fresh.iter().any(is_wider) {
            break;
        }
        found.extend(fresh);
    }
    found
}

/// The tree from a root, and that which passes no switch with less memory, if there is another.
fn grown_from(ground: &Ground<'_>, root: MapNode, members: &[MapNode]) -> impl Iterator<Item = Candidate> {
    let all = ground.grow(root, members, ByteCount::new(0));
    // A longer way for some may pass by a switch with little memory; where none of the tree has less than the root, it is the same tree.
    let memory = (ground.memory)(root);
    let is_ample = all.as_ref().is_some_and(|all| all.width.memory >= memory);
    let ample = (!is_ample).then(|| ground.grow(root, members, memory)).flatten();
    let ample = ample.filter(|ample| all.as_ref() != Some(ample));
    [all, ample].into_iter().flatten()
}

/// Trees that share no link (EPIC 6.2, "Edge-Disjoint Tree"): all roots of the lowest level that reaches every member over links without
/// a tree.
#[derive(Debug)]
pub struct EdgeDisjoint;

impl Policy for EdgeDisjoint {
    fn name(&self) -> &'static str {
        "edge-disjoint"
    }

    fn summary(&self) -> &'static str {
        "a tree shares no link with another; the lowest one that there is"
    }

    fn may_use(&self, map: &Map, link: MapLink) -> bool {
        map.has_free_link(link)
    }

    fn candidates(&self, ground: &Ground<'_>, levels: &Levels, members: &[MapNode]) -> Vec<Candidate> {
        let Some(roots) = levels.0.values().next() else { return Vec::new() };
        let mut found = grown(ground, roots, members);
        found.sort_by_key(|tree| (tree.conflicts, Reverse(tree.width.memory)));
        found
    }
}

/// What comes first among trees none of which is better in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefer {
    /// Few links from the root: for small and frequent collectives.
    Depth,
    /// Bandwidth, then memory: for large ones.
    Width,
}

/// Trees with memory of their own, on links that they share (EPIC 6.2, "Spatial Multiplexing"): those of which none is both lower and
/// wider.
#[derive(Debug)]
pub struct Spatial {
    /// What comes first.
    pub prefer: Prefer,
}

/// Whether a tree is at least as wide everywhere.
fn is_as_wide(a: &Width, b: &Width) -> bool {
    let is_as_fast = match (a.rate, b.rate) {
        (Some(a), Some(b)) => a >= b,
        _ => true,
    };
    is_as_fast && a.memory >= b.memory
}

/// The widest first: by rate, then by memory; of equal ones, those whose edges share the fewest links.
fn by_width(tree: &Candidate) -> (Reverse<(Option<BitRate>, ByteCount)>, u32) {
    (Reverse((tree.width.rate, tree.width.memory)), tree.conflicts)
}

impl Spatial {
    /// The Pareto frontier of depth against width, and of links that a tree's own edges share.
    pub fn frontier(ground: &Ground<'_>, levels: &Levels, members: &[MapNode]) -> Vec<Candidate> {
        let mut frontier: Vec<Candidate> = Vec::new();
        for roots in levels.0.values() {
            let mut level = grown(ground, roots, members);
            level.sort_by_key(by_width);
            for tree in level {
                // Those before are at most as deep.
                let is_beaten = |other: &Candidate| {
                    is_as_wide(&other.width, &tree.width) && other.conflicts <= tree.conflicts
                };
                let is_alike =
                    |other: &Candidate| other.depth == tree.depth && by_width(other) == by_width(&tree);
                if !frontier.iter().any(|other| is_beaten(other) && !is_alike(other)) {
                    frontier.push(tree);
                }
            }
        }
        frontier
    }
}

impl Policy for Spatial {
    fn name(&self) -> &'static str {
        match self.prefer {
            Prefer::Depth => "spatial",
            Prefer::Width => "spatial-wide",
        }
    }

    fn summary(&self) -> &'static str {
        match self.prefer {
            Prefer::Depth => "memory for each group's life, links shared; the lowest of the best trees first",
            Prefer::Width => "memory for each group's life, links shared; the widest of the best trees first",
        }
    }

    fn candidates(&self, ground: &Ground<'_>, levels: &Levels, members: &[MapNode]) -> Vec<Candidate> {
        let mut found = Self::frontier(ground, levels, members);
        match self.prefer {
            Prefer::Depth => found.sort_by_key(|tree| (tree.depth, by_width(tree))),
            Prefer::Width => found.sort_by_key(|tree| (by_width(tree), tree.depth)),
        }
        found
    }
}

/// Trees that use memory by turns (EPIC 6.2, "Temporal Multiplexing", by schedule): groups of a job that communicate in different phases.
#[derive(Debug)]
pub struct Temporal;

impl Policy for Temporal {
    fn name(&self) -> &'static str {
        "temporal"
    }

    fn summary(&self) -> &'static str {
        "as spatial, and groups of a job that communicate in different phases share memory"
    }

    fn candidates(&self, ground: &Ground<'_>, levels: &Levels, members: &[MapNode]) -> Vec<Candidate> {
        Spatial { prefer: Prefer::Depth }.candidates(ground, levels, members)
    }

    fn sharing(&self) -> Sharing {
        Sharing::Phases
    }
}

/// Trees that use memory by turns (EPIC 6.2, "Temporal Multiplexing", by contention): where there is none left, a group has a block together
/// with others, and locks it for each invocation.
#[derive(Debug)]
pub struct Contended;

impl Policy for Contended {
    fn name(&self) -> &'static str {
        "contention"
    }

    fn summary(&self) -> &'static str {
        "as spatial, and groups share what is taken: they lock it for each collective, or run among their hosts"
    }

    fn candidates(&self, ground: &Ground<'_>, levels: &Levels, members: &[MapNode]) -> Vec<Candidate> {
        Spatial { prefer: Prefer::Depth }.candidates(ground, levels, members)
    }

    fn sharing(&self) -> Sharing {
        Sharing::Locks
    }
}
