//! Both ends of a cable: each hears the other, says so again and again, and forgets who is gone.

use super::{MACS, at, due, frame, heard, machine};
use quincunx_lldp::{INTERVAL, LONGEST_LIFE, Lldp};
use quincunx_wire::lldp::LldpFrame;

#[test]
fn both_ends_of_a_cable_hear_of_each_other_by_name_and_port() {
    let (mut a, mut b) = (machine("a"), machine("b"));
    // A cable from port 0 of one to port 1 of the other.
    for (port, frame) in due(&mut a, 0) {
        if port == 0 {
            b.hear(at(0), 1, &frame);
        }
    }
    for (port, frame) in due(&mut b, 0) {
        if port == 1 {
            a.hear(at(0), 0, &frame);
        }
    }
    assert_eq!((heard(&a, 0), heard(&a, 1)), (vec!["b eth2".to_owned()], vec![]));
    assert_eq!((heard(&b, 0), heard(&b, 1)), (vec![], vec!["a eth1".to_owned()]));
}

#[test]
fn each_port_that_is_up_says_who_is_here_every_interval() {
    let mut lldp = machine("a");
    lldp.set_up(at(0), 1, false);
    let sent = |frames: &[(usize, Vec<u8>)]| frames.iter().map(|(port, _)| *port).collect::<Vec<_>>();
    assert_eq!(sent(&due(&mut lldp, 0)), [0]);
    assert_eq!(sent(&due(&mut lldp, 1999)), [0; 0]);
    assert_eq!(sent(&due(&mut lldp, 2000)), [0]);
    lldp.set_up(at(2100), 1, true);
    assert_eq!(sent(&due(&mut lldp, 2100)), [1], "at once");
}

#[test]
fn what_it_says_holds_for_four_intervals() {
    let frames = due(&mut machine("a"), 0);
    let said = LldpFrame::parse(&frames[0].1).expect("it is LLDP");
    assert_eq!(u64::from(said.time_to_live) * 1_000_000_000, INTERVAL.as_nanos() * 4);
    assert_eq!(said.system_name, b"a");
}

#[test]
fn who_is_new_is_answered_soon_and_not_at_once_after_the_last_word() {
    let mut lldp = machine("a");
    due(&mut lldp, 0);
    lldp.hear(at(300), 0, &frame("b", "eth0", 8));
    assert_eq!(due(&mut lldp, 999).len(), 0);
    assert_eq!(due(&mut lldp, 1000).len(), 1);
    lldp.hear(at(1100), 0, &frame("b", "eth0", 8));
    assert_eq!(due(&mut lldp, 2999).iter().filter(|(port, _)| *port == 0).count(), 0, "it is known");
}

#[test]
fn who_is_not_heard_for_as_long_as_it_said_is_forgotten() {
    let mut lldp = machine("a");
    lldp.hear(at(0), 0, &frame("b", "eth0", 8));
    due(&mut lldp, 7999);
    assert_eq!(heard(&lldp, 0), ["b eth0"]);
    let before = lldp.changes();
    due(&mut lldp, 8000);
    assert!(heard(&lldp, 0).is_empty() && lldp.changes() > before);
}

#[test]
fn who_says_to_be_there_for_hours_is_believed_for_two_minutes() {
    let mut lldp = machine("a");
    lldp.hear(at(0), 0, &frame("b", "eth0", u16::MAX));
    let end = LONGEST_LIFE.as_nanos() / 1_000_000;
    due(&mut lldp, end - 1);
    assert_eq!(heard(&lldp, 0).len(), 1);
    due(&mut lldp, end);
    assert_eq!(heard(&lldp, 0).len(), 0);
}

#[test]
fn who_says_farewell_is_forgotten_at_once() {
    let (mut a, b) = (machine("a"), machine("b"));
    a.hear(at(0), 0, &frame("b", "eth1", 8));
    a.hear(at(0), 1, &frame("b", "eth2", 8));
    let last = b.farewell(&MACS);
    assert_eq!(last.len(), 2);
    a.hear(at(1), 0, &last[0].1);
    assert_eq!((heard(&a, 0).len(), heard(&a, 1).len()), (0, 1));
}

#[test]
fn behind_a_port_that_is_down_nobody_is_known_and_nobody_is_heard() {
    let mut lldp = machine("a");
    lldp.hear(at(0), 0, &frame("b", "eth0", 8));
    lldp.set_up(at(1), 0, false);
    lldp.hear(at(2), 0, &frame("b", "eth0", 8));
    assert!(heard(&lldp, 0).is_empty());
    lldp.set_up(at(3), 0, true);
    assert!(heard(&lldp, 0).is_empty());
}

#[test]
fn changes_count_up_when_what_is_told_has_changed_and_else_not() {
    let mut lldp = machine("a");
    lldp.hear(at(0), 0, &frame("b", "eth0", 8));
    let known = lldp.changes();
    lldp.hear(at(1), 0, &frame("b", "eth0", 8));
    lldp.set_up(at(1), 0, true);
    due(&mut lldp, 1);
    assert_eq!(lldp.changes(), known);
    lldp.hear(at(2), 0, &frame("c", "eth0", 8));
    assert_eq!(lldp.changes(), known + 1);
}

#[test]
fn names_that_no_frame_can_carry_are_refused() {
    let refusal = |machine: &str| Lldp::new(machine, &["eth1".into()]).expect_err("refused").to_string();
    assert_eq!(refusal(""), "expected a name of 1 to 255 bytes for LLDP, found 0; choose another");
    assert_eq!(
        refusal(&"a".repeat(256)),
        "expected a name of 1 to 255 bytes for LLDP, found 256; choose another"
    );
}
