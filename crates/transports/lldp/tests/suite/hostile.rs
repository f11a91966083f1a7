//! Whoever sends what he likes: nothing but his own port changes, and what is remembered and read is bounded.

use super::{at, due, frame, heard, machine};
use proptest::prelude::*;
use quincunx_lldp::MOST_NEIGHBOURS;
use quincunx_units::Duration;

#[test]
fn a_flood_of_names_pushes_out_nobody_who_is_known() {
    let mut lldp = machine("a");
    lldp.hear(at(0), 0, &frame("b", "eth0", 8));
    for second in 1..8_u64 {
        for stranger in 0..1000 {
            lldp.hear(at(second * 1000), 0, &frame(&format!("liar{stranger}"), "eth0", u16::MAX));
        }
        due(&mut lldp, second * 1000);
    }
    let known = heard(&lldp, 0);
    assert_eq!(known.len(), MOST_NEIGHBOURS);
    assert_eq!(known[0], "b eth0");
}

#[test]
fn a_flood_is_read_a_few_frames_a_second() {
    let mut lldp = machine("a");
    let mut changes = Vec::new();
    for second in 0..3_u64 {
        let before = lldp.changes();
        // Each would be a change, if it were read.
        for stranger in 0..1000 {
            lldp.hear(at(second * 1000), 0, &frame("liar", "eth0", stranger % 2 * 8));
        }
        changes.push(lldp.changes() - before);
    }
    assert_eq!(changes, [7, 4, 4], "the first says nothing");
}

#[test]
fn a_flood_at_one_port_leaves_another_alone() {
    let mut lldp = machine("a");
    for stranger in 0..1000 {
        lldp.hear(at(0), 0, &frame(&format!("liar{stranger}"), "eth0", 8));
    }
    lldp.hear(at(0), 1, &frame("b", "eth0", 8));
    assert_eq!(heard(&lldp, 1), ["b eth0"]);
}

#[test]
fn a_flood_makes_a_port_say_no_more_than_a_frame_a_second() {
    let mut lldp = machine("a");
    let mut sent = 0;
    for step in 0..100_u64 {
        let now = step * 100;
        for stranger in 0..10 {
            lldp.hear(at(now), 0, &frame(&format!("liar{step}x{stranger}"), "eth0", 1));
        }
        sent += due(&mut lldp, now).iter().filter(|(port, _)| *port == 0).count();
    }
    assert!(sent <= 10, "{sent} frames in ten seconds");
}

proptest! {
    #[test]
    fn any_frames_change_nothing_but_their_port(
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..80), 0_u64..3000), 0..40),
    ) {
        let mut lldp = machine("a");
        lldp.hear(at(0), 1, &frame("b", "eth0", u16::MAX));
        let mut now = at(0);
        for (bytes, later) in frames {
            now = now + Duration::from_millis(later);
            let head = b"\x01\x80\xc2\0\0\x0e\x02\0\0\0\0\x07\x88\xcc\x02\x03\x07s0\x04\x05\x05eth1";
            lldp.hear(now, 0, &[&head[..], &bytes].concat());
            prop_assert!(lldp.ports()[0].neighbours().count() <= MOST_NEIGHBOURS);
            prop_assert_eq!(heard(&lldp, 1), ["b eth0"]);
        }
    }
}
