//! Writes what is asked for while a memory fabric runs: a trace, and a capture of every packet as [`wire`](quincunx_wire::flit)
//! encodes it. There is no registered link type for such packets: the capture's is the first that is left to users
//! ([`LinkType::User`]).

use super::MemoryFabric;
use super::shape::Wiring;
use super::tracer::Tracer;
use crate::outputs::{Capture, Out, Outputs};
use crate::packet_fabric::Data;
use quincunx_driver_des::{Departure, NodeIndex, Observer};
use quincunx_engine::{Frame, PortId};
use quincunx_nodes::fabric::{FabricEvent, FabricNode, FabricPeer};
use quincunx_units::Instant;
use quincunx_wire::flit::FlitHeader;
use quincunx_wire::pcapng::LinkType;
use std::io;

/// An observer that writes what is asked for.
pub(crate) struct OutputObserver {
    tracer: Option<Tracer<Out>>,
    capture: Option<Capture<Out>>,
}

impl OutputObserver {
    pub(super) fn new(outputs: Outputs, wiring: &Wiring) -> io::Result<Self> {
        let Outputs { trace, capture } = outputs;
        let links = || wiring.directions().map(|direction| (direction, wiring.names(direction).join(" > ")));
        Ok(Self {
            tracer: trace.map(|out| Tracer::new(out, wiring)).transpose()?,
            capture: capture.map(|out| Capture::new(out, LinkType::User, links())),
        })
    }

    /// Of a fabric of accelerators around switches.
    pub(crate) fn of(outputs: Outputs, fabric: &MemoryFabric) -> io::Result<Self> {
        Self::new(outputs, &Wiring::from(fabric))
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.tracer.map(Tracer::finish).transpose()?;
        self.capture.map(Capture::finish).transpose()?;
        Ok(())
    }
}

impl OutputObserver {
    fn sees_departures(&self) -> bool {
        self.capture.is_some() || self.tracer.is_some()
    }

    fn departed<P: Data>(&mut self, departure: &Departure, frame: Frame<'_, FlitHeader, P>) {
        if let Some(capture) = &mut self.capture {
            let payload = P::bytes(frame.payload);
            let length = frame.header.emitted_length(payload.len());
            capture.packet(departure, length, |out| frame.header.emit(&payload, out));
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.departed(departure, frame);
        }
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, port: PortId, header: &FlitHeader) {
        if let Some(tracer) = &mut self.tracer {
            tracer.arrived(at, node, port, header);
        }
    }
}

impl<P: Data> Observer<FabricNode<P>> for OutputObserver {
    fn sees_departures(&self) -> bool {
        self.sees_departures()
    }

    fn departed(&mut self, departure: &Departure, frame: Frame<'_, FlitHeader, P>) {
        self.departed(departure, frame);
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, port: PortId, frame: Frame<'_, FlitHeader, P>) {
        self.arrived(at, node, port, frame.header);
    }

    fn emitted(&mut self, at: Instant, node: NodeIndex, event: &FabricEvent) {
        if let Some(tracer) = &mut self.tracer {
            tracer.emitted(at, node, event);
        }
    }
}

impl<P: Data> Observer<FabricPeer<P>> for OutputObserver {
    fn sees_departures(&self) -> bool {
        self.sees_departures()
    }

    fn departed(&mut self, departure: &Departure, frame: Frame<'_, FlitHeader, P>) {
        self.departed(departure, frame);
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, port: PortId, frame: Frame<'_, FlitHeader, P>) {
        self.arrived(at, node, port, frame.header);
    }
}
