//! Feeds `src/parse_flit.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::parse_flit::check(bytes));
