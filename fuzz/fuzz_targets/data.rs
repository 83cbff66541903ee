//! See `flex_fuzz::data`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flex_fuzz::data(bytes));
