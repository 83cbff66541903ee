//! Laws that hold for all shapes, checked on random ones.
//!
//! ```ignore
//! burn_tests::testgen_properties!(burn_flex::Flex);
//! ```
//!
//! Every run draws the same inputs. `BURN_TESTS_SEED=7` draws other inputs, `BURN_TESTS_CASES=10000` draws
//! more. A failure prints the seed and the smallest failing input that was found.

pub mod algebra;
pub mod ordering;
pub mod views;

use crate::array::Array;
use crate::kind::Kind;
use burn_backend::{Backend, DType};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Generates the property tests of a backend, in the module where the macro is called.
#[macro_export]
macro_rules! testgen_properties {
    ($backend:ty) => {
        $crate::testgen_properties!($backend;
            views: float_views, int_views, bool_views, round_trips, cat_and_slice, broadcasting;
            algebra: matmul_is_linear, conv_is_linear, conv_has_an_adjoint, softmax_rows_sum_to_one, rfft_inverts;
            ordering: float_sort, int_sort, top_k_is_the_head_of_sort, scatter_inverts_gather, gather_has_an_adjoint;
        );
    };
    ($backend:ty; $($module:ident: $($property:ident),*;)*) => {
        $($(
            #[test]
            fn $property() {
                $crate::properties::$module::$property::<$backend>();
            }
        )*)*
    };
}

/// Checks a law on random inputs.
///
/// # Panics
/// Panics with the seed and the smallest failing input.
pub fn holds<S: Strategy>(name: &str, cases: u32, inputs: S, law: impl Fn(S::Value) -> Result<(), String>) {
    let number = |variable| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("BURN_TESTS_SEED").unwrap_or(0);
    let cases = number("BURN_TESTS_CASES").map_or(cases, |cases| cases as u32);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    // Each law draws its own inputs.
    for (byte, letter) in bytes[8..].iter_mut().zip(name.bytes()) {
        *byte = letter;
    }
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&inputs, |input| law(input).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{name} (BURN_TESTS_SEED={seed}): {error}");
    }
}

/// Sizes of axes: zero, one, and around vector widths.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        1 => Just(0usize),
        4 => Just(1usize),
        6 => 2usize..6,
        2 => 7usize..10,
        2 => 15usize..18,
        1 => 31usize..34,
    ]
}

/// Sizes of at least one, around vector widths and the edges of matrix tiles.
fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![
        3 => 1usize..6,
        2 => 7usize..10,
        2 => 15usize..18,
        1 => 31usize..34,
        1 => 47usize..50,
        1 => 63usize..66,
    ]
}

/// Shapes of rank 0 to 6 and of at most a few thousand elements.
fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(size(), 0..=6).prop_map(bounded)
}

/// Cuts axes until the product is small.
fn bounded(mut shape: Vec<usize>) -> Vec<usize> {
    let mut product = 1;
    for size in &mut shape {
        if product * *size > 4000 {
            *size = (*size).min(2);
        }
        product *= (*size).max(1);
    }
    shape
}

/// Small integers, with which float arithmetic is exact in any order of the terms.
fn small(shape: &[usize], seed: u64) -> Array<f64> {
    let mut stream = crate::support::Stream::new(seed);
    Array::from_fn(shape.to_vec(), |_| stream.int(-4, 5) as f64)
}

fn upload<B: Backend, K: Kind<B>>(array: &Array<K::Value>, dtype: DType) -> K::Tensor {
    K::from_data(K::encode(array, dtype), &Default::default())
}

fn download<B: Backend, K: Kind<B>>(tensor: K::Tensor) -> Array<K::Value> {
    K::decode(&K::into_data(tensor))
}

/// Whether two arrays are equal, with a short description when they are not.
fn same<T: Copy + PartialEq + std::fmt::Debug>(
    what: impl std::fmt::Display,
    got: &Array<T>,
    want: &Array<T>,
) -> Result<(), String> {
    crate::compare::compare_exact(got, want).map_err(|error| format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_that_does_not_hold_fails_with_its_smallest_input_and_the_seed() {
        let outcome = std::panic::catch_unwind(|| {
            holds("sizes are below nine", 256, size(), |n| if n < 9 { Ok(()) } else { Err("large".into()) })
        });
        let message = crate::row::panic_text(&*outcome.expect_err("the law does not hold"));
        assert!(message.contains("BURN_TESTS_SEED=") && message.contains('9'), "{message}");
    }

    #[test]
    fn shapes_of_every_rank_and_kind_are_drawn() {
        let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
        holds("shapes", 256, shape(), |shape| {
            assert!(shape.iter().product::<usize>() <= 4000 * 2);
            seen.borrow_mut().insert((shape.len(), shape.contains(&0)));
            Ok(())
        });
        assert!((0..=6).all(|rank| seen.borrow().contains(&(rank, false))), "{seen:?}");
        assert!(seen.borrow().contains(&(3, true)));
    }
}
