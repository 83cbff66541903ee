//! Operations on quantized tensors: each computes on the numbers that the codes stand for.
//!
//! Results may be quantized again if the trait says so or leaves it open. A quantized result may be off by
//! half a step of the codes, with the scale of the result's largest number.

use super::activation::normal_cdf;
use super::matmul::product;
use super::quantization::{numbers, offered, scale_precision, spacing};
use crate::array::Array;
use crate::compare::{Tolerance, compare_exact, compare_floats};
use crate::kind::{Float, Int};
use crate::release::{self, QuantLevel, QuantParam, level_of, param_of, scheme_of};
use crate::row::{Context, Row};
use crate::support::{expect_bool, expect_int, floats, ints, read_float, read_int, upload};
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue};
use burn_backend::tensor::QuantizedTensor;
use burn_backend::{Backend, DType, Slice, TensorMetadata, TensorPrimitive, get_device_settings};

type Q<B> = QuantizedTensor<B>;

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut rows = vec![
        Row::new(
            &[
                "q_reshape",
                "q_swap_dims",
                "q_transpose",
                "q_permute",
                "q_flip",
                "q_slice",
                "q_expand",
                "q_select",
            ],
            views,
        ),
        Row::new(&["q_gather", "q_repeat_dim", "q_cat"], movement),
        Row::new(&["q_matmul"], matmul),
        Row::new(&["q_argmax", "q_argmin", "q_argtopk", "q_argsort"], indices),
        Row::new(
            &[
                "q_max",
                "q_max_dim",
                "q_max_dim_with_indices",
                "q_min",
                "q_min_dim",
                "q_min_dim_with_indices",
                "q_max_abs",
                "q_max_abs_dim",
            ],
            extremes,
        ),
        Row::new(&["q_topk", "q_sort", "q_sort_with_indices"], order),
        Row::new(&["q_any", "q_any_dim", "q_all", "q_all_dim"], any_all),
        Row::new(&["q_powi"], powi),
    ];
    macro_rules! unary {
        ($($method:ident($($argument:expr),*) => $want:expr;)*) => {$(
            rows.push(Row::new(&[stringify!($method)], |context| {
                arithmetic(context, |q, _| B::$method(q, $($argument),*), |a, _| $want(a))
            }));
        )*};
    }
    unary! {
        q_add_scalar(0.75.into()) => each(|x| x + 0.75);
        q_sub_scalar(0.75.into()) => each(|x| x - 0.75);
        q_mul_scalar((-1.5).into()) => each(|x| x * -1.5);
        q_div_scalar(1.5.into()) => each(|x| x / 1.5);
        q_clamp_min(0.75.into()) => each(|x| x.max(0.75));
        q_clamp_max(1.25.into()) => each(|x| x.min(1.25));
        q_clamp(0.75.into(), 1.25.into()) => each(|x| x.clamp(0.75, 1.25));
        q_neg() => each(|x| -x);
        q_recip() => each(|x| 1.0 / x);
        q_exp() => each(f64::exp);
        q_log() => each(f64::ln);
        q_log1p() => each(f64::ln_1p);
        q_sqrt() => each(f64::sqrt);
        q_cos() => each(f64::cos);
        q_sin() => each(f64::sin);
        q_tan() => each(f64::tan);
        q_cosh() => each(f64::cosh);
        q_sinh() => each(f64::sinh);
        q_tanh() => each(f64::tanh);
        q_erf() => each(|x| 2.0 * normal_cdf(x * std::f64::consts::SQRT_2) - 1.0);
        q_powi_scalar(3i64.into()) => each(|x| x * x * x);
        q_powf_scalar(1.5.into()) => each(|x| x.powf(1.5));
        q_sum() => |a: &Array<f64>| whole(a, |v| v.iter().sum());
        q_mean() => |a: &Array<f64>| whole(a, |v| v.iter().sum::<f64>() / v.len() as f64);
        q_sum_dim(0) => |a: &Array<f64>| a.fold_axis(0, |v| v.iter().sum());
        q_mean_dim(1) => |a: &Array<f64>| a.fold_axis(1, |v| v.iter().sum::<f64>() / v.len() as f64);
        q_prod_dim(0) => |a: &Array<f64>| a.fold_axis(0, |v| v.iter().product());
        q_cumsum(1) => |a: &Array<f64>| scan(a, |x, y| x + y);
        q_cumprod(1) => |a: &Array<f64>| scan(a, |x, y| x * y);
        q_cummin(1) => |a: &Array<f64>| scan(a, f64::min);
        q_cummax(1) => |a: &Array<f64>| scan(a, f64::max);
    }
    macro_rules! binary {
        ($($method:ident => $want:expr;)*) => {$(
            rows.push(Row::new(&[stringify!($method)], |context| {
                arithmetic(context, B::$method, |a, b| a.zip(b, $want))
            }));
        )*};
    }
    binary! {
        q_add => |x, y| x + y;
        q_sub => |x, y| x - y;
        q_mul => |x, y| x * y;
        q_div => |x, y| x / y;
        q_powf => f64::powf;
    }
    rows.push(Row::new(&["q_abs"], abs));
    rows.push(Row::new(&["q_prod"], product_of_all));
    rows
}

