//! See `flex_fuzz::options`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flex_fuzz::options(bytes));
