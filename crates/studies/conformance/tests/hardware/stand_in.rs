//! What stands where nodes are: hosts of ours, and in the switch's place a simulator that is told lines (`rtl/bench/sim.h`).

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex};

use quincunx_cluster::{Cluster, NodeIndex, Ports};
use quincunx_collective::Numbers;
use quincunx_design::SwitchPart;
use quincunx_driver_hardware::{Block, Happened, Pace};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{
    Node, NodeCommand, NodeDrop, NodeEvent, NodeKind, NodeRejected, NodeTimer, SwitchGroup, switch_group,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, RoceHeader};

/// A node of ours, or hardware.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum StandIn {
    Ours(Box<Node<Numbers>>),
    Hardware(Arc<Hardware>),
}

impl StandIn {
    /// A host, or hardware that may break a rule: `-` for none.
    pub(crate) fn at(simulator: &Path, cluster: &Cluster, node: NodeIndex, ports: Ports, rule: &str) -> Self {
        match cluster.kind(node) {
            NodeKind::Host => Self::new(NodeKind::Host).unwrap(),
            NodeKind::Switch => Self::Hardware(Arc::new(Hardware::at(simulator, cluster, node, ports, rule))),
        }
    }
}

/// An edge of the group: the port, and the ends of its connection.
#[derive(Debug)]
struct Edge {
    port: PortId,
    local: Endpoint,
    remote: Endpoint,
}

#[derive(Debug)]
pub(crate) struct Hardware {
    edges: Vec<Edge>,
    block: Mutex<Block>,
}

/// One is like no other, whatever its state.
impl PartialEq for Hardware {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for Hardware {}

impl Hash for Hardware {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(self, state);
    }
}

impl Hardware {
    /// In the place of a datapath, with a rule that it breaks; told of the group as that says.
    fn at(simulator: &Path, cluster: &Cluster, node: NodeIndex, ports: Ports, rule: &str) -> Self {
        let (design, context) = (cluster.design().unwrap(), cluster.context(node).unwrap());
        let group: SwitchGroup<Numbers> = switch_group(design, context, None, |_| PortId(0)).unwrap();
        let SwitchPart::Datapath(datapath) = group.part else { panic!("expected a datapath") };
        let port = |peer| match ports {
            Ports::Links => cluster.port(node, cluster.node_of(peer)).unwrap(),
            Ports::Socket => 0,
        };
        let edges = context.connections.iter().map(|connection| Edge {
            port: PortId(port(&connection.peer)),
            local: connection.local,
            remote: connection.remote,
        });
        let group = format!("{} {rule}", datapath.told_to_hardware().unwrap());
        let block = Block::begin(simulator, &group, Pace::Serial).unwrap();
        Self { edges: edges.collect(), block: Mutex::new(block) }
    }

    /// What leaves for a frame, by edge.
    fn hear(&self, edge: usize, header: &RoceHeader, payload: &[u8]) -> Vec<(usize, RoceHeader, Vec<u8>)> {
        let mut block = self.block.lock().unwrap();
        block.tell(edge as u16, header, payload);
        let left = |one| match one {
            Happened::Left { edge, header, payload } => Some((usize::from(edge), header, payload)),
            Happened::Dropped { .. } => None,
        };
        block.run().unwrap().into_iter().filter_map(left).collect()
    }
}

impl Engine for StandIn {
    type Config = NodeKind;
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = Numbers;
    type Timer = NodeTimer;
    type Command = NodeCommand<Numbers>;
    type Rejected = NodeRejected;
    type Event = NodeEvent<Numbers>;
    type DropReason = NodeDrop;

    fn new(kind: NodeKind) -> Result<Self, Self::ConfigError> {
        Node::new(kind).map(Box::new).map(Self::Ours)
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, Numbers>,
        out: &mut impl Sink<Self>,
    ) {
        match self {
            Self::Ours(node) => node.handle_frame(now, port, frame, &mut OfOurs(out)),
            Self::Hardware(hardware) => {
                // Over which edge it has come its queue pair says.
                let qp = frame.header.destination_qp;
                let edge = hardware.edges.iter().position(|edge| edge.local.qp == qp).unwrap();
                for (edge, header, payload) in hardware.hear(edge, frame.header, frame.payload) {
                    let Edge { port, local, remote } = &hardware.edges[edge];
                    let header = RoceHeader {
                        source: local.ip,
                        destination: remote.ip,
                        destination_qp: remote.qp,
                        ..header
                    };
                    out.transmit(*port, Frame { header: &header, payload: &payload });
                }
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: NodeTimer, out: &mut impl Sink<Self>) {
        match self {
            Self::Ours(node) => node.handle_timer(now, timer, &mut OfOurs(out)),
            Self::Hardware(_) => {}
        }
    }

    /// Hardware has been told of its group already.
    fn handle_command(
        &mut self,
        now: Instant,
        command: NodeCommand<Numbers>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), NodeRejected> {
        match self {
            Self::Ours(node) => node.handle_command(now, command, &mut OfOurs(out)),
            Self::Hardware(_) => Ok(()),
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        matches!(self, Self::Ours(node) if node.wants_transmit(port))
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        match self {
            Self::Ours(node) => node.handle_transmit_slot(now, port, &mut OfOurs(out)),
            Self::Hardware(_) => {}
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Ours(node) => node.assert_invariants(),
            Self::Hardware(_) => {}
        }
    }
}

/// What a node of ours says, as that of the stand-in that it is.
struct OfOurs<'a, S>(&'a mut S);

impl<S: Sink<StandIn>> Sink<Node<Numbers>> for OfOurs<'_, S> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        self.0.transmit(port, frame);
    }

    fn set_timer(&mut self, timer: NodeTimer, after: Duration) {
        self.0.set_timer(timer, after);
    }

    fn cancel_timer(&mut self, timer: NodeTimer) {
        self.0.cancel_timer(timer);
    }

    fn emit(&mut self, event: NodeEvent<Numbers>) {
        self.0.emit(event);
    }

    fn drop_frame(&mut self, port: PortId, reason: NodeDrop) {
        self.0.drop_frame(port, reason);
    }
}
