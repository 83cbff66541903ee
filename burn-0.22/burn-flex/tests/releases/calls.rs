//! The calls, in the words that both releases share. `super` names the release.

use super::adapter::{FlexDevice, FlexTensor as T};
use super::burn_backend::ops::{
    ActivationOps, BoolTensorOps, ConvOptions, FloatTensorOps, IntTensorOps, ModuleOps, TransactionOps,
    TransactionPrimitive,
};
use super::burn_backend::tensor::IndexingUpdateOp;
use super::burn_backend::{BoolDType, Distribution, FloatDType, IntDType, Shape, Slice, TensorData};
use super::{Flex, scatter, select_update};
use crate::{Log, record};
use flex_core::{BoolStore, DType, Tensor, elementwise};
use futures_lite::future::block_on;

const FLOATS: [(DType, FloatDType); 4] = [
    (DType::F64, FloatDType::F64),
    (DType::F32, FloatDType::F32),
    (DType::F16, FloatDType::F16),
    (DType::BF16, FloatDType::BF16),
];
const INTS: [(DType, IntDType); 8] = [
    (DType::I64, IntDType::I64),
    (DType::I32, IntDType::I32),
    (DType::I16, IntDType::I16),
    (DType::I8, IntDType::I8),
    (DType::U64, IntDType::U64),
    (DType::U32, IntDType::U32),
    (DType::U16, IntDType::U16),
    (DType::U8, IntDType::U8),
];
const BOOLS: [(BoolStore, BoolDType); 2] =
    [(BoolStore::Native, BoolDType::Native), (BoolStore::U8, BoolDType::U8)];

/// A tensor of numbers from 1/4 to 3, in an order without a pattern.
fn tensor(shape: &[usize], dtype: DType) -> T {
    let len = shape.iter().product::<usize>();
    let values: Vec<f64> = (0..len).map(|i| (((i * 7) % 12) as f64 + 1.0) / 4.0).collect();
    elementwise::cast(Tensor::from_slice(&values, shape).unwrap(), dtype).unwrap().into()
}

fn indices(values: &[i64], shape: &[usize]) -> T {
    Tensor::from_slice(values, shape).unwrap().into()
}

fn text(tensor: T) -> String {
    let tensor = tensor.into_core();
    let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
    format!("{dtype:?} {:?} {:?}", shape.as_slice(), &tensor.into_bytes().unwrap()[..])
}

