//! Writes what a measured layer looked like over time as a Perfetto trace. Sub-layers follow each other, as they do in the layer.
//!
//! - Below each accelerator: for each kernel a track with a slice from its launch to its end, a counter of the SMs that compute for it, and
//!   one of its blocks that have a place; its loads under way; and for each link to a switch the share of time in which it was busy.
//! - Below each switch: the links to accelerators, and for each port the entries of its table and the requests that wait in it.
//!
//! Counters are means over the intervals of the samples, so that a trace has the same size however many packets there were.

use super::measure::LayerMeasurement;
use super::samples::{OverTime, SeriesOf};
use quincunx_trace::{TraceWriter, Track};
use quincunx_units::Instant;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The tracks of a trace, by their parent and name: a kernel of two sub-layers has one.
struct Tracks<W> {
    trace: TraceWriter<W>,
    known: BTreeMap<(Option<Track>, String), Track>,
}

impl<W: Write> Tracks<W> {
    fn slices(&mut self, parent: Option<Track>, name: String) -> io::Result<Track> {
        if let Some(&track) = self.known.get(&(parent, name.clone())) {
            return Ok(track);
        }
        let track = self.trace.track(&name, parent)?;
        self.known.insert((parent, name), track);
        Ok(track)
    }

    fn counter(&mut self, parent: Track, name: String, unit: &str) -> io::Result<Track> {
        if let Some(&track) = self.known.get(&(Some(parent), name.clone())) {
            return Ok(track);
        }
        let track = self.trace.counter_track(&name, unit, Some(parent))?;
        self.known.insert((Some(parent), name), track);
        Ok(track)
    }
}

/// Writes the trace of a layer that was measured with samples; of sub-layers without them, only when their kernels ran.
///
/// # Errors
/// If it cannot be written.
pub fn write_trace<W: Write>(layer: &LayerMeasurement, out: W) -> io::Result<W> {
    let mut tracks = Tracks { trace: TraceWriter::new(out), known: BTreeMap::new() };
    let parts = tracks.slices(None, "sub-layers".into())?;
    let mut began = Instant::ZERO;
    for part in &layer.parts {
        let (outcome, end) = (&part.outcome, began + part.outcome.time);
        tracks.trace.slice(parts, began, end, &part.sub_layer.to_string())?;
        let mut spans: Vec<_> = outcome.kernels.iter().collect();
        spans.sort_by(|a, b| (a.rank, &a.name, a.from).cmp(&(b.rank, &b.name, b.from)));
        for span in spans {
            let gpu = gpu(&mut tracks, span.rank)?;
            let track = tracks.slices(Some(gpu), format!("kernel {}", span.name))?;
            tracks.trace.slice(track, began + span.from, began + span.to, &span.name)?;
        }
        if let Some(over_time) = &outcome.over_time {
            counters(&mut tracks, over_time, began)?;
        }
        began = end;
    }
    tracks.trace.finish()
}

fn gpu<W: Write>(tracks: &mut Tracks<W>, rank: u16) -> io::Result<Track> {
    tracks.slices(None, format!("accelerator{rank}"))
}

fn counters<W: Write>(tracks: &mut Tracks<W>, over_time: &OverTime, began: Instant) -> io::Result<()> {
    for series in &over_time.series {
        let node = match series.of {
            SeriesOf::Link { up: false, switch, .. }
            | SeriesOf::Table { switch, .. }
            | SeriesOf::Waiting { switch, .. } => tracks.slices(None, format!("switch{switch}"))?,
            SeriesOf::Link { rank, .. }
            | SeriesOf::Loads { rank }
            | SeriesOf::Sms { rank, .. }
            | SeriesOf::Blocks { rank, .. } => gpu(tracks, rank)?,
            SeriesOf::Waited | SeriesOf::Ended => continue,
        };
        let kernel = |rank: u16, kernel: u16| &over_time.kernels[usize::from(rank)][usize::from(kernel)];
        let (name, unit, factor) = match series.of {
            SeriesOf::Link { rank, switch, up: true } => {
                (format!("accelerator{rank} > switch{switch}"), "%", 100.0)
            }
            SeriesOf::Link { rank, switch, up: false } => {
                (format!("switch{switch} > accelerator{rank}"), "%", 100.0)
            }
            SeriesOf::Loads { .. } => ("loads under way".into(), "requests", 1.0),
            SeriesOf::Sms { rank, kernel: number } => {
                (format!("SMs of {}", kernel(rank, number)), "SMs", 1.0)
            }
            SeriesOf::Blocks { rank, kernel: number } => {
                (format!("blocks of {}", kernel(rank, number)), "blocks", 1.0)
            }
            SeriesOf::Table { port, .. } => (format!("table {port}"), "entries", 1.0),
            SeriesOf::Waiting { port, .. } => (format!("waiting {port}"), "requests", 1.0),
            SeriesOf::Waited | SeriesOf::Ended => continue,
        };
        let track = tracks.counter(node, name, unit)?;
        let mut before = None;
        let mut at = began;
        for &mean in &series.means {
            // What does not change is not told again.
            let value = (mean * factor * 1e3).round() / 1e3;
            if before != Some(value) {
                tracks.trace.counter(track, at, value)?;
            }
            before = Some(value);
            at = at + over_time.interval;
        }
        if before.is_some_and(|value| value != 0.0) {
            tracks.trace.counter(track, began + over_time.end, 0.0)?;
        }
    }
    Ok(())
}

