//! Feeds `src/control_rpc.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quincunx_fuzz::control_rpc::check(bytes));
