//! What a backend reports about itself and its device, and the reading of several tensors at once.

use crate::array::Array;
use crate::compare::compare_exact;
use crate::kind::{Bool, Float, Int, Kind};
use crate::release::dtype_of;
use crate::row::{Context, Row};
use crate::support::{check_dtype, over_layouts, upload};
use burn_backend::ops::TransactionPrimitive;
use burn_backend::quantization::{QuantScheme, QuantStore};
use burn_backend::{Backend, DType, DTypeUsage, DeviceOps, TensorMetadata};
use futures_lite::future::block_on;

/// Rows of this family.
pub fn rows<B: Backend>() -> Vec<Row<B>> {
    vec![
        Row::new(&["name", "device_count"], identity),
        Row::new(&["dtype_usage", "supports_dtype"], dtypes),
        Row::new(&["sync", "memory_cleanup", "staging", "memory_persistent_allocations"], housekeeping),
        Row::new(
            &["ad_enabled", "float_set_require_grad", "float_is_require_grad", "float_detach"],
            gradients,
        ),
        Row::new(&["tr_execute"], transaction),
    ]
}

fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise()) }
}

fn identity<B: Backend>(context: &Context<'_, B>) {
    context.attempt(
        || "the name".into(),
        || {
            let name = B::name(&context.device);
            ensure(!name.trim().is_empty(), || "it is empty".into())?;
            ensure(name == B::name(&context.device), || "it changes".into())
        },
    );
    context.attempt(
        || "the number of devices".into(),
        || {
            ensure(B::device_count(context.device.id().type_id) > 0, || {
                "no device like the default one".into()
            })
        },
    );
}

/// A backend reports support for the dtypes that it is tested with.
fn dtypes<B: Backend>(context: &Context<'_, B>) {
    let methods = ["dtype_usage", "supports_dtype"];
    for dtype in [context.floats(&methods), context.ints(&methods), context.bools(&methods)].concat() {
        context.attempt(
            || format!("{dtype:?}"),
            || {
                let usage = B::dtype_usage(&context.device, dtype);
                ensure(usage.is_superset(DTypeUsage::general()), || format!("usage {usage:?}"))?;
                ensure(B::supports_dtype(&context.device, dtype), || "it is not supported".into())
            },
        );
    }
}

/// Calls that free or move memory leave tensors unchanged.
fn housekeeping<B: Backend>(context: &Context<'_, B>) {
    let methods = ["sync", "memory_cleanup", "staging", "memory_persistent_allocations"];
    for dtype in context.floats(&methods) {
        let array = <Float as Kind<B>>::sample(dtype, &[3, 65], 1);
        over_layouts::<B, Float>(context, dtype, &array, |t, a| {
            let sum = B::float_add(t.clone(), t.clone());
            B::sync(&context.device).map_err(|e| e.to_string())?;
            drop(sum);
            B::memory_cleanup(&context.device);
            let (kept, rank) =
                B::memory_persistent_allocations(&context.device, t, |t: <Float as Kind<B>>::Tensor| {
                    let rank = t.shape().num_dims();
                    (t, rank)
                });
            ensure(rank == a.shape().len(), || format!("the function's output became {rank}"))?;
            B::memory_cleanup(&context.device);
            <Float as Kind<B>>::expect(kept, dtype, a)
        });
    }
    for dtype in context.ints(&methods) {
        context.attempt(
            || format!("staged data of {dtype:?}"),
            || {
                let array = <Int as Kind<B>>::sample(dtype, &[7], 1);
                let encode = || <Int as Kind<B>>::encode(&array, dtype);
                let mut data = [encode(), encode()];
                B::staging(data.iter_mut(), &context.device);
                data.into_iter().try_for_each(|data| {
                    <Int as Kind<B>>::expect(B::int_from_data(data, &context.device), dtype, &array)
                })
            },
        );
    }
}