fn each(f: fn(f64) -> f64) -> impl Fn(&Array<f64>) -> Array<f64> {
    move |a| a.map(f)
}

/// A quantized tensor with the numbers that it stands for.
struct Operand<B: Backend> {
    tensor: Q<B>,
    numbers: Array<f64>,
    /// Dtype of the floats that come from the tensor.
    dtype: DType,
}

const SHAPE: [usize; 2] = [6, 32];

/// A selection of schemes: wide and narrow codes, packed or not, one scale or many, tiny floats.
fn schemes<B: Backend>(context: &Context<'_, B>) -> Vec<QuantScheme> {
    let scheme = |value, store, level| release::scheme(value, QuantParam::F32, store, level);
    let (native, packed) = (QuantStore::Native, QuantStore::PackedU32(0));
    let all = [
        scheme(QuantValue::Q8S, native, QuantLevel::Tensor),
        scheme(QuantValue::Q8F, packed, QuantLevel::Tensor),
        scheme(QuantValue::Q4S, packed, QuantLevel::Tensor),
        scheme(QuantValue::Q8S, native, QuantLevel::block([16])),
        scheme(QuantValue::Q4F, packed, QuantLevel::block([2, 8])),
        scheme(QuantValue::E4M3, native, QuantLevel::Tensor),
        scheme(QuantValue::E2M1, native, QuantLevel::block([32])),
    ];
    all.into_iter().filter(|&scheme| offered(context, scheme)).collect()
}

/// Numbers whose magnitude differs between blocks, so that the use of a wrong scale shows.
fn operand<B: Backend>(
    context: &Context<'_, B>,
    scheme: QuantScheme,
    range: (f64, f64),
    seed: u64,
) -> Operand<B> {
    let plain = floats(DType::F32, &SHAPE, range, seed);
    let spread =
        |index: &[usize]| if index[1] < 16 { 1.0 } else { 0.5 } * if index[0] < 2 { 1.0 } else { 0.75 };
    let uneven = Array::from_fn(SHAPE, |index| plain.at(index) * spread(index));
    let tensor = B::quantize_dynamic(upload::<B, Float>(context, &uneven, DType::F32), &scheme);
    let numbers = numbers::<B>(tensor.clone(), DType::F32).expect("a dequantized tensor");
    let dtype = get_device_settings::<B>(&context.device).float_dtype.into();
    Operand { tensor, numbers, dtype }
}

