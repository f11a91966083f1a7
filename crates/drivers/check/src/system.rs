//! What an owner describes: a network of engines, their owners, and what is equal to what.

use core::fmt::Debug;
use core::hash::Hash;
use quincunx_engine::{Engine, PortId};
use quincunx_network::OrderingClass;

/// A node, numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

impl NodeId {
    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct End {
    /// The node.
    pub node: NodeId,
    /// Its port.
    pub port: PortId,
}

/// A node as it stands before anything has happened.
#[derive(Clone, Debug)]
pub struct Member<E, O> {
    /// The engine, set up.
    pub engine: E,
    /// Whoever uses it: what it has asked for and been told.
    pub owner: O,
}

/// A network to explore, and what must hold in it.
pub trait System: Sync {
    /// All nodes are of one kind; an enum makes several kinds one.
    type Engine: Engine<Header: Send + Sync, Payload: Send + Sync, Timer: Send + Sync> + Send + Sync;
    /// What a node's owner remembers.
    type Owner: Clone + Eq + Hash + Debug + Send + Sync;

    /// The nodes, in the order of their numbers.
    fn members(&self) -> Vec<Member<Self::Engine, Self::Owner>>;

    /// The links. A port has one; frames that leave a port without one are lost.
    fn links(&self) -> Vec<[End; 2]>;

    /// Whether the owner has something to ask for.
    fn wants_command(&self, node: NodeId, owner: &Self::Owner) -> bool;

    /// The ordering class of a frame: frames of one class keep their order on a link, those of different classes may overtake each
    /// other.
    fn ordering_class(&self, _header: &<Self::Engine as Engine>::Header) -> OrderingClass {
        OrderingClass::FIRST
    }

    /// A frame as a congested link marks it; none if it cannot be marked, or is.
    fn marked(&self, _header: &<Self::Engine as Engine>::Header) -> Option<<Self::Engine as Engine>::Header> {
        None
    }

    /// What the owner asks for, which it must want to.
    fn command(&self, node: NodeId, owner: &mut Self::Owner) -> <Self::Engine as Engine>::Command;

    /// The owner is told `event`; an error is a fault of the protocol.
    fn observe(
        &self,
        node: NodeId,
        owner: &mut Self::Owner,
        event: <Self::Engine as Engine>::Event,
    ) -> Result<(), String>;

    /// How many notices there are that the control plane may give to every node, at most eight: none if it takes no part.
    fn notices(&self) -> u8 {
        0
    }

    /// Whether the owner has reported what makes the control plane give a notice to all nodes; then it stays so. Each node that
    /// [lacks](Self::lacks_notice) it may get it at any time from then on, before frames and time-outs and after them, and gets it in the end.
    fn calls_for_notice(&self, _node: NodeId, _owner: &Self::Owner, _notice: u8) -> bool {
        false
    }

    /// Whether a node has not got a notice.
    fn lacks_notice(&self, _node: NodeId, _owner: &Self::Owner, _notice: u8) -> bool {
        false
    }

    /// The owner gets a notice that it lacks: what it asks of its node then, if anything.
    fn take_notice(
        &self,
        _node: NodeId,
        _owner: &mut Self::Owner,
        _notice: u8,
    ) -> Option<<Self::Engine as Engine>::Command> {
        None
    }

    /// Whether a node whose owner is `owner` before the step may send a frame in it; an error is a fault of the protocol.
    fn check_sent(
        &self,
        _node: NodeId,
        _owner: &Self::Owner,
        _header: &<Self::Engine as Engine>::Header,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Whether what a frame that a node sends carries may be part of anything right; an error is a fault of the protocol, and shows where it
    /// happens rather than where it is noticed.
    fn check_carried(
        &self,
        _node: NodeId,
        _header: &<Self::Engine as Engine>::Header,
        _payload: &<Self::Engine as Engine>::Payload,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Whether the owner has all that it wanted.
    fn is_done(&self, node: NodeId, owner: &Self::Owner) -> bool;

    /// Whether all may wait, or send again, for ever: then only what happens can be wrong.
    fn may_wait(&self) -> bool {
        false
    }

    /// Renamings of nodes, each by number, that leave the network as it is; those that they generate count too. None if it is not said.
    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        Vec::new()
    }

    /// A frame from one end of a link, as it would be if nodes were renamed: the same from the end
    /// `renaming.end(from)` on. If it is not said, frames name no node.
    fn rename_frame(
        &self,
        _renaming: &Renaming,
        _from: End,
        header: &<Self::Engine as Engine>::Header,
        payload: &<Self::Engine as Engine>::Payload,
    ) -> (<Self::Engine as Engine>::Header, <Self::Engine as Engine>::Payload) {
        (header.clone(), payload.clone())
    }

    /// A timer of `node`, as it would be named at `renaming.node(node)`. If it is not said, timers name none.
    fn rename_timer(
        &self,
        _renaming: &Renaming,
        _node: NodeId,
        timer: <Self::Engine as Engine>::Timer,
    ) -> <Self::Engine as Engine>::Timer {
        timer
    }
}

/// A renaming of nodes that maps links to links.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Renaming {
    nodes: Vec<NodeId>,
    /// For each node, the port at its image for each of its ports.
    ports: Vec<Vec<PortId>>,
}

impl Renaming {
    /// The renaming to `nodes` by number.
    ///
    /// # Panics
    /// If `nodes` is no permutation, or does not map links to links: a bug in the system's description.
    pub(crate) fn new(nodes: Vec<NodeId>, links: &[[End; 2]]) -> Self {
        let mut seen = vec![false; nodes.len()];
        for node in &nodes {
            assert!(!core::mem::replace(&mut seen[node.index()], true), "a renaming names a node twice");
        }
        let ends = || links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let mut ports = vec![Vec::new(); nodes.len()];
        for (near, far) in ends() {
            let image = ends()
                .find(|(a, b)| a.node == nodes[near.node.index()] && b.node == nodes[far.node.index()])
                .map(|(a, _)| a.port);
            let places: &mut Vec<PortId> = &mut ports[near.node.index()];
            let place = usize::from(near.port.0);
            places.resize(places.len().max(place + 1), near.port);
            places[place] = image.expect("a renaming maps links to links");
        }
        Self { nodes, ports }
    }

    /// This renaming after `first`.
    pub(crate) fn after(&self, first: &Self, links: &[[End; 2]]) -> Self {
        Self::new(first.nodes.iter().map(|&node| self.node(node)).collect(), links)
    }

    /// What a node is renamed to.
    pub fn node(&self, node: NodeId) -> NodeId {
        self.nodes[node.index()]
    }

    /// What a port of `node` is renamed to; one without a link keeps its number.
    pub fn port(&self, node: NodeId, port: PortId) -> PortId {
        self.ports[node.index()].get(usize::from(port.0)).copied().unwrap_or(port)
    }

    /// What an end is renamed to.
    pub fn end(&self, end: End) -> End {
        End { node: self.node(end.node), port: self.port(end.node, end.port) }
    }
}
