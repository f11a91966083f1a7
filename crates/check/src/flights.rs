//! The frames of a path: where and when each is sent, and what becomes of it.

use quincunx_driver_check::{Action, End, Path, System};

use crate::describe::{HeaderOf, PayloadOf};

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
    pub(crate) fate: Fate,
}

/// What becomes of a frame. A step is missing if the path ends before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It arrives after all of its lane that were sent before it there.
    InOrder { arrival: Option<usize> },
    /// It is held up, and arrives whenever.
    Late { arrival: Option<usize> },
    /// It arrives in its order, and a copy whenever.
    Twice { arrival: usize, copy: Option<usize> },
    /// It is lost in a step.
    Lost { step: usize },
}

/// All frames that are sent in a path, in the order in which they are.
pub(crate) fn flights<S: System>(path: &Path<S>) -> Vec<Flight<'_, S>> {
    let mut flights: Vec<Flight<'_, S>> = Vec::new();
    for (step, taken) in path.0.iter().enumerate().map(|(index, taken)| (index + 1, taken)) {
        match &taken.action {
            Action::Arrival { from, header, payload, late: false } => {
                *next(&mut flights, *from, header, payload) = Fate::InOrder { arrival: Some(step) };
            }
            Action::Duplicate { from, header, payload } => {
                *next(&mut flights, *from, header, payload) = Fate::Twice { arrival: step, copy: None };
            }
            Action::Delay { from, header, payload } => {
                *next(&mut flights, *from, header, payload) = Fate::Late { arrival: None };
            }
            Action::Loss { from, header, payload } => {
                *next(&mut flights, *from, header, payload) = Fate::Lost { step };
            }
            Action::Arrival { from, late: true, header, payload } => {
                let of_it = |flight: &&mut Flight<'_, S>| {
                    flight.from == *from && (flight.header, flight.payload) == (header, payload)
                };
                let missing = flights.iter_mut().filter(of_it).find_map(|flight| match &mut flight.fate {
                    Fate::Late { arrival: missing } | Fate::Twice { copy: missing, .. } => {
                        missing.is_none().then_some(missing)
                    }
                    Fate::InOrder { .. } | Fate::Lost { .. } => None,
                });
                *missing.expect("what arrives late was put off, or is a copy") = Some(step);
            }
            Action::Timer { .. } | Action::Slot(_) | Action::Command => {}
        }
        for (from, header, payload) in &taken.sent {
            let number = flights.iter().filter(|flight| flight.from == *from).count() as u64;
            let fate = Fate::InOrder { arrival: None };
            flights.push(Flight { from: *from, number, header, payload, sent: step, fate });
        }
    }
    flights
}

/// The fate of the first frame of its kind on its way from an end, of those that keep their order.
fn next<'f, S: System>(
    flights: &'f mut [Flight<'_, S>],
    from: End,
    header: &HeaderOf<S>,
    payload: &PayloadOf<S>,
) -> &'f mut Fate {
    let of_it = |flight: &&mut Flight<'_, S>| {
        flight.from == from && (flight.header, flight.payload) == (header, payload)
    };
    let mut own = flights.iter_mut().filter(of_it).map(|flight| &mut flight.fate);
    own.find(|fate| **fate == Fate::InOrder { arrival: None }).expect("what arrives has been sent")
}
