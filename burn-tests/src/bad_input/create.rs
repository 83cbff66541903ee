//! Creation: shapes too large for memory, data that does not fit its description, values outside of a dtype.

use super::{BadCall, calls};
use crate::release::{self, Backend};
use burn_backend::{BoolStore, DType, Distribution, FloatDType as F, IntDType as I, Shape, TensorData};
use burn_std::Bytes;

/// Shapes whose number of elements, or of bytes, overflows; a size of zero does not hide the overflow.
const HUGE: [[usize; 3]; 4] = [
    [usize::MAX, 2, 1],
    // The product wraps around to zero.
    [1 << 32, 1 << 32, 1],
    // As many bytes as there are addresses.
    [1 << 31, 1 << 31, 1],
    [usize::MAX, usize::MAX, 0],
];

/// Data whose bytes do not fit its shape and dtype.
fn mislabelled(bytes: usize, shape: &[usize], dtype: DType) -> TensorData {
    release::data(Bytes::from_elems(vec![0u8; bytes]), Shape::from(shape.to_vec()), dtype)
}

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    const NATIVE: BoolStore = BoolStore::Native;
    macro_rules! huge {
        ($($operation:literal: $method:ident($($arg:expr),*; $($more:expr),*);)*) => {$(
            for shape in HUGE {
                list.push(BadCall::new($operation, stringify!($method), "a shape that overflows", move |t| {
                    drop(B::$method(Shape::new(shape) $(, $arg)*, &t.device $(, $more)*));
                }));
            }
        )*};
    }
    huge! {
        "full": float_zeros(; F::F32);
        "full": float_ones(; F::F64);
        "full": float_full(2.0.into(); F::F16);
        "empty": float_empty(; F::F32);
        "random": float_random(Distribution::Default; F::F32);
        "full": int_zeros(; I::I64);
        "full": int_ones(; I::I32);
        "full": int_full(7.into(); I::U8);
        "empty": int_empty(; I::I8);
        "random": int_random(Distribution::Default; I::I32);
        "full": bool_zeros(; NATIVE);
        "full": bool_ones(; NATIVE);
        "empty": bool_empty(; NATIVE);
    }
    if release::MISLABELLED {
        mislabelled_calls(&mut list);
    }
    calls!(list, t,
        "from_data", "integers": float_from_data(TensorData::from([1i32, 2]), &t.device);
        "from_data", "booleans": float_from_data(TensorData::from([true, false]), &t.device);
        "from_data", "floats": int_from_data(TensorData::from([1f32, 2.0]), &t.device);
        "from_data", "booleans": int_from_data(TensorData::from([true, false]), &t.device);
        "from_data", "floats": bool_from_data(TensorData::from([1f32, 2.0]), &t.device);
        "from_data", "integers": bool_from_data(TensorData::from([1i64, 2]), &t.device);
        "arange", "a step of zero": int_arange_step(0..5, 0, &t.device, I::I32);
        "arange", "values that the dtype cannot hold": int_arange(0..300, &t.device, I::I8);
        "arange", "values that the dtype cannot hold": int_arange(-1..3, &t.device, I::U32);
        "arange", "values that the dtype cannot hold": int_arange_step(0..i64::MAX, 1 << 62, &t.device, I::U16);
        "arange", "more elements than memory": int_arange(i64::MIN..i64::MAX, &t.device, I::I64);
        "random", "a probability above one":
            float_random(Shape::new([4]), Distribution::Bernoulli(1.5), &t.device, F::F32);
        "random", "a negative probability":
            float_random(Shape::new([4]), Distribution::Bernoulli(-0.1), &t.device, F::F32);
        "random", "a probability of NaN":
            float_random(Shape::new([4]), Distribution::Bernoulli(f64::NAN), &t.device, F::F64);
        "random", "a negative standard deviation":
            float_random(Shape::new([4]), Distribution::Normal(0.0, -1.0), &t.device, F::F32);
        "random", "a mean of NaN": float_random(Shape::new([4]), Distribution::Normal(f64::NAN, 1.0), &t.device, F::F32);
        "random", "an infinite standard deviation":
            float_random(Shape::new([4]), Distribution::Normal(0.0, f64::INFINITY), &t.device, F::BF16);
        "random", "bounds in the wrong order":
            float_random(Shape::new([4]), Distribution::Uniform(2.0, 1.0), &t.device, F::F32);
        "random", "an infinite bound":
            float_random(Shape::new([4]), Distribution::Uniform(0.0, f64::INFINITY), &t.device, F::F32);
        "random", "bounds in the wrong order":
            int_random(Shape::new([4]), Distribution::Uniform(9.0, 3.0), &t.device, I::I32);
        "random", "a bound of NaN":
            int_random(Shape::new([4]), Distribution::Uniform(f64::NAN, 3.0), &t.device, I::I64);
        "random", "a negative standard deviation":
            int_random(Shape::new([4]), Distribution::Normal(3.0, -2.0), &t.device, I::I32);
    );

    // Addressable, but more than any machine has: 2^48 bytes and more.
    const VAST: usize = 1 << 46;
    calls!(list, t,
        "full", "more bytes than the machine has": float_zeros(Shape::new([VAST]), &t.device, F::F32);
        "full", "more bytes than the machine has": int_ones(Shape::new([VAST, 3]), &t.device, I::I64);
        "full", "more bytes than the machine has": bool_zeros(Shape::new([4, VAST]), &t.device, NATIVE);
        "empty", "more bytes than the machine has": float_empty(Shape::new([VAST]), &t.device, F::F64);
        "random", "more bytes than the machine has":
            float_random(Shape::new([VAST]), Distribution::Default, &t.device, F::F32);
        "arange", "more bytes than the machine has": int_arange(0..VAST as i64, &t.device, I::I64);
        "repeat", "more bytes than the machine has": float_repeat_dim(t.f(&[2, 3]), 0, VAST);
        "cat", "more bytes than the machine has": float_cat(
            vec![B::float_expand(t.f(&[1]), Shape::new([VAST])), t.f(&[3])], 0);
        "rfft", "more bytes than the machine has": rfft(t.f(&[2, 8]), 1, Some(VAST));
    );

    // Dtypes that some backends support, and others must refuse.
    let first = list.len();
    calls!(list, t,
        "full", "an unknown dtype": float_zeros(Shape::new([2]), &t.device, F::Flex32);
        "full", "an unknown dtype": float_ones(Shape::new([2]), &t.device, F::Flex32);
        "empty", "an unknown dtype": float_empty(Shape::new([2]), &t.device, F::Flex32);
        "random", "an unknown dtype": float_random(Shape::new([2]), Distribution::Default, &t.device, F::Flex32);
        "cast", "an unknown dtype": float_cast(t.f(&[2]), F::Flex32);
        "cast", "an unknown dtype": int_into_float(t.i(&[2]), F::Flex32);
        "cast", "an unknown dtype": bool_into_float(t.b(&[2]), F::Flex32);
    );
    list[first..].iter_mut().for_each(|call| call.legal_with = Some(DType::Flex32));
    let first = list.len();
    calls!(list, t,
        "full", "an unknown store": bool_zeros(Shape::new([2]), &t.device, BoolStore::U32);
        "full", "an unknown store": bool_ones(Shape::new([2]), &t.device, BoolStore::U32);
        "empty", "an unknown store": bool_empty(Shape::new([2]), &t.device, BoolStore::U32);
    );
    list[first..].iter_mut().for_each(|call| call.legal_with = Some(DType::Bool(BoolStore::U32)));
    list
}

