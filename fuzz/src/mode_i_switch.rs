//! Any sequence of frames, time-outs and transmit slots at a switch with a Mode-I group: no panic, invariants after each step, and
//! nothing sent to anybody but the group's neighbours.

use crate::harness::Input;
use crate::switch::{self, Traffic};
use quincunx_collective::{Numbers, Payload};
use quincunx_epic::EPIC_1;
use quincunx_wire::Position;

const TRAFFIC: Traffic<Numbers> = Traffic {
    events: 9,
    payload: |_, _, length| Numbers::zeroed(length),
    data: message,
    // Queue pairs send data in transmit slots alone; anything else is answers.
    bound: |edges, _| edges + 4,
    look: |_, _| {},
};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    switch::check(&mut Input(bytes), EPIC_1, true, &TRAFFIC);
}

/// A message of some packets.
fn message(input: &mut Input<'_>, _: u8, most: u32) -> Vec<(Position, bool)> {
    let packets = 1 + input.below(most as u8);
    let place = |index| match (index == 0, index + 1 == packets) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    (0..packets).map(|index| (place(index), place(index) == Position::Last)).collect()
}
