//! What a run tells: a line for each thing that happens to a process, and the frames of its last seconds. Lines make a sequence diagram, all of
//! it makes a trace for Perfetto, and frames make a capture.

use crate::effects::OwnedFrame;
use crate::fabric::Place;
use crate::plan::Fault;
use quincunx_collective::Payload;
use quincunx_trace::{TraceWriter, Track};
use quincunx_units::{Duration, Instant};
use quincunx_wire::pcapng::Writer;
use quincunx_wire::{Envelope, Framing, MacAddress, emit_frame};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Write};

/// Frames that are kept, the latest: several seconds of a busy cluster.
const KEPT: usize = 100_000;

/// Lines of a diagram below one head.
const PAGE: usize = 40;

/// Columns of a machine's lane.
const LANE: usize = 4;

/// What a run tells.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Story {
    /// Names of machines, by their number.
    machines: Vec<String>,
    lines: Vec<Line>,
    frames: VecDeque<Sent>,
    /// When faults have begun, by their number.
    pub(crate) begun: BTreeMap<usize, Instant>,
}

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    at: Instant,
    who: Option<(Place, String)>,
    /// To whom it was said.
    to: Option<Place>,
    what: String,
}

/// A frame, and when it comes: never, once or twice.
#[derive(Clone, PartialEq, Debug)]
struct Sent {
    at: Instant,
    from: Place,
    to: Place,
    arrivals: [Option<Instant>; 2],
    frame: OwnedFrame,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.who.as_ref().map_or("", |(_, name)| name);
        write!(f, "{:>11.6}  {who:<4} {}", seconds(self.at), self.what)
    }
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

impl Story {
    pub(crate) fn new(machines: Vec<String>) -> Self {
        Self { machines, ..Self::default() }
    }

    /// Something happens to a machine, or to all; a machine says it to another.
    pub(crate) fn add(&mut self, at: Instant, who: Option<Place>, to: Option<Place>, what: String) {
        let who = who.map(|place| (place, self.machines[place].clone()));
        self.lines.push(Line { at, who, to, what });
    }

    /// A frame leaves a machine.
    pub(crate) fn send(
        &mut self,
        at: Instant,
        [from, to]: [Place; 2],
        arrivals: [Option<Instant>; 2],
        frame: &OwnedFrame,
    ) {
        if self.frames.len() == KEPT {
            self.frames.pop_front();
        }
        self.frames.push_back(Sent { at, from, to, arrivals, frame: frame.clone() });
    }

    /// All lines, as text.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(Line::to_string)
    }

    /// The lines as a sequence diagram: a lane for each machine, time downwards.
    pub fn diagram(&self) -> impl Iterator<Item = String> {
        let page = |(number, lines): (usize, &[Line])| {
            let blank = (number > 0).then(String::new);
            let lanes = lines.iter().map(|line| self.lanes(line)).collect::<Vec<_>>();
            blank.into_iter().chain([self.head()]).chain(lanes)
        };
        self.lines.chunks(PAGE).enumerate().flat_map(page).collect::<Vec<_>>().into_iter()
    }

    fn head(&self) -> String {
        let names: String = self.machines.iter().map(|name| format!("{name:<LANE$}")).collect();
        format!("{:>11}  {}", "seconds", names.trim_end())
    }

    fn lanes(&self, line: &Line) -> String {
        let mut row = vec!['.'; 0];
        for _ in &self.machines {
            row.push('|');
            row.extend([' '; LANE - 1]);
        }
        let column = |place: Place| place * LANE;
        match (line.who.as_ref().map(|(place, _)| *place), line.to) {
            (Some(who), Some(to)) if who != to => {
                let (left, right) = (column(who.min(to)), column(who.max(to)));
                row[left..=right].fill('-');
                row[column(who)] = '*';
                row[column(to)] = if to > who { '>' } else { '<' };
            }
            (Some(who), _) => row[column(who)] = '*',
            (None, _) => row.fill('='),
        }
        let row: String = row.into_iter().collect();
        format!("{:>11.6}  {row} {}", seconds(line.at), line.what)
    }

    /// Writes all of it as a trace for Perfetto: faults, a track a machine with what happens to it, and below it its frames, from sending to
    /// arrival. `out` should be buffered.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_trace<W: Write>(&self, faults: &[Fault], out: W) -> io::Result<W> {
        let mut trace = TraceWriter::new(out);
        let all = trace.track("faults", None)?;
        let end = self.end();
        for (number, fault) in faults.iter().enumerate() {
            let track = trace.track(&format!("{number} {}", fault.kind.name()), Some(all))?;
            if let Some(&from) = self.begun.get(&number) {
                trace.slice(track, from, (from + fault.lasts).min(end), &format!("{:?}", fault.kind))?;
            }
        }
        let machines: Vec<Track> =
            self.machines.iter().map(|name| trace.track(name, None)).collect::<io::Result<_>>()?;
        for line in &self.lines {
            let track = line.who.as_ref().map_or(all, |(place, _)| machines[*place]);
            trace.instant(track, line.at, &line.what)?;
        }
        for from in 0..machines.len() {
            for to in 0..machines.len() {
                self.write_frames(&mut trace, [from, to], machines[from])?;
            }
        }
        trace.finish()
    }

    /// Frames from a machine to another: slices of a track do not overlap, and tracks of one name are shown as one.
    fn write_frames<W: Write>(
        &self,
        trace: &mut TraceWriter<W>,
        [from, to]: [Place; 2],
        parent: Track,
    ) -> io::Result<()> {
        let name = format!("to {}", self.machines[to]);
        let mut tracks: Vec<(Track, Instant)> = Vec::new();
        let own = self.frames.iter().filter(|sent| sent.from == from && sent.to == to);
        for sent in own {
            let header = &sent.frame.header;
            let frame = format!("{:?} PSN {}", header.operation, header.psn.value());
            let [first, copy] = sent.arrivals;
            let (until, frame) = match (first, copy) {
                (None, _) => (sent.at + Duration::from_micros(1), format!("{frame}, lost")),
                (Some(first), None) => (first, frame),
                (Some(first), Some(copy)) => (first.max(copy), format!("{frame}, twice")),
            };
            let track = match tracks.iter_mut().find(|(_, free)| *free <= sent.at) {
                Some((track, free)) => {
                    *free = until;
                    *track
                }
                None => {
                    let track = trace.track(&name, Some(parent))?;
                    tracks.push((track, until));
                    track
                }
            };
            trace.slice(track, sent.at, until, &frame)?;
        }
        Ok(())
    }

    fn end(&self) -> Instant {
        let lines = self.lines.last().map(|line| line.at);
        lines.max(self.frames.back().map(|sent| sent.at)).unwrap_or(Instant::ZERO)
    }

    /// The frames as a capture, an interface for each machine that sends: times count from the run's beginning.
    pub fn capture(&self) -> Vec<u8> {
        let mut writer = Writer::new("quincunx");
        let interfaces: Vec<_> = self.machines.iter().map(|name| writer.interface(name)).collect();
        let mut bytes = Vec::new();
        for Sent { at, from, frame, .. } in &self.frames {
            let (header, payload) = (&frame.header, frame.payload.bytes());
            let envelope =
                Envelope::new(MacAddress::showing(header.source), MacAddress::showing(header.destination));
            bytes.resize(Framing::RoceV2.frame_length(&header.operation, frame.payload.length()), 0);
            emit_frame(&envelope, header, payload, &mut bytes);
            let since = std::time::Duration::from_nanos(at.since(Instant::ZERO).as_nanos());
            writer.packet(interfaces[*from], since, &bytes);
        }
        writer.take()
    }
}
