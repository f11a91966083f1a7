//! What may be written while a simulation runs, whatever its fabric: a trace, a capture, both or neither.

use quincunx_driver_des::{Departure, Direction};
use quincunx_units::Instant;
use quincunx_wire::pcapng::{InterfaceId, LinkType, Writer};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Where something is written.
pub type Out = Box<dyn Write + Send>;

/// What is to be written, and where.
#[derive(Default)]
pub struct Outputs {
    /// A Perfetto trace.
    pub trace: Option<Out>,
    /// A pcapng capture.
    pub capture: Option<Out>,
}

impl Outputs {
    /// Whether there is nothing to write.
    pub(crate) fn is_none(&self) -> bool {
        self.trace.is_none() && self.capture.is_none()
    }
}

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// A capture that grows as packets leave: an interface for each direction of each link, virtual time as time since 1970.
/// The first failure to write ends it; [`finish`](Self::finish) tells it.
pub(crate) struct Capture<W> {
    out: W,
    writer: Writer,
    interfaces: BTreeMap<Direction, InterfaceId>,
    packet: Vec<u8>,
    failure: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// A capture of links with these names.
    pub(crate) fn new(
        out: W,
        packets: LinkType,
        links: impl IntoIterator<Item = (Direction, String)>,
    ) -> Self {
        let mut writer = Writer::new("quincunx");
        let named = |(direction, name): (Direction, String)| (direction, writer.interface_of(&name, packets));
        let interfaces = links.into_iter().map(named).collect();
        Self { out, writer, interfaces, packet: Vec::new(), failure: None }
    }

    /// Takes a packet of `length` bytes, which `emit` writes.
    pub(crate) fn packet(&mut self, departure: &Departure, length: usize, emit: impl FnOnce(&mut [u8])) {
        let interface = self.interfaces.get(&departure.direction);
        let (Some(&interface), None) = (interface, &self.failure) else { return };
        self.packet.resize(length, 0);
        emit(&mut self.packet);
        let at = std::time::Duration::from_nanos(departure.start.since(Instant::ZERO).as_nanos());
        self.writer.packet(interface, at, &self.packet);
        if self.writer.buffered() >= BUFFER {
            self.failure = self.out.write_all(&self.writer.take()).err();
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If any of it could not be written.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.out.write_all(&self.writer.take())?;
        self.out.flush()?;
        Ok(self.out)
    }
}
