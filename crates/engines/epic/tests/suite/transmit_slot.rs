//! A transmit slot of a Mode-III switch is one frame, whatever else the switch owes the neighbour.

use crate::common::{FIRST, Sent, all_reduce, config, deliver, switch};
use quincunx_design::Datapath;
use quincunx_units::Instant;
use quincunx_wire::{Aeth, NakCode, Operation, Syndrome};

#[test]
fn a_slot_for_a_resent_packet_does_not_take_an_owed_acknowledge_along() {
    let barrier = all_reduce(0);
    let mut switch = switch(config());
    let mut hear = |rank, psn, operation| deliver(&mut switch, Instant::ZERO, rank, psn, operation, 0);
    hear(0, FIRST, barrier);
    hear(1, FIRST, barrier);
    // Rank 0 is in the next barrier already, for which it is owed an acknowledge; then it misses the first one's result.
    hear(0, FIRST.plus(1), barrier);
    let nak = Aeth { syndrome: Syndrome::Nak(NakCode::SequenceError), message_sequence: 0 };
    hear(0, FIRST, Operation::Acknowledge(nak));

    let mut frames = Vec::new();
    while switch.wants_transmit(0) {
        let mut sent = Sent::default();
        switch.handle_transmit_slot(Instant::ZERO, 0, &mut sent);
        assert_eq!(sent.frames.len(), 1, "frames in a slot");
        frames.append(&mut sent.frames);
    }
    let results = frames.iter().filter(|(_, header)| header.operation == barrier && header.psn == FIRST);
    assert_eq!(results.count(), 1, "the missing result is sent again once");
}
