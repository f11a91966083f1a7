//! The IncTree (EPIC 3.1): ranks are leaves, switches are everything else, each edge has an end on either node.

use crate::TreeShape;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Rank;

/// A node of an [`IncTree`], numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeNodeId(pub u16);

/// An edge of an [`IncTree`], numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeEdgeId(pub u16);

/// What a node of the tree is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TreeRole {
    /// A leaf.
    Rank(Rank),
    /// Aggregates and replicates.
    Switch,
}

/// One end of an edge: the place of the logical endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeEnd {
    /// The node it is on.
    pub node: TreeNodeId,
    /// The edge's number among that node's edges.
    pub index: u16,
}

/// An edge and its two ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TreeEdge {
    /// The end nearer to the root.
    pub parent: TreeEnd,
    /// The end nearer to the ranks.
    pub child: TreeEnd,
}

/// A node and its edges.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TreeNode {
    role: TreeRole,
    /// The children's edges in order, then the parent's, if there is one: the node's own numbering.
    edges: Vec<TreeEdgeId>,
    has_parent: bool,
    /// By rank: which of `edges` leads there. Empty at a leaf, whose one edge leads to everyone else.
    toward: Vec<u16>,
}

/// The logical topology of a group: a validated, rooted tree. Its root is a switch, its leaves are exactly the ranks
/// 0 to n-1; depth and fan-in are any.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IncTree {
    nodes: Vec<TreeNode>,
    edges: Vec<TreeEdge>,
    root: TreeNodeId,
    /// By rank.
    leaves: Vec<TreeNodeId>,
}

/// Why nodes and parents make no IncTree. All on one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TreeError {
    /// More nodes than node numbers.
    #[error("expected at most {max} nodes in an IncTree, found {found}", max = u16::MAX)]
    TooLarge {
        /// Nodes given.
        found: usize,
    },
    /// None or several nodes without a parent.
    #[error("expected one root in the IncTree, found {found}; give every other node a parent")]
    Roots {
        /// Nodes without a parent.
        found: usize,
    },
    /// A parent that is no switch of the tree.
    #[error("expected a switch as parent of node {node}, found node {parent}, which is {what}")]
    Parent {
        /// The child.
        node: u16,
        /// Its parent as given.
        parent: u16,
        /// What the parent is instead.
        what: &'static str,
    },
    /// Nodes that hang on themselves.
    #[error(
        "expected a path from node {node} to the root, found a cycle; give one of its nodes another parent"
    )]
    Cycle {
        /// A node on or behind the cycle.
        node: u16,
    },
    /// A switch that nobody needs.
    #[error("expected children at switch node {node}, found none; take it out or give it ranks")]
    Childless {
        /// The switch.
        node: u16,
    },
    /// The root is a rank.
    #[error("expected a switch as the root of the IncTree, found rank {rank}; put a switch above it")]
    RootIsRank {
        /// The rank.
        rank: u16,
    },
    /// The ranks are not 0 to n-1, once each.
    #[error("expected ranks 0 to {last} once each at the leaves, found {problem} rank {rank}")]
    Ranks {
        /// The number of ranks less one.
        last: u16,
        /// "no" or "a second".
        problem: &'static str,
        /// Which.
        rank: u16,
    },
}

impl IncTree {
    /// A tree from its nodes, each with its parent; the children of a switch are in the order given here.
    pub fn new(nodes: &[(TreeRole, Option<TreeNodeId>)]) -> Result<Self, TreeError> {
        if nodes.len() > usize::from(u16::MAX) {
            return Err(TreeError::TooLarge { found: nodes.len() });
        }
        let root = root_of(nodes)?;
        check_parents(nodes)?;
        let leaves = leaves_of(nodes)?;
        let mut tree = Self { nodes: Vec::with_capacity(nodes.len()), edges: Vec::new(), root, leaves };
        for &(role, parent) in nodes {
            let has_parent = parent.is_some();
            tree.nodes.push(TreeNode { role, edges: Vec::new(), has_parent, toward: Vec::new() });
        }
        for (child, &(_, parent)) in nodes.iter().enumerate() {
            let Some(parent) = parent else { continue };
            let edge = TreeEdgeId(tree.edges.len() as u16);
            let siblings = &mut tree.nodes[usize::from(parent.0)].edges;
            siblings.push(edge);
            let parent = TreeEnd { node: parent, index: (siblings.len() - 1) as u16 };
            // The child's own index follows once its children are known.
            tree.edges.push(TreeEdge { parent, child: TreeEnd { node: TreeNodeId(child as u16), index: 0 } });
        }
        for (number, edge) in tree.edges.iter_mut().enumerate() {
            let own = &mut tree.nodes[usize::from(edge.child.node.0)].edges;
            edge.child.index = own.len() as u16;
            own.push(TreeEdgeId(number as u16));
        }
        tree.check_reach()?;
        tree.find_ways();
        tree.assert_invariants();
        Ok(tree)
    }

