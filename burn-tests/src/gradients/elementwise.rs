//! Elementwise functions of one and two operands and of scalars.

use super::check::Cases;
use super::{distinct, indices, smooth};
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, FloatDType, Scalar};

/// Cases of this family.
pub fn cases<B: Backend>(cases: &mut Cases<B>) {
    unary(cases);
    binary(cases);
    scalars(cases);
}

fn unary<B: Backend>(cases: &mut Cases<B>) {
    macro_rules! unary {
        ($($method:ident: $low:expr, $high:expr;)*) => {
            $(
                cases.add(&[stringify!($method)], "", [smooth(&[3, 7], ($low, $high), 1)], |[x]| B::$method(x));
                cases.add(&[stringify!($method)], "scalar", [smooth(&[1], ($low, $high), 2)], |[x]| B::$method(x));
            )*
        };
    }
    // Ranges in which the fifth derivative stays below 1e4.
    unary! {
        float_exp: -3.0, 3.0;
        float_log: 0.5, 5.0;
        float_log1p: -0.5, 5.0;
        float_sqrt: 0.5, 5.0;
        float_neg: -3.0, 3.0;
        float_recip: 0.6, 3.0;
        float_sin: -7.0, 7.0;
        float_cos: -7.0, 7.0;
        float_tan: -1.0, 1.0;
        float_sinh: -3.0, 3.0;
        float_cosh: -3.0, 3.0;
        float_tanh: -3.0, 3.0;
        float_asin: -0.7, 0.7;
        float_acos: -0.7, 0.7;
        float_atan: -5.0, 5.0;
        float_asinh: -5.0, 5.0;
        float_acosh: 1.5, 5.0;
        float_atanh: -0.6, 0.6;
        float_erf: -3.0, 3.0;
    }
    macro_rules! with_kinks {
        ($($method:ident),*) => {
            $(cases.add(&[stringify!($method)], "", [distinct(&[3, 7], 1)], |[x]| B::$method(x));)*
        };
    }
    // The derivatives of the rounding functions are zero, and so are their slopes.
    with_kinks!(float_abs, float_sign, float_floor, float_ceil, float_round, float_trunc);
    cases.add(&["float_cast"], "there and back", [smooth(&[5], (-2.0, 2.0), 1)], |[x]| {
        B::float_cast(x, FloatDType::F64)
    });
    cases.add(&["float_to_device"], "the same", [smooth(&[5], (-2.0, 2.0), 1)], |[x]| {
        B::float_to_device(x, &Default::default())
    });
}

/// Shapes of two operands: equal, and broadcast from either side and from both.
const PAIRS: [([usize; 2], [usize; 2]); 5] =
    [([3, 7], [3, 7]), ([3, 7], [1, 7]), ([3, 1], [3, 7]), ([1, 7], [3, 1]), ([1, 1], [2, 3])];

fn binary<B: Backend>(cases: &mut Cases<B>) {
    type Function<B> = fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>;
    let functions: [(&'static str, Function<B>, (f64, f64), (f64, f64)); 6] = [
        ("float_add", B::float_add, (-2.0, 2.0), (-2.0, 2.0)),
        ("float_sub", B::float_sub, (-2.0, 2.0), (-2.0, 2.0)),
        ("float_mul", B::float_mul, (-2.0, 2.0), (-2.0, 2.0)),
        ("float_div", B::float_div, (-2.0, 2.0), (0.7, 2.0)),
        ("float_powf", B::float_powf, (0.7, 2.0), (-2.0, 3.0)),
        ("float_atan2", B::float_atan2, (-2.0, 2.0), (0.7, 2.0)),
    ];
    for (method, run, left, right) in functions {
        for (a, b) in PAIRS {
            let name = format!("{a:?} {b:?}");
            cases.add(&[method], name, [smooth(&a, left, 1), smooth(&b, right, 2)], move |[a, b]| run(a, b));
        }
        cases.add(&[method], "with itself", [smooth(&[5], (0.7, 2.0), 3)], move |[x]| run(x.clone(), x));
    }
    // A quarter of the divisor above its multiples, where the remainder jumps.
    let dividends = distinct(&[3, 7], 1).map(|x| x.floor() * 1.5 + 0.375);
    let divisors = distinct(&[3, 7], 2).map(|x| 1.5f64.copysign(x));
    cases.add(&["float_remainder"], "", [dividends.clone(), divisors], |[a, b]| B::float_remainder(a, b));
    cases.add(&["float_remainder_scalar"], "", [dividends], |[x]| B::float_remainder_scalar(x, 1.5.into()));
    cases.add(&["float_powi"], "", [smooth(&[2, 5], (0.7, 2.0), 1)], |[x]| {
        B::float_powi(x, indices::<B>(&[2, 5], &[0, 1, 2, 3, 4, -1, -2, -3, 5, 6]))
    });
}

fn scalars<B: Backend>(cases: &mut Cases<B>) {
    type Function<B> = fn(FloatTensor<B>, Scalar) -> FloatTensor<B>;
    let functions: [(&'static str, Function<B>); 4] = [
        ("float_add_scalar", B::float_add_scalar),
        ("float_sub_scalar", B::float_sub_scalar),
        ("float_mul_scalar", B::float_mul_scalar),
        ("float_div_scalar", B::float_div_scalar),
    ];
    for (method, run) in functions {
        for scalar in [0.5, 0.75, -3.0] {
            cases.add(&[method], format!("{scalar}"), [smooth(&[3, 5], (-2.0, 2.0), 1)], move |[x]| {
                run(x, scalar.into())
            });
            if method == "float_div_scalar" && scalar != 0.5 {
                cases.known_wrong("the derivative is 1 / s rounded to f32, whatever the dtype");
            }
        }
    }
    for power in [2.5, 0.5, -1.5, -0.5, 3.0, 0.25] {
        cases.add(
            &["float_powf_scalar", "float_powf_scalar_impl"],
            format!("{power}"),
            [smooth(&[7], (0.7, 2.0), 1)],
            move |[x]| B::float_powf_scalar(x, power.into()),
        );
    }
    for power in [1i64, 2, 3, 5, -1, -2, -3] {
        // Integer powers have slopes for negative bases too.
        let bases = smooth(&[7], (0.7, 2.0), 1).map(|x| if (x * 64.0) as i64 % 2 == 0 { x } else { -x });
        cases.add(
            &["float_powi_scalar", "float_powi_scalar_impl"],
            format!("{power}"),
            [bases],
            move |[x]| B::float_powi_scalar(x, power.into()),
        );
    }
    let x = || [distinct(&[3, 7], 1)];
    cases.add(&["float_clamp"], "", x(), |[x]| B::float_clamp(x, (-1.0).into(), 1.5.into()));
    cases.add(&["float_clamp_min"], "", x(), |[x]| B::float_clamp_min(x, (-0.5).into()));
    cases.add(&["float_clamp_max"], "", x(), |[x]| B::float_clamp_max(x, 0.5.into()));
}
