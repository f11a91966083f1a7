//! Feeds `checks/mode_i_switch.rs`.
#![no_main]

#[path = "../checks/mode_i_switch.rs"]
mod mode_i_switch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mode_i_switch::check(bytes));
