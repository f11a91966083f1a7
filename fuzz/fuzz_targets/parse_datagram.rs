//! Feeds `checks/parse_datagram.rs`.
#![no_main]

#[path = "../checks/parse_datagram.rs"]
mod parse_datagram;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parse_datagram::check(bytes));
