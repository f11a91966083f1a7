//! The whole switch: it learns where addresses are, adds up what is for aggregation, and forwards everything else unchanged.
//!
//! Its header keeps the bytes that it was read from: a switch passes on what it does not understand.

use crate::aggregator::{Aggregator, Arrival, Destination, DropReason, Judgement, Outlet, Reason};
use crate::config::{ConfigError, Shape};
use crate::registers::PortConfig;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use quincunx_collective::{Payload, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::Instant;
use quincunx_wire::bth::{self, BthView};
use quincunx_wire::ethernet::{self, EthernetView};
use quincunx_wire::grh::GrhView;
use quincunx_wire::netreduce::{self, NetReduceHeader};
use quincunx_wire::{MacAddress, Psn, QpNumber, icrc, immediate, reth, v1};

/// Bytes before the payload of a Write First: Ethernet, GRH, BTH, RETH.
const LONGEST: usize = v1::HEADERS_BELOW_BTH + bth::LENGTH + reth::LENGTH;

/// Addresses that each port remembers.
const REMEMBERED: usize = 4;

/// What a frame begins with.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    bytes: [u8; LONGEST],
    length: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// One of the four opcodes in its length: its ICRC as it came, and whether it is right. None: one is to be made.
    Write { is_first: bool, icrc: Option<(u32, bool)> },
    /// Anything else; the payload is what follows the Ethernet header, to the end of the frame.
    Other,
}

impl fmt::Debug for EthernetHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("EthernetHeader");
        debug.field("destination", &self.destination()).field("source", &self.source());
        match self.kind {
            Kind::Write { is_first, .. } => {
                debug.field("is_first", &is_first).field("psn", &self.psn()).finish()
            }
            Kind::Other => debug.finish_non_exhaustive(),
        }
    }
}

impl EthernetHeader {
    /// Reads a frame without frame check sequence: its header, and where its payload lies. None for a runt. `payload` is what every frame
    /// for aggregation carries: 1,024 bytes.
    pub fn parse(frame: &[u8], payload: usize) -> Option<(Self, Range<usize>)> {
        if frame.len() < ethernet::LENGTH {
            return None;
        }
        let (kind, range) = match Self::write(frame, payload) {
            Some((is_first, range)) => {
                let found = frame[range.end..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                (Kind::Write { is_first, icrc: Some((found, v1::has_right_icrc(frame))) }, range)
            }
            None => (Kind::Other, ethernet::LENGTH..frame.len()),
        };
        let mut bytes = [0; LONGEST];
        bytes[..range.start].copy_from_slice(&frame[..range.start]);
        Some((Self { bytes, length: range.start, kind }, range))
    }

    /// Whether a frame is a Write First, and where its payload lies, if it has one of the four opcodes and exactly that length.
    fn write(frame: &[u8], payload: usize) -> Option<(bool, Range<usize>)> {
        if !v1::is_roce_v1(frame) {
            return None;
        }
        let bth = BthView::new(frame[v1::HEADERS_BELOW_BTH..].first_chunk()?);
        let extension = match bth.opcode() {
            0x06 => reth::LENGTH,
            0x07 | 0x08 => 0,
            0x09 => immediate::LENGTH,
            _ => return None,
        };
        let start = v1::HEADERS_BELOW_BTH + bth::LENGTH + extension;
        let is_whole = frame.len() == start + payload + icrc::LENGTH;
        is_whole.then_some((extension == reth::LENGTH, start..start + payload))
    }

    /// Bytes of a frame with so much payload.
    pub const fn frame_length(&self, payload: usize) -> usize {
        let trailer = if matches!(self.kind, Kind::Write { .. }) { icrc::LENGTH } else { 0 };
        self.length + payload + trailer
    }

    /// Writes a frame to the start of `out`; returns its length.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn emit(&self, payload: &[u8], out: &mut [u8]) -> usize {
        let end = self.length + payload.len();
        out[..self.length].copy_from_slice(&self.bytes[..self.length]);
        out[self.length..end].copy_from_slice(payload);
        if let Kind::Write { icrc, .. } = self.kind {
            let crc = icrc.map_or_else(|| v1::invariant_crc(&out[..end]), |(found, _)| found);
            out[end..end + icrc::LENGTH].copy_from_slice(&crc.to_le_bytes());
        }
        self.frame_length(payload.len())
    }

