//! The backend traits of Burn 0.21.
//!
//! One file per trait. An operation is one line: unwrap the tensors, call the engine, wrap the result. In
//! addition to the traits, `autodiff` has operations that supply their own gradients to `burn-autodiff`.

#[cfg(feature = "autodiff")]
pub mod autodiff;
mod backend;
mod convert;
mod ir;
mod ops_activation;
mod ops_bool;
mod ops_float;
mod ops_int;
mod ops_module;
mod ops_q;
mod random;
mod tensor;

pub use backend::{Flex, FlexDevice, FlexFloat, FlexInt};
pub use tensor::{FlexQTensor, FlexTensor};

/// Trait methods that are one call into the engine: `name(arguments) => call;` stands for
/// `fn name(arguments) -> FlexTensor { call.or_panic() }`.
macro_rules! ops {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) => $call:expr;)*) => {$(
        fn $name($($arg: $ty),*) -> $crate::FlexTensor {
            $crate::v0_21::convert::OrPanic::or_panic($call)
        }
    )*};
}
use ops;
