//! The frames of a path: where and when each is sent, and what becomes of it; and the same as a list that any driver can follow.
//! Step
//! `k` happens at `k` microseconds, and later by as much as the clock has moved on.

use quincunx_driver_check::{Action, End, JUMP, NodeId, Path, System};
use quincunx_network::{Delay, Fate, FaultList, Firing, LinkDirection};
use quincunx_units::{Duration, Instant};

use crate::describe::{HeaderOf, PayloadOf, TimerOf};

/// When a step happens as a trace shows it, where the clock does not move by itself.
pub(crate) fn time_of(step: usize) -> Instant {
    Instant::ZERO + Duration::from_micros(step as u64)
}

/// When each step of a path happens, from 0 on, before the first, to the one behind the last.
pub(crate) struct Times(Vec<Instant>);

impl Times {
    pub(crate) fn new<S: System>(path: &Path<S>) -> Self {
        let mut moved = Duration::ZERO;
        let mut times = vec![time_of(0)];
        for (index, step) in path.0.iter().enumerate() {
            if step.action == Action::Clock {
                moved += JUMP;
            }
            times.push(time_of(index + 1) + moved);
        }
        times.push(time_of(times.len()) + moved);
        Self(times)
    }

    pub(crate) fn of(&self, step: usize) -> Instant {
        self.0[step]
    }
}

/// How the explorer moves a frame on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// It arrives after all of its ordering class that were sent before it there.
    InOrder,
    /// It is held up, and arrives whenever.
    Late,
    /// It arrives in its order, and a copy whenever.
    Doubled,
    /// It is lost.
    Lost,
}

/// A frame. Steps are counted from 1.
pub(crate) struct Flight<'a, S: System> {
    /// Where it leaves.
    pub(crate) from: End,
    /// Its number among those that leave there, from 0.
    pub(crate) number: u64,
    pub(crate) header: &'a HeaderOf<S>,
    pub(crate) payload: &'a PayloadOf<S>,
    /// The step in which it is sent.
    pub(crate) sent: usize,
    pub(crate) course: Course,
    /// The step in which it arrives or is lost; none if the path ends before.
    pub(crate) end: Option<usize>,
    /// The step in which its copy arrives; none if there is none, or the path ends before.
    pub(crate) copy_end: Option<usize>,
}

impl<S: System> Flight<'_, S> {
    /// Its fate, where arrivals after the path are in step `after`.
    fn fate(&self, times: &Times, after: usize) -> Fate {
        let until = |step: Option<usize>| Delay::Until(times.of(step.unwrap_or(after)));
        match self.course {
            Course::InOrder | Course::Late => Fate::Late(until(self.end)),
            Course::Doubled => {
                Fate::Doubled { first: Some(until(self.end)), copy: Some(until(self.copy_end)) }
            }
            Course::Lost => Fate::Lost,
        }
    }
}

/// A path as a list of faults: when each frame arrives, and when each timer fires.
pub fn faults_of<S: System>(path: &Path<S>) -> FaultList<NodeId, TimerOf<S>> {
    let mut list = FaultList::default();
    let times = Times::new(path);
    for flight in flights(path) {
        let direction = LinkDirection::From(flight.from.node, flight.from.port);
        list.set_fate(direction, flight.number, flight.fate(&times, path.0.len() + 1));
    }
    for (index, step) in path.0.iter().enumerate() {
        if let Action::Timer { timer, .. } = step.action {
            list.firings.push(Firing { at: times.of(index + 1), node: step.node, timer });
        }
    }
    list
}

/// All frames that are sent in a path, in the order in which they are.
pub(crate) fn flights<S: System>(path: &Path<S>) -> Vec<Flight<'_, S>> {
    let mut flights: Vec<Flight<'_, S>> = Vec::new();
    for (step, taken) in path.0.iter().enumerate().map(|(index, taken)| (index + 1, taken)) {
        let (frame, course) = match &taken.action {
            Action::Arrival { from, header, payload, late: false } => {
                (Some((*from, header, payload)), Course::InOrder)
            }
            Action::Duplicate { from, header, payload } => (Some((*from, header, payload)), Course::Doubled),
            Action::Delay { from, header, payload } => (Some((*from, header, payload)), Course::Late),
            Action::Loss { from, header, payload } => (Some((*from, header, payload)), Course::Lost),
            Action::Arrival { from, late: true, header, payload } => {
                let late = flights.iter_mut().filter(|flight| is_it(flight, *from, header, payload));
                let missing = late.filter_map(|flight| match flight.course {
                    Course::Late => Some(&mut flight.end),
                    Course::Doubled => Some(&mut flight.copy_end),
                    Course::InOrder | Course::Lost => None,
                });
                let first = missing.into_iter().find(|end| end.is_none());
                *first.expect("what arrives late was put off, or is a copy") = Some(step);
                (None, Course::InOrder)
            }
            Action::Timer { .. } | Action::Slot(_) | Action::Command | Action::Notice(_) | Action::Clock => {
                (None, Course::InOrder)
            }
            Action::Mark { from, header, payload, marked } => {
                next_in_order(&mut flights, *from, header, payload).header = marked;
                (None, Course::InOrder)
            }
        };
        if let Some((from, header, payload)) = frame {
            let next = next_in_order(&mut flights, from, header, payload);
            (next.course, next.end) = (course, (course != Course::Late).then_some(step));
        }
        for (from, header, payload) in &taken.sent {
            let number = flights.iter().filter(|flight| flight.from == *from).count() as u64;
            let (course, end, copy_end) = (Course::InOrder, None, None);
            flights.push(Flight { from: *from, number, header, payload, sent: step, course, end, copy_end });
        }
    }
    flights
}

/// The next such frame that keeps its order.
fn next_in_order<'f, 'p, S: System>(
    flights: &'f mut [Flight<'p, S>],
    from: End,
    header: &HeaderOf<S>,
    payload: &PayloadOf<S>,
) -> &'f mut Flight<'p, S> {
    let mut own = flights.iter_mut().filter(|flight| is_it(flight, from, header, payload));
    let next = own.find(|flight| flight.course == Course::InOrder && flight.end.is_none());
    next.expect("what arrives has been sent")
}

/// Whether it is such a frame, from that end.
fn is_it<S: System>(flight: &Flight<'_, S>, from: End, header: &HeaderOf<S>, payload: &PayloadOf<S>) -> bool {
    flight.from == from && (flight.header, flight.payload) == (header, payload)
}
