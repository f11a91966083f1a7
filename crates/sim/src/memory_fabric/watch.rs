//! Writes what is asked for while a memory fabric runs: a trace, and a capture of every packet as [`wire`](quincunx_wire::flit)
//! encodes it. There is no registered link type for such packets: the capture's is the first that is left to users
//! ([`LinkType::User`]).

use super::MemoryFabric;
use super::tracer::Tracer;
use crate::outputs::{Capture, Out, Outputs};
use crate::packet_fabric::Data;
use quincunx_driver_des::{Departure, NodeIndex, Observer};
use quincunx_engine::{Frame, PortId};
use quincunx_nodes::fabric::{FabricEvent, FabricNode};
use quincunx_units::Instant;
use quincunx_wire::flit::FlitHeader;
use quincunx_wire::pcapng::LinkType;
use std::io;

/// An observer that writes what is asked for.
pub(super) struct Watcher {
    tracer: Option<Tracer<Out>>,
    capture: Option<Capture<Out>>,
}

impl Watcher {
    pub(super) fn new(outputs: Outputs, fabric: &MemoryFabric) -> io::Result<Self> {
        let Outputs { trace, capture } = outputs;
        let links = || fabric.directions().map(|direction| (direction, fabric.names(direction).join(" > ")));
        Ok(Self {
            tracer: trace.map(|out| Tracer::new(out, fabric)).transpose()?,
            capture: capture.map(|out| Capture::new(out, LinkType::User, links())),
        })
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.tracer.map(Tracer::finish).transpose()?;
        self.capture.map(Capture::finish).transpose()?;
        Ok(())
    }
}

impl<P: Data> Observer<FabricNode<P>> for Watcher {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, FlitHeader, P>) {
        if let Some(capture) = &mut self.capture {
            let payload = P::bytes(frame.payload);
            let length = frame.header.emitted_length(payload.len());
            capture.packet(departure, length, |out| frame.header.emit(&payload, out));
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.departed(departure, frame);
        }
    }

    fn arrived(&mut self, at: Instant, node: NodeIndex, port: PortId, frame: Frame<'_, FlitHeader, P>) {
        if let Some(tracer) = &mut self.tracer {
            tracer.arrived(at, node, port, frame);
        }
    }

    fn emitted(&mut self, at: Instant, node: NodeIndex, event: &FabricEvent) {
        if let Some(tracer) = &mut self.tracer {
            Observer::<FabricNode<P>>::emitted(tracer, at, node, event);
        }
    }
}
