//! Feeds `checks/inc_engine.rs`.
#![no_main]

#[path = "../checks/inc_engine.rs"]
mod inc_engine;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inc_engine::check(bytes));
