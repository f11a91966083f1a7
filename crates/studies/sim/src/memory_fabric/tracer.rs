//! Writes a Perfetto trace of a memory fabric. Below each node:
//!
//! - a track for each link direction that begins there, with a slice for each packet on it;
//! - for each port a counter of the credits in use: packets sent by it whose buffers the other end has not given back;
//! - in a switch that computes, a track for each resource that its units tell of, with a slice for each part of a vector, from the
//!   moment it takes the resource until it is released: the waves in SCIN's wave tables (SCIN 3.4). Where there is no slice the
//!   resource is idle;
//! - a counter for each level that its units tell of: the entries that are taken of a port's table.

use super::shape::Wiring;
use quincunx_collective::Payload;
use quincunx_design::{UnitEvent, UnitTrack};
use quincunx_driver_des::{Departure, Direction, NodeIndex};
use quincunx_engine::{Frame, PortId};
use quincunx_nodes::fabric::FabricEvent;
use quincunx_trace::{TraceWriter, Track};
use quincunx_units::Instant;
use quincunx_wire::flit::FlitHeader;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Write};

/// One direction of a link: what is on it, and the credits of the port that sends.
struct Sender {
    link: Track,
    credits: Track,
    /// Packets without their credits back.
    in_use: u32,
}

/// A resource of a switch's unit.
struct Resource {
    track: Track,
    /// What has taken it: since when, and its name.
    taken: Option<(Instant, String)>,
}

/// An observer that writes what passes. The first failure to write ends the trace; [`finish`](Self::finish) tells it.
pub(super) struct Tracer<W> {
    trace: TraceWriter<W>,
    nodes: Vec<Track>,
    senders: BTreeMap<Direction, Sender>,
    /// The direction that begins at a node's port.
    directions: BTreeMap<(NodeIndex, PortId), Direction>,
    /// Those that have been taken, by switch and unit.
    resources: BTreeMap<(NodeIndex, u16, UnitTrack), Resource>,
    /// Those that have been told, by switch, unit, kind and number.
    levels: BTreeMap<(NodeIndex, u16, &'static str, u16), Track>,
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
        Ok(Self {
            trace,
            nodes,
            senders,
            directions,
            resources: BTreeMap::new(),
            levels: BTreeMap::new(),
            failure: None,
        })
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
        let name = format!("{}{inc} {:#x} {length} B", header.transaction.name(), header.address);
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

    fn told(&mut self, at: Instant, node: NodeIndex, unit: u16, event: UnitEvent) -> io::Result<()> {
        match event {
            UnitEvent::Taken { track, stream, operation, offset, length } => {
                let name =
                    format!("bytes {offset}..{}, operation {operation} of stream {stream}", offset + length);
                let parent = self.nodes[node.0 as usize];
                let resource = match self.resources.entry((node, unit, track)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(vacant) => {
                        let UnitTrack { kind, number } = track;
                        let track = self.trace.track(&format!("{kind} {number}"), Some(parent))?;
                        vacant.insert(Resource { track, taken: None })
                    }
                };
                resource.taken = Some((at, name));
                Ok(())
            }
            UnitEvent::Released { track } => {
                let Some(Resource { track, taken }) = self.resources.get_mut(&(node, unit, track)) else {
                    return Ok(());
                };
                let Some((from, name)) = taken.take() else { return Ok(()) };
                self.trace.slice(*track, from, at, &name)
            }
            UnitEvent::Level { kind, number, level } => {
                let parent = self.nodes[node.0 as usize];
                let track = match self.levels.entry((node, unit, kind, number)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(vacant) => {
                        let name = format!("{kind} {number}");
                        *vacant.insert(self.trace.counter_track(&name, "", Some(parent))?)
                    }
                };
                self.trace.counter(track, at, level.into())
            }
            UnitEvent::Begun { .. } | UnitEvent::Written { .. } => Ok(()),
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
        if let FabricEvent::Unit { unit, event } = *event {
            self.note(|trace| trace.told(at, node, unit, event));
        }
    }
}
