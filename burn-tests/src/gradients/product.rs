//! Products: matmul, cross, linear layers, embeddings and attention.

use super::check::Cases;
use super::{indices, mask, smooth};
use burn_backend::Backend;
use burn_backend::ops::AttentionModuleOptions;

const RANGE: (f64, f64) = (-1.0, 1.0);

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    products(cases);
    layers(cases);
    attention(cases);
}

fn products<B: Backend>(cases: &mut Cases<B>) {
    let shapes: [(&[usize], &[usize]); 9] = [
        (&[3, 4], &[4, 5]),
        (&[1, 7], &[7, 1]),
        (&[5, 1], &[1, 4]),
        (&[1, 9], &[9, 5]),
        (&[2, 3, 4], &[2, 4, 3]),
        (&[2, 3, 4], &[1, 4, 3]),
        (&[1, 3, 4], &[3, 4, 2]),
        (&[2, 1, 2, 3], &[1, 3, 3, 2]),
        (&[2, 2, 1, 3], &[2, 2, 3, 4]),
    ];
    for (a, b) in shapes {
        let inputs = [smooth(a, RANGE, 1), smooth(b, RANGE, 2)];
        cases.add(&["float_matmul"], format!("{a:?} {b:?}"), inputs, |[a, b]| B::float_matmul(a, b));
    }
    cases.add(&["float_matmul"], "with its own transpose", [smooth(&[3, 4], RANGE, 1)], |[x]| {
        B::float_matmul(x.clone(), B::float_swap_dims(x, 0, 1))
    });
    for (shape, axis) in [(&[3][..], 0), (&[4, 3], 1), (&[3, 4], 0), (&[2, 3, 2], 1)] {
        let inputs = [smooth(shape, RANGE, 1), smooth(shape, RANGE, 2)];
        cases.add(&["float_cross"], format!("{shape:?} axis {axis}"), inputs, move |[a, b]| {
            B::float_cross(a, b, axis)
        });
    }
}

fn layers<B: Backend>(cases: &mut Cases<B>) {
    for shape in [&[4][..], &[3, 4], &[2, 3, 4], &[2, 1, 2, 4]] {
        let (x, weight) = (smooth(shape, RANGE, 1), smooth(&[4, 5], RANGE, 2));
        let inputs = [x.clone(), weight.clone(), smooth(&[5], RANGE, 3)];
        cases.add(&["linear"], format!("{shape:?} with a bias"), inputs, |[x, weight, bias]| {
            B::linear(x, weight, Some(bias))
        });
        cases.add(&["linear"], format!("{shape:?}"), [x, weight], |[x, weight]| B::linear(x, weight, None));
    }
    cases.add(&["embedding"], "rows used twice and never", [smooth(&[5, 3], RANGE, 1)], |[weights]| {
        B::embedding(weights, indices::<B>(&[2, 3], &[4, 1, 1, 0, 4, 1]))
    });
}

fn attention<B: Backend>(cases: &mut Cases<B>) {
    let inputs = |queries: usize, keys: usize| {
        [
            smooth(&[2, 2, queries, 3], RANGE, 1),
            smooth(&[2, 2, keys, 3], RANGE, 2),
            smooth(&[2, 2, keys, 4], RANGE, 3),
        ]
    };
    let options = AttentionModuleOptions::default();
    let all = [
        ("plain", options),
        ("scaled", AttentionModuleOptions { scale: Some(0.25), ..options }),
        ("causal", AttentionModuleOptions { is_causal: true, ..options }),
        ("capped", AttentionModuleOptions { softcap: Some(2.0), ..options }),
        (
            "causal, scaled and capped",
            AttentionModuleOptions { scale: Some(0.7), softcap: Some(3.0), is_causal: true },
        ),
    ];
    for (name, options) in all {
        for (queries, keys) in [(4, 4), (2, 5)] {
            cases.add(
                &["attention"],
                format!("{name} {queries} {keys}"),
                inputs(queries, keys),
                move |[q, k, v]| B::attention(q, k, v, None, None, options),
            );
        }
    }
    cases.add(&["attention"], "masked", inputs(3, 5), move |[q, k, v]| {
        B::attention(q, k, v, Some(mask::<B>(&[2, 2, 3, 5], 4)), None, options)
    });
    let [q, k, v] = inputs(3, 4);
    cases.add(
        &["attention"],
        "biased",
        [q, k, v, smooth(&[2, 2, 3, 4], RANGE, 4)],
        move |[q, k, v, bias]| B::attention(q, k, v, None, Some(bias), options),
    );
}
