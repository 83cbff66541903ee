//! Creation of tensors, from nothing and from data, and conversion to data.

use crate::array::Array;
use crate::compare::round_to;
use crate::kind::{Bool, Float, Int, Kind};
use crate::release::Backend;
use crate::row::{Context, Row};
use crate::support::{SHAPES, check_dtype, expect_int, int_range, over_layouts, upload};
use burn_backend::tensor::{Device, IntTensor};
use burn_backend::{DType, FloatDType, IntDType, Scalar, Shape, TensorData, TensorMetadata};
use std::ops::Range;

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    let mut rows: Vec<Row<B>> = Vec::new();
    macro_rules! kind {
        ($kind:ident, $empty:ident, $from_data:ident, $into_data:ident, $device:ident, $to_device:ident) => {
            rows.push(Row::new(&[stringify!($empty)], |context| {
                empty::<B, $kind, _>(context, stringify!($empty), B::$empty)
            }));
            rows.push(Row::new(&[stringify!($from_data), stringify!($into_data)], |context| {
                data::<B, $kind>(context, &[stringify!($from_data), stringify!($into_data)])
            }));
            rows.push(Row::new(&[stringify!($device), stringify!($to_device)], |context| {
                let methods = [stringify!($device), stringify!($to_device)];
                device::<B, $kind>(context, &methods, B::$device, B::$to_device)
            }));
        };
    }
    kind!(Float, float_empty, float_from_data, float_into_data, float_device, float_to_device);
    kind!(Int, int_empty, int_from_data, int_into_data, int_device, int_to_device);
    kind!(Bool, bool_empty, bool_from_data, bool_into_data, bool_device, bool_to_device);
    macro_rules! filled {
        ($kind:ident, $method:ident, $value:expr) => {
            rows.push(Row::new(&[stringify!($method)], |context| {
                filled::<B, $kind, _>(context, stringify!($method), B::$method, $value)
            }))
        };
    }
    filled!(Float, float_zeros, 0.0);
    filled!(Float, float_ones, 1.0);
    filled!(Int, int_zeros, 0);
    filled!(Int, int_ones, 1);
    filled!(Bool, bool_zeros, false);
    filled!(Bool, bool_ones, true);
    rows.push(Row::new(&["float_full"], |context| {
        full::<B, Float, FloatDType>(context, "float_full", B::float_full, float_scalars)
    }));
    rows.push(Row::new(&["int_full"], |context| {
        full::<B, Int, IntDType>(context, "int_full", B::int_full, int_scalars)
    }));
    rows.push(Row::new(&["int_arange", "int_arange_step"], arange));
    rows
}

fn empty<B: Backend, K: Kind<B>, D: From<DType>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(Shape, &Device<B>, D) -> K::Tensor,
) {
    for dtype in K::dtypes(context, &[method]) {
        for shape in SHAPES {
            let what = || format!("{dtype:?} {shape:?}");
            context.attempt(what, || {
                let tensor = run(shape.to_vec().into(), &context.device, dtype.into());
                check_dtype(tensor.dtype(), dtype)?;
                // The elements are unspecified, but they can be read.
                let read = K::decode(&K::into_data(tensor));
                if read.shape() == shape { Ok(()) } else { Err(format!("got shape {:?}", read.shape())) }
            });
        }
    }
}

fn filled<B: Backend, K: Kind<B>, D: From<DType>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(Shape, &Device<B>, D) -> K::Tensor,
    value: K::Value,
) {
    for dtype in K::dtypes(context, &[method]) {
        for shape in SHAPES {
            let what = || format!("{dtype:?} {shape:?}");
            context.attempt(what, || {
                let tensor = run(shape.to_vec().into(), &context.device, dtype.into());
                K::expect(tensor, dtype, &Array::from_fn(shape, |_| value))
            });
        }
    }
}

