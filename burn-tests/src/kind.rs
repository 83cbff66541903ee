//! Float, integer and boolean tensors behind one trait, so that layouts are made for all three by the same
//! code.

use crate::array::Array;
use crate::compare::compare;
use crate::release::{dtype_of, shape_of, values};
use crate::row::Context;
use crate::samples::{Stream, bools, floats, int_range, ints};
use crate::trace::check_dtype;
use burn_backend::tensor::{BoolTensor, Device, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, Shape, Slice, TensorData, TensorMetadata, bf16, f16};
use futures_lite::future::block_on;

/// A kind of tensor.
pub trait Kind<B: Backend>: 'static {
    /// Element of the oracle's arrays.
    type Value: Copy + PartialEq + std::fmt::Debug + 'static;
    /// The backend's tensor.
    type Tensor: TensorMetadata + 'static;

    /// Elements in the form that the backend takes.
    fn encode(array: &Array<Self::Value>, dtype: DType) -> TensorData;
    /// Elements in the form that the oracle takes.
    fn decode(data: &TensorData) -> Array<Self::Value>;
    /// A value that no case expects, to fill the elements that a view leaves out.
    fn garbage(dtype: DType) -> Self::Value;
    /// Whether two elements are the same: NaN equals NaN, and zeros of different signs differ.
    fn same(a: Self::Value, b: Self::Value) -> bool;
    /// Elements of every sort, including special values.
    fn sample(dtype: DType, shape: &[usize], seed: u64) -> Array<Self::Value>;
    /// The dtypes of this kind for which none of these methods is limited.
    fn dtypes(context: &Context<'_, B>, methods: &[&str]) -> Vec<DType>;

    /// Compares a tensor with its expectation, element by element with [`same`](Self::same).
    ///
    /// # Errors
    /// The first mismatch.
    fn expect(tensor: Self::Tensor, dtype: DType, want: &Array<Self::Value>) -> Result<(), String> {
        check_dtype(tensor.dtype(), dtype)?;
        compare(&Self::decode(&Self::into_data(tensor)), want, Self::same)
    }

    /// Uploads. Float tensors track gradients if the backend supports it, so that its tracking code is tested
    /// too.
    fn from_data(data: TensorData, device: &Device<B>) -> Self::Tensor;
    /// Downloads.
    fn into_data(tensor: Self::Tensor) -> TensorData;
    /// The trait's view methods of this kind.
    fn swap_dims(tensor: Self::Tensor, a: usize, b: usize) -> Self::Tensor;
    #[allow(missing_docs)]
    fn permute(tensor: Self::Tensor, axes: &[usize]) -> Self::Tensor;
    #[allow(missing_docs)]
    fn flip(tensor: Self::Tensor, axes: &[usize]) -> Self::Tensor;
    #[allow(missing_docs)]
    fn slice(tensor: Self::Tensor, slices: &[Slice]) -> Self::Tensor;
    #[allow(missing_docs)]
    fn expand(tensor: Self::Tensor, shape: Shape) -> Self::Tensor;
    #[allow(missing_docs)]
    fn unfold(tensor: Self::Tensor, dim: usize, size: usize, step: usize) -> Self::Tensor;
    #[allow(missing_docs)]
    fn reshape(tensor: Self::Tensor, shape: Shape) -> Self::Tensor;
}

/// Float tensors; the oracle computes in `f64`.
#[derive(Debug)]
pub struct Float;
/// Integer tensors; the oracle computes in `i128`.
#[derive(Debug)]
pub struct Int;
/// Boolean tensors.
#[derive(Debug)]
pub struct Bool;

macro_rules! forward {
    ($tensor:ident, $from_data:ident, $into_data:ident, $swap:ident, $permute:ident, $flip:ident, $slice:ident,
     $expand:ident, $unfold:ident, $reshape:ident, $track:expr) => {
        type Tensor = $tensor<B>;

        fn from_data(data: TensorData, device: &Device<B>) -> Self::Tensor {
            ($track)(B::$from_data(data, device))
        }
        fn into_data(tensor: Self::Tensor) -> TensorData {
            block_on(B::$into_data(tensor)).expect("the tensor can be read back")
        }
        fn swap_dims(tensor: Self::Tensor, a: usize, b: usize) -> Self::Tensor {
            B::$swap(tensor, a, b)
        }
        fn permute(tensor: Self::Tensor, axes: &[usize]) -> Self::Tensor {
            B::$permute(tensor, axes)
        }
        fn flip(tensor: Self::Tensor, axes: &[usize]) -> Self::Tensor {
            B::$flip(tensor, axes)
        }
        fn slice(tensor: Self::Tensor, slices: &[Slice]) -> Self::Tensor {
            B::$slice(tensor, slices)
        }
        fn expand(tensor: Self::Tensor, shape: Shape) -> Self::Tensor {
            B::$expand(tensor, shape)
        }
        fn unfold(tensor: Self::Tensor, dim: usize, size: usize, step: usize) -> Self::Tensor {
            B::$unfold(tensor, dim, size, step)
        }
        fn reshape(tensor: Self::Tensor, shape: Shape) -> Self::Tensor {
            B::$reshape(tensor, shape)
        }
    };
}

impl<B: Backend> Kind<B> for Float {
    type Value = f64;

