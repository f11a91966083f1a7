//! Feeds `src/parse_frame.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::parse_frame::check(bytes));
