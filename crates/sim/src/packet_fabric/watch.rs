//! What may be written while a packet simulation runs: a trace, a capture, both or neither.

use super::{Data, Recorder, Tracer};
use quincunx_driver_des::{Departure, Direction, Observer};
use quincunx_engine::Frame;
use quincunx_nodes::Station;
use quincunx_wire::RoceHeader;
use std::io::{self, Write};

/// Where something is written.
pub type Out = Box<dyn Write>;

/// What is to be written, and where.
#[derive(Default)]
pub struct Outputs {
    /// A Perfetto trace.
    pub trace: Option<Out>,
    /// A pcapng capture.
    pub capture: Option<Out>,
}

/// An observer that writes what is asked for; nothing by default.
#[derive(Default)]
pub(crate) struct Watcher {
    tracer: Option<Tracer<Out>>,
    recorder: Option<Recorder<Out>>,
}

impl Watcher {
    pub(crate) fn new(outputs: Outputs, links: &[(Direction, String)]) -> io::Result<Self> {
        let Outputs { trace, capture } = outputs;
        Ok(Self {
            tracer: trace.map(|out| Tracer::new(out, links.iter().cloned())).transpose()?,
            recorder: capture.map(|out| Recorder::new(out, links.iter().cloned())),
        })
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.tracer.map(Tracer::finish).transpose()?;
        self.recorder.map(Recorder::finish).transpose()?;
        Ok(())
    }
}

impl<P: Data> Observer<Station<P>> for Watcher {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, P>) {
        if let Some(tracer) = &mut self.tracer {
            tracer.departed(departure, frame);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.record(departure, frame);
        }
    }
}
