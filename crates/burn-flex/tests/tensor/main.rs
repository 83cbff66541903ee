//! The backend through `burn_tensor::Tensor` and Burn's traits. One program, because most of its modules
//! compare with the same oracle, `burn-ndarray`, which the compiler translates once for each program.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod autodiff;
mod dtypes;
mod float;
#[cfg(feature = "autodiff")]
mod fused_gradients;
mod int_bool;
mod module;
mod quantized;
mod quantized_bytes;
mod refused_dtypes;
