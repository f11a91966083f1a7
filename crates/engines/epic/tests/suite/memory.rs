//! What a group takes of a switch (EPIC F.3), in a group with an MTU of 1 KiB, messages of 2 packets and a window of 4.

use quincunx_design::Transport;
use quincunx_epic::{GroupParams, Mode, slots, switch_memory};
use quincunx_units::{ByteCount, Messages, Packets};

const PACKET: u64 = 1024;
const DEGREE: u64 = 4;

fn parameters(reproducible: bool) -> GroupParams {
    let transport = Transport {
        mtu: ByteCount::new(PACKET),
        message: Packets::new(2),
        window: Messages::new(4),
        ..Transport::default()
    };
    GroupParams { transport, reproducible, ..GroupParams::default() }
}

fn bytes(mode: Mode, reproducible: bool, edges: u16) -> u64 {
    switch_memory(mode, &parameters(reproducible), edges).bytes()
}

#[test]
fn a_window_is_messages_times_packets() {
    assert_eq!(parameters(false).transport.window_packets(), Packets::new(8));
}

#[test]
fn mode_i_counts_slots_in_messages() {
    assert_eq!(slots(Mode::I, &parameters(false)), 4);
}

#[test]
fn mode_ii_has_twice_the_window_and_mode_iii_the_window_in_each_pipe() {
    assert_eq!(slots(Mode::II, &parameters(false)), 16);
    assert_eq!(slots(Mode::III, &parameters(false)), 8);
}

#[test]
fn mode_i_takes_a_window_for_each_edge_and_two_more_and_degrees_in_two_pipes() {
    assert_eq!(bytes(Mode::I, false, 3), 5 * 8 * PACKET + 2 * 4 * DEGREE);
    assert_eq!(bytes(Mode::I, false, 4), 6 * 8 * PACKET + 2 * 4 * DEGREE);
}

#[test]
fn mode_ii_takes_packets_and_degrees() {
    assert_eq!(bytes(Mode::II, false, 4), 16 * (PACKET + DEGREE));
}

#[test]
fn mode_iii_takes_as_many_as_are_set_if_they_are() {
    let some = GroupParams { slots: Some(3), ..parameters(false) };
    assert_eq!(slots(Mode::III, &some), 3);
    assert_eq!(switch_memory(Mode::III, &some, 4).bytes(), 2 * 3 * (PACKET + DEGREE));
}

#[test]
fn mode_iii_takes_packets_and_degrees_in_two_pipes() {
    assert_eq!(bytes(Mode::III, false, 4), 2 * 8 * (PACKET + DEGREE));
}

#[test]
fn reproducible_keeps_the_packets_of_each_edge() {
    assert_eq!(bytes(Mode::II, true, 4), 16 * (4 * PACKET + DEGREE));
    assert_eq!(bytes(Mode::III, true, 4), 8 * (4 * PACKET + DEGREE) + 8 * (PACKET + DEGREE));
    assert_eq!(bytes(Mode::I, true, 4), bytes(Mode::I, false, 4));
}

#[test]
fn the_largest_window_does_not_overflow() {
    let mut largest = parameters(true);
    (largest.transport.message, largest.transport.window) = (Packets::new(1 << 22), Messages::new(1));
    assert_eq!(slots(Mode::II, &largest), 1 << 23);
    assert!(switch_memory(Mode::II, &largest, u16::MAX) > ByteCount::new(1 << 48));
}
