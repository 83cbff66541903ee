//! Reductions and scans of floats and integers.

use crate::array::Array;
use crate::compare::{Tolerance, round_to};
use crate::kind::{Float, Int};
use crate::row::{Context, Row};
use crate::support::{expect_bool, expect_float, expect_int, floats, ints, over_layouts, upload, wrap};
use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, DType, IntDType};

/// Lines shorter than, equal to and longer than vectors and blocks, along inner and outer axes.
const SHAPES: [&[usize]; 8] =
    [&[1], &[17], &[1000], &[5, 3], &[3, 65], &[130, 2], &[2, 3, 17], &[2, 3, 2, 5]];

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut rows: Vec<Row<B>> = Vec::new();
    macro_rules! float {
        ($whole:ident, $dim:ident, $want:expr) => {
            rows.push(Row::new(&[stringify!($whole), stringify!($dim)], |context| {
                float(context, [stringify!($whole), stringify!($dim)], B::$whole, B::$dim, $want)
            }))
        };
    }
    float!(float_sum, float_sum_dim, |v| v.iter().sum());
    float!(float_mean, float_mean_dim, |v| v.iter().sum::<f64>() / v.len() as f64);
    float!(float_prod, float_prod_dim, |v| v.iter().product());
    float!(float_max, float_max_dim, extreme::<1>);
    float!(float_min, float_min_dim, extreme::<-1>);
    float!(float_max_abs, float_max_abs_dim, |v| v.iter().fold(0.0, |m: f64, x| m.max(x.abs())));
    macro_rules! int {
        ($whole:ident, $dim:ident, $want:expr) => {
            rows.push(Row::new(&[stringify!($whole), stringify!($dim)], |context| {
                int(context, [stringify!($whole), stringify!($dim)], B::$whole, B::$dim, $want)
            }))
        };
    }
    int!(int_sum, int_sum_dim, |v| v.iter().sum());
    // Means accumulate in a wider type: they do not wrap before the division.
    int!(int_mean, int_mean_dim, |v| v.iter().sum::<i128>() / v.len() as i128);
    int!(int_prod, int_prod_dim, |v| v.iter().fold(1, |p: i128, x| p.wrapping_mul(*x)));
    int!(int_max, int_max_dim, |v| *v.iter().max().expect("a value"));
    int!(int_min, int_min_dim, |v| *v.iter().min().expect("a value"));
    rows.push(Row::new(&["int_max_abs", "int_max_abs_dim"], int_max_abs));
    rows.push(Row::new(
        &["float_argmax", "float_argmin", "float_max_dim_with_indices", "float_min_dim_with_indices"],
        float_arg,
    ));
    rows.push(Row::new(
        &["int_argmax", "int_argmin", "int_max_dim_with_indices", "int_min_dim_with_indices"],
        int_arg,
    ));
    rows.push(Row::new(&["float_any", "float_all", "float_any_dim", "float_all_dim"], float_any_all));
    rows.push(Row::new(&["int_any", "int_all", "int_any_dim", "int_all_dim"], int_any_all));
    rows.push(Row::new(&["float_cumsum", "float_cumprod", "float_cummin", "float_cummax"], float_scan));
    rows.push(Row::new(&["int_cumsum", "int_cumprod", "int_cummin", "int_cummax"], int_scan));
    rows.push(Row::new(&["float_sum", "float_sum_dim", "float_cumsum", "float_mean"], accuracy));
    rows
}

/// The largest (`SIGN` 1) or smallest (-1) value; NaN if there is one.
fn extreme<const SIGN: i32>(values: &[f64]) -> f64 {
    let sign = SIGN as f64;
    values.iter().fold(f64::NEG_INFINITY * sign, |m, &x| {
        if m.is_nan() || x.is_nan() {
            f64::NAN
        } else if sign * x > sign * m {
            x
        } else {
            m
        }
    })
}

/// Position of the first extreme value, or of the first NaN.
fn extreme_at<const SIGN: i32>(values: &[f64]) -> usize {
    let best = extreme::<SIGN>(values);
    values.iter().position(|&x| x == best || (x.is_nan() && best.is_nan())).expect("it is one of them")
}

/// Values on a grid with some equal ones, to test that the first of several extremes is found.
fn sample(dtype: DType, shape: &[usize], seed: u64) -> Array<f64> {
    floats(dtype, shape, (-4.0, 4.0), seed).map(|x| (x * 8.0).round() / 8.0)
}