    fn ethernet(&self) -> EthernetView<'_> {
        EthernetView::split(&self.bytes).expect("the longest header has one").0
    }

    /// Receiver.
    pub fn destination(&self) -> MacAddress {
        self.ethernet().destination()
    }

    /// Sender.
    pub fn source(&self) -> MacAddress {
        self.ethernet().source()
    }

    fn bth(&self) -> BthView<'_> {
        BthView::new(self.bytes[v1::HEADERS_BELOW_BTH..].first_chunk().expect("the longest header has one"))
    }

    /// Whether its sender says that it is for aggregation.
    fn is_labelled(&self) -> bool {
        let grh = GrhView::split(&self.bytes[ethernet::LENGTH..]).expect("the longest header has one").0;
        grh.flow_label() == netreduce::FLOW_LABEL
    }

    fn queue_pair(&self) -> QpNumber {
        self.bth().destination_qp()
    }

    fn psn(&self) -> Psn {
        self.bth().psn()
    }

    /// The same before another payload.
    fn with_new_icrc(&self) -> Self {
        let kind = match self.kind {
            Kind::Write { is_first, .. } => Kind::Write { is_first, icrc: None },
            Kind::Other => Kind::Other,
        };
        Self { kind, ..self.clone() }
    }
}

/// Where frames for an address go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Out of this port.
    Port(u16),
    /// Back where it came from: it stays away.
    Filtered,
    /// Out of every port but the one it came in by.
    Flooded,
}

/// The forwarding table of the Port Analyzers (IV.B).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MacTable {
    ports: Vec<Remembered>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Remembered {
    addresses: [Option<MacAddress>; REMEMBERED],
    next: usize,
}

impl MacTable {
    /// A table that knows nobody.
    pub fn new(ports: u16) -> Self {
        let nobody = Remembered { addresses: [None; REMEMBERED], next: 0 };
        Self { ports: vec![nobody; usize::from(ports)] }
    }

    /// Notes that `address` is behind `port`, and behind no other. A group address is nobody's.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn learn(&mut self, port: u16, address: MacAddress) {
        if address.is_group() {
            return;
        }
        for (number, other) in self.ports.iter_mut().enumerate() {
            if number != usize::from(port) {
                other
                    .addresses
                    .iter_mut()
                    .filter(|known| **known == Some(address))
                    .for_each(|known| *known = None);
            }
        }
        let own = &mut self.ports[usize::from(port)];
        if !own.addresses.contains(&Some(address)) {
            own.addresses[own.next] = Some(address);
            own.next = (own.next + 1) % REMEMBERED;
        }
    }

    /// Where a frame for `address` that came in by `port` goes.
    pub fn way(&self, port: u16, address: MacAddress) -> Way {
        let knows = |remembered: &Remembered| remembered.addresses.contains(&Some(address));
        match self.ports.iter().position(knows) {
            _ if address.is_group() => Way::Flooded,
            None => Way::Flooded,
            Some(found) if found == usize::from(port) => Way::Filtered,
            Some(found) => Way::Port(found as u16),
        }
    }
}

/// What a switch is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetSwitchConfig {
    /// Ports and buffers.
    pub shape: Shape,
    /// AGG_MODE, as what it does.
    pub reduction: Reduction,
    /// AGG_PORT_CFG.
    pub ports: PortConfig,
}

/// Why a frame is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EthernetDrop {
    /// Its destination is where it came from.
    Filtered,
    /// A frame for aggregation whose invariant CRC is wrong.
    BadIcrc,
    /// A frame for aggregation that cannot be taken.
    Aggregation(DropReason),
}

impl EthernetDrop {
    /// What people read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filtered => "filtered",
            Self::BadIcrc => "bad ICRC",
            Self::Aggregation(reason) => reason.name(),
        }
    }
}

/// The whole switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EthernetSwitch<P: Payload> {
    table: MacTable,
    aggregator: Aggregator<EthernetHeader, P>,
}

