//! Feeds `checks/parse_flit.rs`.
#![no_main]

#[path = "../checks/parse_flit.rs"]
mod parse_flit;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse_flit::check(bytes));
