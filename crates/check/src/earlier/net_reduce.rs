//! NetReduce's switch as AllReduce-Switch tells of it (III.A, IV.C, IV.D): buffers for four message flows a port, found by PSN.

use quincunx_collective::{Payload, Provenance};
use quincunx_engine::{PortId, Sink};

use crate::earlier::frame::{self, DropReason, Header, View, Whole};
use crate::earlier::rules::{FLOWS, NetReduceRule};
use crate::earlier::setup::StarSetup;

/// NetReduce's switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowBuffers {
    rule: NetReduceRule,
    /// Frames of a message.
    frames: u8,
    ports: Vec<Port>,
    /// The aggregation status buffer: how many frames of each index there are.
    counts: Vec<u16>,
    /// The aggregation result buffer: results with the frame that they answer.
    results: Vec<Option<Buffered>>,
}

/// A PSN, and what belongs to it. PSNs begin at zero, and chunks are numbered by them.
type Buffered = (u8, Provenance);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Port {
    /// The flow that is opened next.
    next: u8,
    /// The first PSN of each flow.
    bases: [Option<u8>; FLOWS as usize],
    /// The frame status buffer: which frames there are, by index.
    status: Vec<bool>,
    /// The frame header and payload buffers. Not cleared with the status.
    buffered: Vec<Option<Buffered>>,
    /// The PSN that comes next.
    expected: u8,
}

impl Port {
    /// A message begins: the next flow is its.
    fn open(&mut self, psn: u8, frames: u8) -> usize {
        let column = usize::from(self.next);
        self.bases[column] = Some(psn);
        let first = column * usize::from(frames);
        self.status[first..][..usize::from(frames)].fill(false);
        self.next = (self.next + 1) % FLOWS;
        first
    }

    /// The index of a frame, looked for in the newest flow first.
    fn find(&self, psn: u8, frames: u8) -> Option<usize> {
        let newest_first = (1..=FLOWS).map(|age| usize::from((self.next + FLOWS - age) % FLOWS));
        newest_first.into_iter().find_map(|column| {
            let distance = psn.checked_sub(self.bases[column]?).filter(|distance| *distance < frames)?;
            Some(column * usize::from(frames) + usize::from(distance))
        })
    }
}

impl FlowBuffers {
    pub(crate) fn new(setup: &StarSetup, rule: NetReduceRule) -> Self {
        let places = usize::from(FLOWS) * usize::from(setup.frames);
        let port = Port {
            next: 0,
            bases: [None; FLOWS as usize],
            status: vec![false; places],
            buffered: vec![None; places],
            expected: 0,
        };
        Self {
            rule,
            frames: setup.frames,
            ports: vec![port; usize::from(setup.workers)],
            counts: vec![0; places],
            results: vec![None; places],
        }
    }

    /// Takes a frame of a worker.
    pub(crate) fn take<E: Whole>(
        &mut self,
        from: PortId,
        psn: u8,
        payload: View<'_>,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        let index = self.index(from, psn)?;
        let port = &mut self.ports[usize::from(from.0)];
        if port.status[index] {
            return self.answer(from, psn, index, payload, out);
        }
        port.status[index] = true;
        port.buffered[index] = Some((psn, Provenance::from_view(payload)));
        self.counts[index] += 1;
        if usize::from(self.counts[index]) == self.ports.len() {
            self.counts[index] = 0;
            self.aggregate(psn, index, payload, out);
        }
        Ok(())
    }

    /// Where a frame belongs.
    fn index(&mut self, from: PortId, psn: u8) -> Result<usize, DropReason> {
        let (frames, port) = (self.frames, &mut self.ports[usize::from(from.0)]);
        let mut opens = psn.is_multiple_of(frames);
        if self.rule >= NetReduceRule::InOrder {
            if psn > port.expected {
                return Err(DropReason::Gap);
            }
            opens &= psn == port.expected;
            port.expected += u8::from(psn == port.expected);
        }
        if opens { Ok(port.open(psn, frames)) } else { port.find(psn, frames).ok_or(DropReason::NoPlace) }
    }

    /// A frame that has been buffered comes again: its sender gets the result once more.
    fn answer<E: Whole>(
        &self,
        from: PortId,
        psn: u8,
        index: usize,
        payload: View<'_>,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        let header = Header::Result { chunk: psn };
        match &self.results[index] {
            Some((stamp, _)) if self.rule >= NetReduceRule::StampedResults && *stamp != psn => {
                Err(DropReason::HasIt)
            }
            None if self.rule >= NetReduceRule::StampedResults => Err(DropReason::HasIt),
            Some((_, result)) => {
                frame::send(from, header, result, out);
                Ok(())
            }
            None => {
                frame::send(from, header, &nothing_like(payload), out);
                Ok(())
            }
        }
    }

    /// Adds up what lies at an index of all ports, and sends it to each with the header that lies there.
    fn aggregate<E: Whole>(&mut self, psn: u8, index: usize, like: View<'_>, out: &mut impl Sink<E>) {
        let mut sum = nothing_like(like);
        for (_, payload) in self.ports.iter().filter_map(|port| port.buffered[index].as_ref()) {
            frame::add(&mut sum, payload.view(0..payload.length()));
        }
        for (number, port) in self.ports.iter().enumerate() {
            if let Some((psn, _)) = port.buffered[index] {
                frame::send(PortId(number as u16), Header::Result { chunk: psn }, &sum, out);
            }
        }
        self.results[index] = Some((psn, sum));
    }
}

fn nothing_like(payload: View<'_>) -> Provenance {
    Provenance::zeroed(Provenance::view_length(payload))
}
