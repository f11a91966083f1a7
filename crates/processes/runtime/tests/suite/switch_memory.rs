//! What the manager books for a group at a switch is what the switch takes.

use crate::common::StaticGroup;
use quincunx_collective::Numbers;
use quincunx_design::{GroupContext, Node, Value};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_fabric::IncTree;
use quincunx_nodes::{NodeDrop, Switch, SwitchCommand, SwitchEvent, SwitchTimer, switch_group};
use quincunx_units::{Duration, Instant};
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

/// A group on a tree, with an MTU of 1 KiB, messages of 3 packets and a window of 2.
fn group(shape: &str, design: &str, reproducible: bool) -> StaticGroup {
    let tree = IncTree::from_shape(&shape.parse().unwrap());
    let parameters = [
        ("group.mtu", Value::from(1024)),
        ("group.message", Value::from(3)),
        ("group.window", Value::from(2)),
        ("group.reproducible", Value::from(reproducible)),
    ];
    StaticGroup::on_tree(1, &tree, design, &parameters, Psn::new(0))
}

fn taken(group: &StaticGroup, context: &GroupContext) -> u64 {
    let Ok(mut switch) = Switch::<Numbers>::new(());
    let group = switch_group(group.design, context, None, |_| PortId(0)).unwrap();
    switch.handle_command(Instant::ZERO, SwitchCommand::Install(Box::new(group)), &mut Deaf).unwrap();
    switch.buffer_bytes() as u64
}

fn books_what_is_taken(design: &str) {
    for shape in ["star-2", "star-5", "tree-2x3", "tree-3x1x2"] {
        for reproducible in [false, true] {
            let group = group(shape, design, reproducible);
            for context in group.contexts.values().filter(|context| context.node == Node::Switch) {
                let edges = context.connections.len();
                let booked = context.memory.bytes();
                let taken = taken(&group, context);
                assert_eq!(booked, taken, "{shape}, {edges} edges, reproducible {reproducible}");
            }
        }
    }
}

#[test]
fn a_mode_i_switch_takes_what_the_manager_books() {
    books_what_is_taken("epic-1");
}

#[test]
fn a_mode_ii_switch_takes_what_the_manager_books() {
    books_what_is_taken("epic-2");
}

#[test]
fn a_mode_iii_switch_takes_what_the_manager_books() {
    books_what_is_taken("epic-3");
}