/// Data whose bytes do not fit its shape and dtype.
fn mislabelled_calls<B: Backend>(list: &mut Vec<BadCall<B>>) {
    for shape in HUGE {
        macro_rules! from_data {
            ($($method:ident, $dtype:expr;)*) => {$(
                list.push(BadCall::new("from_data", stringify!($method), "a shape that overflows", move |t| {
                    drop(B::$method(mislabelled(0, &shape, $dtype), &t.device));
                }));
            )*};
        }
        from_data!(float_from_data, DType::F32; int_from_data, DType::I64; bool_from_data, DType::Bool(BoolStore::Native););
    }
    calls!(list, t,
        "from_data", "too few bytes": float_from_data(mislabelled(12, &[4], DType::F32), &t.device);
        "from_data", "too many bytes": float_from_data(mislabelled(20, &[4], DType::F32), &t.device);
        "from_data", "half an element": float_from_data(mislabelled(3, &[1], DType::F16), &t.device);
        "from_data", "no bytes for a scalar": float_from_data(mislabelled(0, &[], DType::F64), &t.device);
        "from_data", "bytes for no element": int_from_data(mislabelled(4, &[0, 3], DType::I32), &t.device);
        "from_data", "too few bytes": int_from_data(mislabelled(7, &[1], DType::U64), &t.device);
        "from_data", "too few bytes": bool_from_data(mislabelled(5, &[2, 3], DType::Bool(BoolStore::U8)), &t.device);
    );
}
