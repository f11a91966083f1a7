//! The committed corpus of the switch's fuzz target, put through the same checks on stable Rust.

use crate::{ethernet_switch, replay};

#[test]
fn frames_and_writes_to_registers_pass() {
    replay::replay("ethernet_switch", ethernet_switch::check);
}

proptest::proptest! {
    #[test]
    fn any_events_pass(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        ethernet_switch::check(&bytes);
    }
}
