//! The star that is explored: a switch, its workers and, of ATP, the parameter server.

use quincunx_collective::{Provenance, Rank};
use quincunx_driver_check::{End, Member, NodeId, Renaming, System};
use quincunx_engine::{Engine, PortId};

use crate::codec::Wired;
use crate::describe::Describe;
use crate::prior_systems::codec::PriorSystemCodec;
use crate::prior_systems::frame::{Event, Header, Timer};
use crate::prior_systems::node::{Node, Role, Start};
use crate::prior_systems::setup::{StarSetup, StarSetupError};

/// Who uses a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    started: bool,
    /// Results that a worker misses; aggregators that a switch holds.
    open: usize,
}

/// A star to explore: the switch is node 0, workers follow, and ATP's server comes last.
#[derive(Clone, Debug)]
pub struct PriorSystem {
    setup: StarSetup,
}

const SWITCH: NodeId = NodeId(0);

impl PriorSystem {
    /// The network of a set-up.
    ///
    /// # Errors
    /// If there are too many of anything, or none.
    pub fn new(setup: StarSetup) -> Result<Self, StarSetupError> {
        setup.validate()?;
        Ok(Self { setup })
    }

    fn role(&self, node: NodeId) -> Role {
        match node.0.checked_sub(1) {
            None => Role::Switch,
            Some(rank) if rank < self.setup.workers => Role::Worker(Rank(rank)),
            Some(_) => Role::Server,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..=self.setup.workers + u16::from(self.setup.has_server())).map(NodeId)
    }
}

impl System for PriorSystem {
    type Engine = Node;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node, Owner>> {
        let member = |node| {
            let role = self.role(node);
            let Ok(engine) = Node::new((self.setup, role));
            let is_worker = matches!(role, Role::Worker(_));
            let open = if is_worker { usize::from(self.setup.chunks) } else { 0 };
            Member { engine, owner: Owner { started: !is_worker, open } }
        };
        self.nodes().map(member).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let link =
            |node: NodeId| [End { node: SWITCH, port: PortId(node.0 - 1) }, End { node, port: PortId(0) }];
        self.nodes().skip(1).map(link).collect()
    }

    fn wants_command(&self, _: NodeId, owner: &Owner) -> bool {
        !owner.started
    }

    fn command(&self, _: NodeId, owner: &mut Owner) -> Start {
        owner.started = true;
        Start
    }

    fn observe(&self, node: NodeId, owner: &mut Owner, event: Event) -> Result<(), String> {
        match event {
            Event::Held(aggregators) => owner.open = if self.setup.frees { aggregators } else { 0 },
            Event::Result { chunk, sum } => {
                let expected = self.setup.expected(chunk);
                if sum != expected {
                    let name = self.name(node);
                    return Err(format!("{name} expects {expected} of chunk {chunk}, and gets {sum}"));
                }
                owner.open -= 1;
            }
        }
        Ok(())
    }

    fn is_done(&self, _: NodeId, owner: &Owner) -> bool {
        owner.started && owner.open == 0
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        let swap = |worker: u16| {
            let mut nodes: Vec<NodeId> = self.nodes().collect();
            nodes.swap(usize::from(worker), usize::from(worker + 1));
            nodes
        };
        (1..self.setup.workers).map(swap).collect()
    }

    fn rename_frame(
        &self,
        renaming: &Renaming,
        _: End,
        header: &Header,
        payload: &Provenance,
    ) -> (Header, Provenance) {
        let rename = |rank: Rank| Rank(renaming.node(NodeId(rank.0 + 1)).0 - 1);
        let header = match *header {
            Header::Contribution { chunk, workers, again } => {
                Header::Contribution { chunk, workers: workers.renamed(rename), again }
            }
            result @ Header::Result { .. } => result,
        };
        (header, payload.renamed(self.setup.workers, rename))
    }
}

impl Wired for PriorSystem {
    type Codec = PriorSystemCodec;

    fn codec(&self, node: NodeId) -> PriorSystemCodec {
        PriorSystemCodec::new(node, &self.links())
    }
}

impl Describe for PriorSystem {
    fn name(&self, node: NodeId) -> String {
        match self.role(node) {
            Role::Switch => "switch".to_owned(),
            Role::Worker(rank) => format!("worker {rank}"),
            Role::Server => "server".to_owned(),
        }
    }

    fn frame(&self, header: &Header, payload: &Provenance) -> String {
        match header {
            Header::Contribution { chunk, again, .. } => {
                let again = if *again { " again" } else { "" };
                format!("chunk {chunk}{again} {payload}")
            }
            Header::Result { chunk } => format!("result {chunk} {payload}"),
        }
    }

    fn timer(&self, _: NodeId, timer: Timer) -> String {
        match timer {
            Timer::Resend(chunk) => format!("its retransmission timer of chunk {chunk}"),
            Timer::Deadline(index) => format!("the deadline of aggregator {index}"),
        }
    }
}
