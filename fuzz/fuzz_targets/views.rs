//! See `flex_fuzz::views`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flex_fuzz::views(bytes));
