//! Views, concatenation, repetition and assignment to slices.

use super::check::Cases;
use super::smooth;
use burn_backend::{Backend, Slice};

const RANGE: (f64, f64) = (-2.0, 2.0);

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    views(cases);
    slices(cases);
    copies(cases);
    for (shape, axis, size, step) in
        [(&[7][..], 0, 3, 1), (&[3, 8], 1, 3, 2), (&[6, 2], 0, 2, 3), (&[2, 5, 3], 1, 5, 1)]
    {
        let name = format!("{shape:?} axis {axis} size {size} step {step}");
        cases.add(&["float_unfold"], name, [smooth(shape, RANGE, 1)], move |[x]| {
            B::float_unfold(x, axis, size, step)
        });
    }
}

fn views<B: Backend>(cases: &mut Cases<B>) {
    for (from, to) in
        [(&[2, 3, 4][..], &[6, 4][..]), (&[12], &[2, 2, 3]), (&[2, 3], &[1, 2, 1, 3]), (&[5], &[5])]
    {
        cases.add(&["float_reshape"], format!("{from:?} to {to:?}"), [smooth(from, RANGE, 1)], move |[x]| {
            B::float_reshape(x, to.into())
        });
    }
    for axes in [&[1, 0, 2][..], &[2, 0, 1], &[0, 1, 2], &[2, 1, 0]] {
        cases.add(&["float_permute"], format!("{axes:?}"), [smooth(&[2, 3, 4], RANGE, 1)], move |[x]| {
            B::float_permute(x, axes)
        });
    }
    for (a, b) in [(0, 1), (0, 2), (1, 1), (2, 1)] {
        cases.add(
            &["float_swap_dims"],
            format!("{a} and {b}"),
            [smooth(&[2, 3, 4], RANGE, 1)],
            move |[x]| B::float_swap_dims(x, a, b),
        );
    }
    cases.add(&["float_transpose"], "", [smooth(&[2, 3, 4], RANGE, 1)], |[x]| B::float_transpose(x));
    for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
        cases.add(&["float_flip"], format!("{axes:?}"), [smooth(&[2, 3, 4], RANGE, 1)], move |[x]| {
            B::float_flip(x, axes)
        });
    }
    for (from, to) in [
        (&[1, 3][..], &[4, 3][..]),
        (&[3, 1], &[3, 5]),
        (&[3], &[2, 3]),
        (&[1, 2, 1], &[3, 2, 4]),
        (&[2, 2], &[2, 2]),
    ] {
        cases.add(&["float_expand"], format!("{from:?} to {to:?}"), [smooth(from, RANGE, 1)], move |[x]| {
            B::float_expand(x, to.into())
        });
    }
    // A chain of views; the gradient passes back through all of them.
    cases.add(
        &["float_permute", "float_slice", "float_flip", "float_expand", "float_reshape"],
        "chained",
        [smooth(&[4, 6], RANGE, 1)],
        |[x]| {
            let x = B::float_permute(x, &[1, 0]);
            let x = B::float_slice(x, &[Slice::new(1, Some(6), 2), Slice::new(0, None, -1)]);
            let x = B::float_flip(x, &[0]);
            let x = B::float_expand(B::float_reshape(x, [1, 3, 4].into()), [2, 3, 4].into());
            B::float_reshape(x, [6, 4].into())
        },
    );
}

/// Slices of a [5, 7] tensor.
fn ranges() -> [(&'static str, [Slice; 2]); 7] {
    let full = Slice::new(0, None, 1);
    [
        ("all", [full, full]),
        ("window", [Slice::new(1, Some(4), 1), Slice::new(2, Some(5), 1)]),
        ("steps", [Slice::new(0, None, 2), Slice::new(1, None, 3)]),
        ("backwards", [Slice::new(0, None, -1), full]),
        ("backwards in steps", [Slice::new(1, Some(5), -2), Slice::new(0, Some(6), -3)]),
        ("from the end", [Slice::new(-3, None, 1), Slice::new(-5, Some(-1), 1)]),
        ("one element", [Slice::new(2, Some(3), 1), Slice::new(6, Some(7), 1)]),
    ]
}

fn slices<B: Backend>(cases: &mut Cases<B>) {
    for (name, slices) in ranges() {
        let x = smooth(&[5, 7], RANGE, 1);
        cases.add(&["float_slice"], name, [x.clone()], move |[x]| B::float_slice(x, &slices));
        let shape: Vec<usize> = (slices.iter().zip([5, 7]))
            .map(|(slice, size)| slice.to_range(size).len().div_ceil(slice.step.unsigned_abs()))
            .collect();
        cases.add(&["float_slice_assign"], name, [x, smooth(&shape, RANGE, 2)], move |[x, value]| {
            B::float_slice_assign(x, &slices, value)
        });
    }
}

fn copies<B: Backend>(cases: &mut Cases<B>) {
    for (axis, sizes) in [(0, [2, 3, 1]), (1, [1, 4, 2]), (2, [3, 3, 3])] {
        let part = |k: usize| {
            let mut shape = [2, 3, 4];
            shape[axis] = sizes[k];
            smooth(&shape, RANGE, k as u64)
        };
        cases.add(
            &["float_cat"],
            format!("axis {axis} sizes {sizes:?}"),
            [part(0), part(1), part(2)],
            move |parts| B::float_cat(parts.into(), axis),
        );
    }
    cases.add(&["float_cat"], "one tensor twice", [smooth(&[2, 3], RANGE, 1)], |[x]| {
        B::float_cat(vec![x.clone(), x], 1)
    });
    for (shape, axis, times) in [(&[1, 3][..], 0, 4), (&[3, 1], 1, 2), (&[2, 3], 1, 1)] {
        let name = format!("{shape:?} axis {axis} times {times}");
        cases.add(&["float_repeat_dim"], name, [smooth(shape, RANGE, 1)], move |[x]| {
            B::float_repeat_dim(x, axis, times)
        });
    }
    for (shape, axis, times) in [(&[2, 3][..], 0, 3), (&[3], 0, 2)] {
        let name = format!("{shape:?} axis {axis} times {times}");
        cases.add(&["float_repeat_dim"], name, [smooth(shape, RANGE, 1)], move |[x]| {
            B::float_repeat_dim(x, axis, times)
        });
        cases.known_wrong(
            "the derivative sums neighbours, as if each element were repeated, not the whole axis",
        );
    }
}
