//! Gradients: every differentiable method and option of Burn's traits, compared with finite differences in
//! `f64`.
//!
//! ```ignore
//! burn_tests::testgen_gradients!(burn_autodiff::Autodiff<burn_flex::Flex>);
//! ```

pub mod activation;
pub mod check;
pub mod convolution;
pub mod coverage;
pub mod elementwise;
pub mod indexing;
pub mod movement;
pub mod pooling;
pub mod product;
pub mod reduction;
pub mod sensitivity;

use crate::array::Array;
use crate::kind::{Bool, Int, Kind};
use crate::support::Stream;
use burn_backend::tensor::{BoolTensor, IntTensor};
use burn_backend::{Backend, DType};
use check::Cases;

/// The families: a name and the function that lists its cases.
pub fn families<B: Backend>() -> Vec<(&'static str, fn(&mut Cases<B>))> {
    vec![
        ("elementwise", elementwise::cases),
        ("activation", activation::cases),
        ("reduction", reduction::cases),
        ("movement", movement::cases),
        ("indexing", indexing::cases),
        ("product", product::cases),
        ("convolution", convolution::cases),
        ("pooling", pooling::cases),
    ]
}

/// Generates the gradient tests of a backend that differentiates, in the module where the macro is called.
#[macro_export]
macro_rules! testgen_gradients {
    ($backend:ty) => {
        $crate::testgen_gradients!($backend;
            elementwise, activation, reduction, movement, indexing, product, convolution, pooling);

        #[test]
        fn no_method_is_forgotten() {
            $crate::gradients::coverage::check::<$backend>();
        }

        #[test]
        fn wrong_gradients_are_caught() {
            $crate::gradients::sensitivity::check::<$backend>();
        }
    };
    ($backend:ty; $($family:ident),*) => {
        $(
            #[test]
            fn $family() {
                let mut cases = $crate::gradients::check::Cases::<$backend>(Vec::new());
                $crate::gradients::$family::cases(&mut cases);
                $crate::gradients::check::check_all(cases);
            }
        )*
    };
}

/// Floats in a range, multiples of 2^-20.
fn smooth(shape: &[usize], (low, high): (f64, f64), seed: u64) -> Array<f64> {
    let mut stream = Stream::new(seed);
    let grid = (1u64 << 20) as f64;
    Array::from_fn(shape.to_vec(), |_| ((low + stream.unit() * (high - low)) * grid).round() / grid)
}

/// Floats of different magnitudes, at least 1/32 apart from each other and from multiples of 1/8. For
/// functions that compare or round.
fn distinct(shape: &[usize], seed: u64) -> Array<f64> {
    let count: usize = shape.iter().product();
    let mut order: Vec<usize> = (0..count).collect();
    let mut stream = Stream::new(seed);
    for i in (1..count).rev() {
        order.swap(i, stream.int(0, i as i128 + 1) as usize);
    }
    // The offset is not half of the spacing: otherwise values of opposite sign would have the same magnitude.
    let value = |k: usize| (k as f64 - (count / 2) as f64) * 0.25 + 0.0859375;
    Array::new(shape, order.into_iter().map(value).collect())
}

/// An integer tensor.
fn indices<B: Backend>(shape: &[usize], values: &[i128]) -> IntTensor<B> {
    let array = Array::new(shape, values.to_vec());
    <Int as Kind<B>>::from_data(<Int as Kind<B>>::encode(&array, DType::I64), &Default::default())
}

/// A boolean tensor.
fn mask<B: Backend>(shape: &[usize], seed: u64) -> BoolTensor<B> {
    let array = crate::support::bools(shape, seed);
    let dtype = burn_backend::get_device_settings::<B>(&Default::default()).bool_dtype;
    <Bool as Kind<B>>::from_data(<Bool as Kind<B>>::encode(&array, dtype.into()), &Default::default())
}
