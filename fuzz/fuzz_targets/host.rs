//! Feeds `checks/host.rs`.
#![no_main]

#[path = "../checks/host.rs"]
mod host;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| host::check(bytes));
