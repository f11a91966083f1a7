//! Feeds `src/parse_v1.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::parse_v1::check(bytes));