fn float<B: Backend>(
    context: &Context<'_, B>,
    methods: [&'static str; 2],
    whole: fn(FloatTensor<B>) -> FloatTensor<B>,
    dim: fn(FloatTensor<B>, usize) -> FloatTensor<B>,
    want: fn(&[f64]) -> f64,
) {
    let is_product = methods[0] == "float_prod";
    for dtype in context.floats(&methods) {
        for shape in SHAPES {
            // Products stay near one, where rounding alone determines their relative error.
            let array =
                if is_product { floats(dtype, shape, (0.9, 1.1), 1) } else { sample(dtype, shape, 1) };
            let tolerance = |n: usize| {
                let mut tolerance = Tolerance::accumulated(dtype, n);
                if is_product {
                    let accumulator = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
                    tolerance.relative = n as f64 * accumulator;
                }
                tolerance
            };
            over_layouts::<B, Float>(context, dtype, &array, |t, a| {
                let scale: f64 = a.data().iter().map(|x| x.abs()).sum();
                let all = Array::new([1], vec![want(a.data())]);
                expect_float::<B>(whole(t.clone()), dtype, &all, tolerance(a.len()), scale)?;
                for axis in 0..a.shape().len() {
                    let n = a.shape()[axis];
                    let lines = a.fold_axis(axis, want);
                    expect_float::<B>(dim(t.clone(), axis), dtype, &lines, tolerance(n), 4.0 * n as f64)?;
                }
                Ok(())
            });
        }
        let mut k = 0;
        let with_nan = sample(dtype, &[4, 9], 2).map(|x| {
            k += 1;
            if k == 13 { f64::NAN } else { x }
        });
        over_layouts::<B, Float>(context, dtype, &with_nan, |t, a| {
            let got = dim(t, 1);
            // The maximum of absolute values is NaN if a value is NaN, like every other reduction.
            let lines = a.fold_axis(1, |v| if v.iter().any(|x| x.is_nan()) { f64::NAN } else { want(v) });
            expect_float::<B>(got, dtype, &lines, Tolerance { relative: 1e-2, ..tolerance_of(dtype) }, 40.0)
        });
    }
}

fn tolerance_of(dtype: DType) -> Tolerance {
    Tolerance::accumulated(dtype, 16)
}

fn int<B: Backend>(
    context: &Context<'_, B>,
    methods: [&'static str; 2],
    whole: fn(IntTensor<B>) -> IntTensor<B>,
    dim: fn(IntTensor<B>, usize) -> IntTensor<B>,
    want: fn(&[i128]) -> i128,
) {
    for dtype in context.ints(&methods) {
        for shape in SHAPES {
            // Large enough for sums of 8-bit and 16-bit values to wrap, and small enough for i128 to hold the
            // exact sums.
            over_layouts::<B, Int>(context, dtype, &ints(dtype, shape, (-1000, 1000), 1), |t, a| {
                let all = Array::new([1], vec![wrap(dtype, want(a.data()))]);
                expect_int::<B>(whole(t.clone()), dtype, &all)?;
                for axis in 0..a.shape().len() {
                    let lines = a.fold_axis(axis, |v| wrap(dtype, want(v)));
                    expect_int::<B>(dim(t.clone(), axis), dtype, &lines)?;
                }
                Ok(())
            });
        }
    }
}

fn int_max_abs<B: Backend>(context: &Context<'_, B>) {
    let want = |v: &[i128]| v.iter().map(|x| x.abs()).max().expect("a value");
    for dtype in context.ints(&["int_max_abs", "int_max_abs_dim"]) {
        for shape in SHAPES {
            // Without the smallest value, whose absolute value does not fit.
            over_layouts::<B, Int>(context, dtype, &ints(dtype, shape, (-100, 101), 1), |t, a| {
                expect_int::<B>(B::int_max_abs(t.clone()), dtype, &Array::new([1], vec![want(a.data())]))?;
                for axis in 0..a.shape().len() {
                    expect_int::<B>(B::int_max_abs_dim(t.clone(), axis), dtype, &a.fold_axis(axis, want))?;
                }
                Ok(())
            });
        }
    }
}

fn float_arg<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_argmax"]) {
        for out in [DType::I64, DType::I32] {
            let int = IntDType::from(out);
            for shape in SHAPES {
                for nan in [false, true] {
                    let mut k = 0;
                    let array = sample(dtype, shape, 1).map(|x| {
                        k += 1;
                        if nan && k % 11 == 5 { f64::NAN } else { x }
                    });
                    over_layouts::<B, Float>(context, dtype, &array, |t, a| {
                        for axis in 0..a.shape().len() {
                            let max_at = a.fold_axis(axis, |v| extreme_at::<1>(v) as i128);
                            let min_at = a.fold_axis(axis, |v| extreme_at::<-1>(v) as i128);
                            expect_int::<B>(B::float_argmax(t.clone(), axis, int), out, &max_at)?;
                            expect_int::<B>(B::float_argmin(t.clone(), axis, int), out, &min_at)?;
                            let (values, at) = B::float_max_dim_with_indices(t.clone(), axis, int);
                            let want = a.fold_axis(axis, extreme::<1>);
                            expect_float::<B>(values, dtype, &want, Tolerance::EXACT, 0.0)?;
                            expect_int::<B>(at, out, &max_at)?;
                            let (values, at) = B::float_min_dim_with_indices(t.clone(), axis, int);
                            let want = a.fold_axis(axis, extreme::<-1>);
                            expect_float::<B>(values, dtype, &want, Tolerance::EXACT, 0.0)?;
                            expect_int::<B>(at, out, &min_at)?;
                        }
                        Ok(())
                    });
                }
            }
        }
    }
}

