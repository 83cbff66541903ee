//! The code that all releases share; see the crate's documentation. The lists of operations are declared
//! here; the other files of this folder are declared by each release.

/// Trait methods that are one call into the engine: `name(arguments) => call;` stands for
/// `fn name(arguments) -> FlexTensor { call.or_panic() }`.
macro_rules! ops {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) => $call:expr;)*) => {$(
        fn $name($($arg: $ty),*) -> T {
            OrPanic::or_panic($call)
        }
    )*};
}

/// Like `ops!`, for methods that return a quantized tensor.
macro_rules! q_ops {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) => $call:expr;)*) => {$(
        fn $name($($arg: $ty),*) -> Q {
            OrPanic::or_panic($call)
        }
    )*};
}

#[macro_use]
mod activation_ops;
#[macro_use]
mod bool_ops;
#[macro_use]
mod float_ops;
#[macro_use]
mod handles;
#[macro_use]
mod int_ops;
#[macro_use]
mod module_ops;
#[macro_use]
pub(crate) mod quantized_ops;
