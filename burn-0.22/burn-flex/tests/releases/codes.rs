//! Quantized tensors, of one scale and of blocks.

use super::super::burn_backend::ops::QTensorOps;
use super::super::burn_backend::quantization::{QuantScheme, QuantStore, QuantValue};
use super::super::burn_backend::{TensorMetadata, TensorPrimitive};
use super::super::{blocks, parameters};
use super::*;

/// A result that is quantized or not.
fn of_either(result: TensorPrimitive<Flex>) -> String {
    match result {
        TensorPrimitive::Float(tensor) => text(tensor),
        TensorPrimitive::QFloat(tensor) => text(Flex::dequantize(tensor, FloatDType::F32)),
    }
}

/// Calls that return a float tensor or a quantized one.
macro_rules! either {
    ($log:ident, $of:expr, $($method:ident($($arg:expr),* $(,)?);)*) => {$(
        record($log, format!("{}, {}", stringify!($method($($arg),*)), $of), || of_either(Flex::$method($($arg),*)));
    )*};
}

/// Calls of the methods of quantized tensors.
pub fn log(log: &mut Log, dtype: DType, named: FloatDType) {
    let native = || QuantScheme::default().with_store(QuantStore::Native);
    let schemes = [
        ("one scale", native()),
        ("blocks", blocks(native().with_value(QuantValue::Q8S), 4)),
        ("tiny floats", native().with_value(QuantValue::E4M3)),
        ("packed", QuantScheme::default().with_value(QuantValue::Q4S)),
    ];
    for (of, scheme) in schemes {
        let of = format!("{}, {of}", dtype.name());
        let x = || Flex::quantize_dynamic(tensor(&[4, 8], dtype), &scheme);
        let y = || Flex::q_flip(x(), &[0]);
        let scales = || tensor(&[if of.ends_with("blocks") { 8 } else { 1 }], dtype);
        let rows = || indices(&[3, 1], &[2]);
        let device = &FlexDevice;
        calls! { log, of,
            dequantize(x(), named);
            dequantize(Flex::quantize(tensor(&[4, 8], dtype), &scheme, parameters(scales())), named);
            dequantize(Flex::q_from_data(block_on(Flex::q_into_data(x())).unwrap(), device), named);
            dequantize(Flex::q_to_device(x(), device), named);
            dequantize(Flex::q_detach(x()), named);
            dequantize(Flex::q_set_require_grad(x(), false), named);
            dequantize(Flex::q_transpose(x()), named);
            dequantize(Flex::q_swap_dims(x(), 0, 1), named);
            dequantize(Flex::q_permute(x(), &[1, 0]), named);
            dequantize(Flex::q_reshape(x(), Shape::new([8, 4])), named);
            dequantize(Flex::q_expand(x(), Shape::new([2, 4, 8])), named);
            dequantize(Flex::q_select(x(), 0, rows()), named);
            dequantize(Flex::q_gather(0, x(), indices(&[2; 8], &[1, 8])), named);
            dequantize(Flex::q_slice(x(), &[Slice::new(1, Some(3), 1), Slice::new(0, None, -1)]), named);
            dequantize(Flex::q_flip(x(), &[0]), named);
            dequantize(Flex::q_repeat_dim(x(), 1, 2), named);
            dequantize(Flex::q_cat(vec![x(), y()], 1), named);
            dequantize(Flex::q_abs(x()), named);
            dequantize(Flex::q_max(x()), named);
            dequantize(Flex::q_max_dim(x(), 1), named);
            dequantize(Flex::q_max_abs(x()), named);
            dequantize(Flex::q_max_abs_dim(x(), 0), named);
            dequantize(Flex::q_min(x()), named);
            dequantize(Flex::q_min_dim(x(), 0), named);
            dequantize(Flex::q_sort(x(), 1, true), named);
            dequantize(Flex::q_topk(x(), 1, 3), named);
            dequantize(Flex::q_max_dim_with_indices(x(), 1, IntDType::I32).0, named);
            dequantize(Flex::q_min_dim_with_indices(x(), 1, IntDType::I32).0, named);
            dequantize(Flex::q_sort_with_indices(x(), 1, false, IntDType::I32).0, named);
            q_argmax(x(), 1, IntDType::I32);
            q_argmin(x(), 0, IntDType::I64);
            q_argsort(x(), 1, false, IntDType::I32);
            q_argtopk(x(), 1, 3, IntDType::U8);
            q_all(x(), BoolDType::Native);
            q_all_dim(x(), 0, BoolDType::Native);
            q_any(x(), BoolDType::Native);
            q_any_dim(x(), 1, BoolDType::U8);
        }
        assert!(!Flex::q_is_require_grad(&x()));
        either! { log, of,
            q_add(x(), y());
            q_add_scalar(x(), 1.5.into());
            q_sub(x(), y());
            q_sub_scalar(x(), 1.5.into());
            q_mul(x(), y());
            q_mul_scalar(x(), 1.5.into());
            q_div(x(), y());
            q_div_scalar(x(), 1.5.into());
            q_clamp(x(), 0.5.into(), 2.into());
            q_clamp_min(x(), 0.5.into());
            q_clamp_max(x(), 2.into());
            q_neg(x());
            q_recip(x());
            q_exp(x());
            q_log(x());
            q_log1p(x());
            q_sqrt(x());
            q_erf(x());
            q_sin(x());
            q_cos(x());
            q_tan(x());
            q_sinh(x());
            q_cosh(x());
            q_tanh(x());
            q_powf(x(), y());
            q_powf_scalar(x(), 1.5.into());
            q_powi(x(), Flex::float_into_int(tensor(&[4, 8], dtype), IntDType::I32));
            q_powi_scalar(x(), 2.into());
            q_sum(x());
            q_sum_dim(x(), 1);
            q_mean(x());
            q_mean_dim(x(), 0);
            q_prod(x());
            q_prod_dim(x(), 1);
            q_cumsum(x(), 1);
            q_cumprod(x(), 0);
            q_cummin(x(), 1);
            q_cummax(x(), 1);
            q_matmul(TensorPrimitive::QFloat(x()), TensorPrimitive::QFloat(Flex::q_transpose(y())));
        }
        assert_eq!(x().rank(), 2);
    }
}
