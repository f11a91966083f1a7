//! Nodes that have been told their part.

use quincunx_collective::Provenance;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{Node, NodeCommand, NodeDrop, NodeEvent, NodeKind, NodeRejected, NodeTimer};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

/// A node that has been told its part.
pub(crate) fn installed_node(
    kind: NodeKind,
    commands: impl IntoIterator<Item = NodeCommand<Provenance>>,
) -> Result<Node<Provenance>, NodeRejected> {
    let Ok(mut node) = Node::new(kind);
    for command in commands {
        node.handle_command(Instant::ZERO, command, &mut Nobody)?;
    }
    Ok(node)
}

/// Takes the answers to the installation of a group: there are none.
struct Nobody;

impl Sink<Node<Provenance>> for Nobody {
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Provenance>) {
        unreachable!("a group that is installed sends nothing yet");
    }
    fn set_timer(&mut self, _: NodeTimer, _: Duration) {
        unreachable!("a group that is installed waits for nothing yet");
    }
    fn cancel_timer(&mut self, _: NodeTimer) {}
    fn emit(&mut self, _: NodeEvent<Provenance>) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}