/// A backend tracks gradients if and only if it says so, and tracking changes no value.
fn gradients<B: Backend>(context: &Context<'_, B>) {
    let methods = ["ad_enabled", "float_set_require_grad", "float_is_require_grad", "float_detach"];
    let enabled = B::ad_enabled(&context.device);
    for dtype in context.floats(&methods) {
        let array = <Float as Kind<B>>::sample(dtype, &[3, 5], 1);
        over_layouts::<B, Float>(context, dtype, &array, |t, a| {
            let tracked = B::float_set_require_grad(B::float_detach(t), true);
            ensure(B::float_is_require_grad(&tracked) == enabled, || {
                "tracking disagrees with ad_enabled".into()
            })?;
            let untracked = B::float_set_require_grad(tracked.clone(), false);
            ensure(!B::float_is_require_grad(&untracked), || "tracking stays on".into())?;
            let result = B::float_detach(B::float_add(tracked.clone(), tracked.clone()));
            ensure(!B::float_is_require_grad(&result), || "a detached result is tracked".into())?;
            <Float as Kind<B>>::expect(result, dtype, &a.map(|x| crate::compare::round_to(dtype, x + x)))?;
            <Float as Kind<B>>::expect(B::float_detach(tracked), dtype, a)
        });
    }
}

/// Several tensors of every kind, each read into its place.
fn transaction<B: Backend>(context: &Context<'_, B>) {
    let methods = ["tr_execute"];
    let (floats, ints, bools) = (context.floats(&methods), context.ints(&methods), context.bools(&methods));
    let arrays = |k: usize| Array::from_fn([2, 3, k + 1], |i| (100 * k + 10 * i[1] + i[2]) as i128 % 100);
    let float = |k| arrays(k).map(|x| x as f64);
    let bool = |k| arrays(k).map(|x| x % 2 == 0);
    context.attempt(
        || "tensors of every dtype".into(),
        || {
            let scheme = QuantScheme::default().with_store(QuantStore::Native);
            let quantized =
                B::dtype_usage(&context.device, DType::QFloat(scheme)).contains(DTypeUsage::Storage);
            let q: Vec<_> = (0..2 * quantized as usize)
                .map(|k| B::quantize_dynamic(upload::<B, Float>(context, &float(k), floats[0]), &scheme))
                .collect();
            let expected_q: Vec<_> =
                q.iter().map(|q| block_on(B::q_into_data(q.clone())).expect("it can be read")).collect();
            let read = block_on(B::tr_execute(TransactionPrimitive::new(
                floats.iter().enumerate().map(|(k, &d)| upload::<B, Float>(context, &float(k), d)).collect(),
                q,
                ints.iter().enumerate().map(|(k, &d)| upload::<B, Int>(context, &arrays(k), d)).collect(),
                bools.iter().enumerate().map(|(k, &d)| upload::<B, Bool>(context, &bool(k), d)).collect(),
            )))
            .map_err(|e| e.to_string())?;
            let places = [floats.len(), ints.len(), bools.len()];
            let got = [read.read_floats.len(), read.read_ints.len(), read.read_bools.len()];
            ensure(got == places, || format!("{got:?} tensors were read, expected {places:?}"))?;
            for (k, (data, &dtype)) in read.read_floats.iter().zip(&floats).enumerate() {
                check_dtype(dtype_of(data), dtype)?;
                compare_exact(&<Float as Kind<B>>::decode(data), &float(k))?;
            }
            for (k, (data, &dtype)) in read.read_ints.iter().zip(&ints).enumerate() {
                check_dtype(dtype_of(data), dtype)?;
                compare_exact(&<Int as Kind<B>>::decode(data), &arrays(k))?;
            }
            for (k, (data, &dtype)) in read.read_bools.iter().zip(&bools).enumerate() {
                check_dtype(dtype_of(data), dtype)?;
                compare_exact(&<Bool as Kind<B>>::decode(data), &bool(k))?;
            }
            ensure(read.read_qfloats == expected_q, || "quantized tensors read differently alone".into())
        },
    );
    context.attempt(
        || "no tensor at all".into(),
        || {
            let nothing = TransactionPrimitive::new(vec![], vec![], vec![], vec![]);
            let read = block_on(B::tr_execute(nothing)).map_err(|e| e.to_string())?;
            ensure(read.read_floats.is_empty() && read.read_qfloats.is_empty(), || {
                "something was read".into()
            })
        },
    );
}