/// Runs a check for every scheme on two operands, and verifies that the operands are unchanged.
fn for_each<B: Backend>(
    context: &Context<'_, B>,
    range: (f64, f64),
    check: impl Fn(&Operand<B>, &Operand<B>, &QuantScheme) -> Result<(), String>,
) {
    for scheme in schemes(context) {
        context.attempt(
            || format!("{scheme:?}"),
            || {
                let (a, b) = (operand(context, scheme, range, 1), operand(context, scheme, range, 2));
                check(&a, &b, &scheme)?;
                for operand in [a, b] {
                    compare_exact(&numbers::<B>(operand.tensor, DType::F32)?, &operand.numbers)
                        .map_err(|e| format!("the shared original was changed: {e}"))?;
                }
                Ok(())
            },
        );
    }
}

/// Compares a float result, or a result that may have been rounded to a quantization scheme.
fn close<B: Backend>(
    context: &Context<'_, B>,
    dtype: DType,
    got: &Array<f64>,
    want: &Array<f64>,
    scheme: Option<&QuantScheme>,
) -> Result<(), String> {
    let largest = want.data().iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let mut tolerance = Tolerance::ulps(8.0);
    // A few roundings of f32, relative to the magnitude of the terms.
    tolerance.absolute = 1e-6;
    if let Some(scheme) = scheme {
        let (low, high) = (scheme.value.range().0 as f64, scheme.value.range().1 as f64);
        let half_range = (high - low) / 2.0;
        tolerance.absolute =
            0.501 * spacing(scheme.value, half_range) / half_range + scale_precision(param_of(scheme), 1.0);
    }
    compare_floats(dtype, got, want, context.tolerance(tolerance), largest)
}

/// Checks an operation whose result may be quantized in the scheme of its operand.
fn arithmetic<B: Backend>(
    context: &Context<'_, B>,
    run: impl Fn(Q<B>, Q<B>) -> TensorPrimitive<B>,
    want: impl Fn(&Array<f64>, &Array<f64>) -> Array<f64>,
) {
    for_each(context, (0.5, 2.0), |a, b, _| {
        settle(context, run(a.tensor.clone(), b.tensor.clone()), a.dtype, &want(&a.numbers, &b.numbers))
    });
}

fn settle<B: Backend>(
    context: &Context<'_, B>,
    got: TensorPrimitive<B>,
    dtype: DType,
    want: &Array<f64>,
) -> Result<(), String> {
    match got {
        TensorPrimitive::Float(tensor) => close(context, dtype, &read_float::<B>(tensor, dtype)?, want, None),
        TensorPrimitive::QFloat(tensor) => {
            let scheme = scheme_of::<B>(&tensor);
            close(context, dtype, &numbers::<B>(tensor, dtype)?, want, Some(&scheme))
        }
    }
}

/// Every factor of a product adds a rounding to its relative error.
fn product_of_all<B: Backend>(context: &Context<'_, B>) {
    for_each(context, (0.5, 2.0), |a, _, _| {
        let want = whole(&a.numbers, |v| v.iter().product());
        match B::q_prod(a.tensor.clone()) {
            TensorPrimitive::Float(tensor) => {
                let tolerance = context.ulps(a.numbers.len() as f64 / 2.0);
                compare_floats(a.dtype, &read_float::<B>(tensor, a.dtype)?, &want, tolerance, 0.0)
            }
            quantized => settle(context, quantized, a.dtype, &want),
        }
    });
}

fn abs<B: Backend>(context: &Context<'_, B>) {
    for_each(context, (-2.0, 2.0), |a, _, scheme| {
        let got = numbers::<B>(B::q_abs(a.tensor.clone()), a.dtype)?;
        close(context, a.dtype, &got, &a.numbers.map(f64::abs), Some(scheme))
    });
}

fn whole(a: &Array<f64>, f: impl Fn(&[f64]) -> f64) -> Array<f64> {
    Array::new([1], vec![f(a.data())])
}

