//! What the manager books for a group at a switch is what the switch takes.

mod common;

use quincunx_collective::{GroupId, Numbers};
use quincunx_control::{GroupParameters, Retry, SwitchContext};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_fabric::{IncTree, Mode};
use quincunx_nodes::{NodeDrop, Switch, SwitchCommand, SwitchEvent, SwitchTimer, switch_group};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Psn, RoceHeader};

/// Listens to nothing.
struct Deaf;

impl Sink<Switch<Numbers>> for Deaf {
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Numbers>) {}
    fn set_timer(&mut self, _: SwitchTimer, _: Duration) {}
    fn cancel_timer(&mut self, _: SwitchTimer) {}
    fn emit(&mut self, _: SwitchEvent) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}

/// The contexts of a tree's switches, in a group with an MTU of 1 KiB, messages of 3 packets and a window of 2.
fn contexts(shape: &str, mode: Mode, reproducible: bool) -> Vec<SwitchContext> {
    let tree = IncTree::from_shape(&shape.parse().unwrap());
    let parameters = GroupParameters {
        group: GroupId(1),
        ranks: tree.ranks(),
        mtu: ByteCount::new(1024),
        message_packets: 3,
        window_messages: 2,
        reproducible,
        initial_psn: Psn::new(0),
        retry: Retry { timeout: Duration::from_millis(20), count: 7 },
    };
    common::contexts(&tree, mode, &parameters).switches.into_values().collect()
}

fn taken(context: &SwitchContext) -> u64 {
    let Ok(mut switch) = Switch::<Numbers>::new(());
    let install = SwitchCommand::Install(Box::new(switch_group(context, |_| PortId(0))));
    switch.handle_command(Instant::ZERO, install, &mut Deaf).unwrap();
    switch.buffer_bytes() as u64
}

fn books_what_is_taken(mode: Mode) {
    for shape in ["star-2", "star-5", "tree-2x3", "tree-3x1x2"] {
        for reproducible in [false, true] {
            for context in contexts(shape, mode, reproducible) {
                let edges = context.edges.len();
                let booked = context.memory().bytes();
                assert_eq!(booked, taken(&context), "{shape}, {edges} edges, reproducible {reproducible}");
            }
        }
    }
}

#[test]
fn a_mode_i_switch_takes_what_the_manager_books() {
    books_what_is_taken(Mode::I);
}

#[test]
fn a_mode_ii_switch_takes_what_the_manager_books() {
    books_what_is_taken(Mode::II);
}

#[test]
fn a_mode_iii_switch_takes_what_the_manager_books() {
    books_what_is_taken(Mode::III);
}
