//! Feeds `src/roce_host.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::roce_host::check(bytes));