fn full<B: Backend, K: Kind<B>, D: From<DType>>(
    context: &Context<'_, B>,
    method: &'static str,
    run: fn(Shape, Scalar, &Device<B>, D) -> K::Tensor,
    scalars: fn(DType) -> Vec<(Scalar, K::Value)>,
) {
    for dtype in K::dtypes(context, &[method]) {
        for shape in SHAPES {
            for (scalar, value) in scalars(dtype) {
                let what = || format!("{dtype:?} {shape:?} of {scalar:?}");
                context.attempt(what, || {
                    let tensor = run(shape.to_vec().into(), scalar, &context.device, dtype.into());
                    K::expect(tensor, dtype, &Array::from_fn(shape, |_| value))
                });
            }
        }
    }
}

fn float_scalars(dtype: DType) -> Vec<(Scalar, f64)> {
    let floats = [0.1, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 65504.0];
    let floats = floats.into_iter().map(|x| (Scalar::Float(x), round_to(dtype, x)));
    floats.chain([(Scalar::Int(-3), -3.0), (Scalar::UInt(7), 7.0), (Scalar::Bool(true), 1.0)]).collect()
}

fn int_scalars(dtype: DType) -> Vec<(Scalar, i128)> {
    let (min, max) = int_range(dtype);
    let smallest = Scalar::Int(min as i64);
    vec![(smallest, min), (Scalar::UInt(max as u64), max), (Scalar::Float(5.0), 5), (Scalar::Bool(true), 1)]
}

fn data<B: Backend, K: Kind<B>>(context: &Context<'_, B>, methods: &[&str]) {
    for dtype in K::dtypes(context, methods) {
        for shape in SHAPES {
            let array = K::sample(dtype, shape, 1);
            over_layouts::<B, K>(context, dtype, &array, |t, a| K::expect(t, dtype, a));
            // Bytes from elsewhere, such as a file, which are not aligned to the elements.
            context.attempt(
                || format!("{dtype:?} {shape:?} from plain bytes"),
                || {
                    let bytes = K::encode(&array, dtype).as_bytes().to_vec();
                    let data = TensorData::from_bytes_vec(bytes, shape.to_vec(), dtype);
                    K::expect(K::from_data(data, &context.device), dtype, &array)
                },
            );
        }
    }
}

fn device<B: Backend, K: Kind<B>>(
    context: &Context<'_, B>,
    methods: &[&str],
    device: fn(&K::Tensor) -> Device<B>,
    to_device: fn(K::Tensor, &Device<B>) -> K::Tensor,
) {
    for dtype in K::dtypes(context, methods) {
        for shape in SHAPES {
            over_layouts::<B, K>(context, dtype, &K::sample(dtype, shape, 1), |t, a| {
                let moved = to_device(t, &context.device);
                if device(&moved) != context.device {
                    return Err(format!("it is on {:?}", device(&moved)));
                }
                K::expect(moved, dtype, a)
            });
            context.attempt(
                || format!("{dtype:?} {shape:?} uploaded"),
                || {
                    let at = device(&upload::<B, K>(context, &K::sample(dtype, shape, 1), dtype));
                    if at == context.device { Ok(()) } else { Err(format!("it is on {at:?}")) }
                },
            );
        }
    }
}

fn arange<B: Backend>(context: &Context<'_, B>) {
    const RANGES: [(Range<i64>, usize); 9] = [
        (0..5, 1),
        (0..100, 1),
        (3..4, 1),
        (5..5, 1),
        (1..12, 2),
        (1..11, 5),
        (0..3, 100),
        (-7..8, 1),
        (-100..100, 7),
    ];
    let check = |dtype: DType, tensor: IntTensor<B>, range: &Range<i64>, step: usize| {
        let values: Vec<i128> = range.clone().step_by(step).map(i128::from).collect();
        expect_int::<B>(tensor, dtype, &Array::new([values.len()], values))
    };
    for dtype in context.ints(&["int_arange", "int_arange_step"]) {
        let unsigned = int_range(dtype).0 == 0;
        for (range, step) in RANGES.into_iter().filter(|(range, _)| !unsigned || range.start >= 0) {
            let out = IntDType::from(dtype);
            context.attempt(
                || format!("{dtype:?} {range:?} by {step}"),
                || check(dtype, B::int_arange_step(range.clone(), step, &context.device, out), &range, step),
            );
            context.attempt(
                || format!("{dtype:?} {range:?}"),
                || check(dtype, B::int_arange(range.clone(), &context.device, out), &range, 1),
            );
        }
    }
}
