//! Views: axes that do not exist, shapes that cannot be reached.

use super::{BadCall, Fixture, calls};
use crate::kind::{Bool, Float, Int, Kind};
use burn_backend::{Backend, Shape, Slice};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    of_kind::<B, Float>(&mut list, "float", |t, shape| t.f(shape));
    of_kind::<B, Int>(&mut list, "int", |t, shape| t.i(shape));
    of_kind::<B, Bool>(&mut list, "bool", |t, shape| t.b(shape));
    calls!(list, t,
        "transpose", "a vector": float_transpose(t.f(&[3]));
        "transpose", "a scalar": float_transpose(t.f(&[]));
        "transpose", "a vector": int_transpose(t.i(&[3]));
        "transpose", "a vector": bool_transpose(t.b(&[3]));
    );
    list
}

/// A zero step: `Slice::new` refuses it, but `Slice`'s public fields accept it.
fn step_of_zero() -> Slice {
    Slice { start: 0, end: None, step: 0 }
}

fn of_kind<B: Backend, K: Kind<B>>(
    list: &mut Vec<BadCall<B>>,
    kind: &'static str,
    make: fn(&Fixture<B>, &[usize]) -> K::Tensor,
) {
    let mut add = |operation: &'static str,
                   fault: &'static str,
                   shape: &'static [usize],
                   run: fn(K::Tensor) -> K::Tensor| {
        let method = format!("{kind}_{operation}");
        list.push(BadCall::new(operation, method, fault, move |t| drop(run(make(t, shape)))));
    };
    add("reshape", "fewer elements", &[2, 3], |t| K::reshape(t, Shape::new([5])));
    add("reshape", "more elements", &[2, 3], |t| K::reshape(t, Shape::new([2, 4])));
    add("reshape", "none of some elements", &[2, 3], |t| K::reshape(t, Shape::new([0, 6])));
    add("reshape", "some of no elements", &[0, 3], |t| K::reshape(t, Shape::new([1])));
    add("reshape", "a product that wraps to the right number", &[2, 3], |t| {
        K::reshape(t, Shape::new([1 << 33, 1 << 31, 6]))
    });
    add("slice", "more slices than axes", &[2, 3], |t| K::slice(t, &[Slice::full(); 3]));
    add("slice", "a slice of a scalar", &[], |t| K::slice(t, &[Slice::full()]));
    add("slice", "a step of zero", &[2, 3], |t| K::slice(t, &[Slice::full(), step_of_zero()]));
    add("swap_dims", "the first axis out of range", &[2, 3], |t| K::swap_dims(t, 2, 0));
    add("swap_dims", "the second axis out of range", &[2, 3], |t| K::swap_dims(t, 0, usize::MAX));
    add("permute", "too few axes", &[2, 3], |t| K::permute(t, &[0]));
    add("permute", "too many axes", &[2, 3], |t| K::permute(t, &[0, 1, 2]));
    add("permute", "an axis twice", &[2, 3], |t| K::permute(t, &[1, 1]));
    add("permute", "an axis out of range", &[2, 3], |t| K::permute(t, &[0, 2]));
    add("flip", "an axis out of range", &[2, 3], |t| K::flip(t, &[2]));
    add("flip", "an axis out of range after a valid one", &[2, 3], |t| K::flip(t, &[0, usize::MAX]));
    add("expand", "an axis of another size than one", &[2, 3], |t| K::expand(t, Shape::new([4, 3])));
    add("expand", "fewer axes", &[2, 3], |t| K::expand(t, Shape::new([3])));
    add("expand", "an axis to nothing", &[2, 3], |t| K::expand(t, Shape::new([0, 3])));
    add("expand", "a shape that overflows", &[1, 3], |t| K::expand(t, Shape::new([usize::MAX, 3])));
    add("expand", "a product that wraps to zero", &[1, 1], |t| K::expand(t, Shape::new([1 << 32, 1 << 32])));
    add("unfold", "an axis out of range", &[2, 5], |t| K::unfold(t, 2, 1, 1));
    add("unfold", "a step of zero", &[2, 5], |t| K::unfold(t, 1, 2, 0));
    add("unfold", "a window of the largest size", &[2, 5], |t| K::unfold(t, 1, usize::MAX, 1));
}