    /// The tree of a uniform shape: switches first, level by level from the root, then the ranks in order.
    pub fn from_shape(shape: &TreeShape) -> Self {
        let mut nodes = vec![(TreeRole::Switch, None)];
        let mut level = 0..1;
        for (depth, &branches) in shape.branches().iter().enumerate() {
            let last = depth + 1 == shape.branches().len();
            let next = nodes.len();
            for parent in level {
                for _ in 0..branches {
                    let role = if last {
                        TreeRole::Rank(Rank((nodes.len() - next) as u16))
                    } else {
                        TreeRole::Switch
                    };
                    nodes.push((role, Some(TreeNodeId(parent as u16))));
                }
            }
            level = next..nodes.len();
        }
        Self::new(&nodes).expect("a uniform shape is a tree")
    }

    /// The root, a switch.
    pub fn root(&self) -> TreeNodeId {
        self.root
    }

    /// All nodes with their numbers.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (TreeNodeId, &TreeNode)> {
        self.nodes.iter().enumerate().map(|(number, node)| (TreeNodeId(number as u16), node))
    }

    /// All switches, parents before their children, siblings in order: the order in which placement fills them.
    pub fn switches(&self) -> Vec<TreeNodeId> {
        let mut found = vec![self.root];
        let mut next = 0;
        while let Some(&node) = found.get(next) {
            next += 1;
            let children = self.node(node).child_edges().iter().map(|&edge| self.edge(edge).child.node);
            found.extend(children.filter(|&child| self.node(child).role == TreeRole::Switch));
        }
        found
    }

    /// A node.
    ///
    /// # Panics
    /// If the tree has no such node.
    pub fn node(&self, node: TreeNodeId) -> &TreeNode {
        &self.nodes[usize::from(node.0)]
    }

    /// All edges, in the order of their numbers.
    pub fn edges(&self) -> &[TreeEdge] {
        &self.edges
    }

    /// An edge.
    ///
    /// # Panics
    /// If the tree has no such edge.
    pub fn edge(&self, edge: TreeEdgeId) -> &TreeEdge {
        &self.edges[usize::from(edge.0)]
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u16 {
        self.leaves.len() as u16
    }

    /// The leaf of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn leaf(&self, rank: Rank) -> TreeNodeId {
        self.leaves[usize::from(rank.0)]
    }

    /// Levels, counting the ranks as one: the H of EPIC's table 2, of the longest branch.
    pub fn depth(&self) -> usize {
        self.leaves.iter().map(|&leaf| self.path_to_root(leaf).count()).max().unwrap_or(0)
    }

    /// The far end of the `index`-th edge of `node`.
    ///
    /// # Panics
    /// If there is no such node or edge.
    pub fn across(&self, node: TreeNodeId, index: u16) -> TreeEnd {
        let edge = self.edge(self.node(node).edges[usize::from(index)]);
        if edge.parent.node == node { edge.child } else { edge.parent }
    }

    /// Edges between a node and the root.
    ///
    /// # Panics
    /// If the tree has no such node.
    pub fn steps_to_root(&self, node: TreeNodeId) -> usize {
        self.path_to_root(node).count() - 1
    }

    /// `node`, its parent, and so on up to the root.
    fn path_to_root(&self, node: TreeNodeId) -> impl Iterator<Item = TreeNodeId> {
        let parent =
            |&node: &TreeNodeId| self.node(node).parent_edge().map(|edge| self.edge(edge).parent.node);
        core::iter::successors(Some(node), parent)
    }

    /// Every node but the root has one parent, so what the root does not reach hangs on a cycle.
    fn check_reach(&self) -> Result<(), TreeError> {
        let mut seen = vec![false; self.nodes.len()];
        let mut queue = vec![self.root];
        while let Some(node) = queue.pop() {
            seen[usize::from(node.0)] = true;
            queue.extend(self.node(node).child_edges().iter().map(|&edge| self.edge(edge).child.node));
        }
        match seen.iter().position(|seen| !seen) {
            Some(node) => Err(TreeError::Cycle { node: node as u16 }),
            None => Ok(()),
        }
    }

    /// Fills in which edge of each switch leads to which rank: up, unless the rank is below.
    fn find_ways(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.role == TreeRole::Switch) {
            node.toward = vec![node.edges.len() as u16 - 1; self.leaves.len()];
        }
        for rank in 0..self.leaves.len() {
            let mut node = self.leaves[rank];
            while let Some(edge) = self.node(node).parent_edge() {
                let parent = self.edge(edge).parent;
                self.nodes[usize::from(parent.node.0)].toward[rank] = parent.index;
                node = parent.node;
            }
        }
    }

    /// Panics if the two sides of an edge, or a rank and its leaf, disagree.
    fn assert_invariants(&self) {
        for (number, edge) in self.edges.iter().enumerate() {
            for end in [edge.parent, edge.child] {
                assert_eq!(usize::from(self.node(end.node).edges[usize::from(end.index)].0), number);
            }
        }
        for (rank, &leaf) in self.leaves.iter().enumerate() {
            assert_eq!(self.node(leaf).role, TreeRole::Rank(Rank(rank as u16)));
            assert_eq!(self.node(leaf).toward(Rank(rank as u16)), None);
        }
    }
}

