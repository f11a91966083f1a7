//! Feeds `src/parse_lldp.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::parse_lldp::check(bytes));
