//! Feeds `checks/roce_host.rs`.
#![no_main]

#[path = "../checks/roce_host.rs"]
mod roce_host;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| roce_host::check(bytes));
