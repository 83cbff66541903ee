//! Checks that the gradient check can fail: it gets derivatives that are wrong in different ways, each made
//! by hiding a part of a computation from the graph.

use super::check::{Cases, check as check_case};
use super::{Array, smooth};
use burn_backend::Slice;
use burn_backend::backend::AutodiffBackend;

/// Checks that wrong derivatives are distinguished from right ones.
///
/// # Panics
/// Panics if a wrong derivative passes or the right one fails.
pub fn check<B: AutodiffBackend>() {
    let mut cases = Cases::<B>(Vec::new());
    let x = || [smooth(&[3, 5], (0.5, 2.0), 1)];
    // x^2 as a product, whose derivative is 2 x.
    cases.add(&["float_mul"], "right", x(), |[x]| B::float_mul(x.clone(), x));
    assert_eq!(check_case(&cases.0[0]), Ok(()));

    let mut cases = Cases::<B>(Vec::new());
    cases.add(&["float_mul"], "half of it", x(), |[x]| B::float_mul(B::float_detach(x.clone()), x));
    cases.add(&["float_mul"], "off by a factor of 1 + 1e-6", x(), |[x]| {
        let hidden = B::float_mul_scalar(B::float_detach(x.clone()), 1e-6.into());
        B::float_add(B::float_mul_scalar(x, (1.0 - 1e-6).into()), hidden)
    });
    cases.add(&["float_slice"], "one element of fifteen without a gradient", x(), |[x]| {
        let one = [Slice::new(1, Some(2), 1), Slice::new(3, Some(4), 1)];
        let hidden = B::float_slice(B::float_detach(x.clone()), &one);
        B::float_slice_assign(x, &one, hidden)
    });
    cases.add(&["float_swap_dims"], "gradients in another order", [smooth(&[3, 3], (0.5, 2.0), 1)], |[x]| {
        // x + (transposed - transposed), in which only the first transposed tensor is tracked.
        let hidden = B::float_detach(x.clone());
        let turned = B::float_swap_dims(x, 0, 1);
        let difference = B::float_sub(turned.clone(), B::float_detach(turned));
        B::float_add(hidden, difference)
    });
    cases.add(&["float_mul"], "the other sign", x(), |[x]| {
        let twice = B::float_mul_scalar(B::float_detach(x.clone()), 2.0.into());
        B::float_sub(twice, x)
    });
    cases.add(&["float_sqrt"], "NaN", [Array::new([2], vec![0.0, 1.0])], |[x]| {
        // Zero times an infinite derivative; the values are right.
        let nothing =
            B::float_mul_scalar(B::float_sqrt(B::float_mul_scalar(x.clone(), 0.0.into())), 0.0.into());
        B::float_add(x, nothing)
    });
    cases.add(&["float_detach"], "none at all", x(), |[x]| B::float_detach(x));
    cases.add(&["float_detach"], "none for the second input", [x(), x()].map(|[x]| x), |[a, b]| {
        B::float_mul(a, B::float_detach(b))
    });
    for case in &cases.0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check_case(case)));
        assert!(!matches!(outcome, Ok(Ok(()))), "{} passed", case.name);
    }
}
