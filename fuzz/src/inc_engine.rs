//! Any sequence of frames, time-outs and transmit slots at a switch with a Mode-II or Mode-III group: no panic, invariants after
//! each step, bounded answers, nothing sent to anybody but the group's neighbours, and no packet that holds a neighbour's
//! contribution twice, or that to another PSN.

use crate::harness::Input;
use crate::switch::{self, Traffic};
use quincunx_collective::{Contributions, Payload, Rank};
use quincunx_epic::{EPIC_2, EPIC_3};
use quincunx_wire::{Position, Psn};

const TRAFFIC: Traffic<Contributions> = Traffic {
    events: 8,
    payload: |edge, psn, length| Contributions::of_rank(contributor(edge, psn), length),
    data: |_, code, _| vec![(Position::Middle, code == 2)],
    // All of a window to every edge, an answer to each, and a notification.
    bound: |edges, window| edges * (2 * window + 2) + 1,
    look: assert_contributions,
};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let design = if input.flag() { EPIC_2 } else { EPIC_3 };
    let reproducible = input.flag();
    switch::check(&mut input, design, reproducible, &TRAFFIC);
}

/// Who counts what `edge` puts into packets with `psn`: PSNs can be told apart by two bits.
fn contributor(edge: usize, psn: Psn) -> Rank {
    Rank(4 * edge as u16 + (psn.value() % 4) as u16)
}

fn assert_contributions(psn: Psn, payload: &Contributions) {
    for offset in (0..payload.length()).step_by(4) {
        for rank in (0..Contributions::RANKS).map(Rank) {
            let most = u8::from(u32::from(rank.0) % 4 == psn.value() % 4);
            let count = payload.count(offset, rank);
            assert!(count <= most, "a packet with PSN {} counts {rank} {count} times", psn.value());
        }
    }
}
