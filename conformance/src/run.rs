//! What a run leaves behind: results, and every frame that was sent; and the views of it that are compared.

use std::collections::BTreeMap;

use quincunx_collective::Numbers;
use quincunx_control::Design;
use quincunx_engine::verbs::Outcome;
use quincunx_nodes::{ContextError, StationRejected};
use quincunx_wire::{Operation, QpNumber, RoceHeader};

use crate::Scenario;

/// A direction of a link: the names of who sends and who receives.
pub type Flow = (String, String);

/// A frame as its sender sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its header.
    pub header: RoceHeader,
    /// What it carried.
    pub payload: Vec<u8>,
}

/// What is left of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// By rank.
    pub outputs: Vec<Numbers>,
    /// For each direction of each link the frames in the order in which they were sent, lost ones among them.
    pub(crate) sent: BTreeMap<Flow, Vec<Sent>>,
}

/// Why a run has no outcome to compare.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A node refuses its part.
    #[error(transparent)]
    Rejected(#[from] StationRejected),
    /// A group cannot be set up.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A design that no fabric is made for here.
    #[error(
        "expected an EPIC design or ring with a tree, or multiwrite or unicast-multipath with a mesh, found {design}; choose the shape for it"
    )]
    NoFabric {
        /// The design.
        design: Design,
    },
    /// A loss at a node that does not exist.
    #[error("expected a node of the scenario, found {found}; call it rank-N or switch-N")]
    NoNode {
        /// The name as given.
        found: String,
    },
    /// A loss between nodes that no link joins.
    #[error("expected two neighbours, found {from} and {to}; name both ends of a link")]
    NoLink {
        /// The sender as given.
        from: String,
        /// The receiver as given.
        to: String,
    },
    /// The collective has failed.
    #[error("expected {rank} to end its collective, found {outcome:?}; look at the losses")]
    Failed {
        /// Who.
        rank: String,
        /// How.
        outcome: Outcome,
    },
    /// Not all ranks have come to an end.
    #[error("expected all ranks to end, found {unfinished} that had not when nothing was due or time was up")]
    Unfinished {
        /// How many.
        unfinished: usize,
    },
    /// A socket cannot be had.
    #[error(transparent)]
    Open(#[from] quincunx_driver_net::OpenError),
    /// A socket failed.
    #[error(transparent)]
    Node(#[from] quincunx_driver_net::NodeError),
}

impl Sent {
    /// Whether it is an answer to requests: an acknowledge of either kind, or a word about congestion.
    pub fn is_answer(&self) -> bool {
        matches!(self.header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification)
    }
}

impl Run {
    pub(crate) fn new(
        outputs: Vec<Option<Numbers>>,
        sent: BTreeMap<Flow, Vec<Sent>>,
    ) -> Result<Self, RunError> {
        let unfinished = outputs.iter().filter(|output| output.is_none()).count();
        if unfinished > 0 {
            return Err(RunError::Unfinished { unfinished });
        }
        Ok(Self { outputs: outputs.into_iter().flatten().collect(), sent })
    }

    /// All frames by direction, in order.
    pub fn everything(&self) -> &BTreeMap<Flow, Vec<Sent>> {
        &self.sent
    }

    /// By direction, and whether they are answers: frames in order.
    pub fn apart(&self) -> BTreeMap<(Flow, bool), Vec<Sent>> {
        let mut apart: BTreeMap<(Flow, bool), Vec<Sent>> = BTreeMap::new();
        for (flow, frames) in &self.sent {
            for frame in frames {
                apart.entry((flow.clone(), frame.is_answer())).or_default().push(frame.clone());
            }
        }
        apart
    }

    /// By direction and receiving queue pair: the requests in the order in which they are sent first, without the bit that
    /// asks for an acknowledge.
    pub fn first_transmissions(&self) -> BTreeMap<(Flow, QpNumber), Vec<Sent>> {
        let mut flows: BTreeMap<(Flow, QpNumber), Vec<Sent>> = BTreeMap::new();
        for (flow, frames) in &self.sent {
            for frame in frames.iter().filter(|frame| !frame.is_answer()) {
                let known = flows.entry((flow.clone(), frame.header.destination_qp)).or_default();
                if known.iter().all(|known| known.header.psn != frame.header.psn) {
                    let header = RoceHeader { acknowledge_request: false, ..frame.header };
                    known.push(Sent { header, payload: frame.payload.clone() });
                }
            }
        }
        flows
    }

    /// The [`first_transmissions`](Self::first_transmissions) by PSN, in whatever order they were sent.
    pub fn requests(&self) -> BTreeMap<(Flow, QpNumber), Vec<Sent>> {
        let mut flows = self.first_transmissions();
        for frames in flows.values_mut() {
            frames.sort_by_key(|frame| frame.header.psn.value());
        }
        flows
    }

    /// What each sends to each in all, in no order: for senders that pass on what others send them when it comes.
    pub fn payloads(&self) -> BTreeMap<(Flow, QpNumber), Vec<Vec<u8>>> {
        let sorted = |frames: Vec<Sent>| {
            let mut payloads: Vec<Vec<u8>> = frames.into_iter().map(|frame| frame.payload).collect();
            payloads.sort_unstable();
            payloads
        };
        self.first_transmissions().into_iter().map(|(flow, frames)| (flow, sorted(frames))).collect()
    }

    /// The frames that a scenario's losses name, as far as they were sent.
    pub fn lost(&self, scenario: &Scenario) -> Vec<&Sent> {
        let of = |losses: &crate::Losses| {
            let flow = (losses.from.to_owned(), losses.to.to_owned());
            let frames = self.sent.get(&flow).map_or(&[][..], Vec::as_slice);
            losses.frames.iter().filter_map(|&index| frames.get(index as usize)).collect::<Vec<_>>()
        };
        scenario.losses.iter().flat_map(of).collect()
    }
}
