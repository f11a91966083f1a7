//! Writes the frames of a packet simulation as a capture that Wireshark opens: an interface for each direction of each link,
//! virtual time as time since 1970. Frames of simulations without contents carry zeroes.

use super::Data;
use quincunx_driver_des::{Departure, Direction, Fate};
use quincunx_engine::Frame;
use quincunx_units::Instant;
use quincunx_wire::pcapng::{InterfaceId, Writer};
use quincunx_wire::{Envelope, MacAddress, RoceHeader, emit_frame, frame_length};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// A capture that grows as frames leave. The first failure to write ends it; [`finish`](Self::finish) tells it.
pub struct Recorder<W> {
    out: W,
    writer: Writer,
    interfaces: BTreeMap<Direction, InterfaceId>,
    frame: Vec<u8>,
    failure: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// A capture of links with these names.
    pub fn new(out: W, links: impl IntoIterator<Item = (Direction, String)>) -> Self {
        let mut writer = Writer::new("quincunx");
        let named = |(direction, name): (Direction, String)| (direction, writer.interface(&name));
        let interfaces = links.into_iter().map(named).collect();
        Self { out, writer, interfaces, frame: Vec::new(), failure: None }
    }

    /// Takes a frame as it is queued. One that was never sent is not captured; one that is lost on the way is.
    pub fn record<P: Data>(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, P>) {
        let interface = self.interfaces.get(&departure.direction);
        let (Some(&interface), true) = (interface, departure.fate != Fate::Refused && self.failure.is_none())
        else {
            return;
        };
        let (header, payload) = (frame.header, P::bytes(frame.payload));
        self.frame.resize(frame_length(&header.operation, payload.len()), 0);
        let envelope = Envelope::new(hardware_address(header.source), hardware_address(header.destination));
        let length = emit_frame(&envelope, header, &payload, &mut self.frame);
        let at = std::time::Duration::from_nanos(departure.start.since(Instant::ZERO).as_nanos());
        self.writer.packet(interface, at, &self.frame[..length]);
        if self.writer.buffered() >= BUFFER {
            self.failure = self.out.write_all(&self.writer.take()).err();
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If any of it could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.out.write_all(&self.writer.take())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A locally administered hardware address that shows the IP address.
fn hardware_address(address: Ipv4Addr) -> MacAddress {
    let [a, b, c, d] = address.octets();
    MacAddress([0x02, 0, a, b, c, d])
}
