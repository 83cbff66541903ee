//! Fuzz targets of the Flex engine. Each is a function of bytes, which it decodes with `arbitrary`; it
//! returns if all is well, and panics on a find. `fuzz_targets` hands these functions to libFuzzer,
//! `tests/smoke.rs` runs them on random bytes without it.
#![deny(missing_docs)]

mod data;
mod limit;
mod numbers;
mod options;
mod quantized;
mod tensor_data;
mod views;

pub use data::data;
pub use options::options;
pub use tensor_data::tensor_data;
pub use views::views;