    fn encode(array: &Array<f64>, dtype: DType) -> TensorData {
        let (data, shape) = (array.data(), array.shape().to_vec());
        match dtype {
            DType::F64 => TensorData::new(data.to_vec(), shape),
            DType::F32 => TensorData::new(data.iter().map(|&x| x as f32).collect::<Vec<_>>(), shape),
            DType::F16 => TensorData::new(data.iter().map(|&x| f16::from_f64(x)).collect::<Vec<_>>(), shape),
            DType::BF16 => {
                TensorData::new(data.iter().map(|&x| bf16::from_f64(x)).collect::<Vec<_>>(), shape)
            }
            other => panic!("{other:?} is not a float dtype"),
        }
    }

    fn decode(data: &TensorData) -> Array<f64> {
        let shape = shape_of(data).to_vec();
        let values = match dtype_of(data) {
            DType::F64 => values::<f64>(data),
            DType::F32 => values::<f32>(data).into_iter().map(f64::from).collect(),
            DType::F16 => values::<f16>(data).into_iter().map(f64::from).collect(),
            DType::BF16 => values::<bf16>(data).into_iter().map(f64::from).collect(),
            other => panic!("a float tensor came back as {other:?}"),
        };
        Array::new(shape, values)
    }

    fn garbage(_: DType) -> f64 {
        f64::NAN
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    fn sample(dtype: DType, shape: &[usize], seed: u64) -> Array<f64> {
        const SPECIAL: [f64; 4] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        let mut stream = Stream::new(!seed);
        floats(dtype, shape, (-100.0, 100.0), seed)
            .map(|x| if stream.unit() < 0.1 { SPECIAL[(stream.unit() * 4.0) as usize] } else { x })
    }

    fn dtypes(context: &Context<'_, B>, methods: &[&str]) -> Vec<DType> {
        context.floats(methods)
    }

    forward!(
        FloatTensor,
        float_from_data,
        float_into_data,
        float_swap_dims,
        float_permute,
        float_flip,
        float_slice,
        float_expand,
        float_unfold,
        float_reshape,
        |t| B::float_set_require_grad(t, true)
    );
}

impl<B: Backend> Kind<B> for Int {
    type Value = i128;

    fn encode(array: &Array<i128>, dtype: DType) -> TensorData {
        let shape = array.shape().to_vec();
        macro_rules! narrow {
            ($ty:ty) => {
                TensorData::new(array.data().iter().map(|&x| x as $ty).collect::<Vec<_>>(), shape)
            };
        }
        match dtype {
            DType::I64 => narrow!(i64),
            DType::I32 => narrow!(i32),
            DType::I16 => narrow!(i16),
            DType::I8 => narrow!(i8),
            DType::U64 => narrow!(u64),
            DType::U32 => narrow!(u32),
            DType::U16 => narrow!(u16),
            DType::U8 => narrow!(u8),
            other => panic!("{other:?} is not an integer dtype"),
        }
    }

    fn decode(data: &TensorData) -> Array<i128> {
        let shape = shape_of(data).to_vec();
        macro_rules! widen {
            ($ty:ty) => {
                values::<$ty>(data).into_iter().map(i128::from).collect()
            };
        }
        let values = match dtype_of(data) {
            DType::I64 => widen!(i64),
            DType::I32 => widen!(i32),
            DType::I16 => widen!(i16),
            DType::I8 => widen!(i8),
            DType::U64 => widen!(u64),
            DType::U32 => widen!(u32),
            DType::U16 => widen!(u16),
            DType::U8 => widen!(u8),
            other => panic!("an integer tensor came back as {other:?}"),
        };
        Array::new(shape, values)
    }

    fn garbage(dtype: DType) -> i128 {
        // The largest value that fits; sums and maxima that include it by mistake stand out.
        let bits = dtype.size() * 8 - dtype.is_int() as usize;
        (1i128 << bits) - 1
    }

    fn same(a: i128, b: i128) -> bool {
        a == b
    }

    fn sample(dtype: DType, shape: &[usize], seed: u64) -> Array<i128> {
        let (min, max) = int_range(dtype);
        ints(dtype, shape, (min, max + 1), seed)
    }

    fn dtypes(context: &Context<'_, B>, methods: &[&str]) -> Vec<DType> {
        context.ints(methods)
    }

    forward!(
        IntTensor,
        int_from_data,
        int_into_data,
        int_swap_dims,
        int_permute,
        int_flip,
        int_slice,
        int_expand,
        int_unfold,
        int_reshape,
        |t| t
    );
}

impl<B: Backend> Kind<B> for Bool {
    type Value = bool;

    fn encode(array: &Array<bool>, dtype: DType) -> TensorData {
        TensorData::new(array.data().to_vec(), array.shape().to_vec()).convert_dtype(dtype)
    }

    fn decode(data: &TensorData) -> Array<bool> {
        let shape = shape_of(data).to_vec();
        Array::new(shape, data.iter::<bool>().collect())
    }

    fn garbage(_: DType) -> bool {
        true
    }

    fn same(a: bool, b: bool) -> bool {
        a == b
    }

    fn sample(_: DType, shape: &[usize], seed: u64) -> Array<bool> {
        bools(shape, seed)
    }

    fn dtypes(context: &Context<'_, B>, methods: &[&str]) -> Vec<DType> {
        context.bools(methods)
    }

    forward!(
        BoolTensor,
        bool_from_data,
        bool_into_data,
        bool_swap_dims,
        bool_permute,
        bool_flip,
        bool_slice,
        bool_expand,
        bool_unfold,
        bool_reshape,
        |t| t
    );
}
