//! The committed corpus of the fuzz target for messages of the control plane, put through the same check on stable Rust.

use crate::{control_rpc, replay};

#[test]
fn messages_to_a_manager_and_from_it_pass() {
    replay::replay("control_rpc", control_rpc::check);
}

#[test]
fn messages_that_are_cut_or_changed_anywhere_pass() {
    let seed = std::fs::read(replay::corpus("control_rpc").join("run-epic-3")).unwrap();
    for at in 0..seed.len() {
        control_rpc::check(&seed[..at]);
        let mut changed = seed.clone();
        changed[at] ^= 1 << (at % 8);
        control_rpc::check(&changed);
    }
}