fn int_arg<B: Backend>(context: &Context<'_, B>) {
    let max = |v: &[i128]| *v.iter().max().expect("a value");
    let min = |v: &[i128]| *v.iter().min().expect("a value");
    let at = |v: &[i128], x: i128| v.iter().position(|&y| y == x).expect("it is one of them") as i128;
    for dtype in context.ints(&["int_argmax"]) {
        for shape in SHAPES {
            // Positions have the dtype of the tensor, so lines longer than its range have no answer.
            if shape.iter().any(|&n| n > 127) {
                continue;
            }
            over_layouts::<B, Int>(context, dtype, &ints(dtype, shape, (-5, 6), 1), |t, a| {
                for axis in 0..a.shape().len() {
                    let max_at = a.fold_axis(axis, |v| at(v, max(v)));
                    let min_at = a.fold_axis(axis, |v| at(v, min(v)));
                    expect_int::<B>(B::int_argmax(t.clone(), axis), dtype, &max_at)?;
                    expect_int::<B>(B::int_argmin(t.clone(), axis), dtype, &min_at)?;
                    let (values, got) = B::int_max_dim_with_indices(t.clone(), axis);
                    expect_int::<B>(values, dtype, &a.fold_axis(axis, max))?;
                    expect_int::<B>(got, dtype, &max_at)?;
                    let (values, got) = B::int_min_dim_with_indices(t.clone(), axis);
                    expect_int::<B>(values, dtype, &a.fold_axis(axis, min))?;
                    expect_int::<B>(got, dtype, &min_at)?;
                }
                Ok(())
            });
        }
    }
}

/// Lines of only zeros, of only non-zero numbers, and mixed lines.
fn sparse<T: Copy>(array: &Array<T>, zero: T) -> Array<T> {
    let mut k = 0;
    array.map(|x| {
        k += 1;
        if (k / 7) % 3 == 0 || k % 2 == 0 { zero } else { x }
    })
}

fn float_any_all<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.floats(&["float_any"]) {
        for &store in &context.capabilities.bools {
            for shape in SHAPES {
                over_layouts::<B, Float>(context, dtype, &sparse(&sample(dtype, shape, 1), 0.0), |t, a| {
                    let any = |v: &[f64]| v.iter().any(|&x| x != 0.0);
                    let all = |v: &[f64]| v.iter().all(|&x| x != 0.0);
                    let one = |b| Array::new([1], vec![b]);
                    expect_bool::<B>(B::float_any(t.clone(), store), store.into(), &one(any(a.data())))?;
                    expect_bool::<B>(B::float_all(t.clone(), store), store.into(), &one(all(a.data())))?;
                    for axis in 0..a.shape().len() {
                        let (got_any, got_all) = (
                            B::float_any_dim(t.clone(), axis, store),
                            B::float_all_dim(t.clone(), axis, store),
                        );
                        expect_bool::<B>(got_any, store.into(), &a.fold_axis(axis, any))?;
                        expect_bool::<B>(got_all, store.into(), &a.fold_axis(axis, all))?;
                    }
                    Ok(())
                });
            }
        }
    }
}

fn int_any_all<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_any"]) {
        for &store in &context.capabilities.bools {
            for shape in SHAPES {
                over_layouts::<B, Int>(context, dtype, &sparse(&ints(dtype, shape, (1, 9), 1), 0), |t, a| {
                    let any = |v: &[i128]| v.iter().any(|&x| x != 0);
                    let all = |v: &[i128]| v.iter().all(|&x| x != 0);
                    let one = |b| Array::new([1], vec![b]);
                    expect_bool::<B>(B::int_any(t.clone(), store), store.into(), &one(any(a.data())))?;
                    expect_bool::<B>(B::int_all(t.clone(), store), store.into(), &one(all(a.data())))?;
                    for axis in 0..a.shape().len() {
                        let (got_any, got_all) =
                            (B::int_any_dim(t.clone(), axis, store), B::int_all_dim(t.clone(), axis, store));
                        expect_bool::<B>(got_any, store.into(), &a.fold_axis(axis, any))?;
                        expect_bool::<B>(got_all, store.into(), &a.fold_axis(axis, all))?;
                    }
                    Ok(())
                });
            }
        }
    }
}