fn texts(tensors: impl IntoIterator<Item = T>) -> String {
    tensors.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Calls that return one tensor: `method(arguments);`.
macro_rules! calls {
    ($log:ident, $of:expr, $($method:ident($($arg:expr),* $(,)?);)*) => {$(
        record($log, format!("{}, {}", stringify!($method($($arg),*)), $of), || text(Flex::$method($($arg),*)));
    )*};
}

/// Calls that return two tensors.
macro_rules! pairs {
    ($log:ident, $of:expr, $($method:ident($($arg:expr),* $(,)?);)*) => {$(
        record($log, format!("{}, {}", stringify!($method($($arg),*)), $of), || {
            let (a, b) = Flex::$method($($arg),*);
            texts([a, b])
        });
    )*};
}

#[path = "autodiff.rs"]
mod autodiff;
#[path = "codes.rs"]
mod codes;
#[path = "layers.rs"]
mod layers;

pub fn log() -> Log {
    let mut log = Log::new();
    for (dtype, named) in FLOATS {
        floats(&mut log, dtype, named);
        layers::log(&mut log, dtype);
        codes::log(&mut log, dtype, named);
    }
    for (dtype, named) in INTS {
        ints(&mut log, dtype, named);
    }
    for (store, named) in BOOLS {
        bools(&mut log, store, named);
    }
    malformed(&mut log);
    autodiff::log(&mut log);
    transaction(&mut log);
    log
}

fn floats(log: &mut Log, dtype: DType, named: FloatDType) {
    let x = || tensor(&[3, 4], dtype);
    let y = || tensor(&[4, 3], dtype).into_core().swap_axes(0, 1).unwrap().into();
    let square = || tensor(&[2, 4, 4], dtype);
    let picks = || indices(&[2, 0, 1, 1, 2, 2, 0, 0, 1, 2, 1, 0], &[3, 4]);
    let rows = || indices(&[2, 0], &[2]);
    let mask = || Flex::float_greater(x(), y(), BoolDType::Native);
    let device = &FlexDevice;
    calls! { log, dtype.name(),
        float_empty(Shape::new([0, 2]), device, named);
        float_zeros(Shape::new([2, 3]), device, named);
        float_ones(Shape::new([2, 3]), device, named);
        float_full(Shape::new([2, 3]), 2.5.into(), device, named);
        float_cast(x(), FloatDType::F32);
        float_into_int(x(), IntDType::I16);
        float_random(Shape::new([100]), Distribution::Default, device, named);
        float_random(Shape::new([100]), Distribution::Normal(1.0, 2.0), device, named);
        float_random(Shape::new([100]), Distribution::Bernoulli(0.25), device, named);
        float_reshape(y(), Shape::new([6, 2]));
        float_slice(x(), &[Slice::new(0, Some(3), 2), Slice::new(0, None, -1)]);
        float_transpose(x());
        float_swap_dims(x(), 0, 1);
        float_permute(x(), &[1, 0]);
        float_flip(x(), &[1]);
        float_expand(tensor(&[3, 1], dtype), Shape::new([3, 5]));
        float_unfold(x(), 1, 2, 1);
        float_cat(vec![x(), y()], 0);
        float_repeat_dim(y(), 1, 3);
        float_slice_assign(x(), &[Slice::new(1, Some(3), 1), Slice::new(0, Some(2), 1)], tensor(&[2, 2], dtype));
        float_mask_where(x(), mask(), y());
        float_mask_fill(x(), mask(), (-1.5).into());
        float_gather(0, x(), picks());
        float_gather_nd(x(), indices(&[2, 1, 0, 3], &[2, 2]));
        float_scatter_nd(x(), indices(&[2, 0], &[2, 1]), tensor(&[2, 4], dtype), IndexingUpdateOp::Max);
        float_select(x(), 0, rows());
        float_add(x(), y());
        float_add_scalar(x(), 1.5.into());
        float_sub(x(), y());
        float_sub_scalar(x(), 1.5.into());
        float_mul(x(), y());
        float_mul_scalar(x(), 1.5.into());
        float_div(x(), y());
        float_div_scalar(x(), 1.5.into());
        float_remainder(x(), y());
        float_remainder_scalar(x(), 0.7.into());
        float_powf(x(), y());
        float_powf_scalar(x(), 1.5.into());
        float_powi(x(), picks());
        float_powi_scalar(x(), 3.into());
        float_atan2(x(), y());
        float_clamp(x(), 0.5.into(), 2.into());
        float_clamp_min(x(), 1.into());
        float_clamp_max(x(), 1.into());
        float_matmul(square(), square());
        float_cross(tensor(&[2, 3], dtype), tensor(&[2, 3], dtype), 1);
        float_abs(x());
        float_neg(y());
        float_sign(x());
        float_recip(x());
        float_sqrt(x());
        float_exp(x());
        float_log(x());
        float_log1p(x());
        float_erf(x());
        float_sin(x());
        float_cos(x());
        float_tan(x());
        float_sinh(x());
        float_cosh(x());
        float_tanh(x());
        float_asin(x());
        float_acos(x());
        float_atan(x());
        float_asinh(x());
        float_acosh(x());
        float_atanh(x());
        float_floor(x());
        float_ceil(x());
        float_round(x());
        float_trunc(x());
        float_equal(x(), y(), BoolDType::Native);
        float_equal_elem(x(), 1.into(), BoolDType::U8);
        float_not_equal(x(), y(), BoolDType::U8);
        float_not_equal_elem(x(), 1.into(), BoolDType::Native);
        float_greater(x(), y(), BoolDType::U8);
        float_greater_elem(x(), 1.into(), BoolDType::Native);
        float_greater_equal(x(), y(), BoolDType::Native);
        float_greater_equal_elem(x(), 1.into(), BoolDType::Native);
        float_lower(x(), y(), BoolDType::Native);
        float_lower_elem(x(), 1.into(), BoolDType::Native);
        float_lower_equal(x(), y(), BoolDType::Native);
        float_lower_equal_elem(x(), 1.into(), BoolDType::Native);
        float_is_nan(x(), BoolDType::Native);
        float_is_inf(x(), BoolDType::Native);
        float_sum(x());
        float_sum_dim(y(), 1);
        float_prod(x());
        float_prod_dim(x(), 0);
        float_mean(x());
        float_mean_dim(x(), 1);
        float_max(x());
        float_max_dim(x(), 1);
        float_min(x());
        float_min_dim(x(), 0);
        float_max_abs(x());
        float_max_abs_dim(x(), 1);
        float_argmax(x(), 1, IntDType::I32);
        float_argmin(x(), 0, IntDType::U8);
        float_any(x(), BoolDType::Native);
        float_any_dim(x(), 1, BoolDType::U8);
        float_all(x(), BoolDType::Native);
        float_all_dim(x(), 1, BoolDType::Native);
        float_cumsum(x(), 1);
        float_cumprod(x(), 0);
        float_cummin(x(), 1);
        float_cummax(x(), 1);
        float_sort(x(), 1, true);
        float_argsort(x(), 0, false, IntDType::I64);
        float_topk(x(), 1, 2);
        float_argtopk(x(), 1, 2, IntDType::I16);
        float_powf_scalar_impl(x(), 2.0.into());
        float_powi_scalar_impl(x(), 2.into());
        float_to_device(x(), device);
        float_detach(x());
        float_set_require_grad(x(), true);
        float_from_data(block_on(Flex::float_into_data(y())).unwrap(), device);
        relu(x());
        relu_backward(x(), y());
        leaky_relu(x(), 0.1.into());
        prelu(x(), tensor(&[4], dtype));
        gelu(x());
        gelu_backward(x(), y());
        sigmoid(x());
        sigmoid_backward(x(), y());
        hard_sigmoid(x(), 0.2.into(), 0.5.into());
        log_sigmoid(x());
        log_sigmoid_backward(x(), y());
        softmax(x(), 1);
        log_softmax(x(), 0);
        softmin(x(), 1);
    }
    pairs! { log, dtype.name(),
        float_max_dim_with_indices(x(), 1, IntDType::I64);
        float_min_dim_with_indices(x(), 0, IntDType::U16);
        float_sort_with_indices(x(), 1, true, IntDType::I32);
    }
    record(log, format!("scatter, {}", dtype.name()), || text(scatter(0, x(), picks(), y())));
    record(log, format!("select_update, {}", dtype.name()), || {
        text(select_update(x(), 0, rows(), tensor(&[2, 4], dtype)))
    });
}

fn ints(log: &mut Log, dtype: DType, named: IntDType) {
    let x = || {
        let values: Vec<i64> = (0..12).map(|i| (i * 7) % 12 + 1).collect();
        T::from(elementwise::cast(Tensor::from_slice(&values, [3, 4]).unwrap(), dtype).unwrap())
    };
    let y = || T::from(x().into_core().reshape([4, 3]).unwrap().swap_axes(0, 1).unwrap());
    let mask = || Flex::int_greater(x(), y(), BoolDType::Native);
    let device = &FlexDevice;
    calls! { log, dtype.name(),
        int_zeros(Shape::new([2, 3]), device, named);
        int_ones(Shape::new([2, 3]), device, named);
        int_full(Shape::new([2, 3]), 5.into(), device, named);
        int_arange(2..9, device, named);
        int_arange_step(2..9, 3, device, named);
        int_random(Shape::new([100]), Distribution::Default, device, named);
        int_random(Shape::new([100]), Distribution::Uniform(1.0, 9.0), device, named);
        int_cast(x(), IntDType::I32);
        int_into_float(x(), FloatDType::F16);
        int_reshape(y(), Shape::new([6, 2]));
        int_slice(x(), &[Slice::new(0, Some(3), 2), Slice::new(0, None, -1)]);
        int_transpose(x());
        int_flip(x(), &[0]);
        int_cat(vec![x(), y()], 1);
        int_repeat_dim(x(), 0, 2);
        int_mask_where(x(), mask(), y());
        int_mask_fill(x(), mask(), 3.into());
        int_gather(0, x(), indices(&[2, 0, 1, 1], &[1, 4]));
        int_select(x(), 1, indices(&[2, 0], &[2]));
        int_add(x(), y());
        int_add_scalar(x(), 100.into());
        int_sub(x(), y());
        int_mul(x(), y());
        int_mul_scalar(x(), 100.into());
        int_div(x(), y());
        int_div_scalar(x(), 5.into());
        int_remainder(x(), y());
        int_remainder_scalar(x(), 5.into());
        int_powi(x(), y());
        int_powi_scalar(x(), 3.into());
        int_clamp(x(), 2.into(), 7.into());
        int_matmul(x(), tensor(&[4, 2], dtype));
        int_abs(x());
        int_neg(x());
        int_sign(x());
        bitwise_and(x(), y());
        bitwise_and_scalar(x(), 6.into());
        bitwise_or(x(), y());
        bitwise_xor(x(), y());
        bitwise_not(x());
        bitwise_left_shift(x(), y());
        bitwise_left_shift_scalar(x(), 2.into());
        bitwise_right_shift(x(), y());
        bitwise_right_shift_scalar(x(), 1.into());
        int_equal(x(), y(), BoolDType::Native);
        int_equal_elem(x(), 4.into(), BoolDType::U8);
        int_not_equal(x(), y(), BoolDType::Native);
        int_greater_equal(x(), y(), BoolDType::Native);
        int_lower(x(), y(), BoolDType::Native);
        int_lower_equal_elem(x(), 4.into(), BoolDType::Native);
        int_sum(x());
        int_sum_dim(x(), 1);
        int_prod(x());
        int_mean(x());
        int_mean_dim(x(), 0);
        int_max(x());
        int_min_dim(x(), 1);
        int_max_abs(x());
        int_argmax(x(), 1);
        int_argmin(x(), 0);
        int_any(x(), BoolDType::Native);
        int_all_dim(x(), 1, BoolDType::U8);
        int_cumsum(x(), 1);
        int_cumprod(x(), 1);
        int_cummin(x(), 0);
        int_cummax(x(), 1);
        int_sort(x(), 1, true);
        int_argsort(x(), 1, false);
        int_topk(x(), 1, 2);
        int_argtopk(x(), 1, 2);
        bitwise_or_scalar(x(), 6.into());
        bitwise_xor_scalar(x(), 6.into());
        int_all(x(), BoolDType::Native);
        int_any_dim(x(), 0, BoolDType::Native);
        int_clamp_max(x(), 7.into());
        int_clamp_min(x(), 3.into());
        int_empty(Shape::new([0, 2]), device, named);
        int_expand(Flex::int_slice(x(), &[Slice::new(0, Some(1), 1)]), Shape::new([3, 4]));
        int_from_data(block_on(Flex::int_into_data(y())).unwrap(), device);
        int_gather_nd(x(), indices(&[2, 1, 0, 3], &[2, 2]));
        int_scatter_nd(x(), indices(&[2, 0], &[2, 1]), Flex::int_slice(y(), &[Slice::new(0, Some(2), 1)]), IndexingUpdateOp::Mul);
        int_greater_elem(x(), 4.into(), BoolDType::U8);
        int_greater_equal_elem(x(), 4.into(), BoolDType::Native);
        int_lower_elem(x(), 4.into(), BoolDType::Native);
        int_lower_equal(x(), y(), BoolDType::Native);
        int_not_equal_elem(x(), 4.into(), BoolDType::Native);
        int_max_abs_dim(x(), 1);
        int_max_dim(x(), 0);
        int_min(x());
        int_permute(x(), &[1, 0]);
        int_swap_dims(x(), 0, 1);
        int_powi_scalar_impl(x(), 2.into());
        int_prod_dim(x(), 1);
        int_slice_assign(x(), &[Slice::new(1, Some(3), 1), Slice::new(0, None, 1)], Flex::int_slice(y(), &[Slice::new(0, Some(2), 1)]));
        int_sub_scalar(x(), 3.into());
        int_to_device(x(), device);
        int_unfold(x(), 1, 2, 1);
    }
    pairs! { log, dtype.name(),
        int_max_dim_with_indices(x(), 1);
        int_min_dim_with_indices(x(), 0);
        int_sort_with_indices(x(), 1, true);
    }
}

fn bools(log: &mut Log, store: BoolStore, named: BoolDType) {
    let x = || Flex::float_greater_elem(tensor(&[3, 4], DType::F32), 1.into(), named);
    let y = || Flex::float_lower_elem(tensor(&[3, 4], DType::F32), 2.into(), named);
    let of = DType::Bool(store).name();
    let device = &FlexDevice;
    calls! { log, of,
        bool_zeros(Shape::new([2, 3]), device, named);
        bool_ones(Shape::new([2, 3]), device, named);
        bool_into_int(x(), IntDType::I32);
        bool_into_float(x(), FloatDType::BF16);
        bool_reshape(x(), Shape::new([12]));
        bool_transpose(x());
        bool_cat(vec![x(), y()], 0);
        bool_repeat_dim(x(), 1, 2);
        bool_mask_where(x(), y(), y());
        bool_mask_fill(x(), y(), 1.into());
        bool_gather(0, x(), indices(&[2, 0, 1, 1], &[1, 4]));
        bool_scatter_or(0, x(), indices(&[2, 0, 1, 1], &[1, 4]), Flex::bool_slice(y(), &[Slice::new(0, Some(1), 1)]));
        bool_select(x(), 1, indices(&[2, 0], &[2]));
        bool_not(x());
        bool_and(x(), y());
        bool_or(x(), y());
        bool_xor(x(), y());
        bool_equal(x(), y());
        bool_not_equal(x(), y());
        bool_equal_elem(x(), 1.into());
        bool_any(x());
        bool_any_dim(x(), 1);
        bool_all(x());
        bool_all_dim(x(), 0);
        bool_empty(Shape::new([0, 2]), device, named);
        bool_expand(Flex::bool_slice(x(), &[Slice::new(0, Some(1), 1)]), Shape::new([3, 4]));
        bool_flip(x(), &[1]);
        bool_from_data(block_on(Flex::bool_into_data(x())).unwrap(), device);
        bool_not_equal_elem(x(), 1.into());
        bool_permute(x(), &[1, 0]);
        bool_select_or(x(), 0, indices(&[2, 0], &[2]), Flex::bool_slice(y(), &[Slice::new(0, Some(2), 1)]));
        bool_slice_assign(x(), &[Slice::new(1, Some(3), 1)], Flex::bool_slice(y(), &[Slice::new(0, Some(2), 1)]));
        bool_swap_dims(x(), 0, 1);
        bool_to_device(x(), device);
        bool_unfold(x(), 1, 2, 1);
    }
    record(log, format!("bool_argwhere, {of}"), || text(block_on(Flex::bool_argwhere(x(), IntDType::I16))));
}

/// Tensors of every kind, read together.
fn transaction(log: &mut Log) {
    record(log, "tr_execute".into(), || {
        let x = || tensor(&[2, 3], DType::F32);
        let read = block_on(Flex::tr_execute(TransactionPrimitive::new(
            vec![x()],
            vec![],
            vec![indices(&[1, 2], &[2])],
            vec![Flex::float_greater_elem(x(), 1.into(), BoolDType::Native)],
        )));
        let read = read.unwrap();
        let bytes =
            |data: &[TensorData]| data.iter().map(|data| data.as_bytes().to_vec()).collect::<Vec<_>>();
        format!("{:?} {:?} {:?}", bytes(&read.read_floats), bytes(&read.read_ints), bytes(&read.read_bools))
    });
}

/// Every one of these is refused.
fn malformed(log: &mut Log) {
    let x = || tensor(&[3, 4], DType::F32);
    let int = || indices(&[1, 2, 3, 4], &[2, 2]);
    let picture = || tensor(&[1, 4, 6, 5], DType::F32);
    let device = &FlexDevice;
    let mut calls = Log::new();
    let list = &mut calls;
    calls! { list, "refused",
        float_zeros(Shape::new([usize::MAX, 2]), device, FloatDType::F32);
        float_zeros(Shape::new([2]), device, FloatDType::Flex32);
        float_reshape(x(), Shape::new([5]));
        float_slice(x(), &[Slice::new(0, None, 1); 3]);
        float_transpose(tensor(&[3], DType::F32));
        float_permute(x(), &[0, 0]);
        float_expand(x(), Shape::new([3, 5]));
        float_cat(vec![x(), tensor(&[2, 2], DType::F32)], 0);
        float_add(x(), tensor(&[5, 4], DType::F32));
        float_add(x(), tensor(&[3, 4], DType::F64));
        float_matmul(x(), x());
        float_gather(5, x(), int());
        float_gather(0, x(), indices(&[7], &[1, 1]));
        float_select(x(), 0, indices(&[3], &[1]));
        float_sum_dim(x(), 2);
        float_argmax(x(), 2, IntDType::I64);
        float_sort(x(), 2, true);
        float_topk(x(), 1, 5);
        float_mask_where(x(), x(), x());
        float_equal(x(), x(), BoolDType::U32);
        softmax(x(), 2);
        int_add(int(), x());
        bitwise_and(x(), x());
        conv2d(picture(), tensor(&[4, 3, 3, 3], DType::F32), None, ConvOptions::new([1; 2], [0; 2], [1; 2], 1));
        max_pool2d(picture(), [9, 9], [1, 1], [0, 0], [1, 1], false);
        adaptive_avg_pool2d(x(), [1, 1]);
        layer_norm(x(), tensor(&[3], DType::F32), None, 1e-5);
        embedding(x(), indices(&[9], &[1, 1]));
    }
    log.extend(calls.into_iter().map(|(name, returned)| (format!("malformed: {name}"), returned)));
}
