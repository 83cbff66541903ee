//! Gather, scatter, select, masks and sorting.

use super::check::Cases;
use super::{distinct, indices, mask, smooth};
use crate::release::Backend;
use burn_backend::IntDType;
use burn_backend::tensor::IndexingUpdateOp;

const RANGE: (f64, f64) = (-2.0, 2.0);

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    by_axis(cases);
    by_position(cases);
    masks(cases);
    order(cases);
}

fn by_axis<B: Backend>(cases: &mut Cases<B>) {
    // Positions of [2, 3] in an axis of 4, some of them twice.
    for (axis, shape, positions) in [(1, [2, 4], [3, 0, 3, 1, 1, 2]), (0, [4, 3], [3, 0, 3, 3, 1, 2])] {
        let at = move || indices::<B>(&[2, 3], &positions);
        cases.add(&["float_gather"], format!("axis {axis}"), [smooth(&shape, RANGE, 1)], move |[x]| {
            B::float_gather(axis, x, at())
        });
        cases.add(
            &["float_scatter_add"],
            format!("axis {axis}"),
            [smooth(&shape, RANGE, 1), smooth(&[2, 3], RANGE, 2)],
            move |[x, value]| B::float_scatter_add(axis, x, at(), value),
        );
    }
    for axis in 0..3 {
        let shape = [3, 4, 5];
        let mut picked = shape;
        picked[axis] = 4;
        let at = || indices::<B>(&[4], &[2, 0, 2, 1]);
        cases.add(&["float_select"], format!("axis {axis}"), [smooth(&shape, RANGE, 1)], move |[x]| {
            B::float_select(x, axis, at())
        });
        cases.add(
            &["float_select_add"],
            format!("axis {axis}"),
            [smooth(&shape, RANGE, 1), smooth(&picked, RANGE, 2)],
            move |[x, value]| B::float_select_add(x, axis, at(), value),
        );
    }
}

fn by_position<B: Backend>(cases: &mut Cases<B>) {
    let whole = || indices::<B>(&[3, 2], &[1, 2, 0, 0, 2, 1]);
    let rows = || indices::<B>(&[2, 1], &[2, 0]);
    cases.add(&["float_gather_nd"], "elements", [smooth(&[3, 4], RANGE, 1)], move |[x]| {
        B::float_gather_nd(x, whole())
    });
    cases.add(&["float_gather_nd"], "rows", [smooth(&[3, 4], RANGE, 1)], move |[x]| {
        B::float_gather_nd(x, rows())
    });
    cases.add(&["float_gather_nd"], "one element twice", [smooth(&[3, 4], RANGE, 1)], |[x]| {
        B::float_gather_nd(x, indices::<B>(&[2, 2], &[1, 3, 1, 3]))
    });
    for update in ["Add", "Assign", "Mul", "Min", "Max"] {
        let update_op = move || match update {
            "Add" => IndexingUpdateOp::Add,
            "Assign" => IndexingUpdateOp::Assign,
            "Mul" => IndexingUpdateOp::Mul,
            "Min" => IndexingUpdateOp::Min,
            _ => IndexingUpdateOp::Max,
        };
        // Values between the elements, so that minima and maxima are unique.
        let elements = |n: usize| distinct(&[n], 2).map(|x| x + 0.125);
        cases.add(
            &["float_scatter_nd"],
            format!("{update} elements"),
            [distinct(&[3, 4], 1), elements(3)],
            move |[x, value]| B::float_scatter_nd(x, whole(), value, update_op()),
        );
        cases.add(
            &["float_scatter_nd"],
            format!("{update} rows"),
            [distinct(&[3, 4], 1), elements(8).reshape([2, 4])],
            move |[x, value]| B::float_scatter_nd(x, rows(), value, update_op()),
        );
    }
    cases.add(
        &["float_scatter_nd"],
        "Add to one element twice",
        [smooth(&[3, 4], RANGE, 1), smooth(&[2], RANGE, 2)],
        |[x, value]| {
            B::float_scatter_nd(x, indices::<B>(&[2, 2], &[1, 3, 1, 3]), value, IndexingUpdateOp::Add)
        },
    );
}

fn masks<B: Backend>(cases: &mut Cases<B>) {
    for (tensor, source) in [([3, 5], [3, 5]), ([3, 5], [1, 5]), ([3, 5], [3, 1])] {
        cases.add(
            &["float_mask_where"],
            format!("{tensor:?} {source:?}"),
            [smooth(&tensor, RANGE, 1), smooth(&source, RANGE, 2)],
            |[x, source]| B::float_mask_where(x, mask::<B>(&[3, 5], 3), source),
        );
    }
    cases.add(&["float_mask_fill"], "", [smooth(&[3, 5], RANGE, 1)], |[x]| {
        B::float_mask_fill(x, mask::<B>(&[3, 5], 3), 7.0.into())
    });
}

fn order<B: Backend>(cases: &mut Cases<B>) {
    for (shape, axis) in [(&[9][..], 0), (&[3, 5], 0), (&[3, 5], 1), (&[2, 4, 3], 1)] {
        for descending in [false, true] {
            let name = format!("{shape:?} axis {axis} descending {descending}");
            cases.add(&["float_sort"], name.clone(), [distinct(shape, 1)], move |[x]| {
                B::float_sort(x, axis, descending)
            });
            cases.add(&["float_sort_with_indices"], name, [distinct(shape, 1)], move |[x]| {
                B::float_sort_with_indices(x, axis, descending, IntDType::I64).0
            });
        }
        // The two largest, in the form that replaces `Tensor::topk` for tracked tensors.
        cases.add(
            &["float_gather"],
            format!("top 2 of {shape:?} axis {axis}"),
            [distinct(shape, 1)],
            move |[x]| {
                let at = B::float_argtopk(x.clone(), axis, 2, IntDType::I64);
                B::float_gather(axis, x, at)
            },
        );
    }
}
