//! Writes the frames of a packet simulation as a capture that Wireshark opens. Frames of simulations without contents carry
//! zeroes.

use super::Data;
use crate::outputs::Capture;
use quincunx_driver_des::{Departure, Direction};
use quincunx_engine::Frame;
use quincunx_wire::pcapng::LinkType;
use quincunx_wire::{Envelope, Framing, MacAddress, RoceHeader, emit_frame, v1};
use std::io::{self, Write};

/// A capture that grows as frames leave. The first failure to write ends it; [`finish`](Self::finish) tells it.
pub(super) struct Recorder<W> {
    capture: Capture<W>,
    framing: Framing,
}

impl<W: Write> Recorder<W> {
    /// A capture of links with these names, of frames of one kind.
    pub(super) fn new(
        out: W,
        framing: Framing,
        links: impl IntoIterator<Item = (Direction, String)>,
    ) -> Self {
        Self { capture: Capture::new(out, LinkType::Ethernet, links), framing }
    }

    /// Takes a frame as it is queued. One that was never sent is not captured; one that is lost on the way is.
    pub(super) fn record<P: Data>(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, P>) {
        if departure.fate.is_none() {
            return;
        }
        let (header, payload) = (frame.header, P::bytes(frame.payload));
        let envelope =
            Envelope::new(MacAddress::showing(header.source), MacAddress::showing(header.destination));
        let (framing, length) = (self.framing, self.framing.frame_length(&header.operation, payload.len()));
        self.capture.packet(departure, length, |out| {
            match framing {
                Framing::RoceV2 => emit_frame(&envelope, header, &payload, out),
                Framing::RoceV1 => v1::emit_frame(&envelope.ethernet, header, &payload, out),
            };
        });
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> io::Result<W> {
        self.capture.finish()
    }
}