fn scan(a: &Array<f64>, f: impl Fn(f64, f64) -> f64) -> Array<f64> {
    a.map_axis(1, a.shape()[1], |line| {
        let mut last = None;
        let mut next = |&x: &f64| {
            last = Some(last.map_or(x, |last| f(last, x)));
            last.expect("just set")
        };
        line.iter().map(&mut next).collect()
    })
}

/// Checks a result whose elements were only moved: exact with one scale, else up to requantization.
fn moved<B: Backend>(
    context: &Context<'_, B>,
    scheme: &QuantScheme,
    got: Q<B>,
    want: &Array<f64>,
) -> Result<(), String> {
    let shape = got.shape().to_vec();
    if shape != want.shape() {
        return Err(format!("got shape {shape:?}, expected {:?}", want.shape()));
    }
    let got = numbers::<B>(got, DType::F32)?;
    match level_of(scheme) {
        QuantLevel::Tensor => compare_exact(&got, want),
        QuantLevel::Block(_) => close(context, DType::F32, &got, want, Some(scheme)),
    }
}

/// Runs each view by itself, so that a known limit of one leaves the others checked.
fn views<B: Backend>(context: &Context<'_, B>) {
    let check = |name: &str, run: &dyn Fn(Q<B>, &Array<f64>) -> (Q<B>, Array<f64>)| {
        for_each(context, (-2.0, 2.0), |a, _, scheme| {
            let (got, want) = run(a.tensor.clone(), &a.numbers);
            moved(context, scheme, got, &want).map_err(|e| format!("{name}: {e}"))
        });
    };
    let turned = |n: &Array<f64>| n.permute(&[1, 0]);
    check("q_swap_dims", &|t, n| (B::q_swap_dims(t, 0, 1), turned(n)));
    check("q_transpose", &|t, n| (B::q_transpose(t), turned(n)));
    check("q_permute", &|t, n| (B::q_permute(t, &[1, 0]), turned(n)));
    check("q_permute of q_transpose", &|t, n| (B::q_permute(B::q_transpose(t), &[1, 0]), n.clone()));
    check("q_reshape", &|t, n| (B::q_reshape(t, [3, 2, 32].into()), n.reshape([3, 2, 32])));
    check("q_reshape of q_transpose", &|t, n| {
        (B::q_reshape(B::q_transpose(t), [192].into()), turned(n).reshape([192]))
    });
    check("q_flip", &|t, n| {
        let flipped = Array::from_fn(SHAPE, |index| n.at(&[5 - index[0], 31 - index[1]]));
        (B::q_flip(t, &[0, 1]), flipped)
    });
    check("q_slice", &|t, n| {
        let columns = Array::from_fn([6, 16], |index| n.at(&[index[0], 16 + index[1]]));
        (B::q_slice(t, &[Slice::new(0, None, 1), Slice::new(16, Some(32), 1)]), columns)
    });
    check("q_slice with steps", &|t, n| {
        let stepped = Array::from_fn([3, 11], |index| n.at(&[1 + 2 * index[0], 1 + 3 * index[1]]));
        (B::q_slice(t, &[Slice::new(1, None, 2), Slice::new(1, None, 3)]), stepped)
    });
    check("q_expand", &|t, n| {
        let row = Array::from_fn([4, 32], |index| n.at(&[5, index[1]]));
        let one = B::q_slice(t, &[Slice::new(5, Some(6), 1), Slice::new(0, None, 1)]);
        (B::q_expand(one, [4, 32].into()), row)
    });
    let int = get_device_settings::<B>(&context.device).int_dtype.into();
    check("q_select", &|t, n| {
        let rows = upload::<B, Int>(context, &Array::new([4], vec![5, 0, 0, 3]), int);
        let want = Array::from_fn([4, 32], |index| n.at(&[[5, 0, 0, 3][index[0]], index[1]]));
        (B::q_select(t, 0, rows), want)
    });
}

