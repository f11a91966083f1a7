//! Any sequence of frames, time-outs and transmit slots at a switch with a Mode-II or Mode-III group: no panic, invariants after
//! each step, bounded answers, nothing sent to anybody but the group's neighbours, and no packet that holds a neighbour's
//! contribution twice, or one to another PSN or of another place.

use crate::harness::Input;
use crate::switch::{self, Traffic};
use quincunx_collective::{Payload, Provenance, Rank};
use quincunx_epic::{EPIC_2, EPIC_3};
use quincunx_wire::{Position, Psn};

const TRAFFIC: Traffic<Provenance> = Traffic {
    events: 8,
    payload: |edge, psn, length| Provenance::of_rank(Rank(edge as u16), length).moved(first_of(psn)),
    data: |_, code, _| vec![(Position::Middle, code == 2)],
    // All of a window to every edge, an answer to each, and a notification.
    bound: |edges, window| edges * (2 * window + 2) + 1,
    look: assert_provenance,
};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let design = if input.flag() { EPIC_2 } else { EPIC_3 };
    let reproducible = input.flag();
    switch::check(&mut input, design, reproducible, &TRAFFIC);
}

/// The number of the first element of packets with `psn`: the elements of 32 PSNs in a row can be told apart.
fn first_of(psn: Psn) -> usize {
    psn.value() as usize % 32 * 128
}

fn assert_provenance(psn: Psn, payload: &Provenance) {
    for offset in (0..payload.length()).step_by(4) {
        let counts = (0..Provenance::RANKS).map(|rank| payload.count(offset, Rank(rank)));
        assert!(counts.clone().all(|count| count <= 1), "a packet with PSN {} is {payload}", psn.value());
        let expected = counts.clone().any(|count| count > 0).then(|| first_of(psn) + offset / 4);
        assert_eq!(payload.number(offset), expected, "a packet with PSN {} is {payload}", psn.value());
    }
}
