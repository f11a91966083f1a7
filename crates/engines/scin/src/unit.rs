//! The in-switch accelerator as a unit of a switch: it takes all packets of the channels with the INC bit (SCIN 3.2).

use crate::{Isa, IsaDrop, IsaEvent};
use quincunx_collective::Payload;
use quincunx_design::{Buffer, SwitchUnit, UnitEvent, UnitTrack};
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{Channel, ChannelSet, FlitHeader};

impl<P: Payload> SwitchUnit<P> for Isa<P> {
    fn takes(&self, header: &FlitHeader) -> bool {
        header.inc
    }

    fn handle_packet(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<Buffer, &'static str> {
        // It has reserved room for whatever it asked for (SCIN 3.4).
        self.handle_packet(now, port, header, payload).map(|()| Buffer::Free).map_err(IsaDrop::reason)
    }

    fn next_event(&mut self) -> Option<UnitEvent> {
        self.next_event().map(UnitEvent::from)
    }

    fn arm(&mut self, now: Instant) -> Option<Duration> {
        self.arm(now)
    }

    fn handle_timer(&mut self, now: Instant) {
        self.handle_timer(now);
    }

    fn ready(&self, port: PortId) -> ChannelSet {
        let mut ready = ChannelSet::NONE;
        for (channel, present) in self.ready(port) {
            ready.set(channel, present);
        }
        ready
    }

    fn has_queued(&mut self) -> bool {
        self.has_queued()
    }

    fn next_packet(&mut self, port: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        self.next_packet(port, channel)
    }

    fn buffer_bytes(&self) -> usize {
        self.buffer_bytes()
    }

    fn assert_invariants(&self) {
        self.assert_invariants();
    }
}

/// Streams are wave controllers, operations instructions; each entry of the wave tables is a track.
impl From<IsaEvent> for UnitEvent {
    fn from(event: IsaEvent) -> Self {
        let track = |entry| UnitTrack { kind: "wave", number: entry };
        match event {
            IsaEvent::Started { controller, instruction } => {
                Self::Begun { stream: controller, operation: instruction }
            }
            IsaEvent::Written { controller, instruction } => {
                Self::Written { stream: controller, operation: instruction }
            }
            IsaEvent::WaveTaken { entry, controller, instruction, offset, length } => {
                let (stream, operation) = (controller, instruction);
                Self::Taken { track: track(entry), stream, operation, offset, length }
            }
            IsaEvent::WaveReleased { entry } => Self::Released { track: track(entry) },
        }
    }
}

impl IsaDrop {
    /// For those who count drops by their reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Source => "not from the accelerator at that port",
            Self::UnexpectedResponse => "a response that the in-switch accelerator does not wait for",
            Self::UnexpectedTransaction => "a transaction that the in-switch accelerator does not serve",
        }
    }
}