impl TreeNode {
    /// What it is.
    pub fn role(&self) -> TreeRole {
        self.role
    }

    /// All its edges in the node's own numbering: the children's in order, then the parent's.
    pub fn edges(&self) -> &[TreeEdgeId] {
        &self.edges
    }

    /// The edges to its children.
    pub fn child_edges(&self) -> &[TreeEdgeId] {
        &self.edges[..self.edges.len() - usize::from(self.has_parent)]
    }

    /// The edge to its parent; none at the root.
    pub fn parent_edge(&self) -> Option<TreeEdgeId> {
        self.edges.last().copied().filter(|_| self.has_parent)
    }

    /// The number of the parent's edge among its edges; none at the root.
    pub fn parent_index(&self) -> Option<u16> {
        self.has_parent.then(|| self.edges.len() as u16 - 1)
    }

    /// The number, among its edges, of the one that leads to `rank`; none at the rank's own leaf.
    ///
    /// # Panics
    /// If there is no such rank (a leaf does not notice).
    pub fn toward(&self, rank: Rank) -> Option<u16> {
        match self.role {
            TreeRole::Switch => Some(self.toward[usize::from(rank.0)]),
            TreeRole::Rank(own) => (own != rank).then_some(0),
        }
    }
}

fn root_of(nodes: &[(TreeRole, Option<TreeNodeId>)]) -> Result<TreeNodeId, TreeError> {
    let roots = || nodes.iter().enumerate().filter(|(_, (_, parent))| parent.is_none());
    match (roots().next(), roots().count()) {
        (Some((root, (TreeRole::Switch, _))), 1) => Ok(TreeNodeId(root as u16)),
        (Some((_, (TreeRole::Rank(rank), _))), 1) => Err(TreeError::RootIsRank { rank: rank.0 }),
        (_, found) => Err(TreeError::Roots { found }),
    }
}

fn check_parents(nodes: &[(TreeRole, Option<TreeNodeId>)]) -> Result<(), TreeError> {
    let mut children = vec![0u32; nodes.len()];
    for (node, &(_, parent)) in nodes.iter().enumerate() {
        let Some(TreeNodeId(parent)) = parent else { continue };
        let what = match nodes.get(usize::from(parent)) {
            Some((TreeRole::Switch, _)) => {
                children[usize::from(parent)] += 1;
                continue;
            }
            Some((TreeRole::Rank(_), _)) => "a rank",
            None => "not in the tree",
        };
        return Err(TreeError::Parent { node: node as u16, parent, what });
    }
    let childless = |node: &usize| nodes[*node].0 == TreeRole::Switch && children[*node] == 0;
    match (0..nodes.len()).find(childless) {
        Some(node) => Err(TreeError::Childless { node: node as u16 }),
        None => Ok(()),
    }
}

fn leaves_of(nodes: &[(TreeRole, Option<TreeNodeId>)]) -> Result<Vec<TreeNodeId>, TreeError> {
    let ranks = || {
        nodes.iter().enumerate().filter_map(|(node, (role, _))| match role {
            TreeRole::Rank(rank) => Some((node, *rank)),
            TreeRole::Switch => None,
        })
    };
    let mut leaves = vec![None; ranks().count()];
    let last = leaves.len().saturating_sub(1) as u16;
    for (node, Rank(rank)) in ranks() {
        // A rank beyond the last is one too many for some number below it.
        let Some(leaf) = leaves.get_mut(usize::from(rank)) else { continue };
        if leaf.replace(TreeNodeId(node as u16)).is_some() {
            return Err(TreeError::Ranks { last, problem: "a second", rank });
        }
    }
    let missing = leaves.iter().position(Option::is_none);
    match missing {
        Some(rank) => Err(TreeError::Ranks { last, problem: "no", rank: rank as u16 }),
        None => Ok(leaves.into_iter().flatten().collect()),
    }
}
