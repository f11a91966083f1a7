//! Feeds `src/ethernet_switch.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::ethernet_switch::check(bytes));
