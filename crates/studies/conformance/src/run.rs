//! What a run leaves behind: results, and every frame that was sent; and the views of it that are compared.

use std::collections::BTreeMap;

use quincunx_collective::Numbers;
use quincunx_network::{Fate, LinkDirection};
use quincunx_wire::{Operation, QpNumber, RoceHeader};

use crate::{RunError, Trial};

/// The names of who sends and of whom it is addressed to: the ends of a link, but where switches only forward.
pub type Flow = (String, String);

/// A frame as its sender sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its header.
    pub header: RoceHeader,
    /// What it carried; nothing of a kind of payload without contents.
    pub payload: Vec<u8>,
}

/// What is left of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// By rank; of a Dispatch and the Combine behind it those of both.
    pub outputs: Vec<Numbers>,
    /// For each two nodes, each way, the frames in the order in which they were sent, lost ones among them.
    pub(crate) sent: BTreeMap<Flow, Vec<Sent>>,
}

/// All outputs, if there are no others to come.
pub(crate) fn whole<P>(outputs: impl Iterator<Item = Option<P>>) -> Result<Vec<P>, RunError> {
    let outputs: Vec<Option<P>> = outputs.collect();
    let unfinished = outputs.iter().filter(|output| output.is_none()).count();
    if unfinished > 0 {
        return Err(RunError::Unfinished { unfinished });
    }
    Ok(outputs.into_iter().flatten().collect())
}

impl Sent {
    /// Whether it is an answer to requests: an acknowledge of either kind, or a word about congestion.
    pub fn is_answer(&self) -> bool {
        matches!(self.header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification)
    }
}

impl Run {
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

    /// The frames that a trial's faults lose, as far as they were sent.
    pub fn lost(&self, trial: &Trial) -> Vec<&Sent> {
        let fates = trial.faults.fates.iter().flat_map(|(direction, fates)| {
            fates.iter().filter(|(_, fate)| **fate == Fate::Lost).map(move |(frame, _)| (direction, *frame))
        });
        let sent = |(direction, frame): (&LinkDirection<String>, u64)| {
            let LinkDirection::Between(from, to) = direction else { return None };
            self.sent.get(&(from.clone(), to.clone()))?.get(frame as usize)
        };
        fates.filter_map(sent).collect()
    }
}
