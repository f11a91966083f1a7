//! What a driver does with a cluster: the commands that set up each node, or nodes with all of them carried out.

use crate::cluster::Pin;
use crate::{Cluster, NodeIndex};
use quincunx_collective::Payload;
use quincunx_design::{ConnectionContext, PayloadKind, Refusal};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{
    HostCommand, Node, NodeCommand, NodeDrop, NodeEvent, NodeKind, NodeRejected, NodeTimer, SwitchCommand,
    contended_host_group, host_group, switch_groups,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

/// Where a node's neighbours are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ports {
    /// Behind the port of the link that leads there.
    Links,
    /// All behind port 0, which is a socket.
    Socket,
}

/// Why a node cannot be set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetUpError {
    /// The design refuses its context.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The node refuses a command.
    #[error(transparent)]
    Rejected(#[from] NodeRejected),
}

impl Cluster {
    /// What kind of node it is.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn kind(&self, node: NodeIndex) -> NodeKind {
        match self.wiring().nodes()[node].kind {
            quincunx_fabric::NodeKind::Host => NodeKind::Host,
            quincunx_fabric::NodeKind::Switch => NodeKind::Switch,
        }
    }

    /// The commands that set up a node: routes first, then its groups. `mutation` names a rule to break, for the checker alone.
    ///
    /// # Errors
    /// If the design refuses the node's context.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn commands<P: PayloadKind>(
        &self,
        node: NodeIndex,
        ports: Ports,
        mutation: Option<&str>,
    ) -> Result<Vec<NodeCommand<P>>, Refusal> {
        let on = |port| PortId(if ports == Ports::Links { port } else { 0 });
        let command = NodeCommand::Switch;
        let mut commands = Vec::new();
        if self.routes(node).any(|(_, ports)| ports.len() > 1) {
            commands.push(command(SwitchCommand::HashSeed(self.hash_seed(node))));
        }
        for (far, ways) in self.routes(node) {
            let mut ways: Vec<PortId> = ways.iter().copied().map(on).collect();
            ways.dedup();
            commands.push(command(SwitchCommand::Route { destination: self.address(far), ports: ways }));
        }
        for &Pin { destination, from, to } in self.pins(node) {
            commands.push(command(SwitchCommand::Pin { destination, from: on(from), to: on(to) }));
        }
        for (group, context) in self.groups_of(node) {
            let port = |connection: &ConnectionContext| {
                let port = self.port_in(group, node, self.node_in(group, &connection.peer));
                on(port.expect("there is a way to every neighbour"))
            };
            match self.kind(node) {
                NodeKind::Host => {
                    let group = match group.fallback {
                        None => host_group(group.design, context, mutation, port)?,
                        Some(fallback) => contended_host_group(group.design, fallback, context, port)?,
                    };
                    commands.push(NodeCommand::Host(HostCommand::Install(Box::new(group))));
                }
                NodeKind::Switch => {
                    let channels = switch_groups(group.design, context, mutation, port)?;
                    let install = |channel| NodeCommand::Switch(SwitchCommand::Install(Box::new(channel)));
                    commands.extend(channels.into_iter().map(install));
                }
            }
        }
        Ok(commands)
    }

    /// All nodes, set up. What they tell while that is done is lost: nodes of designs send nothing before somebody asks them to.
    ///
    /// # Errors
    /// If the design refuses a context, or a node a command.
    pub fn build_nodes<P: PayloadKind>(
        &self,
        ports: Ports,
        mutation: Option<&str>,
    ) -> Result<Vec<Node<P>>, SetUpError> {
        let build = |node| {
            let Ok(mut built) = Node::new(self.kind(node));
            for command in self.commands(node, ports, mutation)? {
                built.handle_command(Instant::ZERO, command, &mut Nobody)?;
            }
            Ok(built)
        };
        (0..self.wiring().nodes().len()).map(build).collect()
    }
}

/// Takes what a node tells while it is set up.
struct Nobody;

impl<P: Payload> Sink<Node<P>> for Nobody {
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, P>) {}
    fn set_timer(&mut self, _: NodeTimer, _: Duration) {}
    fn cancel_timer(&mut self, _: NodeTimer) {}
    fn emit(&mut self, _: NodeEvent<P>) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}