/// Intervals that make a trace fine enough to look into.
pub const TRACE_INTERVALS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{KernelSpan, LayerOutcome, PartMeasurement, Series};
    use quincunx_driver_des::BusyOverTime;
    use quincunx_trace::read;
    use quincunx_units::Duration;
    use quincunx_workload::SubLayer;

    fn part(sub_layer: SubLayer, series: Vec<Series>) -> PartMeasurement {
        let nanos = Duration::from_nanos;
        let span = KernelSpan { name: "product".into(), rank: 1, from: nanos(2), to: nanos(8) };
        let over_time = OverTime {
            interval: nanos(4),
            end: nanos(10),
            kernels: vec![Vec::new(), vec!["product".into()]],
            series,
        };
        let outcome = LayerOutcome {
            time: nanos(10),
            sm_utilisation: 0.0,
            link_utilisation: 0.0,
            directions: [0.0; 2],
            busy_over_time: BusyOverTime::default(),
            over_time: Some(over_time),
            kernels: vec![span],
            packets: 0,
            steps: 0,
            drops: 0,
            counted: BTreeMap::new(),
            memories: Vec::new(),
        };
        PartMeasurement { sub_layer, outcome }
    }

    fn layer(parts: Vec<PartMeasurement>) -> LayerMeasurement {
        LayerMeasurement {
            model: "a-model".into(),
            ranks: 2,
            parts,
            outside: Duration::ZERO,
            time: Duration::ZERO,
            operations: 0,
            entry: 128,
            planes: 1,
        }
    }

    fn series(of: SeriesOf, means: &[f64]) -> Series {
        Series { of, means: means.to_vec(), peaks: means.to_vec() }
    }

    #[test]
    fn kernels_are_slices_and_sub_layers_follow_each_other() {
        let parts = vec![part(SubLayer::ALL[0], Vec::new()), part(SubLayer::ALL[1], Vec::new())];
        let tracks = read(&write_trace(&layer(parts), Vec::new()).unwrap()).unwrap();
        let named = |name: &str| tracks.iter().find(|track| track.name == name).unwrap();
        let slices =
            |name: &str| named(name).slices.iter().map(|slice| (slice.0, slice.1)).collect::<Vec<_>>();
        assert_eq!(slices("sub-layers"), [(0, 10), (10, 20)]);
        assert_eq!(slices("kernel product"), [(2, 8), (12, 18)]);
        assert_eq!(named("kernel product").parent.as_deref(), Some("accelerator1"));
    }

    #[test]
    fn counters_say_what_changes_and_end_with_their_sub_layer() {
        let of = [
            series(SeriesOf::Table { switch: 0, port: 3 }, &[0.0, 5.0, 5.0]),
            series(SeriesOf::Sms { rank: 1, kernel: 0 }, &[2.5, 2.5, 0.0]),
            series(SeriesOf::Link { rank: 1, switch: 0, up: false }, &[0.25, 1.0, 0.5]),
            series(SeriesOf::Waited, &[1.0, 1.0, 1.0]),
        ];
        let parts = vec![part(SubLayer::ALL[0], of.to_vec())];
        let tracks = read(&write_trace(&layer(parts), Vec::new()).unwrap()).unwrap();
        let counter = |parent: &str, name: &str| {
            let is_it = |track: &&quincunx_trace::TrackContents| {
                track.name == name && track.parent.as_deref() == Some(parent)
            };
            tracks.iter().find(is_it).unwrap().values.clone()
        };
        assert_eq!(counter("switch0", "table 3"), [(0, 0.0), (4, 5.0), (10, 0.0)]);
        assert_eq!(counter("accelerator1", "SMs of product"), [(0, 2.5), (8, 0.0)]);
        assert_eq!(
            counter("switch0", "switch0 > accelerator1"),
            [(0, 25.0), (4, 100.0), (8, 50.0), (10, 0.0)]
        );
    }
}
