//! Writes what happened over time as a Perfetto trace: tracks with slices (a frame on a link, a wave in a table) and
//! counters, in the TrackEvent format that <https://ui.perfetto.dev> opens.
//!
//! A trace is written as it comes, packet by packet; nothing is kept. Perfetto counts nanoseconds: times are rounded down,
//! so that slices that follow each other never overlap. It knows nothing of protocols or simulations.

mod proto;
mod read;
mod track;

pub use read::{ReadError, TrackContents, read};
pub use track::Track;

use proto::{CounterDescriptor, TracePacket, TrackDescriptor, TrackEvent, kind};
use quincunx_units::Instant;
use std::io::{self, Write};

/// Packets of a trace come in sequences; ours is one.
const SEQUENCE: u32 = 1;

/// A trace that grows as things happen.
pub struct TraceWriter<W> {
    out: W,
    buffer: Vec<u8>,
    tracks: u64,
}

impl<W: Write> TraceWriter<W> {
    /// A trace without tracks. `out` should be buffered.
    pub fn new(out: W) -> Self {
        Self { out, buffer: Vec::new(), tracks: 0 }
    }

    /// A track for slices, below `parent` if there is one.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn track(&mut self, name: &str, parent: Option<Track>) -> io::Result<Track> {
        self.describe(name, parent, None)
    }

    /// A track for a value that changes, in `unit`.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn counter_track(&mut self, name: &str, unit: &str, parent: Option<Track>) -> io::Result<Track> {
        self.describe(name, parent, Some(CounterDescriptor { unit_name: Some(unit.into()) }))
    }

    /// Something that lasted `from`..`to` on `track`, after everything there so far.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn slice(&mut self, track: Track, from: Instant, to: Instant, name: &str) -> io::Result<()> {
        debug_assert!(from <= to, "a slice ends before it begins");
        self.event(
            from,
            TrackEvent { name: Some(name.into()), ..TrackEvent::new(kind::SLICE_BEGIN, track) },
        )?;
        self.event(to, TrackEvent::new(kind::SLICE_END, track))
    }

    /// Something that happened at once.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn instant(&mut self, track: Track, at: Instant, name: &str) -> io::Result<()> {
        self.event(at, TrackEvent { name: Some(name.into()), ..TrackEvent::new(kind::INSTANT, track) })
    }

    /// The value of a counter track from `at` on.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn counter(&mut self, track: Track, at: Instant, value: f64) -> io::Result<()> {
        self.event(at, TrackEvent { value: Some(value), ..TrackEvent::new(kind::COUNTER, track) })
    }

    /// Ends the trace and hands back what it was written to, flushed.
    ///
    /// # Errors
    /// If it cannot be flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn describe(
        &mut self,
        name: &str,
        parent: Option<Track>,
        counter: Option<CounterDescriptor>,
    ) -> io::Result<Track> {
        self.tracks += 1;
        let track = Track(self.tracks);
        self.put(&TracePacket {
            track: Some(TrackDescriptor {
                uuid: Some(track.0),
                name: Some(name.into()),
                parent: parent.map(|parent| parent.0),
                counter,
            }),
            sequence: Some(SEQUENCE),
            ..TracePacket::default()
        })?;
        Ok(track)
    }

    fn event(&mut self, at: Instant, event: TrackEvent) -> io::Result<()> {
        let nanos = at.since(Instant::ZERO).as_nanos();
        self.put(&TracePacket {
            timestamp: Some(nanos),
            sequence: Some(SEQUENCE),
            event: Some(event),
            ..TracePacket::default()
        })
    }

    /// A trace is a message of which every packet is field 1.
    fn put(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        prost::encoding::message::encode(1, packet, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use proto::Trace;

    fn at(nanos: u64) -> Instant {
        Instant::from_picos(nanos * 1000)
    }

    fn bytes_of(write: impl FnOnce(&mut TraceWriter<Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
        let mut trace = TraceWriter::new(Vec::new());
        write(&mut trace).unwrap();
        trace.finish().unwrap()
    }

    fn written(write: impl FnOnce(&mut TraceWriter<Vec<u8>>) -> io::Result<()>) -> Vec<TracePacket> {
        Trace::decode(bytes_of(write).as_slice()).unwrap().packets
    }

    #[test]
    fn what_was_written_is_read_back_track_by_track() {
        let bytes = bytes_of(|trace| {
            let node = trace.track("switch0", None)?;
            let queue = trace.counter_track("queue", "B", Some(node))?;
            trace.slice(node, at(5), at(8), "busy")?;
            trace.instant(node, at(9), "full")?;
            trace.counter(queue, at(7), 4096.0)
        });
        let node = TrackContents {
            name: "switch0".into(),
            slices: vec![(5, 8, "busy".into())],
            instants: vec![(9, "full".into())],
            ..TrackContents::default()
        };
        let queue = TrackContents {
            name: "queue".into(),
            parent: Some("switch0".into()),
            values: vec![(7, 4096.0)],
            ..TrackContents::default()
        };
        assert_eq!(read(&bytes), Ok(vec![node, queue]));
        assert!(read(&bytes[..bytes.len() - 1]).is_err(), "a trace that is cut short");
    }

    #[test]
    fn a_slice_begins_and_ends_on_its_track() {
        let packets = written(|trace| {
            let node = trace.track("switch0", None)?;
            let link = trace.track("to rank0", Some(node))?;
            trace.slice(link, at(5), at(8), "WRITE 4096 B")
        });
        let tracks: Vec<_> = packets.iter().filter_map(|packet| packet.track.clone()).collect();
        assert_eq!(tracks[1].parent, tracks[0].uuid);
        let events: Vec<_> = packets.iter().filter_map(|p| Some((p.timestamp?, p.event.clone()?))).collect();
        assert_eq!(
            [(events[0].0, events[0].1.kind), (events[1].0, events[1].1.kind)],
            [(5, Some(kind::SLICE_BEGIN)), (8, Some(kind::SLICE_END))]
        );
        assert!(events.iter().all(|(_, event)| event.track == tracks[1].uuid));
        assert_eq!(events[0].1.name.as_deref(), Some("WRITE 4096 B"));
    }

    #[test]
    fn a_counter_has_a_unit_and_values() {
        let packets = written(|trace| {
            let queue = trace.counter_track("queue", "B", None)?;
            trace.counter(queue, at(1), 4096.0)
        });
        let unit = packets[0].track.clone().unwrap().counter.unwrap().unit_name;
        assert_eq!(unit.as_deref(), Some("B"));
        assert_eq!(packets[1].event.clone().unwrap().value, Some(4096.0));
    }

    #[test]
    fn times_are_rounded_down_so_that_neighbours_never_overlap() {
        let packets = written(|trace| {
            let link = trace.track("link", None)?;
            trace.slice(link, Instant::from_picos(100), Instant::from_picos(1900), "a")?;
            trace.slice(link, Instant::from_picos(1900), Instant::from_picos(2500), "b")
        });
        let times: Vec<_> = packets.iter().filter_map(|packet| packet.timestamp).collect();
        assert_eq!(times, [0, 1, 1, 2]);
    }
}
