//! Feeds `src/parse_datagram.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::parse_datagram::check(bytes));
