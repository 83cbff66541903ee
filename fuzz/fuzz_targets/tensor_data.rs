//! See `flex_fuzz::tensor_data`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| flex_fuzz::tensor_data(bytes));
