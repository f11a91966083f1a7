//! Writes a Perfetto trace of a memory fabric. Below each node:
//!
//! - a track for each link direction that begins there, with a slice for each packet on it;
//! - for each port a counter of the credits in use: packets sent by it whose buffers the other end has not given back;
//! - in a switch with an in-switch accelerator, a track for each entry of its wave tables, with a slice for each wave from
//!   the moment it takes the entry until it has been read out (SCIN 3.4). Where there is no slice the entry is idle.

use super::shape::Wiring;
use quincunx_collective::Payload;
use quincunx_driver_des::{Departure, Direction, NodeIndex};
use quincunx_engine::{Frame, PortId};
use quincunx_nodes::fabric::FabricEvent;
use quincunx_scin::IsaEvent;
use quincunx_trace::{TraceWriter, Track};
use quincunx_units::Instant;
use quincunx_wire::flit::{FlitHeader, Transaction};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// One direction of a link: what is on it, and the credits of the port that sends.
struct Sender {
    link: Track,
    credits: Track,
    /// Packets without their credits back.
    in_use: u32,
}

/// An entry of a switch's wave tables.
struct Entry {
    track: Track,
    /// The wave in it: since when, and its name.
    wave: Option<(Instant, String)>,
}

/// An observer that writes what passes. The first failure to write ends the trace; [`finish`](Self::finish) tells it.
pub(super) struct Tracer<W> {
    trace: TraceWriter<W>,
    nodes: Vec<Track>,
    senders: BTreeMap<Direction, Sender>,
    /// The direction that begins at a node's port.
    directions: BTreeMap<(NodeIndex, PortId), Direction>,
    entries: BTreeMap<(NodeIndex, u16), Entry>,
    failure: Option<io::Error>,
}

impl<W: Write> Tracer<W> {
    pub(super) fn new(out: W, wiring: &Wiring) -> io::Result<Self> {
        let mut trace = TraceWriter::new(out);
        let nodes =
            wiring.names.iter().map(|name| trace.track(name, None)).collect::<io::Result<Vec<_>>>()?;
        let sender = |direction: Direction| {
            let ([(from, _), _], names) = (wiring.ends(direction), wiring.names(direction));
            let parent = nodes[from.0 as usize];
            let sender = Sender {
                link: trace.track(&names.join(" > "), Some(parent))?,
                credits: trace.counter_track(
                    &format!("credits in use to {}", names[1]),
                    "packets",
                    Some(parent),
                )?,
                in_use: 0,
            };
            Ok((direction, sender))
        };
        let senders = wiring.directions().map(sender).collect::<io::Result<_>>()?;
        let begins = |direction| (wiring.ends(direction)[0], direction);
        let directions = wiring.directions().map(begins).collect();
        Ok(Self { trace, nodes, senders, directions, entries: BTreeMap::new(), failure: None })
    }

    /// Ends the trace.
    pub(super) fn finish(self) -> io::Result<W> {
        match self.failure {
            Some(failure) => Err(failure),
            None => self.trace.finish(),
        }
    }

    fn sender(&mut self, direction: Direction) -> (&mut TraceWriter<W>, &mut Sender) {
        (&mut self.trace, self.senders.get_mut(&direction).expect("every direction has its sender"))
    }

    fn sent(&mut self, departure: &Departure, header: &FlitHeader, length: usize) -> io::Result<()> {
        // Credits alone take no time and no credit.
        let Some(channel) = header.channel() else { return Ok(()) };
        let (trace, sender) = self.sender(departure.direction);
        let inc = if channel.inc() { " INC" } else { "" };
        let name = format!("{}{inc} {:#x} {length} B", kind(header.transaction), header.address);
        trace.slice(sender.link, departure.start, departure.end, &name)?;
        sender.in_use += 1;
        trace.counter(sender.credits, departure.start, sender.in_use.into())
    }

    fn credited(
        &mut self,
        at: Instant,
        node: NodeIndex,
        port: PortId,
        header: &FlitHeader,
    ) -> io::Result<()> {
        let packets = u32::from(header.credit.packets);
        if packets == 0 {
            return Ok(());
        }
        let (trace, sender) = self.sender(self.directions[&(node, port)]);
        sender.in_use = sender.in_use.saturating_sub(packets);
        trace.counter(sender.credits, at, sender.in_use.into())
    }

    fn told(&mut self, at: Instant, node: NodeIndex, event: IsaEvent) -> io::Result<()> {
        match event {
            IsaEvent::WaveTaken { entry, controller, instruction, offset, length } => {
                let name = format!(
                    "bytes {offset}..{}, instruction {instruction} of controller {controller}",
                    offset + length
                );
                let parent = self.nodes[node.0 as usize];
                let known = self.entries.entry((node, entry));
                let known = match known {
                    std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::btree_map::Entry::Vacant(vacant) => {
                        let track = self.trace.track(&format!("wave {entry}"), Some(parent))?;
                        vacant.insert(Entry { track, wave: None })
                    }
                };
                known.wave = Some((at, name));
                Ok(())
            }
            IsaEvent::WaveReleased { entry } => {
                let Some(Entry { track, wave }) = self.entries.get_mut(&(node, entry)) else { return Ok(()) };
                let Some((from, name)) = wave.take() else { return Ok(()) };
                self.trace.slice(*track, from, at, &name)
            }
            IsaEvent::Started { .. } | IsaEvent::Written { .. } => Ok(()),
        }
    }

    fn note(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(self).err();
        }
    }
}

impl<W: Write> Tracer<W> {
    pub(super) fn departed<P: Payload>(&mut self, departure: &Departure, frame: Frame<'_, FlitHeader, P>) {
        let length = P::view_length(frame.payload);
        self.note(|trace| trace.sent(departure, frame.header, length));
    }

    pub(super) fn arrived(&mut self, at: Instant, node: NodeIndex, port: PortId, header: &FlitHeader) {
        self.note(|trace| trace.credited(at, node, port, header));
    }

    pub(super) fn emitted(&mut self, at: Instant, node: NodeIndex, event: &FabricEvent) {
        if let FabricEvent::Isa(event) = *event {
            self.note(|trace| trace.told(at, node, event));
        }
    }
}

/// What a packet is, in the words of the memory model.
const fn kind(transaction: Transaction) -> &'static str {
    match transaction {
        Transaction::Credit => "CREDIT",
        Transaction::Read { .. } => "READ",
        Transaction::ReadResponse => "READ RESPONSE",
        Transaction::Write => "WRITE",
        Transaction::WriteResponse => "WRITE RESPONSE",
        Transaction::Add { .. } => "ADD",
        Transaction::Store { .. } => "STORE",
        Transaction::MultimemLoadReduce { .. } => "MULTIMEM LD_REDUCE",
        Transaction::MultimemStore => "MULTIMEM ST",
        Transaction::MultimemAdd { .. } => "MULTIMEM RED",
        Transaction::MultiWrite { .. } => "MULTIWRITE",
    }
}