/// Like [`views`], for operations that copy codes or quantize again.
fn movement<B: Backend>(context: &Context<'_, B>) {
    let check = |name: &str, run: &dyn Fn(&Operand<B>, &Operand<B>) -> (Q<B>, Array<f64>)| {
        for_each(context, (-2.0, 2.0), |a, b, scheme| {
            let (got, want) = run(a, b);
            close(context, DType::F32, &numbers::<B>(got, DType::F32)?, &want, Some(scheme))
                .map_err(|e| format!("{name}: {e}"))
        });
    };
    let int = get_device_settings::<B>(&context.device).int_dtype.into();
    check("q_gather", &|a, _| {
        let at = ints(int, &[6, 16], (0, 32), 3);
        let want = Array::from_fn([6, 16], |index| a.numbers.at(&[index[0], at.at(index) as usize]));
        (B::q_gather(1, a.tensor.clone(), upload::<B, Int>(context, &at, int)), want)
    });
    check("q_repeat_dim", &|a, _| {
        let want = Array::from_fn([6, 96], |index| a.numbers.at(&[index[0], index[1] % 32]));
        (B::q_repeat_dim(a.tensor.clone(), 1, 3), want)
    });
    for axis in 0..2 {
        check("q_cat", &|a, b| {
            let mut shape = SHAPE;
            shape[axis] *= 2;
            let want = Array::from_fn(shape, |index| {
                let mut index = [index[0], index[1]];
                let part = if index[axis] < SHAPE[axis] { &a.numbers } else { &b.numbers };
                index[axis] %= SHAPE[axis];
                part.at(&index)
            });
            (B::q_cat(vec![a.tensor.clone(), b.tensor.clone()], axis), want)
        });
    }
}

/// Products of quantized tensors, and of a quantized tensor with a float tensor, whose dtype is the result's.
fn matmul<B: Backend>(context: &Context<'_, B>) {
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(x, y)| x * y).sum();
    for_each(context, (-2.0, 2.0), |a, b, _| {
        let want = product(&a.numbers, &b.numbers.permute(&[1, 0]), dot);
        let turned = || B::q_transpose(b.tensor.clone());
        let quantized = |q: Q<B>| TensorPrimitive::<B>::QFloat(q);
        // The transposed blocks may have been quantized again.
        let turned_numbers = numbers::<B>(turned(), DType::F32)?;
        let exact = product(&a.numbers, &turned_numbers, dot);
        settle(context, B::q_matmul(quantized(a.tensor.clone()), quantized(turned())), a.dtype, &exact)?;
        if level_of(&scheme_of::<B>(&a.tensor)) == QuantLevel::Tensor {
            compare_exact(&exact, &want)?;
        }
        for dtype in context.floats(&["q_matmul", "float_matmul"]) {
            let x = floats(dtype, &[5, 6], (-1.0, 1.0), 3);
            let rounded = numbers::<B>(a.tensor.clone(), dtype)?;
            let float = TensorPrimitive::Float(upload::<B, Float>(context, &x, dtype));
            let got = B::q_matmul(float, quantized(a.tensor.clone()));
            // A backend may round the weights to the dtype, or multiply by the numbers themselves.
            let wants = [product(&x, &rounded, dot), product(&x, &a.numbers, dot)];
            let got = match got {
                TensorPrimitive::Float(tensor) => read_float::<B>(tensor, dtype)?,
                TensorPrimitive::QFloat(_) => continue,
            };
            let outcomes = wants.map(|want| close(context, dtype, &got, &want, None));
            if outcomes.iter().all(Result::is_err) {
                return outcomes[0].clone().map_err(|e| format!("{dtype:?} by quantized: {e}"));
            }
        }
        Ok(())
    });
}

/// Positions ordered by value; equal elements keep their order.
fn ranked(line: &[f64], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..line.len()).collect();
    order.sort_by(|&i, &j| {
        let by_value = line[i].total_cmp(&line[j]);
        (if descending { by_value.reverse() } else { by_value }).then(i.cmp(&j))
    });
    order
}

