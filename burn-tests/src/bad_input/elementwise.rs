//! Elementwise operations: shapes that do not broadcast, operands of different dtypes.

use super::{BadCall, calls};
use burn_backend::{Backend, BoolStore, DType, Shape};

pub fn calls<B: Backend>() -> Vec<BadCall<B>> {
    let mut list = Vec::new();
    macro_rules! floats {
        ($($operation:literal: $method:ident;)*) => {$(
            calls!(list, t,
                $operation, "sizes that differ": $method(t.f(&[2, 3]), t.f(&[2, 4]));
                $operation, "ranks and sizes that differ": $method(t.f(&[2, 3]), t.f(&[2]));
                $operation, "another dtype": $method(t.f(&[2, 3]), t.float(DType::F64, &[2, 3]));
            );
        )*};
    }
    floats! {
        "add": float_add;
        "sub": float_sub;
        "mul": float_mul;
        "div": float_div;
        "remainder": float_remainder;
        "pow": float_powf;
        "atan2": float_atan2;
        "relu_backward": relu_backward;
        "gelu_backward": gelu_backward;
        "sigmoid_backward": sigmoid_backward;
        "log_sigmoid_backward": log_sigmoid_backward;
        "prelu": prelu;
    }
    macro_rules! ints {
        ($($operation:literal: $method:ident;)*) => {$(
            calls!(list, t,
                $operation, "sizes that differ": $method(t.ints(&[2, 3], &[1, 2]), t.ints(&[2, 4], &[3, 1]));
                $operation, "an axis of no elements": $method(t.ints(&[2, 3], &[1, 2]), t.i(&[2, 0]));
                $operation, "another dtype": $method(t.ints(&[2, 3], &[1, 2]), t.int(DType::U8, &[2, 3], &[1]));
            );
        )*};
    }
    ints! {
        "add": int_add;
        "sub": int_sub;
        "mul": int_mul;
        "div": int_div;
        "remainder": int_remainder;
        "bitwise_and": bitwise_and;
        "bitwise_or": bitwise_or;
        "bitwise_xor": bitwise_xor;
        "bitwise_left_shift": bitwise_left_shift;
        "bitwise_right_shift": bitwise_right_shift;
    }
    calls!(list, t,
        "pow", "sizes that differ": float_powi(t.f(&[2, 3]), t.i(&[2, 4]));
        "pow", "sizes that differ": int_powi(t.i(&[2, 3]), t.i(&[2, 4]));
        "prelu", "a slope larger than the input": prelu(t.f(&[1, 3]), t.f(&[2, 3]));
        "clamp", "a bound of NaN for integers": int_clamp(t.i(&[3]), f64::NAN.into(), 3.into());
        "clamp", "a bound of NaN for integers": int_clamp_min(t.i(&[3]), f64::NAN.into());
        "clamp", "a bound of NaN for integers": int_clamp_max(t.i(&[3]), f64::NAN.into());
        "add", "a shape that overflows": float_add(
            B::float_expand(t.f(&[1, 1]), Shape::new([1 << 40, 1])), B::float_expand(t.f(&[1, 1]), Shape::new([1, 1 << 40])));
        "equal", "a shape that overflows": int_equal(
            B::int_expand(t.i(&[1, 1]), Shape::new([1 << 40, 1])), B::int_expand(t.i(&[1, 1]), Shape::new([1, 1 << 40])),
            BoolStore::Native);
    );

    macro_rules! comparisons {
        ($($operation:literal: $float:ident, $int:ident;)*) => {$(
            calls!(list, t,
                $operation, "sizes that differ": $float(t.f(&[2, 3]), t.f(&[3, 3]), BoolStore::Native);
                $operation, "another dtype":
                    $float(t.f(&[2, 3]), t.float(DType::F16, &[2, 3]), BoolStore::Native);
                $operation, "sizes that differ": $int(t.i(&[2, 3]), t.i(&[2]), BoolStore::U8);
                $operation, "another dtype":
                    $int(t.i(&[2, 3]), t.int(DType::I64, &[2, 3], &[1]), BoolStore::Native);
            );
        )*};
    }
    comparisons! {
        "equal": float_equal, int_equal;
        "not_equal": float_not_equal, int_not_equal;
        "greater": float_greater, int_greater;
        "greater_equal": float_greater_equal, int_greater_equal;
        "lower": float_lower, int_lower;
        "lower_equal": float_lower_equal, int_lower_equal;
    }
    calls!(list, t,
        "logical_and", "sizes that differ": bool_and(t.b(&[2, 3]), t.b(&[2, 4]));
        "logical_or", "sizes that differ": bool_or(t.b(&[2, 3]), t.b(&[3, 3]));
        "logical_xor", "sizes that differ": bool_xor(t.b(&[2, 3]), t.b(&[2]));
        "equal", "sizes that differ": bool_equal(t.b(&[2, 3]), t.b(&[2, 4]));
        "not_equal", "sizes that differ": bool_not_equal(t.b(&[2, 3]), t.b(&[2, 4]));
    );

    // A store that some backends support, and others must refuse.
    let first = list.len();
    calls!(list, t,
        "equal", "an unknown store": float_equal(t.f(&[2]), t.f(&[2]), BoolStore::U32);
        "not_equal", "an unknown store": float_not_equal_elem(t.f(&[2]), 1.0.into(), BoolStore::U32);
        "greater", "an unknown store": int_greater(t.i(&[2]), t.i(&[2]), BoolStore::U32);
        "lower", "an unknown store": int_lower_elem(t.i(&[2]), 1.into(), BoolStore::U32);
        "is_nan", "an unknown store": float_is_nan(t.f(&[2]), BoolStore::U32);
        "is_inf", "an unknown store": float_is_inf(t.f(&[2]), BoolStore::U32);
    );
    list[first..].iter_mut().for_each(|call| call.legal_with = Some(DType::Bool(BoolStore::U32)));
    list
}
