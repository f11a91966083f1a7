//! A way to a fault as a Perfetto trace: step `k` at `k` microseconds. A track a node, with its steps; below it one for each
//! of its links, with the frames that it sends, from sending to arrival.

use std::io::{self, Write};

use quincunx_driver_check::{Fault, NodeId};
use quincunx_trace::{TraceWriter, Track};

use crate::describe::Describe;
use crate::flights::{Course, Flight, flights, time_of};
use crate::print::Sequence;

impl<S: Describe> Sequence<'_, S> {
    /// Writes the sequence, and the fault that it leads to, as a trace; `out` should be buffered.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_trace<W: Write>(&self, fault: &Fault, out: W) -> io::Result<W> {
        let mut trace = TraceWriter::new(out);
        let nodes = (0..self.network.members().len() as u16).map(NodeId);
        let nodes: Vec<Track> =
            nodes.map(|node| trace.track(&self.network.name(node), None)).collect::<io::Result<_>>()?;
        for (index, step) in self.path.0.iter().enumerate() {
            let (from, to) = (time_of(index + 1), time_of(index + 2));
            trace.slice(nodes[step.node.index()], from, to, &self.words(step))?;
        }
        let (flights, last) = (flights(self.path), self.path.0.len());
        for end in self.network.links().into_iter().flatten() {
            let name = format!("to {}", self.network.name(self.network.across(end).node));
            let own = flights.iter().filter(|flight| flight.from == end);
            let mut slices: Vec<_> = own.flat_map(|flight| slices(self.network, flight, last)).collect();
            by_start(&mut slices);
            // Slices of a track do not overlap; tracks of one name are shown as one.
            let mut tracks = vec![(trace.track(&name, Some(nodes[end.node.index()]))?, 0)];
            for (from, to, name_of_frame) in slices {
                let free = match tracks.iter().position(|&(_, free)| free <= from) {
                    Some(track) => track,
                    None => {
                        tracks.push((trace.track(&name, Some(nodes[end.node.index()]))?, 0));
                        tracks.len() - 1
                    }
                };
                tracks[free].1 = to;
                trace.slice(tracks[free].0, time_of(from), time_of(to), &name_of_frame)?;
            }
        }
        let track = trace.track("fault", None)?;
        trace.instant(track, time_of(last), &fault.to_string())?;
        trace.finish()
    }
}

/// Sorting is long, and compiled once.
fn by_start(slices: &mut [(usize, usize, String)]) {
    slices.sort_by_key(|&(from, ..)| from);
}

/// A frame as it is shown, and its copy: from one step to another. What has not arrived is on its way until after the `last`.
fn slices<S: Describe>(network: &S, flight: &Flight<'_, S>, last: usize) -> Vec<(usize, usize, String)> {
    let name = network.frame(flight.header, flight.payload);
    let until = |arrival: Option<usize>, name: String| match arrival {
        Some(arrival) => (arrival, name),
        None => (last + 1, format!("{name}, on its way")),
    };
    let slice = |from: usize, (to, name): (usize, String)| (from, to, name);
    match (flight.course, flight.end) {
        (Course::InOrder, end) => vec![slice(flight.sent, until(end, name))],
        (Course::Late, end) => vec![slice(flight.sent, until(end, format!("{name}, late")))],
        (Course::Lost, end) => vec![slice(flight.sent, until(end, format!("{name}, lost")))],
        (Course::Doubled, end) => {
            let copy = slice(end.unwrap_or(last), until(flight.copy_end, format!("{name}, copy")));
            vec![slice(flight.sent, until(end, name)), copy]
        }
    }
}