fn indices<B: Backend>(context: &Context<'_, B>) {
    for_each(context, (-2.0, 2.0), |a, _, _| {
        for &out in &context.capabilities.ints {
            let dtype = DType::from(out);
            for axis in 0..2 {
                let first =
                    |descending| a.numbers.fold_axis(axis, move |line| ranked(line, descending)[0] as i128);
                let t = || a.tensor.clone();
                expect_int::<B>(B::q_argmax(t(), axis, out), dtype, &first(true))
                    .map_err(|e| format!("q_argmax: {e}"))?;
                expect_int::<B>(B::q_argmin(t(), axis, out), dtype, &first(false))
                    .map_err(|e| format!("q_argmin: {e}"))?;
                let top = a
                    .numbers
                    .map_axis(axis, 3, |line| ranked(line, true)[..3].iter().map(|&i| i as i128).collect());
                expect_int::<B>(B::q_argtopk(t(), axis, 3, out), dtype, &top)
                    .map_err(|e| format!("q_argtopk: {e}"))?;
                for descending in [false, true] {
                    let got = read_int::<B>(B::q_argsort(t(), axis, descending, out), dtype)?;
                    check_order(&a.numbers, axis, descending, &got).map_err(|e| format!("q_argsort: {e}"))?;
                }
            }
        }
        Ok(())
    });
}

/// Checks that indices name every element once and sort the line; equal elements may come in any order.
fn check_order(a: &Array<f64>, axis: usize, descending: bool, got: &Array<i128>) -> Result<(), String> {
    if got.shape() != a.shape() {
        return Err(format!("got shape {:?}, expected {:?}", got.shape(), a.shape()));
    }
    let mut first = a.shape().to_vec();
    first[axis] = 1;
    let mut outcome = Ok(());
    crate::array::for_each_index(&first, |index| {
        let (line, order) = (a.line(axis, index), got.line(axis, index));
        let mut named: Vec<i128> = order.clone();
        named.sort_unstable();
        let all = named.iter().enumerate().all(|(i, &at)| i as i128 == at);
        let sorted = all
            && order.windows(2).all(|pair| {
                let (x, y) = (line[pair[0] as usize], line[pair[1] as usize]);
                if descending { x >= y } else { x <= y }
            });
        if !sorted && outcome.is_ok() {
            outcome = Err(format!("{order:?} is no order of {line:?}"));
        }
    });
    outcome
}

fn extremes<B: Backend>(context: &Context<'_, B>) {
    let int = get_device_settings::<B>(&context.device).int_dtype;
    let max = |line: &[f64]| line[ranked(line, true)[0]];
    let min = |line: &[f64]| line[ranked(line, false)[0]];
    let max_abs = |line: &[f64]| line.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    for_each(context, (-2.0, 2.0), |a, _, scheme| {
        let t = || a.tensor.clone();
        let check = |name: &str, got: Q<B>, want: Array<f64>| {
            let got = numbers::<B>(got, DType::F32)?;
            close(context, DType::F32, &got, &want, Some(scheme)).map_err(|e| format!("{name}: {e}"))
        };
        check("q_max", B::q_max(t()), whole(&a.numbers, max))?;
        check("q_min", B::q_min(t()), whole(&a.numbers, min))?;
        check("q_max_abs", B::q_max_abs(t()), whole(&a.numbers, max_abs))?;
        for axis in 0..2 {
            let fold = |f: &dyn Fn(&[f64]) -> f64| a.numbers.fold_axis(axis, f);
            check("q_max_dim", B::q_max_dim(t(), axis), fold(&max))?;
            check("q_min_dim", B::q_min_dim(t(), axis), fold(&min))?;
            check("q_max_abs_dim", B::q_max_abs_dim(t(), axis), fold(&max_abs))?;
            let (values, at) = B::q_max_dim_with_indices(t(), axis, int);
            check("q_max_dim_with_indices", values, fold(&max))?;
            let want = a.numbers.fold_axis(axis, |line| ranked(line, true)[0] as i128);
            expect_int::<B>(at, int.into(), &want)?;
            let (values, at) = B::q_min_dim_with_indices(t(), axis, int);
            check("q_min_dim_with_indices", values, fold(&min))?;
            let want = a.numbers.fold_axis(axis, |line| ranked(line, false)[0] as i128);
            expect_int::<B>(at, int.into(), &want)?;
        }
        Ok(())
    });
}