impl<P: Payload> EthernetSwitch<P> {
    /// Port Learning Stage, first half (IV.B): notes that a frame's source is behind `port`.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn learn(&mut self, port: u16, header: &EthernetHeader) {
        self.table.learn(port, header.source());
    }

    /// Its second half: where a frame that came in by `port` goes, as far as its destination says.
    pub fn way(&self, port: u16, header: &EthernetHeader) -> Way {
        self.table.way(port, header.destination())
    }

    /// All that follows, for a frame whose way was found: it is added up, forwarded or dropped. Hardware has frames of other ports between
    /// these three; one after the other they are [`handle_frame`](Engine::handle_frame).
    ///
    /// # Panics
    /// If there is no such port.
    pub fn pass(
        &mut self,
        port: u16,
        way: Way,
        frame: Frame<'_, EthernetHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        let Frame { header, payload } = frame;
        if way == Way::Filtered {
            return out.drop_frame(PortId(port), EthernetDrop::Filtered);
        }
        if let Kind::Write { is_first, icrc } = header.kind {
            let contents = P::contents(P::reborrow(payload)).unwrap_or_default();
            let matches = netreduce::is_for_aggregation(contents);
            let begins = NetReduceHeader::parse(contents).is_ok_and(|header| header.message == 0);
            let (queue_pair, psn) = (header.queue_pair(), header.psn());
            match self.aggregator.judge(port, is_first, (matches, header.is_labelled()), queue_pair) {
                Judgement::Forward => {}
                Judgement::Drop(reason) => {
                    return out.drop_frame(PortId(port), EthernetDrop::Aggregation(reason));
                }
                Judgement::Aggregate if icrc.is_some_and(|(_, is_right)| !is_right) => {
                    return out.drop_frame(PortId(port), EthernetDrop::BadIcrc);
                }
                Judgement::Aggregate => {
                    let destination = match way {
                        Way::Port(to) => Some(to),
                        Way::Filtered | Way::Flooded => None,
                    };
                    let arrival =
                        Arrival { port, header, is_first, begins, queue_pair, psn, destination, payload };
                    if let Err(reason) = self.aggregator.take(&arrival, &mut Ports(&mut *out)) {
                        out.drop_frame(PortId(port), EthernetDrop::Aggregation(reason));
                    }
                    return;
                }
            }
        }
        match way {
            Way::Port(to) => out.transmit(PortId(to), frame),
            Way::Filtered | Way::Flooded => {
                (0..self.aggregator.shape().ports)
                    .filter(|&other| other != port)
                    .for_each(|other| out.transmit(PortId(other), frame));
            }
        }
    }
}

/// Sends results out of ports.
struct Ports<'a, S>(&'a mut S);

impl<P: Payload, S: Sink<EthernetSwitch<P>>> Outlet<EthernetHeader, P> for Ports<'_, S> {
    fn send(&mut self, _: Reason, to: Destination, header: &EthernetHeader, payload: P::View<'_>) {
        let header = header.with_new_icrc();
        self.0.transmit(PortId(to), Frame { header: &header, payload: P::reborrow(payload) });
    }
}

impl<P: Payload> Engine for EthernetSwitch<P> {
    type Config = EthernetSwitchConfig;
    type ConfigError = ConfigError;
    type Header = EthernetHeader;
    type Payload = P;
    type Timer = ();
    /// Both registers: what was under way is forgotten.
    type Command = (PortConfig, Reduction);
    type Rejected = core::convert::Infallible;
    type Event = core::convert::Infallible;
    type DropReason = EthernetDrop;

    fn new(config: EthernetSwitchConfig) -> Result<Self, ConfigError> {
        let EthernetSwitchConfig { shape, reduction, ports } = config;
        let mut aggregator = Aggregator::new(shape, reduction)?;
        aggregator.configure(ports, reduction);
        Ok(Self { table: MacTable::new(shape.ports), aggregator })
    }

    fn handle_frame(
        &mut self,
        _now: Instant,
        PortId(port): PortId,
        frame: Frame<'_, EthernetHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        if port >= self.aggregator.shape().ports {
            return;
        }
        self.learn(port, frame.header);
        let way = self.way(port, frame.header);
        self.pass(port, way, frame, out);
    }

    fn handle_timer(&mut self, _: Instant, (): (), _: &mut impl Sink<Self>) {}

    fn handle_command(
        &mut self,
        _: Instant,
        (ports, reduction): (PortConfig, Reduction),
        _: &mut impl Sink<Self>,
    ) -> Result<(), Self::Rejected> {
        self.aggregator.configure(ports, reduction);
        Ok(())
    }

    fn wants_transmit(&self, _: PortId) -> bool {
        false
    }

    fn may_want_transmit(&self) -> bool {
        false
    }

    fn handle_transmit_slot(&mut self, _: Instant, _: PortId, _: &mut impl Sink<Self>) {}

    fn assert_invariants(&self) {
        self.aggregator.assert_invariants();
    }
}
