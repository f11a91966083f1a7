//! Writes a Perfetto trace of a packet simulation: a track for each direction of each link, a slice for each frame.

use quincunx_collective::Payload;
use quincunx_driver_des::{Departure, Direction, Observer};
use quincunx_engine::Frame;
use quincunx_network::{Delay, Fate};
use quincunx_nodes::Node;
use quincunx_trace::{TraceWriter, Track};
use quincunx_wire::{Aeth, Operation, RoceHeader, Syndrome};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// An observer that writes what passes. The first failure to write ends the trace; [`finish`](Self::finish) tells it.
pub(super) struct Tracer<W> {
    trace: TraceWriter<W>,
    tracks: BTreeMap<Direction, Track>,
    failure: Option<io::Error>,
}

impl<W: Write> Tracer<W> {
    /// A trace of links with these names.
    pub(super) fn new(out: W, links: impl IntoIterator<Item = (Direction, String)>) -> io::Result<Self> {
        let mut trace = TraceWriter::new(out);
        let tracks = links.into_iter().map(|(direction, name)| Ok((direction, trace.track(&name, None)?)));
        let tracks = tracks.collect::<io::Result<_>>()?;
        Ok(Self { trace, tracks, failure: None })
    }

    /// Ends the trace.
    pub(super) fn finish(self) -> io::Result<W> {
        match self.failure {
            Some(failure) => Err(failure),
            None => self.trace.finish(),
        }
    }

    fn write(&mut self, departure: &Departure, header: &RoceHeader, length: usize) -> io::Result<()> {
        let Some(&track) = self.tracks.get(&departure.direction) else { return Ok(()) };
        let fate = match departure.fate {
            Some(Fate::Delivered | Fate::Late(Delay::Until(_))) => "",
            Some(Fate::Lost) => ", lost",
            Some(Fate::Doubled { .. }) => ", doubled",
            Some(Fate::Late(_)) => ", held back",
            None => ", no room",
        };
        let (psn, mark) = (header.psn.value(), if departure.marked { ", marked" } else { "" });
        let name = format!("{} {psn:#08x} {length} B{mark}{fate}", kind(&header.operation));
        match departure.fate {
            None => self.trace.instant(track, departure.queued, &name),
            Some(_) => self.trace.slice(track, departure.start, departure.end, &name),
        }
    }
}

/// What a frame is, in the words that people use of it.
const fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Send(_) | Operation::SendLastImmediate(_) | Operation::SendOnlyImmediate(_) => "SEND",
        Operation::WriteFirst(_)
        | Operation::WriteMiddle
        | Operation::WriteLast
        | Operation::WriteLastImmediate(_)
        | Operation::WriteOnly(_)
        | Operation::WriteOnlyImmediate(..) => "WRITE",
        Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(_), .. }) => "ACK",
        Operation::Acknowledge(Aeth { syndrome: Syndrome::ReceiverNotReady(_), .. }) => "RNR",
        Operation::Acknowledge(_) => "NAK",
        Operation::CongestionNotification => "CNP",
        _ => "OTHER",
    }
}

impl<P: Payload, W: Write> Observer<Node<P>> for Tracer<W> {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, P>) {
        if self.failure.is_none() {
            let length = P::view_length(frame.payload);
            self.failure = self.write(departure, frame.header, length).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulate_with_outputs;
    use crate::{Contents, Outputs, Request, ignore_progress};
    use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
    use quincunx_designs::CATALOG;
    use quincunx_scenario::Scenario;
    use quincunx_units::ByteCount;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn request() -> Request {
        let scenario = Scenario::find("epic-star8", &[], CATALOG).unwrap();
        Request {
            design: scenario.design(CATALOG, "epic-3").unwrap(),
            scenario,
            collective: Collective::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            size: ByteCount::new(8192),
            contents: Contents::LengthOnly,
            background: None,
            seed: 1,
        }
    }

    #[test]
    fn a_trace_has_a_track_a_direction_and_a_slice_a_frame() {
        let out = Shared::default();
        let outputs = Outputs { trace: Some(Box::new(out.clone())), capture: None };
        let row = simulate_with_outputs(&request(), outputs, &mut ignore_progress).unwrap();
        let bytes = out.0.lock().unwrap().clone();
        let tracks = quincunx_trace::read(&bytes).unwrap();
        assert_eq!(tracks.len(), row.links.len());
        for (track, link) in tracks.iter().zip(&row.links) {
            assert_eq!(track.name, format!("{} > {}", link.from, link.to));
            assert!(track.slices.len() as u64 >= link.statistics.frames, "{}", track.name);
        }
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        for outputs in [
            Outputs { trace: Some(Box::new(Full)), capture: None },
            Outputs { trace: None, capture: Some(Box::new(Full)) },
        ] {
            let failed = simulate_with_outputs(&request(), outputs, &mut ignore_progress);
            assert!(failed.unwrap_err().to_string().contains("expected to write"));
        }
    }
}
