//! Feeds `src/mode_i_switch.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::mode_i_switch::check(bytes));