fn order<B: Backend>(context: &Context<'_, B>) {
    let int = get_device_settings::<B>(&context.device).int_dtype;
    for_each(context, (-2.0, 2.0), |a, _, scheme| {
        let t = || a.tensor.clone();
        let check = |name: &str, got: Q<B>, want: &Array<f64>| {
            let got = numbers::<B>(got, DType::F32)?;
            close(context, DType::F32, &got, want, Some(scheme)).map_err(|e| format!("{name}: {e}"))
        };
        for axis in 0..2 {
            let sorted = |n: usize, descending: bool| {
                a.numbers.map_axis(axis, n, |line| {
                    ranked(line, descending)[..n].iter().map(|&i| line[i]).collect()
                })
            };
            check("q_topk", B::q_topk(t(), axis, 4), &sorted(4, true))?;
            for descending in [false, true] {
                let want = sorted(SHAPE[axis], descending);
                check("q_sort", B::q_sort(t(), axis, descending), &want)?;
                let (values, at) = B::q_sort_with_indices(t(), axis, descending, int);
                check("q_sort_with_indices", values, &want)?;
                check_order(&a.numbers, axis, descending, &read_int::<B>(at, int.into())?)?;
            }
        }
        Ok(())
    });
}

fn any_all<B: Backend>(context: &Context<'_, B>) {
    for_each(context, (-2.0, 2.0), |a, b, scheme| {
        // Zeros in the first half of the columns, and in all of the last row.
        let sparse = Array::from_fn(SHAPE, |index| {
            if index[1] < 16 || index[0] == 5 { 0.0 } else { 1.0 + a.numbers.at(index).abs() }
        });
        let up = |array| B::quantize_dynamic(upload::<B, Float>(context, array, DType::F32), scheme);
        let zeros = sparse.map(|_| 0.0);
        for (tensor, numbers) in
            [(up(&sparse), &sparse), (up(&zeros), &zeros), (b.tensor.clone(), &b.numbers)]
        {
            let any = |v: &[f64]| v.iter().any(|&x| x != 0.0);
            let all = |v: &[f64]| v.iter().all(|&x| x != 0.0);
            for &store in &context.capabilities.bools {
                let (t, one) = (|| tensor.clone(), |b| Array::new([1], vec![b]));
                expect_bool::<B>(B::q_any(t(), store), store.into(), &one(any(numbers.data())))?;
                expect_bool::<B>(B::q_all(t(), store), store.into(), &one(all(numbers.data())))?;
                for axis in 0..2 {
                    let got = B::q_any_dim(t(), axis, store);
                    expect_bool::<B>(got, store.into(), &numbers.fold_axis(axis, any))?;
                    let got = B::q_all_dim(t(), axis, store);
                    expect_bool::<B>(got, store.into(), &numbers.fold_axis(axis, all))?;
                }
            }
        }
        Ok(())
    });
}

fn powi<B: Backend>(context: &Context<'_, B>) {
    for int in context.ints(&["q_powi"]) {
        for_each(context, (0.5, 2.0), |a, _, _| {
            let exponents = ints(int, &SHAPE, (0, 4), 3);
            let want = a.numbers.zip(&exponents, |x, n| x.powi(n as i32));
            let got = B::q_powi(a.tensor.clone(), upload::<B, Int>(context, &exponents, int));
            settle(context, got, a.dtype, &want)
        });
    }
}