/// Replaces each value by the fold of all values up to it.
fn scan<T: Copy>(values: &[T], f: impl Fn(T, T) -> T) -> Vec<T> {
    let mut out: Vec<T> = Vec::with_capacity(values.len());
    for &x in values {
        out.push(out.last().map_or(x, |&last| f(last, x)));
    }
    out
}

fn float_scan<B: Backend>(context: &Context<'_, B>) {
    let nan_or = |a: f64, b: f64, pick: fn(f64, f64) -> f64| {
        if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) }
    };
    for dtype in context.floats(&["float_cumsum"]) {
        for shape in SHAPES {
            for nan in [false, true] {
                let mut k = 0;
                let near_one = floats(dtype, shape, (0.9, 1.1), 1).map(|x| {
                    k += 1;
                    if nan && k % 37 == 9 { f64::NAN } else { x }
                });
                over_layouts::<B, Float>(context, dtype, &near_one, |t, a| {
                    for axis in 0..a.shape().len() {
                        let n = a.shape()[axis];
                        let lines = |f: &dyn Fn(f64, f64) -> f64| a.map_axis(axis, n, |v| scan(v, f));
                        let (sum, product) = (lines(&|x, y| x + y), lines(&|x, y| x * y));
                        let accumulator =
                            if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
                        let tolerance =
                            Tolerance { relative: n as f64 * accumulator, ..Tolerance::ulps(1.0) };
                        expect_float::<B>(B::float_cumsum(t.clone(), axis), dtype, &sum, tolerance, 0.0)?;
                        expect_float::<B>(
                            B::float_cumprod(t.clone(), axis),
                            dtype,
                            &product,
                            tolerance,
                            0.0,
                        )?;
                        let (min, max) =
                            (lines(&|x, y| nan_or(x, y, f64::min)), lines(&|x, y| nan_or(x, y, f64::max)));
                        expect_float::<B>(
                            B::float_cummin(t.clone(), axis),
                            dtype,
                            &min,
                            Tolerance::EXACT,
                            0.0,
                        )?;
                        expect_float::<B>(
                            B::float_cummax(t.clone(), axis),
                            dtype,
                            &max,
                            Tolerance::EXACT,
                            0.0,
                        )?;
                    }
                    Ok(())
                });
            }
        }
    }
}

fn int_scan<B: Backend>(context: &Context<'_, B>) {
    for dtype in context.ints(&["int_cumsum"]) {
        for shape in SHAPES {
            over_layouts::<B, Int>(context, dtype, &ints(dtype, shape, (-100, 100), 1), |t, a| {
                for axis in 0..a.shape().len() {
                    let n = a.shape()[axis];
                    let lines = |f: &dyn Fn(i128, i128) -> i128| a.map_axis(axis, n, |v| scan(v, f));
                    let wrapped = |f: fn(i128, i128) -> i128| lines(&move |x, y| wrap(dtype, f(x, y)));
                    expect_int::<B>(B::int_cumsum(t.clone(), axis), dtype, &wrapped(|x, y| x + y))?;
                    expect_int::<B>(B::int_cumprod(t.clone(), axis), dtype, &wrapped(|x, y| x * y))?;
                    expect_int::<B>(B::int_cummin(t.clone(), axis), dtype, &lines(&i128::min))?;
                    expect_int::<B>(B::int_cummax(t.clone(), axis), dtype, &lines(&i128::max))?;
                }
                Ok(())
            });
        }
    }
}

/// Long sums, in which a narrow accumulator or a naive running sum loses the result.
fn accuracy<B: Backend>(context: &Context<'_, B>) {
    const N: usize = 1 << 21;
    for dtype in context.floats(&["float_sum"]) {
        let value = round_to(dtype, 1e-3);
        let total = N as f64 * value;
        let close = |got: Array<f64>, want: f64| {
            let got = *got.data().last().expect("a value");
            let error = (got - round_to(dtype, want)).abs() / want;
            let allowed = match dtype {
                DType::F64 => 1e-12,
                DType::F32 => 1e-6,
                DType::F16 => 1e-3,
                _ => 8e-3,
            };
            if error <= allowed {
                Ok(())
            } else {
                Err(format!("got {got}, expected {want}: off by {error:e}"))
            }
        };
        let flat = Array::new([N], vec![value; N]);
        let read = |t| crate::support::read_float::<B>(t, dtype);
        context.attempt(
            || format!("{dtype:?}: the sum of {N} times {value}"),
            || {
                let t = upload::<B, Float>(context, &flat, dtype);
                close(read(B::float_sum(t.clone()))?, total)?;
                close(read(B::float_mean(t.clone()))?, value)?;
                close(read(B::float_cumsum(t.clone(), 0))?, total)?;
                let columns = B::float_reshape(t, [N / 2, 2].into());
                close(read(B::float_sum_dim(columns, 0))?, total / 2.0)
            },
        );
    }
}
