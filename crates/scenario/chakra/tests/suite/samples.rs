//! Nodes to make traces of.

use quincunx_chakra::{Cost, Node, Operation, Trace, Work};
use quincunx_collective::{Collective, Rank};
use quincunx_units::{ByteCount, Duration};

/// A node of that id, after others.
pub(crate) fn node(id: u64, after: &[u64], work: Work) -> Node {
    Node {
        id,
        name: format!("node {id}"),
        control: Vec::new(),
        data: after.to_vec(),
        duration: Duration::ZERO,
        is_on_host: false,
        work,
    }
}

/// A computation of so many microseconds.
pub(crate) fn compute(id: u64, after: &[u64], micros: u64) -> Node {
    Node { duration: Duration::from_micros(micros), ..node(id, after, Work::Compute(Cost::default())) }
}

/// The same on the host.
pub(crate) fn on_host(node: Node) -> Node {
    Node { is_on_host: true, ..node }
}

/// A collective of so many bytes of a group; none: all ranks.
pub(crate) fn collective(id: u64, after: &[u64], of: Collective, bytes: u64, group: Option<&str>) -> Node {
    let (operation, size, group) =
        (Operation::Collective(of), ByteCount::new(bytes), group.map(str::to_owned));
    node(id, after, Work::Collective { operation, size, group })
}

/// An AllReduce of all ranks.
pub(crate) fn all_reduce(id: u64, after: &[u64], bytes: u64) -> Node {
    collective(id, after, Collective::AllReduce, bytes, None)
}

/// A message to another rank.
pub(crate) fn send(id: u64, after: &[u64], peer: u16, bytes: u64) -> Node {
    node(id, after, Work::Send { peer: Rank(peer), tag: 0, size: ByteCount::new(bytes) })
}

/// A message from another rank.
pub(crate) fn receive(id: u64, after: &[u64], peer: u16, bytes: u64) -> Node {
    node(id, after, Work::Receive { peer: Rank(peer), tag: 0, size: ByteCount::new(bytes) })
}

/// The trace of these.
pub(crate) fn trace(nodes: Vec<Node>) -> Trace {
    Trace::new(nodes)
}
