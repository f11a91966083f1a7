//! Writes what is asked for while a packet simulation runs, and counts what is sent again.

use super::retransmissions::Retransmissions;
use super::{Data, Recorder, Tracer};
use crate::outputs::{Out, Outputs};
use quincunx_driver_des::{Departure, Direction, NodeIndex, Observer};
use quincunx_engine::Frame;
use quincunx_nodes::Node;
use quincunx_wire::{Framing, RoceHeader};
use std::io;

/// An observer that writes what is asked for; nothing by default.
#[derive(Default)]
pub(crate) struct OutputObserver {
    pub(super) retransmissions: Retransmissions,
    tracer: Option<Tracer<Out>>,
    recorder: Option<Recorder<Out>>,
}

impl OutputObserver {
    pub(crate) fn new(
        outputs: Outputs,
        framing: Framing,
        links: &[(Direction, String)],
        retransmissions: Retransmissions,
    ) -> io::Result<Self> {
        let Outputs { trace, capture } = outputs;
        Ok(Self {
            retransmissions,
            tracer: trace.map(|out| Tracer::new(out, links.iter().cloned())).transpose()?,
            recorder: capture.map(|out| Recorder::new(out, framing, links.iter().cloned())),
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

    #[inline]
    fn sent(&mut self, node: NodeIndex, frame: Frame<'_, RoceHeader, P>) {
        self.retransmissions.sent(node, frame.header);
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
