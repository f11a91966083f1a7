//! Feeds `src/inc_engine.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::inc_engine::check(bytes));
