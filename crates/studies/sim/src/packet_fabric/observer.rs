//! Writes what is asked for while a packet simulation runs.

use super::Data;
use super::build::directions;
use super::recorder::Recorder;
use super::tracer::Tracer;
use crate::outputs::{Out, Outputs};
use quincunx_cluster::Cluster;
use quincunx_driver_des::{Departure, Observer};
use quincunx_engine::Frame;
use quincunx_nodes::Node;
use quincunx_wire::RoceHeader;
use std::io;

/// An observer that writes what is asked for; nothing by default.
#[derive(Default)]
pub(crate) struct OutputObserver {
    tracer: Option<Tracer<Out>>,
    recorder: Option<Recorder<Out>>,
}

impl OutputObserver {
    pub(crate) fn new(outputs: Outputs, cluster: &Cluster) -> io::Result<Self> {
        let Outputs { trace, capture } = outputs;
        Ok(Self {
            tracer: trace.map(|out| Tracer::new(out, directions(cluster))).transpose()?,
            recorder: capture.map(|out| Recorder::new(out, cluster.framing(), directions(cluster))),
        })
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.tracer.map(Tracer::finish).transpose()?;
        self.recorder.map(Recorder::finish).transpose()?;
        Ok(())
    }
}

impl<P: Data> Observer<Node<P>> for OutputObserver {
    fn sees_departures(&self) -> bool {
        self.tracer.is_some() || self.recorder.is_some()
    }

    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, P>) {
        if let Some(tracer) = &mut self.tracer {
            tracer.departed(departure, frame);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.record(departure, frame);
        }
    }
}
